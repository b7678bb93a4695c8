package sidestep;

import java.io.File;
import java.io.FileOutputStream;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.QueryExecution;

/**
 * Appends a line of JSON to a file for each query that ran in a session and read a table: when, how long, how much, its
 * text if it was SQL, and its optimized plan. Called after the query, from Spark's listener thread: whatever goes wrong
 * here is noted and harms no query.
 */
public final class Recorder implements org.apache.spark.sql.util.QueryExecutionListener {
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

  /** Loses the file, as a full or vanished disk does. */
  public void closeFile() throws Exception {
    file.close();
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
      if (problem.isEmpty()) FileIndexes.LOG.warn("sidestep could not record a query", cause);
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
    StringBuilder out = new StringBuilder("{\"recording\":1,\"time\":");
    out.append(String.format(java.util.Locale.ROOT, "%.3f",
        new Object[] {Double.valueOf(System.currentTimeMillis() / 1e3 - seconds)}));
    out.append(",\"seconds\":").append(String.format(java.util.Locale.ROOT, "%.6f", new Object[] {Double.valueOf(seconds)}));
    out.append(",\"rows\":").append(rows).append(",\"bytes\":").append(bytes).append(",\"user\":");
    PlanWriter.quote(session.sparkContext().sparkUser(), out);
    scala.Option text = execution.logical().origin().sqlText();
    if (text.isDefined()) {
      out.append(",\"sql\":");
      PlanWriter.quote((String) text.get(), out);
    }
    return out.append(",\"plan\":").append(new PlanWriter(plan, true).text()).append("}\n").toString();
  }

  private static long metric(FileSourceScanExec scan, String name) {
    scala.Option found = scan.metrics().get(name);
    if (!found.isDefined()) return 0;
    return Math.max(0, ((Number) ((org.apache.spark.util.AccumulatorV2) found.get()).value()).longValue());
  }

  /** Whether some leaf, in a subquery or not, is stored data: commands and queries about nothing say nothing. */
  private static boolean readsATable(LogicalPlan plan) {
    List leaves = FileIndexes.list(plan.collectLeaves());
    for (int i = 0; i < leaves.size(); i++) {
      String kind = leaves.get(i).getClass().getSimpleName();
      if (kind.endsWith("Relation") && !kind.equals("LocalRelation") && !kind.equals("OneRowRelation")) return true;
    }
    List subqueries = FileIndexes.list(plan.subqueriesAll());
    for (int i = 0; i < subqueries.size(); i++) if (readsATable((LogicalPlan) subqueries.get(i))) return true;
    return false;
  }
}
