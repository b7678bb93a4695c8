"""Adding rows to a laid-out table in one pass: they can be skipped at once, and are laid out when enough have come.

Rows are written where they are, without a shuffle, in blocks of about the layout's size in the order in which they
come. Such blocks have zone maps and union vectors like all others, only not of rows that were brought together; their
files belong to no unit, so ``optimize`` finds and organizes them.
"""

from __future__ import annotations

import json
import os

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from sidestep.errors import SidestepError
from sidestep.layout.placement import FilePlan
from sidestep.predicate.text import name_text
from sidestep.spark.jvm.sessions import leaves_session_active, quiet_session
from sidestep.spark.organize.featurize import with_words
from sidestep.spark.organize.write import with_partition_texts, write_on_spark
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import read_every_row, resolve, without_block_ids
from sidestep.spark.table.column_groups import append_to_groups
from sidestep.spark.table.reports import WriteReport
from sidestep.spark.table.state import TableState, check_rows, commit_files, find_table, open_table
from sidestep.store import Location, Snapshot, locate
from sidestep.store.commit.transaction import with_retries
from sidestep.store.index.index_file import index_folder
from sidestep.store.parquet.writer import FILE, GROUP
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS
from sidestep.store.snapshots.groups import has_groups, inner_table
from sidestep.synopsis.recipe import RecipeText

SPAN = 64
"""Block ids reserved for each task. A task that writes more uses its neighbour's as well: ids then repeat, which costs
some skipping inside those files and nothing else."""
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
"""Where Spark notes that a string is CHAR or VARCHAR, and of which length."""
PLANS = 1_024
"""Tasks beyond this use the same ids again."""


