package sidestep;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;

/**
 * Writes an optimized plan, its subqueries and its predicates as JSON: operators with their children, scans with their
 * columns and folders. plan_reader.py reads it; docs/formats.md describes it, because recordings hold such texts.
 */
final class PlanWriter {
  /** Raised whenever what is written changes its meaning. */
  static final int FORMAT = 2;
  /** Below so many operators, a plan goes on as a plan of its own: readers of JSON nest only so far. */
  private static final int MOST_DEEP = 120;

  private final Json out;
  /** The settings of the session that plans the query; another thread would be told those of another. */
  final SQLConf conf;
  /** Of type String: by the key of a scan what is written in its place, and the keys in that order; null if they are. */
  private final HashMap written;
  private final ArrayList keys = new ArrayList();
  private final PredicateWriter predicates;
  private final PythonFunctions.Calls calls;
  /** What is still to be written as plans of their own: subqueries, and what is too deep. */
  private final ArrayList plans = new ArrayList();
  /** Ids of the columns that the query needs, and whether scans are written with those alone. */
  private final HashSet needed = new HashSet();
  private final boolean usedOnly;
  /** Whether some table is read at several places: then parts of the plan may be equal, and run only once. */
  private final boolean repeats;
  /** Whether the plan is one by which rows are changed in place, by the table's own means. */
  private final boolean changesRows;
  /** Of type List of FileIndex: the files of each scan, at all places where it is read, by its key. */
  final HashMap leaves = new HashMap();
  /** How many scans there are that could be pruned. */
  int candidates = 0;
  /** Of type LogicalPlan: what is written, in that order; null for what only says that a plan goes on elsewhere. */
  final List nodes = new ArrayList();
  /** Of type Join, by the numbers that they are written with; null where joins are not numbered. */
  final List joins;
  /** Of type Expression, by number: what subqueries give when the query runs; null where that is not looked into. */
  final List late;
  /** Those of these plans that were cut from under a random operator. */
  private final java.util.Set random = java.util.Collections.newSetFromMap(new java.util.IdentityHashMap());
  /** How many operators there are above the one at hand, and whether one of them is random. */
  private int depth = 0;
  private boolean belowRandom = false;

  PlanWriter(LogicalPlan plan) {
    this(plan, false, true, false);
  }

  /**
   * usedOnly: write of each scan only the columns that the query needs. toRun: write what only a plan that is about to
   * run has, for what becomes known when it does. renumber: write numbers in place of the ids of columns and the keys of
   * scans, which are new whenever a query is planned, so that a plan can be known again by its text.
   */
  PlanWriter(LogicalPlan plan, boolean usedOnly, boolean toRun, boolean renumber) {
    conf = plan.conf();
    out = new Json(renumber);
    written = renumber ? new HashMap() : null;
    joins = toRun ? new ArrayList() : null;
    late = toRun ? new ArrayList() : null;
    this.usedOnly = usedOnly;
    need(plan, true);
    calls = new PythonFunctions.Calls(plan);
    repeats = repeats(plan, new HashSet());
    changesRows = changesRows(plan);
    predicates = new PredicateWriter(out, conf, late);
    out.open('{').key("format").number(FORMAT);
    out.key("depends").text(ValueSettings.text(conf));
    out.key("plans").open('[');
    node(plan, false);
    for (int i = 0; i < plans.size(); i++) {
      depth = 0;
      belowRandom = random.contains(plans.get(i));
      if (belowRandom) {
        nodes.add(null);
        out.open('{').key("op").text("Deep").key("random").bool(true).key("in").open('[');
      }
      node((LogicalPlan) plans.get(i), false);
      if (belowRandom) out.close(']').close('}');
    }
    out.close(']').close('}');
  }

  String text() {
    return out.toString();
  }

  /** The key of a scan, or what stands for it in a text with numbers of its own. */
  private String writtenKey(String key) {
    if (written == null) return key;
    String stands = (String) written.get(key);
    if (stands == null) {
      written.put(key, stands = "@" + keys.size());
      keys.add(key);
    }
    return stands;
  }

