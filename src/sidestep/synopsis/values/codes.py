"""Codes: every ordered value as a 64-bit number, so that gaps between values can be measured and listed.

**Contract.** A code is monotone: ``a <= b`` in the order of the type gives ``code(a) <= code(b)``. It need not be
injective. Two values may share a code, and a synopsis made of codes then takes one for the other: it keeps a block it
could have skipped, and never the reverse. A set of values becomes closed ranges of codes that cover it
(:mod:`sidestep.synopsis.values.code_ranges`).

=====================  ==========================================================================================
stored form            code
=====================  ==========================================================================================
integers, dates, …     the value, its sign bit turned: exact
float, double          the IEEE bits in numeric order: exact; -0.0 is 0.0, and NaN is the greatest code of all
wide decimals          exact up to 2^62 unscaled; above, the leading 53 bits with their exponent
string, binary         the first eight bytes after ``prefix``, padded with zeros
=====================  ==========================================================================================

Strings that share a long beginning (``Customer#…``, URLs) would all have one code: a coding may name a prefix that it
leaves out. Values that do not begin with it get the least or the greatest code, by the side they lie on.

>>> import pyarrow as pa
>>> from sidestep.predicate.types import INTEGER, STRING
>>> codes_of(pa.array([-1, None, 0]), Coding(INTEGER)) - np.uint64(2**63 - 1)
array([0, 1], dtype=uint64)
>>> urls = pa.array(["https://a", "https://b", "zebra"])
>>> codes_of(urls, Coding(STRING, b"https://")).argsort().tolist(), codes_of(urls, Coding(STRING, b"https://"))[2]
([0, 1, 2], np.uint64(18446744073709551615))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.predicate.types import FLOATING, DataType, Kind
from sidestep.synopsis.values.forms import ArrowColumn, Form, stored_form
from sidestep.synopsis.values.summary import UNKNOWN, summarize

Codes = npt.NDArray[np.uint64]
Lengths = npt.NDArray[np.float64]

LEAST, GREATEST = np.uint64(0), np.uint64(2**64 - 1)
WIDTH = 8
"""Bytes of a string that its code tells."""

_SIGN = np.uint64(1 << 63)
_EXACT = 1 << 62
"""Wide decimals of up to this magnitude, unscaled, keep all their digits."""
_MANTISSA = 52


@dataclass(frozen=True, slots=True)
class Coding:
    """How the values of one column become codes; see the module's text."""

    type: DataType
    prefix: bytes = b""

    def __post_init__(self) -> None:
        form = stored_form(self.type)
        if form is None:
            raise SidestepError(f"The order of {self.type} is unknown, so its values have no codes.")
        if self.prefix and form is not Form.BYTES:
            raise SidestepError(
                f"Only strings and binary values have a prefix to leave out, but this is a {self.type}."
            )

    @property
    def form(self) -> Form:
        form = stored_form(self.type)
        assert form is not None
        return form

    def lengths(self, begin: Codes, end: Codes) -> Lengths:
        """How much lies from ``begin`` up to, not including, ``end``: numeric length for floats, else codes.

        Floats are measured as numbers because queries are: as many doubles lie between 0 and 1 as above 1. To keep the
        length of everything finite, it is a quarter of the true one, and infinity and NaN are as far as the last float.
        """
        if self.form is Form.FLOAT:
            limit = np.finfo(np.float64).max / 4
            ends = [np.clip(float_values(np.clip(code, *_INFINITIES)) / 4, -limit, limit) for code in (begin, end)]
            return np.asarray(ends[1] - ends[0], dtype=np.float64)
        return (np.asarray(end) - np.asarray(begin)).astype(np.float64)


def integer_codes(values: npt.NDArray[np.int64]) -> Codes:
    """Codes of 64-bit integers."""
    return np.asarray(values, dtype=np.int64).view(np.uint64) ^ _SIGN


def integer_values(codes: Codes) -> npt.NDArray[np.int64]:
    """The integers that codes stand for."""
    return (np.asarray(codes, dtype=np.uint64) ^ _SIGN).view(np.int64)


