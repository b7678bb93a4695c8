"""Tables as DataFrames: a Parquet folder as Spark reads it, a Delta table from its log, with no jar."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from sidestep.errors import TableNotFound, UnsupportedTable
from sidestep.render import counted
from sidestep.spark.jvm.bridge import Bridge, check_session
from sidestep.spark.jvm.sessions import STRICT, pinned_session, quiet_session
from sidestep.spark.jvm.wire import pack_files, pack_numbers
from sidestep.store import Location, Snapshot, read_snapshot
from sidestep.store.block_column import block_name
from sidestep.store.index.grouped_table import GroupedTable, read_groups
from sidestep.store.sidecars.column_groups import ROW_ID, UNIT, ColumnGroups
from sidestep.store.snapshots.iceberg import iceberg_snapshot

_DETAILS = "# Detailed Table Information"
"""Where Spark's description of a table comes from its columns to what else is known of it."""
_PATH = re.compile(r"(?:[A-Za-z][\w.+-]*:)?(?://[^/]*)?(/.*)")
PATH_PROPERTY = "sidestep.path"
"""What says, of a name in the catalog that was registered, which folder it stands for."""


def read(spark: SparkSession, table: str | os.PathLike[str], *, version: int | None = None) -> DataFrame:
    """The table at a path (or of a name in the catalog), at ``version`` or the newest if it is a Delta table.

    A Parquet folder is read by ``spark.read.parquet``, or by ``spark.table`` if it is given by its name: the catalog
    knows columns and partitions that the folder does not tell. A Delta table is read through its log: the files of one
    version, whatever others commit meanwhile. Queries on it skip files if it is indexed and sidestep is enabled, and of
    a table that sidestep laid out also blocks inside files; the column that holds the ids of the blocks is not shown. A
    table in column groups can be read only where sidestep is enabled, which puts its rows together. An Iceberg table,
    which is given by its name, is read by Iceberg.
    """
    if iceberg_of(spark, table) is not None:
        if version is None:
            return spark.table(os.fspath(table))
        return spark.read.option("versionAsOf", version).table(os.fspath(table))
    path = resolve(spark, table)
    grouped = read_groups(path, version)
    if grouped is not None:
        return _frame(spark, _grouped_relation(spark, grouped, grouped.groups.schema))
    snapshot = read_snapshot(path, version)
    if snapshot.format == "parquet":
        return spark.table(os.fspath(table)) if _is_catalog_table(spark, table) else spark.read.parquet(path)
    rows = from_snapshot(spark, snapshot)
    return without_block_ids(rows, snapshot)


