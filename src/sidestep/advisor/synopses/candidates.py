"""What each kind of synopsis, at each size, would make of a column's queries: tried out, not guessed.

A :class:`Profile` is one column in one group of blocks: the codes of each block, and queries as the workload has them.
Every candidate is made from the codes and asked all queries; what it keeps beside the blocks that do hold something is
its false positives. A zone map is always there and costs nothing extra, so every candidate counts together with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate.types import LONG
from sidestep.synopsis.bloom import (
    BLOOM,
    LINE_BYTES,
    WORDS,
    BlockFilters,
    Lines,
    block_filters,
    bloom_filter,
    false_positive_rate,
    lines_for,
)
from sidestep.synopsis.contract.block_ranges import block_ranges
from sidestep.synopsis.descriptor import SynopsisKind
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.grt.encoding import BlockBits, global_ranges, ranges_per_partition
from sidestep.synopsis.grt.merge import sub_partition
from sidestep.synopsis.grt.popularity import Popularity, uniform
from sidestep.synopsis.grt.table import encode_blocks
from sidestep.synopsis.range_set import RANGE_SET, compact
from sidestep.synopsis.value_set import MEAN_BYTES, VALUES
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import GREATEST, LEAST, Codes, Coding
from sidestep.synopsis.values.forms import Form, Mask
from sidestep.synopsis.values.hashing import code_hashes

SIZES = (16, 32, 64, 128, 256, 512, 1024)
"""Bytes per block that are tried."""

BYTES_PER_TABLE_RANGE = 44
"""What a range of a global range table takes where it is stored: two numbers of up to twenty digits."""
MOST_DISTINCT = 256
"""Value sets are for columns of up to so many values in all blocks."""
_VALUE_BYTES, _LENGTH_BYTES = 8, 4
"""What a value takes where it is stored once for all blocks: itself, if it is no string, and its length."""
_EVERYTHING = CodeRanges(np.array([LEAST]), np.array([GREATEST]))
LEAST_GAPS = 0.1
"""The share of what lies between a block's least and greatest value that ranges have to leave out, to be of use."""
_FILTER_SIZES = tuple(quarters << power for power in range(9, 19) for quarters in range(4, 8))
_RATE, _USEFUL, _USELESS = 0.01, 0.7, 0.999
"""Large Bloom filters are tried up to the size that gives the first rate of false positives, from the second on; those
beyond the third are full."""
_MOST_TRIED, _FEW_RANGES = 1 << 13, 16
"""A global range table of a sample is merged from about so many ranges, as long as each block has a few."""


class CodeSynopsis(Protocol):
    """Something that says which blocks may hold a code of some ranges; it knows of every block."""

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
    of_blocks: int = 0
    """How many blocks those here stand for, if they are a sample: what a synopsis costs is counted for all of them."""
    made: Sequence[Candidate] | None = field(default=None, repr=False)
    """What can be tried, if that was made before, of all groups of the column together (:func:`group_profiles`)."""

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.blocks) or len(self.weights) != len(self.queries):
            raise SidestepError(
                f"The profile of {self.column} needs rows for each of its {len(self.blocks)} blocks and a weight for "
                f"each of its {len(self.queries)} queries, but has {len(self.rows)} and {len(self.weights)}."
            )

    @property
    def in_all(self) -> int:
        """The number of blocks in the group, of which some or all are here."""
        return max(self.of_blocks, len(self.blocks))

    @property
    def sampled(self) -> bool:
        return self.in_all > len(self.blocks)

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

    def answers(self, synopsis: CodeSynopsis) -> Mask:
        """For each query and block, whether the synopsis keeps the block."""
        none = np.zeros((0, len(self.blocks)), dtype=np.bool_)
        return np.concatenate([none, *(synopsis.meeting(query)[np.newaxis] for query in self.queries)])

    @cached_property
    def shares(self) -> npt.NDArray[np.float64]:
        """What each query counts of all that some block holds nothing of; zeros if there is no such query."""
        asked = np.where((~self.holding).any(axis=1), np.maximum(self.weights, 0.0), 0.0)
        return np.asarray(asked / asked.sum() if asked.any() else asked, dtype=np.float64)

    def rate(self, kept: Mask) -> float:
        """The rate of false positives: of the blocks that hold nothing of what is asked for, the share that is kept."""
        absent = ~self.holding
        possible = np.maximum(absent.sum(axis=1), 1)
        return min(1.0, float(self.shares @ ((kept & absent).sum(axis=1) / possible)))

    def kept_share(self, kept: Mask) -> float:
        """The share of all rows, over all queries, that are read."""
        rows = float(self.weights @ (kept @ self.rows.astype(np.float64)))
        return rows / max(1.0, float(self.weights.sum()) * float(self.rows.sum()))

    @property
    def asked_rows(self) -> float:
        """The rows of the whole group, once for each query."""
        return float(self.weights.sum()) * float(self.rows.sum()) * self.in_all / max(1, len(self.blocks))

    def false_rows(self, kept: Mask) -> float:
        """The weighted rows of blocks that are kept for nothing, in the whole group."""
        here = float(self.weights @ ((kept & ~self.holding) @ self.rows.astype(np.float64)))
        return here * self.in_all / max(1, len(self.blocks))


