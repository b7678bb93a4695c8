package sidestep;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.InnerLike;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.datasources.*;

/**
 * Puts denormalized tables in the place of joins that they hold the rows of. Which joins these are is proven in Python
 * (prune/denormal); here such a part of a plan is opened, its columns become those of the table, and its conditions one
 * filter over it, in the order in which they were asked. Columns keep their ids for what is above.
 */
final class Denormalization extends PlanRewriter {
  /** What was put in the place of what, for people. */
  private static final TreeNodeTag NOTE = new TreeNodeTag("sidestep.denormalized");
  /** What stood there before, so that others can tell what the query asks for. */
  private static final TreeNodeTag BEFORE = new TreeNodeTag("sidestep.joins");

  private final PruneRule rule;
  private final PlanWriter writer;
  /** Of type Wire.Denormal, by the top of the part that it is about. */
  private final IdentityHashMap parts = new IdentityHashMap();

  Denormalization(PruneRule rule, PlanWriter writer, List answers) {
    this.rule = rule;
    this.writer = writer;
    for (int i = 0; i < answers.size(); i++) {
      Wire.Denormal answer = (Wire.Denormal) answers.get(i);
      parts.put(writer.nodes.get(answer.node), answer);
    }
  }

  /** What was put into a plan, one note for each place. */
  static void notes(LogicalPlan put, final List notes) {
    put.foreachWithSubqueries(new scala.runtime.AbstractFunction1() {
      public Object apply(Object node) {
        // What is put together of column groups has the plan that stood there as its original.
        LogicalPlan plan = Reconstruction.original((LogicalPlan) node);
        scala.Option note = plan.getTagValue(NOTE);
        if (note.isDefined()) notes.add(note.get());
        return scala.runtime.BoxedUnit.UNIT;
      }
    });
  }

  /** What stood in the place of a plan that a denormalized table was put into; any other plan as it is. */
  static LogicalPlan before(LogicalPlan plan) {
    scala.Option before = plan.getTagValue(BEFORE);
    return before.isDefined() ? (LogicalPlan) before.get() : plan;
  }

  LogicalPlan of(LogicalPlan plan) {
    Wire.Denormal answer = (Wire.Denormal) parts.get(plan);
    return answer == null ? below(plan) : rows(plan, answer);
  }

  private LogicalPlan rows(LogicalPlan plan, Wire.Denormal answer) {
    LogicalRelation known = rule.relationOf(answer.table);
    if (known == null) return plan;
    IdentityHashMap scans = new IdentityHashMap();
    Witnesses fresh = new Witnesses(Footers.wanted(writer.conf));
    for (int i = 0; i < answer.scans.length; i++) {
      LogicalRelation leaf = (LogicalRelation) writer.nodes.get(answer.scans[i]);
      if (readsOtherwise((HadoopFsRelation) leaf.relation())) return plan;
      FileKeys keys = rule.keysOf(answer.bases[i]);
      fresh.add(PrunedFiles.unwrap(((HadoopFsRelation) leaf.relation()).location()),
          keys == null ? null : new FileKeys[] {keys});
      scans.put(leaf, answer.columns[i]);
    }
    LogicalRelation table = guarded((LogicalRelation) known.newInstance(), fresh);
    Part part = new Part(table, scans, answer.neverNull);
    part.open(plan);
    LogicalPlan result = table;
    if (!part.conditions.isEmpty()) result = withSubqueries(new Filter(all(part.conditions), table));
    ArrayList given = new ArrayList();
    for (java.util.Iterator it = Scala.list(plan.output()).iterator(); it.hasNext();) {
      Attribute column = (Attribute) it.next();
      // A relation gives all its columns, whether or not anyone asks for them.
      if (!part.has(column) && !writer.needs(column)) continue;
      given.add(new Alias(part.value(column), column.name(), column.exprId(), column.qualifier(),
          scala.Option.apply(column.metadata()), Scala.seq(new Object[0])));
    }
    LogicalPlan project = withSubqueries(new Project(Scala.seq(given.toArray()), result));
    project.setTagValue(NOTE, answer.note);
    project.setTagValue(BEFORE, plan);
    return project;
  }

