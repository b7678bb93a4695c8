package sidestep;

import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** The rule of sessions in which tables in column groups are changed: rows are put together, and nothing is skipped. */
public final class ReconstructionRule extends org.apache.spark.sql.catalyst.rules.Rule {
  public String ruleName() {
    return "sidestep.ReconstructionRule";
  }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = (LogicalPlan) tree;
    return plan instanceof Subquery ? plan : new Reconstruction(plan.conf(), true).of(plan);
  }
}
