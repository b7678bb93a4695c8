"""What the blocks of a table hold in one column, as ranges of codes: the statistic that data-induced predicates are of.

Any synopsis that can be merged serves (diPs, section 4): value sets first, which are ranges of one value each, then
range-sets and gap histograms, then zone maps and partition values, which are range-sets of one range. A block that the
first knows nothing of is taken from the next.

Bits of a global range table say what several blocks hold together by their OR, a set of the table's ranges (GRT,
section 6: semi-join reduction). Those and the ranges of the same blocks both hold all values, so both together do:
the bits know the gaps, the ranges do not reach beyond the least and greatest value. Blocks without bits, or with those
of another table, are taken by themselves.

Bloom filters cannot be merged into ranges; they are asked when a predicate arrives (:meth:`ColumnRanges.meeting`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from sidestep.predicate import Column
from sidestep.predicate.formula import Null, Within
from sidestep.predicate.types import FLOATING
from sidestep.synopsis import Catalog, Mask, PartitionValues, Synopsis, UnionVectors, ZoneMaps
from sidestep.synopsis.contract.block_ranges import BlockRanges, block_ranges
from sidestep.synopsis.gap_histogram import GapHistograms
from sidestep.synopsis.global_ranges import GlobalRanges
from sidestep.synopsis.grt.encoding import BlockBits
from sidestep.synopsis.range_set import RangeSets
from sidestep.synopsis.skip import kept_by
from sidestep.synopsis.value_set import ValueSets
from sidestep.synopsis.values.code_ranges import CodeRanges, intersect, joined, value_ranges
from sidestep.synopsis.values.codes import (
    GREATEST,
    LEAST,
    WIDTH,
    Codes,
    Coding,
    byte_code,
    common_prefix,
    float_codes,
    integer_codes,
    wide_code,
)
from sidestep.synopsis.values.forms import Form, stored_form
from sidestep.synopsis.zones.bounds import NumberBounds
from sidestep.synopsis.zones.column_zones import HAS_LOWER, HAS_UPPER, MAY_BE_NAN, MAY_HAVE_VALUE, ColumnZones

_MOST_ASKED = 64
"""Synopses that cannot be merged are not asked for more ranges than this: they take values, not codes."""

EVERYTHING = CodeRanges(np.array([LEAST]), np.array([GREATEST]))
NOTHING = CodeRanges(np.zeros(0, np.uint64), np.zeros(0, np.uint64))

_MERGEABLE = (ValueSets, RangeSets, GapHistograms, ZoneMaps, PartitionValues, UnionVectors)
"""Synopses that need not be asked again once their ranges were met; union vectors are rarely about join columns."""


@dataclass(frozen=True, eq=False)
class ColumnRanges:
    """One column in all blocks: ranges that hold its values, and where it may be NULL."""

    column: Column
    blocks: BlockRanges
    may_be_null: Mask
    bits: tuple[BlockBits, ...] = ()
    """Global range bits, one for each table that blocks were encoded by."""
    others: tuple[Synopsis, ...] = ()
    """Synopses that can tell whether a block meets a set of ranges, but not what it holds."""

    @property
    def coding(self) -> Coding:
        return self.blocks.coding

    @cached_property
    def _ascending(self) -> tuple[Codes, Codes, npt.NDArray[np.int32]]:
        """All ranges in the order of their lows, with their blocks: a union of any blocks needs no further sorting."""
        order = np.argsort(self.blocks.lows, kind="stable")
        return self.blocks.lows[order], self.blocks.highs[order], self.blocks.block_of_range[order]

    def union(self, kept: Mask) -> CodeRanges:
        """All values that the kept blocks may hold together (DataPred before it is compacted)."""
        return self._whole if kept.all() else self._union(kept)

    @cached_property
    def _whole(self) -> CodeRanges:
        return self._union(np.ones(self.blocks.blocks, dtype=np.bool_))

    def _union(self, kept: Mask) -> CodeRanges:
        found: list[CodeRanges] = []
        for bits in self.bits:
            known = kept if bits.unknown is None else kept & ~bits.unknown
            if known.any():
                held = _rebased(bits.union(known), bits.table.coding, self.coding)
                found.append(intersect(self._union_of_ranges(known), held))
                kept = kept & ~known
        if kept.any() or not found:
            found.append(self._union_of_ranges(kept))
        if len(found) == 1:
            return found[0]
        return joined(*(np.concatenate([getattr(each, end) for each in found]) for end in ("lows", "highs")))

    def _union_of_ranges(self, kept: Mask) -> CodeRanges:
        lows, highs, block = self._ascending
        chosen = kept[block]
        return _grow_together(lows[chosen], highs[chosen])

    def meeting(self, wanted: CodeRanges, nulls: bool) -> Mask:
        """The blocks that may hold one of the wanted values, or NULL if that is wanted too (Satisfy)."""
        met = self.blocks.meeting(wanted)
        for bits in self.bits:
            if bits.table.coding == self.coding:
                met &= bits.meeting(wanted) if bits.unknown is None else bits.meeting(wanted) | bits.unknown
        if self.others and len(wanted) <= _MOST_ASKED and met.any():
            within = Within(self.column, value_ranges(wanted, self.coding))
            for synopsis in self.others:
                mask = kept_by(synopsis, within)
                if mask is not None:
                    met &= mask
        return met | self.may_be_null if nulls else met


def _grow_together(lows: Codes, highs: Codes) -> CodeRanges:
    """The union of ranges in the order of their lows."""
    if len(lows) <= 1:
        return CodeRanges(lows, highs) if len(lows) else NOTHING
    reach = np.maximum.accumulate(highs)
    apart = lows[1:] > reach[:-1]
    first, last = np.empty(len(lows), np.bool_), np.empty(len(lows), np.bool_)
    first[0] = last[-1] = True
    first[1:] = last[:-1] = apart
    return CodeRanges(lows[first], reach[last])


_KNOWN: WeakKeyDictionary[Catalog, dict[Column, ColumnRanges | None]] = WeakKeyDictionary()
"""A catalog serves many queries, and never changes: what was made of its columns is kept as long as it is."""


def column_ranges(catalog: Catalog, column: Column) -> ColumnRanges | None:
    """The ranges of a column, named and typed as the query has it; None if nothing is known of it in this catalog."""
    known = _KNOWN.setdefault(catalog, {})
    if column not in known:
        known[column] = _merge_sources(catalog, column)
    return known[column]


def _merge_sources(catalog: Catalog, column: Column) -> ColumnRanges | None:
    sources = list(_sources(catalog, column))
    tables = [(synopsis, held) for synopsis in catalog.synopses if (held := _bits(synopsis, column)) is not None]
    if not sources and not tables:
        return None
    ranges = sources[0] if sources else _unknown_ranges(tables[0][1].table.coding, catalog.blocks)
    for other in sources[1:]:
        ranges = ranges.fill_unknown(other)
    if tables and ranges.coding.form is Form.BYTES:
        ranges = ranges.with_prefix(
            common_prefix([ranges.coding.prefix, *(held.table.coding.prefix for _, held in tables)])
        )
    may_be_null = np.ones(catalog.blocks, dtype=np.bool_)
    for synopsis in catalog.synopses:
        mask = kept_by(synopsis, Null(column))
        if mask is not None:
            may_be_null &= mask
    ranges = ranges.outer
    asked_by_codes = {id(synopsis) for synopsis, held in tables if held.table.coding == ranges.coding}
    others = tuple(
        synopsis
        for synopsis in catalog.synopses
        if not isinstance(synopsis, _MERGEABLE) and id(synopsis) not in asked_by_codes
    )
    return ColumnRanges(column, ranges, may_be_null, tuple(held for _, held in tables), others)


def _bits(synopsis: Synopsis, column: Column) -> BlockBits | None:
    """The global range bits of a column, if this is a synopsis of those."""
    return synopsis.of(column) if isinstance(synopsis, GlobalRanges) else None


def _unknown_ranges(coding: Coding, blocks: int) -> BlockRanges:
    """Ranges of blocks of which nothing is known."""
    none = np.zeros(0, dtype=np.uint64)
    return BlockRanges(coding, np.zeros(blocks + 1, dtype=np.int64), none, none, np.ones(blocks, dtype=np.bool_))


def _rebased(ranges: CodeRanges, coding: Coding, into: Coding) -> CodeRanges:
    """Ranges of strings in a coding that leaves out the same prefix, or a shorter one."""
    return ranges if coding == into else block_ranges(coding, [ranges]).with_prefix(into.prefix).of_block(0)


def _sources(catalog: Catalog, column: Column) -> Iterator[BlockRanges]:
    """What the mergeable synopses say of a column, the finest first."""
    if stored_form(column.type) is None:
        return
    for synopsis in catalog.synopses:
        if isinstance(synopsis, ValueSets) and (sets := synopsis.of(column)) is not None:
            yield sets.ranges
    for kind in (RangeSets, GapHistograms):
        for synopsis in catalog.synopses:
            if isinstance(synopsis, kind) and (held := synopsis.of(column)) is not None:
                yield held
    for synopsis in catalog.synopses:
        if isinstance(synopsis, ZoneMaps) and (zones := synopsis.zones(column)) is not None:
            yield zone_ranges(zones)
        elif isinstance(synopsis, PartitionValues) and (values := synopsis.distinct.get(column.name)) is not None:
            zones = values.zones(column)
            if zones is not None:
                yield zone_ranges(zones.take(synopsis.codes[column.name]))


def zone_ranges(zones: ColumnZones) -> BlockRanges:
    """Zone maps as range-sets: one range per block that may hold a value, and NaN apart, which no bound takes in.

    A block of which nothing is known stays unknown.

    >>> import pyarrow as pa
    >>> from sidestep.predicate.types import INTEGER
    >>> from sidestep.synopsis.zones.column_zones import column_zones
    >>> rows = np.array([5, 5, 5])
    >>> zones = column_zones(INTEGER, rows, pa.array([3, None, 7]), pa.array([4, None, 7]), pa.array([0, 5, None]))
    >>> [[(low - 2**63, high - 2**63) for low, high in zone_ranges(zones).of_block(b)] for b in range(3)]
    [[(3, 4)], [], [(7, 7)]]
    """
    coding, lows, highs = _bound_codes(zones)
    has_value = zones.has(MAY_HAVE_VALUE)
    has_nan = zones.has(MAY_BE_NAN) if zones.type.kind in FLOATING else np.zeros_like(has_value)
    has_nan &= ~has_value | (highs < GREATEST)
    begins = np.zeros(len(has_value) + 1, dtype=np.int64)
    np.cumsum(has_value.astype(np.int64) + has_nan, out=begins[1:])
    all_lows, all_highs = np.full(begins[-1], GREATEST), np.full(begins[-1], GREATEST)
    at = begins[:-1][has_value]
    all_lows[at], all_highs[at] = lows[has_value], highs[has_value]
    return BlockRanges(coding, begins, all_lows, all_highs, zones.unknown)


def _bound_codes(zones: ColumnZones) -> tuple[Coding, Codes, Codes]:
    """The codes of each block's bounds; an end that is missing, or of a type without order, is the extreme code."""
    coding, bounds = Coding(zones.type), zones.bounds
    lows, highs = np.full(len(zones.flags), LEAST), np.full(len(zones.flags), GREATEST)
    if bounds is None:
        return coding, lows, highs
    if isinstance(bounds, NumberBounds):
        code = float_codes if bounds.lower.dtype == np.float64 else integer_codes
        below, above = code(bounds.lower), code(bounds.upper)
    else:
        values = [bounds.value(rank) for rank in range(len(bounds.dictionary))]
        if bounds.form is Form.BYTES:
            bounded = bool(np.all(zones.has(HAS_LOWER) & zones.has(HAS_UPPER) | ~zones.has(MAY_HAVE_VALUE)))
            coding = Coding(zones.type, common_prefix(values[:1] + values[-1:]) if bounded else b"")
            codes = [byte_code(value, coding.prefix) for value in values]
        else:
            codes = [wide_code(_wide(value)) for value in values]
        ranked = np.array([0, *codes, int(GREATEST)], dtype=np.uint64)
        below, above = ranked[bounds.lower + 1], ranked[bounds.upper + 1]
    low, high = zones.has(HAS_LOWER), zones.has(HAS_UPPER)
    return coding, np.where(low, below, lows), np.where(high, above, highs)


def _wide(key: bytes) -> int:
    """The unscaled value of a wide decimal's dictionary key: sixteen bytes, the sign bit turned."""
    return int.from_bytes(key.ljust(2 * WIDTH, b"\0")) - (1 << 127)
