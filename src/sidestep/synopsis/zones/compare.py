"""Column against column: which blocks may hold a row whose two values are in a relation.

Values of different numeric types are compared by their exact numeric value. Converting a 64-bit integer to a double
rounds it above 2^53, and then a block that holds a match can look as if it held none; so the double is rounded to an
integer instead, in the direction that keeps the comparison exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.predicate.types import FLOATING, INTEGRAL, DataType, Kind
from sidestep.synopsis.contract.answer import Answer
from sidestep.synopsis.values.forms import Ends, Form, Mask
from sidestep.synopsis.zones.bounds import NumberBounds, RankedBounds
from sidestep.synopsis.zones.column_zones import HAS_LOWER, HAS_UPPER, MAY_BE_NAN, MAY_HAVE_VALUE, UNKNOWN, ColumnZones

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


def compare_zones(left: ColumnZones, op: str, right: ColumnZones) -> Answer:
    """Blocks that may hold a row with ``left op right``, both not NULL; op is ``<``, ``<=``, ``=`` or ``<>``.

    NaN equals itself and is above every number, as in Spark. The two values of a row are treated as independent, which
    can only keep more. A block is unknown if one side is, unless the other side is NULL throughout: that alone decides.
    """
    unknown = None
    for one, other in ((left, right), (right, left)):
        if one.unknown is not None:
            undecided = one.unknown & other.has(MAY_HAVE_VALUE | MAY_BE_NAN | UNKNOWN)
            unknown = undecided if unknown is None else unknown | undecided
    return Answer(_may_compare(left, op, right), unknown)


def _may_compare(left: ColumnZones, op: str, right: ColumnZones) -> Mask:
    """The same for blocks of which something is known on both sides."""
    value_left, value_right = left.has(MAY_HAVE_VALUE), right.has(MAY_HAVE_VALUE)
    nan_left, nan_right = left.has(MAY_BE_NAN), right.has(MAY_BE_NAN)
    values = value_left & value_right
    match op:
        case "<":
            return (values & _lower_at_most_upper(left, right, strict=True)) | (value_left & nan_right)
        case "<=":
            met = values & _lower_at_most_upper(left, right, strict=False)
            return met | ((value_left | nan_left) & nan_right)
        case "=":
            return (values & _overlap(left, right)) | (nan_left & nan_right)
        case "<>":
            same = left.single & right.single & _overlap(left, right) & _comparable(left.type, right.type)
            return (values & ~same) | (value_left & nan_right) | (nan_left & value_right)
        case _:
            return np.ones(len(values), dtype=np.bool_)


def _overlap(left: ColumnZones, right: ColumnZones) -> Mask:
    return _lower_at_most_upper(left, right, strict=False) & _lower_at_most_upper(right, left, strict=False)


def _comparable(left: DataType, right: DataType) -> bool:
    """Whether the order across the two types is known: one type, or two numbers (not a fraction with a double)."""
    if left == right:
        return left.ordered
    numeric = INTEGRAL | FLOATING | {Kind.DECIMAL}
    if left.kind not in numeric or right.kind not in numeric:
        return False
    if left.kind in FLOATING or right.kind in FLOATING:
        return Kind.DECIMAL not in (left.kind, right.kind)
    return True


def _lower_at_most_upper(left: ColumnZones, right: ColumnZones, *, strict: bool) -> Mask:
    """Whether left's lower bound is at most (or, strictly, below) right's upper bound; True where that is unknown."""
    a, b = left.bounds, right.bounds
    if a is None or b is None or not _comparable(left.type, right.type):
        return np.ones(len(left.flags), dtype=np.bool_)
    if isinstance(a, NumberBounds) and isinstance(b, NumberBounds):
        return _numbers_ordered(a.lower, left.type, b.upper, right.type, strict)
    unbounded = ~(left.has(HAS_LOWER) & right.has(HAS_UPPER))
    if (
        isinstance(a, RankedBounds)
        and isinstance(b, RankedBounds)
        and (a.form is Form.BYTES or left.type == right.type)
    ):
        width = max(a.dictionary.dtype.itemsize, b.dictionary.dtype.itemsize) - 2
        x, y = _gather(_widen(a, width), a.lower), _gather(_widen(b, width), b.upper)
        return unbounded | np.asarray(x < y if strict else x <= y)
    scale = max(left.type.scale, right.type.scale)
    compared = (pc.less if strict else pc.less_equal)(
        _as_wide(left, scale, low=True), _as_wide(right, scale, low=False)
    )
    return unbounded | np.asarray(compared.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _numbers_ordered(x: Ends, x_type: DataType, y: Ends, y_type: DataType, strict: bool) -> Mask:
    if x.dtype == y.dtype == np.float64:
        return np.asarray(x < y if strict else x <= y)
    if y.dtype == np.float64:
        # x <= y is x <= floor(y), and x < y is x < ceil(y), for an integer x.
        whole, below, above = _whole(np.ceil(y) if strict else np.floor(y))
        return np.asarray(above | (~below & (x < whole if strict else x <= whole)))
    if x.dtype == np.float64:
        whole, below, above = _whole(np.floor(x) if strict else np.ceil(x))
        return np.asarray(below | (~above & (whole < y if strict else whole <= y)))
    gap = y_type.scale - x_type.scale
    if gap > 0:
        y = _divide(y, gap, up=strict)
    elif gap < 0:
        x = _divide(x, -gap, up=not strict)
    return np.asarray(x < y if strict else x <= y)


def _whole(rounded: _Floats) -> tuple[_Ints, Mask, Mask]:
    """Whole doubles as integers, and which of them are below or above all 64-bit integers."""
    below, above = rounded < -(2.0**63), rounded >= 2.0**63
    return np.where(below | above, 0.0, rounded).astype(np.int64), below, above


def _divide(unscaled: _Ints, digits: int, *, up: bool) -> _Ints:
    """Divided by ten to the ``digits``, rounded down or up."""
    if digits > 18:  # the quotient is a fraction between -10 and 10; ten to the 19th does not fit 64 bits
        return _divide(_divide(unscaled, 18, up=up), digits - 18, up=up)
    quotient, remainder = np.divmod(unscaled, np.int64(10**digits))
    return quotient + (remainder != 0) if up else quotient


def _widen(bounds: RankedBounds, width: int) -> npt.NDArray[np.bytes_]:
    """The dictionary's keys with more padding before the length."""
    size = bounds.dictionary.dtype.itemsize
    if size - 2 == width:
        return bounds.dictionary
    rows = np.zeros((len(bounds.dictionary), width + 2), dtype=np.uint8)
    narrow = bounds.dictionary.view(np.uint8).reshape(-1, size)
    rows[:, : size - 2] = narrow[:, :-2]
    rows[:, -2:] = narrow[:, -2:]
    return rows.reshape(-1).view(f"S{width + 2}")


