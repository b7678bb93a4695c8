"""Sets of values as sorted, disjoint intervals over one type's order.

All algebra is done on cuts (:mod:`sidestep.predicate.cuts`): sorted pairs of them, begun and ended.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, repeat

from sidestep.predicate.cuts import (
    BOTTOM,
    TOP,
    Cut,
    Interval,
    as_intervals,
    edges,
    high_cut,
    in_range,
    least,
    low_cut,
    merge_cuts,
)
from sidestep.predicate.types import FLOATING, DataType, Kind, Value

__all__ = ["Interval", "IntervalSet"]


@dataclass(frozen=True)
class IntervalSet:
    """A set of non-NULL values of one type: the one form in which ranges, points and prefixes meet.

    Contract: however it is made, ``intervals`` is sorted, disjoint and not touching, so equal sets are equal objects.
    Discrete types have closed ends, clipped to the type; an end at the edge of the type is ``None`` unless the interval
    is that single value. Of -0.0 and 0.0 only the latter is an end. A type whose order is unknown has only the full and
    the empty set.

    >>> from sidestep.predicate.types import DOUBLE, INTEGER
    >>> IntervalSet(INTEGER, (Interval(4, 6, low_closed=False), Interval(7, 9))).intervals
    (Interval(low=5, high=9, low_closed=True, high_closed=True),)
    >>> IntervalSet.at_most(DOUBLE, 2.0).complement().contains(float("nan"))
    True
    """

    type: DataType
    intervals: tuple[Interval, ...]

    def __post_init__(self) -> None:
        if not self.type.ordered and any(i.low is not None or i.high is not None for i in self.intervals):
            raise ValueError(f"The order of {self.type} is unknown, so no range of its values can be made.")
        pairs = [(low_cut(self.type, i), high_cut(self.type, i)) for i in self.intervals]
        object.__setattr__(self, "intervals", tuple(as_intervals(self.type, merge_cuts(pairs))))

    def __hash__(self) -> int:
        # The ends tell most sets apart; hashing 100,000 intervals would take longer than deciding with them.
        return hash((self.type, len(self.intervals), self.intervals[:1], self.intervals[-1:]))

    @classmethod
    def _from_normal_form(cls, type: DataType, intervals: Iterable[Interval]) -> IntervalSet:
        """A set of intervals already known to be in normal form: checking 100,000 of them again would cost more."""
        made = object.__new__(cls)
        object.__setattr__(made, "type", type)
        object.__setattr__(made, "intervals", tuple(intervals))
        return made

    @classmethod
    def full(cls, type: DataType) -> IntervalSet:
        """Every value that is not NULL."""
        return cls._from_normal_form(type, (Interval(None, None),))

    @classmethod
    def empty(cls, type: DataType) -> IntervalSet:
        """No value."""
        return cls._from_normal_form(type, ())

    @classmethod
    def point(cls, type: DataType, value: Value) -> IntervalSet:
        """One value."""
        return cls(type, (Interval(value, value),))

    @classmethod
    def points(cls, type: DataType, values: Collection[Value]) -> IntervalSet:
        """The values listed, in any order and with repeats."""
        distinct = sorted({v for v in values if v == v})
        whole = distinct if type.discrete else []
        if any(b - a == 1 for a, b in pairwise(whole)) or (whole and not in_range(type, whole[0], whole[-1])):  # type: ignore[operator]
            return cls(type, tuple(Interval(value, value) for value in whole))
        if type.kind in FLOATING:
            distinct = [value + 0.0 for value in distinct]  # type: ignore[operator]
        # Values that do not touch are in normal form once they are sorted.
        made = cls._from_normal_form(
            type, map(Interval._make, zip(distinct, distinct, repeat(True), repeat(True), strict=False))
        )
        made.__dict__["_as_points"] = frozenset(distinct)
        return made if all(v == v for v in values) else made.union(cls.point(type, math.nan))

    @classmethod
    def at_least(cls, type: DataType, value: Value, closed: bool = True) -> IntervalSet:
        """``>= value``, or ``> value`` if not closed."""
        return cls(type, (Interval(value, None, low_closed=closed),))

    @classmethod
    def at_most(cls, type: DataType, value: Value, closed: bool = True) -> IntervalSet:
        """``<= value``, or ``< value`` if not closed."""
        return cls(type, (Interval(None, value, high_closed=closed),))

    @classmethod
    def union_all(cls, type: DataType, sets: Iterable[IntervalSet]) -> IntervalSet:
        """The union of any number of sets, in one sort."""
        pairs = [pair for s in sets for pair in zip(s._lows, s._highs, strict=True)]
        return cls._from_normal_form(type, as_intervals(type, merge_cuts(pairs)))

    @property
    def is_empty(self) -> bool:
        return not self.intervals

    @property
    def is_full(self) -> bool:
        return self.intervals == (Interval(None, None),)

    @cached_property
    def _lows(self) -> list[Cut]:
        return [low_cut(self.type, i) for i in self.intervals]

    @cached_property
    def _highs(self) -> list[Cut]:
        return [high_cut(self.type, i) for i in self.intervals]

    @property
    def _first(self) -> Cut:
        return low_cut(self.type, self.intervals[0])

    @property
    def _last(self) -> Cut:
        return high_cut(self.type, self.intervals[-1])

    @cached_property
    def _as_points(self) -> frozenset[Value] | None:
        """The values, if every interval is a single one: sets of 100,000 strings are then compared as hash sets."""
        if all(i.is_point for i in self.intervals):
            return frozenset(i.low for i in self.intervals if i.low is not None)
        return None

    def contains(self, value: Value) -> bool:
        """Whether a value of this type is in the set."""
        at = Interval(value, value)
        position = bisect_right(self._lows, low_cut(self.type, at)) - 1
        return bool(position >= 0 and self._highs[position] >= high_cut(self.type, at))

    def issubset(self, other: IntervalSet) -> bool:
        """Whether every value of this set is in the other."""
        if self.is_empty or other.is_full:
            return True
        if other.is_empty or self._first < other._first or self._last > other._last:
            return False
        if len(other.intervals) == 1:
            return True
        if self._as_points is not None and other._as_points is not None:
            return self._as_points <= other._as_points
        if len(other.intervals) * 8 < len(self.intervals):
            return not any(self._reaches_into(a, b) for a, b in zip(other._highs, other._lows[1:], strict=False))
        for low, high in zip(self._lows, self._highs, strict=True):
            position = bisect_right(other._lows, low) - 1
            if position < 0 or other._highs[position] < high:
                return False
        return True

    def _reaches_into(self, low: Cut, high: Cut) -> bool:
        """Whether some value lies between two cuts, found without making a cut of every interval."""
        position = bisect_right(self.intervals, low, key=lambda interval: high_cut(self.type, interval))
        return position < len(self.intervals) and bool(low_cut(self.type, self.intervals[position]) < high)

    def intersect(self, other: IntervalSet) -> IntervalSet:
        """The values in both sets."""
        small, large = sorted((self, other), key=lambda s: len(s.intervals))
        if small.is_full or large.is_empty:
            return large
        if small._as_points is not None and large._as_points is not None:
            common = small._as_points & large._as_points
            return self._from_normal_form(self.type, (i for i in small.intervals if i.low in common))
        shared: list[Interval] = []
        for low, high in zip(small._lows, small._highs, strict=True):
            # The large set's intervals that reach beyond `low` and begin before `high`: the inner ones lie inside.
            first, last = bisect_right(large._highs, low), bisect_left(large._lows, high)
            if last - first > 2:
                shared += as_intervals(self.type, [(max(low, large._lows[first]), large._highs[first])])
                shared += large.intervals[first + 1 : last - 1]
                first = last - 1
            cut = [(max(low, large._lows[k]), min(high, large._highs[k])) for k in range(first, last)]
            shared += as_intervals(self.type, cut)
        return self._from_normal_form(self.type, shared)

    def union(self, other: IntervalSet) -> IntervalSet:
        """The values in either set."""
        return self.union_all(self.type, (self, other))

    def complement(self) -> IntervalSet:
        """The non-NULL values that are not in the set."""
        bottom, top = edges(self.type)
        lows, highs = [bottom, *self._highs], [*self._lows, top]
        pairs = [(low, high) for low, high in zip(lows, highs, strict=True) if low < high]
        return self._from_normal_form(self.type, as_intervals(self.type, pairs))

    def difference(self, other: IntervalSet) -> IntervalSet:
        """The values of this set that are not in the other."""
        if self._as_points is not None and len(self.intervals) > 1:
            return self._from_normal_form(self.type, (i for i in self.intervals if not other.contains(i.low)))  # type: ignore[arg-type]
        return self.intersect(other.complement())

    def downward(self, strict: bool = False) -> IntervalSet:
        """The values that are at most (or, strictly, below) some value of the set."""
        if self.is_empty:
            return self
        bottom, _ = edges(self.type)
        high = self._last
        if strict and self.type.discrete:
            high -= 1
        elif strict and high == TOP:
            high = (0, math.inf, 1) if self.type.kind in FLOATING else TOP
        elif strict:
            high = (0, high[1], 0)
        return self._from_normal_form(self.type, as_intervals(self.type, [(bottom, high)] if bottom < high else []))

    def upward(self, strict: bool = False) -> IntervalSet:
        """The values that are at least (or, strictly, above) some value of the set."""
        if self.is_empty:
            return self
        _, top = edges(self.type)
        low = self._first
        if strict and self.type.discrete:
            low += 1
        elif strict and low == BOTTOM:
            lowest = least(self.type)
            low = BOTTOM if lowest is None else (0, lowest, 1)
        elif strict:
            # A set that begins just above infinity is NaN alone, and nothing is above that.
            low = TOP if low == (0, math.inf, 1) else (0, low[1], 1)
        return self._from_normal_form(self.type, as_intervals(self.type, [(low, top)] if low < top else []))

    def values(self, limit: int = 100_000) -> tuple[Value, ...] | None:
        """All values in order, or None if they are too many to list (or not to be listed: an open range of doubles).

        >>> from sidestep.predicate.types import BYTE
        >>> IntervalSet(BYTE, (Interval(125, None), Interval(1, 2))).values()
        (1, 2, 125, 126, 127)
        """
        listed: list[Value] = []
        for low, high, interval in zip(self._lows, self._highs, self.intervals, strict=True):
            if interval.is_point:
                listed.append(interval.low)  # type: ignore[arg-type]
            elif self.type.discrete and len(listed) + high - low <= limit:
                listed += [bool(v) for v in range(low, high)] if self.type.kind is Kind.BOOLEAN else range(low, high)
            elif (low, high) == ((0, math.inf, 1), TOP) and self.type.kind in FLOATING:
                listed.append(math.nan)
            else:
                return None
        return tuple(listed) if len(listed) <= limit else None
