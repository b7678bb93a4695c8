"""Casts that keep order: what a condition on the cast value says about the column itself.

``CAST(x AS double) > 0.5`` is a condition on x because the cast is monotone: as x grows, so does its image. The values
of x whose image lies in an interval are then an interval too. Only casts that give a value for every value (or at
worst raise an error) are understood: where a cast may give NULL, a range on x would say more than the predicate does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.types import FLOATING, INTEGRAL, DataType, Kind, Value, float32, integer_range

MICROS_PER_DAY = 86_400_000_000

_EXACT_BITS = {Kind.FLOAT: 24, Kind.DOUBLE: 53}
"""Integers of at most this many bits are exact in the floating kind."""


def is_monotone(source: DataType, target: DataType) -> bool:
    """Whether the cast gives a value for every value, and keeps order: two values may become one, but never swap."""
    if is_lossless(source, target):
        return True
    return target.kind in FLOATING and (source.kind in INTEGRAL or source.kind is Kind.DECIMAL)


def is_lossless(source: DataType, target: DataType) -> bool:
    """Whether the cast keeps order and lets no two values become one.

    >>> from sidestep.predicate.types import DOUBLE, INTEGER, LONG
    >>> is_lossless(INTEGER, DOUBLE), is_lossless(LONG, DOUBLE)
    (True, False)
    """
    if source is target or source == target:
        return source.ordered
    if source.kind in INTEGRAL:
        low, high = integer_range(source)
        if target.kind in INTEGRAL:
            least, greatest = integer_range(target)
            return least <= low and high <= greatest
        if target.kind is Kind.DECIMAL:
            return target.precision - target.scale >= len(str(high))
        return target.kind in FLOATING and high.bit_length() <= _EXACT_BITS[target.kind]
    if source.kind is Kind.DECIMAL and target.kind is Kind.DECIMAL:
        wide = target.precision - target.scale >= source.precision - source.scale
        return wide and target.scale >= source.scale
    return (source.kind, target.kind) in ((Kind.FLOAT, Kind.DOUBLE), (Kind.DATE, Kind.TIMESTAMP_NTZ))


def cast(value: Value, source: DataType, target: DataType) -> Value:
    """The image of a value under a monotone cast, rounded as Java rounds."""
    if not is_monotone(source, target):
        raise ValueError(f"The cast from {source} to {target} does not keep order, so its values are not known here.")
    if source == target:
        return value
    if source.kind is Kind.DATE:
        return int(value) * MICROS_PER_DAY
    if target.kind is Kind.DOUBLE:
        return float(value)
    if target.kind is Kind.FLOAT:
        return _nearest_float32(Fraction(value))  # type: ignore[arg-type]
    if target.kind is Kind.DECIMAL:
        return Decimal(value)  # type: ignore[arg-type]
    return value


def pull_back(ranges: IntervalSet, source: DataType) -> IntervalSet | None:
    """The values of ``source`` whose cast to ``ranges.type`` lies in the ranges, or None if the cast is not understood.

    >>> from sidestep.predicate.types import DOUBLE, LONG, decimal_type
    >>> pull_back(IntervalSet.at_least(DOUBLE, 2.5), LONG).intervals[0].low
    3
    >>> pull_back(IntervalSet.point(DOUBLE, 0.05), decimal_type(12, 2)).intervals[0].low
    Decimal('0.05')
    """
    target = ranges.type
    if not is_monotone(source, target):
        return None
    if source == target or ranges.is_full:
        return IntervalSet.full(source) if ranges.is_full else ranges
    if source.kind is Kind.DATE:
        days = (_map_ends(i, lambda micros: Fraction(int(micros), MICROS_PER_DAY)) for i in ranges.intervals)
        return IntervalSet(source, tuple(_integers_in(interval) for interval in days))
    if is_lossless(source, target):
        return by_value(ranges, source)
    step = Fraction(10) ** -source.scale
    least, greatest = _least(source), _greatest(source)
    images: list[Interval] = []
    for interval in ranges.intervals:
        low, high = least, greatest
        if interval.low is not None:
            low = _first(source, target, step, interval.low, above=not interval.low_closed)
        if interval.high is not None:
            high = _first(source, target, step, interval.high, above=interval.high_closed) - 1
        if low <= high:
            ends = Interval(None if low <= least else low, None if high >= greatest else high)
            images.append(_map_ends(ends, lambda n: _of_ordinal(source, int(n))))
    return IntervalSet(source, tuple(images))


def push_forward(ranges: IntervalSet, target: DataType) -> IntervalSet:
    """The images of values under a monotone cast. An end that is none stays none: more than needed, never less."""
    source = ranges.type
    if source == target:
        return ranges
    exact = is_lossless(source, target)
    return IntervalSet(
        target,
        tuple(
            Interval(
                None if interval.low is None else cast(interval.low, source, target),
                None if interval.high is None else cast(interval.high, source, target),
                interval.low_closed or not exact,
                interval.high_closed or not exact,
            )
            for interval in ranges.intervals
        ),
    )


def by_value(ranges: IntervalSet, target: DataType) -> IntervalSet:
    """The values of another type that are equal, as numbers, to some value in the ranges.

    This carries bounds from one column to another that is compared with it without loss, of whatever numeric type.

    >>> from sidestep.predicate.types import INTEGER, DOUBLE
    >>> by_value(IntervalSet.at_most(DOUBLE, 2.5), INTEGER).intervals[0].high
    2
    """
    if ranges.type == target:
        return ranges
    return _between_numbers([_with_explicit_ends(interval, ranges.type) for interval in ranges.intervals], target)


def above_by_value(ranges: IntervalSet, strict: bool, target: DataType) -> IntervalSet:
    """The values of another type that are at least (or, strictly, above) some value in the ranges, as numbers.

    The end of the ranges' own type is no end here: what is above every int may still be a long.
    """
    if ranges.is_empty or ranges.type == target or ranges.type.kind in FLOATING:
        return by_value(ranges.upward(strict), target)
    least = _with_explicit_ends(ranges.intervals[0], ranges.type)
    return _between_numbers([Interval(least.low, None, least.low_closed and not strict)], target)


def below_by_value(ranges: IntervalSet, strict: bool, target: DataType) -> IntervalSet:
    """The values of another type that are at most (or, strictly, below) some value in the ranges, as numbers."""
    if ranges.is_empty or ranges.type == target or ranges.type.kind in FLOATING:
        return by_value(ranges.downward(strict), target)
    greatest = _with_explicit_ends(ranges.intervals[-1], ranges.type)
    return _between_numbers([Interval(None, greatest.high, True, greatest.high_closed and not strict)], target)


def _between_numbers(intervals: list[Interval], target: DataType) -> IntervalSet:
    """The values of a numeric type in intervals whose ends are numbers of any type."""
    if target.discrete:
        return IntervalSet(target, tuple(_integers_in(interval) for interval in intervals))
    if target.kind is Kind.DECIMAL:
        return IntervalSet(target, tuple(i for interval in intervals for i in _decimals_in(interval, target)))
    return IntervalSet(target, tuple(_floats_in(interval, target) for interval in intervals))


def _with_explicit_ends(interval: Interval, type: DataType) -> Interval:
    """The interval with the ends of its type written out: unbounded in an integer is not unbounded in a double."""
    low, high = interval.low, interval.high
    if type.discrete:
        least, greatest = integer_range(type)
        return Interval(least if low is None else low, greatest if high is None else high)
    if type.kind is Kind.DECIMAL:
        edge = Decimal(f"1E{type.precision - type.scale}")
        return Interval(
            edge.copy_negate() if low is None else low,
            edge if high is None else high,
            interval.low_closed and low is not None,
            interval.high_closed and high is not None,
        )
    return interval


def _integers_in(interval: Interval) -> Interval:
    """The integers of an interval, as a closed interval; an infinite end is no end, or leaves nothing."""
    low, high = interval.low, interval.high
    if low == math.inf or high == -math.inf:
        return Interval(1, 0)
    if low is not None and low != -math.inf:
        exact = Fraction(low)  # type: ignore[arg-type]
        low = math.floor(exact) + 1 if exact.denominator == 1 and not interval.low_closed else math.ceil(exact)
    if high is not None and high != math.inf:
        exact = Fraction(high)  # type: ignore[arg-type]
        high = math.ceil(exact) - 1 if exact.denominator == 1 and not interval.high_closed else math.floor(exact)
    return Interval(None if low == -math.inf else low, None if high == math.inf else high)


def _decimals_in(interval: Interval, target: DataType) -> list[Interval]:
    """The interval with decimal ends, those beyond the target left out, if it holds a finite number."""
    if interval.low == math.inf or interval.high == -math.inf:
        return []
    edge = Decimal(f"1E{target.precision - target.scale}")
    low = None if interval.low in (None, -math.inf) else Decimal(interval.low)  # type: ignore[arg-type]
    high = None if interval.high in (None, math.inf) else Decimal(interval.high)  # type: ignore[arg-type]
    low = None if low is None or low <= edge.copy_negate() else low
    high = None if high is None or high >= edge else high
    return [Interval(low, high, interval.low_closed or low is None, interval.high_closed or high is None)]


def _floats_in(interval: Interval, target: DataType) -> Interval:
    """The floating values of an interval whose ends need not be floating values themselves."""
    low, low_closed = interval.low, interval.low_closed
    high, high_closed = interval.high, interval.high_closed
    if low is not None:
        near = _nearest(low, target)
        low_closed = low_closed if near == low else near > low  # type: ignore[operator]
        low = near
    if high is not None:
        near = _nearest(high, target)
        high_closed = high_closed if near == high else near < high  # type: ignore[operator]
        high = near
    return Interval(low, high, low_closed, high_closed)


def _nearest(value: Value, target: DataType) -> float:
    """A floating value next to an exact one: nothing of the target type lies between the two."""
    return float32(float(value)) if target.kind is Kind.FLOAT else float(value)


def _nearest_float32(exact: Fraction) -> float:
    """The 32-bit float nearest to an exact number, ties to even.

    Rounding to a double first may land on the midpoint of two floats and then go the wrong way: that case is decided by
    the exact number.
    """
    double = float(exact)
    near = float32(double)
    far = double + (double - near)
    if far != near and float32(far) == far and Fraction(double) != exact:
        return max(near, far) if exact > Fraction(double) else min(near, far)
    return near


def _greatest(source: DataType) -> int:
    return integer_range(source)[1] if source.discrete else int(10**source.precision) - 1


def _least(source: DataType) -> int:
    return integer_range(source)[0] if source.discrete else -_greatest(source)


def _of_ordinal(source: DataType, n: int) -> Value:
    # The constructor is exact; arithmetic on decimals would round to the context's 28 digits.
    return n if source.discrete else Decimal(f"{n}E{-source.scale}")


def _first(source: DataType, target: DataType, step: Fraction, value: Value, above: bool) -> int:
    """The ordinal of the least source value whose image is at least (or above) a floating value; one too many if none.

    The exact quotient is a guess that rounding may move by a few steps, or by thousands where a long becomes a float:
    from there the search gallops, doubling its stride, then halves.
    """
    least, beyond = _least(source), _greatest(source) + 1

    def reached(n: int) -> bool:
        image = cast(_of_ordinal(source, n), source, target)
        return image > value if above else image >= value  # type: ignore[operator]

    if math.isinf(float(value)):
        guess = beyond if float(value) > 0 else least
    else:
        guess = min(max(math.ceil(Fraction(value) / step), least), beyond)  # type: ignore[arg-type]
    return first_reached(guess, least, beyond, reached)


def first_reached(guess: int, least: int, beyond: int, reached: Callable[[int], bool]) -> int:
    """The first number from ``least`` on of which a condition is true that is true of all after it; ``beyond`` if none.

    The nearer the guess, the fewer numbers are tried.

    >>> first_reached(5, 0, 1_000, lambda n: n * n >= 200)
    15
    """
    below, at = _gallop(min(max(guess, least), beyond), least - 1, beyond, reached)
    while at - below > 1:
        middle = (below + at) // 2
        below, at = (below, middle) if reached(middle) else (middle, at)
    return at


def _gallop(guess: int, floor: int, ceiling: int, reached: Callable[[int], bool]) -> tuple[int, int]:
    """Ordinals around the threshold: the first not reached (or the floor), the second reached (or the ceiling)."""
    stride = 1
    if guess >= ceiling or reached(guess):
        at = guess
        while at - stride > floor and reached(at - stride):
            at -= stride
            stride *= 2
        return max(at - stride, floor), at
    below = guess
    while below + stride < ceiling and not reached(below + stride):
        below += stride
        stride *= 2
    return below, min(below + stride, ceiling)


def _map_ends(interval: Interval, change: Callable[[Value], Value | Fraction]) -> Interval:
    """The interval with its ends changed, its closedness kept."""
    low = None if interval.low is None else change(interval.low)
    high = None if interval.high is None else change(interval.high)
    return Interval(low, high, interval.low_closed, interval.high_closed)  # type: ignore[arg-type]
