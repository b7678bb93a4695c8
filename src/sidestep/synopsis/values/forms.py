"""The stored form: how the values of each type are written down so that their order can be computed with.

Every ordered type has one of four stored forms, and an index column of bounds is an Arrow array of that form:

==================================  ===================  ====================================================
types                               form                 Arrow type of the index columns ``lower:c``, ``upper:c``
==================================  ===================  ====================================================
boolean, integers, dates, times     ``INTEGER``          ``int64``
decimals of up to 18 digits         ``INTEGER``          ``int64``, the unscaled value at the type's scale
float, double                       ``FLOAT``            ``float64``
wider decimals                      ``WIDE``             ``decimal128(38, scale)``
string, binary                      ``BYTES``            ``binary`` (UTF-8: byte order is code point order)
==================================  ===================  ====================================================

In each form an open end can be turned into a closed one (the next integer, the next double, the next unscaled value),
except for bytes, which keep theirs.

Long byte strings are shortened outwards (:func:`round_down`, :func:`round_up`), so that what is left still bounds them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.types import FLOATING, DataType, Kind, Value

Mask = npt.NDArray[np.bool_]
ArrowColumn: TypeAlias = "pa.Array | pa.ChunkedArray"
"""One truth value per block (or per whatever is being asked about)."""


Ends = npt.NDArray[Any]
"""One end of the bounds of every block: 64-bit integers, doubles, or 32-bit ranks."""


INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


WIDE_MIN, WIDE_MAX = -(2**127), 2**127 - 1


End = TypeVar("End", int, float, bytes)


class Form(Enum):
    """One of the four ways to write an ordered value down."""

    INTEGER = "integer"
    FLOAT = "float"
    WIDE = "wide decimal"
    BYTES = "bytes"


def if_any(mask: Mask) -> Mask | None:
    """The mask, or None if it is False throughout: nobody has to look at it again."""
    return mask if mask.any() else None


def stored_form(type: DataType) -> Form | None:
    """The form of a type's values, or None where their order is not known."""
    if type.discrete:
        return Form.INTEGER
    if type.kind in FLOATING:
        return Form.FLOAT
    if type.kind is Kind.DECIMAL:
        return Form.INTEGER if type.precision <= 18 else Form.WIDE
    if type.kind in (Kind.STRING, Kind.BINARY):
        return Form.BYTES
    return None


def stored_type(type: DataType) -> pa.DataType | None:
    """The Arrow type of the index columns ``lower:c`` and ``upper:c`` for a column of ``type``.

    >>> from sidestep.predicate.types import decimal_type
    >>> stored_type(decimal_type(12, 2)), stored_type(decimal_type(20, 2))
    (DataType(int64), Decimal128Type(decimal128(38, 2)))
    """
    match stored_form(type):
        case Form.INTEGER:
            return pa.int64()
        case Form.FLOAT:
            return pa.float64()
        case Form.WIDE:
            return pa.decimal128(38, type.scale)
        case Form.BYTES:
            return pa.binary()
        case None:
            return None


def unscaled(value: Decimal | int, scale: int) -> tuple[int, bool]:
    """``value`` times ten to the ``scale``, rounded down, and whether that was exact.

    Integer arithmetic throughout: the decimal module would round to the 28 digits of its default context.

    >>> unscaled(Decimal("-1.255"), 2), unscaled(7, 2)
    ((-126, False), (700, True))
    """
    numerator, denominator = value.as_integer_ratio()
    if scale >= 0:
        numerator *= 10**scale
    else:
        denominator *= 10**-scale
    quotient, remainder = divmod(numerator, denominator)
    return quotient, remainder == 0


_EXACT = (Decimal, int)


def decimal_end(value: Value, closed: bool, scale: int, *, low: bool) -> int | None:
    """The closed unscaled end that an interval's end amounts to at a scale; None if it is no finite decimal."""
    if not isinstance(value, _EXACT) or (isinstance(value, Decimal) and not value.is_finite()):
        return None
    floor, exact = unscaled(value, scale)
    if not exact:
        # Between two values of that scale: the next above for a low end, the next below for a high one.
        return floor + 1 if low else floor
    if closed:
        return floor
    return floor + 1 if low else floor - 1


