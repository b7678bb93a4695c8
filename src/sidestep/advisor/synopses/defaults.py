"""Which synopses columns get when no one says so: options tried on a sample of blocks, and a limit that they share.

===================  ============================================================================================
option               for
===================  ============================================================================================
a few ranges         keys whose blocks have gaps in which values of other blocks lie. They are cheap, and they are
                     what predicates that joins induce are made of (diPs, section 4)
value sets           columns of few values, of any type, whose blocks do not all hold the same of them
Bloom filters        keys that are nearly unique, whose blocks ranges cannot tell apart
a global range       keys whose blocks have more gaps than ranges leave out, but share them
table
===================  ============================================================================================

Each is judged by what lookups of one block's values read of the others (:mod:`.lookups`). What shrinks reads by less
than a twentieth is not built; of the rest, bytes go first to what shrinks them most for each, up to the limit.

A dense column (its blocks hold nearly all between their least and greatest value), one whose zone maps are apart
already, and one whose every block holds the same few values gain nothing: they keep the zone map alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.advisor.synopses.candidates import (
    BYTES_PER_TABLE_RANGE,
    MOST_DISTINCT,
    TRIALS,
    Profile,
    dictionary_bytes,
    distinct_codes,
)
from sidestep.advisor.synopses.lookups import Lookups, Reads, gain, lookups
from sidestep.predicate.types import INTEGRAL, DataType, Kind
from sidestep.synopsis.bloom import BLOOM, LINE_BYTES, false_positive_rate, lines_for
from sidestep.synopsis.contract.block_ranges import block_ranges
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.range_set import BYTES_PER_RANGE, RANGE_SET, compact
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.value_set import VALUES
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.forms import Form

RANGES = (4, 8, 20)
"""The ranges of default range-sets. More than four rarely help, except for dates in data that is spread by a hash."""
RATES = (0.3, 0.2, 0.1, 0.07, 0.05, 0.04, 0.03, 0.025, 0.02, 0.015, 0.01)
"""The false positives of default Bloom filters: the fewer, the more bytes for each value."""
LEAST_GAIN = math.log(1.05)
"""What a synopsis has to shrink reads by."""
LEAST_GAIN_JOINED = 0.02
"""The same for columns that queries join on: there, what it knows serves the other table as well."""
LEAST_MORE = 0.02
"""What a larger one has to shrink them by further."""
FEWEST_VALUES = 3
"""Of two values, a zone map tells which ones a block holds."""
NEARLY_UNIQUE = 0.5
"""The share of a block's rows that have a value of their own, at least, for Bloom filters."""
OFTEN_ELSEWHERE = 0.1
"""The share of a block's values that another holds too, at most, for Bloom filters."""
BITS = 256
"""The bits of a default global range table."""
ALMOST_ALL, LONGEST_IDENTIFIER = 0.95, 64
"""Texts are identifiers if that share of them occurs once and has no blank, and they have at most so many bytes."""
MUCH_BETTER = 1.5
"""How many times as much a global range table has to save as ranges that take no more bytes."""
_MUCH_LEFT = 0.2
_STEPS = 20
_SET_BYTES = 4
"""What a value set takes in a block beside its values."""
KEY_LIKE = INTEGRAL - {Kind.BYTE} | {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}


def key_like(type: DataType) -> bool:
    """Whether columns of the type are likely to be asked for by value: ids, days, moments, but no amounts."""
    return type.kind in KEY_LIKE or (type.kind is Kind.DECIMAL and type.scale == 0)


