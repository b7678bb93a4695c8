"""Cuts: the places between values where a set of them begins or ends.

A discrete type's cut is the integer just above it, so that ``(4, 6]`` and ``[5, 6]`` are one set and touching runs of
integers grow together. Elsewhere a cut is just below or just above a value, and there is one below and one above
everything. NaN is the only value between the cut above infinity and the topmost cut, so no interval has a NaN for an
end, and plain comparison of ends is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sidestep.predicate.types import FLOATING, DataType, Kind, Value, integer_range

Cut = Any
"""An int for discrete types; else (-1,) below everything, (0, value, 0 below or 1 above it), (1,) above everything."""

BOTTOM: Cut = (-1,)
TOP: Cut = (1,)


class Interval(NamedTuple):
    """The values between two ends; ``None`` is no end at all (above, that takes in NaN).

    A named tuple, since long IN lists make 100,000 of them at a time.
    """

    low: Value | None
    high: Value | None
    low_closed: bool = True
    high_closed: bool = True

    @property
    def is_point(self) -> bool:
        """Whether this is one value, written as its own two ends (NaN, which is no end, is not)."""
        return self.low is not None and self.low == self.high


def edges(type: DataType) -> tuple[Cut, Cut]:
    """The cuts below and above all values of a type."""
    if type.discrete:
        low, high = integer_range(type)
        return low, high + 1
    return BOTTOM, TOP


def in_range(type: DataType, first: Value, last: Value) -> bool:
    """Whether a discrete type can hold two values, and so all between."""
    low, high = integer_range(type)
    return low <= int(first) and int(last) <= high


def least(type: DataType) -> Value | None:
    """The least value of a type that has one and is not discrete."""
    if type.kind in FLOATING:
        return -math.inf
    if type.kind is Kind.STRING:
        return ""
    return b"" if type.kind is Kind.BINARY else None


def low_cut(type: DataType, interval: Interval) -> Cut:
    """Where an interval begins."""
    value = interval.low
    if type.discrete:
        bottom, top = edges(type)
        return bottom if value is None else min(max(int(value) + (not interval.low_closed), bottom), top)
    if value is None:
        return BOTTOM
    if isinstance(value, float) and math.isnan(value):
        return (0, math.inf, 1) if interval.low_closed else TOP
    if interval.low_closed and value == least(type):
        return BOTTOM
    return (0, value, int(not interval.low_closed))


def high_cut(type: DataType, interval: Interval) -> Cut:
    """Where an interval ends."""
    value = interval.high
    if type.discrete:
        bottom, top = edges(type)
        return top if value is None else min(max(int(value) + interval.high_closed, bottom), top)
    if value is None:
        return TOP
    if isinstance(value, float) and math.isnan(value):
        return TOP if interval.high_closed else (0, math.inf, 1)
    if not interval.high_closed and value == least(type):
        return BOTTOM
    return (0, value, int(interval.high_closed))


def merge_cuts(pairs: Iterable[tuple[Cut, Cut]]) -> list[tuple[Cut, Cut]]:
    """Pairs of cuts, sorted and grown together where they overlap or touch; empty ones dropped."""
    apart: list[tuple[Cut, Cut]] = []
    for low, high in sorted(pair for pair in pairs if pair[0] < pair[1]):
        if apart and low <= apart[-1][1]:
            if high > apart[-1][1]:
                apart[-1] = (apart[-1][0], high)
        else:
            apart.append((low, high))
    return apart


def as_intervals(type: DataType, pairs: Sequence[tuple[Cut, Cut]]) -> list[Interval]:
    """Disjoint pairs of cuts as intervals in normal form."""
    bottom, top = edges(type)
    if type.discrete:
        held = bool if type.kind is Kind.BOOLEAN else int
        return [
            Interval(held(low), held(low))
            if high - low == 1
            else Interval(None if low == bottom else low, None if high == top else high - 1)
            for low, high in pairs
        ]
    lowest = least(type)
    made: list[Interval] = []
    for low, high in pairs:
        if low == bottom and high == (0, lowest, 1):
            made.append(Interval(lowest, lowest))
            continue
        low_value, low_closed = (None, True) if low == bottom else (_zero(low[1]), low[2] == 0)
        high_value, high_closed = (None, True) if high == top else (_zero(high[1]), high[2] == 1)
        made.append(Interval(low_value, high_value, low_closed, high_closed))
    return made


def _zero(value: Value) -> Value:
    """The value, -0.0 as 0.0."""
    return value + 0.0 if isinstance(value, float) else value
