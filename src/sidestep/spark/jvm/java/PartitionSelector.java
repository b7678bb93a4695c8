package sidestep;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.types.*;

/**
 * Chooses files of a scan when the query runs: a condition on the hidden column that numbers them, which Spark takes for
 * dynamic partition pruning. Its sources are what becomes known only then: the keys of a join's other input, or the
 * query's own scalar subqueries. Their values go to Python, which chooses as it does when a query is planned.
 *
 * It is asked on the driver alone; whoever sends it to an executor as part of a plan sends TRUE.
 */
public final class PartitionSelector extends Expression implements CodegenFallback, java.io.Serializable {
  private static final org.slf4j.Logger LOG = org.slf4j.LoggerFactory.getLogger("sidestep");
  /** Ranges of whole numbers that are sent at most: what is beyond the widest gaps between values tells little. */
  private static final int MOST_RANGES = 2000;
  /** Other values that are sent at most. */
  private static final int MOST_VALUES = 5000;

  final transient Choice choice;
  private final transient Expression part;
  private final transient List sources;
  private transient boolean asked = false;
  /** The entries to be read; null: everything. */
  private transient BitSet kept = null;
  private transient boolean unknownToo = true;

  PartitionSelector(Choice choice, Expression part, List sources) {
    this.choice = choice;
    this.part = part;
    this.sources = sources;
  }

  /** The same for other files, numbered by another column: those of one column group of the table. */
  PartitionSelector of(PrunedFiles files, Attribute number) {
    return new PartitionSelector(
        new Choice(choice.python, choice.seconds, files, choice.question, choice.by), number, sources);
  }

  public boolean nullable() {
    return false;
  }

  public DataType dataType() {
    return DataTypes.BooleanType;
  }

  public scala.collection.immutable.Seq children() {
    ArrayList all = new ArrayList(sources);
    all.add(0, part);
    return Scala.seq(all.toArray());
  }

