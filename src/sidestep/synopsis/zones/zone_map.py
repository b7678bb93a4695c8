"""Zone maps: the least and greatest value, the NULLs and the NaNs of each column in each block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidestep.predicate.formula import Compares, Formula, Matches, Null, Within
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import DataType, Kind
from sidestep.synopsis.contract.answer import Answer
from sidestep.synopsis.values.forms import ArrowColumn, Mask
from sidestep.synopsis.zones.bounds import RankedBounds
from sidestep.synopsis.zones.column_zones import MAY_BE_NULL, MAY_HAVE_VALUE, ColumnZones, column_zones
from sidestep.synopsis.zones.compare import compare_zones

_MOST_MATCHED = 10_000
"""A pattern is tried on at most so many distinct values; blocks with further ones are kept."""


@dataclass(frozen=True, eq=False)
class ZoneMaps:
    """The zone maps of the columns that were loaded; it has nothing to say of other columns, or of another type."""

    columns: Mapping[str, ColumnZones]
    name: str = "zone map"

    def zones(self, column: Column) -> ColumnZones | None:
        """The zone maps of a column, if they are of the type that the query gives it."""
        zones = self.columns.get(column.name)
        return zones if zones is not None and zones.type == column.type else None

    @property
    def types(self) -> Mapping[str, DataType]:
        """The columns there are zone maps of, and the types these were made for."""
        return {name: zones.type for name, zones in self.columns.items()}

    def can_satisfy(self, formula: Formula) -> Answer | None:
        """Answers atoms about one or two columns; the table of rules is in :mod:`sidestep.synopsis.skip`."""
        match formula:
            case Within(column, ranges) if (zones := self.zones(column)) and ranges.type == zones.type:
                return Answer(zones.may_be_within(ranges), zones.unknown)
            case Null(column) if zones := self.zones(column):
                return Answer(zones.has(MAY_BE_NULL), zones.uncounted)
            case Matches(column) if zones := self.zones(column):
                return Answer(may_match(zones, formula), zones.unknown)
            case Compares(left, op, right) if (a := self.zones(left)) and (b := self.zones(right)):
                return compare_zones(a, op, b)
        return None

    @property
    def nbytes(self) -> int:
        return sum(zones.nbytes for zones in self.columns.values())


def may_match(zones: ColumnZones, atom: Matches) -> Mask:
    """Blocks that may hold a string that matches (or does not), as far as they are known.

    Bounds prove something about a pattern only where they are equal, so that the block's only value is known in full;
    a pattern's fixed prefix is a range of its own and does not come here.
    """
    possible = zones.has(MAY_HAVE_VALUE)
    bounds = zones.bounds
    if not isinstance(bounds, RankedBounds) or zones.type.kind is not Kind.STRING:
        return possible
    known = possible & zones.single
    ranks = np.unique(bounds.lower[known])[:_MOST_MATCHED]
    if len(ranks) == 0:
        return possible
    fits = np.ones(len(bounds.dictionary), dtype=np.bool_)
    for rank in ranks:
        try:
            text = bounds.value(int(rank)).decode()
        except UnicodeDecodeError:
            continue  # not text: Spark would match its own reading of these bytes
        fits[rank] = atom.pattern.matches(text) is not atom.negated
    possible[known] &= fits[bounds.lower[known]]
    return possible


def zone_maps(types: Mapping[str, DataType], index: Mapping[str, ArrowColumn], rows: npt.NDArray[np.int64]) -> ZoneMaps:
    """Zone maps from the index columns ``lower:c``, ``upper:c``, ``nulls:c`` and ``nan:c`` of each column of ``types``.

    ``rows`` is the number of rows in each block. An index column that is missing is unknown for all blocks; a column
    of which all four are missing is left out.

    >>> import pyarrow as pa
    >>> from sidestep.predicate.intervals import IntervalSet
    >>> from sidestep.predicate.types import INTEGER
    >>> index = {"lower:a": pa.array([1, 5]), "upper:a": pa.array([4, 9]), "nulls:a": pa.array([0, 0])}
    >>> maps = zone_maps({"a": INTEGER}, index, np.array([10, 10]))
    >>> maps.can_satisfy(Within(Column("a", INTEGER), IntervalSet.point(INTEGER, 7))).possible.tolist()
    [False, True]
    """
    columns: dict[str, ColumnZones] = {}
    for name, type in types.items():
        parts = [index.get(f"{part}:{name}") for part in ("lower", "upper", "nulls", "nan")]
        if any(part is not None for part in parts):
            columns[name] = column_zones(type, rows, *parts)
    return ZoneMaps(columns)
