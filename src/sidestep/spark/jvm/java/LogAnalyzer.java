package sidestep;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.StructType;

/**
 * Statements as plans: parsed, analyzed and optimized as Spark would, on all cores, and never run. Tables are relations
 * of a schema without a file, in a copy of the session: its settings and functions are there, its views are not.
 */
public final class LogAnalyzer {
  private static final int SLICE = 50;
  /** A chain of thousands of ORs is deep, and Catalyst goes down it by recursion. */
  private static final long STACK = 256L << 20;
  /** As large as tables that are worth a layout: Spark must not plan around their being small. */
  private static final long TABLE_BYTES = 1L << 40;

  private final SparkSession session;
  private final HashMap qualified = new HashMap();
  private final java.util.concurrent.ExecutorService threads;
  private final ArrayDeque running = new ArrayDeque();

  public LogAnalyzer(SparkSession original, int cores) {
    session = original.cloneSession();
    // What sidestep would skip is no matter here; other rules of the session are part of how it understands queries.
    ArrayList rules = new ArrayList();
    List now = Scala.list(session.experimental().extraOptimizations());
    for (int i = 0; i < now.size(); i++) if (!(now.get(i) instanceof PruneRule)) rules.add(now.get(i));
    session.experimental().extraOptimizations_$eq(Scala.seq(rules.toArray()));
    EverySession.leaveOut(session);
    session.sessionState().catalog().clearTempTables();
    threads = java.util.concurrent.Executors.newFixedThreadPool(cores, new java.util.concurrent.ThreadFactory() {
      public Thread newThread(Runnable work) {
        Thread thread = new Thread(null, work, "sidestep-log-analyzer", STACK);
        thread.setDaemon(true);
        return thread;
      }
    });
  }

  /** A table of this schema, known by this name; its scans have the given root. */
  public void table(List name, String root, String schemaJson) {
    StructType schema = (StructType) org.apache.spark.sql.types.DataType$.MODULE$.fromJson(schemaJson);
    LogicalPlan leaf = new SnapshotFiles("schema of " + root, new Path(root), -1, new StructType(), new ArrayList(),
        TABLE_BYTES).relation(session, schema);
    if (name.size() > 1) {
      qualified.put(key(name), leaf);
    } else {
      String view = "`" + name.get(0).toString().replace("`", "``") + "`";
      org.apache.spark.sql.classic.Dataset.ofRows(session, leaf).createOrReplaceTempView(view);
    }
  }

