package sidestep;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.*;

/**
 * An optimized query over a table that is about to be changed. What it has beside the table (subqueries, a source) is run
 * once and kept, so that it has one answer; that answer then says which rows of the table can matter at all.
 */
public final class TargetPlan {
  private final SparkSession session;
  private final FileIndex files;
  private LogicalPlan plan;
  private List constraints = new ArrayList();
  private final ArrayList conditions = new ArrayList();

  /** One conjunct of a join: an expression over the table, compared with one over what it is joined with. */
  private static final class Constraint {
    final Expression ours;
    final Expression theirs;
    final LogicalPlan other;
    final String op;

    Constraint(Expression ours, String op, Expression theirs, LogicalPlan other) {
      this.ours = ours;
      this.op = op;
      this.theirs = theirs;
      this.other = other;
    }
  }

  /** target: the plan of the table alone; optimized: that of the query, with no rule of sidestep's. */
  public TargetPlan(SparkSession session, LogicalPlan target, LogicalPlan optimized) {
    this.session = session;
    this.files = location(target);
    this.plan = optimized;
  }

  private static FileIndex location(LogicalPlan plan) {
    if (PlanWriter.isFileRelation(plan)) return ((HadoopFsRelation) ((LogicalRelation) plan).relation()).location();
    List children = Scala.list(plan.children());
    return children.size() == 1 ? location((LogicalPlan) children.get(0)) : null;
  }

  private boolean isTarget(LogicalPlan node) {
    return PlanWriter.isFileRelation(node)
        && ((HadoopFsRelation) ((LogicalRelation) node).relation()).location() == files;
  }

  private int count(LogicalPlan node) {
    int times = isTarget(node) ? 1 : 0;
    List children = Scala.list(node.children());
    for (int i = 0; i < children.size(); i++) times += count((LogicalPlan) children.get(i));
    return times;
  }

  /** How often the table is read outside subqueries: only if it is once can the rest be told apart from it. */
  public int reads() {
    return count(plan);
  }

  public LogicalPlan plan() {
    return plan;
  }

  /** Runs what lies beside the way to the table, each part once, and puts the answers in its place. */
  public void settle() {
    plan = settled(plan);
    constraints = new ArrayList();
    collect(plan, constraints);
  }

  private LogicalPlan settled(LogicalPlan node) {
    if (isTarget(node)) return node;
    List children = Scala.list(node.children());
    Object[] changed = new Object[children.size()];
    for (int i = 0; i < changed.length; i++) {
      LogicalPlan child = (LogicalPlan) children.get(i);
      changed[i] = count(child) > 0 ? settled(child) : once(child);
    }
    return withConstants((LogicalPlan) node.withNewChildren(Scala.seq(changed)));
  }

  private LogicalPlan once(LogicalPlan other) {
    if (isFixed(other)) return other;
    Dataset rows = Dataset.ofRows(session, other);
    LogicalPlan kept = rows.localCheckpoint(true).logicalPlan();
    if (!kept.outputSet().equals(other.outputSet())) {
      throw new IllegalStateException("A checkpoint of " + other.nodeName() + " has other columns.");
    }
    return kept;
  }

  /** Whether it is rows at hand, with nothing done to them that could come out otherwise another time. */
  private static boolean isFixed(LogicalPlan node) {
    if (node instanceof LogicalRDD || node instanceof LocalRelation) return true;
    if (!(node instanceof Project || node instanceof Filter) || !node.deterministic()) return false;
    List expressions = Scala.list(node.expressions());
    for (int i = 0; i < expressions.size(); i++) if (hasPlan((Expression) expressions.get(i))) return false;
    return isFixed((LogicalPlan) node.children().head());
  }

  private static boolean hasPlan(Expression e) {
    if (e instanceof PlanExpression) return true;
    List children = Scala.list(e.children());
    for (int i = 0; i < children.size(); i++) if (hasPlan((Expression) children.get(i))) return true;
    return false;
  }

