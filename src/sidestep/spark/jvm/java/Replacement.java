package sidestep;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.*;

/**
 * Puts the answers to a plan into it: relations over fewer files, and selectors over those whose files are chosen when
 * the query runs. What is not answered stays the very object that it was.
 */
final class Replacement extends PlanRewriter {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");
  /** How the column that numbers files is told from a table's own. */
  private static final String PART = "sidestep.part";

  private final PruneRule rule;
  private final PlanWriter writer;
  private final Wire.Answers answers;
  private final Witnesses witnesses;
  private final boolean byFooter;
  /** Whether files are read whole, or row groups of them are left out. */
  private final boolean wholeFiles;
  private final java.util.function.Function python;
  private final double seconds;
  private final RuntimeKeys keys;
  /** Of type List of Choosing, by the output ids of the relation. */
  private final Map choosing = new java.util.HashMap();
  /** Of type Numbered, by the files of the relation. */
  private final IdentityHashMap numbered = new IdentityHashMap();
  boolean changed = false;

  Replacement(PruneRule rule, PlanWriter writer, Wire.Answers answers, Witnesses witnesses, LogicalPlan plan,
      java.util.function.Function python, double seconds) {
    this.rule = rule;
    this.writer = writer;
    this.answers = answers;
    this.witnesses = witnesses;
    this.byFooter = Footers.wanted(plan.conf());
    this.wholeFiles = !"true".equalsIgnoreCase(plan.conf().getConfString("spark.sidestep.rowGroups", "true").trim())
        || asksForSplits(plan);
    this.python = python;
    this.seconds = seconds;
    this.keys = new RuntimeKeys(plan.conf());
  }

  /** Whether a plan asks which piece of a file a row was read with. */
  private static boolean asksForSplits(LogicalPlan plan) {
    final boolean[] asks = {false};
    plan.foreachWithSubqueries(new scala.runtime.AbstractFunction1() {
      public Object apply(Object node) {
        java.util.Iterator it = Scala.list(((LogicalPlan) node).expressions()).iterator();
        while (it.hasNext() && !asks[0]) asks[0] = asksForSplits((Expression) it.next());
        return scala.runtime.BoxedUnit.UNIT;
      }
    });
    return asks[0];
  }

  private static boolean asksForSplits(Expression e) {
    if (e instanceof InputFileBlockStart || e instanceof InputFileBlockLength) return true;
    for (java.util.Iterator it = Scala.list(e.children()).iterator(); it.hasNext();) {
      if (asksForSplits((Expression) it.next())) return true;
    }
    return false;
  }

  static boolean isPart(Attribute column) {
    return isPart(column.metadata());
  }

  static boolean isPart(Metadata metadata) {
    return metadata.contains(PART);
  }

  LogicalPlan of(LogicalPlan plan) {
    // What is put together of column groups was decided about in an earlier round.
    if (Reconstruction.original(plan) != plan) return plan;
    if (PlanWriter.isFileRelation(plan)) return relation((LogicalRelation) plan);
    if (IcebergScan.is(plan)) return iceberg((DataSourceV2ScanRelation) plan);
    LogicalPlan result = below(plan);
    return plan instanceof Join ? withSelectors((Join) plan, (Join) result) : result;
  }

  // ---- relations

  private LogicalPlan relation(LogicalRelation leaf) {
    String key = PlanWriter.outputIds(leaf);
    Wire.Answer answer = (Wire.Answer) answers.byScan.get(key);
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    // Decided in an earlier round of this batch: the proof holds as long as the plan's filters do.
    if (answer == null || PrunedFiles.in(relation.location()) != null) return leaf;
    List skips = rule.skips(answer);
    List chosen = (List) choosing.get(key);
    if (chosen == null) choosing.put(key, chosen = atAllCopies(key, selectors(answer, skips, relation)));
    int[] path = GroupedFiles.of(leaf) == null ? null : answer.path;
    if (skips.isEmpty() && chosen.isEmpty() && path == null) return leaf;
    if (skips.isEmpty() && !chosen.isEmpty()) {
      FileKeys known = rule.keysOf(((Choosing) chosen.get(0)).selector.keys);
      if (known == null) return leaf;
      skips.add(new PrunedFiles.Skip(known, new java.util.BitSet(), null, null, null, null, null));
    }
    changed = true;
    // Delta reads files in its own way, to which no condition can be added.
    boolean delta = DeltaReader.reads(relation);
    org.apache.spark.sql.sources.Filter bound =
        answer.boundColumn == null || delta ? null : SkippingParquet.bound(leaf, answer.boundColumn, answer.boundRanges);
    String boundText = bound == null ? null : answer.boundColumn + " in " + answer.boundRanges;
    String part = chosen.isEmpty() ? null : freeName(leaf, relation);
    PrunedFiles files = new PrunedFiles(relation.location(), skips, witnesses, boundText, byFooter, part, wholeFiles,
        path, answer.rows);
    Expression reading = files.byBlock() || part != null && files.base instanceof SnapshotFiles
        ? BlockFilter.reading(leaf) : null;
    // Where blocks are told by their ids, nothing is left for a bound to do.
    if (reading != null && files.byBlock()) bound = null;
    FileFormat format = relation.fileFormat();
    if (!delta && (reading != null || bound != null || part != null)) {
      format = SkippingParquet.of(files, reading == null ? null : BlockFilter.columnName(leaf), answer.boundColumn, bound,
          part != null);
    }
    Attribute number = part == null ? null : numbering(part);
    FileIndex location = delta ? DeltaReader.without(files) : files;
    LogicalPlan result = withLocation(leaf, location, format, number);
    if (reading != null) result = new Filter(reading, result);
    if (part == null) return result;
    numbered.put(location, new Numbered(key, number));
    for (int i = 0; i < chosen.size(); i++) {
      Wire.Selector selector = ((Choosing) chosen.get(i)).selector;
      if (selector.join < 0) result = new Filter(byConstants(selector, number, files), result);
    }
    return new Project(leaf.output(), result);
  }

