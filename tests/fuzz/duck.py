"""DuckDB as an oracle: another system's answer, from the files as another reader reads them.

It sees what on and off have in common: a table that sidestep itself reads wrongly, a history that lost rows. Only
queries that both dialects mean alike are asked; which these are is known to the grammar that wrote them.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from pyspark.sql import DataFrame
from sqlglot.errors import SqlglotError

from tests.fuzz.build import delta_rows
from tests.fuzz.oracle import Asked, Outcome, Spy, difference
from tests.fuzz.values import ARROW
from tests.fuzz.world import TableSpec, WorldSpec
from tests.spark.tables import data_files


class Duck:
    """The tables of a world in DuckDB, read when first asked for and once more when they may have changed."""

    def __init__(self, world: WorldSpec, root: Path) -> None:
        self.world, self.root = world, root
        self.connection: duckdb.DuckDBPyConnection | None = None

    def connect(self) -> duckdb.DuckDBPyConnection:
        if self.connection is None:
            self.connection = duckdb.connect(config={"threads": "1"})
            for name, table in self.world.tables.items():
                rows = _without_zones(_table_rows(table, self.root / name))
                self.connection.register(f"{name}_rows", rows)
                self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
        return self.connection

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def __call__(self, asked: Asked, frame: DataFrame, expected: list[str], spy: Spy) -> Outcome:
        """Hold the rows of a query that has run against DuckDB's."""
        connection = self.connect()  # outside: tables that cannot be read are no matter of dialect
        try:
            text = sqlglot.transpile(asked.query, read="spark", write="duckdb")[0]
            theirs = connection.execute(text).fetchall()
        except (SqlglotError, duckdb.Error):
            return Outcome(oracles=("duckdb does not know it",))
        ours, theirs_plain = _plain(map(tuple, frame.collect())), _plain(theirs)
        if ours != theirs_plain:
            return Outcome(difference(theirs_plain, ours, "on (off is DuckDB)"), rows=len(expected))
        return Outcome(oracles=("duckdb",))


def _table_rows(table: TableSpec, root: Path) -> pa.Table:
    schema = pa.schema([(name, ARROW[kind]) for name, kind in table.columns.items()])
    if table.form not in ("plain", "catalog"):
        return delta_rows(root).select(list(table.columns)).cast(schema)
    parts = []
    for path in data_files(root):
        rows = pq.ParquetFile(path).read()
        if table.partition is not None:
            text = unquote(path.parent.name.partition("=")[2])
            found = None if text == "__HIVE_DEFAULT_PARTITION__" else text
            rows = rows.append_column(table.partition, pa.array([found] * len(rows), pa.string()))
        for field in schema:
            if field.name not in rows.column_names:
                rows = rows.append_column(field, pa.nulls(len(rows), field.type))
        parts.append(rows.select(schema.names).cast(schema))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _without_zones(rows: pa.Table) -> pa.Table:
    """Times with a zone as times in UTC: for others DuckDB needs an extension."""
    for number, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            rows = rows.set_column(number, field.name, rows[number].cast(pa.timestamp("us")))
    return rows


def _plain(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    return sorted(repr(tuple(map(_value, row))) for row in rows)


def _value(value: Any) -> Any:
    """A value as both systems have it: numbers by value, times in UTC, strings and binaries as they are."""
    match value:
        case bool():
            return value
        case int():
            return str(value)
        case float():
            return "nan" if math.isnan(value) else str(int(value)) if value.is_integer() else repr(value)
        case decimal.Decimal():
            return str(int(value)) if value == value.to_integral() else str(value.normalize())
        case datetime.datetime():
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return value.isoformat()
        case bytearray() | bytes() | memoryview():
            return bytes(value).hex()
        case dict():
            return {key: _value(each) for key, each in value.items()}
        case list() | tuple():
            return [_value(each) for each in value]
        case _:
            return value