@dataclass(frozen=True, eq=False)
class Candidate:
    """One kind of synopsis at one size, made for a profile."""

    kind: SynopsisKind[Any]
    per_block: int
    """Bytes for each block."""
    total: int
    """Bytes for the group, what all blocks share included."""
    synopsis: CodeSynopsis
    kept: Mask
    """For each query and block, whether it and the zone map keep the block."""
    shared: int = 0
    """What of the total is paid but once, however many groups of the column's blocks have it: its table."""


@dataclass(frozen=True, eq=False)
class CodeFilters:
    """Bloom filters of codes: they answer for single codes, and keep everything for a range of them."""

    filters: BlockFilters

    def meeting(self, wanted: CodeRanges) -> Mask:
        if np.any(wanted.lows != wanted.highs):
            return np.ones(self.filters.blocks, dtype=np.bool_)
        return self.filters.holding(code_hashes(wanted.lows))


def zone_map(profile: Profile) -> CodeSynopsis:
    """The profile's zone maps: range-sets of one range."""
    return block_ranges(profile.coding, [CodeRanges(codes[:1], codes[len(codes) - 1 :]) for codes in profile.blocks])


def gap_share(coding: Coding, codes: Codes, most: int = 8) -> float:
    """The share of what lies between the least and the greatest code that a range-set leaves out.

    >>> from sidestep.predicate.types import LONG
    >>> ids = np.concatenate([np.arange(100), np.arange(900, 1000)]).astype(np.uint64)
    >>> gap_share(Coding(LONG), ids), gap_share(Coding(LONG), np.arange(1000, dtype=np.uint64))
    (0.8, 0.0)
    """
    if len(codes) < 2:
        return 0.0
    one = 0.0 if coding.form is Form.FLOAT else 1.0
    ranges = compact(coding, CodeRanges(codes, codes), most)
    whole = float(coding.lengths(ranges.lows[:1], ranges.highs[-1:])[0]) + one
    held = float(np.sum(coding.lengths(ranges.lows, ranges.highs) + one))
    return max(0.0, 1 - held / whole) if whole > 0 else 0.0


def candidates(profile: Profile, budget: int | None = None) -> list[Candidate]:
    """Every kind in :data:`TRIALS` at every size that it comes in, as far as the budget could pay for it."""
    if profile.made is not None:
        return [each for each in profile.made if budget is None or each.total <= budget]
    count = profile.in_all
    zones = profile.answers(zone_map(profile))
    tried: list[Candidate] = []
    for kind, trial in TRIALS.items():
        for per_block, synopsis, shared in trial(profile, budget):
            kept = zones & profile.answers(synopsis)
            tried.append(Candidate(kind, per_block, per_block * count + shared, synopsis, kept, shared))
    return tried


Trial = Callable[[Profile, int | None], Iterator[tuple[int, CodeSynopsis, int]]]
"""Makes a kind of synopsis of a profile at several sizes, as far as a budget could pay for each.

Gives the bytes in a block, the synopsis, and the bytes that are paid but once.
"""


def _sizes(profile: Profile, budget: int | None) -> list[int]:
    return [size for size in sorted(profile.sizes) if budget is None or size * profile.in_all <= budget]


def _range_sets(profile: Profile, budget: int | None) -> Iterator[tuple[int, CodeSynopsis, int]]:
    ranges = [CodeRanges(codes, codes) for codes in profile.blocks]
    for size in reversed(_sizes(profile, budget)):
        if most := RANGE_SET.sizes.within(size):
            # The widest gaps of all are among the widest of a larger set: each size is made of the one above it.
            ranges = [compact(profile.coding, each, most) for each in ranges]
            yield size, block_ranges(profile.coding, ranges), 0