  /**
   * A scan of an Iceberg table over fewer files. Iceberg plans its files when Spark plans the query, which may be long
   * before that runs: what other tables induced counts only where their files cannot change meanwhile.
   */
  private LogicalPlan iceberg(DataSourceV2ScanRelation leaf) {
    Wire.Answer answer = (Wire.Answer) answers.byScan.get(PlanWriter.outputIds(leaf));
    if (answer == null || IcebergScan.isPruned(leaf.scan())) return leaf;
    List skips = rule.skips(answer);
    if (skips.isEmpty()) return leaf;
    IcebergFiles files = planned(leaf);
    java.util.BitSet drop = new java.util.BitSet();
    for (int s = 0; s < skips.size(); s++) {
      PrunedFiles.Skip skip = (PrunedFiles.Skip) skips.get(s);
      java.util.BitSet skipped = skip.own == null || witnesses.areFixed() ? skip.files : skip.own;
      int[] positions = skip.keys.match(files).positions;
      for (int i = 0; i < positions.length; i++) if (positions[i] >= 0 && skipped.get(positions[i])) drop.set(i);
    }
    if (drop.isEmpty()) return leaf;
    try {
      LogicalPlan fewer = (LogicalPlan) copyWith(leaf, "scan", IcebergScan.without(files, drop));
      fewer.copyTagsFrom(leaf);
      changed = true;
      return fewer;
    } catch (Exception problem) {
      LOG.warn("sidestep could not leave out files of the Iceberg table " + leaf.name() + "; the query reads all", problem);
      return leaf;
    }
  }

  /** The files of a scan, which were looked at when its plan was written. */
  private IcebergFiles planned(DataSourceV2ScanRelation leaf) {
    List locations = (List) writer.leaves.get(PlanWriter.outputIds(leaf));
    for (int i = 0; locations != null && i < locations.size(); i++) {
      Object known = locations.get(i);
      if (known instanceof IcebergFiles && ((IcebergFiles) known).scan == leaf.scan()) return (IcebergFiles) known;
    }
    return new IcebergFiles(leaf.scan());
  }

  /** Those of a scan's selectors that can be used, if the files can be numbered at all. */
  private List selectors(Wire.Answer answer, List skips, HadoopFsRelation relation) {
    ArrayList usable = new ArrayList();
    if (skips.size() > 1) return usable;
    // A column that numbers files would be one that Delta does not know.
    if (DeltaReader.reads(relation) && DeltaReader.isMapped(relation)) return usable;
    for (int i = 0; i < answer.selectors.size(); i++) {
      Wire.Selector selector = (Wire.Selector) answer.selectors.get(i);
      FileKeys known = rule.keysOf(selector.keys);
      if (known == null || skips.size() == 1 && ((PrunedFiles.Skip) skips.get(0)).keys != known) continue;
      if (known.match(relation.location()) == null) continue;
      if (relation.partitionSchema().length() != relation.location().partitionSchema().length()) continue;
      boolean can = selector.join < 0 ? keys.subqueriesRunOnce()
          : keys.usable((Join) writer.joins.get(selector.join), selector);
      if (can) usable.add(selector);
    }
    return usable;
  }

