package sidestep;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.CollectSet;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.*;

/**
 * Where the keys of a join's input come from when a query runs. If Spark broadcasts that input, the keys are in the
 * broadcast, and cost nothing more; if it turns out that it does not, nothing is chosen by them. Otherwise the input is
 * run once more, for its least and greatest key and for the cells of a grid that its keys fall in, so that little comes
 * back however many there are. Whether that pays has been worked out in Python.
 */
final class RuntimeKeys {
  private final SQLConf conf;

  RuntimeKeys(SQLConf conf) {
    this.conf = conf;
  }

  /** Whether a query's own subquery has one result for whoever asks: run for each, it may come out otherwise. */
  boolean subqueriesRunOnce() {
    return conf.subqueryReuseEnabled();
  }

  /** Whether keys can be had as the selector wants them. */
  boolean usable(Join join, Wire.Selector selector) {
    return position(join, selector) >= 0 && broadcasts(join, selector.side) || selector.pays && isSteady(join, selector);
  }

  /** before: the join as it was when the selector was made for it; join: the same with its inputs replaced. */
  Expression of(Join before, Join join, Wire.Selector selector) {
    LogicalPlan input = selector.side == 0 ? join.left() : join.right();
    int position = position(before, selector);
    boolean runs = selector.pays && isCached(input) && isSteady(before, selector);
    if (position >= 0 && broadcasts(before, selector.side) && !runs) {
      scala.Tuple8 found = (scala.Tuple8) ExtractEquiJoinKeys$.MODULE$.unapply(join).get();
      scala.collection.immutable.Seq keys = (scala.collection.immutable.Seq) (selector.side == 0 ? found._2() : found._3());
      DataType type = ((Expression) keys.apply(position)).dataType();
      return Versions.keysOfBroadcast(type, input, keys, position);
    }
    return summary(input, keys(join, selector), selector.grid);
  }

  /** What the input has on its side of the comparisons. */
  private static List keys(Join join, Wire.Selector selector) {
    ArrayList keys = new ArrayList();
    List parts = PlanWriter.conjuncts((Expression) join.condition().get());
    for (int i = 0; i < selector.conjuncts.length; i++) {
      BinaryComparison part = (BinaryComparison) parts.get(selector.conjuncts[i]);
      boolean left = PlanWriter.inputOf((Expression) part.left(), join) == selector.side;
      keys.add(left ? part.left() : part.right());
    }
    return keys;
  }

  /**
   * Whether an input has the same keys when it is run once more, in whichever order rows come to its groups: max_by may
   * take another of two rows that are alike to it, and a sum of floats end in other digits.
   */
  private static boolean isSteady(Join join, Wire.Selector selector) {
    HashSet unsteady = new HashSet();
    if (!sameRows(selector.side == 0 ? join.left() : join.right(), unsteady)) return false;
    List keys = keys(join, selector);
    for (int i = 0; i < keys.size(); i++) if (refersTo((Expression) keys.get(i), unsteady)) return false;
    return true;
  }

  /** Whether it gives the same rows each time, but for the columns whose ids are added to unsteady. */
  private static boolean sameRows(LogicalPlan plan, HashSet unsteady) {
    List children = Scala.list(plan.children());
    for (int i = 0; i < children.size(); i++) if (!sameRows((LogicalPlan) children.get(i), unsteady)) return false;
    if (plan instanceof Union) {
      List output = Scala.list(plan.output());
      for (int i = 0; i < children.size(); i++) {
        List put = Scala.list(((LogicalPlan) children.get(i)).output());
        for (int c = 0; c < output.size(); c++) if (refersTo((Expression) put.get(c), unsteady)) add(output.get(c), unsteady);
      }
      return true;
    }
    if (!(plan instanceof Aggregate || plan instanceof Project)) {
      List expressions = Scala.list(plan.expressions());
      for (int i = 0; i < expressions.size(); i++) if (refersTo((Expression) expressions.get(i), unsteady)) return false;
      return true;
    }
    if (plan instanceof Aggregate) {
      List groups = Scala.list(((Aggregate) plan).groupingExpressions());
      for (int i = 0; i < groups.size(); i++) if (refersTo((Expression) groups.get(i), unsteady)) return false;
    }
    List given = Scala.list(
        plan instanceof Project ? ((Project) plan).projectList() : ((Aggregate) plan).aggregateExpressions());
    for (int i = 0; i < given.size(); i++) {
      Expression column = (Expression) given.get(i);
      if (refersTo(column, unsteady) || goesByOrder(column)) add(column, unsteady);
    }
    return true;
  }

  private static void add(Object column, HashSet to) {
    to.add(Long.valueOf(((NamedExpression) column).exprId().id()));
  }

  private static boolean refersTo(Expression e, HashSet ids) {
    for (Iterator it = Scala.list(e.references().toSeq()).iterator(); it.hasNext();) {
      if (ids.contains(Long.valueOf(((Attribute) it.next()).exprId().id()))) return true;
    }
    return false;
  }

  /** Whether an aggregate may come out otherwise if rows come in another order; of any but the plainest, it may. */
  private static boolean goesByOrder(Expression e) {
    if (e instanceof AggregateFunction) {
      DataType type = e.dataType();
      boolean exact = type instanceof IntegralType || type instanceof DecimalType;
      return !(e instanceof Count || e instanceof Min || e instanceof Max || e instanceof Sum && exact);
    }
    for (Iterator it = Scala.list(e.children()).iterator(); it.hasNext();) {
      if (goesByOrder((Expression) it.next())) return true;
    }
    return false;
  }

