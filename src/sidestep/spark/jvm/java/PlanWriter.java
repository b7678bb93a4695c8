package sidestep;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes an optimized plan, its subqueries and its predicates as compact ASCII JSON: operators with their children,
 * scans with their columns and folders, and every predicate either in the words of sidestep's predicate language or as
 * one opaque thing with an identity. plan_reader.py reads it; the two are kept in step.
 */
public final class PlanWriter {
  private final StringBuilder out = new StringBuilder(4096);
  private final ArrayList subqueries = new ArrayList();
  /** Ids of the columns that the query needs, or null where scans are written with all they have. */
  private final java.util.HashSet needed;
  /** Columns that stand for a call of a Python function, by id: Spark has taken the calls out of filters by then. */
  private final java.util.HashMap calls = new java.util.HashMap();
  private final org.apache.spark.sql.internal.SQLConf conf;
  /** Whether some table is read at several places: then parts of the plan may be equal, and run only once. */
  private final boolean repeats;
  /** How many scans there are that could be pruned. */
  public int candidates = 0;

  public PlanWriter(LogicalPlan plan) {
    this(plan, false);
  }

  /** usedOnly: write of each scan only the columns that the query needs. */
  public PlanWriter(LogicalPlan plan, boolean usedOnly) {
    needed = usedOnly ? new java.util.HashSet() : null;
    if (usedOnly) need(plan, true);
    collectCalls(plan);
    repeats = repeats(plan, new java.util.HashSet());
    conf = plan.conf();
    out.append("{\"depends\":");
    string(conf.sessionLocalTimeZone() + "|ansi=" + conf.ansiEnabled() + "|case=" + conf.caseSensitiveAnalysis()
        + "|parser=" + conf.getConfString("spark.sql.legacy.timeParserPolicy"));
    out.append(",\"plans\":[");
    node(plan, false);
    for (int i = 0; i < subqueries.size(); i++) {
      out.append(',');
      node((LogicalPlan) subqueries.get(i), false);
    }
    out.append("]}");
  }

  public String text() {
    return out.toString();
  }

  public static boolean isFileRelation(Object node) {
    return node instanceof LogicalRelation && ((LogicalRelation) node).relation() instanceof HadoopFsRelation;
  }

  /** What tells one occurrence of a table from another: copies in runtime filters share it, self-joins do not. */
  public static String outputIds(LogicalRelation leaf) {
    StringBuilder ids = new StringBuilder();
    for (java.util.Iterator it = list(leaf.output()).iterator(); it.hasNext();) {
      ids.append(ids.length() == 0 ? "" : ",").append(((Attribute) it.next()).exprId().id());
    }
    return ids.toString();
  }

