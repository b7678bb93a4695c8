"""One open data file: the zone maps and the values of any of its columns, row group by row group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidestep.predicate.types import FLOATING, INTEGER, INTEGRAL, DataType, Kind
from sidestep.store.parquet.leaf import Leaf, Reading, reading_of
from sidestep.store.parquet.trust import Writer, widen_for_calendar
from sidestep.synopsis.build import BuildPlan, block_synopses
from sidestep.synopsis.values.forms import stored_type
from sidestep.synopsis.values.summary import PREFIX, UNKNOWN, ColumnSummary, summarize

MOST_HELD = 5_000
"""Values that take a closer look are looked at one by one: of a column with more of them, nothing is said."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where zone maps may come from."""

    footers: bool = True
    """Believe the footers of known writers; False reads all data."""
    float_footers: bool = False
    """Take float bounds from footers as well. NaN is then unknown, and filters that NaN satisfies skip nothing."""


@dataclass(frozen=True, slots=True)
class RowZones:
    """One column of some rows, each as a block of its own: the zone maps as index columns have them."""

    lower: pa.Array
    upper: pa.Array
    nulls: pa.Array
    nan: pa.Array | None
    """Of floating numbers alone."""

    @classmethod
    def of(cls, parts: Sequence[RowZones], type: DataType) -> RowZones:
        """Those of several runs of rows, one after the other."""
        if not parts:
            return _row_zones([], pa.array([], pa.int32()), type)
        lower, upper, nulls = (
            pa.concat_arrays([getattr(part, name) for part in parts]) for name in ("lower", "upper", "nulls")
        )
        nan = [part.nan for part in parts if part.nan is not None]
        return cls(lower, upper, nulls, pa.concat_arrays(nan) if nan else None)


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

    def rows_of(self, column: str, type: DataType) -> RowZones:
        """The column's value in each row, as the zone map of a block of that row alone."""
        source = self._source(column, type)
        if isinstance(source, ColumnSummary):
            alike = UNKNOWN if source == UNKNOWN else _without_values(1, type)
            return _row_zones([alike], pa.array([0] * sum(self.rows), pa.int32()), type)
        leaf, reading = source
        return RowZones.of([self._rows_of_group(leaf, reading, type, group) for group in range(len(self.rows))], type)

    def _rows_of_group(self, leaf: Leaf, reading: Reading, type: DataType, group: int) -> RowZones:
        rows, values = self.rows[group], self._values(leaf, group)
        if values is None:
            return _row_zones([UNKNOWN], pa.array([0] * rows, pa.int32()), type)
        plain = _plain_values(values, type)
        if plain is not None:
            whole = summarize(values, type)
            if self._as_read(leaf, reading, type, rows, whole) == whole != UNKNOWN:
                return RowZones(plain, plain, plain.is_null().cast(pa.int64()), None)
        coded = values.combine_chunks().dictionary_encode(null_encoding="encode")
        held, place = coded.dictionary, coded.indices
        if len(held) > MOST_HELD:
            return _row_zones([UNKNOWN], pa.array([0] * rows, pa.int32()), type)
        found = [
            self._as_read(leaf, reading, type, 1, summarize(held.slice(number, 1), type)) for number in range(len(held))
        ]
        return _row_zones(found, place, type)

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


def _plain_values(values: pa.ChunkedArray, type: DataType) -> pa.Array | None:
    """The values in their stored form where these are their own bounds; None for those that take a closer look."""
    kind, arrow = type.kind, values.type
    if kind in INTEGRAL and pa.types.is_signed_integer(arrow):
        return values.combine_chunks().cast(pa.int64())
    if kind is Kind.DATE and pa.types.is_date32(arrow):
        return values.combine_chunks().cast(pa.int32()).cast(pa.int64())
    of_bytes = kind in (Kind.STRING, Kind.BINARY) and (pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))
    if of_bytes and (pc.max(pc.binary_length(values)).as_py() or 0) <= PREFIX:
        return values.combine_chunks().cast(pa.binary())
    return None


def _row_zones(held: Sequence[ColumnSummary], place: pa.Array, type: DataType) -> RowZones:
    """The zone maps of rows, each of which is at its place among these."""
    bound = stored_type(type)
    assert bound is not None
    lower, upper = (pa.array([getattr(each, name) for each in held], bound).take(place) for name in ("lower", "upper"))
    nulls = pa.array([each.nulls for each in held], pa.int64()).take(place)
    nan = pa.array([each.nan for each in held], pa.bool_()).take(place) if type.kind in FLOATING else None
    return RowZones(lower, upper, nulls, nan)


def _single(summary: ColumnSummary) -> int | None:
    """The value that every row has. Ids are not negative: -1 is for a block without one."""
    lower, upper = summary.lower, summary.upper
    return lower if summary.nulls == 0 and isinstance(lower, int) and 0 <= lower == upper else None


def _inside(summary: ColumnSummary, within: tuple[int, int]) -> bool:
    lower, upper = summary.lower, summary.upper
    return isinstance(lower, int) and isinstance(upper, int) and within[0] <= lower and upper <= within[1]
