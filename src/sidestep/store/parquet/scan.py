"""One open data file: the zone maps and the values of any of its columns, row group by row group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidestep.predicate.types import FLOATING, INTEGER, INTEGRAL, DataType
from sidestep.store.parquet.leaf import Leaf, Reading, reading_of
from sidestep.store.parquet.trust import Writer, widen_for_calendar
from sidestep.synopsis.build import BuildPlan, block_synopses
from sidestep.synopsis.values.summary import UNKNOWN, ColumnSummary, summarize


@dataclass(frozen=True, slots=True)
class Sources:
    """Where zone maps may come from."""

    footers: bool = True
    """Believe the footers of known writers; False reads all data."""
    float_footers: bool = False
    """Take float bounds from footers as well. NaN is then unknown, and filters that NaN satisfies skip nothing."""


@dataclass(frozen=True, slots=True)
class FileScan:
    """One open file, and what is needed to summarize any of its columns."""

    parquet: pq.ParquetFile
    leaves: Mapping[str, Leaf | None]
    writer: Writer
    rows: Sequence[int]
    sources: Sources

    def column(self, column: str, type: DataType, plan: BuildPlan) -> tuple[list[ColumnSummary], list[dict[str, Any]]]:
        """The column's zone map in each row group, and its other synopses; a column that gets those is read once."""
        wanted, read = bool(plan.recipe(column, type)), bool(plan.own(column, type))
        source = self._source(column, type)
        summaries: list[ColumnSummary] = []
        synopses: list[dict[str, Any]] = []
        for group, rows in enumerate(self.rows):
            values: pa.ChunkedArray | None = None
            if isinstance(source, ColumnSummary) or rows == 0:
                summary = UNKNOWN if source == UNKNOWN and rows else _without_values(rows, type)
                values = None if summary == UNKNOWN else pa.chunked_array([pa.nulls(rows)])
            else:
                leaf, reading = source
                values = self._values(leaf, group) if read else None
                raw = self._from_footer(leaf, reading, type, group) or self._from_data(leaf, type, group, values)
                summary = self._as_read(leaf, reading, type, rows, raw)
                if summary != raw or (raw.lower is None and raw.nulls != rows):
                    values = None  # Spark may read other values than the file has
            summaries.append(summary)
            if wanted:
                synopses.append(block_synopses(column, type, values, plan))
        return summaries, synopses

    def rows_of(self, column: str, type: DataType) -> list[ColumnSummary]:
        """The column's value in each row, as the zone map of a block of that row alone."""
        source = self._source(column, type)
        summaries: list[ColumnSummary] = []
        for group, rows in enumerate(self.rows):
            if isinstance(source, ColumnSummary):
                summaries += [UNKNOWN if source == UNKNOWN else _without_values(1, type)] * rows
                continue
            leaf, reading = source
            values = self._values(leaf, group)
            plain = None if values is None else _plain_values(values, type)
            if plain is not None and values is not None:
                whole = summarize(values, type)
                plain = plain if self._as_read(leaf, reading, type, rows, whole) == whole != UNKNOWN else None
            for row in range(rows):
                value = None if plain is None else plain[row]
                if value is not None:
                    summaries.append(ColumnSummary(value, value, 0))
                    continue
                raw = UNKNOWN if values is None else summarize(values.slice(row, 1), type)
                summaries.append(self._as_read(leaf, reading, type, 1, raw))
        return summaries

    def _source(self, column: str, type: DataType) -> tuple[Leaf, Reading] | ColumnSummary:
        """Where the column comes from; a summary of no values if it is not there, UNKNOWN if that is not certain."""
        alike = [name for name in self.leaves if name.lower() == column.lower()]
        if not alike:
            return _without_values(0, type)
        leaf = self.leaves[column] if alike == [column] else None
        reading = reading_of(leaf, type) if leaf is not None else None
        return UNKNOWN if leaf is None or reading is None else (leaf, reading)

    def block_ids(self, name: str) -> list[int | None]:
        """The one value that the hidden column of this name has in each row group; None where there is no such value.

        Only a plain INT32 column counts: a condition on ids has to mean the same to Parquet's statistics and to Spark.
        """
        leaf = self.leaves[name]
        if leaf is None or (leaf.physical, leaf.logical) != ("INT32", "NONE"):
            return [None for _ in self.rows]
        return [_single(found) for found in self.column(name, INTEGER, BuildPlan())[0]]

    def _as_read(
        self, leaf: Leaf, reading: Reading, type: DataType, rows: int, summary: ColumnSummary
    ) -> ColumnSummary:
        """A summary of what the file has in some rows as one of what any session reads."""
        if summary.nulls == rows:
            return summary
        if reading.within is not None and not _inside(summary, reading.within):
            return UNKNOWN
        return widen_for_calendar(summary, type.kind, self.writer, int96=leaf.int96)

    def _from_footer(self, leaf: Leaf, reading: Reading, type: DataType, group: int) -> ColumnSummary | None:
        floating = type.kind in FLOATING
        if reading.from_footer is None or not self.sources.footers or not self.writer.is_trusted_for(leaf.physical):
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

    def _from_data(
        self, leaf: Leaf, type: DataType, group: int, values: pa.ChunkedArray | None = None
    ) -> ColumnSummary:
        found = self._values(leaf, group) if values is None else values
        return UNKNOWN if found is None else summarize(found, type)

    def _values(self, leaf: Leaf, group: int) -> pa.ChunkedArray | None:
        """The values of a row group as the file has them."""
        table = self.parquet.read_row_group(group, columns=[leaf.name], use_threads=False)
        position = table.schema.get_field_index(leaf.name)
        if position < 0 or table.num_rows != self.rows[group]:
            return None
        return _as_stored(table.column(position), leaf)


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


def _plain_values(values: pa.ChunkedArray, type: DataType) -> list[int | None] | None:
    """The values of integers, which are their own bounds; None for other types, which take a closer look."""
    return values.to_pylist() if type.kind in INTEGRAL and pa.types.is_signed_integer(values.type) else None


def _single(summary: ColumnSummary) -> int | None:
    """The value that every row has. Ids are not negative: -1 is for a block without one."""
    lower, upper = summary.lower, summary.upper
    return lower if summary.nulls == 0 and isinstance(lower, int) and 0 <= lower == upper else None


def _inside(summary: ColumnSummary, within: tuple[int, int]) -> bool:
    lower, upper = summary.lower, summary.upper
    return isinstance(lower, int) and isinstance(upper, int) and within[0] <= lower and upper <= within[1]
