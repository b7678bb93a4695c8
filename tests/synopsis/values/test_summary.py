"""Summaries of Arrow data: exact in the stored form, and unknown where a reader might differ."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.predicate import types as t
from sidestep.predicate.types import DataType
from sidestep.synopsis import ColumnSummary, stored_type, summarize
from sidestep.synopsis.values.forms import round_down, round_up
from sidestep.synopsis.values.summary import UNKNOWN


@pytest.mark.parametrize(
    ("array", "type", "lower", "upper"),
    [
        (pa.array([3, None, -1], pa.int8()), t.BYTE, -1, 3),
        (pa.array([3, 200], pa.uint8()), t.SHORT, 3, 200),
        (pa.array([2**32 - 1], pa.uint32()), t.LONG, 2**32 - 1, 2**32 - 1),
        (pa.array([True, None, False]), t.BOOLEAN, 0, 1),
        (pa.array([datetime.date(1970, 1, 3)]), t.DATE, 2, 2),
        (pa.array([-1, 5], pa.timestamp("s")), t.TIMESTAMP_NTZ, -1_000_000, 5_000_000),
        (pa.array([-1, 5], pa.timestamp("ms", tz="UTC")), t.TIMESTAMP, -1_000, 5_000),
        (pa.array([7], pa.timestamp("us", tz="Europe/Paris")), t.TIMESTAMP, 7, 7),
        (pa.array([7], pa.time64("us")), t.TIME, 7_000, 7_000),
        (pa.array([7], pa.time32("s")), t.TIME, 7_000_000_000, 7_000_000_000),
        (pa.array([10**9 - 1, 2 * 10**9 + 1], pa.time64("ns")), t.parse_type("time(0)"), 0, 2 * 10**9),
        (pa.array([7], pa.duration("ms")), t.DAY_TIME, 7_000, 7_000),
        (pa.array([7], pa.int64()), t.DAY_TIME, 7, 7),
        (pa.array([Decimal("1.5"), Decimal("-2.25")], pa.decimal128(9, 2)), t.decimal_type(9, 2), -225, 150),
        (pa.array([Decimal("1.5")], pa.decimal64(9, 2)), t.decimal_type(9, 2), 150, 150),
        (pa.array([Decimal("1.5")], pa.decimal128(9, 1)), t.decimal_type(12, 3), 1500, 1500),
        (pa.array([Decimal("1.5")], pa.decimal256(40, 2)), t.decimal_type(38, 2), Decimal("1.50"), Decimal("1.50")),
        (pa.array([2**63], pa.uint64()), t.decimal_type(20, 0), Decimal(2**63), Decimal(2**63)),
        (pa.array(["b", "a"], pa.large_string()), t.STRING, b"a", b"b"),
        (pa.array(["b", "a"], pa.string_view()), t.STRING, b"a", b"b"),
        (pa.array([b"\xff", b"a"]), t.BINARY, b"a", b"\xff"),
        (pa.array([b"ab", b"cd"], pa.binary(2)), t.BINARY, b"ab", b"cd"),
        (pa.array(["b", None, "a"]).dictionary_encode(), t.STRING, b"a", b"b"),
        (pa.chunked_array([["b"], ["a", None]]), t.STRING, b"a", b"b"),
        (pa.chunked_array([], pa.int32()), t.INTEGER, None, None),
    ],
    ids=str,
)
def test_bounds_are_in_the_stored_form(array, type: DataType, lower, upper):
    summary = summarize(array, type)
    assert summary == ColumnSummary(lower, upper, array.null_count)
    pa.array([summary.lower, summary.upper], stored_type(type))


@pytest.mark.parametrize(
    ("array", "type"),
    [
        (pa.array([[1], None]), DataType(t.Kind.OTHER, detail="array<int>")),
        (pa.array(["a"]), DataType(t.Kind.OTHER, detail="string collate UNICODE_CI")),
        (pa.array([1]), t.STRING),
        (pa.array(["1"]), t.INTEGER),
        (pa.array([1], pa.timestamp("ns")), t.TIMESTAMP),
        (pa.array([1.5]), t.FLOAT),
        (pa.array([1]), t.DOUBLE),
        (pa.array([2**63], pa.uint64()), t.LONG),
        (pa.array([0, 2**40]), t.INTEGER),
        (pa.array([Decimal("1.255")]), t.decimal_type(9, 2)),
        (pa.array([Decimal("12345.00")]), t.decimal_type(4, 2)),
    ],
    ids=str,
)
def test_what_a_reader_might_read_otherwise_is_unknown(array, type: DataType):
    assert summarize(array, type) == UNKNOWN


def test_nan_is_left_out_of_the_bounds_and_infinities_are_not():
    nan, inf = math.nan, math.inf
    assert summarize(pa.array([nan, 1.0, None]), t.DOUBLE) == ColumnSummary(1.0, 1.0, 1, True)
    assert summarize(pa.array([-inf, 1.0]), t.DOUBLE) == ColumnSummary(-inf, 1.0, 0, False)
    assert summarize(pa.array([nan, None]), t.DOUBLE) == ColumnSummary(inf, -inf, 1, True)
    assert summarize(pa.array([None], pa.float32()), t.FLOAT) == ColumnSummary(None, None, 1, False)
    assert summarize(pa.array([0.1], pa.float32()), t.FLOAT).lower == t.float32(0.1)
    assert summarize(pa.nulls(3), t.DOUBLE) == ColumnSummary(None, None, 3, False)


def test_invalid_utf8_is_summarized_as_the_bytes_it_is():
    array = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    assert summarize(array, t.STRING) == ColumnSummary(b"\xff\xfe", b"\xff\xfe", 0)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=8), st.integers(0, 6))
def test_rounding_bounds_the_value(value: bytes, width: int):
    low, high = round_down(value, width), round_up(value, width)
    assert low <= value
    assert len(low) <= width
    assert high is None or (high >= value and len(high) <= width)
    if len(value) <= width:
        assert low == high == value


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=6))
def test_string_bounds_enclose_every_string(values: list[str | None]):
    summary = summarize(pa.array(values, pa.string()), t.STRING)
    assert summary.nulls == values.count(None)
    for value in values:
        if value is not None:
            assert isinstance(summary.lower, bytes)
            assert summary.lower <= value.encode()
            assert summary.upper is None or (isinstance(summary.upper, bytes) and value.encode() <= summary.upper)
