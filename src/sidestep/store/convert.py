"""Zone maps that were stored for one type, read as another, where that is exact."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sidestep.predicate.types import INTEGRAL, DataType, Kind
from sidestep.synopsis.values.forms import stored_type

_BYTEWISE = frozenset({Kind.STRING, Kind.BINARY})
_BY_WIDTH = (Kind.BYTE, Kind.SHORT, Kind.INTEGER, Kind.LONG)


def convertible(stored: DataType, asked: DataType) -> bool:
    """Whether zone maps of a ``stored`` column speak of an ``asked`` one as well: the same values in the same order.

    >>> from sidestep.predicate.types import DOUBLE, FLOAT, INTEGER, LONG
    >>> convertible(INTEGER, LONG), convertible(FLOAT, DOUBLE), convertible(DOUBLE, FLOAT)
    (True, True, False)
    """
    if stored == asked:
        return True
    if stored.kind is Kind.DECIMAL:
        return asked.kind is Kind.DECIMAL and stored.scale == asked.scale and stored.precision <= asked.precision
    pair = {stored.kind, asked.kind}
    if pair <= INTEGRAL:
        # Spark reads an integer as a narrower one by cutting bits off: 200 becomes -56.
        return _BY_WIDTH.index(stored.kind) <= _BY_WIDTH.index(asked.kind)
    return pair <= _BYTEWISE or (stored.kind is Kind.FLOAT and asked.kind is Kind.DOUBLE)


def convert_bounds(bounds: pa.Array, asked: DataType) -> pa.Array:
    """Bounds of a convertible type in the stored form of ``asked``; what does not fit becomes unbounded."""
    wanted = stored_type(asked)
    if wanted is None or bounds.type == wanted:
        return bounds
    if pa.types.is_decimal(bounds.type):
        words = _words(bounds)
        fits = words[:, 1] == (words[:, 0] >> 63)
        return pa.array(words[:, 0], pa.int64(), mask=~fits | bounds.is_null().to_numpy(zero_copy_only=False))
    low = bounds.fill_null(0).to_numpy(zero_copy_only=False)
    words = np.column_stack([low, low >> 63])
    whole = pa.Array.from_buffers(wanted, len(bounds), [None, pa.py_buffer(words.astype("<i8").tobytes())])
    return pa.array(whole.to_pylist(), wanted, mask=bounds.is_null().to_numpy(zero_copy_only=False))


def _words(decimals: pa.Array) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The low and high 64 bits of each decimal128."""
    data = decimals.buffers()[1]
    whole = np.frombuffer(data, dtype="<i8") if data is not None else np.zeros(0, dtype="<i8")
    return whole[2 * decimals.offset : 2 * (decimals.offset + len(decimals))].reshape(-1, 2)