  static List list(Object scalaSeq) {
    return scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Seq) scalaSeq);
  }

  // ---- which columns are needed

  /** What operators refer to, and whole outputs where columns go on by position (Union) or leave the query (its root). */
  private void need(LogicalPlan plan, boolean whole) {
    if (whole) need(plan.output());
    Expression wished = plan instanceof Filter ? withoutBlocks((Filter) plan) : null;
    if (wished != null) need(wished.references().toSeq());
    else if (!(plan instanceof Filter)) need(plan.references().toSeq());
    List inside = list(plan.subqueries());
    for (int i = 0; i < inside.size(); i++) need((LogicalPlan) inside.get(i), true);
    boolean passed = plan instanceof Union || plan instanceof CTERelationDef || plan instanceof UnionLoop
        || plan instanceof Command;
    List children = list(plan.children());
    for (int i = 0; i < children.size(); i++) need((LogicalPlan) children.get(i), passed);
  }

  private static boolean repeats(LogicalPlan plan, java.util.HashSet seen) {
    if (isFileRelation(plan)) {
      return !seen.add(((HadoopFsRelation) ((LogicalRelation) plan).relation()).location().rootPaths());
    }
    List children = list(plan.children());
    for (int i = 0; i < children.size(); i++) if (repeats((LogicalPlan) children.get(i), seen)) return true;
    List inside = list(plan.subqueries());
    for (int i = 0; i < inside.size(); i++) if (repeats((LogicalPlan) inside.get(i), seen)) return true;
    return false;
  }

  private void need(Object attributes) {
    for (java.util.Iterator it = list(attributes).iterator(); it.hasNext();) {
      needed.add(Long.valueOf(((Attribute) it.next()).exprId().id()));
    }
  }

  // ---- Python functions

  /** Notes which columns stand for calls: the results of evaluations, and aliases of anything with a call in it. */
  private void collectCalls(LogicalPlan plan) {
    List children = list(plan.children());
    for (int i = 0; i < children.size(); i++) collectCalls((LogicalPlan) children.get(i));
    List inside = list(plan.subqueries());
    for (int i = 0; i < inside.size(); i++) collectCalls((LogicalPlan) inside.get(i));
    if (plan instanceof BaseEvalPython) {
      List functions = list(((BaseEvalPython) plan).udfs());
      List results = list(((BaseEvalPython) plan).resultAttrs());
      for (int i = 0; i < functions.size(); i++) {
        calls.put(Long.valueOf(((Attribute) results.get(i)).exprId().id()), withCalls((Expression) functions.get(i)));
      }
    } else if (plan instanceof Project) {
      List columns = list(((Project) plan).projectList());
      for (int i = 0; i < columns.size(); i++) {
        if (!(columns.get(i) instanceof Alias)) continue;
        Expression source = withCalls(((Alias) columns.get(i)).child());
        if (!source.containsPattern(TreePattern.PYTHON_UDF())) continue;
        calls.put(Long.valueOf(((Alias) columns.get(i)).exprId().id()), source);
      }
    }
  }

  /** The expression with calls where columns stand for them. */
  private Expression withCalls(Expression e) {
    if (calls.isEmpty()) return e;
    return (Expression) ((TreeNode) e).transformUp(new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) {
        return node instanceof AttributeReference && call(node) != null;
      }

      public Object applyOrElse(Object node, scala.Function1 otherwise) {
        Object found = node instanceof AttributeReference ? call(node) : null;
        return found == null ? otherwise.apply(node) : found;
      }
    });
  }

  private Object call(Object attribute) {
    return calls.get(Long.valueOf(((AttributeReference) attribute).exprId().id()));
  }

  // ---- operators

  /**
   * What a filter asks for, without the conditions on block ids that the rule itself has put over a relation; null if
   * there is nothing else.
   */
  private static Expression withoutBlocks(Filter filter) {
    LogicalPlan below = filter.child();
    while (below instanceof Filter) below = ((Filter) below).child();
    if (!isFileRelation(below)) return filter.condition();
    Expression wished = null;
    java.util.ArrayDeque open = new java.util.ArrayDeque();
    open.push(filter.condition());
    while (!open.isEmpty()) {
      Expression next = (Expression) open.pop();
      if (next instanceof And) {
        open.push(((And) next).right());
        open.push(((And) next).left());
      } else if (!isAboutBlocks(next)) {
        wished = wished == null ? next : new And(wished, next);
      }
    }
    return wished;
  }

  private static boolean isAboutBlocks(Expression e) {
    List references = list(e.references().toSeq());
    for (int i = 0; i < references.size(); i++) {
      if (!((Attribute) references.get(i)).name().equals("_block")) return false;
    }
    return !references.isEmpty() && e.deterministic();
  }

  /** input: whether it is what a join takes in. Like group-bys, these are what Spark may run once and use again. */
  private void node(LogicalPlan plan, boolean input) {
    List inside = list(plan.subqueries());
    for (int i = 0; i < inside.size(); i++) subqueries.add(inside.get(i));
    if (isFileRelation(plan)) {
      scan((LogicalRelation) plan, input);
      return;
    }
    Expression wished = plan instanceof Filter ? withoutBlocks((Filter) plan) : null;
    if (plan instanceof Filter && (wished == null || BoundFilter.is((Filter) plan))) {
      node(((Filter) plan).child(), input);
      return;
    }
    out.append("{\"op\":");
    string(plan.getClass().getSimpleName());
    if (repeats && (input || plan instanceof Aggregate)) out.append(",\"same\":").append(plan.semanticHash());
    if (plan instanceof Filter) {
      out.append(",\"if\":");
      predicate(withCalls(wished));
    } else if (plan instanceof Join) {
      Join join = (Join) plan;
      out.append(",\"type\":");
      // An existence join has no SQL of its own: asked for it, Spark throws.
      string(join.joinType() instanceof org.apache.spark.sql.catalyst.plans.ExistenceJoin
          ? "EXISTENCE" : join.joinType().sql());
      if (join.condition().isDefined()) {
        out.append(",\"if\":");
        predicate(withCalls((Expression) join.condition().get()));
        shifted((Expression) join.condition().get());
      }
      if (join.joinType() instanceof org.apache.spark.sql.catalyst.plans.ExistenceJoin) {
        out.append(",\"exists\":").append(
            ((org.apache.spark.sql.catalyst.plans.ExistenceJoin) join.joinType()).exists().exprId().id());
      }
    } else if (plan instanceof Project) {
      columns(((Project) plan).projectList());
    } else if (plan instanceof Aggregate) {
      columns(((Aggregate) plan).aggregateExpressions());
      plain("groups", ((Aggregate) plan).groupingExpressions());
      if (((Aggregate) plan).groupingExpressions().isEmpty()) out.append(",\"grouped\":false");
    } else if (plan instanceof Window) {
      plain("partition", ((Window) plan).partitionSpec());
    } else if (plan instanceof WindowGroupLimit) {
      plain("partition", ((WindowGroupLimit) plan).partitionSpec());
    } else if (plan instanceof Expand) {
      expanded((Expand) plan);
    } else if (plan instanceof Union) {
      union((Union) plan);
    } else if (plan instanceof LeafNode) {
      leaf(plan);
    }
    List expressions = list(plan.expressions());
    for (int i = 0; i < expressions.size(); i++) {
      if (!((Expression) expressions.get(i)).deterministic()) {
        out.append(",\"random\":true");
        break;
      }
    }
    List children = list(plan.children());
    if (!children.isEmpty()) {
      out.append(",\"in\":[");
      for (int i = 0; i < children.size(); i++) {
        if (i > 0) out.append(',');
        node((LogicalPlan) children.get(i), plan instanceof Join);
      }
      out.append(']');
    }
    out.append('}');
  }

  /** Conjuncts a + j = b + k of columns of one integer type, as [a, j, b, k] where one of j and k is not 0. */
  private void shifted(Expression condition) {
    boolean first = true;
    java.util.ArrayDeque open = new java.util.ArrayDeque();
    open.push(condition);
    while (!open.isEmpty()) {
      Expression next = (Expression) open.pop();
      if (next instanceof And) {
        open.push(((And) next).right());
        open.push(((And) next).left());
      } else if (next instanceof EqualTo) {
        Object[] left = sum(((EqualTo) next).left());
        Object[] right = sum(((EqualTo) next).right());
        if (left == null || right == null || left[1].equals(Long.valueOf(0)) && right[1].equals(Long.valueOf(0))) continue;
        if (!((Expression) left[0]).dataType().equals(((Expression) right[0]).dataType())) continue;
        out.append(first ? ",\"shifted\":[[" : ",[");
        first = false;
        out.append(((AttributeReference) left[0]).exprId().id()).append(',').append(left[1]).append(',');
        out.append(((AttributeReference) right[0]).exprId().id()).append(',').append(right[1]).append(']');
      }
    }
    if (!first) out.append(']');
  }

  /** An integer column, alone or plus or minus a constant: the column and what is added; null for anything else. */
  private static Object[] sum(Expression e) {
    if (!(e.dataType() instanceof org.apache.spark.sql.types.IntegralType)) return null;
    if (e instanceof AttributeReference) return new Object[] {e, Long.valueOf(0)};
    if (!(e instanceof Add) && !(e instanceof Subtract)) return null;
    Object one = ((BinaryExpression) e).left();
    Object two = ((BinaryExpression) e).right();
    if (e instanceof Add && one instanceof Literal) {
      Object swapped = one;
      one = two;
      two = swapped;
    }
    if (!(one instanceof AttributeReference) || !(two instanceof Literal)) return null;
    Object value = ((Literal) two).value();
    if (!(value instanceof Number) || value instanceof Long && ((Long) value).longValue() == Long.MIN_VALUE) return null;
    long add = ((Number) value).longValue();
    return new Object[] {one, Long.valueOf(e instanceof Add ? add : -add)};
  }

  /** The columns that an operator gives: for each its id, and what it stands for where that is a column or a cast. */
  private void columns(Object given) {
    out.append(",\"columns\":[");
    List columns = list(given);
    for (int i = 0; i < columns.size(); i++) {
      if (i > 0) out.append(',');
      NamedExpression column = (NamedExpression) columns.get(i);
      Expression source = column instanceof Alias ? ((Alias) column).child() : (Expression) column;
      out.append('[').append(column.exprId().id()).append(',');
      int mark = out.length();
      if (!operand(source)) {
        out.setLength(mark);
        out.append("null");
      }
      out.append(']');
    }
    out.append(']');
  }

  /** The ids of those among some expressions that are plain columns. */
  private void plain(String name, Object expressions) {
    out.append(",\"").append(name).append("\":[");
    List all = list(expressions);
    boolean first = true;
    for (int i = 0; i < all.size(); i++) {
      if (!(all.get(i) instanceof AttributeReference)) continue;
      out.append(first ? "" : ",").append(((AttributeReference) all.get(i)).exprId().id());
      first = false;
    }
    out.append(']');
  }

  /** An expansion makes several rows of each; a column goes through it if it is the same in all of them. */
  private void expanded(Expand expand) {
    out.append(",\"columns\":[");
    List output = list(expand.output());
    List projections = list(expand.projections());
    for (int i = 0; i < output.size(); i++) {
      long id = ((Attribute) output.get(i)).exprId().id();
      boolean same = true;
      for (int p = 0; same && p < projections.size(); p++) {
        Object put = list(projections.get(p)).get(i);
        same = put instanceof AttributeReference && ((AttributeReference) put).exprId().id() == id;
      }
      out.append(i > 0 ? ",[" : "[").append(id).append(same ? ",[\"a\"," + id + "]]" : ",null]");
    }
    out.append(']');
  }

  /** The ids and types of a union's columns, and the ids of what each child puts there. */
  private void union(Union union) {
    out.append(",\"columns\":[");
    List output = list(union.output());
    for (int i = 0; i < output.size(); i++) {
      Attribute column = (Attribute) output.get(i);
      out.append(i > 0 ? ",[" : "[").append(column.exprId().id()).append(',');
      string(column.dataType().catalogString());
      out.append(']');
    }
    out.append("],\"outputs\":[");
    List children = list(union.children());
    for (int c = 0; c < children.size(); c++) {
      out.append(c > 0 ? ",[" : "[");
      List given = list(((LogicalPlan) children.get(c)).output());
      for (int i = 0; i < given.size(); i++) {
        out.append(i > 0 ? "," : "").append(((Attribute) given.get(i)).exprId().id());
      }
      out.append(']');
    }
    out.append(']');
  }

  private void scan(LogicalRelation leaf, boolean input) {
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    String reason = whyNot(leaf, relation);
    if (reason == null) candidates++;
    out.append("{\"op\":\"scan\",\"ids\":\"").append(outputIds(leaf)).append("\",\"table\":");
    if (leaf.catalogTable().isDefined()) {
      string(((org.apache.spark.sql.catalyst.catalog.CatalogTable) leaf.catalogTable().get()).identifier()
          .unquotedString());
    } else {
      out.append("null");
    }
    if (reason != null) {
      out.append(",\"reason\":");
      string(reason);
    }
    if (repeats && input) out.append(",\"same\":").append(leaf.semanticHash());
    out.append(",\"roots\":[");
    List roots = list(relation.location().rootPaths());
    for (int i = 0; i < roots.size(); i++) {
      if (i > 0) out.append(',');
      string(roots.get(i).toString());
    }
    out.append("],\"columns\":[");
    List columns = list(leaf.output());
    boolean first = true;
    for (int i = 0; i < columns.size(); i++) {
      Attribute column = (Attribute) columns.get(i);
      if (needed != null && !needed.contains(Long.valueOf(column.exprId().id()))) continue;
      out.append(first ? "[" : ",[").append(column.exprId().id()).append(',');
      first = false;
      string(column.name());
      out.append(',');
      // Files from before the column was added hold no value of it, and Spark reads its default there: not a NULL.
      string(column.metadata().contains("EXISTS_DEFAULT") ? "column with a default" : column.dataType().catalogString());
      out.append(']');
    }
    out.append("],\"partitions\":[");
    StructField[] fields = relation.partitionSchema().fields();
    for (int i = 0; i < fields.length; i++) {
      if (i > 0) out.append(',');
      string(fields[i].name());
    }
    out.append("]}");
  }

  private static String whyNot(LogicalRelation leaf, HadoopFsRelation relation) {
    if (!(relation.fileFormat() instanceof ParquetFileFormat)) return "it is not Parquet but " + relation;
    // A format derived from Parquet's may read more than the files it lists: deletes, or rows merged from elsewhere.
    if (relation.fileFormat().getClass() != ParquetFileFormat.class) {
      return "it is read by " + relation.fileFormat().getClass().getSimpleName() + ", which may read more than its files";
    }
    if (leaf.isStreaming()) return "it is a stream";
    if (relation.location().getClass().getName().startsWith("org.apache.spark.sql.delta.")) {
      return "it is read by Delta's own reader; read it with sidestep.read(spark, path)";
    }
    if (relation.sparkSession().sessionState().conf().parquetFieldIdReadEnabled()) {
      return "its columns are found by field id (spark.sql.parquet.fieldId.read.enabled)";
    }
    return null;
  }

  private void leaf(LogicalPlan plan) {
    String kind = plan.getClass().getSimpleName();
    String reason = null;
    if (plan instanceof LogicalRelation) {
      reason = "it is read through " + ((LogicalRelation) plan).relation().getClass().getSimpleName();
    } else if (kind.startsWith("DataSourceV2")) {
      reason = "it is a DataSource V2 scan";
    } else if (kind.equals("InMemoryRelation")) {
      reason = "it is cached in memory";
    } else if (kind.equals("HiveTableRelation")) {
      reason = "it is read by Hive's own reader";
    } else if (kind.equals("CTERelationRef")) {
      reason = "it refers to a common table expression that Spark keeps as one";
    } else if (kind.equals("LogicalRDD")) {
      reason = "it is made from an RDD or a checkpoint";
    }
    if (reason == null) return;
    out.append(",\"reason\":");
    string(reason);
    out.append(",\"about\":");
    String about = plan.simpleString(8);
    string(about.length() > 120 ? about.substring(0, 120) + "..." : about);
  }

  // ---- predicates

  private void predicate(Expression e) {
    int mark = out.length();
    if (e instanceof And || e instanceof Or) {
      boolean and = e instanceof And;
      out.append(and ? "[\"and\"" : "[\"or\"");
      // Opened without recursion: a chain of ten thousand ORs is deep, not difficult.
      java.util.ArrayDeque open = new java.util.ArrayDeque();
      open.push(e);
      while (!open.isEmpty()) {
        Expression next = (Expression) open.pop();
        if (and ? next instanceof And : next instanceof Or) {
          open.push(((BinaryExpression) next).right());
          open.push(((BinaryExpression) next).left());
        } else {
          out.append(',');
          predicate(next);
        }
      }
      out.append(']');
    } else if (e instanceof Not) {
      out.append("[\"not\",");
      predicate(((Not) e).child());
      out.append(']');
    } else if (!known(e)) {
      out.setLength(mark);
      opaque(e);
    }
  }

  private boolean known(Expression e) {
    if (e instanceof AttributeReference || e instanceof Literal) return operand(e);
    if (e instanceof EqualTo) return pair("=", e);
    if (e instanceof EqualNullSafe) return pair("<=>", e);
    if (e instanceof LessThan) return pair("<", e);
    if (e instanceof LessThanOrEqual) return pair("<=", e);
    if (e instanceof GreaterThan) return pair(">", e);
    if (e instanceof GreaterThanOrEqual) return pair(">=", e);
    if (e instanceof StartsWith) return pair("prefix", e);
    if (e instanceof EndsWith) return pair("suffix", e);
    if (e instanceof Contains) return pair("contains", e);
    if (e instanceof IsNull || e instanceof IsNotNull) {
      out.append(e instanceof IsNull ? "[\"null\"," : "[\"notnull\",");
      if (!operand((Expression) ((UnaryExpression) e).child())) return false;
      out.append(']');
      return true;
    }
    if (e instanceof Like) {
      out.append("[\"like\",");
      if (!operand(((Like) e).left())) return false;
      out.append(',');
      if (!operand(((Like) e).right())) return false;
      out.append(',');
      string(String.valueOf(((Like) e).escapeChar()));
      out.append(']');
      return true;
    }
    if (e instanceof In) {
      out.append("[\"in\",");
      if (!operand(((In) e).value())) return false;
      List values = list(((In) e).list());
      for (int i = 0; i < values.size(); i++) {
        out.append(',');
        if (!(values.get(i) instanceof Literal) || !operand((Expression) values.get(i))) return false;
      }
      out.append(']');
      return true;
    }
    if (e instanceof InSet) {
      out.append("[\"in\",");
      Expression child = ((InSet) e).child();
      if (!operand(child)) return false;
      java.util.Iterator values = scala.jdk.javaapi.CollectionConverters.asJava(((InSet) e).hset()).iterator();
      while (values.hasNext()) {
        out.append(',');
        if (!literal(values.next(), child.dataType())) return false;
      }
      out.append(']');
      return true;
    }
    return false;
  }

  private boolean pair(String name, Expression e) {
    out.append("[\"").append(name).append("\",");
    if (!operand((Expression) ((BinaryExpression) e).left())) return false;
    out.append(',');
    if (!operand((Expression) ((BinaryExpression) e).right())) return false;
    out.append(']');
    return true;
  }

  private boolean operand(Expression e) {
    while (e instanceof KnownNotNull || e instanceof KnownFloatingPointNormalized || e instanceof org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero) {
      e = (Expression) ((UnaryExpression) e).child();
    }
    if (e instanceof AttributeReference) {
      out.append("[\"a\",").append(((AttributeReference) e).exprId().id()).append(']');
      return true;
    }
    if (e instanceof Literal) return literal(((Literal) e).value(), ((Literal) e).dataType());
    if (e instanceof Cast && ((Cast) e).child() instanceof AttributeReference && ordered((Cast) e)) {
      out.append("[\"cast\",").append(((AttributeReference) ((Cast) e).child()).exprId().id()).append(',');
      string(((Cast) e).dataType().catalogString());
      out.append(']');
      return true;
    }
    return false;
  }

  /** Whether a cast may keep the order of values; any other is part of an opaque predicate, with all it depends on. */
  private static boolean ordered(Cast cast) {
    DataType from = cast.child().dataType();
    DataType to = cast.dataType();
    return from instanceof NumericType && to instanceof NumericType
        || from instanceof DateType && to instanceof TimestampNTZType;
  }

  private boolean literal(Object value, DataType type) {
    out.append("[\"l\",");
    string(type.catalogString());
    out.append(',');
    if (value == null) {
      out.append("null");
    } else if (value instanceof Boolean) {
      out.append(value);
    } else if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) {
      out.append(value);
    } else if (value instanceof Float) {
      string(Double.toString(((Float) value).doubleValue()));
    } else if (value instanceof Double) {
      string(value.toString());
    } else if (value instanceof Decimal) {
      string(((Decimal) value).toJavaBigDecimal().toPlainString());
    } else if (value instanceof UTF8String && ((UTF8String) value).isValid()) {
      string(value.toString());
    } else if (value instanceof byte[]) {
      string(java.util.HexFormat.of().formatHex((byte[]) value));
    } else {
      return false;
    }
    out.append(']');
    return true;
  }

  // ---- what is not looked into

  private void opaque(Expression e) {
    out.append("[\"?\",");
    String sql = readable(e).sql();
    string(sql.length() > 400 ? sql.substring(0, 400) + "..." : sql);
    out.append(',');
    StringBuilder identity = new StringBuilder();
    StringBuilder why = new StringBuilder();
    if (identify(e, identity, why)) string(digest(identity.toString()));
    else out.append("null");
    out.append(',').append(e.deterministic()).append(",[");
    java.util.Iterator references = list(e.references().toSeq()).iterator();
    for (int i = 0; references.hasNext(); i++) {
      out.append(i > 0 ? "," : "").append(((Attribute) references.next()).exprId().id());
    }
    out.append(']');
    if (why.length() > 0) {
      out.append(',');
      string(why.toString());
    }
    out.append(']');
  }

  /** The expression as it would be typed: columns without their tables, calls of Python functions by name. */
  private static Expression readable(Expression e) {
    return (Expression) ((TreeNode) e).transformUp(new scala.runtime.AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) {
        return node instanceof AttributeReference || node instanceof PythonUDF;
      }

      public Object applyOrElse(Object node, scala.Function1 otherwise) {
        if (node instanceof PythonUDF) {
          PythonUDF call = (PythonUDF) node;
          StringBuilder text = new StringBuilder(
              org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIfNeeded(call.name())).append('(');
          List arguments = list(call.children());
          for (int i = 0; i < arguments.size(); i++) {
            text.append(i > 0 ? ", " : "").append(((Expression) arguments.get(i)).sql());
          }
          // Spark's own text of a call has a number in it that is new in every query.
          return new PrettyAttribute(text.append(')').toString(), call.dataType());
        }
        if (!(node instanceof AttributeReference)) return otherwise.apply(node);
        return ((AttributeReference) node).withQualifier(
            (scala.collection.immutable.Seq) (Object) scala.collection.immutable.Nil$.MODULE$);
      }
    });
  }

  /** All that a value depends on: every class and constructor argument, columns by name. False where that is not known. */
  private boolean identify(Object o, StringBuilder into, StringBuilder why) {
    if (o instanceof PythonUDF) {
      PythonUDF call = (PythonUDF) o;
      String identity = PythonFunctions.identity(call, conf);
      if (identity.charAt(0) != '=') {
        if (why.length() == 0) {
          why.append("the function ").append(call.name()).append(" has no identity: ").append(identity.substring(1));
        }
        return false;
      }
      into.append("PythonUDF(").append(identity).append(',');
      if (!identify(call.children(), into, why)) return false;
      into.append(')');
      return true;
    }
    // The code behind any other function of the user's can be anything, under the same name or class.
    if (o instanceof PlanExpression || o instanceof UserDefinedExpression || o instanceof NonSQLExpression) return false;
    if (o instanceof AttributeReference) {
      into.append(((AttributeReference) o).name()).append(':').append(((AttributeReference) o).dataType().sql());
      return true;
    }
    if (o instanceof DataType) {
      into.append(((DataType) o).sql());
      return true;
    }
    if (o instanceof byte[]) {
      into.append(java.util.HexFormat.of().formatHex((byte[]) o));
      return true;
    }
    if (o instanceof scala.collection.Iterable) {
      into.append('[');
      java.util.Iterator items = scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Iterable) o).iterator();
      while (items.hasNext()) {
        if (!identify(items.next(), into, why)) return false;
        into.append(',');
      }
      into.append(']');
      return true;
    }
    if (o instanceof scala.Product) {
      into.append(o.getClass().getName()).append('(');
      for (int i = 0; i < ((scala.Product) o).productArity(); i++) {
        if (!identify(((scala.Product) o).productElement(i), into, why)) return false;
        into.append(',');
      }
      into.append(')');
      return true;
    }
    if (o == null || o instanceof String || o instanceof Number || o instanceof Boolean || o instanceof Character
        || o instanceof UTF8String || o instanceof Decimal || o instanceof Enum || o instanceof scala.Enumeration.Value
        || o instanceof org.apache.spark.unsafe.types.CalendarInterval) {
      into.append(o);
      return true;
    }
    return false;
  }

  private static String digest(String text) {
    return PythonFunctions.digest(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
  }

  private void string(String text) {
    quote(text, out);
  }

  public static void quote(String text, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') out.append('\\').append(c);
      else if (c >= 32 && c < 127) out.append(c);
      else out.append("\\u").append(Integer.toHexString(0x10000 | c).substring(1));
    }
    out.append('"');
  }
}