  /** Whether options of a relation may make other rows of its files than settings do. */
  private static boolean readsOtherwise(HadoopFsRelation relation) {
    java.util.Iterator names = scala.jdk.javaapi.CollectionConverters.asJava(relation.options()).keySet().iterator();
    while (names.hasNext()) {
      String name = ((String) names.next()).toLowerCase(java.util.Locale.ROOT);
      // With another basePath, the names of folders above the table give columns, in the place of those in its files.
      if (!name.equals("path") && !name.equals("paths") && !name.equals("mergeschema")
          && !name.equals("serialization.format")) {
        return true;
      }
    }
    return false;
  }

  /** The relation, which refuses to be read once a base table is another than it was made of. */
  private static LogicalRelation guarded(LogicalRelation table, Witnesses fresh) {
    HadoopFsRelation relation = (HadoopFsRelation) table.relation();
    FileIndex files = relation.location() instanceof GroupedFiles
        ? (FileIndex) ((GroupedFiles) relation.location()).guarded(fresh)
        : ((SnapshotFiles) relation.location()).guarded(fresh);
    // Read by the settings of the session that asks, which need not be the one that the table was opened in.
    return TableFunction.ofActiveSession(Replacement.withLocation(table, files, relation.fileFormat(), null));
  }

  private static Expression all(List conditions) {
    Expression all = (Expression) conditions.get(0);
    for (int i = 1; i < conditions.size(); i++) all = new And(all, (Expression) conditions.get(i));
    return all;
  }

  /** A part of a plan in terms of the denormalized table. */
  private static final class Part {
    /** Of type Map, by relation: which column of the table holds each of its columns, by name. */
    private final IdentityHashMap scans;
    private final java.util.Set neverNull;
    private final Map stored = new HashMap();
    /** Of type Expression, by the id of a column of the part. */
    private final Map values = new HashMap();
    /** Of type Expression: what is asked of the table's rows. */
    List conditions = new ArrayList();
    /** Whether what is open has NULL for all its columns in rows without a partner. */
    private boolean missing = false;

    Part(LogicalRelation table, IdentityHashMap scans, java.util.Set neverNull) {
      this.scans = scans;
      this.neverNull = neverNull;
      for (java.util.Iterator it = Scala.list(table.output()).iterator(); it.hasNext();) {
        Attribute column = (Attribute) it.next();
        stored.put(column.name(), column);
      }
    }

    boolean has(Attribute column) {
      return values.containsKey(Long.valueOf(column.exprId().id()));
    }

    Expression value(Attribute column) {
      Expression value = (Expression) values.get(Long.valueOf(column.exprId().id()));
      if (value == null) throw new IllegalStateException("a denormalized table has no column for " + column);
      return value;
    }

    void open(LogicalPlan plan) {
      if (scans.containsKey(plan)) {
        scan((LogicalRelation) plan, (Map) scans.get(plan));
      } else if (plan instanceof Filter) {
        open(((Filter) plan).child());
        ask(((Filter) plan).condition());
      } else if (plan instanceof Project) {
        open(((Project) plan).child());
        for (java.util.Iterator it = Scala.list(((Project) plan).projectList()).iterator(); it.hasNext();) {
          NamedExpression given = (NamedExpression) it.next();
          if (!(given instanceof Alias)) continue;
          Expression source = ((Alias) given).child();
          // Of what is computed, a row of the table would have a value where the query has NULL.
          if (missing && !(source instanceof AttributeReference)) {
            throw new IllegalStateException("a denormalized table does not say of " + given + " where it is missing");
          }
          values.put(Long.valueOf(given.exprId().id()), over(source));
        }
      } else if (plan instanceof Join && !(((Join) plan).joinType() instanceof ExistenceJoin)) {
        join((Join) plan);
      } else {
        throw new IllegalStateException("a denormalized table cannot stand for " + plan.nodeName());
      }
    }

