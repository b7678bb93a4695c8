"""64-bit hashes of values, the same for all values that SQL calls equal: what a Bloom filter sets its bits by.

A value is brought to its stored form first: integers, dates and short decimals as their 64-bit number at the column's
scale (1.5 and 1.50 are one), floats as the double with -0.0 as 0.0 and one NaN, wide decimals as two words, strings as
all their bytes and their length. Words are mixed by multiplying and folding, as xxHash ends its rounds: each bit of the
input reaches every bit of the hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.predicate.types import DataType, Value
from sidestep.synopsis.values.codes import Coding, float_codes, integer_codes, plain_values
from sidestep.synopsis.values.forms import ArrowColumn, Form, bytes_end, stored_form, unscaled

Hashes = npt.NDArray[np.uint64]

_FIRST = np.uint64(0x9E3779B185EBCA87)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
_THIRD = np.uint64(0x165667B19E3779F9)


def mix(words: Hashes) -> Hashes:
    """Each word's bits spread over all of it; different words stay different."""
    words = (words ^ (words >> np.uint64(33))) * _SECOND
    words = (words ^ (words >> np.uint64(29))) * _THIRD
    return words ^ (words >> np.uint64(32))


def code_hashes(codes: Hashes) -> Hashes:
    """Hashes of codes: for integers and floats those of the values themselves, for others good to try things with."""
    return mix(codes + _FIRST)


def _combine(hashes: Hashes, words: Hashes) -> Hashes:
    # Not an exclusive or of two hashes: equal words, as in 0 and -1 as wide decimals, would cancel each other out.
    return mix(hashes * _FIRST + mix(words + _THIRD))


def column_hashes(array: ArrowColumn, type: DataType) -> Hashes | None:
    """The hashes of a column's values, NULLs left out; None if it cannot be read as ``type`` for certain."""
    chunks = plain_values(array, Coding(type))
    if chunks is None:
        return None
    return np.concatenate([np.zeros(0, dtype=np.uint64), *(_chunk_hashes(chunk, type) for chunk in chunks)])


def value_hashes(values: Sequence[Value], type: DataType) -> Hashes | None:
    """The hashes of a query's constants; one that no value of the type can equal is left out.

    None if a constant is not understood.
    """
    form = stored_form(type)
    if form is Form.BYTES:
        texts = [bytes_end(value) for value in values]
        if any(text is None for text in texts):
            return None
        return _chunk_hashes(pa.array(texts, pa.large_binary()), type)
    if form is Form.FLOAT:
        return code_hashes(float_codes(np.array([float(value) for value in values], dtype=np.float64)))
    numbers: list[int] = []
    for value in values:
        if isinstance(value, float | str | bytes):
            return None
        number, exact = unscaled(value, type.scale)
        if exact:
            numbers.append(number)
    if form is Form.INTEGER:
        inside = [number for number in numbers if -(2**63) <= number < 2**63]
        return code_hashes(integer_codes(np.array(inside, dtype=np.int64)))
    inside = [number for number in numbers if -(2**127) <= number < 2**127]
    low = np.array([number & (2**64 - 1) for number in inside], dtype=np.uint64)
    high = np.array([(number >> 64) & (2**64 - 1) for number in inside], dtype=np.uint64)
    return _combine(mix(low + _FIRST), high)


def _chunk_hashes(array: pa.Array, type: DataType) -> Hashes:
    form = stored_form(type)
    if form is Form.BYTES:
        return _byte_hashes(array)
    if form is Form.FLOAT:
        return code_hashes(float_codes(array.to_numpy(zero_copy_only=False)))
    if pa.types.is_decimal(array.type):
        data = array.buffers()[1]
        if data is None or not len(array):
            return np.zeros(0, dtype=np.uint64)
        words: npt.NDArray[Any] = np.frombuffer(data, dtype="<i8")[2 * array.offset : 2 * (array.offset + len(array))]
        low, high = words[0::2].copy(), words[1::2].copy()
        if form is Form.INTEGER:
            return code_hashes(integer_codes(low))
        return _combine(mix(low.view(np.uint64) + _FIRST), high.view(np.uint64))
    return code_hashes(integer_codes(array.to_numpy(zero_copy_only=False)))


def _byte_hashes(array: pa.Array) -> Hashes:
    """Hashes of large binary values: eight bytes at a time, for all values that are so long."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.zeros(8 if data is None else data.size + 8, dtype=np.uint8)
    if data is not None:
        text[: data.size] = np.frombuffer(data, dtype=np.uint8)
    lengths = np.diff(ends)
    hashes = mix(lengths.astype(np.uint64) + _FIRST)
    active = np.flatnonzero(lengths > 0)
    place = 0
    while len(active):
        at = ends[active] + place
        words = text[at[:, np.newaxis] + np.arange(8)].view("<u8").ravel()
        left = np.minimum(lengths[active] - place, 8).astype(np.uint64)
        words &= np.uint64(2**64 - 1) >> (np.uint64(64) - np.uint64(8) * left)
        hashes[active] = _combine(hashes[active], words)
        place += 8
        active = active[lengths[active] > place]
    return hashes
