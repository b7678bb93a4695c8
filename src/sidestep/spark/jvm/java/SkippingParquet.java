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
 * Parquet that is read with conditions besides the query's own: ids of blocks, and bounds of a column. Parquet's own
 * statistics then pass over row groups, and pages, of the files that are read. They are no conditions of the plan: those
 * are fixed when the query is planned, whereas what these rest on is looked at again when the query runs, and some are
 * known only then (PartitionSelector). Rows that fail one would not matter, so no one need ask it of each row. Not part
 * of any comparison: the files that it belongs to are (PrunedFiles).
 */
public final class SkippingParquet extends ParquetFileFormat {
  private static final String SCAN = "org.apache.spark.sql.execution.FileSourceScanExec";
  /** Of type LateReader: the one that a scan has made last on this thread. */
  private static final ThreadLocal made = new ThreadLocal();

  private final transient PrunedFiles files;
  /** The column of block ids; null if there is none to be asked for. */
  private final transient String blocks;
  /** An induced predicate and its column; null if there is none. */
  final transient Filter bound;
  final transient String boundColumn;
  /** Whether more is known when the query runs. */
  private final transient boolean late;

  private SkippingParquet(PrunedFiles files, String blocks, String boundColumn, Filter bound, boolean late) {
    this.files = files;
    this.blocks = blocks;
    this.boundColumn = boundColumn;
    this.bound = bound;
    this.late = late;
  }

  /** How files are read of which blocks, or ranges of a column, are passed over. */
  static SkippingParquet of(PrunedFiles files, String blocks, String boundColumn, Filter bound, boolean late) {
    return new SkippingParquet(files, blocks, boundColumn, bound, late);
  }

  /** Ranges of a column of a relation, low:high,low:high, as a condition; null if that can't be said to Parquet. */
  static Filter bound(LogicalRelation leaf, String name, String ranges) {
    AttributeReference column = null;
    List output = Scala.list(leaf.output());
    for (int i = 0; i < output.size(); i++) {
      AttributeReference attribute = (AttributeReference) output.get(i);
      if (attribute.name().equals(name)) column = attribute;
    }
    return column == null ? null : bound(column, ranges);
  }

  static Filter bound(AttributeReference column, String ranges) {
    if (ranges.isEmpty()) return null;
    String[] each = ranges.split(",");
    Expression[] parts = new Expression[each.length];
    for (int i = 0; i < each.length; i++) {
      int middle = each[i].indexOf(':');
      parts[i] = between(column, each[i].substring(0, middle), each[i].substring(middle + 1));
      if (parts[i] == null) return null;
    }
    scala.Option filter = DataSourceStrategy$.MODULE$.translateFilter(either(parts, 0, parts.length), true);
    return filter.isEmpty() ? null : (Filter) filter.get();
  }

  private static Expression either(Expression[] parts, int from, int to) {
    if (to - from == 1) return parts[from];
    int middle = (from + to) >>> 1;
    return new Or(either(parts, from, middle), either(parts, middle, to));
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
    LateReader reader = new LateReader(this, new Object[] {session, dataSchema, partitionSchema, requiredSchema, options,
        hadoopConf}, new ArrayList(Scala.list(filters)));
    // To Parquet's index of pages, a column that is not asked for is one that is not there.
    if (bound != null && reader.reads(boundColumn) && files.inducedHold()) reader.filters.add(bound);
    PrunedFiles.KeptBlocks kept = blocks != null && reader.reads(blocks) ? files.keptBlocks() : null;
    if (kept != null && kept.ranges.length > 0) {
      reader.filters.add(BlockFilter.either(blocks, kept.ranges, 0, kept.ranges.length / 2));
    }
    if (!late) return reader.build();
    made.set(reader);
    return reader;
  }

  /**
   * The reader of the scan that is choosing its files just now, on this thread, out of these; null if it cannot be told.
   * A scan makes its reader and then chooses its files, in one method: whoever is asked to choose from within it can be
   * sure that the last reader made on the thread is that scan's.
   */
  static LateReader choosing(PrunedFiles files) {
    LateReader reader = (LateReader) made.get();
    if (reader == null || reader.format.files != files) return null;
    StackTraceElement[] stack = new Throwable().getStackTrace();
    for (int i = 0; i < stack.length; i++) {
      if (stack[i].getClassName().startsWith(SCAN) && stack[i].getMethodName().startsWith("inputRDD")) return reader;
    }
    return null;
  }

  /**
   * A reader that is made when it is sent to executors: by then the scan has chosen its files. What is sent is of Spark's
   * own class, which executors know.
   */
  public static final class LateReader extends scala.runtime.AbstractFunction1 implements java.io.Serializable {
    final transient SkippingParquet format;
    private final transient Object[] arguments;
    final transient List filters;
    /** Of type KeptGroups: the row groups to be read of the files that the scan has chosen. */
    final transient List groups = new ArrayList();
    /** Kept here, on the driver: settings go to executors by a broadcast, which lives as long as someone holds it. */
    private transient scala.Function1 built = null;

    LateReader(SkippingParquet format, Object[] arguments, List filters) {
      this.format = format;
      this.arguments = arguments;
      this.filters = filters;
    }

    boolean reads(String column) {
      return column != null && ((StructType) arguments[3]).getFieldIndex(column).isDefined();
    }

    /** Only row groups with blocks of these ids, in ranges, need be read. */
    void add(PrunedFiles.KeptBlocks kept) {
      if (kept.ranges.length > 0 && reads(format.blocks)) {
        filters.add(BlockFilter.either(format.blocks, kept.ranges, 0, kept.ranges.length / 2));
      }
    }

    /** Only rows with a value of a column in these ranges matter. */
    void add(String column, String ranges) {
      if (!reads(column)) return;
      StructField field = ((StructType) arguments[3]).apply(column);
      Filter condition = bound(new AttributeReference(column, field.dataType(), field.nullable(), field.metadata(),
          NamedExpression$.MODULE$.newExprId(), Scala.seq(new String[0])), ranges);
      if (condition != null) filters.add(condition);
    }

    synchronized scala.Function1 build() {
      if (built == null) built = newReader();
      return built;
    }

    private scala.Function1 newReader() {
      return new ParquetFileFormat().buildReaderWithPartitionValues((SparkSession) arguments[0],
          (StructType) arguments[1], (StructType) arguments[2], (StructType) arguments[3],
          Scala.seq(filters.toArray()), (scala.collection.immutable.Map) arguments[4], (Configuration) arguments[5]);
    }

    public Object apply(Object file) {
      return build().apply(file);
    }

    // Public, or Janino hides it from Java's serialization.
    public Object writeReplace() {
      return build();
    }
  }
}