@dataclass(frozen=True, slots=True)
class Ranges(Generic[End]):
    """Closed, non-empty, ascending and disjoint ranges ``lows[i]..highs[i]``: an interval set in a form's own order."""

    lows: list[End]
    highs: list[End]


def integer_ranges(ranges: IntervalSet, least: int, greatest: int) -> Ranges[int] | None:
    """The set in INTEGER or WIDE form, within ``least..greatest``; None if one of its ends is no value of that form."""
    type = ranges.type
    if type.discrete:
        # Closed and within the type by contract; long IN lists come this way.
        lows = [least if interval.low is None else int(interval.low) for interval in ranges.intervals]
        highs = [greatest if interval.high is None else int(interval.high) for interval in ranges.intervals]
        return Ranges(lows, highs)
    closed: Ranges[int] = Ranges([], [])
    for interval in ranges.intervals:
        low: int | None = least
        high: int | None = greatest
        if interval.low is not None:
            low = decimal_end(interval.low, interval.low_closed, type.scale, low=True)
        if interval.high is not None:
            high = decimal_end(interval.high, interval.high_closed, type.scale, low=False)
        if low is None or high is None:
            return None
        if max(low, least) <= min(high, greatest):
            closed.lows.append(max(low, least))
            closed.highs.append(min(high, greatest))
    return closed


_NUMBER_OR_NONE = (float, int, NoneType)


def float_ranges(ranges: IntervalSet) -> Ranges[float] | None:
    """The numbers of the set, NaN aside, in FLOAT form; None if one of its ends is no number."""
    closed: Ranges[float] = Ranges([], [])
    for interval in ranges.intervals:
        if type(interval.low) is float and interval.low == interval.high:
            closed.lows.append(interval.low)
            closed.highs.append(interval.low)
        elif not isinstance(interval.low, _NUMBER_OR_NONE) or not isinstance(interval.high, _NUMBER_OR_NONE):
            return None
        elif (numbers := _numbers(interval)) is not None:
            closed.lows.append(numbers[0])
            closed.highs.append(numbers[1])
    return closed


def _numbers(interval: Interval) -> tuple[float, float] | None:
    low = -math.inf if interval.low is None else float(interval.low)
    high = math.inf if interval.high is None else float(interval.high)
    if math.isnan(low):
        return None
    if interval.low is not None and not interval.low_closed:
        if low == math.inf:
            return None  # above infinity there is only NaN
        low = math.nextafter(low, math.inf)
    if math.isnan(high):
        high = math.inf  # up to NaN: every number, whether or not NaN itself is in
    elif interval.high is not None and not interval.high_closed:
        if high == -math.inf:
            return None
        high = math.nextafter(high, -math.inf)
    return (low, high) if low <= high else None


def bytes_end(value: Value) -> bytes | None:
    """A string's UTF-8 bytes, or bytes as they are; None for what Spark could not hold (a lone surrogate)."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            return None
    return None


def wide_bytes(number: int) -> bytes:
    """Sixteen bytes that sort as the integer does: how a wide decimal's unscaled value is kept in memory."""
    return (number - WIDE_MIN).to_bytes(16)


def round_down(value: bytes, width: int) -> bytes:
    """A byte string of at most ``width`` bytes that is not above ``value``."""
    return value[:width]


def round_up(value: bytes, width: int) -> bytes | None:
    """A byte string of at most ``width`` bytes that is not below ``value``; None if there is none (all 0xFF).

    A bare prefix would be *below* the value it was cut from, and a block could lose the rows between the two.

    >>> round_up(b"abcdef", 3), round_up(b"a\\xff\\xff!", 3), round_up(b"\\xff\\xff", 1), round_up(b"ab", 3)
    (b'abd', b'b', None, b'ab')
    """
    if len(value) <= width:
        return value
    prefix = value[:width].rstrip(b"\xff")
    if not prefix:
        return None
    return prefix[:-1] + bytes([prefix[-1] + 1])