  private String key(List name) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < name.size(); i++) text.append(name.get(i)).append('\0');
    return session.sessionState().conf().caseSensitiveAnalysis() ? text.toString()
        : text.toString().toLowerCase(java.util.Locale.ROOT);
  }

  /** Starts on statements separated by NUL; returns at once. The answers come from take, in the same order. */
  public void submit(String statements) {
    String[] all = statements.split("\0", -1);
    for (int start = 0; start < all.length; start += SLICE) {
      final String[] slice = (String[]) java.util.Arrays.copyOfRange(all, start, Math.min(all.length, start + SLICE));
      running.add(threads.submit(new java.util.concurrent.Callable() {
        public Object call() {
          return answers(slice);
        }
      }));
    }
  }

  /** The answers to the oldest statements that were submitted, up to a length, one a line; empty if there are none left. */
  public String take(int length) throws Exception {
    StringBuilder text = new StringBuilder();
    while (!running.isEmpty() && text.length() < length) {
      text.append((String) ((java.util.concurrent.Future) running.poll()).get());
    }
    return text.toString();
  }

  public void close() {
    threads.shutdownNow();
    session.sessionState().catalog().clearTempTables();
  }

  private String answers(String[] statements) {
    SparkSession.setActiveSession(session);
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < statements.length; i++) {
      int mark = text.length();
      try {
        text.append('+').append(describe(statements[i])).append('\n');
      } catch (Throwable problem) {
        text.setLength(mark);
        text.append('-').append(reason(problem)).append('\n');
      }
    }
    return text.toString();
  }

  private String describe(String sql) throws Exception {
    LogicalPlan parsed = readingPart(session.sessionState().sqlParser().parsePlan(sql));
    if (!qualified.isEmpty()) parsed = withTables(parsed);
    QueryExecution execution = session.sessionState().executePlan(parsed,
        org.apache.spark.sql.execution.CommandExecutionMode.SKIP());
    return new PlanWriter(execution.optimizedPlan(), true, false, false).text();
  }

  /** The query of a statement that reads and writes; a statement that only does something is refused. */
  private static LogicalPlan readingPart(LogicalPlan plan) {
    if (plan instanceof UnresolvedWith) {
      UnresolvedWith with = (UnresolvedWith) plan;
      LogicalPlan child = readingPart(with.child());
      return child == with.child() ? plan : new UnresolvedWith(child, with.cteRelations(), with.allowRecursion());
    }
    if (plan instanceof InsertIntoStatement) return ((InsertIntoStatement) plan).query();
    if (plan instanceof CreateTableAsSelect) return ((CreateTableAsSelect) plan).query();
    if (plan instanceof ReplaceTableAsSelect) return ((ReplaceTableAsSelect) plan).query();
    if (plan instanceof Command || plan instanceof ParsedStatement) throw new NotAQuery(plan.nodeName());
    return plan;
  }

  private LogicalPlan withTables(LogicalPlan plan) {
    return (LogicalPlan) plan.transformUpWithSubqueries(new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) {
        return node instanceof UnresolvedRelation || node instanceof UnresolvedWith;
      }

      public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (node instanceof UnresolvedWith) {
          UnresolvedWith with = (UnresolvedWith) node;
          List relations = Scala.list(with.cteRelations());
          Object[] changed = new Object[relations.size()];
          for (int i = 0; i < changed.length; i++) {
            Object relation = relations.get(i);
            if (relation instanceof scala.Tuple2) { // in Spark 4.0, where there is no limit of recursion to tell
              scala.Tuple2 pair = (scala.Tuple2) relation;
              changed[i] = new scala.Tuple2(pair._1(), withTables((LogicalPlan) pair._2()));
              continue;
            }
            scala.Tuple3 triple = (scala.Tuple3) relation;
            changed[i] = new scala.Tuple3(triple._1(), withTables((LogicalPlan) triple._2()), triple._3());
          }
          return new UnresolvedWith(with.child(), Scala.seq(changed), with.allowRecursion());
        }
        if (!(node instanceof UnresolvedRelation)) return otherwise.apply(node);
        List name = Scala.list(((UnresolvedRelation) node).multipartIdentifier());
        LogicalRelation leaf = (LogicalRelation) qualified.get(key(name));
        if (leaf == null) return node;
        scala.collection.immutable.Seq qualifier = Scala.seq(name.subList(0, name.size() - 1).toArray());
        return new SubqueryAlias(new AliasIdentifier((String) name.get(name.size() - 1), qualifier), leaf.newInstance());
      }
    });
  }

  /** Error condition, the thing it is about and the message's first line, each quoted, as one JSON array. */
  private static String reason(Throwable problem) {
    String condition = problem.getClass().getSimpleName();
    String object = "";
    if (problem instanceof NotAQuery) {
      object = ((NotAQuery) problem).kind;
    } else if (problem instanceof org.apache.spark.SparkThrowable) {
      org.apache.spark.SparkThrowable known = (org.apache.spark.SparkThrowable) problem;
      if (known.getCondition() != null) condition = known.getCondition();
      java.util.Map about = known.getMessageParameters();
      Object name = about == null ? null : about.get("objectName") != null ? about.get("objectName")
          : about.get("relationName") != null ? about.get("relationName") : about.get("routineName");
      if (name != null) object = name.toString();
    }
    String message = problem.getMessage() == null ? problem.toString() : problem.getMessage().trim();
    int end = message.indexOf('\n');
    String line = end < 0 ? message : message.substring(0, end);
    return new Json().open('[').text(condition).text(object).text(line).close(']').toString();
  }

  private static final class NotAQuery extends RuntimeException {
    final String kind;

    NotAQuery(String kind) {
      this.kind = kind;
    }
  }
}