def identifiers(values: pa.Array) -> bool:
    """Whether some values of a column of strings or bytes are identifiers: short, without blanks, hardly any twice.

    >>> identifiers(pa.array(["7d44-a1", "90ff-bc", "1c0e-77"])), identifiers(pa.array(["to be", "or not", "to be"]))
    (True, False)
    """
    present = values.cast(pa.large_binary()).drop_null()  # of views, Arrow can do no more than cast them
    if len(present) < 2 or len(present.unique()) < ALMOST_ALL * len(present):
        return False
    if float(pc.mean(pc.binary_length(present)).as_py()) > LONGEST_IDENTIFIER:
        return False
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    bytes_only = any(kind(values.type) for kind in kinds)
    blanks = 0 if bytes_only else pc.sum(pc.match_substring(present, b" ")).as_py()
    return bool(blanks <= (1 - ALMOST_ALL) * len(present))


@dataclass(frozen=True, eq=False)
class Option:
    """What a column could get, and what that takes and saves."""

    recipe: Recipe
    bytes: int
    """For all blocks of the table."""
    reads: float
    """The share of all rows that the lookups read which it is for."""
    zone_map: float
    """What they read by the zone map alone."""
    gain: float


@dataclass(frozen=True, eq=False)
class ColumnOptions:
    """What was tried for a column; the cheapest first."""

    column: str
    options: Sequence[Option]
    least: float = LEAST_GAIN
    """What the gain has to be."""


def column_options(
    profile: Profile,
    stands_for: npt.NDArray[np.float64] | None = None,
    *,
    joined: bool = False,
    key: bool = True,
) -> ColumnOptions:
    """All that is worth a try for a column; ``key`` if its values are likely to be asked for one by one.

    ``stands_for`` is how many blocks each of the profile's stands for, if they do not count alike.
    """
    least = LEAST_GAIN_JOINED if joined else LEAST_GAIN
    alike = np.full(len(profile.blocks), profile.in_all / max(1, len(profile.blocks)))
    asked = lookups(profile.blocks, alike if stands_for is None else stands_for)
    if asked is None:
        return ColumnOptions(profile.column, ())
    zones = asked.reads(asked.zone_maps)
    if gain(zones, asked.reads(asked.held)) < least:
        return ColumnOptions(profile.column, ())  # no synopsis tells more than which blocks hold what
    tried = list(_sets(profile, asked, zones))
    if key:
        tried += _ranges(profile, asked, zones)
        left = min((option.reads for option in tried), default=1.0)
        if left > _MUCH_LEFT:
            shared = [each for each in _shared_ranges(profile, asked, zones) if _beats(each, tried)]
            tried += [*_filters(profile, asked, zones), *shared]
    return ColumnOptions(profile.column, sorted(tried, key=lambda option: (option.bytes, option.recipe.sizes)), least)


def _option(recipe: Recipe, size: float, zones: Reads, reads: Reads, queries: slice = slice(None)) -> Option:
    after, before = (float(each[queries].mean()) for each in (reads, zones))
    return Option(recipe, math.ceil(size), after, before, gain(zones, reads))


def _ranges(profile: Profile, asked: Lookups, zones: Reads) -> Iterator[Option]:
    ranges = [CodeRanges(codes, codes) for codes in profile.blocks]
    for most in reversed(RANGES):
        # The widest gaps of all are among the widest of a larger set: each size is made of the one above it.
        ranges = [compact(profile.coding, each, most) for each in ranges]
        size = BYTES_PER_RANGE * float(asked.stands_for @ [len(each) for each in ranges])
        kept = asked.kept(block_ranges(profile.coding, ranges))
        yield _option(Recipe().with_size(RANGE_SET, most), size, zones, asked.reads(kept))


def _sets(profile: Profile, asked: Lookups, zones: Reads) -> Iterator[Option]:
    values = distinct_codes(profile.blocks)
    if len(values) >= FEWEST_VALUES:
        per_block = [_SET_BYTES + VALUES.sizes.unit_bits / 8 * len(codes) for codes in profile.blocks]
        size = float(asked.stands_for @ per_block) + dictionary_bytes(profile.coding, len(values))
        yield _option(Recipe().with_size(VALUES, MOST_DISTINCT), size, zones, asked.reads(asked.held))


