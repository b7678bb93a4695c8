package sidestep;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.*;

/**
 * Puts rows together again of which the columns lie in groups: in the place of each relation over such a table comes a
 * join of the groups that hold the columns in use, on the unit and the number of the row. Rows of a unit are in files of
 * the same bucket in every group, so the join needs no exchange. A condition goes to the group that holds its columns,
 * and stays above the join where no single one does. A group of which blocks were skipped lacks rows, which the join
 * then drops: none of them could have met the query's conditions.
 *
 * This is done whether or not anything is skipped, and asks nothing of Python: without it there is no such table.
 */
final class Reconstruction extends PlanRewriter {
  /** The columns that groups are joined by. */
  private static final String UNIT = "_unit";
  private static final String ROW_ID = "_rid";
  /** What one task may hash of a group where Spark has no limit of its own for broadcasts. */
  private static final long USUAL_BYTES = 10L << 20;
  /** What a plan was before, so that others can tell what the query asks for. */
  private static final TreeNodeTag ORIGINAL = new TreeNodeTag("sidestep.original");

  private final SQLConf conf;
  private final boolean ofJobs;

  /** ofJobs: tables that jobs read to change them are put together as well. */
  Reconstruction(SQLConf conf, boolean ofJobs) {
    this.conf = conf;
    this.ofJobs = ofJobs;
  }

  /** What stood in the place of a plan that was put together; any other plan as it is. */
  static LogicalPlan original(LogicalPlan plan) {
    scala.Option before = plan.getTagValue(ORIGINAL);
    return before.isDefined() ? (LogicalPlan) before.get() : plan;
  }

  LogicalPlan of(LogicalPlan plan) {
    if (original(plan) != plan) return plan;
    LogicalPlan leaf = plan instanceof Project ? ((Project) plan).child() : plan;
    while (leaf instanceof Filter || passes(leaf)) leaf = (LogicalPlan) Scala.list(leaf.children()).get(0);
    GroupedFiles files = GroupedFiles.of(leaf);
    return files == null || files.byJob && !ofJobs ? below(plan) : rows(plan, (LogicalRelation) leaf);
  }

  /** Whether a plan only leaves columns out: that which numbers files is left out above what chooses by it. */
  private static boolean passes(LogicalPlan plan) {
    if (!(plan instanceof Project)) return false;
    for (java.util.Iterator it = Scala.list(((Project) plan).projectList()).iterator(); it.hasNext();) {
      if (!(it.next() instanceof AttributeReference)) return false;
    }
    return true;
  }

  /**
   * The rows of a table in column groups as a plan of the form [Project] Filter* relation asks for them; projects that
   * only leave columns out may stand between. What chooses files when the query runs chooses those of each group.
   */
  private LogicalPlan rows(LogicalPlan plan, LogicalRelation leaf) {
    Project top = plan instanceof Project ? (Project) withSubqueries(plan) : null;
    ArrayList conditions = new ArrayList();
    LogicalPlan at = top == null ? plan : top.child();
    for (; at != leaf; at = (LogicalPlan) Scala.list(at.children()).get(0)) {
      if (at instanceof Filter) conditions.addAll(0, PlanWriter.conjuncts(((Filter) withSubqueries(at)).condition()));
    }
    ArrayList selectors = new ArrayList();
    for (java.util.Iterator it = conditions.iterator(); it.hasNext();) {
      Object condition = it.next();
      if (!(condition instanceof PartitionSelector)) continue;
      selectors.add(condition);
      it.remove();
    }
    List sides = sides(leaf, needed(leaf, top, conditions));
    List above = sides.size() == 1 ? new ArrayList() : assign(conditions, sides);
    if (sides.size() == 1) ((Side) sides.get(0)).conditions.addAll(conditions);
    LogicalPlan joined = join(leaf, sides, selectors);
    if (!above.isEmpty()) joined = new Filter(all(above), joined);
    Project result = new Project(top == null ? plan.output() : top.projectList(), joined);
    check(result);
    result.setTagValue(ORIGINAL, plan);
    try {
      // What Spark would think of a join is far too much: no row finds more than one partner.
      result.statsCache_$eq(scala.Option.apply(plan.stats()));
    } catch (RuntimeException unknown) {
      return result;
    }
    return result;
  }