    private void scan(LogicalRelation leaf, Map columns) {
      for (java.util.Iterator it = Scala.list(leaf.output()).iterator(); it.hasNext();) {
        Attribute column = (Attribute) it.next();
        Attribute holds = (Attribute) stored.get(columns.get(column.name()));
        // What no one asks for need not be there; what someone asks for is missed by value().
        if (holds != null && holds.dataType().equals(column.dataType())) {
          values.put(Long.valueOf(column.exprId().id()), holds);
        }
      }
    }

    private void join(Join join) {
      String type = join.joinType().sql();
      boolean left = type.equals("LEFT OUTER");
      boolean right = type.equals("RIGHT OUTER");
      if (!left && !right && !(join.joinType() instanceof InnerLike) && !type.equals("LEFT SEMI")) {
        throw new IllegalStateException("a denormalized table cannot stand for a join " + type);
      }
      List before = conditions;
      conditions = new ArrayList();
      openSide(join.left(), right);
      openSide(join.right(), left);
      List inside = conditions;
      conditions = before;
      boolean asks = !left && !right && join.condition().isDefined();
      if (asks) askForPartners((Expression) join.condition().get());
      conditions.addAll(inside);
      if (asks) ask((Expression) join.condition().get());
    }

    /**
     * Asks first of all for rows with a partner: any other is none of the join's, and what fails for it must not be asked.
     * A comparison with NULL is no reason for Spark to leave out what comes after it, in a condition.
     */
    private void askForPartners(Expression condition) {
      List parts = PlanWriter.conjuncts(condition);
      for (int i = 0; i < parts.size(); i++) {
        if (!(parts.get(i) instanceof EqualTo)) continue;
        Expression[] keys = {((EqualTo) parts.get(i)).left(), ((EqualTo) parts.get(i)).right()};
        for (int k = 0; k < keys.length; k++) {
          Expression key = keys[k] instanceof AttributeReference ? over(keys[k]) : keys[k];
          if (!(key instanceof AttributeReference)) continue;
          Expression there = simple(new IsNotNull(key));
          if (there != null) conditions.add(there);
        }
      }
    }

    /** missing: whether rows without a partner in it have NULL for its columns, as they have in the table. */
    private void openSide(LogicalPlan side, boolean missing) {
      List asked = conditions;
      boolean before = this.missing;
      if (missing) conditions = new ArrayList();
      this.missing |= missing;
      open(side);
      this.missing = before;
      conditions = asked;
    }

    private void ask(Expression condition) {
      List parts = PlanWriter.conjuncts(condition);
      for (int i = 0; i < parts.size(); i++) {
        // What Spark adds to read less of a table says nothing that the joins do not say.
        if (parts.get(i) instanceof DynamicPruning) continue;
        Expression asked = simple(over((Expression) parts.get(i)));
        if (asked != null) conditions.add(asked);
      }
    }

    /** A condition, or null if it holds for every row. */
    private Expression simple(Expression e) {
      Expression tested = null;
      if (e instanceof EqualTo && ((EqualTo) e).left().semanticEquals(((EqualTo) e).right())
          && ((EqualTo) e).left() instanceof AttributeReference) {
        tested = ((EqualTo) e).left();
      } else if (e instanceof IsNotNull && ((IsNotNull) e).child() instanceof AttributeReference) {
        tested = ((IsNotNull) e).child();
      }
      if (tested == null) return e;
      return neverNull.contains(((AttributeReference) tested).name()) ? null : new IsNotNull(tested);
    }

    /** An expression of the part over the table's columns. */
    private Expression over(Expression e) {
      return (Expression) ((TreeNode) e).transformUp(new scala.runtime.AbstractPartialFunction() {
        public boolean isDefinedAt(Object node) {
          return node instanceof AttributeReference || node instanceof PlanExpression;
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
          if (node instanceof AttributeReference) return value((AttributeReference) node);
          if (!(node instanceof PlanExpression)) return otherwise.apply(node);
          if (!Scala.list(((Expression) node).children()).isEmpty()) {
            throw new IllegalStateException("a subquery depends on the rows of a part that is to be replaced");
          }
          return node;
        }
      });
    }
  }
}
