"""Whether a column is worth a synopsis when no one says so: the rule for defaults, tried on a sample of blocks.

A range-set of a few ranges is cheap, and it is what predicates that joins induce are made of (diPs, section 4). So that
is the default where it skips what the zone map does not: blocks have gaps, and values that other blocks hold
lie in them. Where blocks have so many gaps that a few ranges leave most of them closed, a global range table is tried,
in which blocks share their gaps.

A column of few values whose blocks do not all hold the same of them gets value sets: they leave out all that a block
does not hold, where ranges leave out some of it, and they do so for every type. Where four ranges do nearly as well,
the column gets those.

A dense column (its blocks hold nearly all between their least and greatest value), one whose zone maps are apart
already, and one whose every block holds the same few values gain nothing: they keep the zone map alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sidestep.advisor.synopses.candidates import MOST_DISTINCT, Profile, candidates, distinct_codes, zone_map
from sidestep.predicate.types import INTEGRAL, DataType, Kind
from sidestep.synopsis.contract.block_ranges import block_ranges
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.range_set import range_set
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.value_set import VALUES
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.forms import Form

FEW, MORE = 4, 8
"""The ranges of a default range-set; more than four rarely help, except for dates in data that is spread by a hash."""
LEAST_SAVED = 0.1
"""A range-set has to spare queries at least this share of all rows."""
LEAST_SAVED_JOINED = 0.02
"""The same for columns that queries join on: there, what it knows serves the other table as well."""
LEAST_GAPS = 0.1
"""The share of what lies between a block's least and greatest value that a range-set has to leave out."""
FEWEST_VALUES = 3
"""Of two values, a zone map tells which ones a block holds."""
NEARLY_ALL = 0.02
"""What ranges may leave to value sets: this share of all rows."""
BITS = 256
"""The bits of a default global range table."""
_MUCH_LEFT, _MUCH_BETTER = 0.2, 0.8
KEY_LIKE = INTEGRAL - {Kind.BYTE} | {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}


def key_like(type: DataType) -> bool:
    """Whether columns of the type are likely to be asked for by value: ids, days, moments, but no amounts."""
    return type.kind in KEY_LIKE or (type.kind is Kind.DECIMAL and type.scale == 0)


def gap_share(coding: Coding, codes: Codes, most: int = MORE) -> float:
    """The share of what lies between the least and the greatest code that a range-set leaves out.

    >>> from sidestep.predicate.types import LONG
    >>> ids = np.concatenate([np.arange(100), np.arange(900, 1000)]).astype(np.uint64)
    >>> gap_share(Coding(LONG), ids), gap_share(Coding(LONG), np.arange(1000, dtype=np.uint64))
    (0.8, 0.0)
    """
    if len(codes) < 2:
        return 0.0
    one = 0.0 if coding.form is Form.FLOAT else 1.0
    ranges = range_set(coding, codes, most)
    whole = float(coding.lengths(ranges.lows[:1], ranges.highs[-1:])[0]) + one
    held = float(np.sum(coding.lengths(ranges.lows, ranges.highs) + one))
    return max(0.0, 1 - held / whole) if whole > 0 else 0.0


def default_recipe(profile: Profile, *, joined: bool = False) -> Recipe:
    """What a column gets by default, judged by the rows that are read for nothing."""
    zones = profile.answers(zone_map(profile))
    reads = {0: profile.false_share(zones)}
    for most in (FEW, MORE):
        ranges = block_ranges(profile.coding, [range_set(profile.coding, codes, most) for codes in profile.blocks])
        reads[most] = profile.false_share(zones & profile.answers(ranges))
    least = LEAST_SAVED_JOINED if joined else LEAST_SAVED
    most = 0
    if reads[0] - reads[MORE] >= least:
        # Eight ranges take twice the bytes of four: they are worth it if they spare a good part of what is left.
        most = FEW if reads[FEW] <= reads[MORE] / _MUCH_BETTER and reads[0] - reads[FEW] >= least else MORE
    recipe = Recipe(range_set=most)
    if reads[FEW] > NEARLY_ALL and (sets := value_set_recipe(profile, least)):
        return sets
    if reads[most] > _MUCH_LEFT:
        # Blocks of many clusters have more gaps than a few ranges can leave out, but they may share them.
        tried = candidates(replace(profile, sizes=(BITS // 8,)))
        shared = min(profile.false_share(each.kept) for each in tried if each.kind is GRT)
        if shared <= reads[most] / 2:
            recipe = recipe.with_size(GRT, BITS)
    return recipe


def has_few_values(blocks: Sequence[Codes]) -> bool:
    """Whether value sets could tell more than zone maps do of a column with these values, and are small."""
    return FEWEST_VALUES <= len(distinct_codes(blocks)) <= MOST_DISTINCT


def value_set_recipe(profile: Profile, least: float = LEAST_SAVED) -> Recipe:
    """Value sets for a column of few values, if they spare queries at least this share of all rows; else nothing."""
    wasted = profile.false_share(profile.answers(zone_map(profile)))  # which is all that a set leaves out
    worth = wasted >= least and has_few_values(profile.blocks)
    return Recipe().with_size(VALUES, MOST_DISTINCT) if worth else Recipe()