def _filters(profile: Profile, asked: Lookups, zones: Reads) -> Iterator[Option]:
    """Filters are not made: what they let through by chance is known."""
    # Codes are the first bytes of a text: several may share one.
    of_bytes = profile.coding.form is Form.BYTES
    distinct = profile.rows.tolist() if of_bytes else [len(codes) for codes in profile.blocks]
    single = asked.single
    elsewhere = np.array(asked.held)
    elsewhere[np.arange(len(asked.source)), asked.source] = False
    shared = elsewhere[single].sum(axis=1).mean() / max(1, len(distinct) - 1)
    if sum(distinct) < NEARLY_UNIQUE * int(profile.rows.sum()) or shared > OFTEN_ELSEWHERE:
        return
    largest = max(distinct)
    # What a filter lets through depends on the values for each line: blocks that differ by little are alike.
    steps, place = np.unique(np.ceil(_STEPS * np.array(distinct) / largest), return_inverse=True)
    finest = filter_bytes(largest, RATES[-1])
    for rate in RATES:
        most = filter_bytes(largest, rate)
        rates = [false_positive_rate(math.ceil(step * largest / _STEPS), most // LINE_BYTES) for step in steps]
        passed = np.array(rates)[place]
        kept = asked.zone_maps.astype(np.float64)
        kept[single] *= np.where(asked.held, 1.0, passed)[single]
        size = float(asked.stands_for @ np.minimum(most, finest / largest * np.array(distinct)))
        yield _option(Recipe().with_size(BLOOM, most), size, zones, asked.reads(kept), single)


def filter_bytes(distinct: int, rate: float) -> int:
    """What a Bloom filter of a rate takes."""
    return LINE_BYTES * lines_for(max(1, distinct), rate)


def _shared_ranges(profile: Profile, asked: Lookups, zones: Reads) -> Iterator[Option]:
    for size, synopsis, _ in TRIALS[GRT](replace(profile, sizes=(BITS // 8,)), None):
        total = size * profile.in_all + BYTES_PER_TABLE_RANGE * BITS
        yield _option(Recipe().with_size(GRT, BITS), total, zones, asked.reads(asked.kept(synopsis)))


def _beats(table: Option, others: Sequence[Option]) -> bool:
    """Whether a global range table saves much more than what takes as many bytes, and no less than what takes more.

    Of ranges of their own, other tables learn more.
    """
    return all(table.gain >= (MUCH_BETTER if other.bytes <= table.bytes else 1.0) * other.gain for other in others)


def share_out(columns: Sequence[ColumnOptions], limit: int) -> dict[str, Option]:
    """What each column gets of a total of ``limit`` bytes: first what shrinks reads most for each byte.

    Columns that get nothing are left out.
    """
    chosen: dict[str, Option] = {}
    left = limit
    while True:
        best, worth = None, 0.0
        for column in columns:
            now = chosen.get(column.column)
            least = column.least if now is None else LEAST_MORE
            for option in column.options:
                more = option.gain - (0.0 if now is None else now.gain)
                price = option.bytes - (0 if now is None else now.bytes)
                if more >= least and price <= left and more / max(price, 1) > worth:
                    best, worth = (column.column, option, price), more / max(price, 1)
        if best is None:
            return chosen
        name, option, price = best
        chosen[name] = option
        left -= price


def reason(column: ColumnOptions, option: Option, chosen: Mapping[str, Option], left: int) -> str:
    """Why a column did not get an option; empty if it did."""
    mine = chosen.get(column.column)
    if mine is option:
        return ""
    if option.gain < column.least:
        return (
            "reads would shrink by less than a twentieth" if column.least == LEAST_GAIN else "reads would hardly shrink"
        )
    if mine is not None and option.gain - mine.gain < LEAST_MORE:
        return "hardly better than what the column has"
    needed = option.bytes - (0 if mine is None else mine.bytes)
    return f"takes {needed:,} bytes more, and the limit leaves {left:,}"
