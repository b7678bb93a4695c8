"""Delta tables that delta-spark writes for tests, and queries of them that are checked: on is off, and deadly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import sidestep
from tests.spark.tables import data_files, rows_of, settings, switched_off

FILES = 8
"""The files of a table that :func:`make_table` makes, of a hundred rows each."""
COLUMNS = "id bigint, code string, k bigint, v double, p string"


def make_table(spark: SparkSession, path: Path, *, properties: str = "", partitioned: bool = False) -> Path:
    """A table of eight files in ranges of ``id``. The log has no statistics: what is skipped is skipped by sidestep."""
    parts = "PARTITIONED BY (p)" if partitioned else ""
    wanted = f"TBLPROPERTIES ({properties})" if properties else ""
    spark.sql(f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta {parts} {wanted}")
    append(spark, path, 0, 100 * FILES, FILES)
    return path


def append(spark: SparkSession, path: Path, start: int, end: int, files: int = 1) -> None:
    rows = spark.range(start, end, 1, files).selectExpr(
        "id", "printf('c%05d', id) AS code", "id % 7 AS k", "id / 3 AS v", "CAST(id div 400 AS string) AS p"
    )
    with settings(spark, spark__databricks__delta__stats__collect="false"):
        rows.write.format("delta").mode("append").save(str(path))


def load(spark: SparkSession, path: Path, **options: str | int) -> DataFrame:
    reader = spark.read.format("delta")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def check(spark: SparkSession, ask: Callable[[], DataFrame], *, most: int | None = None) -> tuple[list[str], set[Path]]:
    """The rows of a query, which are the same without sidestep, and the files that it read; at most ``most``."""
    with switched_off(spark):
        expected = rows_of(ask())
    query = ask()
    assert rows_of(query) == expected
    read = {Path(path) for scan in sidestep.metrics(query).scans for path in scan.paths}
    assert most is None or len(read) <= most, sorted(path.name for path in read)
    return expected, read


def check_deadly(spark: SparkSession, ask: Callable[[], DataFrame], *roots: Path, most: int | None = None) -> list[str]:
    """The same; and again after the files that it did not read are gone, which are then put back."""
    expected, read = check(spark, ask, most=most)
    gone = [file for root in roots for file in data_files(root) if file not in read]
    moved = [file.rename(file.with_name(f".{file.name}.gone")) for file in gone]
    try:
        assert rows_of(ask()) == expected
    finally:
        for hidden, file in zip(moved, gone, strict=True):
            hidden.rename(file)
    return expected
