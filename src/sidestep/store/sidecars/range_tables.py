"""Global range tables beside the index, as addressed sidecars: the bits of blocks name the table that gave them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from sidestep.errors import check_format
from sidestep.predicate.types import DataType
from sidestep.store.location import Location
from sidestep.store.sidecars.sidecar import Addressed, JsonObject
from sidestep.synopsis.build import AskedRanges
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.grt.encoding import table_of_parts
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.recipe import Recipes

FORMAT = 2
"""1 did not say its number. The number is no part of a table's identity."""


def _dump(table: GlobalRangeTable) -> JsonObject:
    return {"format": FORMAT, **json.loads(table.to_json())}


def _parse(written: JsonObject, source: str) -> GlobalRangeTable:
    check_format(written.get("format", 1), FORMAT, f"The global range table {source}")
    return GlobalRangeTable.from_json(json.dumps(written))


RANGE_TABLES: Addressed[GlobalRangeTable] = Addressed(
    "grt", 16, lambda table: table.identity, _dump, _parse, indent=None
)


def save_range_table(folder: Location, table: GlobalRangeTable) -> None:
    """Put a table into an index folder; one that is there already stays, and a damaged one is replaced."""
    RANGE_TABLES.save(folder, table)


def load_range_table(folder: Location, identity: str) -> GlobalRangeTable | None:
    """The table of an index folder by its identity; None if there is none. SidestepError if it is damaged."""
    return RANGE_TABLES.load(folder, identity)


def names_range_table(column: str) -> bool:
    """Whether an index column holds the addresses of range tables."""
    return column.startswith("grttable:")


def named_range_tables(rows: pa.Table) -> set[str]:
    """The tables that the bits of index rows were made by."""
    columns = [rows[name] for name in rows.column_names if names_range_table(name)]
    return {identity for column in columns for identity in column.unique().drop_null().to_pylist()}


def with_range_tables(
    folder: Location,
    blocks: Sequence[pa.Table],
    columns: Mapping[str, DataType],
    recipes: Recipes,
    asked: AskedRanges | None = None,
) -> list[pa.Table]:
    """Index rows whose parts have become bits, by tables made of them and put into the index folder.

    Columns that a table existed for have bits already, and no parts.
    """
    tables = list(blocks)
    for name, type in columns.items():
        column, prefix = f"grtparts:{name}", f"grtpartsprefix:{name}"
        with_parts = [number for number, rows in enumerate(tables) if column in rows.column_names]
        if not with_parts:
            continue
        chosen = [tables[number] for number in with_parts]
        parts = pa.chunked_array([chunk for rows in chosen for chunk in rows[column].chunks], chosen[0][column].type)
        prefixes = None
        if all(prefix in rows.column_names for rows in chosen):
            prefixes = pa.chunked_array([chunk for rows in chosen for chunk in rows[prefix].chunks], pa.binary())
        asking = (asked or {}).get(name, ())
        table, bits = table_of_parts(type, parts, prefixes, recipes[name].widest.size(GRT), asking)
        if table is not None:
            save_range_table(folder, table)
        begin = 0
        for number in with_parts:
            rows = tables[number]
            mine = bits[begin : begin + len(rows)]
            begin += len(rows)
            by = [table.identity if table is not None and each else None for each in mine]
            rows = rows.drop_columns([each for each in (column, prefix) if each in rows.column_names])
            rows = rows.append_column(f"grt:{name}", pa.array(mine, pa.large_binary()))
            tables[number] = rows.append_column(f"grttable:{name}", pa.array(by, pa.string()))
    return tables
