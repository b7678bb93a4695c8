"""MERGE, DELETE and UPDATE as SQL text, read by Spark's own parser."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import ParseException
from pyspark.sql import DataFrame

import sidestep
from sidestep.errors import SidestepError
from sidestep.spark.jvm.bridge import Bridge
from tests.spark.living import ARROW, arrow, contents, frame, made

pytestmark = pytest.mark.spark
ROWS = made(0, 60)


@pytest.fixture(scope="module", autouse=True)
def batch(spark):
    frame(spark, [{**row, "price": -1.0} for row in made(20, 10)] + made(100, 2)).createOrReplaceTempView("batch")
    yield
    spark.catalog.dropTempView("batch")


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("statement") / "table"
    for start in range(0, 60, 20):
        write_deltalake(str(root), arrow(made(start, 20)), mode="append")
    sidestep.index(spark, str(root))
    return root


@pytest.fixture
def root(template, tmp_path):
    return shutil.copytree(template, tmp_path / "table")


def run(spark, statement, **options) -> Any:
    return sidestep.sql(spark, statement, **options)


def stored(root):
    return contents(DeltaTable(str(root)).to_pyarrow_table(columns=ARROW.names).to_pylist())


def test_a_merge_with_every_kind_of_clause(spark, root):
    report = run(
        spark,
        f"""
        MERGE INTO delta.`{root}` AS t
        USING (SELECT *, 1 AS one FROM batch WHERE id <> 22) s -- but for one
        ON t.id = s.id AND (t.month + 0) LIKE '%'
        WHEN MATCHED AND (s.id + 1) NOT BETWEEN 0 AND 22 AND t.id < 25 THEN DELETE
        WHEN MATCHED AND s.id IN (25, 26) THEN UPDATE SET *
        WHEN MATCHED THEN UPDATE SET t.price = s.price - 1, color = concat('(', DEFAULT_color(t.color))
        """.replace("DEFAULT_color", "upper")
        + """
        WHEN NOT MATCHED AND s.id = 100 THEN INSERT (id, color) VALUES (s.id, CASE WHEN s.one = 1 THEN 'a)' END)
        WHEN NOT MATCHED BY TARGET THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.id < 2 THEN UPDATE SET price = DEFAULT
        WHEN NOT MATCHED BY SOURCE AND t.id IN (50, 51) THEN DELETE
        """,
    )
    assert isinstance(report, sidestep.MergeReport)
    expected = []
    for row in ROWS:
        id = row["id"]
        if id in (22, 23, 24):
            if id == 22:
                expected.append(row)
        elif id in (25, 26):
            expected.append({**row, "price": -1.0})
        elif 20 <= id < 30:
            color = None if row["color"] is None else "(" + row["color"].upper()
            expected.append({**row, "price": -2.0, "color": color})
        elif id < 2:
            expected.append({**row, "price": None})
        elif id not in (50, 51):
            expected.append(row)
    expected.append({"id": 100, "month": None, "color": "a)", "price": None})
    assert stored(root) == contents(expected + made(101, 1))
    assert (report.rows_updated, report.rows_deleted, report.rows_inserted) == (2 + 5 + 2, 2 + 2, 2)


def test_a_merge_with_a_query_before_it_and_names_for_paths(spark, root, tmp_path):
    write_deltalake(str(tmp_path / "more"), arrow(made(58, 4)))
    tables = {"sales": str(root), "more": str(tmp_path / "more")}
    statement = "MERGE INTO sales USING more ON sales.id = more.id WHEN NOT MATCHED THEN INSERT *"
    report = run(spark, statement, tables=tables)
    assert (report.rows_inserted, report.files_looked_at) == (2, 1)
    with_query = "WITH few AS (SELECT * FROM batch WHERE id < 22) MERGE INTO sales AS t USING few ON t.id = few.id "
    report = run(spark, with_query + "WHEN MATCHED THEN DELETE", tables=tables)
    assert (report.rows_deleted, report.files_looked_at) == (2, 1)


def test_deletes_and_updates(spark, root):
    table = f"delta.`{root}`"
    report = run(spark, f"DELETE FROM {table} t WHERE EXISTS (SELECT 1 FROM batch b WHERE b.id = t.id)")
    assert (report.operation, report.rows, report.files_looked_at) == ("delete", 10, 1)
    report = run(spark, f"UPDATE {table} AS t SET t.price = 5, color = 'x' WHERE t.id NOT IN (1, 2) AND id < 4")
    assert (report.operation, report.rows) == ("update", 2)
    assert run(spark, f"UPDATE {table} SET month = month + 1").rows == 50
    expected = [{**row, "month": row["month"] + 1} for row in ROWS if not 20 <= row["id"] < 30]
    expected = [{**row, "price": 5.0, "color": "x"} if row["id"] in (0, 3) else row for row in expected]
    assert stored(root) == contents(expected)
    assert run(spark, f"DELETE FROM {table}").rows == 50


def test_other_statements_are_sparks_own(spark, root):
    answer = run(spark, "SELECT count(*) AS n FROM batch")
    assert isinstance(answer, DataFrame)
    assert answer.collect()[0].n == 12
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        run(spark, "MERGE INTO nothing at all")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("MERGE WITH SCHEMA EVOLUTION INTO {t} t USING batch s ON t.id = s.id WHEN MATCHED THEN DELETE", "EVOLUTION"),
        ("MERGE INTO {t} t USING batch s ON t.id = s.id WHEN MATCHED THEN UPDATE SET a.b.c = 1", "not a column to set"),
        ("MERGE INTO {t} t USING batch t ON id = 1 WHEN MATCHED THEN DELETE", "different aliases"),
        ("MERGE INTO {t} t USING batch s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 1, t.id = 2", "set twice"),
        ("MERGE INTO {t} t USING batch s ON t.id IN (SELECT 1) WHEN MATCHED THEN DELETE", "has a subquery"),
        ("WITH x AS (SELECT 1 AS id) DELETE FROM {t} WHERE id IN (SELECT id FROM x)", "WITH before DELETE"),
        ("DELETE FROM nowhere_at_all WHERE id = 1", "nowhere_at_all"),
        ("DELETE FROM {t} t WHERE t.d < TIMESTAMP 'now'", "cannot be told|another time"),
        ("UPDATE {t} SET nope = 1", "no column nope"),
    ],
)
def test_bad_statements_are_sentences(spark, root, statement, said):
    version = DeltaTable(str(root)).version()
    with pytest.raises(SidestepError, match=said):
        run(spark, statement.format(t=f"delta.`{root}`"))
    assert DeltaTable(str(root)).version() == version


@pytest.mark.parametrize(
    "condition",
    [
        "a LIKE 'x'",
        "NOT a RLIKE 'x'",
        "(a + b) LIKE '%)%'",
        "((a)) IN (1, 2)",
        "(a, b) IN (SELECT a, b FROM s)",
        "a NOT IN (SELECT a FROM s WHERE (a > 1))",
        "a IS NOT NULL AND (b IS NULL OR c IS DISTINCT FROM d)",
        "a BETWEEN (1 + 2) AND (3)",
        "EXISTS (SELECT 1 FROM s WHERE s.a = t.a)",
        "NOT (a = 1)",
        "NOT EXISTS (SELECT 1 FROM s) AND (NOT (EXISTS (SELECT 2)) OR a IN (1))",
        "CASE WHEN a THEN b ELSE c END",
        "(a = 1) = (b = 2)",
        "a[1] = m['k']",
        "CAST(a AS int) = b :: int",
        "exists(x, y -> y > 1)",
        "a = (SELECT max(a) FROM s) + 1",
        "date_add(a, 1) > DATE '2020-01-01'",
        "-a < +b",
        "a || b = 'x'",
        "a /* no */ LIKE /* ( */ 'x'",
        # One object stands for each of these, wherever a statement has it.
        "a_column_with_a_long_name = 1 AND another_column_with_a_long_name = 2 AND true",
        "true",
        "NOT false",
        "a = true",
        "true OR a = 1",
        "(a = 1 AND false)",
    ],
)
def test_conditions_are_found_in_the_text(spark, condition):
    bridge = Bridge(spark)
    for text in (
        f"DELETE FROM t AS t WHERE {condition}",
        f"DELETE FROM t AS t\n WHERE ( {condition} ) ",
        f"MERGE INTO t USING s ON {condition} WHEN MATCHED AND ({condition}) THEN DELETE",
    ):
        parts = bridge.new("StatementReader").read(spark._jsparkSession, text)
        assert '":false,"clauses' not in parts.replace('"evolves":false,', "")
        assert '"where":false' not in parts
        assert '"condition":false' not in parts