  private LogicalPlan withConstants(LogicalPlan node) {
    return (LogicalPlan) node.transformExpressions(new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object e) {
        return e instanceof ScalarSubquery && ((ScalarSubquery) e).outerAttrs().isEmpty();
      }

      public Object applyOrElse(Object e, scala.Function1 otherwise) {
        if (!isDefinedAt(e)) return otherwise.apply(e);
        ScalarSubquery query = (ScalarSubquery) e;
        InternalRow[] rows = collected(Dataset.ofRows(session, query.plan()).limit(2));
        // More than one row is an error, and Spark's to raise.
        if (rows.length > 1) return query;
        boolean none = rows.length == 0 || rows[0].isNullAt(0);
        return new Literal(none ? null : rows[0].get(0, query.dataType()), query.dataType());
      }
    });
  }

  private static InternalRow[] collected(Dataset rows) {
    return rows.queryExecution().executedPlan().executeCollect();
  }

  /**
   * What joins on the way ask of the table's rows. A comparison counts only where a row for which it is not TRUE changes
   * nothing of the result: on both sides of an inner join, on the right of a semi, anti or left outer one, and so on.
   */
  private void collect(LogicalPlan node, List found) {
    if (isTarget(node)) return;
    List children = Scala.list(node.children());
    if (node instanceof Join) {
      Join join = (Join) node;
      boolean left = count(join.left()) > 0;
      boolean inner = join.joinType() instanceof InnerLike;
      boolean existence = join.joinType() instanceof ExistenceJoin;
      String type = existence ? "" : join.joinType().sql();
      boolean holds = inner || type.equals("LEFT SEMI")
          || (left ? type.equals("RIGHT OUTER") : type.equals("LEFT ANTI") || type.equals("LEFT OUTER") || existence);
      boolean above = inner
          || (left ? type.equals("LEFT SEMI") || type.equals("LEFT ANTI") || type.equals("LEFT OUTER") || existence
              : type.equals("RIGHT OUTER"));
      if (!above) found.clear();
      LogicalPlan other = left ? join.right() : join.left();
      if (holds && join.condition().isDefined()) conjuncts((Expression) join.condition().get(), other, found);
      collect(left ? join.left() : join.right(), found);
      return;
    }
    if (!(node instanceof Project || node instanceof Filter || node instanceof SubqueryAlias) || !node.deterministic()) {
      found.clear();
    }
    for (int i = 0; i < children.size(); i++) {
      if (count((LogicalPlan) children.get(i)) > 0) collect((LogicalPlan) children.get(i), found);
    }
  }

  private void conjuncts(Expression e, LogicalPlan other, List found) {
    if (e instanceof And) {
      conjuncts(((And) e).left(), other, found);
      conjuncts(((And) e).right(), other, found);
      return;
    }
    if (!(e instanceof BinaryComparison) || !e.deterministic()) return;
    Expression left = (Expression) ((BinaryComparison) e).left();
    Expression right = (Expression) ((BinaryComparison) e).right();
    boolean first = isOver(left, leaf(plan)) && isOver(right, other);
    if (!first && !(isOver(right, leaf(plan)) && isOver(left, other))) return;
    String op = op(e, first);
    if (op == null || !(left.dataType() instanceof org.apache.spark.sql.types.AtomicType)) return;
    found.add(first ? new Constraint(left, op, right, other) : new Constraint(right, op, left, other));
  }

  private static String op(Expression e, boolean first) {
    if (e instanceof EqualTo) return "=";
    if (e instanceof EqualNullSafe) return "<=>";
    if (e instanceof LessThan || e instanceof LessThanOrEqual) return first ? "<=" : ">=";
    if (e instanceof GreaterThan || e instanceof GreaterThanOrEqual) return first ? ">=" : "<=";
    return null;
  }

  private static boolean isOver(Expression e, LogicalPlan node) {
    return node != null && !e.references().isEmpty() && e.references().subsetOf(node.outputSet());
  }

  private LogicalRelation leaf(LogicalPlan node) {
    if (isTarget(node)) return (LogicalRelation) node;
    List children = Scala.list(node.children());
    for (int i = 0; i < children.size(); i++) {
      LogicalRelation found = leaf((LogicalPlan) children.get(i));
      if (found != null) return found;
    }
    return null;
  }

  public int constraints() {
    return constraints.size();
  }

  private Constraint at(int number) {
    return (Constraint) constraints.get(number);
  }

  /** How a constraint compares: =, <=>, or <= and >= for any bound on that side. */
  public String op(int number) {
    return at(number).op;
  }

  /** What a constraint says, for people. */
  public String text(int number) {
    Constraint one = at(number);
    return one.ours.sql() + " " + one.op + " " + one.theirs.sql();
  }

  /** What the table is compared with, as the column v. */
  public Dataset values(int number) {
    Constraint one = at(number);
    Alias value = new Alias(one.theirs, "v", NamedExpression$.MODULE$.newExprId(), Scala.seq(new Object[0]), scala.Option.empty(),
        Scala.seq(new Object[0]));
    return Dataset.ofRows(session, new Project(Scala.seq(new Object[] {value}), one.other));
  }

  /** Holds a constraint against these values, unless there are more than most; returns how many there are. */
  public int among(int number, Dataset values, int most) {
    Constraint one = at(number);
    InternalRow[] rows = collected(values);
    if (rows.length > most) return rows.length;
    ArrayList literals = new ArrayList();
    boolean missing = false;
    for (int i = 0; i < rows.length; i++) {
      if (rows[i].isNullAt(0)) missing = true;
      else literals.add(literal(rows[i], 0, one.theirs));
    }
    Expression condition = literals.isEmpty() ? (Expression) Literal$.MODULE$.FalseLiteral()
        : new In(one.ours, Scala.seq(literals.toArray()));
    if (missing && one.op.equals("<=>")) condition = new Or(condition, new IsNull(one.ours));
    conditions.add(condition);
    return rows.length;
  }

  /** Holds a constraint against ranges of values, each a row of the least and the greatest. */
  public void between(int number, Dataset ranges, boolean missing) {
    Constraint one = at(number);
    InternalRow[] rows = collected(ranges);
    ArrayList parts = new ArrayList();
    for (int i = 0; i < rows.length; i++) {
      if (rows[i].isNullAt(0)) continue;
      parts.add(new And(new GreaterThanOrEqual(one.ours, literal(rows[i], 0, one.theirs)),
          new LessThanOrEqual(one.ours, literal(rows[i], 1, one.theirs))));
    }
    if (missing) parts.add(new IsNull(one.ours));
    conditions.add(either(parts, 0, parts.size()));
  }

  /** Holds a constraint against one bound, the only row; without a value nothing can be TRUE. */
  public void bound(int number, Dataset bound) {
    Constraint one = at(number);
    InternalRow[] rows = collected(bound);
    if (rows.length == 0 || rows[0].isNullAt(0)) {
      conditions.add(Literal$.MODULE$.FalseLiteral());
      return;
    }
    Expression value = literal(rows[0], 0, one.theirs);
    conditions.add(one.op.equals("<=") ? (Expression) new LessThanOrEqual(one.ours, value)
        : new GreaterThanOrEqual(one.ours, value));
  }

  private static Literal literal(InternalRow row, int at, Expression like) {
    return new Literal(row.get(at, like.dataType()), like.dataType());
  }

  /** A disjunction that is no deeper than it must be: Catalyst goes down it by recursion. */
  private static Expression either(List parts, int from, int to) {
    if (from == to) return Literal$.MODULE$.FalseLiteral();
    if (to - from == 1) return (Expression) parts.get(from);
    int middle = (from + to) / 2;
    return new Or(either(parts, from, middle), either(parts, middle, to));
  }

  /** A query of the table's rows that meet what has been held against them: all that the query can need. */
  public LogicalPlan needed() {
    LogicalPlan rows = leaf(plan);
    for (int i = 0; i < conditions.size(); i++) rows = new Filter((Expression) conditions.get(i), rows);
    return rows;
  }

  /** The query over some of the table's files alone: those of a relation made like the table's own. */
  public Dataset over(LogicalPlan some) {
    return Dataset.ofRows(session, narrowed(plan, location(some)));
  }

  private LogicalPlan narrowed(LogicalPlan node, FileIndex some) {
    if (isTarget(node)) {
      LogicalRelation leaf = (LogicalRelation) node;
      return Replacement.withLocation(leaf, some, ((HadoopFsRelation) leaf.relation()).fileFormat(), null);
    }
    List children = Scala.list(node.children());
    if (children.isEmpty()) return node;
    Object[] changed = new Object[children.size()];
    for (int i = 0; i < changed.length; i++) changed[i] = narrowed((LogicalPlan) children.get(i), some);
    return (LogicalPlan) node.withNewChildren(Scala.seq(changed));
  }
}