  /** Whether an input is in memory: Spark then does not find its broadcast again, but running it once more is cheap. */
  private static boolean isCached(LogicalPlan input) {
    if (input instanceof org.apache.spark.sql.execution.columnar.InMemoryRelation) return true;
    List children = Scala.list(input.children());
    for (int i = 0; i < children.size(); i++) if (isCached((LogicalPlan) children.get(i))) return true;
    return false;
  }

  /** Where the comparison is among the keys that Spark joins by; -1 if it is not, or if keys cannot be had so. */
  private int position(Join join, Wire.Selector selector) {
    if (!conf.dynamicPartitionPruningEnabled() || !conf.exchangeReuseEnabled()) return -1;
    if (selector.conjuncts.length != 1) return -1;
    Object part = PlanWriter.conjuncts((Expression) join.condition().get()).get(selector.conjuncts[0]);
    if (!(part instanceof EqualTo)) return -1;
    scala.Option found = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (found.isEmpty()) return -1;
    List left = Scala.list(((scala.Tuple8) found.get())._2());
    List right = Scala.list(((scala.Tuple8) found.get())._3());
    EqualTo equal = (EqualTo) part;
    for (int i = 0; i < left.size(); i++) {
      if (left.get(i).equals(equal.left()) && right.get(i).equals(equal.right())) return i;
      if (left.get(i).equals(equal.right()) && right.get(i).equals(equal.left())) return i;
    }
    return -1;
  }

  /** Whether Spark may broadcast an input: it is small, or a hint says so, and the type of the join lets it. */
  private boolean broadcasts(Join join, int side) {
    String type = join.joinType().toString();
    boolean can = type.startsWith("Inner") || type.startsWith("Cross")
        || (side == 1 ? !type.startsWith("RightOuter") && !type.startsWith("FullOuter") : type.startsWith("RightOuter"));
    if (!can) return false;
    scala.Option hint = side == 0 ? join.hint().leftHint() : join.hint().rightHint();
    if (hint.isDefined() && ((HintInfo) hint.get()).strategy().isDefined()) {
      return ((HintInfo) hint.get()).strategy().get().toString().equals("broadcast");
    }
    long size = PlanWriter.bytes(side == 0 ? join.left() : join.right());
    return size >= 0 && size <= conf.autoBroadcastJoinThreshold();
  }

  /** The least and the greatest of each of some keys over an input, and the cells of the only one. */
  private static ScalarSubquery summary(LogicalPlan input, List keys, long[] grid) {
    ArrayList fields = new ArrayList();
    for (int i = 0; i < keys.size(); i++) {
      Expression key = (Expression) keys.get(i);
      ArrayList ends = new ArrayList();
      add(ends, "least", new Min(key).toAggregateExpression());
      add(ends, "most", new Max(key).toAggregateExpression());
      add(fields, "key" + i, new CreateNamedStruct(Scala.seq(ends.toArray())));
    }
    Expression number = grid == null || keys.size() != 1 ? null : number((Expression) keys.get(0));
    if (number != null) add(fields, "cells", new CollectSet(cell(number, grid)).toAggregateExpression());
    Alias all = new Alias(new CreateNamedStruct(Scala.seq(fields.toArray())), "keys", NamedExpression$.MODULE$.newExprId(),
        Scala.seq(new String[0]), scala.Option.empty(), Scala.seq(new String[0]));
    LogicalPlan plan = new Aggregate(Scala.seq(new Object[0]), Scala.seq(new Object[] {all}), input, scala.Option.empty());
    return new ScalarSubquery(plan, Scala.seq(new Object[0]), NamedExpression$.MODULE$.newExprId(),
        Scala.seq(new Object[0]), scala.Option.empty(), scala.Option.empty(), scala.Option.empty());
  }

  private static void add(List fields, String name, Expression value) {
    fields.add(new Literal(org.apache.spark.unsafe.types.UTF8String.fromString(name), DataTypes.StringType));
    fields.add(value);
  }

  /** A key as a long; null if it is not a whole number of something. */
  private static Expression number(Expression key) {
    if (key.dataType() instanceof LongType) return key;
    if (key.dataType() instanceof IntegralType) return asLong(key);
    if (key.dataType() instanceof DateType) return asLong(new UnixDate(key));
    return key.dataType() instanceof TimestampType ? new UnixMicros(key) : null;
  }

  private static Expression asLong(Expression e) {
    return new Cast(e, DataTypes.LongType, scala.Option.empty(), EvalMode.LEGACY());
  }

  /** The cell of a number: -1 below the grid, one beyond the last above it. */
  private static Expression cell(Expression number, long[] grid) {
    long beyond = ((grid[1] - grid[0]) >>> (int) grid[2]) + 1;
    Expression inside = new ShiftRight(new Subtract(number, literal(grid[0])),
        new Literal(Integer.valueOf((int) grid[2]), DataTypes.IntegerType));
    return new If(new LessThan(number, literal(grid[0])), literal(-1),
        new If(new GreaterThan(number, literal(grid[1])), literal(beyond), inside));
  }

  private static Literal literal(long value) {
    return new Literal(Long.valueOf(value), DataTypes.LongType);
  }
}
