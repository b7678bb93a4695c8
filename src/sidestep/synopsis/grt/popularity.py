"""Popularity: how much of the workload a value satisfies, and so how much a false positive on it would cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate.intervals import IntervalSet
from sidestep.synopsis.values.code_ranges import code_ranges
from sidestep.synopsis.values.codes import GREATEST, LEAST, Codes, Coding, Lengths
from sidestep.synopsis.values.forms import Form


@dataclass(frozen=True, eq=False)
class Popularity:
    """The popularity C[v] of every value of a column (GRT, 4.1.1), constant from each code in ``starts`` to the next.

    C[v] is the share of the workload's predicates that v satisfies. The cost of a gap is the sum of C over the values
    in it (equation 1): what is asked for often, and is not there, is worth leaving out.
    """

    coding: Coding
    starts: Codes
    each: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        if not len(self.starts) or self.starts[0] != LEAST or np.any(self.starts[1:] <= self.starts[:-1]):
            raise SidestepError("Popularity is given for pieces that begin at the least code and go up.")

    @cached_property
    def _before(self) -> Lengths:
        """The popularity of everything before each piece."""
        whole = self.each[:-1] * self._lengths(self.starts[:-1], self.starts[1:] - np.uint64(1))
        return np.concatenate([[0.0], np.cumsum(whole)])

    def _lengths(self, lows: Codes, highs: Codes) -> Lengths:
        """Lengths of closed ranges: a single float has none, a single value of any other type counts as one."""
        return self.coding.lengths(lows, highs) + (0.0 if self.coding.form is Form.FLOAT else 1.0)

    def of(self, lows: Codes, highs: Codes) -> Lengths:
        """The popularity of all values from ``lows[i]`` to ``highs[i]``, both included."""
        first = np.searchsorted(self.starts, lows, side="right") - 1
        last = np.searchsorted(self.starts, highs, side="right") - 1
        if len(self.starts) == 1:
            return np.asarray(self._lengths(lows, highs) * self.each[0])
        # Piece by piece: a difference of running totals alone would lose small gaps among 2^64 codes.
        end_of_first = np.append(self.starts[1:] - np.uint64(1), GREATEST)[first]
        within = self._lengths(lows, np.minimum(highs, end_of_first)) * self.each[first]
        beyond = np.where(
            last > first,
            self._before[last]
            - self._before[np.minimum(first + 1, last)]
            + self._lengths(np.minimum(self.starts[last], highs), highs) * self.each[last],
            0.0,
        )
        return np.asarray(within + np.maximum(beyond, 0.0))


def uniform(coding: Coding) -> Popularity:
    """Every value as popular as any other: what to assume when there is no workload.

    >>> from sidestep.predicate.types import INTEGER
    >>> uniform(Coding(INTEGER)).of(np.array([10], dtype=np.uint64), np.array([12], dtype=np.uint64))
    array([3.])
    """
    return Popularity(coding, np.array([LEAST]), np.ones(1))


FLOOR = 0.01


def popularity(
    coding: Coding, predicates: Iterable[tuple[IntervalSet, float]], floor: float = FLOOR, spread: float = 0.0
) -> Popularity:
    """Popularity from the workload's predicates on a column: what each asks for, and how often.

    A value that no predicate touched would have no popularity, and its gaps would never be kept apart, so queries yet
    to come would find them closed. All values together get at least the share ``floor`` of the whole, spread evenly:
    too little to outweigh what was asked for, enough to tell wide gaps from narrow ones. Predicates that cannot be
    carried over into codes are left out; with none left, popularity is uniform. So it is for floats that are asked for
    by equality only: a single number has no length.

    With ``spread``, each predicate also lends that share of its popularity to the values around it, up to the next
    predicates on either side. Where queries ask for single ids that never recur, it is the neighbours of what was asked
    for that will be.

    >>> from sidestep.predicate.intervals import Interval
    >>> from sidestep.predicate.types import INTEGER
    >>> from sidestep.synopsis.values.codes import integer_codes
    >>> asked = [IntervalSet(INTEGER, (Interval(low, high),)) for low, high in ((1, 5), (4, 10))]
    >>> known = popularity(Coding(INTEGER), [(ranges, 1.0) for ranges in asked])
    >>> known.of(*2 * [integer_codes(np.arange(1, 11))])
    array([0.5, 0.5, 0.5, 1. , 1. , 0.5, 0.5, 0.5, 0.5, 0.5])
    """
    lows: list[Codes] = []
    highs: list[Codes] = []
    weights: list[npt.NDArray[np.float64]] = []
    total = 0.0
    for ranges, weight in predicates:
        found = code_ranges(ranges, coding)
        if found is None or weight <= 0:
            continue
        total += weight
        lows.append(found.lows)
        highs.append(found.highs)
        weights.append(np.full(len(found), float(weight)))
    if not sum(map(len, lows)):
        return uniform(coding)
    begins, ends, shares = np.concatenate(lows), np.concatenate(highs), np.concatenate(weights) / total
    made = _sum(coding, begins, ends, shares)
    if spread > 0:
        # Summed by itself: next to popularities a billion times as large, rounding would swallow it.
        lent = _sum(coding, *_neighbourhoods(coding, begins, ends, spread * shares))
        starts = np.union1d(made.starts, lent.starts)
        both = [each.each[np.searchsorted(each.starts, starts, side="right") - 1] for each in (made, lent)]
        made = Popularity(coding, starts, both[0] + both[1])
    everything = np.array([LEAST]), np.array([GREATEST])
    touched = float(made.of(*everything)[0])
    if touched <= 0.0:
        return uniform(coding)
    evenly = floor * touched / float(uniform(coding).of(*everything)[0])
    return Popularity(coding, made.starts, np.maximum(made.each, evenly))


def _sum(coding: Coding, begins: Codes, ends: Codes, shares: Lengths) -> Popularity:
    """The sum of what closed ranges of codes contribute to each value in them."""
    bounded = ends < GREATEST
    places = np.concatenate([begins, ends[bounded] + np.uint64(1)])
    steps = np.concatenate([shares, -shares[bounded]])
    starts, at = np.unique(np.append(places, LEAST), return_inverse=True)
    changes, open_now = np.zeros(len(starts)), np.zeros(len(starts), dtype=np.int64)
    np.add.at(changes, at[:-1], steps)
    np.add.at(open_now, at[:-1], np.sign(steps).astype(np.int64))
    # Where no range is open, nothing is left but rounding.
    return Popularity(coding, starts, np.where(np.cumsum(open_now) > 0, np.maximum(np.cumsum(changes), 0.0), 0.0))


def _neighbourhoods(coding: Coding, begins: Codes, ends: Codes, lent: Lengths) -> tuple[Codes, Codes, Lengths]:
    """What each predicate lends to the values from the begin of the one before it to the end of the one after it."""
    order = np.argsort(begins, kind="stable")
    begins, ends, lent = begins[order], ends[order], lent[order]
    reach = np.maximum.accumulate(ends)
    lows = np.concatenate([begins[:1], begins[:-1]])
    highs = np.concatenate([reach[1:], reach[-1:]])
    unit = uniform(coding)
    around = unit.of(lows, highs)
    kept = around > 0
    return lows[kept], highs[kept], lent[kept] * unit.of(begins, ends)[kept] / around[kept]


def learn_popularity(coding: Coding, asked: Sequence[tuple[IntervalSet, float]]) -> Popularity:
    """Popularity from what is asked for: spread to what lies around it, as single values seldom come up again."""
    return popularity(coding, asked, spread=1.0)
