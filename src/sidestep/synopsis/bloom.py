"""Bloom filters: which values a block may hold, for queries that ask for single values (``=`` and short ``IN`` lists).

The split-block kind: a filter is some number of 256-bit lines. A value's hash chooses one line, and one bit in each of
the line's eight words, so that asking touches a single line. It answers nothing about ranges, and it needs about ten
bits for every distinct value: with too few it says "maybe" to everything (diPs, section 4, found just that).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis.contract.answer import Answer, ByColumn
from sidestep.synopsis.descriptor import BlockValues, Sizes, SynopsisKind
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.values.codes import concatenate_bytes
from sidestep.synopsis.values.forms import ArrowColumn, Form, Mask, if_any
from sidestep.synopsis.values.hashing import Hashes, code_hashes, column_hashes, mix, value_hashes

Lines = npt.NDArray[np.uint32]
"""One row per 256-bit line, eight words each."""

LINE_BYTES = 32
WORDS = 8
_BITS = 32
_SALTS = (mix(np.arange(1, WORDS + 1, dtype=np.uint64)) >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
"""Odd numbers, one per word: each picks its bit from the same 32 bits of the hash in another way."""
RATE = 0.01
"""A filter is no larger than this rate of false positives wants."""
_USELESS = 0.9
"""A filter that would say "maybe" so often is not worth its bytes."""
_MANY = 1000
"""Above so many distinct values, a filter grows in proportion to them."""
NO_FILTER = b"\0"
"""What a block of which nothing is known stores: filters are never of that length."""
_MOST_VALUES = 1_000
_MOST_PROBES = 5_000_000
"""Values times blocks. Longer lists are not looked up: that takes time, and one false positive keeps a block."""


@dataclass(frozen=True, eq=False)
class BlockFilters:
    """The Bloom filters of one column: ``lines[begins[b]:begins[b + 1]]`` is block b's.

    A block that has no value has no lines; neither has one of which nothing is known, and ``unknown`` tells them apart.
    """

    type: DataType
    begins: npt.NDArray[np.int64]
    lines: Lines
    unknown: Mask | None = None
    """The blocks of which nothing is known; None if there are none."""

    @property
    def blocks(self) -> int:
        return len(self.begins) - 1

    def may_be_within(self, ranges: IntervalSet) -> Answer | None:
        """Blocks that may hold a value of the set; None if its values cannot be listed, or are too many."""
        values = ranges.values(max(1, min(_MOST_VALUES, _MOST_PROBES // max(1, self.blocks))))
        hashes = None if values is None else value_hashes(values, self.type)
        return None if hashes is None else Answer(self.holding(hashes), self.unknown)

    def holding(self, hashes: Hashes) -> Mask:
        """Blocks that may hold a value with one of the hashes."""
        held = np.zeros(self.blocks, dtype=np.bool_)
        asked = np.flatnonzero(np.diff(self.begins))
        begins, sizes = self.begins[asked], np.diff(self.begins)[asked].astype(np.uint64)
        words = self.lines.reshape(-1)
        for line, bits in zip((hashes >> np.uint64(32)), _bits(hashes), strict=True):
            at = WORDS * (begins + ((line * sizes) >> np.uint64(32)).astype(np.int64))
            left = asked
            for word in range(WORDS):  # most blocks are out after a word or two, and are not looked at again
                hit = (words[at + word] & bits[word]) != 0
                at, left = at[hit], left[hit]
            held[left] = True
        return held

    def held_codes(self, among: Mask) -> None:
        """A filter lists no values."""

    def pass_rate(self, among: Mask) -> float:
        """How likely these blocks' filters are to say "maybe" to a value that is not there, from the bits set."""
        if not among.any():
            return 1.0
        lines = np.prod(np.bitwise_count(self.lines) / float(_BITS), axis=1)
        sums = np.concatenate([[0.0], np.cumsum(lines)])
        counts = np.diff(self.begins)
        rates = (sums[self.begins[1:]] - sums[self.begins[:-1]]) / np.maximum(counts, 1)
        return float(np.mean((rates if self.unknown is None else np.where(self.unknown, 1.0, rates))[among]))

    @property
    def nbytes(self) -> int:
        return self.begins.nbytes + self.lines.nbytes + (0 if self.unknown is None else self.unknown.nbytes)


