package sidestep;

import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes the predicates of a plan: in the words of sidestep's predicate language, or, where it has none, as one opaque
 * thing with an identity.
 */
final class PredicateWriter {
  private static final int MOST_SQL = 400;
  /** ANDs, ORs and NOTs within each other are looked into so far; what is below is opaque. */
  private static final int MOST_DEEP = 150;
  /** Where the expressions are whose meaning comes with Spark's version. Those of extensions have code of their own. */
  private static final String SPARKS_OWN = "org.apache.spark.sql.catalyst.";

  private final Json out;
  private final SQLConf conf;
  /** Where expressions go whose value the query's own subqueries give when it runs; null if they are opaque. */
  private final List late;
  private int depth = 0;

  PredicateWriter(Json out, SQLConf conf) {
    this(out, conf, null);
  }

  PredicateWriter(Json out, SQLConf conf, List late) {
    this.out = out;
    this.conf = conf;
    this.late = late;
  }

  void write(Expression e) {
    if (depth == MOST_DEEP) {
      opaque(e);
      return;
    }
    depth++;
    if (e instanceof And || e instanceof Or) {
      boolean and = e instanceof And;
      out.open('[').text(and ? "and" : "or");
      // Opened without recursion: a chain of ten thousand ORs is deep, not difficult.
      ArrayDeque open = new ArrayDeque();
      open.push(e);
      while (!open.isEmpty()) {
        Expression next = (Expression) open.pop();
        if (and ? next instanceof And : next instanceof Or) {
          open.push(((BinaryExpression) next).right());
          open.push(((BinaryExpression) next).left());
        } else {
          write(next);
        }
      }
      out.close(']');
    } else if (e instanceof Not) {
      out.open('[').text("not");
      write(((Not) e).child());
      out.close(']');
    } else {
      int mark = out.length();
      if (!known(e)) {
        out.cut(mark);
        opaque(e);
      }
    }
    depth--;
  }

  /** Writes a predicate of a form that sidestep knows; false, with something half written, for any other. */
  private boolean known(Expression e) {
    if (e instanceof AttributeReference || e instanceof Literal) return operand(e);
    if (e instanceof EqualTo) return pair("=", e);
    if (e instanceof EqualNullSafe) return pair("<=>", e);
    if (e instanceof LessThan) return pair("<", e);
    if (e instanceof LessThanOrEqual) return pair("<=", e);
    if (e instanceof GreaterThan) return pair(">", e);
    if (e instanceof GreaterThanOrEqual) return pair(">=", e);
    if (e instanceof StartsWith) return pair("prefix", e);
    if (e instanceof EndsWith) return pair("suffix", e);
    if (e instanceof Contains) return pair("contains", e);
    if (e instanceof IsNull || e instanceof IsNotNull) {
      out.open('[').text(e instanceof IsNull ? "null" : "notnull");
      if (!operand((Expression) ((UnaryExpression) e).child())) return false;
      out.close(']');
      return true;
    }
    if (e instanceof Like) {
      out.open('[').text("like");
      if (!operand(((Like) e).left()) || !operand(((Like) e).right())) return false;
      out.text(String.valueOf(((Like) e).escapeChar())).close(']');
      return true;
    }
    if (e instanceof In) {
      out.open('[').text("in");
      if (!operand(((In) e).value())) return false;
      for (Iterator values = Scala.list(((In) e).list()).iterator(); values.hasNext();) {
        Object value = values.next();
        if (!(value instanceof Literal) || !operand((Expression) value)) return false;
      }
      out.close(']');
      return true;
    }
    if (e instanceof InSet) {
      out.open('[').text("in");
      Expression child = ((InSet) e).child();
      if (!operand(child)) return false;
      Iterator values = scala.jdk.javaapi.CollectionConverters.asJava(((InSet) e).hset()).iterator();
      while (values.hasNext()) if (!literal(values.next(), child.dataType())) return false;
      out.close(']');
      return true;
    }
    return false;
  }

  private boolean pair(String name, Expression e) {
    out.open('[').text(name);
    if (!operand((Expression) ((BinaryExpression) e).left())) return false;
    if (!operand((Expression) ((BinaryExpression) e).right())) return false;
    out.close(']');
    return true;
  }

