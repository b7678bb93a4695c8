"""Subqueries that Spark decorrelates by putting the outer plan into them: one number, two columns."""

from __future__ import annotations

import pytest

import sidestep
from tests.spark.tables import rows_of, switched_off, write_file


@pytest.fixture(scope="module")
def pair(spark, tmp_path_factory):
    """t1: 400 rows of which every eighth has c; t2: keys 0 to 49. A file of t1 has either only NULLs in c, or none."""
    root = tmp_path_factory.mktemp("correlated")
    for number in range(8):
        keys = list(range(50 * number, 50 * number + 50))
        write_file(root / "t1" / f"f{number}.parquet", {"a": keys, "c": [7 if number == 0 else None] * 50})
        write_file(root / "t2" / f"f{number}.parquet", {"a": keys, "b": [number * 10] * 50})
    write_file(root / "t1" / "f9.parquet", {"a": list(range(400, 450)), "c": list(range(50))})
    for name in ("t1", "t2"):
        sidestep.index(spark, str(root / name))
        spark.read.parquet(str(root / name)).createOrReplaceTempView(name)
    yield
    for name in ("t1", "t2"):
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM t1 WHERE (SELECT t1.c FROM t2 WHERE t2.a = t1.a AND t2.b < 30 LIMIT 1) IS NULL",
        "SELECT a FROM t1 WHERE (SELECT t1.c FROM t2 WHERE t2.a = t1.a AND t2.b < 30 LIMIT 1) IS NULL OR a = 3",
        "SELECT a FROM t1 WHERE (SELECT t1.c + 0 FROM t2 WHERE t2.a = t1.a AND t2.b < 30 LIMIT 1) IS NULL",
        "SELECT t1.a, cc FROM t1 LEFT JOIN LATERAL (SELECT t1.c AS cc FROM t2 WHERE t2.a = t1.a AND t2.b < 30) ON true "
        "WHERE cc IS NULL",
        "SELECT t1.a, cc FROM t1 LEFT JOIN LATERAL (SELECT t1.c + 0 AS cc FROM t2 WHERE t2.a = t1.a AND t2.b < 30) "
        "ON true WHERE cc IS NULL OR t1.a < 10",
        "SELECT t1.a, cc FROM t1 LEFT JOIN LATERAL (SELECT t1.c AS cc FROM t2 WHERE t2.a < t1.a AND t2.b < 30 LIMIT 1) "
        "ON true WHERE coalesce(cc, 7) = 7",
    ],
)
def test_a_condition_on_what_a_subquery_gives_is_none_on_the_outer_table(spark, enabled, pair, query):
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    assert expected
    assert rows_of(spark.sql(query)) == expected


def test_conditions_on_the_outer_table_itself_still_skip(spark, enabled, pair):
    query = "SELECT a FROM t1 WHERE c = 7 AND EXISTS (SELECT 1 FROM t2 WHERE t2.a = t1.a AND t2.b < 30)"
    frame = spark.sql(query)
    assert len(frame.collect()) == 50
    assert sum(scan.files for scan in sidestep.metrics(frame).scans) < 10, "of 17 files"
