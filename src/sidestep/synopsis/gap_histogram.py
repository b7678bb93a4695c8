"""Equi-depth histograms that remember the gaps between their buckets (diPs, sections 4 and 5.1).

A bucket is the range from its least to its greatest value, so what lies between two buckets is known to be absent. Cuts
are made where the depth says, not where the gaps are wide: of equal size, a range-set covers less. What a histogram
has beside it is depth: how many rows a query can find in a block at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Formula, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis.values.block_ranges import BlockRanges, block_ranges, from_column, to_column
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges
from sidestep.synopsis.values.codes import Codes, Coding, codes_of
from sidestep.synopsis.values.forms import Mask, stored_form
from sidestep.synopsis.zones.bounds import meets
from sidestep.synopsis.zones.column_zones import ArrowColumn

Depths = npt.NDArray[np.int64]

UNCOUNTED = np.int64(-1)
"""The depth of a bucket whose rows were not counted."""


@dataclass(frozen=True, eq=False)
class BlockHistograms:
    """The histograms of one column: the buckets of each block, and the rows in each bucket."""

    buckets: BlockRanges
    depths: Depths

    def most_rows(self, ranges: IntervalSet) -> Depths | None:
        """For each block, how many rows can have a value of the set at most; -1 if that is not known."""
        wanted = code_ranges(ranges, self.buckets.coding)
        if wanted is None:
            return None
        hit = meets(wanted.lows, wanted.highs, self.buckets.lows, self.buckets.highs)
        found = np.zeros(self.buckets.blocks, dtype=np.int64)
        np.add.at(found, self.buckets.block_of_range[hit], self.depths[hit])
        found[self.buckets.block_of_range[hit & (self.depths == UNCOUNTED)]] = UNCOUNTED
        return found


@dataclass(frozen=True, eq=False)
class GapHistograms:
    """The gap histograms of the columns that were loaded; answers ``Within``, for a column of the very type."""

    columns: Mapping[str, BlockHistograms]
    name: str = "gap histogram"

    @property
    def types(self) -> Mapping[str, DataType]:
        """The columns there are histograms of, and the types these were made for."""
        return {name: found.buckets.coding.type for name, found in self.columns.items()}

    def can_satisfy(self, formula: Formula) -> Mask | None:
        match formula:
            case Within(column, ranges) if (found := self.columns.get(column.name)) is not None:
                buckets = found.buckets
                return buckets.may_be_within(ranges) if buckets.coding.type == column.type else None
        return None

    @property
    def nbytes(self) -> int:
        return sum(found.buckets.nbytes + found.depths.nbytes for found in self.columns.values())


def gap_histogram(codes: Codes, most: int) -> tuple[CodeRanges, Depths]:
    """The buckets of one block's codes and their depths: at most ``most``, as equal in depth as repeats allow.

    Equal values stay in one bucket: a cut that would fall among them moves to the nearer end of their run.

    >>> codes = np.array([1, 2, 3, 10, 11, 12, 12, 12, 40], dtype=np.uint64)
    >>> buckets, depths = gap_histogram(codes, 3)
    >>> list(buckets), depths.tolist()
    ([(1, 3), (10, 11), (12, 40)], [3, 2, 4])
    """
    if most < 1:
        raise SidestepError(f"A histogram has at least one bucket, not {most}.")
    ordered = np.sort(codes)
    if not len(ordered):
        return CodeRanges(ordered, ordered), np.zeros(0, dtype=np.int64)
    wanted = np.linspace(0, len(ordered), most + 1)[1:-1]
    runs = np.flatnonzero(np.diff(ordered)) + 1  # where a new value begins: the only places to cut
    edges = np.concatenate([[0], runs, [len(ordered)]])
    above = np.clip(np.searchsorted(edges, wanted), 1, len(edges) - 1)
    nearer_below = wanted - edges[above - 1] <= edges[above] - wanted
    cuts = np.unique(edges[np.where(nearer_below, above - 1, above)])
    cuts = np.unique(np.concatenate([[0], cuts, [len(ordered)]])).astype(np.int64)
    return CodeRanges(ordered[cuts[:-1]], ordered[cuts[1:] - 1]), np.diff(cuts)


def gap_histograms(coding: Coding, blocks: Sequence[ArrowColumn], most: int) -> BlockHistograms:
    """The histograms of a column, block by block; a block that cannot be read as the coding's type is unknown."""
    found = (codes_of(values, coding) for values in blocks)
    made = [None if codes is None else gap_histogram(codes, most) for codes in found]
    buckets = block_ranges(coding, [None if each is None else each[0] for each in made])
    depths = [np.array([UNCOUNTED]) if each is None else each[1] for each in made]
    return BlockHistograms(buckets, np.concatenate([np.zeros(0, dtype=np.int64), *depths]))


def gap_histogram_columns(name: str, histograms: BlockHistograms) -> dict[str, pa.Array]:
    """The index columns ``buckets:c``, ``depths:c`` and, where strings leave a prefix out, ``bucketsprefix:c``."""
    buckets = histograms.buckets
    depths = pa.ListArray.from_arrays(pa.array(buckets.begins, pa.int32()), pa.array(histograms.depths, pa.int64()))
    columns = {f"buckets:{name}": to_column(buckets), f"depths:{name}": depths}
    if buckets.coding.prefix:
        columns[f"bucketsprefix:{name}"] = pa.array([buckets.coding.prefix] * buckets.blocks, pa.binary())
    return columns


def gap_histograms_of(types: Mapping[str, DataType], index: Mapping[str, ArrowColumn]) -> GapHistograms:
    """Gap histograms from the index columns of each column of ``types``; a column that has none is left out."""
    columns: dict[str, BlockHistograms] = {}
    for name, type in types.items():
        stored = index.get(f"buckets:{name}")
        if stored is None or stored_form(type) is None:
            continue
        buckets = from_column(Coding(type), stored, index.get(f"bucketsprefix:{name}"))
        columns[name] = BlockHistograms(buckets, _depths(buckets, index.get(f"depths:{name}")))
    return GapHistograms(columns)


def _depths(buckets: BlockRanges, stored: ArrowColumn | None) -> Depths:
    """The stored depths of the blocks whose buckets are as they were stored; the others have none."""
    depths = np.full(len(buckets.lows), UNCOUNTED)
    if stored is not None and len(stored) == buckets.blocks:
        lists = stored.combine_chunks() if isinstance(stored, pa.ChunkedArray) else stored
        counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        same = counts == np.diff(buckets.begins)
        values = lists.flatten().to_numpy(zero_copy_only=False)
        depths[np.repeat(same, np.diff(buckets.begins))] = values[np.repeat(same, counts)]
    return depths