  /** A message about the plan, each of its lines with the key of a scan where one of the first two fields stands for it. */
  String withKeys(String message) {
    if (written == null || message == null || message.isEmpty()) return message;
    StringBuilder full = new StringBuilder(message.length() + 1024);
    String[] lines = message.split("\n", -1);
    for (int i = 0; i < lines.length; i++) {
      // Of the fields that follow, one may be the name of a column, which can be anything.
      String[] fields = lines[i].split("\t", 3);
      if (i > 0) full.append('\n');
      for (int f = 0; f < fields.length; f++) {
        boolean stands = f < 2 && fields[f].startsWith("@");
        full.append(f > 0 ? "\t" : "").append(stands ? keys.get(Integer.parseInt(fields[f].substring(1))) : fields[f]);
      }
    }
    return full.toString();
  }

  static boolean isFileRelation(Object node) {
    return node instanceof LogicalRelation && ((LogicalRelation) node).relation() instanceof HadoopFsRelation;
  }

  /** Whether a node reads the files of a table that could be left out. */
  static boolean isScan(Object node) {
    return isFileRelation(node) || IcebergScan.is(node);
  }

  /** What tells one occurrence of a table from another: copies in runtime filters share it, self-joins do not. */
  static String outputIds(LogicalPlan leaf) {
    StringBuilder ids = new StringBuilder();
    for (Iterator it = Scala.list(leaf.output()).iterator(); it.hasNext();) {
      Attribute column = (Attribute) it.next();
      if (Replacement.isPart(column)) continue;
      ids.append(ids.length() == 0 ? "" : ",").append(column.exprId().id());
    }
    return ids.toString();
  }

  /** The subqueries of an operator, less those that the rule itself has put into it. */
  static List subqueries(LogicalPlan plan) {
    if (!(plan instanceof Filter)) return Scala.list(plan.subqueries());
    Expression own = BlockFilter.without((Filter) plan);
    if (own == ((Filter) plan).condition()) return Scala.list(plan.subqueries());
    ArrayList found = new ArrayList();
    if (own != null) collectPlans(own, found);
    return found;
  }

  private static void collectPlans(Expression e, List found) {
    if (e instanceof PlanExpression) found.add(((PlanExpression) e).plan());
    for (Iterator it = Scala.list(e.children()).iterator(); it.hasNext();) collectPlans((Expression) it.next(), found);
  }

  /** Writes the ids of attributes as an array. */
  static void writeIds(Json out, Object attributes) {
    out.open('[');
    for (Iterator it = Scala.list(attributes).iterator(); it.hasNext();) out.id(((Attribute) it.next()).exprId().id());
    out.close(']');
  }

  /** The ids of attributes, separated by commas. */
  static String ids(Object attributes) {
    StringBuilder ids = new StringBuilder();
    for (Iterator it = Scala.list(attributes).iterator(); it.hasNext();) {
      ids.append(ids.length() == 0 ? "" : ",").append(((Attribute) it.next()).exprId().id());
    }
    return ids.toString();
  }

  /**
   * What the query asks for where the rule has put something in: tables in column groups as they are, whatever is joined;
   * and in a plan that is kept to tell what queries ask for, the joins that a denormalized table stands for.
   */
  private LogicalPlan asked(LogicalPlan put) {
    LogicalPlan plan = Reconstruction.original(put);
    return joins == null ? Denormalization.before(plan) : plan;
  }

  // ---- which columns are needed

  /** What operators refer to, and whole outputs where columns go on by position (Union) or leave the query (its root). */
  private void need(LogicalPlan put, boolean whole) {
    LogicalPlan plan = asked(put);
    if (whole) need(plan.output());
    Expression condition = plan instanceof Filter ? BlockFilter.without((Filter) plan) : null;
    if (condition != null) need(condition.references().toSeq());
    else if (!(plan instanceof Filter)) need(plan.references().toSeq());
    List inside = subqueries(plan);
    for (int i = 0; i < inside.size(); i++) need((LogicalPlan) inside.get(i), true);
    boolean passed = plan instanceof Union || plan instanceof CTERelationDef || plan instanceof UnionLoop
        || plan instanceof Command;
    List children = Scala.list(plan.children());
    for (int i = 0; i < children.size(); i++) need((LogicalPlan) children.get(i), passed);
  }

