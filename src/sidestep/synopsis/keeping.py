"""How much synopses let through, judged by themselves alone: no data is read.

The ends of ranges are values that a block holds. For such a value a perfect synopsis keeps that block, and others only
if they hold it too, so what is kept beyond the one is at most false: a bound on the rate of false positives for queries
that ask for single values. It is the same kind of figure when the index is made and whenever it is looked at again, so
that growth of it says that the blocks at hand no longer suit what was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sidestep.predicate.intervals import IntervalSet
from sidestep.synopsis.bloom import BlockFilters
from sidestep.synopsis.values.code_ranges import CodeRanges, value_ranges
from sidestep.synopsis.values.codes import GREATEST, LEAST, Codes, Coding
from sidestep.synopsis.values.forms import Form, Mask

MOST_VALUES = 64
DOUBLED, NOTABLE = 2.0, 0.02
"""A rebuild is advised when the rate has become so many times as large, and larger by at least so much."""


class MayHold(Protocol):
    """Zone maps, or any synopsis, of one column."""

    def may_be_within(self, ranges: IntervalSet) -> Mask | None: ...


@dataclass(frozen=True, slots=True)
class Keeping:
    """The share of the other blocks that are kept for a value that some block holds."""

    zone_map: float
    """By the zone map alone."""
    kept: float
    """By the zone map and the column's synopses together."""

    @property
    def saved(self) -> float:
        """The share of what the zone map keeps that the synopses spare."""
        return 1 - self.kept / self.zone_map if self.zone_map > 0 else 0.0

    def outgrown(self, before: Keeping) -> bool:
        """Whether the rate has doubled since."""
        return self.kept >= DOUBLED * before.kept and self.kept - before.kept >= NOTABLE


def keeping(
    zones: MayHold, synopses: Sequence[MayHold], filters: BlockFilters | None, coding: Coding, ends: Codes, among: Mask
) -> Keeping | None:
    """What is kept ``among`` some blocks for values drawn from the ``ends`` of ranges; None if nothing can be told."""
    known = ends[(ends != LEAST) & (ends != GREATEST)]
    if not len(known) or int(among.sum()) < 2:
        return None
    drawn = np.random.default_rng(len(known)).choice(known, min(MOST_VALUES, len(known)), replace=False)
    by_zone, by_all = [], []
    # A code of a string is no value to ask a filter for: there, its bits have to tell how often it says "maybe".
    exact = coding.form in (Form.INTEGER, Form.FLOAT)
    asked = (zones, *synopses, *([filters] if filters is not None and exact else []))
    for code in drawn[:, np.newaxis]:
        wanted = value_ranges(CodeRanges(code, code), coding)
        kept = among
        for number, synopsis in enumerate(asked):
            answer = synopsis.may_be_within(wanted)
            kept = kept if answer is None else kept & answer
            if number == 0:
                by_zone.append(int(kept.sum()) - 1)
        by_all.append(int(kept.sum()) - 1)
    others = int(among.sum()) - 1
    passed = 1.0 if filters is None or exact else pass_rate(filters, among)
    return Keeping(*(max(0.0, float(np.mean(kept)) / others) * by for kept, by in ((by_zone, 1.0), (by_all, passed))))


def pass_rate(filters: BlockFilters, among: Mask) -> float:
    """How likely Bloom filters are to say "maybe" to a value that a block does not hold, from the bits that are set."""
    lines = np.prod(np.bitwise_count(filters.lines) / 32.0, axis=1)
    sums = np.concatenate([[0.0], np.cumsum(lines)])
    counts = np.diff(filters.begins)
    each = (sums[filters.begins[1:]] - sums[filters.begins[:-1]]) / np.maximum(counts, 1)
    return float(np.mean(np.where(filters.known, each, 1.0)[among])) if among.any() else 1.0
