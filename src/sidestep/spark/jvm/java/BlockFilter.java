package sidestep;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.DataTypes;

/**
 * What makes Spark read only some row groups of a laid-out table. Each row group is a block and holds the block's id in
 * all its rows, so Parquet's own statistics tell the reader which ones can be passed over, given ranges of ids.
 *
 * The ranges are no part of the plan: the reader is given them when the query runs (SkippingParquet). Of the plan it
 * takes only that the column is read, for which it is named in a condition that every row meets. (Ranges in the plan
 * would be asked of each row, and would make the plan the larger the more blocks there are.)
 */
final class BlockFilter {
  /** How a table's schema tells the column of ids: by its metadata, never by its name, which may be a user's. */
  private static final String MARK = "sidestep.block";

  /** What tells the column of ids. */
  static org.apache.spark.sql.types.Metadata marked() {
    return new org.apache.spark.sql.types.MetadataBuilder().putBoolean(MARK, true).build();
  }

  /** A condition that holds for every row and names the column of ids; null if the relation has none. */
  static Expression reading(LogicalRelation leaf) {
    AttributeReference column = column(leaf);
    return column == null ? null : new Or(new IsNotNull(column), new IsNull(column));
  }

  /** The name of the column of ids; null if the relation has none. */
  static String columnName(LogicalRelation leaf) {
    AttributeReference column = column(leaf);
    return column == null ? null : column.name();
  }

  /** What a filter asks for apart from what the rule has put over a relation; null if it asks for nothing else. */
  static Expression without(Filter filter) {
    LogicalPlan below = filter.child();
    while (below instanceof Filter) below = ((Filter) below).child();
    // Only where the rule has been is there anything of its own.
    if (!PlanWriter.isFileRelation(below) || !isPruned((LogicalRelation) below)) return filter.condition();
    Expression rest = null;
    java.util.ArrayDeque open = new java.util.ArrayDeque();
    open.push(filter.condition());
    while (!open.isEmpty()) {
      Expression next = (Expression) open.pop();
      if (next instanceof And) {
        open.push(((And) next).right());
        open.push(((And) next).left());
      } else if (!(next instanceof PartitionSelector) && !isAboutBlocks(next)) {
        rest = rest == null ? next : new And(rest, next);
      }
    }
    return rest;
  }

  private static boolean isPruned(LogicalRelation leaf) {
    return ((HadoopFsRelation) leaf.relation()).location() instanceof PrunedFiles
        || ((HadoopFsRelation) leaf.relation()).location() instanceof DeltaReader.Pruned;
  }

  private static boolean isAboutBlocks(Expression e) {
    List references = Scala.list(e.references().toSeq());
    for (int i = 0; i < references.size(); i++) {
      if (!isMarked((Attribute) references.get(i))) return false;
    }
    return !references.isEmpty() && e.deterministic();
  }

  private static AttributeReference column(LogicalRelation leaf) {
    List output = Scala.list(leaf.output());
    for (int i = 0; i < output.size(); i++) {
      AttributeReference attribute = (AttributeReference) output.get(i);
      if (isMarked(attribute)) return attribute;
    }
    return null;
  }

  private static boolean isMarked(Attribute attribute) {
    return attribute.metadata().contains(MARK) && attribute.dataType().equals(DataTypes.IntegerType);
  }

  /** Ranges, low and high ends in turn, as a condition on a column: a balanced tree, which no depth overflows. */
  static org.apache.spark.sql.sources.Filter either(String column, int[] ranges, int from, int to) {
    if (to - from > 1) {
      int middle = (from + to) >>> 1;
      return new org.apache.spark.sql.sources.Or(either(column, ranges, from, middle), either(column, ranges, middle, to));
    }
    Integer low = Integer.valueOf(ranges[2 * from]);
    Integer high = Integer.valueOf(ranges[2 * from + 1]);
    if (low.equals(high)) return new org.apache.spark.sql.sources.EqualTo(column, low);
    return new org.apache.spark.sql.sources.And(new org.apache.spark.sql.sources.GreaterThanOrEqual(column, low),
        new org.apache.spark.sql.sources.LessThanOrEqual(column, high));
  }
}
