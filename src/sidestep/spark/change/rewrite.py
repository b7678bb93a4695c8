"""Deleting and changing rows of a table: only files with such rows are written anew, block by block.

The index says which files may hold rows that the condition is TRUE for; those are looked at, and only files in which
rows do match are replaced (:mod:`sidestep.spark.change.replace`). Rows for which the condition is NULL are left as they
are.

A condition on one row alone is evaluated twice, to find the files and to write them; what it depends on cannot change.
One with a subquery, or with a source, or on a table in column groups, is evaluated once, and the rows that it finds are
kept (:mod:`sidestep.spark.change.target`).

An update of what units are told apart by may leave a row in a unit that is not its own: that costs some skipping, never
an answer, since blocks are judged by what is in them. The values that an update sets are stored as Spark's own UPDATE
would store them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sidestep.errors import SidestepError
from sidestep.predicate.text import name_text
from sidestep.spark.change.changes import apply_changes, changes_of, keep
from sidestep.spark.change.merge import Clause, Merge, Rows
from sidestep.spark.change.replace import (
    ACTION,
    MATCHES,
    POSITION,
    assigned_values,
    file_rows,
    in_own_names,
    new_name,
    rows_of,
    write_files,
)
from sidestep.spark.change.target import change_session, narrow, target_rows
from sidestep.spark.expressions import has_subquery, settle
from sidestep.spark.jvm.sessions import leaves_session_active, quiet_session
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import every_row
from sidestep.spark.table.group_table import columns_of_table, open_any
from sidestep.spark.table.matching import PATH, check_condition, files_that_match, files_that_may_match
from sidestep.spark.table.reports import WriteReport
from sidestep.spark.table.state import commit_files, find_table, open_table
from sidestep.store import Location
from sidestep.store.commit.transaction import with_retries
from sidestep.store.parquet.writer import WrittenFile
from sidestep.store.snapshots.groups import has_groups

TARGET = "target"
"""What a table is called in conditions that speak of others too."""


@leaves_session_active
def delete(
    spark: SparkSession,
    table: str | os.PathLike[str],
    where: str,
    *,
    source: Rows | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Delete the rows of a Delta table, given by path or name, for which a condition in SQL is TRUE.

    The condition may have subqueries, in which the table's own columns can be told by ``target``. With a ``source`` (a
    DataFrame, a table's name or path), rows go for which it is TRUE with some row of the source, whose columns are
    ``source.x``. ``current_date()`` and the like are those of one moment. One atomic commit, tried again from the start
    if other writers changed the same files meanwhile.
    """
    return delete_rows(spark, table, where, source=source, index_dir=index_dir, progress=progress)


