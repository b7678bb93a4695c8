"""Statements as Catalyst understands them: predicates, columns, joins per table, or a reason."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructType

import sidestep
from sidestep.predicate import sql
from sidestep.spark.log.statements import analyze_statements, name_parts, not_understood
from sidestep.workload import Statement
from tests.spark.tables import settings, write_file

ORDERS = "o_key bigint, o_day date, o_status string, o_total decimal(12,2), o_at struct<x:int,y:int>"
ITEMS = "l_key bigint, l_ship date, l_commit date, l_mode string, l_quantity int, l_flag boolean"


def schemas() -> dict[str, Any]:
    """The tables of these tests; only a running session reads DDL."""
    return {"orders": StructType.fromDDL(ORDERS), "sales.items": StructType.fromDDL(ITEMS)}


def understood(spark, *statements: str, tables=None, **options):
    workload = analyze_statements(spark, map(Statement, statements), schemas() if tables is None else tables, **options)
    assert workload.failures == ()
    return workload.queries


def uses(spark, statement: str) -> list[tuple[str, list[str], list[str]]]:
    (query,) = understood(spark, statement)
    return [
        (use.table, sorted(sql(p) for p in use.predicates if "IS NULL" not in sql(p)), sorted(use.columns))
        for use in query.uses
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        # Aliases are gone, constants folded, dates computed; columns are those of filter and result.
        (
            "SELECT x.o_total FROM orders x WHERE x.o_day < date '2020-03-31' - interval 1 month "
            "AND o_status = upper('f')",
            [("orders", ["o_day < DATE '2020-02-29'", "o_status = 'F'"], ["o_day", "o_status", "o_total"])],
        ),
        ("SELECT count(*) FROM orders", [("orders", [], [])]),
        (
            "SELECT O_KEY FROM Orders WHERE O_STATUS LIKE 'a%'",
            [("orders", ["startswith(o_status, 'a')"], ["o_key", "o_status"])],
        ),
        (
            "SELECT l_key FROM sales.items WHERE l_ship < l_commit",
            [("sales.items", ["l_ship < l_commit"], ["l_commit", "l_key", "l_ship"])],
        ),
        # A common table expression is not a table, even by a table's name.
        (
            "WITH orders AS (SELECT l_key FROM sales.items WHERE l_flag) SELECT * FROM orders",
            [("sales.items", ["l_flag"], ["l_flag", "l_key"])],
        ),
        # What is written is of no interest, what is read for it is.
        (
            "INSERT INTO elsewhere SELECT o_key FROM orders WHERE o_total > 5",
            [("orders", ["o_total > 5.00"], ["o_key", "o_total"])],
        ),
        ("CREATE TABLE elsewhere AS SELECT o_key FROM orders WHERE o_key = 1", [("orders", ["o_key = 1"], ["o_key"])]),
        (
            "SELECT o_key FROM orders UNION ALL SELECT l_key FROM sales.items",
            [("orders", [], ["o_key"]), ("sales.items", [], ["l_key"])],
        ),
        # Two occurrences are two uses.
        (
            "SELECT a.o_key FROM orders a JOIN orders b ON a.o_key = b.o_key WHERE a.o_status = 'x' AND b.o_total < 1",
            [
                ("orders", ["o_status = 'x'"], ["o_key", "o_status"]),
                ("orders", ["o_total < 1.00"], ["o_key", "o_total"]),
            ],
        ),
        # A contradiction is kept as it is written, unless Catalyst finds it.
        (
            "SELECT l_key FROM sales.items WHERE l_quantity > 5 AND l_quantity < 3",
            [("sales.items", ["l_quantity < 3", "l_quantity > 5"], ["l_key", "l_quantity"])],
        ),
        ("SELECT 1", []),
    ],
)
def test_what_a_statement_asks_of_its_tables(spark, statement, expected):
    assert uses(spark, statement) == expected


def test_joins_are_equalities_of_columns_and_imply_that_keys_are_not_null(spark):
    (query,) = understood(
        spark, "SELECT count(*) FROM orders JOIN sales.items i ON o_key = l_key WHERE o_status = 'F' AND l_quantity = 1"
    )
    assert [(join.left, join.right) for join in query.joins] == [(("orders", "o_key"), ("sales.items", "l_key"))]
    texts = {sql(p) for use in query.uses for p in use.predicates}
    assert not any("key" in text for text in texts), "NOT key IS NULL was inferred, not asked for"


def test_presence_that_no_join_implies_is_kept(spark):
    (query,) = understood(
        spark, "SELECT o_key, l_mode FROM orders LEFT JOIN sales.items ON o_key = l_key WHERE o_key IS NOT NULL"
    )
    assert any("o_key" in sql(p) for use in query.uses if use.table == "orders" for p in use.predicates)


def test_nested_fields_and_functions_are_opaque_but_the_same_each_time(spark):
    first, second = understood(
        spark,
        "SELECT o_key FROM orders WHERE o_at.x = 5 AND length(o_status) > 3",
        "SELECT o_key FROM orders o WHERE length(o.o_status) > 3 AND o.o_at.x = 5",
    )
    assert first.uses == second.uses
    assert len(first.uses[0].predicates) >= 2


def test_what_an_opaque_predicate_depends_on_is_the_sessions(spark):
    statement = "SELECT o_key FROM orders WHERE hour(cast(o_day AS timestamp)) = 5"
    (here,) = understood(spark, statement)
    with settings(spark, spark__sql__session__timeZone="Asia/Tokyo"):
        (there,) = understood(spark, statement)
    assert here.uses != there.uses


def test_an_enormous_list_and_a_deep_or_are_understood(spark):
    many = ", ".join(map(str, range(20_000)))
    deep = " OR ".join(f"(l_quantity = {number} AND l_mode = 'm{number}')" for number in range(1_000))
    queries = understood(
        spark, f"SELECT 1 FROM orders WHERE o_key IN ({many})", f"SELECT 1 FROM sales.items WHERE {deep}"
    )
    assert [len(query.uses) for query in queries] == [1, 1]


def test_repeats_keep_their_order_times_and_counts(spark):
    again = [
        Statement("SELECT o_key FROM orders WHERE o_key = 1", 10.0, 3, "ann"),
        Statement("SELEC", 11.0),
        Statement("SELECT o_key FROM orders WHERE o_key = 2", 12.0, last_time=20.0),
        Statement("SELECT o_key FROM orders WHERE o_key = 1", 13.0),
    ]
    workload = analyze_statements(spark, again, schemas())
    assert [(q.time, q.count, q.user, q.last_time) for q in workload.queries] == [
        (10.0, 3, "ann", None),
        (12.0, 1, None, 20.0),
        (13.0, 1, None, None),
    ]
    assert workload.queries[0].uses == workload.queries[2].uses
    assert [failure.statement.time for failure in workload.failures] == [11.0]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("SELEC o_key FROM orders", "not parsable"),
        ("", "not parsable"),
        ("SELECT o_key FROM nowhere", "unknown table `nowhere`"),
        ("SELECT o_kee FROM orders", "unknown column `o_kee`"),
        ("SELECT o_at.z FROM orders", "unknown column"),
        ("SELECT mystery(o_key) FROM orders", "unknown function `mystery`"),
        ("DROP TABLE orders", "not a query but DropTable"),
        ("EXPLAIN SELECT o_key FROM orders", "not a query"),
        ("SET spark.sql.ansi.enabled=false", "not a query"),
        ("CREATE TABLE made_by_a_log (a int) USING parquet", "not a query"),
        ("SELECT sum(o_key), o_status FROM orders", "not analyzable"),
        ("SELECT '\0' FROM nowhere", "unknown table"),
    ],
)
def test_what_cannot_be_understood_has_a_reason(spark, statement, reason):
    workload = analyze_statements(spark, [Statement(statement), Statement("SELECT o_key FROM orders")], schemas())
    assert len(workload.queries) == 1
    (failure,) = workload.failures
    assert failure.statement.sql == statement
    assert failure.reason.startswith(reason)


def test_the_session_is_left_as_it_was(spark):
    spark.range(3).createOrReplaceTempView("orders")
    try:
        analyze_statements(spark, [Statement("SELECT o_key FROM orders"), Statement("DROP VIEW orders")], schemas())
        assert spark.table("orders").count() == 3
        # And a view of the session is no table of the log.
        workload = analyze_statements(spark, [Statement("SELECT id FROM orders")], {"items": schemas()["sales.items"]})
        assert workload.failures[0].reason.startswith("unknown table")
    finally:
        spark.catalog.dropTempView("orders")


def test_functions_of_the_session_are_known(spark):
    spark.sql("CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2")
    try:
        (query,) = understood(spark, "SELECT l_key FROM sales.items WHERE twice(l_quantity) = 10")
    finally:
        spark.sql("DROP TEMPORARY FUNCTION twice")
    assert len(query.uses[0].predicates) >= 1


def test_tables_are_given_by_path_too(spark, tmp_path):
    write_file(tmp_path / "t" / "day=1" / "f0.parquet", {"a": [1, 2]})
    (query,) = understood(spark, "SELECT a FROM t WHERE day = 1 AND a > 5", tables={"t": str(tmp_path / "t")})
    assert {"a > 5", "day = 1"} <= {sql(p) for p in query.uses[0].predicates}
    with pytest.raises(sidestep.SidestepError, match="Table t of the log has no schema"):
        analyze_statements(spark, [Statement("SELECT a FROM t")], {"t": str(tmp_path / "nothing")})


def test_other_dialects_need_sqlglot(spark):
    pytest.importorskip("sqlglot", reason="an optional dependency")
    (query,) = understood(spark, 'SELECT "o_key" FROM "orders" WHERE o_status ILIKE \'x\' LIMIT 3', dialect="postgres")
    assert query.uses[0].table == "orders"


def test_without_sqlglot_a_dialect_is_an_error_that_says_so(spark, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sqlglot", None)
    with pytest.raises(sidestep.SidestepError, match=r"pip install 'sidestep\[dialects\]'"):
        analyze_statements(spark, [Statement("SELECT 1")], {}, dialect="postgres")


@pytest.mark.parametrize("name", ["", ".", "a..b", "a."])
def test_a_bad_name_is_refused(name):
    if name == "a.":
        assert name_parts(name) == ["a"]
        return
    with pytest.raises(sidestep.SidestepError, match="not the name of a table"):
        name_parts(name)


def test_reasons_are_sentences():
    assert not_understood("StackOverflowError", "", "").reason == "nested too deeply for Spark's analyzer"
    assert not_understood("Weird", "", "[Weird] it broke;").reason == "not analyzable: it broke"
