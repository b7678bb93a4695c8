"""Tables on disk for the tests with Spark, and what a query read of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import sidestep
from sidestep.spark.rule.metrics import Metrics


def write_file(path: Path, data: Mapping[str, Any] | pa.Table, **options: Any) -> Path:
    """A Parquet file that looks ten seconds old: one just written would have to settle before it is indexed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data if isinstance(data, pa.Table) else pa.table(data), path, **options)
    set_age(path, 10)
    return path


def set_age(path: Path, seconds: int) -> None:
    moment = (path.stat().st_mtime_ns // 10**9 - seconds) * 10**9 + 123_456_789
    os.utime(path, ns=(moment, moment))


def data_files(root: Path) -> list[Path]:
    """The files of a table, its index aside."""
    return sorted(path for path in root.rglob("*.parquet") if not _hidden(path.relative_to(root)))


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) and "=" not in part for part in path.parts)


def with_only(root: Path, kept: Iterable[str], target: Path) -> Path:
    """A copy of a table without the files that are not in ``kept``: what is left if what was skipped is deleted."""
    target.mkdir(parents=True)
    for path in kept:
        copy = target / Path(path).relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, copy)
    return target


@contextmanager
def changed_settings(spark: SparkSession, values: Mapping[str, str]):
    """Settings of Spark for the length of a block."""
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def settings(spark: SparkSession, **values: str):
    """The same, with ``__`` for a dot in names."""
    return changed_settings(spark, {name.replace("__", "."): value for name, value in values.items()})


def switched_off(spark: SparkSession):
    """Leave queries to Spark alone for the length of a block."""
    return settings(spark, spark__sidestep__enabled="false")


def patient(spark: SparkSession):
    """Let queries wait for what is skipped as long as it takes: one that has waited in vain reads everything."""
    return settings(spark, spark__sidestep__seconds="600")


def files_read(df: DataFrame) -> list[list[str]]:
    """The names of the files that each scan of a query read, without their ending; scans in the order of these."""
    return sorted(sorted(Path(path).stem for path in scan.paths) for scan in sidestep.metrics(df).scans)


def rows_of(df: DataFrame) -> list[str]:
    """The rows as a multiset that can be compared: NaN equals NaN, order does not matter."""
    return sorted(map(repr, df.collect()))


def names(numbers: Sequence[int]) -> list[str]:
    return [f"f{number}" for number in numbers]


def checked_read(spark: SparkSession, root: str, condition: str, **options: Any) -> tuple[int, Metrics]:
    """How many rows of a table match, the same with skipping on and off, and what was read with it on."""
    with switched_off(spark):
        expected = rows_of(sidestep.read(spark, root, **options).where(condition))
    df = sidestep.read(spark, root, **options).where(condition)
    assert rows_of(df) == expected
    return len(expected), sidestep.metrics(df)
