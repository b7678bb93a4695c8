package sidestep;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Brings a rule to every session that is made from the same extensions: by newSession(), for a client of a Thrift or of a
 * Connect server, as a copy of another.
 *
 * Extensions are shared by these sessions, and asked for their rules when a session's state is made. What they are given
 * is a rule of plan normalization, since Spark runs those on every plan in the session that runs it, after analysis and
 * before the optimizer lists its rules: so the first query of a session is pruned already. It changes no plan. Extensions
 * cannot be taken back, so they are given one such rule for good, which does nothing while there is nothing to bring.
 *
 * Sessions are held weakly: one that is closed goes, whatever was brought to it.
 */
public final class EverySession extends scala.runtime.AbstractFunction1 {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");
  /** Of type EverySession, by extensions. */
  private static final Map ALL = new WeakHashMap();

  /** Sessions that something was brought to, and those that want nothing. */
  private final Set brought = Collections.newSetFromMap(new WeakHashMap());
  private final Set leftOut = Collections.newSetFromMap(new WeakHashMap());
  private volatile PruneRule rule;
  private volatile Recorder recorder;

  private EverySession() {}

  /** Bring the rule, and the recorder if there is one, to the sessions that are made from now on. */
  static void start(SparkSession session, PruneRule rule, Recorder recorder) {
    bringFrom(session, rule, recorder);
    // Servers make their sessions from the default one, which may have been built with extensions of its own.
    scala.Option base = SparkSession.getDefaultSession();
    if (base.isDefined()) bringFrom((SparkSession) base.get(), rule, recorder);
  }

  private static void bringFrom(SparkSession session, PruneRule rule, Recorder recorder) {
    EverySession every;
    synchronized (ALL) {
      every = (EverySession) ALL.get(session.extensions());
      if (every == null) {
        every = new EverySession();
        session.extensions().injectPlanNormalizationRule(every);
        TableFunction.addTo(session.extensions());
        ALL.put(session.extensions(), every);
      }
    }
    every.change(rule, recorder);
  }

  /** Take the rule out of all sessions that it was brought to. */
  static void stop(PruneRule rule) {
    List all;
    synchronized (ALL) {
      all = new ArrayList(ALL.values());
    }
    for (int i = 0; i < all.size(); i++) {
      EverySession every = (EverySession) all.get(i);
      if (every.rule == rule) every.change(null, null);
    }
  }

  /** Bring nothing to this session, and take out what was brought. */
  static void leaveOut(SparkSession session) {
    EverySession every = of(session);
    if (every != null) every.leave(session);
  }

  /** Whether the session has the rule, or will have it once it plans a query, because it is brought to all. */
  static boolean covers(SparkSession session, PruneRule rule) {
    EverySession every = of(session);
    return every != null && every.rule == rule && every.reaches(session);
  }

  private static EverySession of(SparkSession session) {
    synchronized (ALL) {
      return (EverySession) ALL.get(session.extensions());
    }
  }

  /** Called by the extensions, while the state of a session is made. */
  public Object apply(Object session) {
    return new Messenger(this, (SparkSession) session);
  }

  private synchronized void change(PruneRule next, Recorder its) {
    PruneRule before = rule;
    Recorder recordedBy = recorder;
    rule = next;
    recorder = its;
    if (before == next && recordedBy == its) return;
    for (java.util.Iterator it = new ArrayList(brought).iterator(); it.hasNext();) {
      takeFrom((SparkSession) it.next(), before, recordedBy);
    }
    brought.clear();
  }

  private synchronized void leave(SparkSession session) {
    leftOut.add(session);
    if (brought.remove(session)) takeFrom(session, rule, recorder);
  }

  private synchronized boolean reaches(SparkSession session) {
    if (Inspector.hasRule(session, rule)) return true;
    if (leftOut.contains(session) || Inspector.ownRule(session) != null) return false;
    List rules = Scala.list(session.sessionState().planNormalizationRules());
    for (int i = 0; i < rules.size(); i++) {
      if (rules.get(i) instanceof Messenger && ((Messenger) rules.get(i)).every == this) return true;
    }
    return false;
  }

  /** The session is about to optimize a plan: see that it has what it is to have. */
  private void meet(SparkSession session) {
    PruneRule now = rule;
    if (now == null || Inspector.hasRule(session, now)) return;
    synchronized (this) {
      // One that has a rule of its own keeps that; one that was switched off is left over from a copied session.
      if (rule == null || leftOut.contains(session) || Inspector.ownRule(session) != null) return;
      Inspector.install(session, rule, true);
      if (recorder != null) recorder.listenTo(session);
      brought.add(session);
    }
  }

  private static void takeFrom(SparkSession session, PruneRule rule, Recorder recorder) {
    if (rule != null) Inspector.install(session, rule, false);
    if (recorder != null) recorder.leave(session);
  }

  /** What tells of each plan of one session. The session's own state holds it, and no one else. */
  private static final class Messenger extends org.apache.spark.sql.catalyst.rules.Rule {
    final EverySession every;
    private final SparkSession session;

    Messenger(EverySession every, SparkSession session) {
      this.every = every;
      this.session = session;
    }

    public String ruleName() {
      return "sidestep.EverySession";
    }

    public TreeNode apply(TreeNode plan) {
      try {
        every.meet(session);
      } catch (Throwable problem) {
        LOG.warn("sidestep could not be brought to a session: its queries read everything", problem);
      }
      return plan;
    }
  }
}