  /** Writes a column, a cast of one or a literal; false for anything else. */
  boolean operand(Expression e) {
    e = bare(e);
    if (e instanceof AttributeReference) {
      out.open('[').text("a").id(((AttributeReference) e).exprId().id()).close(']');
      return true;
    }
    if (e instanceof Literal) return literal(((Literal) e).value(), ((Literal) e).dataType());
    if (e instanceof Cast && ((Cast) e).child() instanceof AttributeReference && ordered((Cast) e)) {
      out.open('[').text("cast").id(((AttributeReference) ((Cast) e).child()).exprId().id());
      out.text(((Cast) e).dataType().catalogString()).close(']');
      return true;
    }
    if (late != null && isLate(e)) {
      out.open('[').text("late").number(late.size()).text(e.dataType().catalogString()).close(']');
      late.add(e);
      return true;
    }
    return false;
  }

  /** An expression without what Spark puts around it that leaves equal values equal. */
  private static Expression bare(Expression e) {
    while (e instanceof KnownNotNull || e instanceof KnownFloatingPointNormalized || e instanceof NormalizeNaNAndZero) {
      e = (Expression) ((UnaryExpression) e).child();
    }
    return e;
  }

  /** Whether a value is computed from another and a constant. */
  boolean isComputed(Expression e) {
    e = bare(e);
    return e instanceof Add || e instanceof Subtract || e instanceof Multiply || e instanceof Divide
        || e instanceof UnaryMinus || e instanceof DateAdd || e instanceof DateSub
        || e instanceof Cast && isComputed(((Cast) e).child());
  }

  /**
   * Writes an operand, or what is computed from a column by steps, each with a constant: [step, what it is done to, the
   * constant, type], or [as, what is cast, type]. False, with something half written, for anything else.
   */
  boolean computed(Expression e) {
    e = bare(e);
    if (!isComputed(e)) return operand(e);
    if (e instanceof Cast) {
      out.open('[').text("as");
      if (!ordered((Cast) e) || !computed(((Cast) e).child())) return false;
      out.text(e.dataType().catalogString()).close(']');
      return true;
    }
    List parts = Scala.list(e.children());
    Expression below = (Expression) parts.get(0);
    Expression constant = parts.size() > 1 ? (Expression) parts.get(1) : null;
    String step = e instanceof UnaryMinus ? "negate" : e instanceof Add || e instanceof DateAdd ? "+"
        : e instanceof Multiply ? "*" : e instanceof Divide ? "/" : "-";
    if (below instanceof Literal && constant != null && !(e instanceof Divide)) {
      if (e instanceof DateAdd || e instanceof DateSub) return false;
      if (e instanceof Subtract) step = "from";
      Expression swapped = below;
      below = constant;
      constant = swapped;
    }
    out.open('[').text(step);
    if (!computed(below)) return false;
    if (constant == null) out.nothing();
    else if (!(constant instanceof Literal) || !operand(constant)) return false;
    out.text(e.dataType().catalogString()).close(']');
    return true;
  }

  /** Whether it is a constant but for scalar subqueries that stand on their own. */
  private static boolean isLate(Expression e) {
    return e.references().isEmpty() && e.deterministic() && e.resolved() && hasSubquery(e);
  }

  private static boolean hasSubquery(Expression e) {
    if (e instanceof PlanExpression) {
      return e instanceof ScalarSubquery && e.children().isEmpty() && ((ScalarSubquery) e).plan().deterministic();
    }
    boolean any = false;
    List children = Scala.list(e.children());
    for (int i = 0; i < children.size(); i++) {
      Expression child = (Expression) children.get(i);
      if (child instanceof PlanExpression && !hasSubquery(child)) return false;
      any |= hasSubquery(child);
    }
    return any;
  }

  /** Whether a cast may keep the order of values; any other is part of an opaque predicate, with all it depends on. */
  private static boolean ordered(Cast cast) {
    DataType from = cast.child().dataType();
    DataType to = cast.dataType();
    return from instanceof NumericType && to instanceof NumericType
        || from instanceof DateType && to instanceof TimestampNTZType;
  }

