package sidestep;

import java.util.HashSet;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
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
public final class BlockFilter {
  public static final String COLUMN = "_block";

  /** The condition for a relation whose files have been pruned, or null if none may or need be set. */
  public static Expression of(LogicalRelation leaf) {
    FileIndexes.PrunedFiles files = (FileIndexes.PrunedFiles) ((HadoopFsRelation) leaf.relation()).location();
    if (!files.byBlock()) return null;
    AttributeReference column = column(leaf);
    if (column == null) return null;
    FileIndexes.KeptBlocks blocks = ((FileIndexes.Skip) files.skips.get(0)).blocks;
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

  private static AttributeReference column(LogicalRelation leaf) {
    List output = FileIndexes.list(leaf.output());
    for (int i = 0; i < output.size(); i++) {
      AttributeReference attribute = (AttributeReference) output.get(i);
      if (attribute.name().equals(COLUMN) && attribute.dataType().equals(DataTypes.IntegerType)) return attribute;
    }
    return null;
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