  boolean needs(Attribute column) {
    return needed.contains(Long.valueOf(column.exprId().id()));
  }

  private void need(Object attributes) {
    for (Iterator it = Scala.list(attributes).iterator(); it.hasNext();) {
      needed.add(Long.valueOf(((Attribute) it.next()).exprId().id()));
    }
  }

  private static boolean changesRows(LogicalPlan plan) {
    if (plan instanceof RowLevelWrite) return true;
    for (Iterator it = Scala.list(plan.children()).iterator(); it.hasNext();) {
      if (changesRows((LogicalPlan) it.next())) return true;
    }
    return false;
  }

  private boolean repeats(LogicalPlan put, HashSet seen) {
    LogicalPlan plan = asked(put);
    if (IcebergScan.is(plan)) {
      return !seen.add(IcebergFiles.location(IcebergScan.original(((DataSourceV2ScanRelation) plan).scan())));
    }
    if (isFileRelation(plan)) {
      return !seen.add(((HadoopFsRelation) ((LogicalRelation) plan).relation()).location().rootPaths());
    }
    List children = Scala.list(plan.children());
    for (int i = 0; i < children.size(); i++) if (repeats((LogicalPlan) children.get(i), seen)) return true;
    List inside = subqueries(plan);
    for (int i = 0; i < inside.size(); i++) if (repeats((LogicalPlan) inside.get(i), seen)) return true;
    return false;
  }

  // ---- operators

  /** input: whether it is what a join takes in. Like group-bys, these are what Spark may run once and use again. */
  private void node(LogicalPlan put, boolean input) {
    LogicalPlan plan = asked(put);
    if (depth == MOST_DEEP && !isScan(plan)) {
      cut(plan);
      return;
    }
    plans.addAll(subqueries(plan));
    if (isFileRelation(plan)) {
      scan((LogicalRelation) plan, input);
      return;
    }
    if (IcebergScan.is(plan)) {
      scan((DataSourceV2ScanRelation) plan, input);
      return;
    }
    Expression condition = plan instanceof Filter ? BlockFilter.without((Filter) plan) : null;
    // What the rule itself has put over a relation is no part of the query.
    if (plan instanceof Filter && condition == null) {
      node(((Filter) plan).child(), input);
      return;
    }
    nodes.add(plan);
    out.open('{').key("op").text(plan.getClass().getSimpleName());
    if (repeats && (input || plan instanceof Aggregate)) out.key("same").hash(plan.semanticHash());
    if (plan instanceof Filter) condition(condition);
    else if (plan instanceof Join) join((Join) plan);
    else if (plan instanceof Project) columns(((Project) plan).projectList());
    else if (plan instanceof Aggregate) aggregate((Aggregate) plan);
    else if (plan instanceof Window) plainIds("partition", ((Window) plan).partitionSpec());
    else if (plan instanceof WindowGroupLimit) plainIds("partition", ((WindowGroupLimit) plan).partitionSpec());
    else if (plan instanceof Expand) expand((Expand) plan);
    else if (plan instanceof Union) union((Union) plan);
    else if (plan instanceof LeafNode) leaf(plan);
    boolean isRandom = isRandom(plan);
    if (isRandom) out.key("random").bool(true);
    List children = Scala.list(plan.children());
    if (!children.isEmpty()) {
      boolean above = belowRandom;
      belowRandom |= isRandom || plan instanceof Sample;
      depth++;
      out.key("in").open('[');
      for (int i = 0; i < children.size(); i++) node((LogicalPlan) children.get(i), plan instanceof Join);
      out.close(']');
      depth--;
      belowRandom = above;
    }
    out.close('}');
  }

