package sidestep;

import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.*;

/**
 * Plans scans as Spark does, those of which row groups are left out as a RowGroupScan, and those of column groups that
 * are joined as a GroupScan.
 */
public final class RowGroupStrategy extends org.apache.spark.sql.execution.SparkStrategy {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");

  public scala.collection.immutable.Seq apply(LogicalPlan plan) {
    try {
      LogicalPlan below = plan;
      while (below instanceof Project || below instanceof Filter) below = (LogicalPlan) Scala.list(below.children()).get(0);
      if (PlanWriter.isFileRelation(below)) {
        HadoopFsRelation relation = (HadoopFsRelation) ((LogicalRelation) below).relation();
        PrunedFiles files = PrunedFiles.in(relation.location());
        if (GroupScan.reads(relation) || files != null && files.readsPieces()) {
          List plans = Scala.list(DeltaReader.reads(relation) ? DeltaReader.plan(relation.sparkSession(), plan)
              : FileSourceStrategy$.MODULE$.apply(plan));
          Object[] ours = new Object[plans.size()];
          boolean unseen = DeltaReader.reads(relation) && !DeltaReader.givesMetadata((LogicalRelation) below);
          for (int i = 0; i < ours.length; i++) ours[i] = ((SparkPlan) plans.get(i)).transformUp(new Scans(unseen));
          return Scala.seq(ours);
        }
      }
    } catch (Throwable problem) {
      LOG.warn("sidestep left a scan to Spark, because its strategy failed", problem);
    }
    return Scala.seq(new Object[0]); // Spark's own strategies are asked next
  }

  private static final class Scans extends scala.runtime.AbstractPartialFunction {
    /** Whether no one sees what a scan says of the places of files. */
    private final boolean unseen;

    Scans(boolean unseen) {
      this.unseen = unseen;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof FileSourceScanExec;
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      FileSourceScanExec scan = (FileSourceScanExec) node;
      return GroupScan.reads(scan.relation()) ? GroupScan.of(scan) : RowGroupScan.of(scan, unseen);
    }
  }
}
