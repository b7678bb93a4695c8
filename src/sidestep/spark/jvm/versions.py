"""What differs between the versions of Spark that sidestep works with; ``Versions.java`` has the other side."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas import types
from pyspark.sql.types import StructType

from sidestep.store.parquet.buckets import balanced_units

TESTED = ("4.0", "4.1", "4.2", "4.3")
"""The versions that the tests run on, oldest first."""
READERS = {
    "Delta": {"4.0": "4.4.0", "4.1": "4.4.0", "4.2": "4.4.0"},
    "Iceberg": {"4.0": "1.11.0", "4.1": "1.12.0"},
}
"""The version of a format's own reader that the tests run with, by that of Spark; others have no build (2026-11)."""


def is_untested(version: str) -> bool:
    """Whether a version is newer than all that were tested: it may do, and nobody has tried.

    >>> [is_untested(version) for version in ("3.5.1", "4.0.2", "4.3.0-rc1", "4.4.0", "4.10.0", "5.0.0-preview")]
    [False, False, False, True, True, True]
    """
    return _minor(version) > _minor(TESTED[-1])


def is_too_old(version: str) -> bool:
    """Whether a version is older than all that sidestep works with.

    >>> [is_too_old(version) for version in ("3.5.1", "4.0.0", "4.4.0")]
    [True, False, False]
    """
    return _minor(version) < _minor(TESTED[0])


def java_folder(version: str) -> str:
    """Where the Java sources are that only some versions can compile.

    >>> [java_folder(version) for version in ("4.2.1", "4.3.0")]
    ['before_4_3', 'since_4_3']
    """
    return "since_4_3" if _minor(version) >= (4, 3) else "before_4_3"


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of Spark's columns: instants in UTC, whatever the session's zone."""
    convert: Any = types.to_arrow_schema
    if "timezone" in inspect.signature(convert).parameters:
        return convert(schema, timezone="UTC")
    return convert(schema)  # up to 4.1, always UTC


def repartition_by_id(rows: DataFrame, tasks: int, task: Column) -> DataFrame:
    """The rows, each in the task that it names by an integer from 0 to below ``tasks``."""
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(tasks, task)
    # Spark 4.0 sends rows by a hash alone: so each task is given a number that hashes to it.
    numbers = f.lit(list(balanced_units(tasks, tasks)))
    return rows.repartition(tasks, f.element_at(numbers, task + 1).cast("int"))
