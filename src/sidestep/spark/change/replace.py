"""Files of a table written anew with some of their rows changed or gone, block by block.

Every row that stays is in a block with the rows that it was with: rows of an old block become a block again, with its
zone maps and union vector worked out from the rows that are now in it. Files of other writers have no blocks; their
rows are cut into blocks in the order in which they lie. A file keeps its unit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from sidestep.errors import SidestepError
from sidestep.layout.placement import FilePlan
from sidestep.predicate.text import name_text
from sidestep.spark.expressions import refuse_clock_words
from sidestep.spark.jvm.versions import repartition_by_id
from sidestep.spark.organize.featurize import with_words
from sidestep.spark.organize.write import write_on_spark
from sidestep.spark.relation import every_row, without_block_ids
from sidestep.spark.table.append import not_null, plain, within_length
from sidestep.spark.table.matching import PATH, with_path
from sidestep.spark.table.state import TableState
from sidestep.store import DataFile
from sidestep.store.block_column import block_name
from sidestep.store.parquet.writer import FILE, GROUP, RESERVED, WrittenFile

POSITION, OLD_BLOCK, MATCHES, ACTION = (f"{RESERVED}{name}" for name in ("position", "old_block", "matches", "action"))
"""A row's number in its file, whether its block has an id, whether it is to change; and the number of the clause that
applies to it, 0 if none does."""
RowChange = Callable[[DataFrame], DataFrame]


def with_position(rows: DataFrame) -> DataFrame:
    """The rows with their number in their file: with the file's path, what tells one row of a table from all others."""
    return rows.withColumn(POSITION, f.col("_metadata.row_index"))


def new_name(number: int) -> str:
    """The column that holds the new value of the assigned column of this number."""
    return f"{RESERVED}n{number}"


def file_rows(spark: SparkSession, state: TableState, files: Collection[DataFile]) -> DataFrame:
    """The rows of some files as they are, each with the path of its file and its number in it."""
    snapshot = state.only(tuple(files))
    return with_position(with_path(every_row(spark, snapshot), snapshot))


def write_files(
    spark: SparkSession,
    state: TableState,
    files: Mapping[str, DataFile],
    rows: DataFrame,
    mark: RowChange,
    change: RowChange,
    assigned: Collection[str],
    first: int | None = None,
) -> list[WrittenFile]:
    """The rows that remain of some files, given by their paths as Spark spells them, in new files of their own.

    ``rows`` are those of :func:`file_rows`, ``mark`` gives them the column MATCHES, TRUE or FALSE, and ``change`` makes
    of them what is to be stored. Only rows that match may change, and only in columns that are ``assigned``. Block ids
    begin with ``first``, or with the first that is free.
    """
    # Before anything is changed: a condition sees the row as it was.
    rows = mark(rows)
    plans, numbers, _ = _plan_files(state, files, first)
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
    rows = with_words(change(without_block_ids(rows, state.snapshot)), state.checked)
    # A text stays as its file has it: read and written again it may be spelled, and then read, otherwise.
    for text, name in zip(texts, names, strict=True):
        if name in assigned:
            value = f.col(name_text(name)).cast("string")
            rows = rows.withColumn(text, f.when(f.col(MATCHES), value).otherwise(f.col(text)))
    placed = repartition_by_id(rows, len(plans), f.coalesce(FILE, f.lit(0)))
    arranged = placed.sortWithinPartitions(FILE, *state.target.partition_texts, GROUP, POSITION)
    return write_on_spark(arranged, state.target, plans)


def next_block(state: TableState, files: Mapping[str, DataFile], first: int | None = None) -> int:
    """The first block id that these files leave free when they are written anew."""
    return _plan_files(state, files, first)[2]


def _plan_files(
    state: TableState, files: Mapping[str, DataFile], first: int | None
) -> tuple[list[FilePlan], dict[str, tuple[int, bool]], int]:
    """A plan for each file, by its path the plan's number and whether the file's blocks have ids; the next free id."""
    index, plans, numbers = state.index, [], {}
    units, ids = index.units, index.block_ids
    features = index.features_of_block
    first = block = state.reserve() if first is None else first
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
    return plans, numbers, block


def rows_of(state: TableState, files: Collection[DataFile]) -> int:
    """How many rows files have, as far as the index knows them."""
    positions = state.index.positions(list(files))
    counts = np.bincount(
        state.index.map.file_of_block, weights=state.index.map.rows, minlength=len(state.index.files) + 1
    )
    return int(sum(counts[at] for at in positions if at >= 0))


def own_name(spark: SparkSession, name: str, schema: StructType) -> str:
    """A column as the table spells it: as in Spark, case counts only if the session says so."""
    alike = [own for own in schema.names if own.lower() == name.lower()]
    if name in schema.names or len(alike) != 1 or spark.conf.get("spark.sql.caseSensitive") == "true":
        return name
    return alike[0]


def in_own_names(spark: SparkSession, set: Mapping[str, str], schema: StructType, what: str) -> dict[str, str]:
    """What columns are set to, by the names that the table has for them."""
    values: dict[str, str] = {}
    for name, text in set.items():
        own = own_name(spark, name, schema)
        if own in values:
            raise SidestepError(f"{own} of {what} is set twice.")
        values[own] = text
    return values


def assigned_values(rows: DataFrame, set: Mapping[str, str], schema: StructType, what: str) -> dict[str, Column]:
    """The new value of each column that is set, from an expression over the row; refused if one does not fit."""
    unknown = [name for name in set if name not in schema.names]
    if unknown:
        raise SidestepError(
            f"{what} has no column {', '.join(unknown)}; it has {', '.join(schema.names)}. Names are case-sensitive."
        )
    fields = {name: schema[name] for name in set}
    return {name: not_null(_as_stored(rows, set[name], field, what), field, what) for name, field in fields.items()}


def _same_fields(given: DataType, wanted: DataType) -> bool:
    """Whether structs in two types that go together have the same fields in the same order."""
    match given, wanted:
        case StructType(), StructType():
            pairs = zip(given.fields, wanted.fields, strict=True)
            return all(a.name.lower() == b.name.lower() and _same_fields(a.dataType, b.dataType) for a, b in pairs)
        case ArrayType(), ArrayType():
            return _same_fields(given.elementType, wanted.elementType)
        case MapType(), MapType():
            return _same_fields(given.keyType, wanted.keyType) and _same_fields(given.valueType, wanted.valueType)
    return True


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
        return within_length(f.expr(text), field, rows.sparkSession)
    jvm, session = rows.sparkSession.sparkContext._jvm, rows.sparkSession._jsparkSession
    assert jvm is not None
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    source, target = session.parseDataType(given.json()), session.parseDataType(field.dataType.json())
    said = f"{text!r} is {given.simpleString()}, and column {field.name} of {what} is {field.dataType.simpleString()}"
    if not catalyst.Cast.canANSIStoreAssign(source, target):
        raise SidestepError(f"{said}: cast it.")
    if not _same_fields(given, field.dataType):
        # A cast goes by the place of fields: those of other names would end up in each other's.
        raise SidestepError(f"{said}, with other fields or in another order: put it together by named_struct.")
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    # By ANSI's rules, whatever the session's: a value that does not fit is an error, not another value.
    cast = catalyst.Cast(
        bridge.expression(f.expr(text)._jc), target, jvm.scala.Option.empty(), catalyst.EvalMode.ANSI()
    )
    return within_length(Column(bridge.column(cast)), field, rows.sparkSession)