  public TreeNode withNewChildrenInternal(scala.collection.immutable.IndexedSeq children) {
    List all = Scala.list(children);
    return new PartitionSelector(choice, (Expression) all.get(0), new ArrayList(all.subList(1, all.size())));
  }

  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    return CodegenFallback.doGenCode$(this, context, code);
  }

  public Object eval(InternalRow row) {
    if (!asked) {
      ask();
      asked = true;
    }
    if (kept == null) return Boolean.TRUE;
    Object position = part.eval(row);
    if (position == null || ((Integer) position).intValue() < 0) return Boolean.valueOf(unknownToo);
    return Boolean.valueOf(kept.get(((Integer) position).intValue()));
  }

  /** Where its values come from: broadcast, query (one of its own), subquery (the query's), or nothing. */
  String source() {
    Expression first = (Expression) sources.get(0);
    if (first instanceof DynamicPruningExpression) first = (Expression) ((DynamicPruningExpression) first).child();
    if (first instanceof Literal) return "nothing";
    if (first instanceof InSubqueryExec || first instanceof DynamicPruningSubquery) return "broadcast";
    return first.dataType() instanceof StructType ? "query" : "subquery";
  }

  private void ask() {
    try {
      StringBuilder values = new StringBuilder();
      int count = values(values);
      if (count < 0) {
        choice.outcome = null;
        return;
      }
      if (count == 0) {
        // No partner for any row, wherever it is.
        kept = new BitSet();
        unknownToo = false;
      } else {
        Wire.Chosen chosen = Wire.chosen(
            TimedCall.ask(choice.python, "choose", choice.question + "\n" + values, choice.seconds));
        if (chosen == null) return;
        kept = choice.files.withChanged(chosen.files);
        SkippingParquet.LateReader reader = kept == null ? null : SkippingParquet.choosing(choice.files);
        if (reader != null && chosen.blocks != null && choice.files.allHaveIds(chosen.blocks, kept)) {
          reader.add(chosen.blocks);
        } else if (reader != null && chosen.groups != null) {
          reader.groups.add(chosen.groups);
        }
        if (reader != null && chosen.boundColumn != null) reader.add(chosen.boundColumn, chosen.boundRanges);
      }
      if (kept != null) choice.outcome = Integer.toString(count);
    } catch (Throwable problem) {
      kept = null;
      LOG.warn("sidestep could not choose files of a scan; it reads all that are left", problem);
    }
  }

  /** Writes what the sources gave; how many values that are, or -1 if one of them did not say or said too much. */
  private int values(StringBuilder into) {
    Json out = new Json();
    PredicateWriter literals = new PredicateWriter(out, null);
    out.open('[');
    int least = Integer.MAX_VALUE;
    for (int i = 0; i < sources.size(); i++) {
      Expression source = (Expression) sources.get(i);
      int count;
      if (source instanceof DynamicPruningExpression) count = keys((Expression) ((DynamicPruningExpression) source).child(), out, literals);
      else if (source instanceof InSubqueryExec) count = keys(source, out, literals);
      else if (source.dataType() instanceof StructType) count = summary(source, out, literals);
      else if (source instanceof Literal) count = -1;
      else count = literals.literal(source.eval(null), source.dataType()) ? 1 : -1;
      if (count < 0) return -1;
      least = Math.min(least, count);
    }
    out.close(']');
    into.append(out.toString());
    return sources.isEmpty() ? -1 : least;
  }

  /** The keys of a join's other input: ["values", literal, …], or ["ranges", type, base64] for whole numbers. */
  private static int keys(Expression source, Json out, PredicateWriter literals) {
    if (!(source instanceof InSubqueryExec)) return -1;
    scala.Option collected = ((InSubqueryExec) source).values();
    if (collected.isEmpty()) return -1;
    Object[] values = (Object[]) collected.get();
    DataType type = ((InSubqueryExec) source).child().dataType();
    if (isWhole(type)) {
      long[] numbers = new long[values.length];
      int count = 0;
      for (int i = 0; i < values.length; i++) if (values[i] != null) numbers[count++] = ((Number) values[i]).longValue();
      numbers = java.util.Arrays.copyOf(numbers, count);
      java.util.Arrays.sort(numbers);
      out.open('[').text("ranges").text(type.catalogString()).text(Wire.text(ranges(numbers))).close(']');
      return count;
    }
    if (values.length > MOST_VALUES) return -1;
    int count = 0;
    out.open('[').text("values");
    for (int i = 0; i < values.length; i++) {
      if (values[i] == null) continue;
      if (!literals.literal(values[i], type)) return -1;
      count++;
    }
    out.close(']');
    return count;
  }

  private static boolean isWhole(DataType type) {
    return type instanceof IntegralType || type instanceof DateType || type instanceof TimestampType
        || type instanceof TimestampNTZType;
  }

  /** Ascending numbers as ranges, low and high ends in turn; what is next to each other is one. */
  private static long[] ranges(long[] numbers) {
    long[] gaps = new long[Math.max(0, numbers.length - 1)];
    int apart = 0;
    for (int i = 1; i < numbers.length; i++) {
      long gap = numbers[i] - numbers[i - 1];
      if (gap < 0 || gap > 1) gaps[apart++] = gap < 0 ? Long.MAX_VALUE : gap;
    }
    long least = 2;
    if (apart >= MOST_RANGES) {
      long[] sorted = java.util.Arrays.copyOf(gaps, apart);
      java.util.Arrays.sort(sorted);
      least = sorted[apart - MOST_RANGES + 1] + 1;
    }
    long[] ends = new long[2 * Math.min(MOST_RANGES, apart + 1)];
    int used = 0;
    for (int i = 0; i < numbers.length; i++) {
      long gap = i == 0 ? Long.MAX_VALUE : numbers[i] - numbers[i - 1];
      if (i == 0 || gap < 0 || gap >= least) {
        if (i > 0) ends[used++] = numbers[i - 1];
        ends[used++] = numbers[i];
      }
    }
    if (numbers.length > 0) ends[used++] = numbers[numbers.length - 1];
    return java.util.Arrays.copyOf(ends, used);
  }

  /** The least and the greatest of each key, and the cells of a grid that keys fall in, if there is one. */
  private static int summary(Expression source, Json out, PredicateWriter literals) {
    InternalRow row = (InternalRow) source.eval(null);
    StructField[] fields = ((StructType) source.dataType()).fields();
    if (row == null) return 0;
    out.open('[').text("summary");
    for (int f = 0; f < fields.length; f++) {
      out.open('[');
      if (fields[f].dataType() instanceof StructType) {
        InternalRow ends = row.getStruct(f, 2);
        DataType type = ((StructType) fields[f].dataType()).fields()[0].dataType();
        // No row has a key: none finds a partner.
        if (ends == null || ends.isNullAt(0)) return 0;
        for (int e = 0; e < 2; e++) if (!literals.literal(ends.get(e, type), type)) return -1;
      } else {
        org.apache.spark.sql.catalyst.util.ArrayData cells = row.getArray(f);
        for (int i = 0; i < cells.numElements(); i++) out.number(cells.getLong(i));
      }
      out.close(']');
    }
    out.close(']');
    return 1;
  }

  // Public, or Janino hides it from Java's serialization.
  public Object writeReplace() {
    return Literal$.MODULE$.TrueLiteral();
  }

  public Object productElement(int i) {
    return children().apply(i);
  }

  public int productArity() {
    return 1 + sources.size();
  }

  public boolean canEqual(Object other) {
    return other instanceof PartitionSelector;
  }

  public boolean equals(Object other) {
    if (!(other instanceof PartitionSelector)) return false;
    PartitionSelector that = (PartitionSelector) other;
    return choice.question.equals(that.choice.question) && part.equals(that.part) && sources.equals(that.sources);
  }

  public int hashCode() {
    return choice.question.hashCode() * 31 + sources.hashCode();
  }

  public String toString() {
    return "sidestep chooses by " + choice.by;
  }

  /** What all copies of a selector have in common; Spark copies expressions at every step. */
  static final class Choice {
    final java.util.function.Function python;
    final double seconds;
    final PrunedFiles files;
    /** What Python wrote for itself. */
    final String question;
    /** What it chooses by, for people. */
    final String by;
    /** How many values it has chosen by last; null if it has not. */
    volatile String outcome = null;

    Choice(java.util.function.Function python, double seconds, PrunedFiles files, String question, String by) {
      this.python = python;
      this.seconds = seconds;
      this.files = files;
      this.question = question;
      this.by = by;
    }
  }
}