def _gather(dictionary: npt.NDArray[np.bytes_], ranks: npt.NDArray[np.int32]) -> npt.NDArray[np.bytes_]:
    """The values at these ranks; what stands at an unbounded rank does not matter."""
    if len(dictionary) == 0:
        return np.zeros(len(ranks), dtype=dictionary.dtype)
    return dictionary[np.clip(ranks, 0, len(dictionary) - 1)]


def _as_wide(zones: ColumnZones, scale: int, *, low: bool) -> pa.Array:
    """Bounds as 256-bit decimals of a common scale, which hold every decimal and integer exactly."""
    bounds = zones.bounds
    assert bounds is not None
    ends = bounds.lower if low else bounds.upper
    words = np.zeros((len(ends), 4), dtype=np.int64)  # least significant first
    if isinstance(bounds, RankedBounds):
        keys = _gather(bounds.dictionary, bounds.lower if low else bounds.upper).view(np.uint8).reshape(len(ends), -1)
        if keys.shape[1] >= 16:  # a dictionary without any value is narrower
            number = keys[:, :16][:, ::-1].copy()
            number[:, 15] ^= 0x80
            words[:, :2] = number.view(np.int64)
        words[:, 2:] = (words[:, 1] >> 63)[:, np.newaxis]
    else:
        words[:, 0] = ends
        words[:, 1:] = (words[:, 0] >> 63)[:, np.newaxis]
    exact = pa.decimal256(38, zones.type.scale)
    array = pa.Array.from_buffers(exact, len(ends), [None, pa.py_buffer(words.tobytes())])
    return array.cast(pa.decimal256(76, scale))
