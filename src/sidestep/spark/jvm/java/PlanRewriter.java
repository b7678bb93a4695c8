package sidestep;

import java.util.IdentityHashMap;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** Puts other plans in the place of parts of a plan, in its subqueries too. What does not change stays the very object. */
abstract class PlanRewriter {
  /** Plans of subqueries and what became of them: one that stands at two places stays one. */
  private final IdentityHashMap done = new IdentityHashMap();

  /** What stands in the place of a plan. */
  abstract LogicalPlan of(LogicalPlan plan);

  /** An operator over what stands in the place of its inputs and of its subqueries. */
  final LogicalPlan below(LogicalPlan plan) {
    List children = Scala.list(plan.children());
    Object[] below = new Object[children.size()];
    boolean same = true;
    for (int i = 0; i < below.length; i++) {
      below[i] = of((LogicalPlan) children.get(i));
      same &= below[i] == children.get(i);
    }
    return withSubqueries(same ? plan : (LogicalPlan) plan.withNewChildren(Scala.seq(below)));
  }

  /** An operator with what stands in the place of its subqueries alone. */
  final LogicalPlan withSubqueries(LogicalPlan plan) {
    return Scala.list(plan.subqueries()).isEmpty() ? plan : (LogicalPlan) plan.transformExpressionsUp(inSubqueries());
  }

  final scala.PartialFunction inSubqueries() {
    return new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object e) {
        return e instanceof PlanExpression && ((PlanExpression) e).plan() instanceof LogicalPlan;
      }

      public Object applyOrElse(Object e, scala.Function1 otherwise) {
        if (!isDefinedAt(e)) return otherwise.apply(e);
        LogicalPlan before = (LogicalPlan) ((PlanExpression) e).plan();
        if (!done.containsKey(before)) done.put(before, of(before));
        LogicalPlan after = (LogicalPlan) done.get(before);
        return after == before ? e : ((PlanExpression) e).withNewPlan(after);
      }
    };
  }
}