  boolean literal(Object value, DataType type) {
    out.open('[').text("l").text(type.catalogString());
    if (value == null) out.nothing();
    else if (value instanceof Boolean) out.bool(((Boolean) value).booleanValue());
    else if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
      out.number(((Number) value).longValue());
    } else if (value instanceof Float) out.text(Double.toString(((Float) value).doubleValue()));
    else if (value instanceof Double) out.text(value.toString());
    else if (value instanceof Decimal) out.text(((Decimal) value).toJavaBigDecimal().toPlainString());
    else if (value instanceof UTF8String && ((UTF8String) value).isValid()) out.text(value.toString());
    else if (value instanceof byte[]) out.text(java.util.HexFormat.of().formatHex((byte[]) value));
    else return false;
    out.close(']');
    return true;
  }

  // ---- what is not looked into

  private void opaque(Expression e) {
    out.open('[').text("?");
    String sql = readable(e).sql();
    out.text(sql.length() > MOST_SQL ? sql.substring(0, MOST_SQL) + "..." : sql);
    StringBuilder identity = new StringBuilder();
    StringBuilder why = new StringBuilder();
    if (identify(e, identity, why)) out.text(PythonFunctions.digest(identity.toString()));
    else out.nothing();
    PlanWriter.writeIds(out.bool(e.deterministic()), e.references().toSeq());
    if (why.length() > 0) out.text(why.toString());
    out.close(']');
  }

  /** The expression as it would be typed: columns without their tables, calls of Python functions by name. */
  private static Expression readable(Expression e) {
    return (Expression) ((TreeNode) e).transformUp(new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) {
        return node instanceof AttributeReference || node instanceof PythonUDF;
      }

      public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (node instanceof PythonUDF) {
          PythonUDF call = (PythonUDF) node;
          StringBuilder text = new StringBuilder(
              org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIfNeeded(call.name())).append('(');
          List arguments = Scala.list(call.children());
          for (int i = 0; i < arguments.size(); i++) {
            text.append(i > 0 ? ", " : "").append(((Expression) arguments.get(i)).sql());
          }
          // Spark's own text of a call has a number in it that is new in every query.
          return new PrettyAttribute(text.append(')').toString(), call.dataType());
        }
        if (!(node instanceof AttributeReference)) return otherwise.apply(node);
        return ((AttributeReference) node).withQualifier(
            (scala.collection.immutable.Seq) (Object) scala.collection.immutable.Nil$.MODULE$);
      }
    });
  }

  /** All that a value depends on: every class and constructor argument, columns by name. False where that is not known. */
  private boolean identify(Object o, StringBuilder into, StringBuilder why) {
    if (o instanceof PythonUDF) {
      PythonUDF call = (PythonUDF) o;
      String identity = PythonFunctions.identity(call, conf);
      if (identity.charAt(0) != '=') {
        if (why.length() == 0) {
          why.append("the function ").append(call.name()).append(" has no identity: ").append(identity.substring(1));
        }
        return false;
      }
      into.append("PythonUDF(").append(identity).append(',');
      if (!identify(call.children(), into, why)) return false;
      into.append(')');
      return true;
    }
    // The code behind any other function of the user's can be anything, under the same name or class.
    if (o instanceof PlanExpression || o instanceof UserDefinedExpression || o instanceof NonSQLExpression) return false;
    if (o instanceof AttributeReference) {
      into.append(((AttributeReference) o).name()).append(':').append(((AttributeReference) o).dataType().sql());
      return true;
    }
    if (o instanceof DataType) {
      into.append(((DataType) o).sql());
      return true;
    }
    if (o instanceof byte[]) {
      into.append(java.util.HexFormat.of().formatHex((byte[]) o));
      return true;
    }
    if (o instanceof scala.collection.Iterable) {
      into.append('[');
      java.util.Iterator items = scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Iterable) o).iterator();
      while (items.hasNext()) {
        if (!identify(items.next(), into, why)) return false;
        into.append(',');
      }
      into.append(']');
      return true;
    }
    if (o instanceof scala.Product) {
      if (o instanceof Expression && !o.getClass().getName().startsWith(SPARKS_OWN)) {
        if (why.length() == 0) why.append("the code of ").append(o.getClass().getName()).append(" is not Spark's own");
        return false;
      }
      into.append(o.getClass().getName()).append('(');
      for (int i = 0; i < ((scala.Product) o).productArity(); i++) {
        if (!identify(((scala.Product) o).productElement(i), into, why)) return false;
        into.append(',');
      }
      into.append(')');
      return true;
    }
    if (o == null || o instanceof String || o instanceof Number || o instanceof Boolean || o instanceof Character
        || o instanceof UTF8String || o instanceof Decimal || o instanceof Enum || o instanceof scala.Enumeration.Value
        || o instanceof org.apache.spark.unsafe.types.CalendarInterval) {
      into.append(o);
      return true;
    }
    return false;
  }
}
