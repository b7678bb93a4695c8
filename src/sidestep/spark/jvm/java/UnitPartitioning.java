package sidestep;

import org.apache.spark.sql.catalyst.plans.physical.*;

/**
 * Rows that are partitioned by their unit, as files of column groups are. Unless a setting allows it, Spark shuffles both
 * sides of a join that are partitioned by some of its columns only, lest few values make few large partitions. Units are
 * chosen so that they do not: this says that joins may go by them.
 */
public final class UnitPartitioning extends HashPartitioning {
  public UnitPartitioning(scala.collection.immutable.Seq expressions, int partitions) {
    super(expressions, partitions);
  }

  public ShuffleSpec createShuffleSpec(ClusteredDistribution distribution) {
    return new Spec(this, distribution);
  }

  // Without it, a copy would be an ordinary partitioning: right as well, but shuffled.
  public HashPartitioning withNewChildrenInternal(scala.collection.immutable.IndexedSeq children) {
    return new UnitPartitioning(children, numPartitions());
  }

  /** What joins are matched by: the other side, where it is not so partitioned, is shuffled by its unit. */
  public static final class Spec extends HashShuffleSpec {
    public Spec(HashPartitioning partitioning, ClusteredDistribution distribution) {
      super(partitioning, distribution);
    }

    public boolean canCreatePartitioning() {
      return true;
    }
  }
}
