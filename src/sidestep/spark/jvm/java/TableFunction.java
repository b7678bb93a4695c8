package sidestep;

import java.util.List;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.*;

/**
 * The table function sidestep_table('path'): a table as sidestep.read has it, at its newest version. Views of the catalog
 * are made of it, and a view is analyzed anew for every query. Where it is not known, they cannot be read at all.
 */
final class TableFunction extends scala.runtime.AbstractFunction1 {
  static final String NAME = "sidestep_table";
  private static final FunctionIdentifier IDENTIFIER = new FunctionIdentifier(NAME);
  private static final ExpressionInfo INFO = new ExpressionInfo(TableFunction.class.getName(), NAME);
  private static final TableFunction ONE = new TableFunction();
  /** Python, which gives a table's plan for its path. */
  private static volatile java.util.function.Function python;

  private TableFunction() {}

  /** Have a session know the function. */
  static void addTo(SparkSession session, java.util.function.Function asked) {
    python = asked;
    session.sessionState().tableFunctionRegistry().createOrReplaceTempFunction(NAME, ONE, "scala_udf");
  }

  /** Have every session know it that is made from these extensions. */
  static void addTo(SparkSessionExtensions extensions) {
    extensions.injectTableFunction(new scala.Tuple3(IDENTIFIER, INFO, ONE));
  }

  /** The view of a name with another text: it reads the table at a path. */
  static void turn(SparkSession session, String database, String name, String path) throws Exception {
    CatalogTable view = session.sessionState().catalog().getTableMetadata(
        new TableIdentifier(name, scala.Option.apply(database)));
    String text = "SELECT * FROM " + NAME + "('" + path.replace("\\", "\\\\").replace("'", "\\'") + "')";
    // A view names the functions that it knows, beside those of Spark and of the catalog, as a list in JSON.
    Object properties = view.properties()
        .updated(CatalogTable$.MODULE$.VIEW_REFERRED_TEMP_FUNCTION_NAMES(), "[\"" + NAME + "\"]")
        .updated("sidestep.path", path);
    Object turned = Replacement.copyWith(view, "properties", properties);
    turned = Replacement.copyWith(turned, "viewText", scala.Option.apply(text));
    turned = Replacement.copyWith(turned, "viewOriginalText", scala.Option.apply(text));
    session.sessionState().catalog().alterTable((CatalogTable) turned);
  }

  public Object apply(Object given) {
    List arguments = Scala.list(given);
    Object path = arguments.size() == 1 && arguments.get(0) instanceof Expression
        && ((Expression) arguments.get(0)).foldable() ? ((Expression) arguments.get(0)).eval(null) : null;
    if (path == null) throw new IllegalArgumentException(NAME + " takes the path of a table, as a text.");
    LogicalPlan table = (LogicalPlan) python.apply(path.toString());
    return (LogicalPlan) table.transformUp(OWN);
  }

  /** Relations read by the settings of the session that asks. */
  private static final scala.PartialFunction OWN = new scala.runtime.AbstractPartialFunction() {
    public boolean isDefinedAt(Object node) {
      return PlanWriter.isFileRelation(node);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      return isDefinedAt(node) ? ofActiveSession((LogicalRelation) node) : otherwise.apply(node);
    }
  };

  static LogicalRelation ofActiveSession(LogicalRelation leaf) {
    HadoopFsRelation relation = (HadoopFsRelation) leaf.relation();
    HadoopFsRelation own = relation.copy(relation.location(), relation.partitionSchema(), relation.dataSchema(),
        relation.bucketSpec(), relation.fileFormat(), relation.options(), SparkSession.active());
    return leaf.copy(own, leaf.output(), leaf.catalogTable(), leaf.isStreaming(), leaf.stream());
  }
}