  /**
   * Writes that a plan goes on elsewhere. What holds above the cut does not reach what is below, so that less is skipped;
   * what follows from the part below alone still is. Each scan must be written somewhere: one that Spark has copied is
   * skipped at all of its places alike.
   */
  private void cut(LogicalPlan plan) {
    plans.add(plan);
    nodes.add(null);
    if (belowRandom) random.add(plan);
    out.open('{').key("op").text("Deep").key("about").text(plan.nodeName()).close('}');
  }

  private static boolean isRandom(LogicalPlan plan) {
    List expressions = Scala.list(plan.expressions());
    for (int i = 0; i < expressions.size(); i++) {
      if (!((Expression) expressions.get(i)).deterministic()) return true;
    }
    return false;
  }

  private void condition(Expression condition) {
    out.key("if");
    predicates.write(calls.in(condition));
  }

  private void join(Join join) {
    boolean exists = join.joinType() instanceof ExistenceJoin;
    // An existence join has no SQL of its own: asked for it, Spark throws.
    out.key("type").text(exists ? "EXISTENCE" : join.joinType().sql());
    if (join.condition().isDefined()) {
      condition((Expression) join.condition().get());
    }
    if (exists) out.key("exists").id(((ExistenceJoin) join.joinType()).exists().exprId().id());
    if (joins == null || join.condition().isEmpty()) return;
    out.key("number").number(joins.size());
    joins.add(join);
    out.key("bytes").open('[').number(bytes(join.left())).number(bytes(join.right())).close(']');
    meets(join);
    computed(join);
  }

  /** What Spark thinks that an input takes. */
  static long bytes(LogicalPlan plan) {
    try {
      scala.math.BigInt size = plan.stats().sizeInBytes();
      return size.isValidLong() ? size.toLong() : Long.MAX_VALUE;
    } catch (RuntimeException unknown) {
      return Long.MAX_VALUE;
    }
  }

  /** The parts of a condition that all must hold, left to right, as PredicateWriter has them. */
  static List conjuncts(Expression condition) {
    ArrayList parts = new ArrayList();
    ArrayDeque open = new ArrayDeque();
    open.push(condition);
    while (!open.isEmpty()) {
      Expression next = (Expression) open.pop();
      if (next instanceof And) {
        open.push(((And) next).right());
        open.push(((And) next).left());
      } else {
        parts.add(next);
      }
    }
    return parts;
  }

  /** What of a comparison between the inputs of a join is of one of them alone: 0 or 1, or -1 if it is of neither. */
  static int inputOf(Expression e, Join join) {
    if (e.references().isEmpty() || !e.deterministic()) return -1;
    boolean left = e.references().subsetOf(join.left().outputSet());
    boolean right = e.references().subsetOf(join.right().outputSet());
    return left == right ? -1 : left ? 0 : 1;
  }

  /**
   * Comparisons of a column, or a cast of one, with anything that the other input has: [conjunct, comparison, column,
   * which input the other is]. Rows of that input say what the column must hold.
   */
  private void meets(Join join) {
    List parts = conjuncts((Expression) join.condition().get());
    out.key("meets").open('[');
    for (int i = 0; i < parts.size(); i++) {
      if (!(parts.get(i) instanceof BinaryComparison)) continue;
      BinaryComparison part = (BinaryComparison) parts.get(i);
      int left = inputOf((Expression) part.left(), join);
      int right = inputOf((Expression) part.right(), join);
      if (left < 0 || right < 0 || left == right) continue;
      meet(i, part.symbol(), (Expression) part.left(), right);
      meet(i, flipped(part.symbol()), (Expression) part.right(), left);
    }
    out.close(']');
  }

  private void meet(int conjunct, String comparison, Expression key, int other) {
    if (comparison.equals("<=>")) return;
    int mark = out.length();
    out.open('[').number(conjunct).text(comparison);
    if (!predicates.operand(key)) {
      out.cut(mark);
      return;
    }
    out.number(other).close(']');
  }

