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
writer (:mod:`sidestep.store.writers`)                 truncated
is FLOAT or DOUBLE                                     data: statistics say nothing of NaN
is unsigned, INT96, or anything else                   data
=====================================================  ==============================================================

Dates and timestamps that a session may shift are widened last (:mod:`sidestep.store.calendar`). A table whose missing
columns have default values other than NULL (Spark's ``EXISTS_DEFAULT``) must not ask for those columns.

The hidden column ``_block`` has no zone map; where it is constant, its value is the row group's block id. What else a
layout knows of the blocks it made comes from who made them: :func:`with_layout`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidestep.errors import DamagedFile, SidestepError
from sidestep.predicate.types import FLOATING, INTEGER, DataType
from sidestep.store.blockcolumn import BLOCK
from sidestep.store.calendar import widen_for_calendar
from sidestep.store.datafile import DataFile, Partition
from sidestep.store.files import Location, open_file, stat
from sidestep.store.folder import partition_of
from sidestep.store.leaf import Leaf, Reading, leaves_of, reading_of
from sidestep.store.writers import Writer, writer_of
from sidestep.synopsis.stored import stored_type
from sidestep.synopsis.summary import UNKNOWN, ColumnSummary, summarize

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


@dataclass(frozen=True, slots=True)
class Sources:
    """Where zone maps may come from."""

    footers: bool = True
    """Believe the footers of known writers; False reads all data."""
    float_footers: bool = False
    """Take float bounds from footers as well. NaN is then unknown, and filters that NaN satisfies skip nothing."""


def zone_map_columns(column: str, type: DataType) -> dict[str, pa.DataType]:
    """The index columns of one table column, with their Arrow types; none for block ids or a type without an order."""
    bound = stored_type(type)
    if bound is None or (column == BLOCK and type == INTEGER):
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
    log_times: bool = False,
) -> pa.Table | None:
    """The index rows of one data file, in row-group order; None if the file is gone or is not the one that was listed.

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
            table = _table_of(file, parquet, columns, sources or Sources())
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError, ValueError) as error:
        if stat(location) != before:
            return None
        raise DamagedFile(
            f"{location.uri} cannot be read as Parquet: {error}. Replace the file or take it out of the table."
        ) from error
    return table if stat(location) == before else None


def _table_of(file: DataFile, parquet: pq.ParquetFile, columns: Mapping[str, DataType], sources: Sources) -> pa.Table:
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
    scan = _Scan(parquet, leaves_of(parquet), writer_of(footer.created_by, footer.metadata), rows, sources)
    partition = {name for name, _ in file.partition}
    for column, type in columns.items():
        if column in partition:
            continue  # Spark takes the folder's value, whatever the file says
        index_columns = zone_map_columns(column, type)
        if index_columns:
            summaries = scan.summaries(column, type)
        for name, arrow in index_columns.items():
            part = name.partition(":")[0]
            fields.append(pa.field(name, arrow))
            arrays.append(pa.array([getattr(summary, part) for summary in summaries], arrow))
    if BLOCK in scan.leaves and BLOCK not in partition:
        fields.append(LAYOUT.field("block"))
        arrays.append(pa.array(scan.block_ids(), pa.int32()))
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


@dataclass(frozen=True, slots=True)
class _Scan:
    """One open file, and what is needed to summarize any of its columns."""

    parquet: pq.ParquetFile
    leaves: Mapping[str, Leaf | None]
    writer: Writer
    rows: Sequence[int]
    sources: Sources

    def summaries(self, column: str, type: DataType) -> list[ColumnSummary]:
        """The column's zone map in each row group."""
        alike = [name for name in self.leaves if name.lower() == column.lower()]
        if not alike:
            return [_without_values(rows, type) for rows in self.rows]
        leaf = self.leaves[column] if alike == [column] else None
        reading = reading_of(leaf, type) if leaf is not None else None
        if leaf is None or reading is None:
            return [UNKNOWN for _ in self.rows]
        return [self._summary(leaf, reading, type, group) for group in range(len(self.rows))]

    def block_ids(self) -> list[int | None]:
        """The one value that the hidden column has in each row group; None where there is no such value.

        Only a plain INT32 column counts: a condition on ids has to mean the same to Parquet's statistics and to Spark.
        """
        leaf = self.leaves[BLOCK]
        if leaf is None or (leaf.physical, leaf.logical) != ("INT32", "NONE"):
            return [None for _ in self.rows]
        return [_single(found) for found in self.summaries(BLOCK, INTEGER)]

    def _summary(self, leaf: Leaf, reading: Reading, type: DataType, group: int) -> ColumnSummary:
        if self.rows[group] == 0:
            return _without_values(0, type)
        summary = self._from_footer(leaf, reading, type, group) or self._from_data(leaf, type, group)
        if summary.nulls == self.rows[group]:
            return summary
        if reading.within is not None and not _inside(summary, reading.within):
            return UNKNOWN
        return widen_for_calendar(summary, type.kind, self.writer, int96=leaf.int96)

    def _from_footer(self, leaf: Leaf, reading: Reading, type: DataType, group: int) -> ColumnSummary | None:
        floating = type.kind in FLOATING
        if reading.from_footer is None or not self.sources.footers or not self.writer.believed(leaf.physical):
            return None
        if floating and not self.sources.float_footers:
            return None
        chunk = self.parquet.metadata.row_group(group).column(leaf.position)
        statistics = chunk.statistics
        rows = self.rows[group]
        if statistics is None or not statistics.has_null_count or chunk.num_values != rows:
            return None
        nulls = statistics.null_count
        if nulls == rows:
            return _without_values(rows, type)
        if not statistics.has_min_max or not 0 <= nulls < rows:
            return None
        low, high = statistics.min_raw, statistics.max_raw
        if floating and (math.isnan(low) or math.isnan(high)):
            return None
        lower, upper = reading.from_footer(low, True), reading.from_footer(high, False)
        if lower is not None and upper is not None and lower > upper:  # type: ignore[operator]
            return None  # no order that could be right
        return ColumnSummary(lower, upper, nulls)

    def _from_data(self, leaf: Leaf, type: DataType, group: int) -> ColumnSummary:
        table = self.parquet.read_row_group(group, columns=[leaf.name], use_threads=False)
        position = table.schema.get_field_index(leaf.name)
        if position < 0 or table.num_rows != self.rows[group]:
            return UNKNOWN
        return summarize(_as_stored(table.column(position), leaf), type)


