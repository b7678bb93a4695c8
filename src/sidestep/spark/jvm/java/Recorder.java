package sidestep;

import java.io.File;
import java.io.FileOutputStream;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.QueryExecution;

/**
 * Appends a line of JSON to a file for each query that ran in a session, or in several, and read a table: when, how long, how much, its
 * text if it was SQL, and its optimized plan. Called after the query, from Spark's listener thread: whatever goes wrong
 * here is noted and harms no query.
 */
public final class Recorder implements org.apache.spark.sql.util.QueryExecutionListener {
  /** The format of a line, see docs/formats.md. */
  static final int FORMAT = 2;
  /** A longer text is cut: it is there for people, and some programs write megabytes of it. */
  private static final int MOST_TEXT = 100000;
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");

  private final SparkSession session;
  private final Inspector inspector = new Inspector();
  private final FileOutputStream file;
  private boolean open = true;
  private long records = 0;
  private long nanos = 0;
  private volatile String problem = "";

  public Recorder(SparkSession session, String path) throws Exception {
    this.session = session;
    File parent = new File(path).getAbsoluteFile().getParentFile();
    parent.mkdirs();
    file = new FileOutputStream(path, true);
  }

  public void start() {
    session.listenerManager().register(this);
  }

  /** Notes the queries of one more session; a copy of a session has the listeners of that one already. */
  void listenTo(SparkSession other) {
    synchronized (other) {
      other.listenerManager().unregister(this);
      other.listenerManager().register(this);
    }
  }

  void leave(SparkSession other) {
    other.listenerManager().unregister(this);
  }

  /** Ends the recording after the queries that have ended before it. */
  public void stop() throws Exception {
    try {
      session.sparkContext().listenerBus().waitUntilEmpty(10000);
    } catch (Exception late) {
      problem = "the last queries may be missing: " + late;
    }
    session.listenerManager().unregister(this);
    synchronized (this) {
      if (open) file.close();
      open = false;
    }
  }

  public synchronized long records() {
    return records;
  }

  /** Time spent on the records, all in all. */
  public synchronized long nanos() {
    return nanos;
  }

  public String lastProblem() {
    return problem;
  }

  public void onFailure(String action, QueryExecution execution, Exception failure) {}

  public void onSuccess(String action, QueryExecution execution, long duration) {
    long began = System.nanoTime();
    scala.Option active = SparkSession.getActiveSession();
    try {
      // The plan's identities depend on the session's settings, and this thread belongs to no session.
      SparkSession.setActiveSession(execution.sparkSession());
      LogicalPlan plan = execution.optimizedPlan();
      if (readsATable(plan)) write(line(plan, execution, duration), began);
    } catch (Throwable cause) {
      if (problem.isEmpty()) LOG.warn("sidestep could not record a query", cause);
      problem = cause.toString();
    } finally {
      if (active.isDefined()) SparkSession.setActiveSession((SparkSession) active.get());
      else SparkSession.clearActiveSession();
    }
  }

  private synchronized void write(String line, long began) throws Exception {
    if (!open) return;
    // One write to a file that is only appended to: lines of two recorders never mix, and none waits to be flushed.
    file.write(line.getBytes(java.nio.charset.StandardCharsets.US_ASCII));
    records++;
    nanos += System.nanoTime() - began;
  }

  private String line(LogicalPlan plan, QueryExecution execution, long duration) {
    long rows = 0;
    long bytes = 0;
    List scans = inspector.scans(execution.executedPlan());
    for (int i = 0; i < scans.size(); i++) {
      rows += metric((FileSourceScanExec) scans.get(i), "numOutputRows");
      bytes += metric((FileSourceScanExec) scans.get(i), "filesSize");
    }
    double seconds = duration / 1e9;
    Json out = new Json().open('{').key("recording").number(FORMAT);
    out.key("time").number(System.currentTimeMillis() / 1e3 - seconds, 3).key("seconds").number(seconds, 6);
    out.key("rows").number(rows).key("bytes").number(bytes);
    out.key("user").text(session.sparkContext().sparkUser());
    scala.Option text = execution.logical().origin().sqlText();
    if (text.isDefined()) {
      String sql = (String) text.get();
      out.key("sql").text(sql.length() > MOST_TEXT ? sql.substring(0, MOST_TEXT) + "..." : sql);
    }
    return out.key("plan").raw(new PlanWriter(plan, true, false, false).text()).close('}') + "\n";
  }

  private static long metric(FileSourceScanExec scan, String name) {
    scala.Option metric = scan.metrics().get(name);
    if (!metric.isDefined()) return 0;
    return Math.max(0, ((Number) ((org.apache.spark.util.AccumulatorV2) metric.get()).value()).longValue());
  }

  /** Whether some leaf, in a subquery or not, is stored data: commands and queries about nothing say nothing. */
  private static boolean readsATable(LogicalPlan plan) {
    List leaves = Scala.list(plan.collectLeaves());
    for (int i = 0; i < leaves.size(); i++) {
      String kind = leaves.get(i).getClass().getSimpleName();
      if (kind.endsWith("Relation") && !kind.equals("LocalRelation") && !kind.equals("OneRowRelation")) return true;
    }
    List subqueries = Scala.list(plan.subqueriesAll());
    for (int i = 0; i < subqueries.size(); i++) if (readsATable((LogicalPlan) subqueries.get(i))) return true;
    return false;
  }
}
