"""Range-sets: a few ranges per block that hold all its values and leave out the widest gaps (diPs, section 4).

A zone map is a range-set of one range. With n ranges, splitting at the n - 1 widest gaps between values covers least
(Lemma 1), so a query for something in one of those gaps skips the block. Everything here works on codes
(:mod:`sidestep.synopsis.values.codes`), for all blocks of a table at once.

**Updates.** :func:`grow` adds values: it takes the ranges and the new values together and lets the ones nearest to each
other grow together until n are left. For one value that is the paper's greedy step (Table 4): extend a neighbour, or
join two ranges and put the value by itself, whichever widens the whole least. For a batch it covers no more than taking
the values one by one would. Deletes are ignored: a range-set may cover what is no longer there, never the reverse.

**Merging** (:func:`merge`) keeps what it is given, but is not the range-set of the united values: a gap that both lost
cannot come back (Lemma 2).

>>> from sidestep.predicate.types import INTEGER
>>> from sidestep.synopsis.values.codes import integer_codes
>>> coding = Coding(INTEGER)
>>> found = range_set(coding, integer_codes(np.array([3, 4, 5, 10, 14, 20, 27])), 3)
>>> [(low - 2**63, high - 2**63) for low, high in found]
[(3, 14), (20, 20), (27, 27)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Formula, Within
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import DataType
from sidestep.synopsis.values.block_ranges import BlockRanges, block_ranges, from_column, most_separated, to_column
from sidestep.synopsis.values.code_ranges import CodeRanges, joined
from sidestep.synopsis.values.codes import Codes, Coding, codes_of
from sidestep.synopsis.values.forms import Mask, stored_form
from sidestep.synopsis.zones.column_zones import ArrowColumn

BYTES_PER_RANGE = 16


@dataclass(frozen=True, eq=False)
class RangeSets:
    """The range-sets of the columns that were loaded; answers ``Within``, for a column of the very type they are of."""

    columns: Mapping[str, BlockRanges]
    name: str = "range-set"

    @property
    def types(self) -> Mapping[str, DataType]:
        """The columns there are range-sets of, and the types these were made for."""
        return {name: found.coding.type for name, found in self.columns.items()}

    def ranges(self, column: Column) -> BlockRanges | None:
        """The range-sets of a column, if they are of the type that the query gives it."""
        found = self.columns.get(column.name)
        return found if found is not None and found.coding.type == column.type else None

    def can_satisfy(self, formula: Formula) -> Mask | None:
        match formula:
            case Within(column, ranges) if found := self.ranges(column):
                return found.may_be_within(ranges)
        return None

    @property
    def nbytes(self) -> int:
        return sum(found.nbytes for found in self.columns.values())


def range_set(coding: Coding, codes: Codes, most: int) -> CodeRanges:
    """The range-set of one block's codes, which may come in any order and with repeats."""
    ordered = np.sort(codes)
    _, lows, highs = most_separated(coding, np.array([0, len(ordered)]), ordered, ordered, most)
    return CodeRanges(lows, highs)


def range_sets(coding: Coding, blocks: Sequence[ArrowColumn], most: int) -> BlockRanges:
    """The range-sets of a column, block by block; a block that cannot be read as the coding's type is unknown."""
    found = (codes_of(values, coding) for values in blocks)
    return block_ranges(coding, [None if codes is None else range_set(coding, codes, most) for codes in found])


def compact(coding: Coding, ranges: CodeRanges, most: int) -> CodeRanges:
    """The ranges reduced to ``most`` by closing the narrowest gaps."""
    _, lows, highs = most_separated(coding, np.array([0, len(ranges)]), ranges.lows, ranges.highs, most)
    return CodeRanges(lows, highs)


def merge(coding: Coding, sets: Sequence[CodeRanges], most: int) -> CodeRanges:
    """One range-set that covers several."""
    none = np.zeros(0, dtype=np.uint64)
    lows = np.concatenate([none, *(found.lows for found in sets)])
    highs = np.concatenate([none, *(found.highs for found in sets)])
    return compact(coding, joined(lows, highs), most)


def grow(ranges: BlockRanges, block_of_value: npt.NDArray[np.integer], codes: Codes, most: int) -> BlockRanges:
    """The range-sets after values were added to blocks: ``codes[i]`` to block ``block_of_value[i]``.

    A block that had more than ``most`` ranges is reduced to that; see the module's text for which grow together.
    """
    if len(block_of_value) != len(codes):
        raise SidestepError(f"Each value has a block: got {len(codes)} values and {len(block_of_value)} blocks.")
    blocks = np.concatenate([ranges.block_of_range.astype(np.int64), block_of_value.astype(np.int64)])
    if len(codes) and not 0 <= int(block_of_value.min()) <= int(block_of_value.max()) < ranges.blocks:
        raise SidestepError(f"Values can only be added to the {ranges.blocks} blocks that there are.")
    lows, highs = np.concatenate([ranges.lows, codes]), np.concatenate([ranges.highs, codes])
    # A range comes before a value equal to its begin, so that each value finds the range it may lie in before it.
    is_value = np.arange(len(lows)) >= len(ranges.lows)
    order = np.lexsort((is_value, lows, blocks))
    blocks, lows, highs, is_value = blocks[order], lows[order], highs[order], is_value[order]
    before = np.maximum.accumulate(np.where(is_value, -1, np.arange(len(lows))))
    inside = is_value & (before >= 0)
    inside &= (blocks[before] == blocks) & (highs[before] >= lows)
    repeated = np.zeros(len(lows), dtype=np.bool_)
    repeated[1:] = is_value[1:] & is_value[:-1] & (lows[1:] == lows[:-1]) & (blocks[1:] == blocks[:-1])
    new = ~(inside | repeated)
    begins = np.zeros(ranges.blocks + 1, dtype=np.int64)
    np.cumsum(np.bincount(blocks[new], minlength=ranges.blocks), out=begins[1:])
    return BlockRanges(ranges.coding, *most_separated(ranges.coding, begins, lows[new], highs[new], most))


def range_set_columns(name: str, ranges: BlockRanges) -> dict[str, pa.Array]:
    """The index columns ``ranges:c`` and, where strings leave a prefix out, ``rangesprefix:c``."""
    columns = {f"ranges:{name}": to_column(ranges)}
    if ranges.coding.prefix:
        columns[f"rangesprefix:{name}"] = pa.array([ranges.coding.prefix] * ranges.blocks, pa.binary())
    return columns


def range_sets_of(types: Mapping[str, DataType], index: Mapping[str, ArrowColumn]) -> RangeSets:
    """Range-sets from the index columns of each column of ``types``; a column that has none is left out."""
    columns: dict[str, BlockRanges] = {}
    for name, type in types.items():
        stored = index.get(f"ranges:{name}")
        if stored is not None and stored_form(type) is not None:
            columns[name] = from_column(Coding(type), stored, index.get(f"rangesprefix:{name}"))
    return RangeSets(columns)