  /**
   * Of type Choosing: those selectors that stand at every copy of a relation. Spark runs copies once, or finds the
   * broadcast of one where another stands, as long as they are the same; what chooses for one of them alone would end that.
   */
  private List atAllCopies(String key, List selectors) {
    ArrayList common = new ArrayList();
    int copies = ((List) writer.leaves.get(key)).size();
    for (int i = 0; i < selectors.size(); i++) {
      Wire.Selector selector = (Wire.Selector) selectors.get(i);
      if (selector.copy != 0) continue;
      Choosing chooses = new Choosing(selector);
      if (selector.join >= 0) chooses.joins.add(writer.joins.get(selector.join));
      boolean all = true;
      for (int copy = 1; all && copy < copies; copy++) {
        Wire.Selector same = null;
        for (int j = 0; same == null && j < selectors.size(); j++) {
          Wire.Selector other = (Wire.Selector) selectors.get(j);
          if (other.copy == copy && other.asksAs(selector) && chooseBySame(other, selector)) same = other;
        }
        all = same != null;
        if (all && same.join >= 0) chooses.joins.add(writer.joins.get(same.join));
      }
      if (all) common.add(chooses);
    }
    return common;
  }

  private boolean chooseBySame(Wire.Selector one, Wire.Selector other) {
    if (one.join >= 0) {
      Join join = (Join) writer.joins.get(one.join);
      return join == writer.joins.get(other.join) || join.sameResult((Join) writer.joins.get(other.join));
    }
    for (int i = 0; i < one.late.length; i++) {
      Expression late = (Expression) writer.late.get(one.late[i]);
      if (!late.semanticEquals((Expression) writer.late.get(other.late[i]))) return false;
    }
    return true;
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

  /** A column that numbers files. */
  static AttributeReference numbering(String name) {
    return new AttributeReference(name, DataTypes.IntegerType, true,
        new MetadataBuilder().putBoolean(PART, true).build(), NamedExpression$.MODULE$.newExprId(),
        Scala.seq(new String[0]));
  }

  /** A relation over other files; part: the column that numbers them, or null. */
  static LogicalRelation withLocation(LogicalRelation leaf, FileIndex location, FileFormat format, Attribute part) {
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    StructType partitions = relation.partitionSchema();
    if (part != null) partitions = partitions.add(part.name(), part.dataType(), true, part.metadata());
    scala.collection.immutable.Map options = relation.options();
    // Delta's own index takes one of ours for its equal; the relations must not be.
    if (location instanceof DeltaReader.Pruned) {
      options = (scala.collection.immutable.Map) options.updated("sidestep.skips", "true");
    }
    HadoopFsRelation pruned = relation.copy(location, partitions, relation.dataSchema(), relation.bucketSpec(), format,
        options, relation.sparkSession());
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
    for (java.util.Iterator it = choosing.entrySet().iterator(); it.hasNext();) {
      Map.Entry entry = (Map.Entry) it.next();
      List selectors = (List) entry.getValue();
      for (int i = 0; i < selectors.size(); i++) {
        Choosing chooses = (Choosing) selectors.get(i);
        if (!chooses.standsAt(before)) continue;
        ArrayList sources = new ArrayList();
        sources.add(keys.of(before, result, chooses.selector));
        int chosen = 1 - chooses.selector.side;
        Object[] inputs = {result.left(), result.right()};
        inputs[chosen] = over((LogicalPlan) inputs[chosen], (String) entry.getKey(), chooses.selector, sources);
        result = (Join) result.withNewChildren(Scala.seq(inputs));
      }
    }
    return result;
  }

  /**
   * The plan with a selector over each copy of a relation, in what chooses for others too. A copy in a subquery of Spark's
   * own is never met here: it would have to have the same selector at an equal join around it, within this very join.
   */
  private LogicalPlan over(LogicalPlan plan, final String key, final Wire.Selector selector, final List sources) {
    return (LogicalPlan) plan.transformUpWithSubqueries(new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) {
        if (!PlanWriter.isFileRelation(node)) return false;
        Numbered found = (Numbered) numbered.get(((HadoopFsRelation) ((LogicalRelation) node).relation()).location());
        return found != null && found.key.equals(key);
      }

      public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (!isDefinedAt(node)) return otherwise.apply(node);
        FileIndex location = ((HadoopFsRelation) ((LogicalRelation) node).relation()).location();
        Attribute number = ((Numbered) numbered.get(location)).number;
        return new Filter(selector(selector, number, PrunedFiles.in(location), sources), (LogicalPlan) node);
      }
    });
  }

  /** What chooses of a relation at all of its copies, and the joins that it stands at. */
  private static final class Choosing {
    final Wire.Selector selector;
    /** Of type Join. */
    final List joins = new ArrayList();

    Choosing(Wire.Selector selector) {
      this.selector = selector;
    }

    boolean standsAt(Join join) {
      for (int i = 0; i < joins.size(); i++) if (joins.get(i) == join) return true;
      return false;
    }
  }

  /** A relation whose files are numbered. */
  private static final class Numbered {
    final String key;
    final Attribute number;

    Numbered(String key, Attribute number) {
      this.key = key;
      this.number = number;
    }
  }
}
