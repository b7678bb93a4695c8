"""Outer bounds of one column in all blocks at once, and the question whether they meet a set of values.

Two representations: numbers that numpy orders itself (:class:`NumberBounds`), and byte strings replaced by their rank
in a sorted dictionary (:class:`RankedBounds`), so that strings and wide decimals are compared as fast, and as exactly,
as integers. An unbounded end is a sentinel beyond which no value of the type can lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis.contract.block_ranges import meets
from sidestep.synopsis.values.forms import (
    INT64_MAX,
    INT64_MIN,
    WIDE_MAX,
    WIDE_MIN,
    Ends,
    Form,
    Mask,
    Ranges,
    bytes_end,
    float_ranges,
    integer_ranges,
    round_down,
    round_up,
    stored_form,
    wide_bytes,
)

_Ints = npt.NDArray[np.int64]


_Codes = npt.NDArray[np.int32]


_Keys = npt.NDArray[np.bytes_]


_LONGEST = 256
"""Longer byte bounds are shortened (outwards) on the way in: the dictionary has one width for all of them."""


@dataclass(frozen=True, eq=False)
class NumberBounds:
    """Bounds in INTEGER or FLOAT form. Unbounded ends are the extremes of the form, which are outer bounds as well."""

    lower: Ends
    upper: Ends

    def meets(self, ranges: IntervalSet) -> Mask | None:
        if self.lower.dtype == np.float64:
            closed: Ranges[Any] | None = float_ranges(ranges)
        else:
            closed = integer_ranges(ranges, INT64_MIN, INT64_MAX)
        if closed is None:
            return None
        dtype = self.lower.dtype
        return meets(np.array(closed.lows, dtype), np.array(closed.highs, dtype), self.lower, self.upper)

    @property
    def single(self) -> Mask:
        """Blocks whose bounds are equal: all their values are that one (outer bounds leave no other)."""
        return np.asarray(self.lower == self.upper)

    def take(self, positions: npt.NDArray[np.integer]) -> NumberBounds:
        return NumberBounds(self.lower[positions], self.upper[positions])

    @property
    def nbytes(self) -> int:
        return self.lower.nbytes + self.upper.nbytes


@dataclass(frozen=True, eq=False)
class RankedBounds:
    """Bounds in BYTES or WIDE form: ranks in a sorted dictionary of all bounds of the column.

    A rank of -1 is unbounded below, one of ``len(dictionary)`` unbounded above. A set of values is carried over into
    ranks once, by binary search in the dictionary; after that, blocks are compared by rank alone.

    Dictionary keys are numpy strings of one width: the bytes padded with zeros, then the length in two bytes. numpy
    cannot tell ``b"a"`` from ``b"a\\0"``; with the length behind the padding their order is exact. A value longer than
    every bound is cut and gets a length above all of theirs, which puts it right behind the bound it begins with.
    """

    dictionary: _Keys
    lower: _Codes
    upper: _Codes
    form: Form

    def meets(self, ranges: IntervalSet) -> Mask | None:
        lows: _Ints
        highs: _Ints
        if self.form is Form.WIDE:
            integers = integer_ranges(ranges, WIDE_MIN, WIDE_MAX)
            if integers is None:
                return None
            lows = self._rank([wide_bytes(low) for low in integers.lows], "left")
            highs = self._rank([wide_bytes(high) for high in integers.highs], "right") - 1
            return meets(lows, highs, self.lower, self.upper)
        ends = _byte_ends(ranges)
        if ends is None:
            return None
        lows, highs = self._rank(ends.lows, "left"), self._rank(ends.highs, "right") - 1
        # An end that is open, or is none, ranks otherwise; these are few even in a long list.
        for i, interval in enumerate(ranges.intervals):
            if interval.low is None:
                lows[i] = -1
            elif not interval.low_closed:
                lows[i] = self._rank([ends.lows[i]], "right")[0]
            if interval.high is None:
                highs[i] = len(self.dictionary)
            elif not interval.high_closed:
                highs[i] = self._rank([ends.highs[i]], "left")[0] - 1
        return meets(lows, highs, self.lower, self.upper)

    def _rank(self, values: list[bytes], side: OneOf["left", "right"]) -> _Ints:
        width = self.dictionary.dtype.itemsize - 2
        return np.searchsorted(self.dictionary, keys_of(values, width), side=side).astype(np.int64)

    @property
    def single(self) -> Mask:
        """Blocks whose bounds are equal: all their values are that one (outer bounds leave no other)."""
        return np.asarray(self.lower == self.upper)

    def value(self, rank: int) -> bytes:
        """One dictionary value; rank must be a bounded one."""
        row = np.frombuffer(self.dictionary[rank : rank + 1].tobytes(), dtype=np.uint8)
        return row[: int(row[-2]) * 256 + int(row[-1])].tobytes()

    def take(self, positions: npt.NDArray[np.integer]) -> RankedBounds:
        return RankedBounds(self.dictionary, self.lower[positions], self.upper[positions], self.form)

    @property
    def nbytes(self) -> int:
        return self.dictionary.nbytes + self.lower.nbytes + self.upper.nbytes


Bounds = NumberBounds | RankedBounds


def _byte_ends(ranges: IntervalSet) -> Ranges[bytes] | None:
    """The ends as bytes, with an empty string for none; None if one of them is neither text nor bytes."""
    found: Ranges[bytes] = Ranges([], [])
    for interval in ranges.intervals:
        low = b"" if interval.low is None else bytes_end(interval.low)
        high = low if interval.is_point else b"" if interval.high is None else bytes_end(interval.high)
        if low is None or high is None:
            return None
        found.lows.append(low)
        found.highs.append(high)
    return found


def keys_of(values: list[bytes], width: int) -> _Keys:
    """Order-preserving keys of one width (plus two bytes for the length); see :class:`RankedBounds`."""
    rows = np.zeros((len(values), width + 2), dtype=np.uint8)
    if values:
        rows[:, :width] = np.array(values, dtype=f"S{width}").view(np.uint8).reshape(len(values), width)
        lengths = np.minimum(np.fromiter((len(v) for v in values), dtype=np.int64, count=len(values)), width + 1)
        rows[:, width] = lengths >> 8
        rows[:, width + 1] = lengths & 0xFF
    return rows.reshape(-1).view(f"S{width + 2}")


def bounds_of(type: DataType, lower: pa.Array, upper: pa.Array) -> Bounds | None:
    """The bounds in index columns of the stored type, with NULL for an unbounded end."""
    match stored_form(type):
        case Form.INTEGER:
            return NumberBounds(_fill(lower, INT64_MIN, np.int64), _fill(upper, INT64_MAX, np.int64))
        case Form.FLOAT:
            return NumberBounds(_fill(lower, -np.inf, np.float64), _fill(upper, np.inf, np.float64))
        case Form.WIDE:
            return _rank(_wide_keys(lower), _wide_keys(upper), Form.WIDE)
        case Form.BYTES:
            return _rank(_shorten(lower, upward=False), _shorten(upper, upward=True), Form.BYTES)
        case None:
            return None


def _fill(array: pa.Array, missing: float, dtype: type[np.int64 | np.float64]) -> Ends:
    return np.ascontiguousarray(
        pc.fill_null(array, pa.scalar(missing, array.type)).to_numpy(zero_copy_only=False), dtype
    )


def _wide_keys(array: pa.Array) -> pa.Array:
    """decimal128 values as sixteen-byte strings that sort as they do, straight from Arrow's memory."""
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return pa.nulls(len(array), pa.binary())
    words = np.frombuffer(data, dtype=np.uint8)[16 * array.offset : 16 * (array.offset + len(array))].reshape(-1, 16)
    keys = words[:, ::-1].copy()
    keys[:, 0] ^= 0x80
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(array), [None, pa.py_buffer(keys.tobytes())])
    return pc.if_else(array.is_valid(), fixed.cast(pa.binary()), pa.scalar(None, pa.binary()))


def _shorten(array: pa.Array, *, upward: bool) -> pa.Array:
    longest = pc.max(pc.binary_length(array)).as_py()
    if longest is None or longest <= _LONGEST:
        return array
    cut = round_up if upward else round_down
    return pa.array([None if v is None else cut(v, _LONGEST) for v in array.to_pylist()], pa.binary())


def _rank(lower: pa.Array, upper: pa.Array, form: Form) -> RankedBounds:
    blocks = len(lower)
    encoded = pa.concat_arrays([lower, upper]).dictionary_encode()
    values: list[bytes] = encoded.dictionary.to_pylist()
    keys = keys_of(values, max(1, max(map(len, values), default=1)))
    order = np.argsort(keys)
    ranks = np.empty(len(values) + 1, dtype=np.int32)
    ranks[order] = np.arange(len(values), dtype=np.int32)
    codes = _fill(encoded.indices.cast(pa.int64()), len(values), np.int64).astype(np.intp)
    ranks[len(values)] = -1
    below = ranks[codes[:blocks]]
    ranks[len(values)] = len(values)
    return RankedBounds(keys[order], below, ranks[codes[blocks:]], form)
