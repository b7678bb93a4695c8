package sidestep;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.*;

/**
 * Parquet that is read with an induced predicate besides: its own statistics then pass over row groups, and pages, of
 * the files that are read. It is no condition of the plan: those are fixed when the query is planned, and what induced
 * this one is looked at again when the query runs. Rows that fail it would find no partner, so no one need ask it of
 * each row. Not part of any comparison: the files that it belongs to are (PrunedFiles).
 */
public final class BoundedParquet extends ParquetFileFormat {
  private final transient PrunedFiles files;
  private final transient Filter bound;
  private final String column;

  private BoundedParquet(PrunedFiles files, String column, Filter bound) {
    this.files = files;
    this.column = column;
    this.bound = bound;
  }

  /** The relation with a column in ranges, low:high,low:high, and those files; null if that can't be said to Parquet. */
  static LogicalRelation over(LogicalRelation leaf, PrunedFiles files, String name, String ranges) {
    AttributeReference column = null;
    List output = Scala.list(leaf.output());
    for (int i = 0; i < output.size(); i++) {
      AttributeReference attribute = (AttributeReference) output.get(i);
      if (attribute.name().equals(name)) column = attribute;
    }
    if (column == null || ranges.isEmpty()) return null;
    String[] each = ranges.split(",");
    Expression condition = null;
    for (int i = 0; i < each.length; i++) {
      int middle = each[i].indexOf(':');
      Expression range = between(column, each[i].substring(0, middle), each[i].substring(middle + 1));
      if (range == null) return null;
      condition = condition == null ? range : new Or(condition, range);
    }
    scala.Option filter = DataSourceStrategy$.MODULE$.translateFilter(condition, true);
    if (filter.isEmpty()) return null;
    PrunedFiles bounded = files.with(name + " in " + ranges);
    return PruneRule.withLocation(leaf, bounded, new BoundedParquet(bounded, name, (Filter) filter.get()));
  }

  private static Expression between(AttributeReference column, String low, String high) {
    Literal from = low.isEmpty() ? null : literal(low, column.dataType());
    Literal to = high.isEmpty() ? null : literal(high, column.dataType());
    if (from == null && !low.isEmpty() || to == null && !high.isEmpty() || from == null && to == null) return null;
    if (from == null) return new LessThanOrEqual(column, to);
    if (to == null) return new GreaterThanOrEqual(column, from);
    return new And(new GreaterThanOrEqual(column, from), new LessThanOrEqual(column, to));
  }

  private static Literal literal(String text, DataType type) {
    long value = Long.parseLong(text);
    if (type.equals(DataTypes.LongType) || type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
      return new Literal(Long.valueOf(value), type);
    }
    if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType)) {
      return new Literal(Integer.valueOf((int) value), type);
    }
    return null;
  }

  public scala.Function1 buildReaderWithPartitionValues(SparkSession session, StructType dataSchema,
      StructType partitionSchema, StructType requiredSchema, scala.collection.immutable.Seq filters,
      scala.collection.immutable.Map options, Configuration hadoopConf) {
    // What is sent to executors is of Spark's own class, which they know. To Parquet's index of pages, a column that is
    // not asked for is one that is not there.
    return new ParquetFileFormat().buildReaderWithPartitionValues(session, dataSchema, partitionSchema, requiredSchema,
        requiredSchema.getFieldIndex(column).isDefined() && files.inducedHold() ? with(filters) : filters, options,
        hadoopConf);
  }

  private scala.collection.immutable.Seq with(scala.collection.immutable.Seq filters) {
    List all = new ArrayList(Scala.list(filters));
    all.add(bound);
    return Scala.seq(all.toArray());
  }
}
