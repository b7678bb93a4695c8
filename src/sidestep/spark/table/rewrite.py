"""Deleting and changing rows of a laid-out table: only files with such rows are written anew, block by block.

The index says which files may hold rows that the condition is TRUE for; those are looked at, and only files in which
rows do match are replaced. Every other row stays in its block: rows of an old block become a block again, with its zone
maps and union vector worked out from the rows that are now in it. Files of other writers have no blocks; their rows are
cut into blocks in the order in which they lie. Rows for which the condition is NULL are left as they are.

A file keeps its unit. An update of what units are told apart by may leave a row in a unit that is not its own: that
costs some skipping, never an answer, since blocks are judged by what is in them. The values that an update sets are
stored as Spark's own UPDATE would store them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from sidestep.errors import SidestepError
from sidestep.layout.placement import FilePlan
from sidestep.predicate.text import name_text
from sidestep.spark.expressions import refuse_clock_words, settle
from sidestep.spark.jvm.sessions import leaves_session_active, quiet_session
from sidestep.spark.organize.featurize import with_words
from sidestep.spark.organize.write import write_on_spark
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import every_row, without_block_ids
from sidestep.spark.table.append import not_null, plain
from sidestep.spark.table.matching import PATH, check_condition, files_that_match, files_that_may_match, with_path
from sidestep.spark.table.reports import WriteReport
from sidestep.spark.table.state import TableState, commit_files, find_table, open_table
from sidestep.store import DataFile, Location
from sidestep.store.block_column import block_name
from sidestep.store.commit.transaction import with_retries
from sidestep.store.parquet.writer import FILE, GROUP, RESERVED, WrittenFile
from sidestep.store.snapshots.delta import read_delta

POSITION, OLD_BLOCK, MATCHES = (f"{RESERVED}{name}" for name in ("position", "old_block", "matches"))
RowChange = Callable[[DataFrame, TableState], DataFrame]
"""What becomes of rows that have the column MATCHES, TRUE or FALSE."""


@leaves_session_active
def delete(
    spark: SparkSession,
    table: str | os.PathLike[str],
    where: str,
    *,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Delete the rows of a Delta table, given by path or name, for which a condition in SQL is TRUE.

    ``current_date()`` and the like are those of one moment; subqueries are refused. One atomic commit, tried again from
    the start if other writers changed the same files meanwhile.
    """
    root = find_table(spark, table, removes_rows=True)
    watch = Watch(spark.sparkContext, progress)
    (condition,) = _settle(spark, root, where)

    def keep_unmatched(rows: DataFrame, state: TableState) -> DataFrame:
        return rows.where(~f.col(MATCHES))

    return with_retries(lambda: _rewrite("delete", spark, root, condition, keep_unmatched, (), index_dir, watch))


