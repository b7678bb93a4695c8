"""Bloom filters: which values a block may hold, for queries that ask for single values (``=`` and short ``IN`` lists).

The split-block kind: a filter is some number of 256-bit lines. A value's hash chooses one line, and one bit in each of
the line's eight words, so that asking touches a single line. It answers nothing about ranges, and it needs about ten
bits for every distinct value: with too few it says "maybe" to everything (diPs, section 4, found just that).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Formula, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis.values.codes import joined_bytes
from sidestep.synopsis.values.forms import Mask, stored_form
from sidestep.synopsis.values.hashing import Hashes, column_hashes, mixed, value_hashes
from sidestep.synopsis.zones.column_zones import ArrowColumn

Lines = npt.NDArray[np.uint32]
"""One row per 256-bit line, eight words each."""

LINE_BYTES = 32
WORDS = 8
_BITS = 32
_SALTS = (mixed(np.arange(1, WORDS + 1, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
"""Odd numbers, one per word: each picks its bit from the same 32 bits of the hash in another way."""
_MOST_VALUES = 1_000
_MOST_PROBES = 5_000_000
"""Values times blocks. Longer lists are not looked up: that takes time, and one false positive keeps a block."""


@dataclass(frozen=True, eq=False)
class BlockFilters:
    """The Bloom filters of one column: ``lines[begins[b]:begins[b + 1]]`` is block b's.

    A block that has no value has no lines; neither has one of which nothing is known, and ``known`` tells them apart.
    """

    type: DataType
    begins: npt.NDArray[np.int64]
    lines: Lines
    known: Mask

    @property
    def blocks(self) -> int:
        return len(self.known)

    def may_be_within(self, ranges: IntervalSet) -> Mask | None:
        """Blocks that may hold a value of the set; None if its values cannot be listed, or are too many."""
        values = ranges.values(max(1, min(_MOST_VALUES, _MOST_PROBES // max(1, self.blocks))))
        hashes = None if values is None else value_hashes(values, self.type)
        return None if hashes is None else self.holding(hashes)

    def holding(self, hashes: Hashes) -> Mask:
        """Blocks that may hold a value with one of the hashes."""
        found = ~self.known
        asked = np.flatnonzero(self.known & (np.diff(self.begins) > 0))
        begins, sizes = self.begins[asked], np.diff(self.begins)[asked].astype(np.uint64)
        words = self.lines.reshape(-1)
        for line, bits in zip((hashes >> np.uint64(32)), _bits(hashes), strict=True):
            at = WORDS * (begins + ((line * sizes) >> np.uint64(32)).astype(np.int64))
            left = asked
            for word in range(WORDS):  # most blocks are out after a word or two, and are not looked at again
                hit = (words[at + word] & bits[word]) != 0
                at, left = at[hit], left[hit]
            found[left] = True
        return found

    @property
    def nbytes(self) -> int:
        return self.begins.nbytes + self.lines.nbytes + self.known.nbytes


@dataclass(frozen=True, eq=False)
class BloomFilters:
    """The Bloom filters of the columns that were loaded; answers ``Within`` of listed values, for the very type."""

    columns: Mapping[str, BlockFilters]
    name: str = "Bloom filter"

    @property
    def types(self) -> Mapping[str, DataType]:
        """The columns there are filters of, and the types these were made for."""
        return {name: found.type for name, found in self.columns.items()}

    def can_satisfy(self, formula: Formula) -> Mask | None:
        match formula:
            case Within(column, ranges) if (found := self.columns.get(column.name)) and found.type == column.type:
                return found.may_be_within(ranges)
        return None

    @property
    def nbytes(self) -> int:
        return sum(found.nbytes for found in self.columns.values())


def false_positive_rate(distinct: int, lines: int) -> float:
    """How often a filter of so many lines says "maybe" to a value that is not among the distinct ones it holds.

    Lines fill unevenly, as a Poisson law has it: a line with j values passes another with ``(1 - (31/32)^j)^8``.

    >>> round(false_positive_rate(1000, 40), 4), round(false_positive_rate(1000, 1), 2)
    (0.0114, 1.0)
    """
    if distinct == 0:
        return 0.0
    mean = distinct / lines
    spread = 8 * math.sqrt(mean) + 8
    counts = np.arange(max(0, math.floor(mean - spread)), math.ceil(mean + spread) + 1)
    logs = counts * math.log(mean) - mean - np.array([math.lgamma(count + 1) for count in counts.tolist()])
    return float(np.sum(np.exp(logs) * (1 - (1 - 1 / _BITS) ** counts) ** WORDS))


def lines_for(distinct: int, rate: float) -> int:
    """How few lines keep the false positives at or below a rate.

    >>> lines_for(1000, 0.01), lines_for(1000, 0.0001), lines_for(1, 0.5)
    (42, 103, 1)
    """
    if not 0 < rate < 1:
        raise SidestepError(f"A rate of false positives lies between 0 and 1, but {rate} does not.")
    low, high = 0, 1
    while false_positive_rate(distinct, high) > rate:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if false_positive_rate(distinct, middle) <= rate else (middle, high)
    return high


def bloom_filter(hashes: Hashes, lines: int) -> Lines:
    """The filter of one block's hashes."""
    if lines < 1:
        raise SidestepError(f"A Bloom filter has at least one line of {LINE_BYTES} bytes, not {lines}.")
    filled = np.zeros((lines, WORDS), dtype=np.uint32)
    at = (((hashes >> np.uint64(32)) * np.uint64(lines)) >> np.uint64(32)).astype(np.int64)
    np.bitwise_or.at(filled, at, _bits(hashes))
    return filled


