package sidestep;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.FileSourceOptions;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's own scan of files, which reads of some of them only pieces (RowGroupPieces). Tasks are Spark's own, and so is
 * whatever is sent to executors, which do not know this class.
 */
public final class RowGroupScan extends SparkScan {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");

  private transient RDD pieces = null;

  public RowGroupScan(HadoopFsRelation relation, scala.Option stream, scala.collection.immutable.Seq output,
      StructType requiredSchema, scala.collection.immutable.Seq partitionFilters, scala.Option optionalBucketSet,
      scala.Option optionalNumCoalescedBuckets, scala.collection.immutable.Seq dataFilters, scala.Option tableIdentifier,
      boolean disableBucketedScan, boolean markedForSingleTaskExecution) {
    super(relation, stream, output, requiredSchema, partitionFilters, optionalBucketSet, optionalNumCoalescedBuckets,
        dataFilters, tableIdentifier, disableBucketedScan, markedForSingleTaskExecution);
  }

  /** What Spark before 4.3 copies a scan by: all that its own is made of. */
  public RowGroupScan(HadoopFsRelation relation, scala.Option stream, scala.collection.immutable.Seq output,
      StructType requiredSchema, scala.collection.immutable.Seq partitionFilters, scala.Option optionalBucketSet,
      scala.Option optionalNumCoalescedBuckets, scala.collection.immutable.Seq dataFilters, scala.Option tableIdentifier,
      boolean disableBucketedScan) {
    this(relation, stream, output, requiredSchema, partitionFilters, optionalBucketSet, optionalNumCoalescedBuckets,
        dataFilters, tableIdentifier, disableBucketedScan, false);
  }

  /**
   * A scan that reads pieces where that leaves out something; any other as it is. unseen: whether places in files, if the
   * scan tells them, are dropped before anyone sees them.
   */
  static FileSourceScanExec of(FileSourceScanExec scan, boolean unseen) {
    FileIndex location = scan.relation().location();
    PrunedFiles files = PrunedFiles.in(location);
    if (files == null || !files.readsPieces()) return scan;
    // Delta counts the rows of a file itself if it is told to, and then has to see them all.
    HadoopFsRelation relation = scan.relation();
    org.apache.hadoop.fs.Path root = (org.apache.hadoop.fs.Path) Scala.list(location.rootPaths()).get(0);
    if (!relation.fileFormat().isSplitable(relation.sparkSession(), relation.options(), root)) return scan;
    // Buckets are files that are read whole, by tasks of their own.
    if (scan.relation().bucketSpec().isDefined()) return scan;
    List columns = Scala.list(scan.fileConstantMetadataColumns());
    for (int i = 0; !unseen && i < columns.size(); i++) {
      String name = ((org.apache.spark.sql.catalyst.expressions.Attribute) columns.get(i)).name();
      if (name.equals("file_block_start") || name.equals("file_block_length")) return scan; // they would tell
    }
    return new RowGroupScan(scan.relation(), scan.stream(), scan.output(), scan.requiredSchema(), scan.partitionFilters(),
        scan.optionalBucketSet(), scan.optionalNumCoalescedBuckets(), scan.dataFilters(), scan.tableIdentifier(),
        scan.disableBucketedScan(), isMarked(scan));
  }

  public synchronized RDD inputRDD() {
    if (pieces == null) pieces = pieces(super.inputRDD());
    return pieces;
  }

  private RDD pieces(RDD whole) {
    try {
      FileScanRDD read = (FileScanRDD) whole;
      scala.Function1 reader = read.org$apache$spark$sql$execution$datasources$FileScanRDD$$readFunction;
      List chosen = reader instanceof SkippingParquet.LateReader
          ? ((SkippingParquet.LateReader) reader).groups : new ArrayList();
      RowGroupPieces cutter = new RowGroupPieces(PrunedFiles.in(relation().location()), chosen);
      scala.collection.immutable.Seq partitions = cutter.isEmpty() ? null : cutter.cut(read, relation().sparkSession());
      if (partitions == null) return whole;
      return new FileScanRDD(relation().sparkSession(), reader, partitions, read.readSchema(), read.metadataColumns(),
          relation().fileFormat().fileConstantMetadataExtractors(),
          new FileSourceOptions(CaseInsensitiveMap$.MODULE$.apply(relation().options())));
    } catch (Throwable problem) {
      LOG.warn("sidestep could not leave out row groups of a scan; it reads whole files", problem);
      return whole;
    }
  }

  // Of a node that equals the one it is to replace, Spark's transformations keep the old one. What is compared to find
  // out whether two scans read the same is their canonical form, which is Spark's own scan.
  public boolean canEqual(Object other) {
    return other instanceof RowGroupScan;
  }

  public boolean equals(Object other) {
    return other instanceof RowGroupScan && super.equals(other);
  }

  public int hashCode() {
    return super.hashCode();
  }
}