class BloomFilters(ByColumn[BlockFilters]):
    """The Bloom filters of the columns that were loaded; they answer for values that can be listed."""

    name = "Bloom filter"


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


def block_filters(type: DataType, filters: Sequence[Lines | None]) -> BlockFilters:
    """The filters of each block put together; None is a block of which nothing is known."""
    begins = np.zeros(len(filters) + 1, dtype=np.int64)
    np.cumsum([0 if each is None else len(each) for each in filters], out=begins[1:])
    none = np.zeros((0, WORDS), dtype=np.uint32)
    lines = np.concatenate([none, *(each for each in filters if each is not None)])
    return BlockFilters(type, begins, lines, if_any(np.array([each is None for each in filters], dtype=np.bool_)))


def _bits(hashes: Hashes) -> Lines:
    """One bit in each of eight words, for each hash."""
    low = hashes.astype(np.uint32)  # the line is chosen by the other half
    return np.uint32(1) << ((low[:, np.newaxis] * _SALTS) >> np.uint32(27))


def _build(block: BlockValues, size: int) -> dict[str, Any]:
    """A filter as large as the distinct values need for :data:`RATE`, but no larger than ``size`` bytes."""
    hashes = _distinct_hashes(block)
    if not len(hashes):
        return {"bloom": b""}
    lines = min(size // LINE_BYTES, _lines(len(hashes)))
    if _rate(len(hashes), lines) > _USELESS:
        return {"bloom": NO_FILTER}
    return {"bloom": bloom_filter(hashes, lines).astype("<u4").tobytes()}


def _distinct_hashes(block: BlockValues) -> Hashes:
    """The distinct hashes of a block's values: codes of integers and floats are as good as the values."""
    if block.coding.form in (Form.INTEGER, Form.FLOAT):
        return code_hashes(block.distinct)
    hashes = column_hashes(block.values, block.coding.type)
    assert hashes is not None
    return np.unique(hashes)


@lru_cache(maxsize=_MANY)
def _lines_of_few(distinct: int) -> int:
    return lines_for(distinct, RATE)


def _lines(distinct: int) -> int:
    return _lines_of_few(distinct) if distinct <= _MANY else math.ceil(distinct / _MANY * _lines_of_few(_MANY))


@lru_cache(maxsize=_MANY)
def _rate(distinct: int, lines: int) -> float:
    return false_positive_rate(distinct, lines)


def _read(
    type: DataType, stored: Mapping[str, ArrowColumn], tables: Sequence[GlobalRangeTable]
) -> tuple[BlockFilters, ...]:
    """Bytes that are no whole lines are unknown."""
    column = stored["bloom"]
    sizes = np.asarray(pc.fill_null(pc.binary_length(column), -1), dtype=np.int64)
    known = (sizes >= 0) & (sizes % LINE_BYTES == 0)
    begins = np.concatenate([[0], np.cumsum(np.where(known, sizes // LINE_BYTES, 0))])
    lines = concatenate_bytes(column.filter(pa.array(known))).view("<u4").reshape(-1, WORDS)
    return (BlockFilters(type, begins, lines.astype(np.uint32, copy=False), if_any(~known)),)


BLOOM = SynopsisKind(
    name="bloom",
    synopsis=BloomFilters,
    sizes=Sizes(usual=1 << 20, least=LINE_BYTES, limit=1 << 24, unit="bytes at most", unit_bits=8),
    columns={"bloom": pa.large_binary()},
    unknown=NO_FILTER,
    build=_build,
    read=_read,
    repeats=False,
)
