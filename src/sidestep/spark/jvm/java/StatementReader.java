package sidestep;

import java.util.List;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/**
 * MERGE, DELETE and UPDATE as Spark's parser understands them, with their conditions and values as texts: each is a piece
 * of the statement that parses to the very expression that the statement has there.
 */
public final class StatementReader {
  /** How many words or signs on either side of what the parser notes an expression may begin or end. */
  private static final int WIDER = 6;

  private SparkSession session;
  private String sql;
  private LogicalPlan plan;
  private LogicalPlan whole;
  private final Json out = new Json();

  public StatementReader() {}

  /** The statement as JSON, or null if it is another kind of statement. */
  public String read(SparkSession session, String sql) throws Exception {
    this.session = session;
    this.sql = sql;
    whole = session.sessionState().sqlParser().parsePlan(sql);
    plan = whole instanceof UnresolvedWith ? ((UnresolvedWith) whole).child() : whole;
    out.open('{');
    if (plan instanceof MergeIntoTable) {
      MergeIntoTable merge = (MergeIntoTable) plan;
      out.key("kind").text("merge");
      table("target", merge.targetTable());
      table("source", merge.sourceTable());
      out.key("evolves").bool(merge.withSchemaEvolution());
      out.key("on");
      piece(merge.mergeCondition());
      out.key("clauses").open('[');
      actions("matched", merge.matchedActions());
      actions("not matched", merge.notMatchedActions());
      actions("not matched by source", merge.notMatchedBySourceActions());
      out.close(']');
    } else if (plan instanceof DeleteFromTable) {
      out.key("kind").text("delete");
      table("target", ((DeleteFromTable) plan).table());
      out.key("where");
      piece(((DeleteFromTable) plan).condition());
    } else if (plan instanceof UpdateTable) {
      UpdateTable update = (UpdateTable) plan;
      out.key("kind").text("update");
      table("target", update.table());
      assignments(update.assignments());
      out.key("where");
      if (update.condition().isDefined()) piece((Expression) update.condition().get());
      else out.nothing();
    } else {
      return null;
    }
    out.key("with").bool(whole != plan);
    return out.close('}').toString();
  }

  /** What MERGE takes its rows from, with the statement's own WITH. */
  public Dataset source() {
    LogicalPlan rows = ((MergeIntoTable) plan).sourceTable();
    if (whole instanceof UnresolvedWith) {
      UnresolvedWith with = (UnresolvedWith) whole;
      rows = new UnresolvedWith(rows, with.cteRelations(), with.allowRecursion());
    }
    return Dataset.ofRows(session, rows);
  }

  private void table(String key, LogicalPlan table) {
    out.key(key).open('{').key("alias");
    LogicalPlan named = table;
    if (table instanceof SubqueryAlias) {
      out.text(((SubqueryAlias) table).identifier().name());
      named = ((SubqueryAlias) table).child();
    } else {
      out.nothing();
    }
    out.key("name");
    if (named instanceof UnresolvedRelation) {
      names(((UnresolvedRelation) named).multipartIdentifier());
    } else {
      out.nothing();
    }
    out.close('}');
  }

  private void names(scala.collection.immutable.Seq parts) {
    out.open('[');
    List names = Scala.list(parts);
    for (int i = 0; i < names.size(); i++) out.text(names.get(i).toString());
    out.close(']');
  }

  private void actions(String kind, scala.collection.immutable.Seq actions) {
    List all = Scala.list(actions);
    for (int i = 0; i < all.size(); i++) {
      MergeAction action = (MergeAction) all.get(i);
      out.open('{').key("kind").text(kind).key("condition");
      if (action.condition().isDefined()) piece((Expression) action.condition().get());
      else out.nothing();
      out.key("action").text(action instanceof DeleteAction ? "delete"
          : action instanceof UpdateAction || action instanceof UpdateStarAction ? "update" : "insert");
      if (action instanceof UpdateAction) assignments(((UpdateAction) action).assignments());
      else if (action instanceof InsertAction) assignments(((InsertAction) action).assignments());
      else out.key("set").nothing();
      out.close('}');
    }
  }