  private static String flipped(String comparison) {
    if (comparison.startsWith("<") && !comparison.equals("<=>")) return ">" + comparison.substring(1);
    return comparison.startsWith(">") ? "<" + comparison.substring(1) : comparison;
  }

  /** Comparisons of which a side is computed from a column: [comparison, left, right]. */
  private void computed(Join join) {
    List parts = conjuncts((Expression) join.condition().get());
    int start = out.length();
    out.key("computed").open('[');
    boolean any = false;
    for (int i = 0; i < parts.size(); i++) {
      if (!(parts.get(i) instanceof BinaryComparison)) continue;
      BinaryComparison part = (BinaryComparison) parts.get(i);
      if (!predicates.isComputed((Expression) part.left()) && !predicates.isComputed((Expression) part.right())) continue;
      int mark = out.length();
      out.open('[').text(part.symbol());
      if (predicates.computed((Expression) part.left()) && predicates.computed((Expression) part.right())) {
        out.close(']');
        any = true;
      } else {
        out.cut(mark);
      }
    }
    if (any) out.close(']');
    else out.cut(start);
  }

  private void aggregate(Aggregate aggregate) {
    columns(aggregate.aggregateExpressions());
    plainIds("groups", aggregate.groupingExpressions());
    if (aggregate.groupingExpressions().isEmpty()) out.key("grouped").bool(false);
  }

  /** The columns that an operator gives: for each its id, and what it stands for where that is understood. */
  private void columns(Object given) {
    out.key("columns").open('[');
    for (Iterator it = Scala.list(given).iterator(); it.hasNext();) {
      NamedExpression column = (NamedExpression) it.next();
      Expression source = column instanceof Alias ? ((Alias) column).child() : (Expression) column;
      out.open('[').id(column.exprId().id());
      int mark = out.length();
      if (!(joins == null ? predicates.operand(source) : predicates.computed(source))) {
        out.cut(mark);
        out.nothing();
      }
      out.close(']');
    }
    out.close(']');
  }

  /** The ids of those among some expressions that are plain columns. */
  private void plainIds(String name, Object expressions) {
    out.key(name).open('[');
    for (Iterator it = Scala.list(expressions).iterator(); it.hasNext();) {
      Object next = it.next();
      if (next instanceof AttributeReference) out.id(((AttributeReference) next).exprId().id());
    }
    out.close(']');
  }

  /** An expansion makes several rows of each; a column goes through it if it is the same in all of them. */
  private void expand(Expand expand) {
    out.key("columns").open('[');
    List output = Scala.list(expand.output());
    List projections = Scala.list(expand.projections());
    for (int i = 0; i < output.size(); i++) {
      long id = ((Attribute) output.get(i)).exprId().id();
      boolean same = true;
      for (int p = 0; same && p < projections.size(); p++) {
        Object put = Scala.list(projections.get(p)).get(i);
        same = put instanceof AttributeReference && ((AttributeReference) put).exprId().id() == id;
      }
      out.open('[').id(id);
      if (same) out.open('[').text("a").id(id).close(']');
      else out.nothing();
      out.close(']');
    }
    out.close(']');
  }

  /** The ids and types of a union's columns, and the ids of what each child puts there. */
  private void union(Union union) {
    out.key("columns").open('[');
    for (Iterator it = Scala.list(union.output()).iterator(); it.hasNext();) {
      Attribute column = (Attribute) it.next();
      out.open('[').id(column.exprId().id()).text(column.dataType().catalogString()).close(']');
    }
    out.close(']').key("outputs").open('[');
    for (Iterator it = Scala.list(union.children()).iterator(); it.hasNext();) {
      writeIds(out, ((LogicalPlan) it.next()).output());
    }
    out.close(']');
  }

  // ---- leaves

