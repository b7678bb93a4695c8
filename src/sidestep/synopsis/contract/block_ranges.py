"""Ranges of codes for every block of a table at once: how range-sets and gap histograms are held and asked.

Blocks have different numbers of ranges, so the ranges of all blocks lie in two flat arrays, block after block, with the
place where each block begins. What a query asks for is held against all ranges of all blocks in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis.contract.answer import Answer
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges
from sidestep.synopsis.values.codes import GREATEST, LEAST, WIDTH, Codes, Coding, common_prefix
from sidestep.synopsis.values.forms import (
    ArrowColumn,
    Ends,
    Mask,
    if_any,
)

BlockPositions = npt.NDArray[np.int64]


_FEW = 4
"""Up to this many intervals, comparing with each in turn is faster than a binary search per block."""
STORED = pa.list_(pa.uint64())
"""The Arrow type of stored ranges: low, high, low, high, … of one block."""


NO_RANGES = np.zeros(1, dtype=np.uint64)
"""What a block of which nothing is known stores: ranges are never of that length."""


@dataclass(frozen=True, eq=False)
class BlockRanges:
    """For each block, ascending and disjoint ranges that hold all its values; NULL aside.

    Those of block b are ``lows[begins[b]:begins[b + 1]]``, and ``highs`` likewise. A block without values has no range;
    neither has one of which nothing is known, and ``unknown`` tells them apart.
    """

    coding: Coding
    begins: BlockPositions
    lows: Codes
    highs: Codes
    unknown: Mask | None = None
    """The blocks of which nothing is known; None if there are none."""

    def __post_init__(self) -> None:
        if len(self.lows) != len(self.highs) or int(self.begins[-1]) != len(self.lows):
            raise SidestepError(
                f"{len(self.begins) - 1} blocks with {self.begins[-1]} ranges need as many low and high ends, but got "
                f"{len(self.lows)} and {len(self.highs)}."
            )

    @property
    def blocks(self) -> int:
        return len(self.begins) - 1

    @property
    def type(self) -> DataType:
        return self.coding.type

    @cached_property
    def block_of_range(self) -> npt.NDArray[np.int32]:
        return np.repeat(np.arange(self.blocks, dtype=np.int32), np.diff(self.begins))

    def may_be_within(self, ranges: IntervalSet) -> Answer | None:
        """Blocks that may hold a value of the set; None if it is not understood."""
        wanted = code_ranges(ranges, self.coding)
        return None if wanted is None else Answer(self.meeting(wanted), self.unknown)

    def meeting(self, wanted: CodeRanges) -> Mask:
        """Blocks one of whose ranges meets one of the wanted ones."""
        hits = meets(wanted.lows, wanted.highs, self.lows, self.highs)
        if self._one_each:
            return hits
        met = np.zeros(self.blocks, dtype=np.bool_)
        met[self.block_of_range[hits]] = True
        return met

    @cached_property
    def _one_each(self) -> bool:
        """Whether each block has just one range, as zone maps give it."""
        return len(self.lows) == self.blocks and bool((np.diff(self.begins) == 1).all())

    def of_block(self, block: int) -> CodeRanges:
        part = slice(int(self.begins[block]), int(self.begins[block + 1]))
        return CodeRanges(self.lows[part], self.highs[part])

    def fill_unknown(self, other: BlockRanges) -> BlockRanges:
        """The same, with what ``other`` knows of blocks that are unknown here; of strings, in a coding for both."""
        if self.unknown is None or self.type != other.type:
            return self
        if self.coding != other.coding:
            prefix = common_prefix([self.coding.prefix, other.coding.prefix])
            return self.with_prefix(prefix).fill_unknown(other.with_prefix(prefix))
        mine, theirs = np.diff(self.begins), np.diff(other.begins)
        counts = np.where(self.unknown, theirs, mine)
        begins = np.concatenate([[0], np.cumsum(counts)])
        from_other = np.repeat(self.unknown, counts)
        chosen = self.unknown[other.block_of_range]
        lows, highs = np.empty(begins[-1], dtype=np.uint64), np.empty(begins[-1], dtype=np.uint64)
        lows[~from_other], highs[~from_other] = self.lows, self.highs
        lows[from_other], highs[from_other] = other.lows[chosen], other.highs[chosen]
        unknown = None if other.unknown is None else self.unknown & other.unknown
        return BlockRanges(self.coding, begins, lows, highs, unknown)

    def with_prefix(self, prefix: bytes) -> BlockRanges:
        """The same ranges of strings, or a little more, in codes that leave out a shorter prefix."""
        removed = self.coding.prefix[len(prefix) :]
        if not removed:
            return self
        base, shift = _removed_prefix(removed)
        lows, highs = _rebase(self.lows, self.highs, np.full_like(self.lows, base), np.full_like(self.lows, shift))
        coding = Coding(self.type, prefix)
        return BlockRanges(coding, *reduce_ranges(coding, self.begins, lows, highs, max(1, len(lows))), self.unknown)

    @property
    def outer(self) -> BlockRanges:
        """What each block may hold: all codes where nothing is known."""
        if self.unknown is None:
            return self
        count = int(self.unknown.sum())
        begins = np.concatenate([[0], np.cumsum(self.unknown)])
        everything = BlockRanges(self.coding, begins, np.full(count, LEAST), np.full(count, GREATEST))
        return self.fill_unknown(everything)

    def held_codes(self, among: Mask) -> tuple[Coding, Codes]:
        """The ends of these blocks' ranges: each is a value that its block holds, or was rounded outwards from one."""
        chosen = among[self.block_of_range]
        return self.coding, np.concatenate([self.lows[chosen], self.highs[chosen]])

    def pass_rate(self, among: Mask) -> float:
        return 1.0

    @property
    def nbytes(self) -> int:
        unknown = 0 if self.unknown is None else self.unknown.nbytes
        return self.begins.nbytes + self.lows.nbytes + self.highs.nbytes + unknown


