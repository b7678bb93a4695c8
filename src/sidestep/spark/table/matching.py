"""Which files of a table a condition concerns: by the index first, then by looking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sidestep.errors import SidestepError
from sidestep.predicate import INTEGER, And, Predicate, column, normalize, one_of
from sidestep.predicate.columns import columns_of
from sidestep.predicate.text import name_text
from sidestep.spark.expressions import refuse_clock_words
from sidestep.spark.organize.featurize import read_back
from sidestep.spark.relation import every_row
from sidestep.spark.table.state import TableState
from sidestep.store import DataFile, Snapshot
from sidestep.store.parquet.writer import RESERVED
from sidestep.store.sidecars.column_groups import UNIT
from sidestep.synopsis import kept_blocks

PATH = f"{RESERVED}path"


def check_condition(spark: SparkSession, state: TableState, where: str, rows: DataFrame | None = None) -> None:
    """Refuse what is no condition on one row of the table (or one of ``rows``), or has more than one answer.

    Subqueries, and what reads the clock, are for :func:`sidestep.spark.expressions.settle` before.
    """
    if not where.strip():
        raise SidestepError("The condition is empty. To take every row, say so: where='true'.")
    try:
        if rows is None:
            columns = every_row(spark, state.only(())).select(*map(name_text, state.schema.names))
            analyzed = columns.select(f.coalesce(f.expr(where), f.lit(False)))
        else:  # a predicate with a subquery is one only in a filter
            analyzed = rows.where(where)
        plan = analyzed._jdf.queryExecution().analyzed()
    except AnalysisException as problem:
        said = str(problem).split(" SQLSTATE")[0].partition("\n")[0]
        raise SidestepError(f"{where!r} is not a condition on the columns of {state.table.uri}: {said}") from problem
    if not plan.deterministic():
        raise SidestepError(f"{where!r} may be true one time and false the next: a row must be either.")
    refuse_clock_words(analyzed, where)


def files_that_may_match(spark: SparkSession, state: TableState, where: str) -> tuple[DataFile, ...]:
    """The files that are not proven to hold no row for which the condition is TRUE.

    The condition is read as the filter of a query is, and held against the same synopses. A file that the index does
    not know, or a condition that says nothing to it, leaves the file in.
    """
    (meaning,) = read_back(spark, [where], state.schema)
    if isinstance(meaning, str):
        return state.snapshot.files
    return files_kept(state, meaning)


def files_kept(state: TableState, meaning: tuple[Predicate, ...]) -> tuple[DataFile, ...]:
    """The files that the index does not prove to hold no row for which all of the predicates are TRUE."""
    in_folders, index = state.snapshot.partition_columns, state.index
    used = {column.name: column.type for predicate in meaning for column in columns_of(predicate)}
    # A name that is a folder's for one and a file's for the other speaks of two things.
    shared = {name: kind for name, kind in used.items() if (name in in_folders) == (name in index.partition_columns)}
    catalog = index.catalog(shared)
    kept = np.append(catalog.files_kept(kept_blocks(catalog, normalize(And(meaning)))), True)
    positions = index.positions(state.snapshot.files)  # -1, the last, is a file that is not known
    return tuple(file for file, keep in zip(state.snapshot.files, kept[positions], strict=True) if keep)


def files_of_units(state: TableState, units: Iterable[int]) -> tuple[DataFile, ...]:
    """Of a table in column groups, the files that are not proven to hold no row of these units."""
    return files_kept(state, (one_of(column(UNIT, INTEGER), sorted(units)),))


def with_path(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """The rows of a snapshot with the path of their file, as Spark spells it."""
    return rows.withColumn(PATH, f.col("_metadata.file_path"))


def by_spelling(snapshot: Snapshot, spelled: Mapping[str, object]) -> dict[str, DataFile]:
    """The files that Spark means by these paths: absolute, with a scheme, and escaped once more than the disk's."""
    files = {file.path: file for file in snapshot.files}
    start = len(snapshot.root.uri.rstrip("/")) + 1
    named = {path: files.get(unquote(path)[start:]) for path in spelled}
    if None in named.values():
        raise SidestepError(f"Spark read a file that {snapshot.root.uri} does not have at this version. Try again.")
    return {path: file for path, file in named.items() if file is not None}


def files_that_match(
    spark: SparkSession, state: TableState, files: tuple[DataFile, ...], where: str
) -> dict[str, tuple[DataFile, int]]:
    """The files that do hold such rows, by their paths as Spark spells them, each with the number of those rows."""
    if not files:
        return {}
    snapshot = state.only(files)
    rows = with_path(every_row(spark, snapshot), snapshot).where(f.expr(where))
    counts = {row[PATH]: int(row["count"]) for row in rows.groupBy(PATH).count().collect()}
    return {path: (file, counts[path]) for path, file in by_spelling(snapshot, counts).items()}