  private void scan(LogicalRelation leaf, boolean input) {
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    String reason = whyNot(leaf, relation);
    if (reason == null) candidates++;
    String key = outputIds(leaf);
    List locations = (List) leaves.get(key);
    if (locations == null) leaves.put(key, locations = new ArrayList());
    locations.add(relation.location());
    nodes.add(leaf);
    out.open('{').key("op").text("scan").key("ids").text(writtenKey(key)).key("table");
    if (leaf.catalogTable().isDefined()) {
      out.text(((CatalogTable) leaf.catalogTable().get()).identifier().unquotedString());
    } else {
      out.nothing();
    }
    if (reason != null) out.key("reason").text(reason);
    if (repeats && input) out.key("same").hash(leaf.semanticHash());
    out.key("roots").open('[');
    for (Iterator it = Scala.list(relation.location().rootPaths()).iterator(); it.hasNext();) {
      out.text(it.next().toString());
    }
    out.close(']').key("columns").open('[');
    for (Iterator it = Scala.list(leaf.output()).iterator(); it.hasNext();) {
      Attribute column = (Attribute) it.next();
      if (usedOnly && !needed.contains(Long.valueOf(column.exprId().id()))) continue;
      if (Replacement.isPart(column)) continue;
      // Files from before the column was added hold no value of it, and Spark reads its default there: not a NULL.
      String type = column.metadata().contains("EXISTS_DEFAULT") ? "column with a default"
          : column.dataType().catalogString();
      out.open('[').id(column.exprId().id()).text(column.name()).text(type).close(']');
    }
    out.close(']').key("partitions").open('[');
    StructField[] fields = relation.partitionSchema().fields();
    for (int i = 0; i < fields.length; i++) if (!Replacement.isPart(fields[i].metadata())) out.text(fields[i].name());
    out.close(']');
    if (joins != null && reason == null && DeltaReader.reads(relation)) {
      out.key("by_log").bool(true);
      stored(DeltaReader.storedNames(relation));
    }
    if (joins != null && GroupedFiles.of(leaf) != null) groups(leaf, GroupedFiles.of(leaf));
    out.close('}');
  }

  /** A scan of an Iceberg table; with the ids by which its files have the columns, in their order. */
  private void scan(DataSourceV2ScanRelation leaf, boolean input) {
    String reason = IcebergScan.whyNot(leaf, changesRows);
    if (reason == null) candidates++;
    Object scan = IcebergScan.original(leaf.scan());
    String key = outputIds(leaf);
    List locations = (List) leaves.get(key);
    if (locations == null) leaves.put(key, locations = new ArrayList());
    locations.add(new IcebergFiles(scan));
    nodes.add(leaf);
    out.open('{').key("op").text("scan").key("ids").text(writtenKey(key)).key("table").text(leaf.name());
    if (reason != null) out.key("reason").text(reason);
    if (repeats && input) out.key("same").hash(leaf.semanticHash());
    out.key("roots").open('[').text(IcebergFiles.location(scan)).close(']').key("columns").open('[');
    java.util.Map ids = reason == null ? IcebergScan.fieldIds(leaf) : new HashMap();
    ArrayList fields = new ArrayList();
    for (Iterator it = Scala.list(leaf.output()).iterator(); it.hasNext();) {
      Attribute column = (Attribute) it.next();
      if (usedOnly && !needs(column)) continue;
      fields.add(ids.containsKey(column.name()) ? ids.get(column.name()) : Integer.valueOf(-1));
      out.open('[').id(column.exprId().id()).text(column.name()).text(column.dataType().catalogString()).close(']');
    }
    out.close(']').key("partitions").open('[').close(']');
    if (joins != null) {
      out.key("fields").open('[');
      for (int i = 0; i < fields.size(); i++) out.number(((Integer) fields.get(i)).intValue());
      out.close(']');
    }
    out.close('}');
  }

  /** Columns that are called otherwise in the files: [name, name in the files]. */
  private void stored(java.util.Map names) {
    if (names == null) return;
    out.key("stored").open('[');
    for (Iterator it = names.entrySet().iterator(); it.hasNext();) {
      java.util.Map.Entry each = (java.util.Map.Entry) it.next();
      out.open('[').text((String) each.getKey()).text((String) each.getValue()).close(']');
    }
    out.close(']');
  }

