"""Ranges carry_ranges from one column to another that it is compared with never lose a value that has a partner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.predicate import Cast, Column, Comparison, DataType, Op, Operand
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    Value,
    decimal_type,
    float32,
)
from sidestep.prune.dips.carry import Comparand, carries, carry_ranges, compact
from sidestep.prune.plan.computed import Linear, Step
from sidestep.synopsis.values.code_ranges import CodeRanges, intersect, joined
from sidestep.synopsis.values.codes import Codes, Coding, byte_code, codes_of, float_codes, integer_codes, wide_code

MONEY, CENTS, WIDE, HUGE = decimal_type(9, 2), decimal_type(12, 4), decimal_type(25, 2), decimal_type(38, 4)
small = st.integers(-4, 4)
whole = small.map(Decimal)
longs = st.integers(-(2**63), 2**63 - 1) | small | st.integers(2**53 - 3, 2**53 + 3)
floats = st.floats(width=32) | small.map(float)
doubles = st.floats() | floats | longs.map(float)
VALUES: dict[DataType, st.SearchStrategy[Value]] = {
    SHORT: small,
    INTEGER: small | st.integers(-(2**31), 2**31 - 1),
    LONG: longs,
    FLOAT: floats.map(float32),
    DOUBLE: doubles,
    MONEY: whole | st.decimals(-4, 4, places=2),
    CENTS: whole | st.decimals(-4, 4, places=4),
    WIDE: whole | st.decimals(-4, 4, places=2) | st.integers(-(10**22), 10**22).map(Decimal),
    HUGE: whole | st.decimals(-4, 4, places=4) | st.integers(-(10**30), 10**30).map(Decimal),
    STRING: st.text("ab\x00\u00e9", max_size=12) | st.text("ab", max_size=3).map("https://".__add__),
    BINARY: st.binary(max_size=10),
    DATE: small,
    TIMESTAMP_NTZ: small.map(lambda days: days * 86_400_000_000) | longs,
}
PAIRS = [
    (INTEGER, INTEGER, INTEGER),
    (SHORT, LONG, LONG),
    (INTEGER, LONG, LONG),
    (INTEGER, DOUBLE, DOUBLE),
    (LONG, DOUBLE, DOUBLE),
    (LONG, LONG, FLOAT),
    (FLOAT, DOUBLE, DOUBLE),
    (INTEGER, MONEY, WIDE),
    (LONG, HUGE, HUGE),
    (MONEY, CENTS, CENTS),
    (MONEY, WIDE, WIDE),
    (WIDE, HUGE, HUGE),
    (MONEY, DOUBLE, DOUBLE),
    (STRING, STRING, STRING),
    (BINARY, BINARY, BINARY),
    (DATE, TIMESTAMP_NTZ, TIMESTAMP_NTZ),
    (DATE, DATE, DATE),
]


def code(value: Value, coding: Coding) -> Codes:
    """The code of one value, by the rules of the module of codes."""
    kind = coding.type
    if isinstance(value, float):
        return float_codes(np.array([value]))
    if isinstance(value, Decimal):
        number = int(value.scaleb(kind.scale))
        found = integer_codes(np.array([number])) if kind.precision <= 18 else np.array([wide_code(number)], np.uint64)
        return found
    if isinstance(value, str | bytes):
        raw = value.encode() if isinstance(value, str) else value
        return np.array([byte_code(raw, coding.prefix)], np.uint64)
    return integer_codes(np.array([value]))


def around(values: Sequence[Value], coding: Coding) -> CodeRanges:
    """Some ranges that hold the codes of values, one of them from the first to the second."""
    codes = np.concatenate([code(value, coding) for value in values])
    lows, highs = codes.copy(), codes.copy()
    if len(codes) > 1:
        lows[0], highs[0] = codes[:2].min(), codes[:2].max()
    return joined(lows, highs)


def operand(column: Column, type: DataType) -> Operand:
    return column if column.type == type else Cast(column, type)


@pytest.mark.parametrize(("a", "b", "as_type"), [*PAIRS, *((b, a, t) for a, b, t in PAIRS if a != b)], ids=str)
@settings(max_examples=60)
@given(data=st.data())
def test_a_value_with_a_partner_in_the_ranges_is_in_what_is_carried(a, b, as_type, data):
    prefixes = [b"", b"https://", b"a"] if a == STRING else [b""]
    first, second = Coding(a, data.draw(st.sampled_from(prefixes))), Coding(b, data.draw(st.sampled_from(prefixes)))
    left, right = Column("l", a), Column("r", b)
    op = data.draw(st.sampled_from([Op.EQ, Op.EQ, Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE]))
    origin, target = Comparand(left, as_type), Comparand(right, as_type)
    held = data.draw(st.lists(VALUES[a], min_size=1, max_size=4))
    partner = data.draw(
        VALUES[b] | st.sampled_from([v for v in held if a == b] or [None]).filter(lambda v: v is not None)
    )
    assert carries(origin, op, target)
    found = carry_ranges(around(held, first), first, origin, op, target, second)
    comparison = Comparison(op, operand(left, as_type), operand(right, as_type))
    if found is not None and any(evaluate(comparison, {"l": value, "r": partner}) for value in held):
        assert len(intersect(found, around([partner], second)))


@given(st.lists(VALUES[MONEY], min_size=1, max_size=4), VALUES[HUGE])
def test_decimals_of_two_scales_are_compared_as_they_are(held, partner):
    origin, target = Comparand(Column("l", MONEY), MONEY), Comparand(Column("r", HUGE), HUGE)
    found = carry_ranges(around(held, Coding(MONEY)), Coding(MONEY), origin, Op.EQ, target, Coding(HUGE))
    assert found is not None
    assert not carries(origin, Op.LE, target)
    if partner in held:
        assert len(intersect(found, around([partner], Coding(HUGE))))


@pytest.mark.parametrize(
    ("a", "b", "as_type"),
    [(STRING, INTEGER, INTEGER), (LONG, INTEGER, INTEGER), (DATE, TIMESTAMP, TIMESTAMP), (DOUBLE, LONG, LONG)],
)
def test_a_cast_that_may_change_order_or_meaning_carries_nothing(a, b, as_type):
    assert not carries(Comparand(Column("l", a), as_type), Op.EQ, Comparand(Column("r", b), as_type))
    assert not carries(Comparand(Column("r", b), as_type), Op.EQ, Comparand(Column("l", a), as_type))


def test_nan_finds_nan_and_zero_finds_minus_zero():
    coding = Coding(DOUBLE)
    side = Comparand(Column("x", DOUBLE), DOUBLE)
    held = codes_of(pa.array([math.nan, -0.0]), coding)
    assert held is not None
    ranges = joined(held, held)
    found = carry_ranges(ranges, coding, side, Op.EQ, side, coding)
    assert found is not None
    for value in (math.nan, 0.0, -0.0):
        assert len(intersect(found, around([value], coding)))
    assert not len(intersect(found, around([1.0], coding)))
    assert not len(intersect(found, around([math.inf], coding)))


ranges_of_codes = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6)), max_size=8).map(
    lambda pairs: joined(
        np.array([low for low, _ in pairs], np.uint64), np.array([low + more for low, more in pairs], np.uint64)
    )
)


def members(ranges: CodeRanges) -> set[int]:
    return {code for low, high in ranges for code in range(low, high + 1)}


@given(ranges_of_codes, ranges_of_codes)
def test_common_values_are_those_in_both(a, b):
    assert members(intersect(a, b)) == members(a) & members(b)


@given(ranges_of_codes, st.integers(1, 6))
def test_compacting_keeps_all_values_and_closes_the_narrowest_gaps(ranges, most):
    found = compact(Coding(INTEGER), ranges, most)
    assert members(ranges) <= members(found)
    assert len(found) <= most
    gaps = sorted(low - high - 1 for (_, high), (low, _) in zip(list(ranges), list(ranges)[1:], strict=False))
    closed = gaps[: max(0, len([gap for gap in gaps if gap]) + gaps.count(0) - (most - 1))]
    assert len(members(found)) == len(members(ranges)) + sum(closed)


def plus(add: int, type: DataType = INTEGER) -> tuple[Step, ...]:
    return (Linear(type, type, 1, add, f"{{}} + {add}"),)


@given(st.lists(VALUES[INTEGER], min_size=1, max_size=4), VALUES[INTEGER], *[st.integers(-5, 5) | VALUES[INTEGER]] * 2)
def test_sums_with_a_constant_are_undone_even_if_they_wrap_around(held, partner, add, other):
    def wrapped(number: int) -> int:
        return (number + 2**31) % 2**32 - 2**31

    assert isinstance(add, int)
    assert isinstance(other, int)
    coding = Coding(INTEGER)
    origin = Comparand(Column("l", INTEGER), INTEGER, plus(add))
    target = Comparand(Column("r", INTEGER), INTEGER, plus(other))
    found = carry_ranges(around(held, coding), coding, origin, Op.EQ, target, coding)
    partners = [wrapped(wrapped(value + add) - other) for value in held] + [partner]
    for one in partners:
        if found is not None and any(wrapped(value + add) == wrapped(one + other) for value in held):
            assert len(intersect(found, around([one], coding)))


def test_a_constant_moves_the_ranges():
    coding = Coding(INTEGER)
    week = Comparand(Column("l", INTEGER), INTEGER)
    later = Comparand(Column("r", INTEGER), INTEGER, plus(-53))
    found = carry_ranges(around([100, 110], coding), coding, week, Op.EQ, later, coding)
    assert found is not None
    least = -(2**31) + 2**63
    # What would wrap around is kept, whatever it may be.
    assert list(found) == [(0, least + 52), (153 + 2**63, 163 + 2**63)]
    found = carry_ranges(around([100, 110], coding), coding, week, Op.GE, later, coding)
    assert found is not None
    assert list(found) == [(0, 163 + 2**63)]
