package sidestep;

import java.util.HashSet;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.DataTypes;

/**
 * The condition that makes Spark read only some row groups of a laid-out table. Each row group is a block and holds the
 * block's id in all its rows, so Parquet's own statistics tell the reader which ones can be passed over.
 *
 * Ranges of ids, as a balanced tree, are what statistics can judge at once; the exact ids, where there are too many for
 * ranges, are a set that the reader checks against a row group's dictionary. (A long IN list alone would be judged by
 * its least and greatest value only; one made into a chain of ORs, which is what spark.sql.parquet.pushdown
 * .inFilterThreshold does, overflows the stack when it is sent to an executor.)
 */
final class BlockFilter {
  /** How a table's schema tells the column of ids: by its metadata, never by its name, which may be a user's. */
  private static final String MARK = "sidestep.block";

  /** The condition for a relation whose files are to be pruned so, or null if none may or need be set. */
  static Expression of(LogicalRelation leaf, PrunedFiles files) {
    if (!files.byBlock()) return null;
    AttributeReference column = column(leaf);
    if (column == null) return null;
    PrunedFiles.KeptBlocks blocks = ((PrunedFiles.Skip) files.skips.get(0)).blocks;
    if (blocks.ranges.length == 0) return null;
    Expression ranges = either(column, blocks.ranges, 0, blocks.ranges.length / 2);
    if (blocks.ids.length == 0) return ranges;
    HashSet ids = new HashSet(blocks.ids.length * 2);
    for (int i = 0; i < blocks.ids.length; i++) ids.add(Integer.valueOf(blocks.ids[i]));
    scala.collection.immutable.Set set =
        (scala.collection.immutable.Set) ((scala.collection.mutable.Set) scala.jdk.javaapi.CollectionConverters.asScala(ids))
            .toSet();
    return new And(ranges, new InSet(column, set));
  }

  /** What a filter asks for apart from conditions on block ids over a relation; null if it asks for nothing else. */
  static Expression without(Filter filter) {
    LogicalPlan below = filter.child();
    while (below instanceof Filter) below = ((Filter) below).child();
    if (!PlanWriter.isFileRelation(below) || column((LogicalRelation) below) == null) return filter.condition();
    Expression rest = null;
    java.util.ArrayDeque open = new java.util.ArrayDeque();
    open.push(filter.condition());
    while (!open.isEmpty()) {
      Expression next = (Expression) open.pop();
      if (next instanceof And) {
        open.push(((And) next).right());
        open.push(((And) next).left());
      } else if (!isAboutBlocks(next)) {
        rest = rest == null ? next : new And(rest, next);
      }
    }
    return rest;
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

  private static Expression either(AttributeReference column, int[] ranges, int from, int to) {
    if (to - from > 1) {
      int middle = (from + to) >>> 1;
      return new Or(either(column, ranges, from, middle), either(column, ranges, middle, to));
    }
    int low = ranges[2 * from];
    int high = ranges[2 * from + 1];
    if (low == high) return new EqualTo(column, literal(low));
    return new And(new GreaterThanOrEqual(column, literal(low)), new LessThanOrEqual(column, literal(high)));
  }

  private static Literal literal(int value) {
    return new Literal(Integer.valueOf(value), DataTypes.IntegerType);
  }
}
