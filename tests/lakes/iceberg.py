"""Iceberg tables for tests: how they are made, and what queries read of them with sidestep and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import Row, SparkSession

import sidestep

ROWS = 500
"""Rows of each file."""


def make_table(
    spark: SparkSession,
    name: str,
    columns: str,
    files: int = 6,
    properties: Mapping[str, str] | None = None,
    *,
    more: str = "",
    rows: int = ROWS,
) -> None:
    """A table of so many files, the rows of each a run of numbers; ``columns`` are SQL over the number ``id``."""
    told = {"write.distribution-mode": "none", "format-version": "2", **(properties or {})}
    texts = ", ".join(f"'{key}' = '{value}'" for key, value in told.items())
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    source = spark.range(0, files * rows, 1, files).selectExpr(*columns.split("; "))
    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in source.schema)
    spark.sql(f"CREATE TABLE {name} ({schema}) USING iceberg {more} TBLPROPERTIES ({texts})")
    source.writeTo(name).append()


def scattered(expression: str = "id") -> str:
    """A number that is spread over all files, and that no two rows share."""
    return f"({expression} * 7919) % 100003"


def plain(rows: list[Row]) -> list[str]:
    """Rows as a multiset."""
    return sorted(map(repr, rows))


def read_with(spark: SparkSession, sql: str) -> tuple[list[str], dict[str, int]]:
    """The answer of a query as things stand, and the files that were read of each table."""
    query = spark.sql(sql)
    rows = query.collect()
    files: dict[str, int] = {}
    for scan in sidestep.metrics(query).scans:
        table = scan.table.replace("/", ".").rpartition(".")[2]
        files[table] = files.get(table, 0) + scan.files
    return plain(rows), files


def check(spark: SparkSession, sql: str) -> dict[str, tuple[int, int]]:
    """Hold the answer with skipping against that without: for each table, the files read without and with it."""
    with switched_off(spark):
        right, alone = read_with(spark, sql)
    got, files = read_with(spark, sql)
    assert got == right, sql
    return {table: (alone[table], files[table]) for table in alone}


@contextmanager
def switched_off(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sidestep.enabled", "false")
    try:
        yield
    finally:
        spark.conf.unset("spark.sidestep.enabled")


def check_without_skipped(spark: SparkSession, sql: str) -> None:
    """The deadly test: the answer is the same once the data files that are skipped are gone."""
    with switched_off(spark):
        right, _ = read_with(spark, sql)
        every = paths(spark, sql)
    skipped = every - paths(spark, sql)
    assert skipped, f"nothing is skipped of {sql}"
    for path in skipped:
        Path(path).rename(f"{path}.gone")
    try:
        got, _ = read_with(spark, sql)
    finally:
        for path in skipped:
            Path(f"{path}.gone").rename(path)
    assert got == right, sql


def paths(spark: SparkSession, sql: str) -> set[str]:
    """The data files that a query would read."""
    query = spark.sql(sql)
    return {path for scan in sidestep.metrics(query).scans for path in scan.paths}


def iceberg_table(spark: SparkSession, name: str) -> Any:
    """Iceberg's own object of a table."""
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
