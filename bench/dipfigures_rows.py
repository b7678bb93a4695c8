"""Rows as blocks of their own: which of them satisfy a predicate or a diP, as exactly as the planner can tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.dips_tables import BlockTable
from sidestep.predicate import Column, DataType, Formula, Kind
from sidestep.prune.dips.carry import recode
from sidestep.prune.dips.column_ranges import ColumnRanges, column_ranges
from sidestep.prune.dips.model import Dip
from sidestep.synopsis import Catalog, Mask, kept_blocks
from sidestep.synopsis.values.codes import Codes
from sidestep.synopsis.values.forms import stored_type
from sidestep.synopsis.zones.column_zones import ColumnZones, column_zones
from sidestep.synopsis.zones.zone_map import ZoneMaps


class RowBlocks:
    """Tables in the order in which their rows came, whatever layouts do with them."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = {name: BlockTable(table, None, 1) for name, table in tables.items()}
        self._zones: dict[tuple[str, str], ColumnZones | None] = {}
        self._matching: dict[tuple[str, Formula], Mask] = {}
        self._ranges: dict[tuple[str, Column], ColumnRanges | None] = {}

    def matching(self, table: str, columns: Mapping[str, DataType], formula: Formula) -> Mask:
        """The rows that a predicate does not rule out: those that satisfy it, and all where it cannot be told."""
        if (table, formula) not in self._matching:
            self._matching[table, formula] = kept_blocks(self._catalog(table, columns), formula)
        return self._matching[table, formula]

    def selected(self, table: str, dip: Dip) -> Mask:
        """The rows whose join column satisfies a diP."""
        known = self._ranges_of(table, dip.column)
        wanted = None if known is None else recode(dip.codes, dip.coding, known.coding)
        if known is None or wanted is None:
            return np.ones(self.rows(table), dtype=np.bool_)
        return known.meeting(wanted, dip.nulls)

    def values(self, table: str, column: Column) -> Codes | None:
        """The codes of a column's values, row by row; None if not each row has one."""
        known = self._ranges_of(table, column)
        return None if known is None or len(known.blocks.lows) != self.rows(table) else known.blocks.lows

    def rows(self, table: str) -> int:
        return len(self._tables[table].rows)

    def _ranges_of(self, table: str, column: Column) -> ColumnRanges | None:
        if (table, column) not in self._ranges:
            self._ranges[table, column] = column_ranges(self._catalog(table, {column.name: column.type}), column)
        return self._ranges[table, column]

    def _catalog(self, table: str, columns: Mapping[str, DataType]) -> Catalog:
        own = self._tables[table]
        zones = {name: self._zones_of(table, name) for name, kind in columns.items() if own.type_of(name) == kind}
        ones = np.ones(len(own.rows), dtype=np.int64)
        known = ZoneMaps({name: each for name, each in zones.items() if each is not None})
        return Catalog(np.arange(len(ones), dtype=np.int32), ones, ones, len(ones), (known,))

    def _zones_of(self, table: str, column: str) -> ColumnZones | None:
        if (table, column) not in self._zones:
            own = self._tables[table]
            type = own.type_of(column)
            values = None if (stored := stored_type(type)) is None else _stored(own.rows[column], type, stored)
            nulls = pc.cast(pc.is_null(own.rows[column]), pa.int64())
            ones = np.ones(len(own.rows), dtype=np.int64)
            self._zones[table, column] = None if values is None else column_zones(type, ones, values, values, nulls)
        return self._zones[table, column]


def _stored(values: pa.ChunkedArray, type: DataType, stored: pa.DataType) -> pa.ChunkedArray:
    """Values as an index holds the ends of a block that has only one."""
    if type.kind is Kind.DECIMAL and pa.types.is_integer(stored):
        return pc.cast(pc.multiply(values, pa.scalar(10**type.scale, pa.int64())), pa.int64(), safe=False)
    if type.kind is Kind.DATE:
        return values.cast(pa.int32()).cast(stored)
    return values.cast(stored)


def blocks_with(table: BlockTable, rows: Mask) -> Mask:
    """The blocks that hold one of these rows, which are numbered as they came."""
    return np.bincount(block_of_row(table)[rows], minlength=table.blocks) > 0


def block_of_row(table: BlockTable) -> npt.NDArray[np.int64]:
    placed = np.repeat(np.arange(table.blocks), table.sizes)
    if table.order is None:
        return placed
    found = np.empty(len(placed), dtype=np.int64)
    found[table.order] = placed
    return found


def share(mask: Iterable[bool] | Mask) -> float:
    return round(float(np.mean(np.asarray(mask))), 5)
