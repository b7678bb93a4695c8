package sidestep;

import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.api.python.PythonEvalType;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;

/**
 * What a Python UDF is, apart from its arguments: asked of Python (functions.py) once per function, and remembered.
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
  public static String identity(PythonUDF udf, org.apache.spark.sql.internal.SQLConf conf) {
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
    boolean iterates = kind == PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF()
        || kind == PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF();
    if (iterates && !code.startsWith("=declared:")) {
      return "!it works on an iterator and may carry something from one batch to the next"
          + " (sidestep.stable declares a version)";
    }
    // What the session tells the workers of how values are turned into Python's and back, and the order of their sets.
    java.util.TreeMap settings = new java.util.TreeMap(scala.jdk.javaapi.CollectionConverters.asJava(
        (scala.collection.Map) org.apache.spark.sql.execution.python.ArrowPythonRunner.getPythonRunnerConfMap(conf)));
    settings.remove("spark.sql.pyspark.udf.profiler");
    settings.remove("spark.sql.pyspark.dataSource.profiler");
    settings.remove("spark.sql.execution.pythonUDF.arrow.concurrency.level");
    return code + "|" + kind + "|" + udf.dataType().sql() + "|" + udf.func().pythonVer() + "|"
        + udf.func().envVars().get("PYTHONHASHSEED") + "|" + settings;
  }

  private static String code(PythonFunction function) {
    java.util.function.Function asked = python;
    if (asked == null) return "!Python has not been asked";
    byte[] command = bytes(function.command());
    String digest = digest(command);
    String answer = (String) answers.get(digest);
    if (answer != null) return answer;
    try {
      answer = (String) asked.apply(digest);
      if (answer.equals("?")) {
        answer = (String) asked.apply(digest + "\n" + java.util.Base64.getEncoder().encodeToString(command));
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

  public static String digest(byte[] bytes) {
    try {
      return java.util.HexFormat.of().formatHex(java.security.MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (java.security.NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