def bloom_filters(type: DataType, blocks: Sequence[ArrowColumn], rate: float = 0.01) -> BlockFilters:
    """The filters of a column, block by block, each as large as its distinct values need for the rate."""
    found: list[Lines | None] = []
    for values in blocks:
        hashes = column_hashes(values, type)
        distinct = None if hashes is None else np.unique(hashes)
        found.append(None if distinct is None else filled_for(distinct, rate))
    return block_filters(type, found)


def filled_for(distinct: Hashes, rate: float) -> Lines:
    """The filter of distinct hashes, as large as the rate wants; of none, no lines at all."""
    if not len(distinct):
        return np.zeros((0, WORDS), dtype=np.uint32)
    return bloom_filter(distinct, lines_for(len(distinct), rate))


def block_filters(type: DataType, filters: Sequence[Lines | None]) -> BlockFilters:
    """The filters of each block put together; None is a block of which nothing is known."""
    begins = np.zeros(len(filters) + 1, dtype=np.int64)
    np.cumsum([0 if each is None else len(each) for each in filters], out=begins[1:])
    none = np.zeros((0, WORDS), dtype=np.uint32)
    lines = np.concatenate([none, *(each for each in filters if each is not None)])
    return BlockFilters(type, begins, lines, np.array([each is not None for each in filters], dtype=np.bool_))


def bloom_columns(name: str, filters: BlockFilters) -> dict[str, pa.Array]:
    """The index column ``bloom:c``: the lines of each block as bytes, NULL if nothing is known of it."""
    data = pa.py_buffer(filters.lines.astype("<u4").tobytes())
    ends = pa.py_buffer((LINE_BYTES * filters.begins).astype(np.int64).tobytes())
    raw = pa.LargeBinaryArray.from_buffers(pa.large_binary(), filters.blocks, [None, ends, data])
    known = pa.array(filters.known)
    return {f"bloom:{name}": pc.if_else(known, raw, pa.scalar(None, pa.large_binary()))}


def bloom_filters_of(types: Mapping[str, DataType], index: Mapping[str, ArrowColumn]) -> BloomFilters:
    """Bloom filters from the index columns of each column of ``types``; bytes that are no whole lines are unknown."""
    columns: dict[str, BlockFilters] = {}
    for name, type in types.items():
        stored = index.get(f"bloom:{name}")
        if stored is not None and stored_form(type) is not None:
            sizes = np.asarray(pc.fill_null(pc.binary_length(stored), -1), dtype=np.int64)
            known = (sizes >= 0) & (sizes % LINE_BYTES == 0)
            begins = np.concatenate([[0], np.cumsum(np.where(known, sizes // LINE_BYTES, 0))])
            lines = joined_bytes(stored.filter(pa.array(known))).view("<u4").reshape(-1, WORDS)
            columns[name] = BlockFilters(type, begins, lines.astype(np.uint32, copy=False), known)
    return BloomFilters(columns)


def _bits(hashes: Hashes) -> Lines:
    """One bit in each of eight words, for each hash."""
    low = hashes.astype(np.uint32)  # the line is chosen by the other half
    return np.uint32(1) << ((low[:, np.newaxis] * _SALTS) >> np.uint32(27))
