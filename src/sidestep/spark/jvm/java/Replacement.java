package sidestep;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.*;

/**
 * Puts the answers to a plan into it: relations over fewer files, and selectors over those whose files are chosen when
 * the query runs. What is not answered stays the very object that it was.
 */
final class Replacement {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");
  /** How the column that numbers files is told from a table's own. */
  private static final String PART = "sidestep.part";

  private final PruneRule rule;
  private final PlanWriter writer;
  private final Wire.Answers answers;
  private final Witnesses witnesses;
  private final boolean byFooter;
  private final java.util.function.Function python;
  private final double seconds;
  private final RuntimeKeys keys;
  /** Plans of subqueries and what became of them: one that stands at two places stays one. */
  private final IdentityHashMap done = new IdentityHashMap();
  /** Of type Numbered, by the output ids of the relation. */
  private final Map numbered = new java.util.HashMap();
  boolean changed = false;

  Replacement(PruneRule rule, PlanWriter writer, Wire.Answers answers, Witnesses witnesses, LogicalPlan plan,
      java.util.function.Function python, double seconds) {
    this.rule = rule;
    this.writer = writer;
    this.answers = answers;
    this.witnesses = witnesses;
    this.byFooter = Footers.wanted(plan.conf());
    this.python = python;
    this.seconds = seconds;
    this.keys = new RuntimeKeys(plan.conf());
  }

  static boolean isPart(Attribute column) {
    return isPart(column.metadata());
  }

  static boolean isPart(Metadata metadata) {
    return metadata.contains(PART);
  }

  LogicalPlan of(LogicalPlan plan) {
    if (PlanWriter.isFileRelation(plan)) return relation((LogicalRelation) plan);
    List children = Scala.list(plan.children());
    Object[] below = new Object[children.size()];
    boolean same = true;
    for (int i = 0; i < below.length; i++) {
      below[i] = of((LogicalPlan) children.get(i));
      same &= below[i] == children.get(i);
    }
    LogicalPlan result = same ? plan : (LogicalPlan) plan.withNewChildren(Scala.seq(below));
    if (!Scala.list(result.subqueries()).isEmpty()) result = (LogicalPlan) result.transformExpressionsUp(inSubqueries());
    return plan instanceof Join ? withSelectors((Join) plan, (Join) result) : result;
  }

