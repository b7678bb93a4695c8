package sidestep;

import java.util.HashSet;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.*;

/**
 * What stands in a text of SQL, as facts: parsed, before anything in it is looked up, and analyzed, before anything in it
 * is computed. Which of it is allowed is decided in Python.
 */
public final class ExpressionReader {
  private static final String[] SYSTEM = {"system", "builtin"};

  public ExpressionReader() {}

  /**
   * The nodes of a parsed expression, outermost first. Each is an array: class, first and last character in the text (-1
   * where that is not known), the name that it looks up or null, arguments, whether an enclosing lambda declares the name,
   * where a function comes from (builtin, shadow, or what the session says of it, empty if it knows none), its group, and
   * whether it is a call with DISTINCT, FILTER or the like.
   */
  public String parsed(SparkSession session, String text) throws Exception {
    Json out = new Json().open('[');
    write(session.sessionState().sqlParser().parseExpression(text), session, new HashSet(), out);
    return out.close(']').toString();
  }

  private void write(Expression e, SparkSession session, HashSet declared, Json out) {
    Origin origin = e.origin();
    out.open('[').text(e.getClass().getSimpleName());
    out.number(at(origin.startIndex())).number(at(origin.stopIndex()));
    HashSet inside = declared;
    if (e instanceof UnresolvedFunction) {
      UnresolvedFunction call = (UnresolvedFunction) e;
      name(call.nameParts(), out);
      out.number(Scala.list(call.arguments()).size()).bool(false);
      source(Scala.list(call.nameParts()), session, out);
      out.bool(call.isDistinct() || call.filter().isDefined() || Versions.treatsNulls(call)
          || !Scala.list(call.orderingWithinGroup()).isEmpty());
    } else if (e instanceof UnresolvedAttribute) {
      name(((UnresolvedAttribute) e).nameParts(), out);
      out.number(0).bool(false).text("").text("").bool(false);
    } else if (e instanceof UnresolvedNamedLambdaVariable) {
      scala.collection.immutable.Seq parts = ((UnresolvedNamedLambdaVariable) e).nameParts();
      name(parts, out);
      out.number(0).bool(declared.contains(Scala.list(parts).get(0).toString().toLowerCase(java.util.Locale.ROOT)));
      out.text("").text("").bool(false);
    } else {
      out.nothing().number(0).bool(false).text("").text("").bool(false);
    }
    out.close(']');
    if (e instanceof LambdaFunction) {
      inside = new HashSet(declared);
      List names = Scala.list(((LambdaFunction) e).arguments());
      for (int i = 0; i < names.size(); i++) {
        inside.add(((NamedExpression) names.get(i)).name().toLowerCase(java.util.Locale.ROOT));
      }
    }
    List children = Scala.list(e.children());
    for (int i = 0; i < children.size(); i++) write((Expression) children.get(i), session, inside, out);
  }

  private static void name(scala.collection.immutable.Seq parts, Json out) {
    out.open('[');
    List names = Scala.list(parts);
    for (int i = 0; i < names.size(); i++) out.text(names.get(i).toString());
    out.close(']');
  }

  private static void source(List parts, SparkSession session, Json out) {
    String name = parts.get(parts.size() - 1).toString().toLowerCase(java.util.Locale.ROOT);
    boolean plain = parts.size() == 1;
    boolean system = parts.size() == 3 && SYSTEM[0].equalsIgnoreCase(parts.get(0).toString())
        && SYSTEM[1].equalsIgnoreCase(parts.get(1).toString());
    ExpressionInfo own = plain ? Versions.ownFunction(session.sessionState().functionRegistry(), name) : null;
    ExpressionInfo builtin = plain || system ? Versions.builtinFunction(session.sessionState().functionRegistry(), name) : null;
    if (builtin != null) {
      out.text(own == null ? "builtin" : "shadow").text(builtin.getGroup() == null ? "" : builtin.getGroup());
    } else {
      out.text(own == null || own.getSource() == null ? "" : own.getSource()).text("");
    }
  }

  private static long at(scala.Option index) {
    return index.isDefined() ? ((Integer) index.get()).longValue() : -1L;
  }

  /**
   * What an analyzed plan computes: its operators, the classes of its expressions, and of these which are of the user's
   * making, read another plan, differ each time, or read the clock by a word such as 'now'.
   */
  public String analyzed(LogicalPlan plan) {
    Json out = new Json().open('[');
    operators(plan, out);
    return out.close(']').toString();
  }

  private void operators(LogicalPlan plan, Json out) {
    out.open('[').text("operator").text(plan.nodeName()).close(']');
    List expressions = Scala.list(plan.expressions());
    for (int i = 0; i < expressions.size(); i++) expression((Expression) expressions.get(i), out);
    List children = Scala.list(plan.children());
    for (int i = 0; i < children.size(); i++) operators((LogicalPlan) children.get(i), out);
  }

  private void expression(Expression e, Json out) {
    String kind = "";
    if (e instanceof PlanExpression) kind = "plan";
    else if (e instanceof PythonUDF) kind = "python";
    else if (e instanceof UserDefinedExpression) kind = "user";
    else if (e instanceof Nondeterministic || !e.deterministic()) kind = "random";
    else if (e instanceof Cast && moment((Cast) e)) kind = "moment";
    out.open('[').text(kind).text(e instanceof UserDefinedExpression ? ((UserDefinedExpression) e).name()
        : e.getClass().getSimpleName()).close(']');
    if (e instanceof RuntimeReplaceable) expression((Expression) ((RuntimeReplaceable) e).replacement(), out);
    List children = Scala.list(e.children());
    for (int i = 0; i < children.size(); i++) expression((Expression) children.get(i), out);
  }

  /** Whether a cast takes a word for the time at which the query is planned. */
  private static boolean moment(Cast cast) {
    DataType to = cast.dataType();
    if (!(to instanceof DateType || to instanceof TimestampType || to instanceof TimestampNTZType)) return false;
    if (!(cast.child() instanceof Literal) || ((Literal) cast.child()).value() == null) return false;
    String word = ((Literal) cast.child()).value().toString().trim().toLowerCase(java.util.Locale.ROOT);
    return word.startsWith("now") || word.startsWith("today") || word.startsWith("tomorrow")
        || word.startsWith("yesterday");
  }
}