def float_codes(values: npt.NDArray[np.float64]) -> Codes:
    """Codes of doubles: -0.0 is 0.0, and every NaN the greatest code."""
    canonical = np.asarray(values, dtype=np.float64) + 0.0
    bits = canonical.view(np.uint64)
    codes = np.where(bits >> np.uint64(63) == 1, ~bits, bits | _SIGN)
    codes[np.isnan(canonical)] = GREATEST
    return codes


def float_values(codes: Codes) -> npt.NDArray[np.float64]:
    """The doubles that codes stand for; a code that stands for none is a NaN."""
    codes = np.asarray(codes, dtype=np.uint64)
    return np.where(codes >> np.uint64(63) == 1, codes ^ _SIGN, ~codes).view(np.float64)


_INFINITIES = tuple(float_codes(np.array([-np.inf, np.inf])))


def wide_code(unscaled: int) -> int:
    """The code of a wide decimal's unscaled value.

    >>> [wide_code(n) - 2**63 for n in (-(2**70), -5, 0, 7, 2**62)]
    [-4647714815446351872, -5, 0, 7, 4611686018427387904]
    """
    magnitude = abs(unscaled)
    if magnitude >= _EXACT:
        bits = magnitude.bit_length()
        mantissa = (magnitude >> (bits - 1 - _MANTISSA)) - (1 << _MANTISSA)
        magnitude = _EXACT + ((bits - 63) << _MANTISSA) + mantissa
    return (1 << 63) + (magnitude if unscaled >= 0 else -magnitude)


def byte_code(value: bytes, prefix: bytes = b"") -> int:
    """The code of a byte string."""
    if not value.startswith(prefix):
        return 0 if value < prefix else int(GREATEST)
    return int.from_bytes(value[len(prefix) : len(prefix) + WIDTH].ljust(WIDTH, b"\0"))


def shared_prefix(array: ArrowColumn) -> bytes:
    """The bytes that all values of a string or binary column begin with: what a coding of it may leave out.

    >>> shared_prefix(pa.array(["Customer#0017", None, "Customer#0451"]))
    b'Customer#0'
    """
    ends = pc.min_max(_as_bytes(array))
    if not ends["min"].is_valid:
        return b""
    return common_prefix([ends["min"].as_py(), ends["max"].as_py()])


def common_prefix(values: Sequence[bytes]) -> bytes:
    """The bytes that all begin with."""
    least, greatest = (min(values), max(values)) if values else (b"", b"")
    differs = (place for place, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b)
    return least[: next(differs, min(len(least), len(greatest)))]


def codes_of(array: ArrowColumn, coding: Coding) -> Codes | None:
    """The codes of a column's values in their order, NULLs left out.

    None if the Arrow type is not one that Spark reads as the coding's type without change, or if a value does not fit:
    what such a block holds is unknown.
    """
    chunks = plain_values(array, coding)
    if chunks is None:
        return None
    return np.concatenate([np.zeros(0, dtype=np.uint64), *(_chunk_codes(chunk, coding) for chunk in chunks)])


def plain_values(array: ArrowColumn, coding: Coding) -> list[pa.Array] | None:
    """The values that are not NULL, in one Arrow type per stored form: int64, float64, decimal128 or large binary.

    None as for :func:`codes_of`.
    """
    if summarize(array, coding.type) == UNKNOWN:
        return None
    if pa.types.is_null(array.type):
        return []
    try:
        plain = _plain(array, coding.type)
    except pa.ArrowInvalid:
        return None  # a value between the bounds that does not fit: Spark rounds it, fails or reads NULL
    chunks = plain.chunks if isinstance(plain, pa.ChunkedArray) else [plain]
    return [chunk.drop_null() for chunk in chunks]


def concatenate_bytes(array: ArrowColumn) -> npt.NDArray[np.uint8]:
    """The bytes of all values of a binary column, one after the other, without those of NULLs.

    >>> concatenate_bytes(pa.array([b"ab", None, b"c"])).tobytes()
    b'abc'
    """
    parts = [np.zeros(0, dtype=np.uint8)]
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        present = chunk.drop_null().cast(pa.large_binary())
        _, offsets, data = present.buffers()
        if len(present) and data is not None:
            ends = np.frombuffer(offsets, dtype=np.int64)[present.offset : present.offset + len(present) + 1]
            parts.append(np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]])
    return np.concatenate(parts)


