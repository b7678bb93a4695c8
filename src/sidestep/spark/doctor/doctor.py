"""``sidestep.doctor``: is everything there that sidestep needs, does it work, and how are the tables?"""

from __future__ import annotations

import os
from collections.abc import Iterator

from pyspark.sql import SparkSession

from sidestep.render import counted, size_text
from sidestep.spark.doctor.diagnosis import Diagnosis, Finding
from sidestep.spark.doctor.surroundings import (
    look_at_credentials,
    look_at_python,
    look_at_spark,
    look_at_workers,
)
from sidestep.spark.table.index import status
from sidestep.store import IndexStatus


def doctor(
    spark: SparkSession | None = None,
    *paths: str | os.PathLike[str],
    index_dir: str | os.PathLike[str] | None = None,
) -> Diagnosis:
    """Look at all that sidestep rests on, and say of each thing what was found and what to do.

    Python and its packages; with a session, Spark and Java, whether the bridge compiles and a trial query skips a file,
    and whether the Pythons of Spark's workers have sidestep; for tables on object stores, the names of the variables
    and settings that say how to reach them, never what they hold; and for each table given by its path, or its name in
    the catalog, how much of it is indexed, how fresh that is, and what is wrong. Nothing is changed.
    """
    tables = [os.fspath(path) for path in paths]
    findings = [*look_at_python()]
    if spark is not None:
        findings += look_at_spark(spark)
        if not any(finding.state == "bad" for finding in findings):
            findings += look_at_workers(spark)
    findings += look_at_credentials(spark, tables)
    classic = spark if spark is not None and hasattr(spark, "_jsparkSession") else None
    for table in tables:
        findings += _look_at_table(classic, table, index_dir)
    return Diagnosis(tuple(findings))


def _look_at_table(
    spark: SparkSession | None, table: str, index_dir: str | os.PathLike[str] | None
) -> Iterator[Finding]:
    try:
        found = status(spark, table, index_dir=index_dir)
    except Exception as problem:  # whatever is wrong with one table, the others are to be looked at
        yield Finding(table, "bad", str(problem).partition("\n")[0], "is the path right, and may this user read it?")
        return
    yield from describe_table(table, found)


def describe_table(table: str, found: IndexStatus) -> Iterator[Finding]:
    """How a table is, by the state of its index."""
    files = f"{found.indexed_files:,} of {counted(found.files, 'file')} indexed"
    share = found.index_bytes / max(1, found.indexed_bytes)
    size = f"the index takes {size_text(found.index_bytes)}, {share:.2%} of the data"
    missing = found.files - found.indexed_files
    if not found.files:
        yield Finding(table, "note", "it has no files")
    elif not found.indexed_files:
        yield Finding(table, "warn", f"{files}: queries read everything", f"sidestep index {table}")
    elif missing:
        advice = f"sidestep index {table}; or enable(spark, refresh='auto'), which does it as files come"
        yield Finding(table, "warn", f"{files}; the other {missing:,} are always read; {size}", advice)
    else:
        yield Finding(table, "good", f"{files}; {size}")
    if found.stale_files:
        entries = "1 entry" if found.stale_files == 1 else f"{found.stale_files:,} entries"
        yield Finding(table, "note", f"{entries} of files that changed or are gone: harmless")
    if found.blocks_with_ids and found.unorganized_files:
        waiting = counted(found.unorganized_files, "file")
        yield Finding(table, "warn", f"{waiting} came since it was laid out", f"sidestep optimize {table}")
    for problem in found.problems:
        yield Finding(table, "warn", problem, f"sidestep index {table}")
    if found.advice:
        yield Finding(table, "warn", found.advice, f"sidestep index {table} --rebuild")