  /** The column groups that hold what the query needs of a table. */
  private void groups(LogicalRelation leaf, GroupedFiles files) {
    ArrayList names = new ArrayList();
    for (Iterator it = Scala.list(leaf.output()).iterator(); it.hasNext();) {
      Attribute column = (Attribute) it.next();
      if (needed.contains(Long.valueOf(column.exprId().id()))) names.add(column.name());
    }
    out.key("column_groups").open('[');
    java.util.BitSet cover = files.cover(names);
    for (int g = cover.nextSetBit(0); g >= 0; g = cover.nextSetBit(g + 1)) out.number(g);
    out.close(']');
    int[] partial = files.partial();
    if (partial == null) return;
    // Some cells are there more than once: which of them are read is for Python to choose. Jobs read all rows.
    if (files.byJob) partial = new int[0];
    out.key("copies").open('[');
    for (int i = 0; i < partial.length; i++) out.number(partial[i]);
    out.close(']').key("needs").open('[');
    for (int i = 0; i < names.size(); i++) out.text((String) names.get(i));
    out.close(']');
  }

  private static String whyNot(LogicalRelation leaf, HadoopFsRelation relation) {
    if (DeltaReader.reads(relation)) return DeltaReader.whyNot(leaf, relation);
    if (!(relation.fileFormat() instanceof ParquetFileFormat)) return "it is not Parquet but " + relation;
    // A format derived from Parquet's may read more than the files it lists: deletes, or rows merged from elsewhere.
    if (relation.fileFormat().getClass() != ParquetFileFormat.class && !(relation.fileFormat() instanceof SkippingParquet)
        && !(relation.fileFormat() instanceof GroupedFiles.Format)) {
      return "it is read by " + relation.fileFormat().getClass().getSimpleName() + ", which may read more than its files";
    }
    if (leaf.isStreaming()) return "it is a stream";
    FileIndex files = PrunedFiles.unwrap(relation.location());
    if (GroupedFiles.of(leaf) == null && files instanceof SnapshotFiles && ((SnapshotFiles) files).group >= 0) {
      return "it is a column group, of which rows were put together before";
    }
    // The setting alone means nothing: a session in which Delta once wrote has it, and reads by name as before.
    if (relation.sparkSession().sessionState().conf().parquetFieldIdReadEnabled()
        && org.apache.spark.sql.execution.datasources.parquet.ParquetUtils.hasFieldIds(relation.dataSchema())) {
      return "its columns are found by field id (spark.sql.parquet.fieldId.read.enabled)";
    }
    return null;
  }

  private void leaf(LogicalPlan plan) {
    String kind = plan.getClass().getSimpleName();
    String reason = null;
    if (plan instanceof LogicalRelation) {
      reason = "it is read through " + ((LogicalRelation) plan).relation().getClass().getSimpleName();
    } else if (plan instanceof DataSourceV2ScanRelation
        && ((DataSourceV2ScanRelation) plan).scan().getClass().getName().startsWith("org.apache.iceberg.")) {
      reason = "Iceberg reads it by a " + ((DataSourceV2ScanRelation) plan).scan().getClass().getSimpleName()
          + ", of which sidestep leaves out nothing";
    } else if (kind.startsWith("DataSourceV2")) {
      reason = "it is a DataSource V2 scan";
    } else if (kind.equals("InMemoryRelation")) {
      reason = "it is cached in memory, where Spark itself skips batches by their least and greatest values";
    } else if (kind.equals("HiveTableRelation")) {
      reason = "it is read by Hive's own reader";
    } else if (kind.equals("CTERelationRef")) {
      reason = "it refers to a common table expression that Spark keeps as one";
    } else if (kind.equals("LogicalRDD")) {
      reason = "it is made from an RDD or a checkpoint";
    }
    if (reason == null) return;
    out.key("reason").text(reason);
    // There are ids in it, and only people want it.
    if (written != null) return;
    String about = plan.simpleString(8);
    out.key("about").text(about.length() > 120 ? about.substring(0, 120) + "..." : about);
  }
}
