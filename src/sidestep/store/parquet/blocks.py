"""What each block of a Parquet file contains: one row of the index per row group.

A column's zone map comes from the footer where that is provably as good as the data, else from the data, one column of
one row group at a time. What decides, in this order:

=====================================================  ==============================================================
the file's column                                      its zone map
=====================================================  ==============================================================
is absent                                              all NULL, as Spark reads it
differs from the table's in letter case, is there      unknown: Spark's choice depends on its settings, or Spark
twice, is nested, or is not read value for value       converts the values
has statistics with a NULL count from a believed       footer; string bounds are taken as outer ones, as they may be
writer (:mod:`sidestep.store.parquet.trust`)           truncated
is FLOAT or DOUBLE                                     data: statistics say nothing of NaN
is unsigned, INT96, or anything else                   data
=====================================================  ==============================================================

Dates and timestamps that a session may shift are widened last (:mod:`.trust`). A table whose missing
columns have default values other than NULL (Spark's ``EXISTS_DEFAULT``) must not ask for those columns.

The hidden column of block ids (:mod:`sidestep.store.block_column`) has no zone map; where it is constant, its value is
the row group's block id. What else a layout knows of the blocks it made comes from who made them: :func:`with_layout`.

Other synopses (:mod:`sidestep.synopsis.build`) need the values themselves, as every session reads them. Where a zone
map is unknown or had to be widened they are unknown, and say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from sidestep.errors import DamagedFile, SidestepError
from sidestep.predicate.types import FLOATING, DataType
from sidestep.store.location import Location, open_file, stat
from sidestep.store.parquet.footer import FOOTER, footer_digest
from sidestep.store.parquet.leaf import leaves_by_id, leaves_of, names_agree
from sidestep.store.parquet.scan import FileScan, Sources
from sidestep.store.parquet.trust import writer_of
from sidestep.store.snapshot import DataFile, Field, Partition
from sidestep.store.snapshots.folder import partition_of
from sidestep.synopsis.build import BuildPlan, index_columns
from sidestep.synopsis.values.forms import stored_type

KEYS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64(), nullable=False),
        pa.field("row_group", pa.int32(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)
"""What every index row begins with."""

LAYOUT = pa.schema(
    [
        pa.field("block", pa.int32()),
        pa.field("union", pa.binary()),
        pa.field("features", pa.string()),
        pa.field("unit", pa.string()),
    ]
)
"""What index rows may have besides, of blocks that were laid out. NULL says nothing.