@leaves_session_active
def update(
    spark: SparkSession,
    table: str | os.PathLike[str],
    set: Mapping[str, str],
    where: str,
    *,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Set columns to expressions in SQL (over the row as it was) in the rows for which a condition is TRUE.

    A value that does not fit its column is an error, as in an INSERT under ANSI rules. ``current_timestamp()`` and the
    like are those of one moment; subqueries are refused. One atomic commit, tried again from the start if other writers
    changed the same files meanwhile.
    """
    if not set:
        raise SidestepError("There is nothing to set: give columns with their new values, such as {'price': '0'}.")
    root = find_table(spark, table, removes_rows=True)
    watch = Watch(spark.sparkContext, progress)

    condition, *texts = _settle(spark, root, where, *set.values())
    values = dict(zip(set, texts, strict=True))

    def assign(rows: DataFrame, state: TableState) -> DataFrame:
        new = assigned_values(rows, values, state.schema, root.uri)
        return rows.withColumns(
            {name: f.when(f.col(MATCHES), value).otherwise(f.col(name_text(name))) for name, value in new.items()}
        )

    return with_retries(lambda: _rewrite("update", spark, root, condition, assign, tuple(set), index_dir, watch))


def _settle(spark: SparkSession, root: Location, *texts: str) -> list[str]:
    """The texts of a statement with one answer: they are evaluated to find files, to rewrite them, on each retry."""
    schema = StructType.fromJson(json.loads(read_delta(root).schema or "{}"))
    return settle(quiet_session(spark), texts, schema)


def _rewrite(
    operation: str,
    spark: SparkSession,
    root: Location,
    where: str,
    change: RowChange,
    assigned: Collection[str],
    index_dir: str | os.PathLike[str] | None,
    watch: Watch,
) -> WriteReport:
    quiet = quiet_session(spark)
    state = open_table(quiet, root, index_dir)
    check_condition(quiet, state, where)
    # Refuses bad expressions before any work.
    change(_with_matches(every_row(quiet, state.only(())), where), state)
    with watch.stage("find files"):
        looked_at = files_that_may_match(quiet, state, where)
        matching = files_that_match(quiet, state, looked_at, where)
    rows = sum(count for _, count in matching.values())
    removed = [file for file, _ in matching.values()]
    written: list[WrittenFile] = []
    version = state.snapshot.version
    if matching:
        with watch.stage("rewrite", sum(_rows_of(state, removed))):
            files = {path: file for path, (file, _) in matching.items()}
            written = _write_files(quiet, state, files, where, change, assigned)
        version = commit_files(
            state,
            written,
            removed,
            source=state.only(removed),
            deleted=rows if operation == "delete" else 0,
            operation=operation.upper(),
            data_change=True,
            watch=watch,
        ).version
    return WriteReport.of(
        operation, state, version, written, watch.stages, rows=rows, removed=len(removed), looked_at=len(looked_at)
    )


def _with_matches(rows: DataFrame, where: str) -> DataFrame:
    return rows.withColumn(MATCHES, f.coalesce(f.expr(where), f.lit(False)))


def _write_files(
    spark: SparkSession,
    state: TableState,
    files: Mapping[str, DataFile],
    where: str,
    change: RowChange,
    assigned: Collection[str],
) -> list[WrittenFile]:
    """The rows that remain of some files, in new files of their own."""
    snapshot = state.only(tuple(files.values()))
    rows = with_path(every_row(spark, snapshot), snapshot).withColumn(POSITION, f.col("_metadata.row_index"))
    # Before anything is changed: a condition sees the row as it was.
    rows = _with_matches(rows, where)
    plans, numbers = _plan_files(state, files)
    names, texts = state.target.partition_columns, state.target.partition_texts
    partitions = {path: dict(file.partition) for path, file in files.items()}
    numbered = spark.createDataFrame(
        [(path, *numbers[path], *(partitions[path].get(name) for name in names)) for path in files],
        ", ".join([f"{PATH}_ string, {FILE} int, {OLD_BLOCK} boolean", *(f"{text} string" for text in texts)]),
    )
    rows = rows.join(f.broadcast(numbered), f.col(PATH) == f.col(f"{PATH}_"), "left")
    hidden = block_name(state.snapshot.schema)
    block = f.lit(None) if hidden is None else f.col(hidden)
    rows = rows.withColumn(GROUP, f.when(f.col(OLD_BLOCK), block).otherwise(f.lit(0)).cast("int"))
    rows = with_words(change(without_block_ids(rows, state.snapshot), state), state.checked)
    # A text stays as its file has it: read and written again it may be spelled, and then read, otherwise.
    for text, name in zip(texts, names, strict=True):
        if name in assigned:
            value = f.col(name_text(name)).cast("string")
            rows = rows.withColumn(text, f.when(f.col(MATCHES), value).otherwise(f.col(text)))
    placed = rows.repartitionById(len(plans), f.coalesce(FILE, f.lit(0)))
    arranged = placed.sortWithinPartitions(FILE, *state.target.partition_texts, GROUP, POSITION)
    return write_on_spark(arranged, state.target, plans)


def _plan_files(state: TableState, files: Mapping[str, DataFile]) -> tuple[list[FilePlan], dict[str, tuple[int, bool]]]:
    """A plan for each file, and by its path the plan's number and whether the file's blocks have ids."""
    index, plans, numbers = state.index, [], {}
    units, ids = index.units, index.block_ids
    features = index.features_of_block
    first = block = state.reserve()
    positions = index.positions(list(files.values())).tolist()
    for number, (path, file) in enumerate(files.items()):
        position = positions[number]
        mine = np.flatnonzero(index.map.file_of_block == position)
        laid_out = len(mine) > 0 and bool((ids[mine] >= 0).all())
        # What was organized by other features stays to be found by optimize, though its vectors are of these now.
        same = laid_out and all(features[at].as_py() == state.spec.features for at in mine.tolist())
        plans.append(FilePlan(block, units[position] if same else None))
        numbers[path] = (number, laid_out)
        rows = int(index.map.rows[mine].sum())
        # Of a file that is not known, no more rows than bytes are reckoned with.
        block += len(mine) + 1 + (rows if len(mine) else file.size) // state.spec.min_size
    state.reserve(block - first)
    return plans, numbers


def _rows_of(state: TableState, files: list[DataFile]) -> list[int]:
    positions = state.index.positions(files)
    counts = np.bincount(
        state.index.map.file_of_block, weights=state.index.map.rows, minlength=len(state.index.files) + 1
    )
    return [int(counts[at]) for at in positions if at >= 0]


def assigned_values(rows: DataFrame, set: Mapping[str, str], schema: StructType, what: str) -> dict[str, Column]:
    """The new value of each column that is set, from an expression over the row; refused if one does not fit."""
    unknown = [name for name in set if name not in schema.names]
    if unknown:
        raise SidestepError(
            f"{what} has no column {', '.join(unknown)}; it has {', '.join(schema.names)}. Names are case-sensitive."
        )
    fields = {name: schema[name] for name in set}
    return {name: not_null(_as_stored(rows, set[name], field, what), field, what) for name, field in fields.items()}


def _as_stored(rows: DataFrame, text: str, field: StructField, what: str) -> Column:
    try:
        analyzed = rows.select(f.expr(text).alias(field.name))
        given = analyzed.schema[0].dataType
        deterministic = analyzed._jdf.queryExecution().analyzed().deterministic()
    except AnalysisException as problem:
        said = str(problem).split(" SQLSTATE")[0].partition("\n")[0]
        raise SidestepError(f"{text!r} is not a value for column {field.name} of {what}: {said}") from problem
    if not deterministic:
        raise SidestepError(f"{text!r} may differ each time it is evaluated: a task that is run again would disagree.")
    refuse_clock_words(analyzed, text)
    if plain(given) == plain(field.dataType):
        return f.expr(text)
    jvm, session = rows.sparkSession.sparkContext._jvm, rows.sparkSession._jsparkSession
    assert jvm is not None
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    source, target = session.parseDataType(given.json()), session.parseDataType(field.dataType.json())
    if not catalyst.Cast.canANSIStoreAssign(source, target):
        raise SidestepError(
            f"{text!r} is {given.simpleString()}, and column {field.name} of {what} is "
            f"{field.dataType.simpleString()}: cast it."
        )
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    # By ANSI's rules, whatever the session's: a value that does not fit is an error, not another value.
    cast = catalyst.Cast(
        bridge.expression(f.expr(text)._jc), target, jvm.scala.Option.empty(), catalyst.EvalMode.ANSI()
    )
    return Column(bridge.column(cast))
