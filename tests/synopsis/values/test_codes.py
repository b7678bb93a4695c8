"""Codes keep the order of every type, and ranges of codes cover the values they were made of."""

from __future__ import annotations

import datetime
import itertools
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate import types as t
from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.types import DataType, Kind, Value, parse_type, sort_key
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges, joined, value_ranges
from sidestep.synopsis.values.codes import (
    GREATEST,
    Coding,
    byte_code,
    codes_of,
    float_codes,
    float_values,
    integer_codes,
    shared_prefix,
    wide_code,
)
from tests.synopsis.tables import NAMES, TYPES, arrow_array, pool
from tests.synopsis.test_exhaustive import sets_of

PREFIXES = [b"", b"a", b"prefix of more than thirty-two bytes", b"\xf4\x8f\xbf", b"x" * 31]


def codings(type: DataType) -> list[Coding]:
    return [Coding(type, prefix) for prefix in (PREFIXES if type.kind in (Kind.STRING, Kind.BINARY) else [b""])]


def code(value: Value, coding: Coding) -> int:
    found = codes_of(arrow_array([value], coding.type), coding)
    assert found is not None
    return int(found[0])


@pytest.mark.parametrize("name", NAMES)
def test_codes_keep_the_order(name: str):
    for coding in codings(TYPES[name]):
        values = sorted(pool(TYPES[name]), key=sort_key)
        codes = [code(value, coding) for value in values]
        assert codes == sorted(codes)
        for (a, x), (b, y) in itertools.combinations(zip(values, codes, strict=True), 2):
            assert sort_key(a) != sort_key(b) or x == y, "equal values have one code"


@pytest.mark.parametrize("name", NAMES)
def test_ranges_of_codes_cover_the_set_and_come_back_as_values(name: str):
    values = pool(TYPES[name])
    for coding in codings(TYPES[name]):
        codes = [code(value, coding) for value in values]
        for ranges in sets_of(TYPES[name]):
            found = code_ranges(ranges, coding)
            assert found is not None
            back = value_ranges(found, coding)
            for value, at in zip(values, codes, strict=True):
                inside = any(low <= at <= high for low, high in found)
                if ranges.is_full or ranges.contains(value):
                    assert inside, f"{value!r} is in {ranges}, but its code is not in the ranges"
                assert not inside or back.contains(value), f"{value!r} is lost on the way back from {found}"


@pytest.mark.parametrize("name", [n for n in NAMES if TYPES[n].kind not in (Kind.STRING, Kind.BINARY)])
def test_codes_of_numbers_are_exact(name: str):
    coding = Coding(TYPES[name])
    if TYPES[name].precision > 18:
        return
    for ranges in sets_of(TYPES[name]):
        found = code_ranges(ranges, coding)
        assert found is not None
        for value in pool(TYPES[name]):
            at = code(value, coding)
            assert any(low <= at <= high for low, high in found) == (ranges.is_full or ranges.contains(value))


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1))
def test_wide_decimals_keep_their_order_in_one_go_as_one_by_one(numbers: list[int]):
    type = t.decimal_type(38, 0)
    found = codes_of(pa.array([Decimal(n) for n in sorted(numbers)], pa.decimal128(38, 0)), Coding(type))
    assert found is not None
    assert found.tolist() == [wide_code(n) for n in sorted(numbers)]
    assert np.all(found[1:] >= found[:-1])
    back = value_ranges(CodeRanges(np.unique(found), np.unique(found)), Coding(type))
    assert all(back.contains(Decimal(n)) for n in numbers)


@given(st.lists(st.binary(max_size=12), min_size=1), st.binary(max_size=3))
def test_bytes_keep_their_order_whatever_the_prefix(values: list[bytes], prefix: bytes):
    found = codes_of(pa.array(sorted(values), pa.binary()), Coding(t.BINARY, prefix))
    assert found is not None
    assert found.tolist() == [byte_code(value, prefix) for value in sorted(values)]
    assert np.all(found[1:] >= found[:-1])


@given(st.lists(st.floats(), min_size=1))
def test_floats_keep_their_order_and_come_back(values: list[float]):
    codes = float_codes(np.array(values))
    assert [sort_key(v) for v in float_values(codes).tolist()] == [sort_key(v) for v in values]
    order = sorted(range(len(values)), key=lambda i: sort_key(values[i]))
    assert np.all(codes[order][1:] >= codes[order][:-1])


