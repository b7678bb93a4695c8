package sidestep;

import java.util.HashMap;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.BaseEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;

/**
 * What a Python UDF is, apart from its arguments: asked of Python (udf/identity.py) once per function, and remembered.
 * There is one per JVM.
 */
public final class PythonFunctions {
  private static final int MOST = 10000;
  private static volatile java.util.function.Function python;
  private static final ConcurrentHashMap answers = new ConcurrentHashMap();

  public PythonFunctions() {}

  /** Who is asked from now on. */
  public void ask(java.util.function.Function answering) {
    python = answering;
  }

  /** "=" and all that the function's value depends on, or "!" and why that is not known. */
  static String identity(PythonUDF udf, org.apache.spark.sql.internal.SQLConf conf) {
    // A user-defined type goes to Python as an object of a class, and the class is not in the type's SQL.
    if (udf.dataType().json().contains("\"udt\"")) return "!its result has a user-defined type";
    for (int i = 0; i < udf.children().size(); i++) {
      if (((Expression) udf.children().apply(i)).dataType().json().contains("\"udt\"")) {
        return "!an argument has a user-defined type";
      }
    }
    String code = code(udf.func());
    if (code.charAt(0) != '=') return code;
    int kind = udf.evalType();
    boolean byRow = kind == PythonEvalType.SQL_BATCHED_UDF()
        || kind == PythonEvalType.SQL_ARROW_BATCHED_UDF() && !Versions.goesByPandas(conf);
    // A mean, a rank, an index, or an integer that becomes a float where some other row of the batch is NULL.
    if (!byRow && !code.startsWith("=declared:")) {
      return "!it works on batches, and what it gives for a row may depend on the others in its batch"
          + " (sidestep.stable declares a version)";
    }
    // What the session tells the workers of how values are turned into Python's and back, and the order of their sets.
    java.util.TreeMap settings = new java.util.TreeMap(scala.jdk.javaapi.CollectionConverters.asJava(
        (scala.collection.Map) org.apache.spark.sql.execution.python.ArrowPythonRunner.getPythonRunnerConfMap(conf)));
    settings.remove("spark.sql.pyspark.udf.profiler");
    settings.remove("spark.sql.pyspark.dataSource.profiler");
    settings.remove("spark.sql.execution.pythonUDF.arrow.concurrency.level");
    return code + "|" + kind + "|" + udf.dataType().sql() + "|" + udf.func().pythonVer() + "|"
        + udf.func().envVars().get("PYTHONHASHSEED") + "|" + settings + zone(udf);
  }

  /** The local time zone, where it counts and is not UTC: workers turn timestamps into local times. */
  private static String zone(PythonUDF udf) {
    Object set = udf.func().envVars().get("TZ");
    String zone = set != null ? set.toString() : java.util.TimeZone.getDefault().getID();
    if (zone.equals("UTC") || zone.equals("Etc/UTC") || zone.equals("GMT")) return "";
    for (int i = 0; i < udf.children().size(); i++) {
      String type = ((Expression) udf.children().apply(i)).dataType().json();
      if (type.contains("timestamp") || type.contains("date")) return "|zone=" + zone;
    }
    return "";
  }

  private static String code(PythonFunction function) {
    java.util.function.Function asked = python;
    if (asked == null) return "!Python has not been asked";
    byte[] command = bytes(function.command());
    String digest = digest(command);
    String answer = (String) answers.get(digest);
    if (answer != null) return answer;
    try {
      answer = TimedCall.apply(asked, digest, TimedCall.SECONDS);
      if (answer.equals("?")) {
        String bytes = java.util.Base64.getEncoder().encodeToString(command);
        answer = TimedCall.apply(asked, digest + "\n" + bytes, TimedCall.SECONDS);
      }
    } catch (RuntimeException gone) {
      return "!Python did not answer";
    }
    char sign = answer.charAt(0);
    String known = (sign == '=' || sign == '~' ? "=" : "!") + answer.substring(1);
    if (sign == '=' || sign == '!') {
      if (answers.size() > MOST) answers.clear();
      answers.put(digest, known);
    }
    return known;
  }

  private static byte[] bytes(scala.collection.Seq command) {
    if (command instanceof scala.collection.immutable.ArraySeq.ofByte) {
      return ((scala.collection.immutable.ArraySeq.ofByte) command).unsafeArray();
    }
    byte[] copy = new byte[command.length()];
    for (int i = 0; i < copy.length; i++) copy[i] = ((Byte) command.apply(i)).byteValue();
    return copy;
  }

  static String digest(String text) {
    return digest(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
  }

  private static String digest(byte[] bytes) {
    try {
      return java.util.HexFormat.of().formatHex(java.security.MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (java.security.NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** The columns of a plan that stand for a call of a Python function: Spark has taken the calls out of filters. */
  static final class Calls {
    /** By the id of the column, the call or what it is part of. */
    private final HashMap calls = new HashMap();

    Calls(LogicalPlan plan) {
      collect(plan);
    }

    /** The results of evaluations, and aliases of anything with a call in it. */
    private void collect(LogicalPlan plan) {
      List children = Scala.list(plan.children());
      for (int i = 0; i < children.size(); i++) collect((LogicalPlan) children.get(i));
      List inside = Scala.list(plan.subqueries());
      for (int i = 0; i < inside.size(); i++) collect((LogicalPlan) inside.get(i));
      if (plan instanceof BaseEvalPython) {
        List functions = Scala.list(((BaseEvalPython) plan).udfs());
        List results = Scala.list(((BaseEvalPython) plan).resultAttrs());
        for (int i = 0; i < functions.size(); i++) {
          calls.put(Long.valueOf(((Attribute) results.get(i)).exprId().id()), in((Expression) functions.get(i)));
        }
      } else if (plan instanceof Project) {
        List columns = Scala.list(((Project) plan).projectList());
        for (int i = 0; i < columns.size(); i++) {
          if (!(columns.get(i) instanceof Alias)) continue;
          Expression source = in(((Alias) columns.get(i)).child());
          if (!source.containsPattern(TreePattern.PYTHON_UDF())) continue;
          calls.put(Long.valueOf(((Alias) columns.get(i)).exprId().id()), source);
        }
      }
    }

    /** The expression with calls where columns stand for them. */
    Expression in(Expression e) {
      if (calls.isEmpty()) return e;
      return (Expression) ((TreeNode) e).transformUp(new scala.runtime.AbstractPartialFunction() {
        public boolean isDefinedAt(Object node) {
          return call(node) != null;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
          Object call = call(node);
          return call == null ? otherwise.apply(node) : call;
        }
      });
    }

    private Object call(Object node) {
      if (!(node instanceof AttributeReference)) return null;
      return calls.get(Long.valueOf(((AttributeReference) node).exprId().id()));
    }
  }
}