  /** Of type AttributeReference: what is asked for of a relation, in its order. */
  private static List needed(LogicalRelation leaf, Project top, List conditions) {
    ArrayList needed = new ArrayList();
    for (java.util.Iterator it = Scala.list(leaf.output()).iterator(); it.hasNext();) {
      Attribute column = (Attribute) it.next();
      if (Replacement.isPart(column)) continue;
      boolean wanted = top == null || top.references().contains(column);
      for (int c = 0; !wanted && c < conditions.size(); c++) {
        wanted = ((Expression) conditions.get(c)).references().contains(column);
      }
      if (wanted) needed.add(column);
    }
    return needed;
  }

  /** Of type Side: the groups that hold these columns, each with those it is to give. */
  private static List sides(LogicalRelation leaf, List needed) {
    GroupedFiles files = GroupedFiles.of(leaf);
    ArrayList names = new ArrayList();
    for (int i = 0; i < needed.size(); i++) names.add(((Attribute) needed.get(i)).name());
    FileIndex location = ((HadoopFsRelation) leaf.relation()).location();
    int[] chosen = files.through(location instanceof PrunedFiles ? ((PrunedFiles) location).path : null, names);
    ArrayList sides = new ArrayList();
    for (int i = 0; i < chosen.length; i++) sides.add(new Side(chosen[i]));
    for (int i = 0; i < needed.size(); i++) {
      int s = 0;
      while (!files.holds(((Side) sides.get(s)).group, (String) names.get(i))) s++;
      ((Side) sides.get(s)).columns.add(needed.get(i));
    }
    return sides;
  }

  /**
   * Gives each side the conditions that are about its columns alone, and returns the others. One that may fail on some
   * row is not asked before one that came first in the query and would have kept it from that row.
   */
  private static List assign(List conditions, List sides) {
    ArrayList above = new ArrayList();
    Side only = null;
    boolean several = false;
    for (int c = 0; c < conditions.size(); c++) {
      Expression condition = (Expression) conditions.get(c);
      Side side = null;
      for (int s = 0; s < sides.size() && condition.deterministic() && !condition.references().isEmpty(); s++) {
        if (((Side) sides.get(s)).gives(condition.references())) side = (Side) sides.get(s);
      }
      if (side != null && !neverFails(condition) && (several || only != null && only != side)) side = null;
      if (side == null) above.add(condition);
      else side.conditions.add(condition);
      several |= side == null || only != null && only != side;
      only = side;
    }
    return above;
  }

  /** Whether an expression has a value on every row. What is not known here may have none. */
  private static boolean neverFails(Expression e) {
    boolean known = e instanceof AttributeReference || e instanceof Literal || e instanceof And || e instanceof Or
        || e instanceof Not || e instanceof BinaryComparison || e instanceof IsNull || e instanceof IsNotNull
        || e instanceof In || e instanceof InSet || e instanceof StringPredicate || e instanceof IsNaN
        || e instanceof Coalesce || e instanceof PlanExpression || e instanceof BloomFilterMightContain
        || e instanceof XxHash64 || e instanceof Length || e instanceof Year || e instanceof Quarter || e instanceof Month
        || e instanceof Cast && Cast$.MODULE$.canUpCast(((Cast) e).child().dataType(), e.dataType());
    for (java.util.Iterator it = Scala.list(e.children()).iterator(); known && it.hasNext();) {
      known = neverFails((Expression) it.next());
    }
    return known;
  }

