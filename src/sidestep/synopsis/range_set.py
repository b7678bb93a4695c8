"""Range-sets: a few ranges per block that hold all its values and leave out the widest gaps (diPs, section 4).

A zone map is a range-set of one range. With n ranges, splitting at the n - 1 widest gaps between values covers least
(Lemma 1), so a query for something in one of those gaps skips the block. Everything here works on codes
(:mod:`sidestep.synopsis.values.codes`), for all blocks of a table at once.

**Updates.** :func:`grow` adds values: it takes the ranges and the new values together and lets the ones nearest to each
other grow together until n are left. For one value that is the paper's greedy step (Table 4): extend a neighbour, or
join two ranges and put the value by itself, whichever widens the whole least. For a batch it covers no more than taking
the values one by one would. Deletes are ignored: a range-set may cover what is no longer there, never the reverse.

**Merging** range-sets (:func:`compact` of their union) keeps what it is given, but does not give the range-set of the
united values: a gap that both lost cannot come back (Lemma 2).

>>> from sidestep.predicate.types import INTEGER
>>> from sidestep.synopsis.values.codes import integer_codes
>>> coding = Coding(INTEGER)
>>> found = range_set(coding, integer_codes(np.array([3, 4, 5, 10, 14, 20, 27])), 3)
>>> [(low - 2**63, high - 2**63) for low, high in found]
[(3, 14), (20, 20), (27, 27)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.predicate.types import DataType
from sidestep.synopsis.contract.answer import ByColumn
from sidestep.synopsis.contract.block_ranges import NO_RANGES, STORED, BlockRanges, from_column, reduce_ranges
from sidestep.synopsis.descriptor import BlockValues, Sizes, SynopsisKind
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.values.code_ranges import CodeRanges, end_to_end
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.forms import ArrowColumn

BYTES_PER_RANGE = 16


class RangeSets(ByColumn[BlockRanges]):
    """The range-sets of the columns that were loaded."""

    name = "range-set"


def range_set(coding: Coding, codes: Codes, most: int) -> CodeRanges:
    """The range-set of one block's codes, which may come in any order and with repeats."""
    ordered = np.sort(codes)
    _, lows, highs = reduce_ranges(coding, np.array([0, len(ordered)]), ordered, ordered, most)
    return CodeRanges(lows, highs)


def compact(coding: Coding, ranges: CodeRanges, most: int) -> CodeRanges:
    """The ranges reduced to ``most`` by closing the narrowest gaps."""
    _, lows, highs = reduce_ranges(coding, np.array([0, len(ranges)]), ranges.lows, ranges.highs, most)
    return CodeRanges(lows, highs)


def grow(ranges: BlockRanges, block_of_value: npt.NDArray[np.integer], codes: Codes, most: int) -> BlockRanges:
    """The range-sets after values were added to blocks: ``codes[i]`` to block ``block_of_value[i]``.

    A block that had more than ``most`` ranges is reduced to that; see the module's text for which grow together. An
    unknown block stays unknown.
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
    if ranges.unknown is not None:
        new &= ~ranges.unknown[blocks]
    begins = np.zeros(ranges.blocks + 1, dtype=np.int64)
    np.cumsum(np.bincount(blocks[new], minlength=ranges.blocks), out=begins[1:])
    return BlockRanges(
        ranges.coding, *reduce_ranges(ranges.coding, begins, lows[new], highs[new], most), ranges.unknown
    )


def _build(block: BlockValues, size: int) -> dict[str, Any]:
    ranges = range_set(block.coding, block.distinct, size)
    return {"ranges": end_to_end(ranges), "rangesprefix": block.coding.prefix}


def _read(
    type: DataType, stored: Mapping[str, ArrowColumn], tables: Sequence[GlobalRangeTable]
) -> tuple[BlockRanges, ...]:
    return (from_column(Coding(type), stored["ranges"], stored.get("rangesprefix")),)


RANGE_SET = SynopsisKind(
    name="range-set",
    synopsis=RangeSets,
    sizes=Sizes(usual=8, least=1, limit=1 << 12, unit="ranges", unit_bits=8 * BYTES_PER_RANGE),
    columns={"ranges": STORED},
    columns_of_bytes={"rangesprefix": pa.binary()},
    unknown=NO_RANGES,
    build=_build,
    read=_read,
)