def block_ranges(coding: Coding, sets: Sequence[CodeRanges | None]) -> BlockRanges:
    """The ranges of each block put together; None is a block of which nothing is known."""
    begins = np.zeros(len(sets) + 1, dtype=np.int64)
    np.cumsum([0 if ranges is None else len(ranges) for ranges in sets], out=begins[1:])
    none = np.zeros(0, dtype=np.uint64)
    lows = np.concatenate([none, *(ranges.lows for ranges in sets if ranges is not None)])
    highs = np.concatenate([none, *(ranges.highs for ranges in sets if ranges is not None)])
    return BlockRanges(
        coding, begins, lows, highs, if_any(np.array([ranges is None for ranges in sets], dtype=np.bool_))
    )


def reduce_ranges(
    coding: Coding, begins: BlockPositions, lows: Codes, highs: Codes, most: int
) -> tuple[BlockPositions, Codes, Codes]:
    """Each block's ascending ranges reduced to ``most``, those with the least between them grown together.

    What is left out are the widest gaps (diPs, Lemma 1), so no other reduction covers less. Ranges with nothing at all
    between them grow together in any case: keeping them apart proves nothing.
    """
    if most < 1:
        raise SidestepError(f"A block is described by at least one range, not {most}.")
    if len(lows) == 0:
        return begins, lows, highs
    block = np.repeat(np.arange(len(begins) - 1, dtype=np.int64), np.diff(begins))
    inner = np.flatnonzero(block[1:] == block[:-1])
    inner = inner[lows[inner + 1] - highs[inner] > np.uint64(1)]
    gaps = coding.lengths(highs[inner] + np.uint64(1), lows[inner + 1])
    if len(inner) and int(np.bincount(block[inner]).max()) >= most:
        order = np.lexsort((-gaps, block[inner]))
        of_block = block[inner][order]
        first = np.searchsorted(of_block, of_block, side="left")
        inner = np.sort(inner[order[np.arange(len(order)) - first < most - 1]])
    ends = np.zeros(len(lows), dtype=np.bool_)
    ends[inner] = True
    ends[begins[1:][np.diff(begins) > 0] - 1] = True
    starts = np.ones(len(lows), dtype=np.bool_)
    starts[1:] = ends[:-1]
    counts = np.bincount(block[ends], minlength=len(begins) - 1)
    kept = np.zeros(len(begins), dtype=np.int64)
    np.cumsum(counts, out=kept[1:])
    return kept, lows[starts], highs[ends]