  private LogicalPlan join(LogicalRelation leaf, List sides, List selectors) {
    for (int s = 0; s < sides.size(); s++) ((Side) sides.get(s)).plan(leaf, sides.size() > 1, selectors);
    boolean known = true;
    for (int s = 0; s < sides.size(); s++) known &= ((Side) sides.get(s)).rows >= 0;
    for (int s = 0; !known && s < sides.size(); s++) ((Side) sides.get(s)).rows = -1;
    // What has conditions comes first, then what is small: what is joined later finds few rows left.
    java.util.Collections.sort(sides);
    Side first = (Side) sides.get(0);
    LogicalPlan joined = first.plan;
    long bytes = first.bytes;
    for (int s = 1; s < sides.size(); s++) {
      Side next = (Side) sides.get(s);
      boolean left = first.conditions.isEmpty() ? bytes <= next.bytes : next.conditions.isEmpty() || bytes <= next.bytes;
      // In order of their rows, the first have the fewest.
      left |= first.rows >= 0 && next.rows >= 0;
      JoinStrategyHint how = strategy(left ? bytes : next.bytes, GroupedFiles.of(leaf).buckets);
      scala.Option hint = scala.Option.apply(new HintInfo(scala.Option.apply(how)));
      scala.Option none = scala.Option.empty();
      joined = new Join(joined, next.plan, Inner$.MODULE$,
          scala.Option.apply(same(first, next, how == SHUFFLE_HASH$.MODULE$)),
          new JoinHint(left ? hint : none, left ? none : hint));
      // A row has one partner, so that the rows of either side are those of the result, if none were dropped.
      bytes = first.rows >= 0 && next.rows >= 0 ? bytes + first.rows * next.width() : bytes + next.bytes;
    }
    return joined;
  }

  /**
   * Whether the parts of two groups are of one row. To be hashed, half of the row's number and the unit are the keys:
   * together as wide as a long, by which Spark finds rows several times as fast as by anything else. Within a unit, half
   * of the number is nearly always all of it, and where it is not, the whole number decides.
   */
  private static Expression same(Side one, Side other, boolean hashed) {
    Expression units = new EqualTo(one.unit, other.unit);
    if (!hashed) return new And(units, new EqualTo(one.row, other.row));
    Expression halves = new And(units, new EqualTo(half(one.row), half(other.row)));
    return new And(halves, new EqualTo(new BitwiseXor(one.row, other.row), new Literal(Long.valueOf(0), DataTypes.LongType)));
  }

  /** The lower half of a number, whatever the session says of numbers that are too large. */
  private static Expression half(Expression number) {
    return new Cast(number, DataTypes.IntegerType, scala.Option.empty(), EvalMode.LEGACY());
  }

  /** How groups are joined: by a hash table of the smaller one in each task if it is small, else by sorting both. */
  private JoinStrategyHint strategy(long bytes, int buckets) {
    long most = conf.autoBroadcastJoinThreshold() > 0 ? conf.autoBroadcastJoinThreshold() : USUAL_BYTES;
    return bytes / buckets <= most ? (JoinStrategyHint) SHUFFLE_HASH$.MODULE$ : SHUFFLE_MERGE$.MODULE$;
  }

  private static Expression all(List conditions) {
    Expression all = (Expression) conditions.get(0);
    for (int i = 1; i < conditions.size(); i++) all = new And(all, (Expression) conditions.get(i));
    return all;
  }

  /** An error after the rule has returned would be harder to understand. */
  private static void check(LogicalPlan plan) {
    if (!plan.missingInput().isEmpty()) throw new IllegalStateException("nothing gives " + plan.missingInput());
    for (java.util.Iterator it = Scala.list(plan.children()).iterator(); it.hasNext();) check((LogicalPlan) it.next());
  }

  private static AttributeReference hidden(String name, DataType type, Metadata metadata) {
    return new AttributeReference(name, type, true, metadata, NamedExpression$.MODULE$.newExprId(),
        Scala.seq(new String[0]));
  }

  /** One group of a table, as an input of the join. */
  public static final class Side implements Comparable {
    final int group;
    /** Of type AttributeReference: what it gives. */
    final List columns = new ArrayList();
    /** Of type Expression: what is asked of these. */
    final List conditions = new ArrayList();
    AttributeReference unit = null;
    AttributeReference row = null;
    LogicalPlan plan = null;
    /** About what it takes to hash it. */
    long bytes = 0;
    /** About how many rows are read of it; -1 where that is not known. */
    long rows = -1;

    Side(int group) {
      this.group = group;
    }

    boolean gives(AttributeSet references) {
      return references.subsetOf(AttributeSet$.MODULE$.apply(Scala.seq(columns.toArray())));
    }