``block`` is the block's id, as the file itself has it; ``union`` its union vector, where feature j is bit j % 8 of byte
j // 8; ``features`` the id of the feature set that the vector is about; ``unit`` what the file was organized as.
"""


def zone_map_columns(column: str, type: DataType) -> dict[str, pa.DataType]:
    """The index columns of one table column, with their Arrow types; none for a type without an order."""
    bound = stored_type(type)
    if bound is None:
        return {}
    names = {f"lower:{column}": bound, f"upper:{column}": bound, f"nulls:{column}": pa.int64()}
    if type.kind in FLOATING:
        names[f"nan:{column}"] = pa.bool_()
    return names


def block_summaries(
    root: Location,
    file: DataFile,
    columns: Mapping[str, DataType],
    sources: Sources | None = None,
    *,
    making: BuildPlan | None = None,
    log_times: bool = False,
    block: str | None = None,
    ids: Mapping[str, int] | None = None,
    fields: Sequence[Field] = (),
) -> pa.Table | None:
    """The index rows of one data file, in row-group order; None if the file is gone or is not the one that was listed.

    Columns have zone maps, and those that ``making`` has a recipe for the other synopses that it names. ``block`` is
    what the table's schema calls the hidden column of block ids, if it has one. ``ids`` are those of columns that a
    reader finds by id: a file in which their names say something else has no index rows. ``fields`` are given where
    columns are found by id whatever their names: then the columns are named by their keys.

    The file is stat-ed before and after: rows that describe a file half old and half new must never carry a key that
    matches. With ``log_times`` (Delta) the key's time is the log's, and only the size is compared to the listing.
    A file without row groups gets one row, of zero rows: nothing can be in it.
    """
    location = root.child(file.path)
    before = stat(location)
    if before is None or before.size != file.size or (before.modified != file.modified and not log_times):
        return None
    try:
        with open_file(location) as stream:
            parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
            if ids and not names_agree(parquet, ids):
                raise DamagedFile(
                    f"{location.uri} has columns whose names are not those that the table has for their ids: it is not "
                    "indexed, and every query reads it."
                )
            table = _table_of(file, parquet, columns, sources or Sources(), making or BuildPlan(), block, fields)
            if not log_times:  # a Delta log never uses a name twice
                table = table.append_column(FOOTER, pa.array([footer_digest(stream)] * len(table), FOOTER.type))
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError, ValueError) as error:
        if stat(location) != before:
            return None
        raise DamagedFile(
            f"{location.uri} cannot be read as Parquet: {error}. Replace the file or take it out of the table."
        ) from error
    return table if stat(location) == before else None


def _table_of(
    file: DataFile,
    parquet: pq.ParquetFile,
    columns: Mapping[str, DataType],
    sources: Sources,
    plan: BuildPlan,
    block: str | None,
    table_fields: Sequence[Field],
) -> pa.Table:
    footer = parquet.metadata
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    rows = [group.num_rows for group in groups] or [0]
    sizes = [sum(group.column(i).total_compressed_size for i in range(group.num_columns)) for group in groups] or [0]
    count = len(rows)
    arrays = [
        pa.array([file.path] * count, pa.string()),
        pa.array([file.size] * count, pa.int64()),
        pa.array([file.modified] * count, pa.int64()),
        pa.array(range(count), pa.int32()),
        pa.array(rows, pa.int64()),
        pa.array(sizes, pa.int64()),
    ]
    fields = list(KEYS)
    for name, value in _certain_partition(file):
        fields.append(pa.field(f"part:{name}", pa.string()))
        arrays.append(pa.array([value] * count, pa.string()))
    leaves = leaves_by_id(parquet, columns, table_fields) if table_fields else leaves_of(parquet)
    scan = FileScan(parquet, leaves, writer_of(footer.created_by, footer.metadata), rows, sources)
    partition = {name for name, _ in file.partition}
    # Who plans knows how many files there are; other files are likely to have as many blocks as this one.
    plan = replace(plan.at(file.partition), partitions=count * plan.partitions)
    for column, type in columns.items():
        if column in partition:
            continue  # Spark takes the folder's value, whatever the file says
        zone_columns = zone_map_columns(column, type)
        if not zone_columns:
            continue
        summaries, synopses = scan.column(column, type, plan)
        for name, arrow in zone_columns.items():
            part = name.partition(":")[0]
            fields.append(pa.field(name, arrow))
            arrays.append(pa.array([getattr(summary, part) for summary in summaries], arrow))
        for name, array in index_columns(column, type, synopses, plan).items():
            fields.append(pa.field(name, array.type))
            arrays.append(array)
    if block is not None and block in scan.leaves and block not in partition:
        fields.append(LAYOUT.field("block"))
        arrays.append(pa.array(scan.block_ids(block), pa.int32()))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def with_layout(rows: pa.Table, unions: Sequence[bytes | None], features: str | None, unit: str | None) -> pa.Table:
    """The index rows of one file together with what its layout knows: a union vector for each row group, in order.

    Contract: bit j of a union vector is 0 only if no row of that row group, *as any session reads it back*, makes
    feature j of the feature set ``features`` TRUE. Two things can break that after the rows were looked at: Spark moves
    old dates and timestamps of files that do not name their writer (``org.apache.spark.version`` in the footer), so a
    file to be laid out must; and what a value is cut to on writing (nanoseconds, say) is what a feature must be
    evaluated on. A union vector of None is unknown, and skips nothing.

    >>> rows = pa.table({"row_group": [0, 1]})
    >>> with_layout(rows, [b"\\x01", None], "f1", "1994-01").to_pylist()[0]
    {'row_group': 0, 'union': b'\\x01', 'features': 'f1', 'unit': '1994-01'}
    """
    if len(unions) != len(rows):
        raise SidestepError(f"{len(rows)} blocks need a union vector each (or None), but {len(unions)} were given.")
    if features is None and any(union is not None for union in unions):
        raise SidestepError("A union vector says nothing without its features: give the id of the feature set.")
    added: dict[str, list[bytes | None] | list[str | None]] = {
        "union": list(unions),
        "features": [features] * len(rows),
        "unit": [unit] * len(rows),
    }
    rows = rows.drop_columns([name for name in added if name in rows.column_names])
    for name, values in added.items():
        rows = rows.append_column(LAYOUT.field(name), pa.array(values, LAYOUT.field(name).type))
    return rows


def _certain_partition(file: DataFile) -> Partition:
    """The partition values that do not depend on how the table is read.

    A Delta table can be read as a folder of Parquet files too, with the values that the paths spell. Writers that do
    not escape as Spark does make those differ from the log's, and one index serves both ways.
    """
    spelled = dict(partition_of(file.path))
    return tuple((name, value) for name, value in file.partition if spelled.get(name, value) == value)