def _filters(profile: Profile, budget: int | None) -> Iterator[tuple[int, CodeSynopsis, int]]:
    for size in [*_sizes(profile, budget), *_filter_sizes(profile, budget)]:
        if size >= LINE_BYTES:
            lines = [_filter(codes, size // LINE_BYTES) for codes in profile.blocks]
            yield size, CodeFilters(block_filters(LONG, lines)), 0


def _encodings(profile: Profile, budget: int | None) -> Iterator[tuple[int, CodeSynopsis, int]]:
    """Of blocks without gaps, values lie in all ranges that there could be: none is made, which takes long."""
    gaps = max((gap_share(profile.coding, codes, _FEW_RANGES) for codes in profile.blocks), default=0.0)
    sizes = _sizes(profile, budget) if gaps >= LEAST_GAPS else []
    for size, bits in zip(reversed(sizes), _tables(profile, sizes), strict=True):
        # The table itself is shared by all blocks, but it is not free; that of a sample may be smaller than it will be.
        yield size, bits, BYTES_PER_TABLE_RANGE * (8 * size if profile.sampled else len(bits.table.ranges))


def _value_sets(profile: Profile, budget: int | None) -> Iterator[tuple[int, CodeSynopsis, int]]:
    largest = max(map(len, profile.blocks), default=0)
    values = distinct_codes(profile.blocks)
    if not len(values):
        return
    for size in _sizes(profile, budget):
        most = VALUES.sizes.within(size)
        sets = [CodeRanges(codes, codes) if len(codes) <= most else _EVERYTHING for codes in profile.blocks]
        yield size, block_ranges(profile.coding, sets), dictionary_bytes(profile.coding, len(values))
        if most >= largest:
            return


def distinct_codes(blocks: Sequence[Codes]) -> Codes:
    """The distinct codes of all blocks together; none where they are more than :data:`MOST_DISTINCT`.

    A block with too many says so for all: to sort those of a column of millions takes long.
    """
    nothing = np.zeros(0, dtype=np.uint64)
    if max(map(len, blocks), default=0) > MOST_DISTINCT:
        return nothing
    codes = np.unique(np.concatenate([nothing, *blocks]))
    return codes if len(codes) <= MOST_DISTINCT else nothing


def dictionary_bytes(coding: Coding, values: int) -> int:
    """What the values of a column take that value sets store once for all blocks."""
    return values * (_LENGTH_BYTES + (MEAN_BYTES if coding.form is Form.BYTES else _VALUE_BYTES))


TRIALS: Mapping[SynopsisKind[Any], Trial] = {
    RANGE_SET: _range_sets,
    BLOOM: _filters,
    GRT: _encodings,
    VALUES: _value_sets,
}
"""The kinds that are chosen by trial; others are for those who name them. A gap histogram is one of those: of the same
number of ranges, a range-set leaves out more (Lemma 1)."""


@dataclass(frozen=True, eq=False)
class Share:
    """A group of the blocks that a profile has."""

    name: str
    members: npt.NDArray[np.int64]
    """Which of the profile's blocks they are."""
    of_blocks: int
    weights: npt.NDArray[np.float64]
    """How often each of the profile's queries is asked of these blocks."""


def group_profiles(whole: Profile, shares: Sequence[Share], budget: int) -> list[Profile]:
    """A column's profile for each group of its blocks.

    Every block belongs to one. Candidates are made once, of all blocks: they are the same for a block whatever its
    group, and the ranges of a global range table have to serve all groups that get one.
    """
    fewest = min(max(share.of_blocks, len(share.members)) for share in shares)
    found = candidates(whole, budget * whole.in_all // max(1, fewest))
    profiles = []
    for share in shares:
        profile = replace(
            whole,
            blocks=[whole.blocks[at] for at in share.members],
            rows=whole.rows[share.members],
            weights=share.weights,
            group=share.name,
            of_blocks=share.of_blocks,
        )
        made = [
            replace(each, total=each.per_block * profile.in_all + each.shared, kept=each.kept[:, share.members])
            for each in found
        ]
        profiles.append(replace(profile, made=made))
    return profiles


def _filter_sizes(profile: Profile, budget: int | None) -> list[int]:
    """Larger sizes for Bloom filters: up to what the most distinct values need, from where they begin to be of use."""
    most = max(map(len, profile.blocks), default=0)
    needed = LINE_BYTES * lines_for(most, _RATE) if most else 0
    sizes = [size for size in _FILTER_SIZES if max(profile.sizes, default=0) < size < 1.25 * needed]
    useful = [size for size in sizes if false_positive_rate(most, size // LINE_BYTES) < _USEFUL]
    return [size for size in useful if budget is None or size * profile.in_all <= budget]


def _filter(codes: Codes, lines: int) -> Lines:
    if len(codes) and false_positive_rate(len(codes), lines) > _USELESS:
        return np.full((lines, WORDS), np.iinfo(np.uint32).max, dtype=np.uint32)  # filled to the last bit, or nearly
    return bloom_filter(code_hashes(codes), lines)


def _tables(profile: Profile, sizes: Sequence[int]) -> list[BlockBits]:
    """Global range encodings of every size, largest first; smaller tables are merged from the larger ones.

    All blocks of a table share its ranges. Were those of a few sampled ones given to themselves alone, as many ranges
    as they have gaps, nothing would ever be taken for another: so a sample gets no more than half of its own ranges,
    and what a larger table would do better is not counted.
    """
    if not sizes:
        return []
    popularity = profile.popularity or uniform(profile.coding)
    bits = [8 * size for size in sizes]
    most = ranges_per_partition(len(profile.blocks), max(bits))
    if profile.sampled:
        most = min(most, max(_FEW_RANGES, _MOST_TRIED // max(1, len(profile.blocks))))
    partitions = [sub_partition(codes, most, popularity) for codes in profile.blocks]
    if profile.sampled:
        bits = [min(each, max(2, sum(map(len, partitions)) // 2)) for each in bits]
    tables = global_ranges(partitions, bits, popularity, [CodeRanges(codes, codes) for codes in profile.blocks])
    return [BlockBits(table, encode_blocks(table, profile.blocks)) for table in tables]
