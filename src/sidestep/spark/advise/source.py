"""The table that a layout is chosen for: its rows and columns as users see them, at one moment."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from sidestep.errors import UnsupportedTable
from sidestep.predicate import DataType, parse_type
from sidestep.spark.relation import read_every_row, resolve
from sidestep.store import Location, Snapshot
from sidestep.store.block_column import block_name, without_block_column
from sidestep.store.commit.log_entry import foreign_types
from sidestep.store.parquet.writer import RESERVED

_DEFAULTS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""What Spark notes of a column that has a default value."""


@dataclass(frozen=True)
class Source:
    """A table to load or to advise on."""

    name: str
    """What a log calls it."""
    path: str
    snapshot: Snapshot
    schema: StructType
    """As users see it: without the ids of blocks."""
    rows: DataFrame

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Those of a Delta table; of a folder of Parquet files they become columns like any other."""
        return self.snapshot.partition_columns if self.snapshot.format == "delta" else ()

    @property
    def types(self) -> dict[str, DataType]:
        """The columns that get zone maps."""
        return data_columns(self.schema, self.partition_columns)


def read_source(spark: SparkSession, table: str | os.PathLike[str], name: str) -> Source:
    """The table at a path, or of a name in the catalog: every row of it.

    A log calls it ``name``. It is refused if a column could not be kept as it is.
    """
    path = resolve(spark, table)
    rows, snapshot = read_every_row(spark, table)
    schema = snapshot.schema or _without_defaults(rows.schema).json()
    if (hidden := block_name(schema)) is not None:
        schema, rows = without_block_column(schema), rows.drop(hidden)
    fields = json.loads(schema)["fields"]
    check_names(snapshot.root, [field["name"] for field in fields])
    for field in fields:
        if foreign := next(foreign_types(field["type"]), None):
            raise UnsupportedTable(
                f"Column {field['name']} of {snapshot.root.uri} is of type {foreign}, which a Delta table cannot hold: "
                "cast it to another type first."
            )
    return Source(name, path, snapshot, StructType.fromJson({"type": "struct", "fields": fields}), rows)


def _without_defaults(schema: StructType) -> StructType:
    """The columns of rows that have their values: what a catalog has them get by default is no part of a new table."""
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                field.nullable,
                {name: value for name, value in field.metadata.items() if name not in _DEFAULTS},
            )
            for field in schema.fields
        ]
    )


def check_names(root: Location, names: Sequence[str]) -> None:
    """Refuse a table with a column that has a name of sidestep's own."""
    for name in names:
        if name.lower().startswith(RESERVED):
            raise UnsupportedTable(
                f"{root.uri} has a column {name}, a name that sidestep needs for itself: rename it first."
            )


def data_columns(schema: StructType, partition_columns: Sequence[str]) -> dict[str, DataType]:
    """The columns in a table's files that get zone maps: those of an ordered type."""
    fields = [field for field in schema.fields if field.name not in partition_columns]
    types = {field.name: parse_type(field.dataType.simpleString()) for field in fields}
    return {name: type for name, type in types.items() if type.ordered}
