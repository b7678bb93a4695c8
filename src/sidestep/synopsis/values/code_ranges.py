"""Closed ranges of codes: what a set of values becomes, and what ranges of codes are as values again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np

from sidestep.errors import SidestepError
from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.types import DataType, Kind
from sidestep.synopsis.values.codes import (
    GREATEST,
    WIDTH,
    Codes,
    Coding,
    byte_code,
    float_codes,
    float_values,
    integer_codes,
    integer_values,
    wide_code,
)
from sidestep.synopsis.values.forms import (
    INT64_MAX,
    INT64_MIN,
    WIDE_MAX,
    WIDE_MIN,
    Form,
    bytes_end,
    float_ranges,
    integer_ranges,
)


@dataclass(frozen=True, eq=False)
class CodeRanges:
    """Ascending, disjoint and closed ranges of codes, ``lows[i]..highs[i]``."""

    lows: Codes
    highs: Codes

    def __post_init__(self) -> None:
        if len(self.lows) == len(self.highs) == 1:
            rising = bool(self.lows[0] <= self.highs[0])
        else:
            rising = len(self.lows) == len(self.highs) and bool((self.lows <= self.highs).all())
            rising = rising and bool((self.highs[:-1] < self.lows[1:]).all())
        if not rising:
            raise SidestepError("Ranges of codes are ascending and disjoint, and each ends at or after its begin.")

    def __len__(self) -> int:
        return len(self.lows)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.lows.tolist(), self.highs.tolist(), strict=True)


def end_to_end(ranges: CodeRanges) -> Codes:
    """Low and high ends in turn: how the ranges of a block are stored."""
    flat = np.empty(2 * len(ranges), dtype=np.uint64)
    flat[0::2], flat[1::2] = ranges.lows, ranges.highs
    return flat


def joined(lows: Codes, highs: Codes) -> CodeRanges:
    """The union of ranges given in any order, those that overlap grown together.

    >>> u = lambda *codes: np.array(codes, dtype=np.uint64)
    >>> list(joined(u(7, 1, 3), u(8, 4, 3)))
    [(1, 4), (7, 8)]
    """
    order = np.argsort(lows, kind="stable")
    lows, reach = lows[order], np.maximum.accumulate(highs[order])
    first = np.ones(len(lows), dtype=np.bool_)
    first[1:] = lows[1:] > reach[:-1]
    return CodeRanges(lows[first], reach[np.append(first[1:], True)] if len(lows) else reach)


def intersect(a: CodeRanges, b: CodeRanges) -> CodeRanges:
    """The codes in both.

    >>> u = lambda *codes: np.array(codes, dtype=np.uint64)
    >>> list(intersect(CodeRanges(u(1, 7), u(4, 9)), CodeRanges(u(0, 3, 8), u(1, 7, 20))))
    [(1, 1), (3, 4), (7, 7), (8, 9)]
    """
    if len(a) == 1:
        a, b = b, a
    if len(b) == 1:
        return _clip(a, b.lows[0], b.highs[0])
    first = np.searchsorted(b.highs, a.lows, side="left")
    counts = np.searchsorted(b.lows, a.highs, side="right") - first
    of_a = np.repeat(np.arange(len(a)), counts)
    of_b = np.arange(len(of_a)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    return CodeRanges(np.maximum(a.lows[of_a], b.lows[of_b]), np.minimum(a.highs[of_a], b.highs[of_b]))


def _clip(ranges: CodeRanges, low: np.uint64, high: np.uint64) -> CodeRanges:
    """The codes of ranges from ``low`` to ``high``."""
    if not len(ranges) or (low <= ranges.lows[0] and ranges.highs[-1] <= high):
        return ranges
    inside = slice(int(ranges.highs.searchsorted(low, "left")), int(ranges.lows.searchsorted(high, "right")))
    return CodeRanges(np.maximum(ranges.lows[inside], low), np.minimum(ranges.highs[inside], high))


def code_ranges(ranges: IntervalSet, coding: Coding) -> CodeRanges | None:
    """Closed ranges of codes that cover a set of values; None if one of its ends is no value of that type.

    >>> from sidestep.predicate.types import DOUBLE, STRING
    >>> above = code_ranges(IntervalSet.at_least(DOUBLE, 1.5, closed=False), Coding(DOUBLE))
    >>> float_values(above.lows), above.highs == GREATEST  # NaN is above every number
    (array([1.5]), array([ True]))
    """
    match coding.form:
        case Form.INTEGER:
            integers = integer_ranges(ranges, INT64_MIN, INT64_MAX)
            if integers is None:
                return None
            ends: list[Any] = [np.array(side, dtype=np.int64) for side in (integers.lows, integers.highs)]
            lows, highs = (integer_codes(side) for side in ends)
        case Form.FLOAT:
            floats = float_ranges(ranges)
            if floats is None:
                return None
            lows, highs = (float_codes(np.array(side, dtype=np.float64)) for side in (floats.lows, floats.highs))
            if ranges.intervals and ranges.intervals[-1].high is None:
                # Unbounded above takes in NaN, the greatest code, alone or with all up to infinity.
                if len(highs) and highs[-1] == float_codes(np.array([math.inf]))[0]:
                    highs[-1] = GREATEST
                else:
                    lows, highs = np.append(lows, GREATEST), np.append(highs, GREATEST)
        case Form.WIDE:
            wide = integer_ranges(ranges, WIDE_MIN, WIDE_MAX)
            if wide is None:
                return None
            lows, highs = (np.array([wide_code(n) for n in side], dtype=np.uint64) for side in (wide.lows, wide.highs))
        case Form.BYTES:
            pairs = [_byte_range(interval, coding.prefix) for interval in ranges.intervals]
            if any(pair is None for pair in pairs):
                return None
            found = np.array([pair for pair in pairs if pair], dtype=np.uint64).reshape(-1, 2)
            lows, highs = found[:, 0].copy(), found[:, 1].copy()
    kept = lows <= highs
    return joined(lows[kept], highs[kept])


def _byte_range(interval: Interval, prefix: bytes) -> tuple[int, int] | None:
    low = b"" if interval.low is None else bytes_end(interval.low)
    high = low if interval.is_point else b"" if interval.high is None else bytes_end(interval.high)
    if low is None or high is None:
        return None
    begin = 0 if interval.low is None else byte_code(low, prefix)
    end = int(GREATEST) if interval.high is None else byte_code(high, prefix)
    if interval.high is not None and not interval.high_closed and high.startswith(prefix):
        rest = high[len(prefix) :]
        if rest and len(rest) <= WIDTH and not rest.endswith(b"\0"):
            # All that share the end's code are the end followed by zeros, so what is below it has a lesser code.
            end -= 1
    return begin, end


def value_ranges(ranges: CodeRanges, coding: Coding) -> IntervalSet:
    """The values whose codes lie in the ranges, or a little more: an outer set, as an induced predicate needs it.

    >>> from sidestep.predicate.types import INTEGER, STRING
    >>> value_ranges(joined(integer_codes(np.array([3])), integer_codes(np.array([5]))), Coding(INTEGER)).intervals
    (Interval(low=3, high=5, low_closed=True, high_closed=True),)
    >>> begin = np.array([byte_code(b"ab")], dtype=np.uint64)
    >>> value_ranges(CodeRanges(begin, begin), Coding(STRING)).intervals
    (Interval(low='ab', high='ab\\x00\\x00\\x00\\x00\\x00\\x01', low_closed=True, high_closed=False),)
    """
    type = coding.type
    match coding.form:
        case Form.INTEGER:
            ends = zip(integer_values(ranges.lows).tolist(), integer_values(ranges.highs).tolist(), strict=True)
            return IntervalSet(type, tuple(Interval(_held(low, type), _held(high, type)) for low, high in ends))
        case Form.FLOAT:
            return IntervalSet(type, tuple(_float_interval(low, high) for low, high in ranges))
        case Form.WIDE:
            found = [(_wide_values(low)[0], _wide_values(high)[1]) for low, high in ranges]
            return IntervalSet(type, tuple(Interval(_decimal(a, type), _decimal(b, type)) for a, b in found))
        case Form.BYTES:
            return IntervalSet(type, tuple(_byte_interval(low, high, coding) for low, high in ranges))


def _held(number: int, type: DataType) -> int | Decimal:
    return _decimal(number, type) if type.kind is Kind.DECIMAL else number


def _decimal(number: int, type: DataType) -> Decimal:
    return Decimal(number).scaleb(-type.scale, Context(prec=40))


def _float_interval(low: int, high: int) -> Interval:
    begin, end = (float(value) for value in float_values(np.array([low, high], dtype=np.uint64)))
    return Interval(
        math.inf if math.isnan(begin) else begin,
        None if math.isnan(end) else end,
        low_closed=not math.isnan(begin),
    )


def _wide_values(code: int) -> tuple[int, int]:
    """The least and greatest unscaled value of a wide decimal's code."""
    signed = code - (1 << 63)
    magnitude = abs(signed)
    if magnitude < 1 << 62:
        return signed, signed
    exponent, mantissa = divmod(magnitude - (1 << 62), 1 << 52)
    shift = exponent + 62 - 52
    least = (mantissa + (1 << 52)) << shift
    greatest = least + (1 << shift) - 1
    return (least, greatest) if signed > 0 else (-greatest, -least)