    /** Makes the plan that reads the group; joins: with what it is joined by; selectors: what chooses of its files. */
    void plan(LogicalRelation leaf, boolean joins, List selectors) {
      HadoopFsRelation whole = (HadoopFsRelation) leaf.relation();
      GroupedFiles grouped = GroupedFiles.of(leaf);
      ArrayList given = new ArrayList(columns);
      if (joins) {
        unit = key(given, UNIT, DataTypes.IntegerType);
        row = key(given, ROW_ID, DataTypes.LongType);
      }
      ArrayList output = new ArrayList(given);
      FileIndex files = grouped.groups[group];
      FileFormat format = new ParquetFileFormat();
      boolean byBlock = false;
      PrunedFiles pruned = null;
      boolean late = !selectors.isEmpty();
      if (whole.location() instanceof PrunedFiles) {
        pruned = ((PrunedFiles) whole.location()).of(grouped.groups[group], late);
        files = pruned;
        byBlock = grouped.block != null && (late || pruned.byBlock());
        format = format(whole.fileFormat(), pruned, byBlock ? grouped.block : null, late);
        if (byBlock) output.add(hidden(grouped.block, DataTypes.IntegerType, BlockFilter.marked()));
      }
      scala.Option buckets = scala.Option.empty();
      if (joins) {
        buckets = scala.Option.apply(
            new BucketSpec(grouped.buckets, Scala.seq(new Object[] {UNIT}), Scala.seq(new Object[0])));
      }
      StructType numbers = new StructType();
      AttributeReference number = late ? Replacement.numbering(pruned.part) : null;
      if (late) numbers = numbers.add(number.name(), number.dataType(), true, number.metadata());
      HadoopFsRelation relation = whole.copy(files, numbers, schema(output), buckets, format, whole.options(),
          whole.sparkSession());
      if (late) output.add(number);
      LogicalRelation read = leaf.copy(relation, Scala.seq(output.toArray()), scala.Option.empty(), false,
          scala.Option.empty());
      plan = byBlock ? new Filter(BlockFilter.reading(read), read) : (LogicalPlan) read;
      for (int i = 0; i < selectors.size(); i++) {
        plan = new Filter(((PartitionSelector) selectors.get(i)).of(pruned, number), plan);
      }
      if (!conditions.isEmpty()) plan = new Filter(all(conditions), plan);
      if (joins) plan = new Project(Scala.seq(given.toArray()), plan);
      bytes = PlanWriter.bytes(plan);
      if (whole.location() instanceof PrunedFiles) rows = ((PrunedFiles) whole.location()).rowsOf(group);
      if (rows >= 0) bytes = rows * width();
    }

    /** About how many bytes a row takes in a hash table, packed as it is on disk: Spark's limits are about such sizes. */
    int width() {
      return 8 + 4 * columns.size();
    }

    /** A column that groups are joined by: what was asked for of it, or else one that no one sees. */
    private static AttributeReference key(List given, String name, DataType type) {
      for (int i = 0; i < given.size(); i++) {
        if (((Attribute) given.get(i)).name().equals(name)) return (AttributeReference) given.get(i);
      }
      AttributeReference key = hidden(name, type, Metadata.empty());
      given.add(key);
      return key;
    }

    /** How the group is read: a bound on a column that another one holds is that one's matter. */
    private FileFormat format(FileFormat whole, PrunedFiles files, String block, boolean late) {
      SkippingParquet bound = block == null && whole instanceof SkippingParquet ? (SkippingParquet) whole : null;
      boolean bounded = false;
      for (int i = 0; bound != null && i < columns.size(); i++) {
        bounded |= ((Attribute) columns.get(i)).name().equals(bound.boundColumn);
      }
      if (block == null && !bounded && !late) return new ParquetFileFormat();
      return SkippingParquet.of(files, block, bounded ? bound.boundColumn : null, bounded ? bound.bound : null, late);
    }

    private static StructType schema(List output) {
      StructType schema = new StructType();
      for (int i = 0; i < output.size(); i++) {
        AttributeReference column = (AttributeReference) output.get(i);
        schema = schema.add(column.name(), column.dataType(), column.nullable(), column.metadata());
      }
      return schema;
    }

    public int compareTo(Object other) {
      Side that = (Side) other;
      if (rows >= 0 && that.rows >= 0 && rows != that.rows) return Long.compare(rows, that.rows);
      if (conditions.isEmpty() != that.conditions.isEmpty()) return conditions.isEmpty() ? 1 : -1;
      return bytes != that.bytes ? Long.compare(bytes, that.bytes) : Integer.compare(group, that.group);
    }
  }
}
