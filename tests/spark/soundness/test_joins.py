"""Skipping under joins on equals skipping off: random joins of random tables, filtered above the join and within it."""

from __future__ import annotations

import itertools
import shutil

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import sidestep
from sidestep.predicate.nodes import Predicate
from tests.spark.generated import Generated, questions, tables
from tests.spark.rendering import spark_sql
from tests.spark.soundness.test_filters import Tally, trying
from tests.spark.tables import data_files, rows_of, switched_off, with_only
from tests.spark.tables import settings as spark_settings

BOTH_SIDES = ("INNER", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER")
JOINS = (*BOTH_SIDES, *BOTH_SIDES, "LEFT SEMI", "LEFT ANTI")
QUERIES = 7


@st.composite
def joins(draw: st.DrawFn, left: Generated, right: Generated) -> str:
    """A join of l and r on columns of one type, with conditions on either side, in ON, in WHERE, or in a subquery."""
    kind = draw(st.sampled_from(JOINS))
    pairs = [(a.name, b.name) for a in left.columns for b in right.columns if a.type == b.type]
    key = draw(st.sampled_from(pairs))
    op = draw(st.sampled_from(["=", "=", "<=>"]))

    def condition(table: Generated, name: str) -> str:
        asked: Predicate = draw(questions(table))
        return spark_sql(asked, name)

    on = [f"l.{key[0]} {op} r.{key[1]}"]
    on += [condition(table, name) for table, name in ((left, "l"), (right, "r")) if draw(st.integers(0, 2)) == 0]
    where = [condition(left, "l")] if draw(st.booleans()) else []
    if kind not in BOTH_SIDES:
        if draw(st.booleans()):
            word = "EXISTS" if kind == "LEFT SEMI" else "NOT EXISTS"
            either = f" OR {condition(left, 'l')}" if draw(st.booleans()) else ""
            inside = f"({word} (SELECT 1 FROM r WHERE {' AND '.join(on)}){either})"
            return f"SELECT l.rid FROM l WHERE {' AND '.join([inside, *where])}"
        return f"SELECT l.rid FROM l {kind} JOIN r ON {' AND '.join(on)} WHERE {' AND '.join([*where, 'TRUE'])}"
    where += [condition(right, "r")] if draw(st.booleans()) else []
    where += [f"r.{key[1]} IS NULL"] if draw(st.integers(0, 5)) == 0 else []
    joined = f"l {kind} JOIN r ON {' AND '.join(on)}"
    return f"SELECT l.rid, r.rid AS other FROM {joined} WHERE {' AND '.join([*where, 'TRUE'])}"


def check(spark: SparkSession, sides: dict[str, Generated], query: str, tally: Tally) -> None:
    frames = {name: spark.read.parquet(str(table.root)) for name, table in sides.items()}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    with sidestep.enable(spark) as state:
        df = spark.sql(query)
        assert rows_of(df) == expected, query
        assert state.last_problem == ""
    scans = sidestep.metrics(df).scans
    tally.cases += 1
    tally.matching += bool(expected)
    read = {path for scan in scans for path in scan.paths}
    for name, table in sides.items():
        every = {str(path) for path in data_files(table.root)}
        kept = every & read
        if not any(str(table.root) in scan.table for scan in scans):
            continue  # Spark folded this side away: nothing was skipped by us
        folder = with_only(table.root, kept, table.root.with_name(f"{table.root.name}-left"))
        spark.read.schema(frames[name].schema).parquet(str(folder)).createOrReplaceTempView(name)
        tally.listed += len(every)
        tally.skipped += len(every) - len(kept)
        tally.cases_with_skips += len(kept) < len(every)
    assert rows_of(spark.sql(query)) == expected, f"without the files that were skipped: {query}"
    for table in sides.values():
        shutil.rmtree(table.root.with_name(f"{table.root.name}-left"), ignore_errors=True)


def test_no_joined_row_is_lost_and_none_is_invented(spark, tmp_path):
    tally, numbers = Tally(), itertools.count()

    @trying(8)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        number = next(numbers)
        left = data.draw(tables(spark, tmp_path / f"l{number}"))
        right = data.draw(tables(spark, tmp_path / f"r{number}", like=left))
        for table in (left, right):
            sidestep.index(spark, str(table.root))
        threshold = data.draw(st.sampled_from(["10MB", "-1"]), label="broadcast threshold")
        with spark_settings(spark, spark__sql__autoBroadcastJoinThreshold=threshold):
            for _ in range(QUERIES):
                check(spark, {"l": left, "r": right}, data.draw(joins(left, right)), tally)

    try:
        run()
    finally:
        for name in ("l", "r"):
            spark.catalog.dropTempView(name)
    assert tally.cases >= 30
    assert tally.matching > tally.cases / 8, tally
    assert tally.cases_with_skips > tally.cases / 12, tally