def from_column(coding: Coding, column: ArrowColumn, prefixes: ArrowColumn | None = None) -> BlockRanges:
    """The ranges that an index column of type :data:`STORED` holds; with ``prefixes``, each block has its own.

    The blocks of a table may have been coded with different prefixes, file by file. They are brought to the one that
    all share, which takes the place of ``coding.prefix``. A block whose ranges cross, or lack an end, is unknown.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if array.type != STORED:
        raise SidestepError(f"Stored ranges are lists of uint64, not {array.type}: index the table again.")
    offsets = np.asarray(array.offsets, dtype=np.int64)
    counts = np.diff(offsets)
    known = np.array(array.is_valid()) & (counts % 2 == 0)
    block = np.repeat(np.arange(len(array)), counts)
    flat = array.values.to_numpy(zero_copy_only=False).astype(np.uint64, copy=False)[offsets[0] : offsets[-1]]
    # Within a block, ends go up: strictly from one range to the next, at least not down from low to high.
    place = np.arange(len(flat)) - (offsets[:-1] - offsets[0])[block]
    bad = (block[1:] == block[:-1]) & ((flat[1:] < flat[:-1]) | ((flat[1:] == flat[:-1]) & (place[1:] % 2 == 0)))
    known[block[1:][bad]] = False
    begins = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(np.where(known, counts // 2, 0), out=begins[1:])
    whole = flat[known[block]]
    lows, highs, unknown = whole[0::2].copy(), whole[1::2].copy(), if_any(~known)
    if prefixes is None:
        return BlockRanges(coding, begins, lows, highs, unknown)
    texts = [text or b"" for text in prefixes.to_pylist()]
    telling = (known & (counts > 0)).tolist()  # a block without values has no prefix of its own
    shared = common_prefix([text for text, tells in zip(texts, telling, strict=True) if tells])
    # Blocks may have as many prefixes as there are blocks, so all are brought to the shared one together.
    removed = np.array([_removed_prefix(text[len(shared) :]) for text in texts], dtype=np.uint64).reshape(-1, 2)
    bases, shifts = removed[:, 0], removed[:, 1]
    lows, highs = _rebase(lows, highs, *(np.repeat(each, np.diff(begins)) for each in (bases, shifts)))
    coding = Coding(coding.type, shared)
    return BlockRanges(coding, *reduce_ranges(coding, begins, lows, highs, max(1, len(lows))), unknown)


def _removed_prefix(removed: bytes) -> tuple[int, int]:
    """What codes get in front that left out a longer prefix, by what that was longer: the bytes, and how many bits."""
    return int.from_bytes(removed[:WIDTH].ljust(WIDTH, b"\0")), 8 * min(len(removed), WIDTH)


def _rebase(lows: Codes, highs: Codes, bases: Codes, shifts: Codes) -> tuple[Codes, Codes]:
    """Codes made with a longer prefix as codes made with a shorter one: what it was longer by, and by how many bits.

    The extreme codes also stand for all values that do not begin with the longer prefix, so they stay extreme.
    """

    def move(codes: Codes) -> Codes:
        kept = np.where(shifts < 8 * WIDTH, codes >> np.minimum(shifts, np.uint64(8 * WIDTH - 1)), LEAST)
        return bases | kept

    return np.where(lows == LEAST, LEAST, move(lows)), np.where(highs == GREATEST, GREATEST, move(highs))


def meets(lows: Ends, highs: Ends, lower: Ends, upper: Ends) -> Mask:
    """For each block, whether any of the ascending, disjoint ranges ``lows[i]..highs[i]`` meets ``lower..upper``.

    The ranges that begin at or before a block's upper bound are a prefix of the list, and the one that reaches furthest
    is the last of that prefix: one binary search per block decides, however long the list.

    >>> meets(np.array([1, 7]), np.array([2, 8]), np.array([3, 0, 8]), np.array([6, 9, 8])).tolist()
    [False, True, True]
    """
    if len(lows) == 0:
        return np.zeros(len(lower), dtype=np.bool_)
    if len(lows) <= _FEW:
        met = (upper >= lows[0]) & (lower <= highs[0])
        for low, high in zip(lows[1:], highs[1:], strict=True):
            met |= (upper >= low) & (lower <= high)
        return np.asarray(met)
    begun = np.searchsorted(lows, upper, side="right")
    return np.asarray((begun > 0) & (lower <= highs[np.maximum(begun, 1) - 1]))
