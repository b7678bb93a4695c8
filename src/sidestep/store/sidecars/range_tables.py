"""Global range tables beside the index: the bits of blocks name the one that gave them, by its identity.

A table is one JSON file of the index folder. Its name is its content's address and it is written once, so a file that
is there is the right one or damaged, and a damaged one is told by its identity.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.predicate.types import DataType
from sidestep.store.location import Location, list_files, open_file, write_addressed
from sidestep.synopsis.build import AskedRanges
from sidestep.synopsis.grt.encoding import GRT, table_of_parts
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.recipe import Recipes

_IDENTITY = re.compile(r"[0-9a-f]{16}")
_NAME = re.compile(rf"_grt-({_IDENTITY.pattern})\.json")


def save_range_table(folder: Location, table: GlobalRangeTable) -> None:
    """Put a table into an index folder; one that is there already stays, and a damaged one is replaced."""
    location = range_table_file(folder, table.identity)
    write_addressed(location, table.to_json().encode(), lambda: _whole(location, table.identity))


def load_range_table(folder: Location, identity: str) -> GlobalRangeTable | None:
    """The table of an index folder by its identity; None if there is none. SidestepError if it is damaged."""
    if not _IDENTITY.fullmatch(identity):
        return None
    location = range_table_file(folder, identity)
    try:
        with open_file(location) as stream:
            table = GlobalRangeTable.from_json(stream.read().decode())
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SidestepError(f"{location.uri} cannot be read: {error}.") from error
    if table.identity != identity:
        raise SidestepError(f"{location.uri} holds another table than its name says.")
    return table


def range_table_file(folder: Location, identity: str) -> Location:
    """Where the table with this identity is kept."""
    return folder.child(f"_grt-{identity}.json")


def named_range_tables(rows: pa.Table) -> set[str]:
    """The tables that the bits of index rows were made by."""
    columns = [rows[name] for name in rows.column_names if name.startswith("grttable:")]
    return {identity for column in columns for identity in column.unique().drop_null().to_pylist()}


def unused_range_tables(folder: Location, named: Collection[str], cutoff: float) -> list[Location]:
    """The tables of an index folder that no entry names and that are older than the cutoff, in milliseconds.

    A younger one may be of a run that has not written its entries yet.
    """
    try:
        found = [(status, _NAME.fullmatch(status.path)) for status in list_files(folder)]
    except FileNotFoundError:
        return []
    return [
        folder.child(status.path)
        for status, match in found
        if match is not None and match[1] not in named and status.modified <= cutoff
    ]


def _whole(location: Location, identity: str) -> bool:
    try:
        return load_range_table(location.parent, identity) is not None
    except SidestepError:
        return False


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
    found = list(blocks)
    for name, type in columns.items():
        column, prefix = f"grtparts:{name}", f"grtpartsprefix:{name}"
        with_parts = [number for number, rows in enumerate(found) if column in rows.column_names]
        if not with_parts:
            continue
        chosen = [found[number] for number in with_parts]
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
            rows = found[number]
            mine = bits[begin : begin + len(rows)]
            begin += len(rows)
            by = [table.identity if table is not None and each else None for each in mine]
            rows = rows.drop_columns([each for each in (column, prefix) if each in rows.column_names])
            rows = rows.append_column(f"grt:{name}", pa.array(mine, pa.large_binary()))
            found[number] = rows.append_column(f"grttable:{name}", pa.array(by, pa.string()))
    return found