@leaves_session_active
def append(
    spark: SparkSession,
    table: str | os.PathLike[str],
    rows: DataFrame | str | os.PathLike[str],
    *,
    synopses: RecipeText | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Add the rows of a DataFrame, or of the table at a path, to the Delta table at a path or of a name.

    Columns are matched by name. A column that the rows lack becomes NULL; one too many, or one of another type, is an
    error. One atomic commit: readers see all of the rows or none. Of a path every row is read, or it is an error,
    whatever the session is set to ignore; a DataFrame is what it is. Blocks get the synopses that the table has, but
    for columns that ``synopses`` names: those get what it says, in what comes later as well. A table in column groups
    gets the rows in all its groups, laid out as those that it has, and no other synopses than it has.
    """
    location = locate(resolve(spark, table))
    if has_groups(location):
        return _append_to_groups(spark, location, rows, synopses, index_dir, Watch(spark.sparkContext, progress))
    root = find_table(spark, table)
    watch = Watch(spark.sparkContext, progress)

    def work() -> WriteReport:
        given, source = (rows, None) if isinstance(rows, DataFrame) else _read(quiet_session(spark), rows)
        state = open_table(given.sparkSession, root, index_dir, synopses=synopses)
        matched = match_columns(given, state.schema, root.uri)
        with watch.stage("write"):
            written = write_on_spark(prepare_rows(matched, state), state.target, _plan_files(state), by_task=True)
        version = state.snapshot.version
        if not written:
            check_rows(state, source, written)
        else:
            # It depends on nothing that it read but the columns, so no other writer's rows are in its way.
            version = commit_files(
                state, written, (), source=source, operation="WRITE", data_change=True, watch=watch
            ).version
        return WriteReport.of("append", state, version, written, watch.stages, rows=sum(file.rows for file in written))

    # Others may add a column meanwhile: the rows are then written for the columns that there are.
    return with_retries(work)


def _append_to_groups(
    spark: SparkSession,
    root: Location,
    rows: DataFrame | str | os.PathLike[str],
    synopses: RecipeText | None,
    index_dir: str | os.PathLike[str] | None,
    watch: Watch,
) -> WriteReport:
    if synopses is not None or index_dir is not None:
        raise SidestepError(
            f"{root.uri} is in column groups, which keep their synopses: leave synopses and index_dir out."
        )
    groups = COLUMN_GROUPS.load(index_folder(inner_table(root)))
    if groups is None:
        raise SidestepError(f"{root.uri} is damaged: nothing there says which columns lie in which group.")
    schema = StructType.fromJson(json.loads(groups.schema))

    def work() -> WriteReport:
        given, source = (rows, None) if isinstance(rows, DataFrame) else _read(quiet_session(spark), rows)
        matched = match_columns(given, schema, root.uri)
        state, version, written, added = append_to_groups(given.sparkSession, root, matched, source, watch)
        return WriteReport.of("append", state, version, written, watch.stages, rows=added)

    return with_retries(work)


def _read(spark: SparkSession, path: str | os.PathLike[str]) -> tuple[DataFrame, Snapshot]:
    rows, source = read_every_row(spark, path)
    return without_block_ids(rows, source), source


def prepare_rows(rows: DataFrame, state: TableState) -> DataFrame:
    """The rows as the writer wants them: with feature vectors and the texts of partitions, by which they are sorted."""
    texts = with_partition_texts(with_words(rows, state.checked), state.target)
    if state.target.partition_columns:
        texts = texts.sortWithinPartitions(*state.target.partition_texts)
    return texts.withColumns({FILE: f.lit(0), GROUP: f.lit(0)})


def _plan_files(state: TableState) -> list[FilePlan]:
    first = state.reserve(SPAN * PLANS)
    return [FilePlan(first + SPAN * number) for number in range(PLANS)]


def match_columns(rows: DataFrame, schema: StructType, what: str) -> DataFrame:
    """The rows with exactly these columns, in this order; an error that names what does not fit."""
    given = {field.name: field for field in rows.schema.fields}
    extra = [name for name in given if name not in schema.names]
    if extra:
        alike = [name for name in schema.names if name.lower() == extra[0].lower()]
        hint = f" It has {alike[0]}: names are case-sensitive." if alike else " Drop it, or add it to the table first."
        raise SidestepError(f"{what} has no column {', '.join(extra)}.{hint}")
    spark = rows.sparkSession
    matched = (_match_column(field, given.get(field.name), what, spark).alias(field.name) for field in schema.fields)
    return rows.select(*matched)


def _match_column(wanted: StructField, given: StructField | None, what: str, spark: SparkSession) -> Column:
    if given is None:
        if not wanted.nullable:
            raise SidestepError(f"Column {wanted.name} of {what} must not be NULL, and the rows do not have it.")
        return f.lit(None).cast(wanted.dataType)
    if plain(given.dataType) != plain(wanted.dataType):
        raise SidestepError(
            f"Column {wanted.name} of {what} is {wanted.dataType.simpleString()}, and the rows have "
            f"{given.dataType.simpleString()}: cast it."
        )
    return not_null(within_length(f.col(name_text(wanted.name)), wanted, spark), wanted, what)


def within_length(value: Column, field: StructField, spark: SparkSession) -> Column:
    """The value as a column of type CHAR or VARCHAR has it: padded, and an error where it is too long.

    To Spark and Delta these are strings; what they are to hold is in the metadata of the column.
    """
    if _LENGTH not in field.metadata or field.dataType.typeName() != "string":
        return value
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    utils = jvm.org.apache.spark.sql.catalyst.util.CharVarcharUtils
    stated = utils.getRawType(jvm.org.apache.spark.sql.types.Metadata.fromJson(json.dumps(field.metadata)))
    columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
    return Column(columns.column(utils.stringLengthCheck(columns.expression(value._jc), stated.get())))


def not_null(value: Column, field: StructField, what: str) -> Column:
    """The value, or an error where it is NULL and the column must not be."""
    if field.nullable:
        return value
    message = f"Column {field.name} of {what} must not be NULL, and a row has NULL there."
    return f.coalesce(value, f.raise_error(f.lit(message)).cast(field.dataType))


def plain(type: DataType) -> DataType:
    """A type without what it says of NULLs and comments."""
    match type:
        case StructType():
            return StructType([StructField(field.name, plain(field.dataType)) for field in type.fields])
        case ArrayType():
            return ArrayType(plain(type.elementType))
        case MapType():
            return MapType(plain(type.keyType), plain(type.valueType))
    return type