  private scala.PartialFunction inSubqueries() {
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

  // ---- relations

  private LogicalPlan relation(LogicalRelation leaf) {
    Wire.Answer answer = (Wire.Answer) answers.byScan.get(PlanWriter.outputIds(leaf));
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    // Decided in an earlier round of this batch: the proof holds as long as the plan's filters do.
    if (answer == null || relation.location() instanceof PrunedFiles) return leaf;
    List skips = rule.skips(answer);
    List chosen = selectors(answer, skips, relation);
    if (skips.isEmpty() && chosen.isEmpty()) return leaf;
    if (skips.isEmpty()) {
      FileKeys known = rule.keysOf(((Wire.Selector) chosen.get(0)).keys);
      skips.add(new PrunedFiles.Skip(known, new java.util.BitSet(), null, null, null));
    }
    changed = true;
    org.apache.spark.sql.sources.Filter bound =
        answer.boundColumn == null ? null : SkippingParquet.bound(leaf, answer.boundColumn, answer.boundRanges);
    String boundText = bound == null ? null : answer.boundColumn + " in " + answer.boundRanges;
    String part = chosen.isEmpty() ? null : freeName(leaf, relation);
    PrunedFiles files = new PrunedFiles(relation.location(), skips, witnesses, boundText, byFooter, part);
    Expression reading = files.byBlock() || part != null && files.base instanceof SnapshotFiles
        ? BlockFilter.reading(leaf) : null;
    // Where blocks are told by their ids, nothing is left for a bound to do.
    if (reading != null && files.byBlock()) bound = null;
    FileFormat format = relation.fileFormat();
    if (reading != null || bound != null || part != null) {
      format = SkippingParquet.of(files, reading == null ? null : BlockFilter.columnName(leaf), answer.boundColumn, bound,
          part != null);
    }
    Attribute number = part == null ? null : new AttributeReference(part, DataTypes.IntegerType, true,
        new MetadataBuilder().putBoolean(PART, true).build(), NamedExpression$.MODULE$.newExprId(),
        Scala.seq(new String[0]));
    LogicalPlan result = withLocation(leaf, files, format, number);
    if (reading != null) result = new Filter(reading, result);
    if (part == null) return result;
    numbered.put(PlanWriter.outputIds(leaf), new Numbered(number, files));
    for (int i = 0; i < chosen.size(); i++) {
      Wire.Selector selector = (Wire.Selector) chosen.get(i);
      if (selector.join < 0) result = new Filter(byConstants(selector, number, files), result);
    }
    return new Project(leaf.output(), result);
  }

  /** Those of a scan's selectors that can be used, if the files can be numbered at all. */
  private List selectors(Wire.Answer answer, List skips, HadoopFsRelation relation) {
    ArrayList usable = new ArrayList();
    if (skips.size() > 1) return usable;
    for (int i = 0; i < answer.selectors.size(); i++) {
      Wire.Selector selector = (Wire.Selector) answer.selectors.get(i);
      FileKeys known = rule.keysOf(selector.keys);
      if (known == null || skips.size() == 1 && ((PrunedFiles.Skip) skips.get(0)).keys != known) continue;
      if (known.match(relation.location()) == null) continue;
      if (relation.partitionSchema().length() != relation.location().partitionSchema().length()) continue;
      if (selector.join < 0 || keys.usable((Join) writer.joins.get(selector.join), selector)) usable.add(selector);
    }
    return usable;
  }

  private static String freeName(LogicalRelation leaf, HadoopFsRelation relation) {
    java.util.HashSet taken = new java.util.HashSet();
    for (java.util.Iterator it = Scala.list(leaf.output()).iterator(); it.hasNext();) {
      taken.add(((Attribute) it.next()).name().toLowerCase(java.util.Locale.ROOT));
    }
    String[] names = relation.schema().fieldNames();
    for (int i = 0; i < names.length; i++) taken.add(names[i].toLowerCase(java.util.Locale.ROOT));
    String name = "_sidestep_file";
    while (taken.contains(name)) name = name + "_";
    return name;
  }

  /** A relation over other files; part: the column that numbers them, or null. */
  static LogicalRelation withLocation(LogicalRelation leaf, FileIndex location, FileFormat format, Attribute part) {
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    StructType partitions = relation.partitionSchema();
    if (part != null) partitions = partitions.add(part.name(), part.dataType(), true, part.metadata());
    HadoopFsRelation pruned = relation.copy(location, partitions, relation.dataSchema(), relation.bucketSpec(), format,
        relation.options(), relation.sparkSession());
    scala.Option table = leaf.catalogTable();
    // A catalog table's own statistics would win over the relation's size, as Spark's partition pruning knows too.
    if (table.isDefined() && ((CatalogTable) table.get()).stats().isDefined()) {
      try {
        Object stats = ((CatalogTable) table.get()).stats().get();
        Object smaller = copyWith(copyWith(stats, "sizeInBytes", scala.math.BigInt.apply(location.sizeInBytes())),
            "rowCount", scala.Option.empty());
        table = scala.Option.apply(copyWith(table.get(), "stats", scala.Option.apply(smaller)));
      } catch (Exception problem) {
        LOG.warn("sidestep could not lower the statistics of a table", problem);
      }
    }
    ArrayList output = new ArrayList(Scala.list(leaf.output()));
    if (part != null) output.add(part);
    LogicalRelation copy = leaf.copy(pruned, Scala.seq(output.toArray()), table, leaf.isStreaming(), leaf.stream());
    copy.copyTagsFrom(leaf);
    return copy;
  }

  /** A copy of a Scala case class with one constructor argument replaced: survives new arguments in later versions. */
  static Object copyWith(Object product, String field, Object value) throws Exception {
    scala.Product source = (scala.Product) product;
    Object[] arguments = new Object[source.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      arguments[i] = source.productElementName(i).equals(field) ? value : source.productElement(i);
    }
    java.lang.reflect.Constructor[] constructors = product.getClass().getConstructors();
    for (int i = 0; i < constructors.length; i++) {
      if (constructors[i].getParameterCount() == arguments.length) return constructors[i].newInstance(arguments);
    }
    throw new IllegalStateException("no constructor of " + product.getClass() + " takes " + arguments.length);
  }

  // ---- selectors

  private PartitionSelector selector(Wire.Selector selector, Attribute number, PrunedFiles files, List sources) {
    return new PartitionSelector(
        new PartitionSelector.Choice(python, seconds, files, selector.question, selector.by), number, sources);
  }

  private PartitionSelector byConstants(Wire.Selector selector, Attribute number, PrunedFiles files) {
    ArrayList sources = new ArrayList();
    for (int i = 0; i < selector.late.length; i++) {
      sources.add(((Expression) writer.late.get(selector.late[i])).transformUp(inSubqueries()));
    }
    return selector(selector, number, files, sources);
  }

  /** A join whose one input is read by what the other gives, where that was asked for. */
  private LogicalPlan withSelectors(Join before, Join join) {
    Join result = join;
    for (java.util.Iterator it = answers.byScan.entrySet().iterator(); it.hasNext();) {
      Map.Entry entry = (Map.Entry) it.next();
      Numbered target = (Numbered) numbered.get(entry.getKey());
      List selectors = ((Wire.Answer) entry.getValue()).selectors;
      for (int i = 0; target != null && i < selectors.size(); i++) {
        Wire.Selector selector = (Wire.Selector) selectors.get(i);
        if (selector.join < 0 || writer.joins.get(selector.join) != before || !keys.usable(before, selector)) continue;
        Expression source = keys.of(before, result, selector);
        ArrayList sources = new ArrayList();
        sources.add(source);
        PartitionSelector chooses = selector(selector, target.number, target.files, sources);
        Object[] inputs = {result.left(), result.right()};
        inputs[1 - selector.side] = over((LogicalPlan) inputs[1 - selector.side], target.files, chooses);
        result = (Join) result.withNewChildren(Scala.seq(inputs));
      }
    }
    return result;
  }

  /** The plan with a condition over the relation of some files, in what chooses for others too. */
  private static LogicalPlan over(LogicalPlan plan, final PrunedFiles files, final Expression condition) {
    return (LogicalPlan) plan.transformUpWithSubqueries(new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) {
        return PlanWriter.isFileRelation(node)
            && ((HadoopFsRelation) ((LogicalRelation) node).relation()).location() == files;
      }

      public Object applyOrElse(Object node, scala.Function1 otherwise) {
        return isDefinedAt(node) ? new Filter(condition, (LogicalPlan) node) : otherwise.apply(node);
      }
    });
  }

  /** A relation whose files are numbered. */
  private static final class Numbered {
    final Attribute number;
    final PrunedFiles files;

    Numbered(Attribute number, PrunedFiles files) {
      this.number = number;
      this.files = files;
    }
  }
}
