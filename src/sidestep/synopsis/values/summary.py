"""What a zone map says of one column of one block: outer bounds, the number of NULLs, and whether there is a NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sidestep.predicate.types import FLOATING, INTEGRAL, DataType, Kind, time_step
from sidestep.synopsis.values.forms import round_down, round_up, unscaled

Stored = int | float | Decimal | bytes
"""A bound in its stored form (:mod:`sidestep.synopsis.values.forms`)."""

PREFIX = 32
"""String and binary bounds are kept to this many bytes."""


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """The zone map of one column in one block. None is unknown (a count, a flag) or unbounded (an end).

    The bounds are outer: every value that is neither NULL nor NaN lies between them, but they need not occur. A float
    column without any number has ``lower=inf, upper=-inf``, which says that nothing lies between them.
    """

    lower: Stored | None = None
    upper: Stored | None = None
    nulls: int | None = None
    nan: bool | None = None


UNKNOWN = ColumnSummary()


def summarize(array: pa.Array | pa.ChunkedArray, type: DataType) -> ColumnSummary:
    """The zone map of a block's values, read as a column of Spark type ``type``.

    An Arrow type that Spark might turn into ``type`` by other than plain reading yields :data:`UNKNOWN`.

    >>> from sidestep.predicate.types import DOUBLE, STRING
    >>> summarize(pa.array([2.5, None, float("nan"), -1.0]), DOUBLE)
    ColumnSummary(lower=-1.0, upper=2.5, nulls=1, nan=True)
    >>> summarize(pa.array(["b" * 40, "a"]), STRING).upper == b"b" * 31 + b"c"
    True
    """
    array = _plain(array)
    if pa.types.is_null(array.type):
        if not type.ordered:
            return UNKNOWN
        return ColumnSummary(nulls=len(array), nan=False if type.kind in FLOATING else None)
    if type.kind in FLOATING:
        return _summarize_floats(array, type)
    convert = _conversion(array.type, type)
    if convert is None:
        return UNKNOWN
    if pa.types.is_temporal(array.type):
        array = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())
    try:
        ends = pc.min_max(array)
    except pa.ArrowNotImplementedError:
        return UNKNOWN
    if not ends["min"].is_valid:
        return ColumnSummary(nulls=array.null_count)
    lower, upper = convert(ends["min"]), convert(ends["max"])
    if lower is None or upper is None:
        # A value the type cannot hold: Spark wraps it, fails or reads NULL, so neither bound nor count is safe.
        return UNKNOWN
    if isinstance(lower, bytes) and isinstance(upper, bytes):
        return ColumnSummary(round_down(lower, PREFIX), round_up(upper, PREFIX), array.null_count)
    return ColumnSummary(lower, upper, array.null_count)


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The same values without dictionary or run-end encoding, strings as bytes (their order is the same)."""
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_decimal32(array.type) or pa.types.is_decimal64(array.type):
        return array.cast(pa.decimal128(array.type.precision, array.type.scale))
    if pa.types.is_string(array.type):
        return array.cast(pa.binary())
    if any(test(array.type) for test in (pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary_view)):
        return array.cast(pa.large_binary())
    return array


def _summarize_floats(array: pa.Array | pa.ChunkedArray, type: DataType) -> ColumnSummary:
    widths = (16, 32) if type.kind is Kind.FLOAT else (16, 32, 64)
    if not pa.types.is_floating(array.type) or array.type.bit_width not in widths:
        return UNKNOWN
    array = array.cast(pa.float64())
    is_nan = pc.is_nan(array)
    nan = bool(pc.any(is_nan).as_py())
    numbers = array.filter(pc.invert(is_nan)) if nan else array
    ends = pc.min_max(numbers)
    lower, upper = ends["min"].as_py(), ends["max"].as_py()
    if lower is None and nan:
        lower, upper = math.inf, -math.inf
    return ColumnSummary(lower, upper, array.null_count, nan)


_Conversion = Callable[[Any], Stored | None]
"""From a valid Arrow scalar to its stored form, or None if the type cannot hold it."""


def _conversion(arrow: pa.DataType, type: DataType) -> _Conversion | None:
    """How Spark's reader turns this Arrow type into ``type``; None where that is not known for certain."""
    kind, test = type.kind, pa.types
    if kind is Kind.BOOLEAN:
        return _integer(1, type) if test.is_boolean(arrow) else None
    if kind in INTEGRAL or kind in (Kind.YEAR_MONTH, Kind.DAY_TIME):
        # Spark writes intervals to Parquet as plain integers.
        if test.is_integer(arrow):
            return _integer(1, type)
        return _integer(_MICROS.get(arrow.unit), type) if kind is Kind.DAY_TIME and test.is_duration(arrow) else None
    if kind is Kind.DATE:
        return _integer(1, type) if test.is_date32(arrow) else None
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        return _integer(_MICROS.get(arrow.unit), type) if test.is_timestamp(arrow) else None
    if kind is Kind.TIME:
        return _integer(_NANOS[arrow.unit], type, time_step(type)) if test.is_time(arrow) else None
    if kind is Kind.DECIMAL:
        return _decimal(type) if test.is_decimal(arrow) or test.is_integer(arrow) else None
    if kind in (Kind.STRING, Kind.BINARY):
        bytewise = test.is_binary(arrow) or test.is_large_binary(arrow) or test.is_fixed_size_binary(arrow)
        return _bytes if bytewise else None
    return None


_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}  # not nanoseconds: they lose digits, and readers disagree on which
_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INTEGER: 32, Kind.DATE: 32, Kind.YEAR_MONTH: 32}


def _integer(factor: int | None, type: DataType, step: int = 1) -> _Conversion | None:
    if factor is None:
        return None
    limit = 2 ** (_BITS.get(type.kind, 64) - 1)

    def convert(scalar: Any) -> int | None:
        value = int(scalar.as_py()) * factor // step * step
        return value if -limit <= value < limit else None

    return convert


def _decimal(type: DataType) -> _Conversion:
    def convert(scalar: Any) -> int | Decimal | None:
        number, exact = unscaled(scalar.as_py(), type.scale)
        if not exact or abs(number) >= 10**type.precision:
            return None
        return number if type.precision <= 18 else Decimal(number).scaleb(-type.scale, Context(prec=38))

    return convert


def _bytes(scalar: Any) -> bytes:
    value: bytes = scalar.as_py()
    return value
