package sidestep;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/** The rule that Spark's optimizer runs last: asks Python about the plan, and swaps the file indexes it may prune. */
public final class PruneRule extends org.apache.spark.sql.catalyst.rules.Rule {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");

  private final java.util.function.Function python;
  /** Of type FileKeys, by the id of the index. */
  private final java.util.concurrent.ConcurrentHashMap keys = new java.util.concurrent.ConcurrentHashMap();
  /** Of type LogicalRelation: denormalized tables, by the id that answers call them by. */
  private final java.util.concurrent.ConcurrentHashMap relations = new java.util.concurrent.ConcurrentHashMap();
  /** What plans the scans that the rule has changed. */
  final RowGroupStrategy strategy = new RowGroupStrategy();
  private final ThreadLocal last = new ThreadLocal();
  private final java.util.concurrent.atomic.AtomicLong worked = new java.util.concurrent.atomic.AtomicLong();
  /** Of type PlanWriter: the plans that Python is being asked about, by the number they were sent with. */
  private final java.util.concurrent.ConcurrentHashMap asked = new java.util.concurrent.ConcurrentHashMap();
  private volatile boolean enabled = true;
  private volatile String problem = "";

  public PruneRule(java.util.function.Function python) {
    this.python = python;
  }

  public String ruleName() {
    return "sidestep.PruneRule";
  }

  public long timesWorked() {
    return worked.get();
  }

  /** What went wrong last in the rule, or nothing. */
  public String lastProblem() {
    return problem;
  }

  boolean isEnabled() {
    return enabled;
  }

  public void setEnabled(boolean on) {
    enabled = on;
  }

  public void putKeys(String id, String root, String paths, String numbers, String footers) {
    keys.put(id, new FileKeys(id, root, new Wire.Files(paths, numbers), java.util.Base64.getDecoder().decode(footers)));
  }

  /** The same of all files that a table had: what lists others, or fewer, is not that table. */
  public void putTable(String id, String root, String paths, String numbers, String reading) {
    FileKeys all = new FileKeys(id, root, new Wire.Files(paths, numbers), new byte[0]);
    all.all = true;
    all.reading = reading;
    keys.put(id, all);
  }

  public void putRelation(String id, LogicalPlan relation) {
    relations.put(id, relation);
  }

  public void dropRelation(String id) {
    relations.remove(id);
  }

  LogicalRelation relationOf(String id) {
    return (LogicalRelation) relations.get(id);
  }

  FileKeys keysOf(String id) {
    return (FileKeys) keys.get(id);
  }