def delete_rows(
    spark: SparkSession,
    table: str | os.PathLike[str],
    where: str,
    *,
    alias: str = TARGET,
    source: Rows | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """As :func:`delete`; conditions call the table by ``alias``."""
    watch = Watch(spark.sparkContext, progress)
    if source is not None:
        return _from_source("delete", spark, table, where, Clause("matched", "delete"), source, alias, index_dir, watch)
    root = find_table(spark, table, removes_rows=True)
    once = _has_subquery(spark, where)
    (condition,) = _settle(spark, root, where, subqueries=once)
    if once or alias != TARGET or has_groups(root):
        return with_retries(lambda: _change_once(spark, root, condition, {}, alias, index_dir, watch))
    return with_retries(lambda: _rewrite(spark, root, condition, {}, index_dir, watch))


@leaves_session_active
def update(
    spark: SparkSession,
    table: str | os.PathLike[str],
    set: Mapping[str, str],
    where: str,
    *,
    source: Rows | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Set columns to expressions in SQL (over the row as it was) in the rows for which a condition is TRUE.

    A value that does not fit its column is an error, as in an INSERT under ANSI rules. Condition and values may have
    subqueries, in which the table's own columns can be told by ``target``. With a ``source`` (a DataFrame, a table's
    name or path), they speak of a row of the table and one of the source, whose columns are ``source.x``; two rows of
    the source for one of the table are an error. ``current_timestamp()`` and the like are those of one moment. One
    atomic commit, tried again from the start if other writers changed the same files meanwhile.
    """
    return update_rows(spark, table, set, where, source=source, index_dir=index_dir, progress=progress)


def update_rows(
    spark: SparkSession,
    table: str | os.PathLike[str],
    set: Mapping[str, str],
    where: str,
    *,
    alias: str = TARGET,
    source: Rows | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """As :func:`update`; conditions call the table by ``alias``."""
    if not set:
        raise SidestepError("There is nothing to set: give columns with their new values, such as {'price': '0'}.")
    watch = Watch(spark.sparkContext, progress)
    if source is not None:
        clause = Clause("matched", "update", dict(set))
        return _from_source("update", spark, table, where, clause, source, alias, index_dir, watch)
    root = find_table(spark, table, removes_rows=True)
    once = _has_subquery(spark, where, *set.values())
    condition, *texts = _settle(spark, root, where, *set.values(), subqueries=once)
    values = dict(zip(set, texts, strict=True))
    if once or alias != TARGET or has_groups(root):
        return with_retries(lambda: _change_once(spark, root, condition, values, alias, index_dir, watch))
    return with_retries(lambda: _rewrite(spark, root, condition, values, index_dir, watch))


def _has_subquery(spark: SparkSession, *texts: str) -> bool:
    quiet = quiet_session(spark)
    return any(has_subquery(quiet, text) for text in texts)


def _settle(spark: SparkSession, root: Location, *texts: str, subqueries: bool = False) -> list[str]:
    """The texts of a statement with one answer: they are evaluated to find files, to rewrite them, on each retry."""
    return settle(quiet_session(spark), texts, columns_of_table(root), subqueries=subqueries)


def _from_source(
    operation: str,
    spark: SparkSession,
    table: str | os.PathLike[str],
    where: str,
    clause: Clause,
    source: Rows,
    alias: str,
    index_dir: str | os.PathLike[str] | None,
    watch: Watch,
) -> WriteReport:
    merge = Merge(spark, table, source, where, target_alias=alias, index_dir=index_dir)
    return merge.with_clause(clause).run_watched(watch, operation).as_write(operation)


def _rewrite(
    spark: SparkSession,
    root: Location,
    where: str,
    values: Mapping[str, str],
    index_dir: str | os.PathLike[str] | None,
    watch: Watch,
) -> WriteReport:
    """Delete, or with values update, by a condition on one row alone."""
    operation = "update" if values else "delete"
    quiet = quiet_session(spark)
    state = open_table(quiet, root, index_dir)
    values = in_own_names(quiet, values, state.schema, root.uri)
    check_condition(quiet, state, where)

    def mark(rows: DataFrame) -> DataFrame:
        return rows.withColumn(MATCHES, f.coalesce(f.expr(where), f.lit(False)))

    def change(rows: DataFrame) -> DataFrame:
        if not values:
            return rows.where(~f.col(MATCHES))
        new = assigned_values(rows, values, state.schema, root.uri)
        return rows.withColumns(
            {name: f.when(f.col(MATCHES), value).otherwise(f.col(name_text(name))) for name, value in new.items()}
        )

    # Refuses bad expressions before any work.
    change(mark(every_row(quiet, state.only(()))))
    with watch.stage("find files"):
        looked_at = files_that_may_match(quiet, state, where)
        matching = files_that_match(quiet, state, looked_at, where)
    rows = sum(count for _, count in matching.values())
    removed = [file for file, _ in matching.values()]
    written: list[WrittenFile] = []
    version = state.snapshot.version
    if matching:
        with watch.stage("rewrite", rows_of(state, removed)):
            files = {path: file for path, (file, _) in matching.items()}
            written = write_files(quiet, state, files, file_rows(quiet, state, removed), mark, change, tuple(values))
        version = commit_files(
            state,
            written,
            removed,
            source=state.only(removed),
            deleted=0 if values else rows,
            operation=operation.upper(),
            data_change=True,
            watch=watch,
        ).version
    return WriteReport.of(
        operation, state, version, written, watch.stages, rows=rows, removed=removed, looked_at=looked_at
    )


def _change_once(
    spark: SparkSession,
    root: Location,
    where: str,
    values: Mapping[str, str],
    alias: str,
    index_dir: str | os.PathLike[str] | None,
    watch: Watch,
) -> WriteReport:
    """Delete, or with values update, by a condition that is evaluated once."""
    session = change_session(spark)
    state = open_any(session, root, index_dir)
    values = in_own_names(session, values, state.schema, root.uri)
    target = target_rows(session, state, alias)
    check_condition(session, state, where, target)
    rows = target.where(where)
    new = assigned_values(rows, values, state.schema, root.uri)
    named = [value.alias(new_name(number)) for number, value in enumerate(new.values())]
    action = 1
    query = rows.select(PATH, POSITION, f.lit(action).alias(ACTION), *named)
    with watch.stage("find files"):
        narrowed = narrow(session, state, target, query)
        found: Sequence[DataFrame] = [keep(narrowed.rows)] if narrowed.files else []
        changes = changes_of(found, () if values else (action,), tuple(new))
    operation = "update" if values else "delete"
    done = apply_changes(session, state, changes, watch, operation)
    return WriteReport.of(
        operation,
        state,
        done.version,
        done.written,
        watch.stages,
        rows=changes.total,
        removed=done.removed,
        looked_at=narrowed.files,
    )
