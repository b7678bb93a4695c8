package sidestep;

import org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;

/**
 * The files that Delta has prepared for a scan, less those proven irrelevant. To Delta it is the index that it has made
 * itself: rows that deletion vectors mark are taken out by what is planned over an index of this class alone.
 *
 * Delta's own index would say that it equals this one. Relations over these have an option besides, so that no scan of
 * all files is taken for one of some (see Replacement).
 */
public final class DeltaFiles extends PreparedDeltaFileIndex implements DeltaReader.Pruned {
  private final PrunedFiles pruned;

  DeltaFiles(PreparedDeltaFileIndex base, PrunedFiles pruned) {
    super(base.spark(), base.deltaLog(), base.path(), base.catalogTableOpt(), base.preparedScan(), base.versionScanned());
    this.pruned = pruned;
  }

  public PrunedFiles pruned() {
    return pruned;
  }

  public scala.collection.immutable.Seq listFiles(
      scala.collection.immutable.Seq partitionFilters, scala.collection.immutable.Seq dataFilters) {
    return pruned.listFiles(partitionFilters, dataFilters);
  }

  public long sizeInBytes() {
    return pruned.sizeInBytes();
  }

  public StructType partitionSchema() {
    // Asked for by the constructors above, before there is anything to be left out.
    return pruned == null ? super.partitionSchema() : pruned.partitionSchema();
  }

  public boolean canEqual(Object other) {
    return other instanceof DeltaFiles;
  }

  public boolean equals(Object other) {
    return other instanceof DeltaFiles && pruned.equals(((DeltaFiles) other).pruned);
  }

  public int hashCode() {
    return pruned.hashCode();
  }

  public String toString() {
    return pruned.toString();
  }
}