def _byte_interval(low: int, high: int, coding: Coding) -> Interval:
    # The least code may be that of anything below the prefix, the greatest that of anything above.
    begin = coding.prefix + low.to_bytes(WIDTH).rstrip(b"\0") if low else b""
    end = _after(coding.prefix + high.to_bytes(WIDTH)) if high < GREATEST else None
    if coding.type.kind is Kind.BINARY:
        return Interval(begin, end, high_closed=False)
    # A string's end must be text: cut to whole characters for the begin, one up from them for the end.
    above = _text_after(_whole_part(coding.prefix + high.to_bytes(WIDTH))) if high < GREATEST else None
    return Interval(_whole_part(begin), above, high_closed=False)


def _after(value: bytes) -> bytes | None:
    """The least byte string above all that begin with ``value``; None if there is none (all 0xFF)."""
    cut = value.rstrip(b"\xff")
    return cut[:-1] + bytes([cut[-1] + 1]) if cut else None


def _whole_part(value: bytes) -> str:
    """The longest beginning of a byte string that is text: not above it."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        return value[: error.start].decode()


def _text_after(text: str) -> str | None:
    """The least text above all that begin with ``text``; None if there is none."""
    while text:
        point = ord(text[-1]) + 1
        if point <= 0x10FFFF:
            return text[:-1] + chr(0xE000 if point == 0xD800 else point)
        text = text[:-1]
    return None
