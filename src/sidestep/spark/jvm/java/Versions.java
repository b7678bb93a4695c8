package sidestep;

import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry$;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.DataType;

/**
 * What differs between the versions of Spark that sidestep works with, 4.0 to 4.3. These sources are compiled against the
 * one that runs, so what is not in all of them is called by its name, here. versions.py has Python's side.
 */
final class Versions {
  private static final java.lang.reflect.Method IS_TIME_TRAVEL = method(FileIndex.class, "isTimeTravel");

  private Versions() {}

  /** Whether a listing is of an older version of its table; before 4.3 no listing says so. */
  static boolean isTimeTravel(FileIndex files) {
    return IS_TIME_TRAVEL != null && ((Boolean) call(IS_TIME_TRAVEL, files)).booleanValue();
  }

  /** Whether a call says IGNORE NULLS or RESPECT NULLS: an option since 4.2, a yes or no before. */
  static boolean treatsNulls(UnresolvedFunction call) {
    Object said = call(method(UnresolvedFunction.class, "ignoreNulls"), call);
    return said instanceof scala.Option ? ((scala.Option) said).isDefined() : ((Boolean) said).booleanValue();
  }

  /** Whether functions through Arrow go by way of pandas; Spark 4.0 knows no setting for that, as they always do. */
  static boolean goesByPandas(org.apache.spark.sql.internal.SQLConf conf) {
    try {
      // With a default of ours, Spark would not give its own.
      return !conf.getConfString("spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled").equals("false");
    } catch (java.util.NoSuchElementException unknown) {
      return true;
    }
  }

  /** What a session knows of a built-in function, whether or not one of its own hides it; null if there is none. */
  static ExpressionInfo builtinFunction(FunctionRegistry session, String name) {
    if (hasSchemas(session)) return function(session, name, "builtin");
    return function((FunctionRegistryBase) FunctionRegistry$.MODULE$.builtin(), name, null);
  }

  /** The same of a function that was added to the session. */
  static ExpressionInfo ownFunction(FunctionRegistry session, String name) {
    if (hasSchemas(session)) return function(session, name, "session");
    ExpressionInfo found = function(session, name, null);
    return found == builtinFunction(session, name) ? null : found;
  }

  /** Whether functions are registered as system.builtin and system.session; older versions have one name for both. */
  private static boolean hasSchemas(FunctionRegistry session) {
    return function(session, "abs", "builtin") != null;
  }

  private static ExpressionInfo function(FunctionRegistryBase registry, String name, String schema) {
    scala.Option catalog = schema == null ? scala.Option.empty() : scala.Option.apply("system");
    scala.Option found = registry.lookupFunction(new FunctionIdentifier(name, scala.Option.apply(schema), catalog));
    return found.isDefined() ? (ExpressionInfo) found.get() : null;
  }

  /** The values of one key of a broadcast that Spark makes for a join; 4.3 takes one option more. */
  static Expression keysOfBroadcast(DataType type, LogicalPlan input, scala.collection.immutable.Seq keys, int position) {
    java.lang.reflect.Constructor constructor = DynamicPruningSubquery.class.getConstructors()[0];
    Object[] arguments = new Object[constructor.getParameterCount()];
    Object[] known = {Literal$.MODULE$.create(null, type), input, keys, Scala.seq(new Object[] {Integer.valueOf(position)}),
      Boolean.TRUE, NamedExpression$.MODULE$.newExprId()};
    System.arraycopy(known, 0, arguments, 0, known.length);
    for (int i = known.length; i < arguments.length; i++) arguments[i] = scala.Option.empty();
    try {
      return (Expression) constructor.newInstance(arguments);
    } catch (ReflectiveOperationException problem) {
      throw new IllegalStateException(problem);
    }
  }

  /** A public method without arguments; null if this version has none of that name. */
  private static java.lang.reflect.Method method(Class owner, String name) {
    try {
      return owner.getMethod(name, new Class[0]);
    } catch (NoSuchMethodException missing) {
      return null;
    }
  }

  private static Object call(java.lang.reflect.Method method, Object target) {
    try {
      return method.invoke(target, new Object[0]);
    } catch (ReflectiveOperationException problem) {
      throw new IllegalStateException(problem);
    }
  }
}
