"""What must be so, whatever is skipped: the same rows as without sidestep, also if all that was skipped is gone."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import sidestep
from sidestep.spark.relation import from_snapshot
from sidestep.spark.rule.session import state_of
from sidestep.store import read_snapshot
from tests.fuzz.world import WorldSpec, register
from tests.spark.tables import changed_settings, data_files, switched_off, with_only


@dataclass(frozen=True)
class Outcome:
    """What came of a query: a difference in words, or none; and how much was skipped."""

    difference: str = ""
    invalid: bool = False
    """Spark itself refuses the query, or fails on it."""
    skipped: int = 0
    """Files that no scan of their table read."""
    rows: int = 0


def check(
    spark: SparkSession, world: WorldSpec, root: Path, query: str, settings: Mapping[str, str], copy: Path
) -> Outcome:
    """Run a query on and off and without what was skipped, and compare."""
    with changed_settings(spark, settings):
        try:
            with switched_off(spark):
                expected = rows_of(spark.sql(query))
        except PySparkException:
            return Outcome(invalid=True)
        try:
            frame = spark.sql(query)
            actual = rows_of(frame)
        except PySparkException as problem:
            return Outcome(f"fails with sidestep: {str(problem).splitlines()[0]}")
        state = state_of(spark)
        assert state is not None
        if state.last_problem:
            return Outcome(f"sidestep gave up: {state.last_problem}")
        if actual != expected:
            return Outcome(_difference(expected, actual, "on"), rows=len(expected))
        return _without_skipped(spark, world, root, query, frame, expected, copy)


def rows_of(frame: DataFrame) -> list[str]:
    """The rows as a multiset that can be compared: NaN equals NaN, -0.0 equals 0.0, order does not matter."""
    return sorted(repr(row).replace("-0.0", "0.0") for row in frame.collect())


def _without_skipped(
    spark: SparkSession, world: WorldSpec, root: Path, query: str, frame: DataFrame, expected: list[str], copy: Path
) -> Outcome:
    """The same query without sidestep on copies of the tables that lack each file that no scan read."""
    read = {path for scan in sidestep.metrics(frame).scans for path in scan.paths}
    read = {str(Path(path.removeprefix("file:"))) for path in read}
    skipped = 0
    shutil.rmtree(copy, ignore_errors=True)
    try:
        for name, table in world.tables.items():
            folder = root / name
            if table.form == "plain":
                files = data_files(folder)
                kept = [str(file) for file in files if str(file) in read]
                if len(kept) == len(files) or not _reads(query, name):
                    continue
                skipped += len(files) - len(kept)
                schema = spark.table(name).schema
                partial = with_only(folder, kept, copy / name)
                reader = spark.read.schema(schema)
                (reader.parquet(str(partial)) if kept else spark.createDataFrame([], schema)).createOrReplaceTempView(
                    name
                )
            else:
                snapshot = read_snapshot(str(folder))
                kept_files = tuple(file for file in snapshot.files if snapshot.root.child(file.path).path in read)
                if len(kept_files) == len(snapshot.files) or not _reads(query, name):
                    continue
                skipped += len(snapshot.files) - len(kept_files)
                columns = spark.table(name).columns
                rows = from_snapshot(spark, replace(snapshot, files=kept_files))
                rows.select(*columns).createOrReplaceTempView(name)
        if not skipped:
            return Outcome(rows=len(expected))
        with switched_off(spark):
            left = rows_of(spark.sql(query))
    finally:
        register(spark, world, root)
    if left != expected:
        return Outcome(_difference(expected, left, "without what was skipped"), skipped=skipped, rows=len(expected))
    return Outcome(skipped=skipped, rows=len(expected))


def _reads(query: str, name: str) -> bool:
    return f"FROM {name}" in query


def _difference(expected: list[str], actual: list[str], when: str) -> str:
    missing = [row for row in expected if row not in set(actual)]
    more = [row for row in actual if row not in set(expected)]
    return f"{len(expected)} rows off, {len(actual)} {when}; missing {missing[:2]}, too many {more[:2]}"