@given(st.text(max_size=12), st.text(max_size=12), st.sampled_from([b"", b"a"]))
def test_text_ranges_are_text_and_cover(low: str, high: str, prefix: bytes):
    coding = Coding(t.STRING, prefix)
    low, high = sorted((low, high))
    found = code_ranges(IntervalSet(t.STRING, (Interval(low, high),)), coding)
    assert found is not None
    back = value_ranges(found, coding)
    assert back.contains(low)
    assert back.contains(high)


@pytest.mark.parametrize(
    ("array", "type", "expected"),
    [
        (pa.array([datetime.date(1970, 1, 2)]), t.DATE, 1),
        (pa.array([5], pa.timestamp("s")), t.TIMESTAMP_NTZ, 5_000_000),
        (pa.array([5], pa.timestamp("ms", tz="UTC")), t.TIMESTAMP, 5_000),
        (pa.array([5], pa.time32("s")), t.TIME, 5_000_000_000),
        (pa.array([5], pa.duration("ms")), t.DAY_TIME, 5_000),
        (pa.array([5], pa.uint8()), t.SHORT, 5),
        (pa.array([5], pa.int64()), t.decimal_type(9, 2), 500),
        (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), t.decimal_type(9, 4), 15_000),
        (pa.array([5, 5]).dictionary_encode(), t.LONG, 5),
        (pa.chunked_array([pa.array([5]), pa.array([], pa.int64())]), t.LONG, 5),
    ],
)
def test_arrow_values_are_brought_to_their_stored_form(array, type: DataType, expected: int):
    found = codes_of(array, Coding(type))
    assert found is not None
    assert found[0] == integer_codes(np.array([expected]))[0]


@pytest.mark.parametrize(
    ("array", "type"),
    [
        (pa.array(["5"]), t.INTEGER),
        (pa.array([1.5]), t.FLOAT),
        (pa.array([2**40]), t.INTEGER),
        (pa.array([5], pa.timestamp("ns")), t.TIMESTAMP),
        (pa.array([Decimal("1.00"), Decimal("1.25"), Decimal("2.00")]), t.decimal_type(9, 1)),
    ],
)
def test_what_may_be_read_otherwise_is_unknown(array, type: DataType):
    assert codes_of(array, Coding(type)) is None


def test_columns_without_values_have_no_codes():
    assert codes_of(pa.nulls(3), Coding(t.LONG)).tolist() == []  # type: ignore[union-attr]
    assert codes_of(pa.array([None], pa.string()), Coding(t.STRING)).tolist() == []  # type: ignore[union-attr]
    assert codes_of(pa.array([], pa.decimal128(38, 2)), Coding(t.decimal_type(38, 2))).tolist() == []  # type: ignore[union-attr]


def test_a_long_common_beginning_is_one_point_unless_it_is_left_out():
    texts = pa.array(["x" * 100 + str(n) for n in range(5)])
    assert len(set(codes_of(texts, Coding(t.STRING)).tolist())) == 1  # type: ignore[union-attr]
    prefix = shared_prefix(texts)
    assert prefix == b"x" * 100
    assert len(set(codes_of(texts, Coding(t.STRING, prefix)).tolist())) == 5  # type: ignore[union-attr]
    assert shared_prefix(pa.array([None], pa.string())) == b""


def test_an_open_end_is_not_covered_where_the_code_tells_it():
    below = code_ranges(IntervalSet.at_most(t.STRING, "ac", closed=False), Coding(t.STRING))
    assert below is not None
    assert below.highs[0] == byte_code(b"ac") - 1
    # "a" and "a\0" share a code, so below the latter it must be covered.
    below = code_ranges(IntervalSet.at_most(t.STRING, "a\0", closed=False), Coding(t.STRING))
    assert below is not None
    assert below.highs[0] == byte_code(b"a")


def test_lengths_of_floats_are_numeric_and_finite():
    coding = Coding(t.DOUBLE)
    ends = float_codes(np.array([0.0, 1.0, 1e300, math.inf, math.nan]))
    lengths = coding.lengths(ends[:-1], ends[1:])
    assert lengths[0] == 0.25
    assert np.all(np.isfinite(lengths))
    assert np.isfinite(coding.lengths(np.array([0], dtype=np.uint64), np.array([GREATEST])))[0]


def test_types_without_order_have_no_codes():
    with pytest.raises(SidestepError, match="order of array<int> is unknown"):
        Coding(parse_type("array<int>"))
    with pytest.raises(SidestepError, match="prefix"):
        Coding(t.LONG, b"x")


def test_ranges_that_overlap_are_refused_and_joined():
    lows, highs = np.array([1, 3], dtype=np.uint64), np.array([3, 9], dtype=np.uint64)
    with pytest.raises(SidestepError, match="disjoint"):
        CodeRanges(lows, highs)
    assert list(joined(lows, highs)) == [(1, 9)]