def _plain(array: ArrowColumn, type: DataType) -> ArrowColumn:
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    kind, form = type.kind, stored_form(type)
    if form is Form.BYTES:
        return _as_bytes(array)
    if kind in FLOATING:
        return array.cast(pa.float64())
    if kind is Kind.DECIMAL:
        if pa.types.is_integer(array.type):
            array = array.cast(pa.int64()).cast(pa.decimal128(19, 0))
        return array.cast(pa.decimal128(38, type.scale))
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        array = array.cast(pa.timestamp("us", array.type.tz))
    elif kind is Kind.TIME:
        array = array.cast(pa.time64("ns"))
    elif pa.types.is_duration(array.type):
        array = array.cast(pa.duration("us"))
    elif kind in (Kind.DATE, Kind.BOOLEAN):
        array = array.cast(pa.int32() if kind is Kind.DATE else pa.uint8())
    return array.cast(pa.int64())


def _as_bytes(array: ArrowColumn) -> ArrowColumn:
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_string(array.type) or pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    return array.cast(pa.large_binary())


def _chunk_codes(array: pa.Array, coding: Coding) -> Codes:
    if coding.form is Form.BYTES:
        return _byte_codes(array, coding.prefix)
    if coding.form is Form.FLOAT:
        return float_codes(array.to_numpy(zero_copy_only=False))
    if pa.types.is_decimal(array.type):
        data = array.buffers()[1]
        if data is None or not len(array):
            return np.zeros(0, dtype=np.uint64)
        words = np.frombuffer(data, dtype="<i8")[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)
        return integer_codes(words[:, 0]) if coding.form is Form.INTEGER else _wide_codes(words[:, 0], words[:, 1])
    return integer_codes(array.to_numpy(zero_copy_only=False))


def _wide_codes(low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> Codes:
    """:func:`wide_code` of 128-bit integers in two words each."""
    negative = high < 0
    small = low.view(np.uint64).copy()
    large = high.view(np.uint64).copy()
    small[negative] = ~small[negative] + np.uint64(1)
    large[negative] = ~large[negative] + (small[negative] == 0).astype(np.uint64)
    magnitude = small.copy()
    beyond = (large > 0) | (small >= np.uint64(_EXACT))
    if beyond.any():
        # Shift the leading bit to the top, word by word, and read its 53 bits there: truncated, hence monotone.
        top, rest = large[beyond], small[beyond]
        moved = top == 0
        top, rest = np.where(moved, rest, top), np.where(moved, np.uint64(0), rest)
        smeared = top.copy()
        for step in (1, 2, 4, 8, 16, 32):
            smeared |= smeared >> np.uint64(step)
        shift = np.uint64(64) - np.bitwise_count(smeared).astype(np.uint64)
        lead = (top << shift) | ((rest >> np.uint64(1)) >> (np.uint64(63) - shift))
        bits = np.where(moved, np.uint64(64), np.uint64(128)) - shift
        mantissa = (lead >> np.uint64(63 - _MANTISSA)) - np.uint64(1 << _MANTISSA)
        magnitude[beyond] = np.uint64(_EXACT) + ((bits - np.uint64(63)) << np.uint64(_MANTISSA)) + mantissa
    return np.where(negative, _SIGN - magnitude, _SIGN + magnitude)


def _byte_codes(array: pa.Array, prefix: bytes) -> Codes:
    """:func:`byte_code` of large binary values, straight from Arrow's memory."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, dtype=np.uint8)
    start, end = ends[:-1] + len(prefix), ends[1:]
    codes = np.zeros(len(array), dtype=np.uint64)
    for place in range(WIDTH):
        at = start + place
        byte = np.where(at < end, text[np.minimum(at, len(text) - 1)], np.uint8(0))
        codes |= byte.astype(np.uint64) << np.uint64(8 * (WIDTH - 1 - place))
    if prefix:
        begins = pc.starts_with(array, pattern=prefix).to_numpy(zero_copy_only=False)
        below = pc.less(array, pa.scalar(prefix, pa.large_binary())).to_numpy(zero_copy_only=False)
        codes = np.where(begins, codes, np.where(below, LEAST, GREATEST))
    return codes
