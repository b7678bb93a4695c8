package sidestep;

import java.util.ArrayDeque;
import java.util.IdentityHashMap;
import java.util.List;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * All parts of a plan, however they are held by it: operators and expressions in fields, lists, maps, options and pairs,
 * subqueries and common table expressions among them. A line for each, its words separated by tabs: "operator" or
 * "expression", its class, and of what names or reads something these names or places, each one a word.
 */
public final class PlanParts {
  private final StringBuilder text = new StringBuilder();
  private final ArrayDeque left = new ArrayDeque();
  private final IdentityHashMap seen = new IdentityHashMap();

  public String of(LogicalPlan plan, int most) {
    add(plan);
    int count = 0;
    while (!left.isEmpty()) {
      if (++count > most) return "";
      TreeNode node = (TreeNode) left.pop();
      describe(node);
      for (int i = 0; i < node.productArity(); i++) add(node.productElement(i));
      List children = Scala.list(node.children());
      for (int i = 0; i < children.size(); i++) add(children.get(i));
    }
    return text.toString();
  }

  private void add(Object held) {
    if (held == null || seen.containsKey(held)) return;
    if (held instanceof TreeNode) {
      seen.put(held, held);
      left.push(held);
    } else if (held instanceof scala.collection.Iterable) {
      // A lazy list without end would be no part of a plan that was parsed.
      scala.collection.Iterator items = ((scala.collection.Iterable) held).iterator();
      while (items.hasNext()) add(items.next());
    } else if (held instanceof Object[]) {
      for (int i = 0; i < ((Object[]) held).length; i++) add(((Object[]) held)[i]);
    } else if (held instanceof scala.Option) {
      if (((scala.Option) held).isDefined()) add(((scala.Option) held).get());
    } else if (held instanceof scala.Tuple2) {
      add(((scala.Tuple2) held)._1());
      add(((scala.Tuple2) held)._2());
    } else if (held instanceof scala.Tuple3) {
      add(((scala.Tuple3) held)._1());
      add(((scala.Tuple3) held)._2());
      add(((scala.Tuple3) held)._3());
    }
  }

  private void describe(TreeNode node) {
    text.append(node instanceof LogicalPlan ? "operator" : "expression").append('\t').append(node.getClass().getName());
    if (node instanceof UnresolvedRelation) words(((UnresolvedRelation) node).multipartIdentifier());
    if (node instanceof UnresolvedFunction) words(((UnresolvedFunction) node).nameParts());
    if (node instanceof UnresolvedTableValuedFunction) words(((UnresolvedTableValuedFunction) node).name());
    if (node instanceof UnresolvedWith) {
      List relations = Scala.list(((UnresolvedWith) node).cteRelations());
      for (int i = 0; i < relations.size(); i++) word(((scala.Product) relations.get(i)).productElement(0));
    }
    if (node instanceof LogicalRelation) places((LogicalRelation) node);
    text.append('\n');
  }

  /** Where the files of a relation are; a table of the catalog, and what has no files, is nowhere that is known. */
  private void places(LogicalRelation relation) {
    if (relation.catalogTable().isDefined() || !(relation.relation() instanceof HadoopFsRelation)) {
      word("");
    } else {
      words(((HadoopFsRelation) relation.relation()).location().rootPaths());
    }
  }

  private void words(Object sequence) {
    List words = Scala.list(sequence);
    for (int i = 0; i < words.size(); i++) word(words.get(i));
  }

  private void word(Object word) {
    text.append('\t').append(String.valueOf(word).replace('\t', '\ufffd').replace('\n', '\ufffd'));
  }
}
