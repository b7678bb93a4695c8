"""What each kind of synopsis, at each size, would make of a column's queries: tried out, not guessed.

A :class:`Profile` is one column in one group of blocks: the codes of each block, and queries as the workload has them.
Every candidate is made from the codes and asked all queries; what it keeps beside the blocks that do hold something is
its false positives. A zone map is always there and costs nothing extra, so every candidate counts together with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate.types import LONG
from sidestep.synopsis.blockranges import block_ranges
from sidestep.synopsis.bloom import LINE_BYTES, BlockFilters, block_filters, bloom_filter
from sidestep.synopsis.coderanges import CodeRanges
from sidestep.synopsis.codes import Codes, Coding
from sidestep.synopsis.grt import BlockBits, global_ranges, ranges_per_partition
from sidestep.synopsis.grtpopularity import Popularity, uniform
from sidestep.synopsis.grtranges import sub_partition
from sidestep.synopsis.grttable import encode_blocks
from sidestep.synopsis.hashing import code_hashes
from sidestep.synopsis.rangeset import BYTES_PER_RANGE, range_set
from sidestep.synopsis.stored import Mask

RANGE_SET, BLOOM, GRT = "range-set", "Bloom filter", "global range table"
KINDS = (RANGE_SET, BLOOM, GRT)
"""A gap histogram is none of them: of the same number of ranges, a range-set leaves out more (Lemma 1)."""

SIZES = (16, 32, 64, 128, 256, 512, 1024)
"""Bytes per block that are tried."""


class Answers(Protocol):
    """Something that says which blocks may hold a code of some ranges."""

    def meeting(self, wanted: CodeRanges) -> Mask: ...


@dataclass(frozen=True, eq=False)
class Profile:
    """One column in one group of blocks, as the choice of its synopses needs to know it.

    ``blocks`` are each block's ascending, distinct codes: all, or a sample of the blocks (a sample of a block's values
    would make gaps of what it left out). ``queries`` are what is asked of the column, ``weights`` how often.
    """

    column: str
    coding: Coding
    blocks: Sequence[Codes]
    rows: npt.NDArray[np.int64]
    queries: Sequence[CodeRanges]
    weights: npt.NDArray[np.float64]
    group: str = ""
    popularity: Popularity | None = None
    sizes: Sequence[int] = field(default=SIZES)

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.blocks) or len(self.weights) != len(self.queries):
            raise SidestepError(
                f"The profile of {self.column} needs rows for each of its {len(self.blocks)} blocks and a weight for "
                f"each of its {len(self.queries)} queries, but has {len(self.rows)} and {len(self.weights)}."
            )

    @cached_property
    def holding(self) -> Mask:
        """For each query and block, whether the block does hold something that is asked for."""
        codes = np.concatenate([np.zeros(0, dtype=np.uint64), *self.blocks])
        block = np.repeat(np.arange(len(self.blocks)), [len(each) for each in self.blocks])
        order = np.argsort(codes, kind="stable")
        codes, block = codes[order], block[order]
        found = np.zeros((len(self.queries), len(self.blocks)), dtype=np.bool_)
        for number, query in enumerate(self.queries):
            begins = np.searchsorted(codes, query.lows, side="left")
            ends = np.searchsorted(codes, query.highs, side="right")
            for begin, end in zip(begins, ends, strict=True):
                found[number, block[begin:end]] = True
        return found

    def answers(self, synopsis: Answers) -> Mask:
        """For each query and block, whether the synopsis keeps the block."""
        none = np.zeros((0, len(self.blocks)), dtype=np.bool_)
        return np.concatenate([none, *(synopsis.meeting(query)[np.newaxis] for query in self.queries)])

    def false_rows(self, kept: Mask) -> float:
        """The weighted rows of blocks that are kept for nothing."""
        return float(self.weights @ ((kept & ~self.holding) @ self.rows.astype(np.float64)))


@dataclass(frozen=True, eq=False)
class Candidate:
    """One kind of synopsis at one size, made for a profile."""

    kind: str
    per_block: int
    """Bytes for each block."""
    total: int
    """Bytes for the group, what all blocks share included."""
    synopsis: Answers
    kept: Mask
    """For each query and block, whether it and the zone map keep the block."""


@dataclass(frozen=True, eq=False)
class CodeFilters:
    """Bloom filters of codes: they answer for single codes, and keep everything for a range of them."""

    filters: BlockFilters

    def meeting(self, wanted: CodeRanges) -> Mask:
        if np.any(wanted.lows != wanted.highs):
            return np.ones(self.filters.blocks, dtype=np.bool_)
        return self.filters.holding(code_hashes(wanted.lows))


def zone_map(profile: Profile) -> Answers:
    """The profile's zone maps: range-sets of one range."""
    return block_ranges(profile.coding, [range_set(profile.coding, codes, 1) for codes in profile.blocks])


def candidates(profile: Profile, budget: int | None = None) -> list[Candidate]:
    """Every kind at every size that it comes in, as far as the budget could pay for it."""
    count = len(profile.blocks)
    sizes = [size for size in sorted(profile.sizes) if budget is None or size * count <= budget]
    zones = profile.answers(zone_map(profile))
    found: list[Candidate] = []

    def add(kind: str, per_block: int, total: int, synopsis: Answers) -> None:
        found.append(Candidate(kind, per_block, total, synopsis, zones & profile.answers(synopsis)))

    for size in sizes:
        if size >= BYTES_PER_RANGE:
            ranges = [range_set(profile.coding, codes, size // BYTES_PER_RANGE) for codes in profile.blocks]
            add(RANGE_SET, size, size * count, block_ranges(profile.coding, ranges))
        if size >= LINE_BYTES:
            lines = [bloom_filter(code_hashes(codes), size // LINE_BYTES) for codes in profile.blocks]
            add(BLOOM, size, size * count, CodeFilters(block_filters(LONG, lines)))
    for size, bits in zip(reversed(sizes), _tables(profile, sizes), strict=True):
        # The table itself is shared by all blocks, but it is not free.
        add(GRT, size, size * count + bits.table.nbytes, bits)
    return found


def _tables(profile: Profile, sizes: Sequence[int]) -> list[BlockBits]:
    """Global range encodings of every size, largest first; smaller tables are merged from the larger ones."""
    if not sizes:
        return []
    popularity = profile.popularity or uniform(profile.coding)
    bits = [8 * size for size in sizes]
    most = ranges_per_partition(len(profile.blocks), max(bits))
    partitions = [sub_partition(codes, most, popularity) for codes in profile.blocks]
    tables = global_ranges(partitions, bits, popularity, profile.blocks)
    return [BlockBits(table, encode_blocks(table, profile.blocks)) for table in tables]