  public void dropKeys(String id) {
    keys.remove(id);
  }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = (LogicalPlan) tree;
    // Subqueries come by on their own first; the outermost call sees them again, with all that surrounds them.
    if (!enabled || plan instanceof Subquery) return plan;
    java.lang.ref.WeakReference previous = (java.lang.ref.WeakReference) last.get();
    if (previous != null && previous.get() == plan) return plan;
    LogicalPlan result = reconstruct(prune(plan));
    if (result != plan) last.set(new java.lang.ref.WeakReference(result));
    return result;
  }

  private LogicalPlan prune(LogicalPlan plan) {
    try {
      if (plan.isStreaming()) return plan;
      if (!"true".equalsIgnoreCase(plan.conf().getConfString("spark.sidestep.enabled", "true"))) return plan;
      PlanWriter writer = new PlanWriter(plan, true, true, true);
      if (writer.candidates == 0) return plan;
      Wire.Answers answers = ask(plan, writer, settings(plan));
      LogicalPlan joined = plan;
      if (!answers.denormalized.isEmpty()) {
        joined = denormalize(plan, writer, answers);
        writer = new PlanWriter(joined, true, true, true);
        answers = ask(joined, writer, settings(joined) + "\tstages.denormalized=false");
      }
      LogicalPlan result = replace(joined, writer, answers);
      last.set(new java.lang.ref.WeakReference(result));
      return result;
    } catch (TimedCall.Late late) {
      problem = late.getMessage();
      LOG.warn("sidestep left a query as it was: {}", problem);
      return plan;
    } catch (Throwable cause) {
      problem = cause.toString();
      LOG.warn("sidestep left a query as it was because its rule failed", cause);
      return plan;
    }
  }

  private Wire.Answers ask(LogicalPlan plan, PlanWriter writer, String settings) {
    String number = Long.toString(worked.incrementAndGet());
    asked.put(number, writer);
    try {
      String reply = TimedCall.ask(python, "plan\t" + number + "\t" + settings, writer.text(), seconds(plan));
      return Wire.answers(writer.withKeys(reply));
    } finally {
      asked.remove(number);
    }
  }

  /** The plan with denormalized tables in the place of joins; as it is if that does not work out. */
  private LogicalPlan denormalize(LogicalPlan plan, PlanWriter writer, Wire.Answers answers) {
    try {
      LogicalPlan result = new Denormalization(this, writer, answers.denormalized).of(plan);
      if (result.resolved() && result.outputSet().equals(plan.outputSet())) return result;
      throw new IllegalStateException("it would give " + result.output() + " in place of " + plan.output());
    } catch (Throwable cause) {
      problem = cause.toString();
      LOG.warn("sidestep left the joins of a query as they were", cause);
      return plan;
    }
  }

  /** What denormalized tables stand for in a plan, one note a line. */
  public String denormalized(LogicalPlan plan) {
    ArrayList notes = new ArrayList();
    Denormalization.notes(plan, notes);
    return String.join("\n", notes);
  }

  /** The plan as the rule writes it, but with the keys of scans as they are. */
  public String describeUsed(LogicalPlan plan) {
    return new PlanWriter(plan, true, true, false).text();
  }

  /** The plan with tables in column groups put together, whether or not anything of them is skipped. */
  private LogicalPlan reconstruct(LogicalPlan plan) {
    try {
      LogicalPlan result = new Reconstruction(plan.conf(), false).of(plan);
      if (result.outputSet().equals(plan.outputSet())) return result;
      throw new IllegalStateException("it would give " + result.output() + " in place of " + plan.output());
    } catch (Throwable cause) {
      problem = cause.toString();
      LOG.warn("sidestep could not put together the column groups of a table; the query will fail", cause);
      return plan;
    }
  }

  /** How long a plan may wait for its answer. */
  private static double seconds(LogicalPlan plan) {
    String text = plan.conf().getConfString("spark.sidestep.seconds", "");
    try {
      // A value that makes no sense is warned of where settings are read, in Python; the usual limit holds.
      double seconds = text.isEmpty() ? TimedCall.SECONDS : Double.parseDouble(text);
      return seconds > 0 ? seconds : TimedCall.SECONDS;
    } catch (NumberFormatException unread) {
      return TimedCall.SECONDS;
    }
  }

  /** The session's settings that begin with spark.sidestep., without that: name=value, tab-separated. */
  public String settings(LogicalPlan plan) {
    StringBuilder text = new StringBuilder();
    java.util.Map all = scala.jdk.javaapi.CollectionConverters.asJava(plan.conf().getAllConfs());
    java.util.TreeMap ours = new java.util.TreeMap();
    for (java.util.Iterator it = all.entrySet().iterator(); it.hasNext();) {
      Map.Entry each = (Map.Entry) it.next();
      if (((String) each.getKey()).startsWith("spark.sidestep.")) ours.put(each.getKey(), each.getValue());
    }
    for (java.util.Iterator it = ours.entrySet().iterator(); it.hasNext();) {
      Map.Entry each = (Map.Entry) it.next();
      String name = (String) each.getKey();
      text.append(text.length() == 0 ? "" : "\t").append(name.substring(15)).append('=');
      text.append(((String) each.getValue()).replaceAll("\\s", " "));
    }
    return text.toString();
  }

  /**
   * Of a plan that Python is being asked about, which scans have an entry for each file; see completeIn. Whether the
   * files are still those that were listed is not looked at here, but by the witnesses of the plan: when it lists them.
   */
  public String complete(String number, String scans) {
    PlanWriter writer = (PlanWriter) asked.get(number);
    return writer == null ? "" : complete(writer.leaves, writer.conf, writer.withKeys(scans), false);
  }

  /**
   * Which scans of a plan have, in the indexes named, an entry for the present version of every file: the reply has a 1
   * or a 0 for each.
   */
  public String completeIn(LogicalPlan plan, String question) {
    HashMap leaves = new HashMap();
    collectLeaves(plan, leaves);
    return complete(leaves, plan.conf(), question, true);
  }

  private String complete(Map leaves, org.apache.spark.sql.internal.SQLConf conf, String question, boolean look) {
    StringBuilder reply = new StringBuilder();
    // A table that is read at many places is looked at once: its relation's listing is the same object at all of them.
    IdentityHashMap looked = new IdentityHashMap();
    boolean byFooter = Footers.wanted(conf);
    String[][] scans = Wire.scans(question);
    for (int i = 0; i < scans.length; i++) {
      List locations = (List) leaves.get(scans[i][0]);
      FileKeys[] known = known(scans[i]);
      boolean complete = locations != null && known != null;
      // What takes the place of whole tables cannot be taken back once the query runs, so it rests on a look.
      boolean lookNow = look;
      for (int k = 0; complete && k < known.length; k++) {
        complete = !known[k].all || known[k].reading.equals(ValueSettings.ofReading(conf));
        lookNow |= known[k].all;
      }
      for (int l = 0; complete && l < locations.size(); l++) {
        FileIndex base = PrunedFiles.unwrap((FileIndex) locations.get(l));
        if (!looked.containsKey(base)) looked.put(base, new HashMap());
        Map by = (Map) looked.get(base);
        List ids = java.util.Arrays.asList(scans[i]).subList(1, scans[i].length);
        if (!by.containsKey(ids)) {
          boolean covered = lookNow ? FileKeys.cover(base, known, byFooter) : FileKeys.coverAsKnown(base, known);
          by.put(ids, Boolean.valueOf(covered));
        }
        complete = ((Boolean) by.get(ids)).booleanValue();
      }
      reply.append(complete ? '1' : '0');
    }
    return reply.toString();
  }

  private static void collectLeaves(LogicalPlan put, Map leaves) {
    LogicalPlan plan = Reconstruction.original(put);
    if (PlanWriter.isFileRelation(plan)) {
      LogicalRelation leaf = (LogicalRelation) plan;
      String ids = PlanWriter.outputIds(leaf);
      if (!leaves.containsKey(ids)) leaves.put(ids, new ArrayList());
      ((List) leaves.get(ids)).add(((HadoopFsRelation) leaf.relation()).location());
    }
    if (IcebergScan.is(plan)) {
      String ids = PlanWriter.outputIds(plan);
      if (!leaves.containsKey(ids)) leaves.put(ids, new ArrayList());
      ((List) leaves.get(ids)).add(new IcebergFiles(IcebergScan.original(((DataSourceV2ScanRelation) plan).scan())));
    }
    List children = Scala.list(plan.children());
    for (int i = 0; i < children.size(); i++) collectLeaves((LogicalPlan) children.get(i), leaves);
    List inside = PlanWriter.subqueries(plan);
    for (int i = 0; i < inside.size(); i++) collectLeaves((LogicalPlan) inside.get(i), leaves);
  }

  /** What the answers rest on beyond the files that they skip. */
  private Witnesses witnesses(PlanWriter writer, Wire.Answers answers) {
    Witnesses witnesses = new Witnesses(Footers.wanted(writer.conf));
    for (int i = 0; i < answers.witnesses.size(); i++) {
      String[] scan = (String[]) answers.witnesses.get(i);
      List locations = (List) writer.leaves.get(scan[0]);
      FileKeys[] known = known(scan);
      for (int l = 0; locations != null && l < locations.size(); l++) {
        witnesses.add(PrunedFiles.unwrap((FileIndex) locations.get(l)), known);
      }
    }
    return witnesses;
  }

  /** The indexes of a scan in a question about coverage; null if one of them is known no longer. */
  private FileKeys[] known(String[] scan) {
    FileKeys[] known = new FileKeys[scan.length - 1];
    for (int k = 0; k < known.length; k++) {
      known[k] = (FileKeys) keys.get(scan[k + 1]);
      if (known[k] == null) return null;
    }
    return known;
  }

  /** What is skipped of a scan, by the indexes that are still known. */
  List skips(Wire.Answer answer) {
    ArrayList skips = new ArrayList();
    for (int i = 0; i < answer.skipped.size(); i++) {
      Wire.Skipped skipped = (Wire.Skipped) answer.skipped.get(i);
      FileKeys known = (FileKeys) keys.get(skipped.keys);
      // Gone: a newer index took its place while Python was answering. The next query has that one.
      if (known == null) continue;
      skips.add(new PrunedFiles.Skip(known, skipped.files, skipped.ownFiles, skipped.blocks, skipped.ownBlocks,
          skipped.groups, skipped.ownGroups));
    }
    return skips;
  }

  private LogicalPlan replace(LogicalPlan plan, PlanWriter writer, Wire.Answers answers) {
    if (answers.byScan.isEmpty()) return plan;
    Replacement replacement =
        new Replacement(this, writer, answers, witnesses(writer, answers), plan, python, seconds(plan));
    LogicalPlan result = replacement.of(plan);
    if (!replacement.changed) return plan;
    if (!result.resolved() || !result.outputSet().equals(plan.outputSet())) {
      LOG.warn("sidestep discarded its plan because it did not resolve to the same output");
      return plan;
    }
    return result;
  }
}
