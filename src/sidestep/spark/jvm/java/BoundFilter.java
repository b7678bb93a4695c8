package sidestep;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.*;

/**
 * An induced predicate as a condition over a relation: Parquet's own statistics then pass over row groups, and pages,
 * of the files that are read. It says nothing that the join would not, so it is marked and never taken for the query's.
 */
final class BoundFilter {
  private static final TreeNodeTag MARK = new TreeNodeTag("sidestep.induced");

  /** The relation below the condition that a column lies in ranges, low:high,low:high; the relation alone if it can't be. */
  static LogicalPlan over(LogicalRelation leaf, String name, String ranges) {
    AttributeReference column = null;
    List output = Scala.list(leaf.output());
    for (int i = 0; i < output.size(); i++) {
      AttributeReference attribute = (AttributeReference) output.get(i);
      if (attribute.name().equals(name)) column = attribute;
    }
    if (column == null || ranges.isEmpty()) return leaf;
    String[] each = ranges.split(",");
    Expression condition = null;
    for (int i = 0; i < each.length; i++) {
      int middle = each[i].indexOf(':');
      Expression range = between(column, each[i].substring(0, middle), each[i].substring(middle + 1));
      if (range == null) return leaf;
      condition = condition == null ? range : new Or(condition, range);
    }
    Filter filter = new Filter(condition, leaf);
    filter.setTagValue(MARK, Boolean.TRUE);
    return filter;
  }

  /** Whether a filter is one of these. */
  static boolean is(Filter filter) {
    return filter.getTagValue(MARK).isDefined();
  }

  private static Expression between(AttributeReference column, String low, String high) {
    Literal from = low.isEmpty() ? null : literal(low, column.dataType());
    Literal to = high.isEmpty() ? null : literal(high, column.dataType());
    if (from == null && !low.isEmpty() || to == null && !high.isEmpty() || from == null && to == null) return null;
    if (from == null) return new LessThanOrEqual(column, to);
    if (to == null) return new GreaterThanOrEqual(column, from);
    return new And(new GreaterThanOrEqual(column, from), new LessThanOrEqual(column, to));
  }

  private static Literal literal(String text, DataType type) {
    long value = Long.parseLong(text);
    if (type.equals(DataTypes.LongType) || type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
      return new Literal(Long.valueOf(value), type);
    }
    if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType)) {
      return new Literal(Integer.valueOf((int) value), type);
    }
    return null;
  }
}
