"""Queries on tables that have some cells more than once: which copies they read, and that nothing depends on it."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidestep
from sidestep.predicate import INTEGER, STRING, column, compare
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.grouped import Laid, load_groups, whole_rows
from tests.spark.tables import rows_of, settings, switched_off

pytestmark = pytest.mark.spark
ROWS = 1_200
FIRST = Feature((compare(column("day", INTEGER), "<", 30),), weight=3)
RED = Feature((compare(column("kind", STRING), "=", "red"),), weight=2)
BLUE = Feature((compare(column("kind", STRING), "=", "blue"),), weight=2)
NONE = Feature((compare(column("day", INTEGER), ">", 5_000),))
COLORS = FeatureSet("sales", (RED, BLUE))
GROUPS = (
    Laid(("day", "price"), order=("day",)),
    Laid(("kind", "price", "note"), COLORS, rows=COLORS),
    Laid(("kind", "note"), COLORS, rows=COLORS, rest_of=1),
    Laid(("day", "note", "never"), rows=FeatureSet("sales", (FIRST,)), order=("day",)),
    Laid(("never",)),
    Laid(("price", "never"), rows=FeatureSet("sales", (NONE,))),
)
"""All rows of some columns; two partners; a copy of some cells in some rows; one of no rows."""


def sales() -> pa.Table:
    draw = np.random.default_rng(3)
    kinds = ["red", "blue", None, "green", "grey", "pink", "brown", "black"]
    return pa.table(
        {
            "day": pa.array(draw.integers(0, 300, ROWS), pa.int32()),
            "kind": pa.array([kinds[at] for at in draw.integers(0, len(kinds), ROWS)], pa.string()),
            "price": pa.array(draw.random(ROWS)),
            "note": pa.array([f"note {x}" for x in draw.integers(0, 50, ROWS)]),
            "never": pa.array(draw.integers(0, 9, ROWS), pa.int16()),
        }
    )


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    place = tmp_path_factory.mktemp("replicas")
    (place / "sales").mkdir()
    pq.write_table(sales(), place / "sales" / "rows.parquet")
    return load_groups(
        spark, place / "sales", place / "out", GROUPS, filtered=("day", "kind"), min_size=20, unit_rows=500
    )


def read(spark, table, condition: str, *columns: str):
    return sidestep.read(spark, table).where(condition).select(*columns)


def groups_read(query) -> dict[int, tuple[int, int]]:
    """By group, the rows that were read of it and that it has."""
    (scan,) = sidestep.explain(query).scans
    rows = {group.number: group.read.rows for group in scan.groups}
    return {number: (each.kept, each.total) for number, each in rows.items() if each is not None}


def same(spark, table, condition: str, *columns: str) -> dict[int, tuple[int, int]]:
    query = read(spark, table, condition, *columns)
    found = rows_of(query)
    assert found == rows_of(spark.read.parquet(str(table.parent / "sales")).where(condition).select(*columns))
    with switched_off(spark):
        assert rows_of(read(spark, table, condition, *columns)) == found
    return groups_read(query)


def test_all_rows_are_there_and_copies_say_the_same(spark, enabled, table):
    assert len(whole_rows(table)) == ROWS
    assert len(sidestep.read(spark, table).collect()) == ROWS


def test_a_query_whose_filter_implies_a_feature_reads_the_copy(spark, enabled, table):
    reds = sales().to_pylist()
    colored = sum(row["kind"] in ("red", "blue") for row in reds)
    for condition in ("kind = 'red'", "kind IN ('red', 'blue') AND price > 0.3", "kind = 'blue' OR kind = 'red'"):
        got = same(spark, table, condition, "kind", "price", "note")
        assert set(got) == {1}, condition
        assert got[1][1] == colored
    got = same(spark, table, "kind = 'red' AND day < 10", "price", "note")
    assert set(got) == {1, 3} or set(got) == {0, 1}, "day lies elsewhere"
    assert set(same(spark, table, "day < 20", "note", "never")) == {3}


def test_any_other_query_reads_all_rows(spark, enabled, table):
    assert set(same(spark, table, "kind = 'green'", "note", "kind")) == {2}
    got = same(spark, table, "kind = 'red' OR price < 0.01", "note", "kind", "price")
    assert set(got) == {0, 2}
    assert got[2][1] == ROWS, "partners together have all rows"
    assert set(same(spark, table, "kind IS NULL OR kind = 'red'", "note")) == {2}
    assert set(same(spark, table, "day < 31", "note", "day")) == {0, 2}
    assert set(same(spark, table, "never < 2", "never")) == {4}


def test_a_copy_without_rows_serves_queries_without_rows(spark, enabled, table):
    assert same(spark, table, "day > 6000 AND price > 0", "price", "never").keys() <= {0, 4, 5}


def test_explain_says_which_copies_are_read(spark, enabled, table):
    told = str(sidestep.explain(read(spark, table, "kind = 'red'", "price")))
    assert "reads 1 of 6 column groups: 1 (kind, price, note; the rows of 2 features)" in told
    told = str(sidestep.explain(read(spark, table, "kind = 'green'", "kind")))
    assert "2 (kind, note; with group 1)" in told
    with settings(spark, spark__sidestep__stages__paths="false"):
        assert set(groups_read(read(spark, table, "kind = 'red'", "price"))) == {0, 2}


def test_files_that_are_not_read_may_be_gone(spark, enabled, table, tmp_path):
    copy = Path(shutil.copytree(table, tmp_path / "copy"))
    query = read(spark, copy, "kind = 'red'", "price", "note", "kind")
    right = rows_of(query)
    used = {unquote(Path(path).name) for scan in sidestep.metrics(query).scans for path in scan.paths}
    gone = [path for path in copy.glob("_sidestep/groups/_group=*/*.zstd.parquet") if path.name not in used]
    assert len(gone) > len(used)
    for path in gone:
        path.unlink()
    assert rows_of(read(spark, copy, "kind = 'red'", "price", "note", "kind")) == right


def test_joins_and_subqueries(spark, enabled, table):
    sidestep.read(spark, table).createOrReplaceTempView("sales")
    spark.read.parquet(str(table.parent / "sales")).createOrReplaceTempView("plain")
    asked = (
        "SELECT a.note, count(*), max(b.price) FROM {0} a JOIN {0} b ON a.day = b.day AND a.kind = 'red' "
        "WHERE b.kind = 'blue' GROUP BY a.note",
        "SELECT note, price FROM {0} WHERE kind = 'red' AND price > (SELECT avg(price) FROM {0} WHERE kind = 'blue')",
        "SELECT a.note, b.price FROM {0} a LEFT JOIN {0} b ON a.day = b.day AND b.kind = 'red' WHERE a.day < 3",
        "SELECT note FROM {0} WHERE kind = 'red' UNION ALL SELECT note FROM {0} WHERE kind = 'green'",
        "SELECT count(*) FROM {0} WHERE kind = 'red'",
        "SELECT count(*) FROM {0}",
    )
    for sql in asked:
        assert rows_of(spark.sql(sql.format("sales"))) == rows_of(spark.sql(sql.format("plain"))), sql
