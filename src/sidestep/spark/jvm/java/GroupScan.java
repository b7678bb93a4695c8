package sidestep;

import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.StructType;

/** Spark's own scan of a column group that is joined with others, whose rows are partitioned by their unit. */
public final class GroupScan extends SparkScan {
  public GroupScan(HadoopFsRelation relation, scala.Option stream, scala.collection.immutable.Seq output,
      StructType requiredSchema, scala.collection.immutable.Seq partitionFilters, scala.Option optionalBucketSet,
      scala.Option optionalNumCoalescedBuckets, scala.collection.immutable.Seq dataFilters, scala.Option tableIdentifier,
      boolean disableBucketedScan, boolean markedForSingleTaskExecution) {
    super(relation, stream, output, requiredSchema, partitionFilters, optionalBucketSet, optionalNumCoalescedBuckets,
        dataFilters, tableIdentifier, disableBucketedScan, markedForSingleTaskExecution);
  }

  /** What Spark before 4.3 copies a scan by: all that its own is made of. */
  public GroupScan(HadoopFsRelation relation, scala.Option stream, scala.collection.immutable.Seq output,
      StructType requiredSchema, scala.collection.immutable.Seq partitionFilters, scala.Option optionalBucketSet,
      scala.Option optionalNumCoalescedBuckets, scala.collection.immutable.Seq dataFilters, scala.Option tableIdentifier,
      boolean disableBucketedScan) {
    this(relation, stream, output, requiredSchema, partitionFilters, optionalBucketSet, optionalNumCoalescedBuckets,
        dataFilters, tableIdentifier, disableBucketedScan, false);
  }

  /** Whether a relation is a column group that is joined with others. */
  static boolean reads(HadoopFsRelation relation) {
    FileIndex files = PrunedFiles.unwrap(relation.location());
    return relation.bucketSpec().isDefined() && files instanceof SnapshotFiles && ((SnapshotFiles) files).group >= 0;
  }

  static GroupScan of(FileSourceScanExec scan) {
    return new GroupScan(scan.relation(), scan.stream(), scan.output(), scan.requiredSchema(), scan.partitionFilters(),
        scan.optionalBucketSet(), scan.optionalNumCoalescedBuckets(), scan.dataFilters(), scan.tableIdentifier(),
        scan.disableBucketedScan(), isMarked(scan));
  }

  public Partitioning outputPartitioning() {
    Partitioning usual = super.outputPartitioning();
    if (!(usual instanceof HashPartitioning)) return usual;
    return new UnitPartitioning(((HashPartitioning) usual).expressions(), usual.numPartitions());
  }

  // As those of RowGroupScan.
  public boolean canEqual(Object other) {
    return other instanceof GroupScan;
  }

  public boolean equals(Object other) {
    return other instanceof GroupScan && super.equals(other);
  }

  public int hashCode() {
    return super.hashCode();
  }
}
