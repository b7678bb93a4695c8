package sidestep;

import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.types.StructType;

/** Spark's own scan of files, as Spark before 4.3 has it, for scans that are made of it. */
public abstract class SparkScan extends FileSourceScanExec {
  SparkScan(HadoopFsRelation relation, scala.Option stream, scala.collection.immutable.Seq output,
      StructType requiredSchema, scala.collection.immutable.Seq partitionFilters, scala.Option optionalBucketSet,
      scala.Option optionalNumCoalescedBuckets, scala.collection.immutable.Seq dataFilters, scala.Option tableIdentifier,
      boolean disableBucketedScan, boolean markedForSingleTaskExecution) {
    super(relation, stream, output, requiredSchema, partitionFilters, optionalBucketSet, optionalNumCoalescedBuckets,
        dataFilters, tableIdentifier, disableBucketedScan);
  }

  static boolean isMarked(FileSourceScanExec scan) {
    return false;
  }

  // Public, or Janino hides it from Java's serialization. What tasks take of a scan is what any scan has.
  public Object writeReplace() {
    return new FileSourceScanExec(relation(), stream(), output(), requiredSchema(), partitionFilters(), optionalBucketSet(),
        optionalNumCoalescedBuckets(), dataFilters(), tableIdentifier(), disableBucketedScan());
  }
}