def without_block_ids(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """The rows as users see them: without the hidden column."""
    hidden = block_name(snapshot.schema)
    return rows if hidden is None else rows.drop(hidden)


def read_every_row(spark: SparkSession, table: str | os.PathLike[str]) -> tuple[DataFrame, Snapshot]:
    """The newest version of a table as it is stored, and its files: every row of them or an error.

    A folder of Parquet files has no schema of its own, nor a calendar: what its files mean is what this session's
    settings say. That some of them are left out is not. Given by a name of the catalog, its columns and the values of
    its partitions are the catalog's; it is refused if the catalog's files are not those of the folder.
    """
    path = resolve(spark, table)
    snapshot = read_snapshot(path)
    if snapshot.format != "parquet":
        return every_row(spark, snapshot), snapshot
    if not _is_catalog_table(spark, table):
        return spark.read.options(**STRICT).parquet(path), snapshot
    return _named_folder(spark, os.fspath(table), snapshot), snapshot


def _named_folder(spark: SparkSession, name: str, snapshot: Snapshot) -> DataFrame:
    """A table of the catalog in a folder of Parquet files: it has each file of the folder, and no other."""
    held = {path_of(snapshot.root.child(file.path).uri) for file in snapshot.files}

    def rows() -> DataFrame:
        return spark.read.options(**STRICT).table(name)

    def listed() -> set[str]:
        return {path_of(unquote(path)) for path in rows().inputFiles()}

    if listed() != held:
        spark.catalog.refreshTable(name)  # what was listed before may be what there was then
        others = listed()
        if others != held:
            raise UnsupportedTable(
                f"The table {name} of the catalog is not what its folder {snapshot.root.uri} holds: the table has "
                f"{counted(len(others - held), 'file')} elsewhere, and the folder "
                f"{counted(len(held - others), 'file')} of no partition of the table. Write its "
                "rows into a folder of their own and take that; or give the folder's path, if its "
                "files are the table that you mean."
            )
    return rows()


def every_row(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """The rows of a Delta snapshot for a job that writes them anew: all of them as they are, or an error.

    What a query leaves out because of a setting is missing once; what a rewrite leaves out is gone. So files are read
    by settings of their own (:func:`sidestep.spark.jvm.sessions.pinned_session`), and only expressions over the rows
    are of this session.
    """
    bridge = Bridge(spark)
    names = StructType.fromJson(json.loads(snapshot.schema or "{}")).names
    reader = pinned_session(spark, names)
    plan = bridge.factory().readBy(_relation(spark, snapshot), reader._jsparkSession)
    return _frame(spark, plan)


def every_grouped_row(spark: SparkSession, table: GroupedTable) -> DataFrame:
    """The rows of a table in column groups for a job that changes it, each with its unit and its id.

    They can be worked out in a session of :func:`groups_session` alone; to the planner of any other it is one relation.
    """
    groups = table.groups
    schema = StructType.fromJson(json.loads(groups.schema))
    keyed = StructType([*schema.fields, StructField(UNIT, IntegerType()), StructField(ROW_ID, LongType())])
    reader = pinned_session(spark, keyed.names)
    relation = _grouped_relation(spark, table, keyed.json(), (UNIT, ROW_ID))
    return _frame(spark, Bridge(spark).factory().readBy(relation, reader._jsparkSession))


def groups_session(spark: SparkSession) -> SparkSession:
    """A copy of the session in which nothing is skipped, and rows of column groups are put together."""
    copy = quiet_session(spark)
    Bridge(spark).factory().putTogether(copy._jsparkSession)
    return copy


def in_session(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """Rows of another session as rows of this one."""
    return _frame(spark, rows._jdf.queryExecution().analyzed())


def from_snapshot(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """A DataFrame over exactly the files of a Delta snapshot."""
    return _frame(spark, _relation(spark, snapshot))


def _frame(spark: SparkSession, plan: Any) -> DataFrame:
    dataset = Bridge(spark).jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(dataset, spark)


def relation_at(spark: SparkSession, table: Location, version: int) -> tuple[Any, Snapshot, GroupedTable | None]:
    """A version of a Delta table as a logical plan of the JVM, with its files and, if it has any, its column groups."""
    grouped = read_groups(table, version)
    if grouped is not None:
        return _grouped_relation(spark, grouped, grouped.groups.schema), grouped.snapshot, grouped
    snapshot = read_snapshot(table, version)
    return _relation(spark, snapshot), snapshot, None


def _relation(spark: SparkSession, snapshot: Snapshot) -> Any:
    bridge = Bridge(spark)
    paths, numbers = _packed(snapshot)
    partitions = [dict(file.partition) for file in snapshot.files]
    return bridge.factory().snapshot(
        spark._jsparkSession,
        _identity(snapshot, paths, numbers),
        snapshot.root.uri,
        snapshot.schema,
        _java_list(bridge, snapshot.partition_columns),
        paths,
        numbers,
        _java_list(bridge, [values.get(column) for values in partitions for column in snapshot.partition_columns]),
    )


def _grouped_relation(spark: SparkSession, table: GroupedTable, schema: str, keys: tuple[str, ...] = ()) -> Any:
    """A table in column groups with these columns; with ``keys``, which every group has, it is read by a job."""
    bridge = Bridge(spark)
    groups, snapshot = table.groups, table.snapshot
    held = ((*columns, *keys) for columns in groups.groups)
    columns_of_groups = [columns if number in table.live else () for number, columns in enumerate(held)]
    paths, numbers = _packed(snapshot)
    rows_of_groups = [_rows_of_group(groups, number) for number in range(len(groups.groups))]
    parts = (groups.schema, columns_of_groups, rows_of_groups, groups.buckets)
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()
    return bridge.factory().groups(
        spark._jsparkSession,
        f"{_identity(snapshot, paths, numbers)}#{digest}",
        table.root.uri,
        snapshot.root.uri,
        schema,
        _java_list(bridge, [_java_list(bridge, columns) for columns in columns_of_groups]),
        pack_numbers(rows_of_groups),
        groups.buckets,
        block_name(snapshot.schema),
        paths,
        numbers,
        pack_numbers(table.group_of_file),
        bool(keys),
    )


def _rows_of_group(groups: ColumnGroups, number: int) -> int:
    """Which rows a group has, as ``GroupedFiles.java`` is told: -1 all, -2 some, else those that this group lacks."""
    some = groups.rows.get(number)
    return -1 if some is None else -2 if some.rest_of is None else some.rest_of


def _packed(snapshot: Snapshot) -> tuple[str, str]:
    files = snapshot.files
    return pack_files([file.path for file in files], [f.size for f in files], [f.modified for f in files])


def _java_list(bridge: Bridge, items: Iterable[Any]) -> Any:
    made: Any = bridge.jvm.java.util.ArrayList()
    for item in items:
        made.add(item)
    return made


def _identity(snapshot: Snapshot, paths: str, numbers: str) -> str:
    """Equal for two snapshots only if they are of the same files of the same table.

    Spark answers one plan by the cached result of another if their relations are equal. Place and version do not tell
    two tables apart: they start anew when a table is dropped and made again, and a log that is restored from a copy
    goes on differently from there.
    """
    values = [file.partition for file in snapshot.files] if snapshot.partition_columns else []
    digest = hashlib.sha256(repr((snapshot.table_id, snapshot.schema, snapshot.partition_columns, values)).encode())
    for text in (paths, numbers):
        digest.update(text.encode(errors="surrogatepass"))
    return f"{snapshot.root.uri}@{snapshot.version}#{digest.hexdigest()}"


def iceberg_of(spark: SparkSession, table: str | os.PathLike[str]) -> Snapshot | None:
    """The snapshot of an Iceberg table, given by its name, that queries of this session read; None for any other."""
    check_session(spark)
    text = os.fspath(table)
    if _is_path(text) or not _in_catalog(spark, text):
        return None
    told = Bridge(spark).factory().icebergTable(spark.table(text)._jdf.queryExecution().analyzed())
    return iceberg_snapshot(told) if told else None


def resolve(spark: SparkSession, table: str | os.PathLike[str]) -> str:
    """The folder of a table given by its path or by its name in the catalog."""
    check_session(spark)
    text = os.fspath(table)
    if _is_path(text) or not _in_catalog(spark, text):
        return text
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {text}").collect()
    # The columns come first, one of which may be called Location.
    names = [row["col_name"] for row in rows]
    start = names.index(_DETAILS) if _DETAILS in names else len(names)
    for row in rows[start:]:
        if row["col_name"] == "Location":
            return str(row["data_type"])
    for row in spark.sql(f"SHOW TBLPROPERTIES {text}").collect():
        if row["key"] == PATH_PROPERTY:
            return str(row["value"])
    raise TableNotFound(f"The catalog names no folder for table {text}: give the path of its files instead.")


def _is_catalog_table(spark: SparkSession, table: str | os.PathLike[str]) -> bool:
    """Whether it is the name of a table in the catalog that has a folder, and no view."""
    text = os.fspath(table)
    if _is_path(text) or not _in_catalog(spark, text):
        return False
    return spark.catalog.getTable(text).tableType in ("MANAGED", "EXTERNAL")


def has_path(root: str) -> bool:
    """Whether a Hadoop path string has an absolute path."""
    return _PATH.fullmatch(root) is not None


def path_of(root: str) -> str:
    """The path of a Hadoop path string, without scheme and authority."""
    match = _PATH.fullmatch(root)
    return match[1] if match else root


def name_of(table: str | os.PathLike[str], root: Location) -> str:
    """What a log calls a table unless someone says otherwise: its name in the catalog, or that of its folder."""
    text = os.fspath(table)
    return root.name if _is_path(text) else text


def _is_path(text: str) -> bool:
    return "/" in text or text.startswith((".", "~"))


def _in_catalog(spark: SparkSession, table: str) -> bool:
    try:
        return spark.catalog.tableExists(table)
    except AnalysisException:
        return False