  private void assignments(scala.collection.immutable.Seq assignments) {
    List all = Scala.list(assignments);
    out.key("set").open('[');
    for (int i = 0; i < all.size(); i++) {
      Assignment one = (Assignment) all.get(i);
      out.open('[');
      if (one.key() instanceof UnresolvedAttribute) names(((UnresolvedAttribute) one.key()).nameParts());
      else out.nothing();
      piece(one.value());
      out.close(']');
    }
    out.close(']');
  }

  /**
   * The piece of the text that an expression was parsed from, or false if none parses to it again. What the parser notes of
   * where an expression stands may be less than the whole of it: of "x LIKE 'a'", the part from LIKE on.
   */
  private void piece(Expression e) {
    int[] span = new int[] {Integer.MAX_VALUE, -1};
    widen(e, span);
    int start = span[0];
    for (int left = 0; left <= WIDER && span[1] >= 0 && start >= 0; left++) {
      int end = span[1];
      for (int right = 0; right <= WIDER && end >= 0; right++) {
        if (isThe(e, sql.substring(start, end + 1))) {
          out.text(sql.substring(start, end + 1));
          return;
        }
        end = closing(end);
      }
      start = before(start);
    }
    // DELETE without a condition has TRUE for one, which stands nowhere.
    if (e instanceof Literal && ((Literal) e).dataType() instanceof org.apache.spark.sql.types.BooleanType) {
      out.text(e.toString());
      return;
    }
    out.bool(false);
  }

  /** Where the word or sign before this place begins, or -1. */
  private int before(int start) {
    int at = start - 1;
    while (at >= 0 && Character.isWhitespace(sql.charAt(at))) at--;
    while (at > 0 && Character.isLetter(sql.charAt(at)) && Character.isLetter(sql.charAt(at - 1))) at--;
    return at;
  }

  /** Where the parenthesis is that closes next after this place, or -1 if something else comes first. */
  private int closing(int end) {
    int at = end + 1;
    while (at < sql.length() && Character.isWhitespace(sql.charAt(at))) at++;
    return at < sql.length() && sql.charAt(at) == ')' ? at : -1;
  }

  private void widen(Expression e, int[] span) {
    // TRUE and FALSE are one object each, which stands where the first statement had it that was ever parsed.
    if (e == Literal.TrueLiteral() || e == Literal.FalseLiteral()) return;
    // Of EXISTS the parser notes where what it is part of stands.
    Origin origin = e instanceof Exists ? ((Exists) e).plan().origin() : e.origin();
    if (origin.startIndex().isDefined() && origin.stopIndex().isDefined()
        && ((Integer) origin.stopIndex().get()).intValue() < sql.length()) {
      span[0] = Math.min(span[0], ((Integer) origin.startIndex().get()).intValue());
      span[1] = Math.max(span[1], ((Integer) origin.stopIndex().get()).intValue());
    }
    List children = Scala.list(e.children());
    for (int i = 0; i < children.size(); i++) widen((Expression) children.get(i), span);
  }

  private boolean isThe(Expression e, String text) {
    try {
      return numberless(session.sessionState().sqlParser().parseExpression(text)).equals(numberless(e));
    } catch (Exception problem) {
      return false;
    }
  }

  /** An expression with all of its subqueries as text, without the ids that each parsing makes anew. */
  private static String numberless(Expression e) {
    StringBuilder text = new StringBuilder(e.toString());
    plans(e, text);
    return text.toString().replaceAll("#\\d+", "#");
  }

  private static void plans(Expression e, StringBuilder text) {
    if (e instanceof SubqueryExpression) text.append('\n').append(((SubqueryExpression) e).plan().toString());
    List children = Scala.list(e.children());
    for (int i = 0; i < children.size(); i++) plans((Expression) children.get(i), text);
  }
}