def _certain_partition(file: DataFile) -> Partition:
    """The partition values that do not depend on how the table is read.

    A Delta table can be read as a folder of Parquet files too, with the values that the paths spell. Writers that do
    not escape as Spark does make those differ from the log's, and one index serves both ways.
    """
    spelled = dict(partition_of(file.path))
    return tuple((name, value) for name, value in file.partition if spelled.get(name, value) == value)


def _without_values(rows: int, type: DataType) -> ColumnSummary:
    return ColumnSummary(nulls=rows, nan=False if type.kind in FLOATING else None)


def _as_stored(array: pa.ChunkedArray, leaf: Leaf) -> pa.ChunkedArray:
    """The values as Parquet has them, where an embedded Arrow schema dressed them up as something else."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if isinstance(array.type, pa.BaseExtensionType):
        array = pa.chunked_array([chunk.storage for chunk in array.chunks], array.type.storage_type)
    if pa.types.is_string(array.type):
        return array.cast(pa.binary())  # bytes that are not UTF-8 are values as well
    if pa.types.is_large_string(array.type):
        return array.cast(pa.large_binary())
    if pa.types.is_duration(array.type) and leaf.logical == "NONE":
        return pc.cast(array, pa.int64())
    return array


def _single(summary: ColumnSummary) -> int | None:
    """The value that every row has. Ids are not negative: -1 is for a block without one."""
    lower, upper = summary.lower, summary.upper
    return lower if summary.nulls == 0 and isinstance(lower, int) and 0 <= lower == upper else None


def _inside(summary: ColumnSummary, within: tuple[int, int]) -> bool:
    lower, upper = summary.lower, summary.upper
    return isinstance(lower, int) and isinstance(upper, int) and within[0] <= lower and upper <= within[1]
