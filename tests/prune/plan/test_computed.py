"""Columns that are computed from others: no value is lost going forward or back, whatever overflows or rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sidestep.predicate import DataType, Interval, IntervalSet, Literal, Value
from sidestep.predicate.types import BYTE, DATE, DOUBLE, FLOAT, INTEGER, LONG, STRING, decimal_type, integer_range
from sidestep.prune.plan.computed import CastTo, Step, arithmetic_step, cast_step

OPS = ("+", "-", "from", "*", "/", "negate")
MONEY, FINE = decimal_type(7, 2), decimal_type(9, 4)
EXACT = Context(prec=90)
floats32 = st.floats(width=32) | st.integers(-9, 9).map(float)
VALUES: dict[DataType, st.SearchStrategy[Value]] = {
    BYTE: st.integers(-128, 127),
    INTEGER: st.integers(-9, 9) | st.integers(-(2**31), 2**31 - 1),
    LONG: st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1),
    DATE: st.integers(-9, 9) | st.integers(-(2**31), 2**31 - 1),
    DOUBLE: st.floats() | st.integers(-9, 9).map(float),
    FLOAT: floats32,
    MONEY: st.integers(-(10**7) + 1, 10**7 - 1).map(lambda n: Decimal(n).scaleb(-2)),
}
CONSTANTS: dict[DataType, tuple[DataType, ...]] = {DATE: (INTEGER,), MONEY: (MONEY, FINE, decimal_type(1, 0))}


def result_type(op: str, source: DataType, constant: DataType) -> DataType:
    """The type that Spark gives the result: for decimals one more digit, or all the digits of a product."""
    if source != MONEY or op == "negate":
        return source
    if op == "*":
        return decimal_type(source.precision + constant.precision + 1, source.scale + constant.scale)
    scale = max(source.scale, constant.scale)
    whole = max(source.precision - source.scale, constant.precision - constant.scale)
    return decimal_type(whole + scale + 1, scale)


def computed(op: str, x: Value, k: Value, type: DataType, ansi: bool) -> Value | None:
    """What Spark computes; None is NULL, or an error where it has the strict settings."""
    if type.kind in (DOUBLE.kind, FLOAT.kind):
        number = np.float64 if type == DOUBLE else np.float32
        with np.errstate(all="ignore"):
            a, b = number(x), number(k)
            found = {"+": a + b, "-": a - b, "from": b - a, "*": a * b, "/": a / b if b else a, "negate": -a}[op]
        return float(found)
    if isinstance(x, Decimal):
        assert isinstance(k, Decimal)
        exact = {
            "+": lambda: EXACT.add(x, k),
            "-": lambda: EXACT.subtract(x, k),
            "from": lambda: EXACT.subtract(k, x),
            "*": lambda: EXACT.multiply(x, k),
            "negate": lambda: x.copy_negate(),
        }[op]()
        return exact if abs(exact) < Decimal(10) ** (type.precision - type.scale) else None
    assert isinstance(x, int)
    assert isinstance(k, int)
    whole = {"+": x + k, "-": x - k, "from": k - x, "*": x * k, "negate": -x}[op]
    least, greatest = integer_range(type)
    if least <= whole <= greatest:
        return whole
    return None if ansi else (whole - least) % (greatest - least + 1) + least


def spans(values: Sequence[Value], type: DataType) -> IntervalSet:
    """Intervals that hold the values, one of them from the first to the second."""
    numbers = [value for value in values if value == value]
    found = [Interval(value, value) for value in numbers]
    if len(numbers) > 1:
        found.append(Interval(min(numbers[:2]), max(numbers[:2])))
    if len(numbers) < len(values):
        found.append(Interval(math.inf, None, low_closed=False))
    return IntervalSet(type, tuple(found))


def holds(ranges: IntervalSet, value: Value) -> bool:
    return ranges.contains(value)


CASES = [
    (op, source)
    for source in VALUES
    for op in OPS
    if (op != "/" or source in (DOUBLE, FLOAT)) and (source != DATE or op in "+-")
]


@pytest.mark.parametrize(("op", "source"), CASES, ids=str)
@settings(max_examples=50, deadline=None)
@given(data=st.data(), ansi=st.booleans())
def test_no_value_is_lost(op, source, data, ansi):
    of = data.draw(st.sampled_from(CONSTANTS.get(source, (source,))))
    constant = data.draw(VALUES[of] if of in VALUES else st.integers(-9, 9).map(lambda n: Decimal(n).scaleb(-of.scale)))
    type = result_type(op, source, of)
    step = arithmetic_step(op, source, Literal(constant, of), type)
    assume(step is not None)
    assert step is not None
    held = data.draw(st.lists(VALUES[source], min_size=1, max_size=4))
    images = [computed(op, value, constant, type, ansi) for value in held]
    forward = step.forward(spans(held, source))
    if forward is not None:
        assert all(image is not None and holds(forward, image) for image in images)
    wanted = [image for image in images[:2] if image is not None]
    back = step.back(spans(wanted, type))
    assert back is not None
    for value, image in zip(held, images, strict=True):
        # NULL goes with any set: a comparison may ask for it too.
        if image is None or any(image == one or (image != image and one != one) for one in wanted):
            assert holds(back, value)


@pytest.mark.parametrize(
    ("op", "source", "constant", "low", "high", "back"),
    [
        ("*", INTEGER, 2, 10, 15, [5, 6, 7]),
        ("*", INTEGER, -3, 10, 15, [-5, -4]),
        ("negate", INTEGER, 0, 10, 12, [-12, -11, -10]),
        ("from", INTEGER, 7, 1, 2, [5, 6]),
        ("*", INTEGER, 4, 1, 3, []),
        ("-", DATE, 30, 1, 2, [31, 32]),
    ],
)
def test_what_can_be_undone_is_undone_exactly(op, source, constant, low, high, back):
    step = arithmetic_step(op, source, Literal(constant, INTEGER), source)
    assert step is not None
    found = step.back(IntervalSet(source, (Interval(low, high),)))
    assert found is not None
    assert [n for n in range(-100, 100) if found.contains(n)] == back


def test_division_of_doubles_and_digits_of_decimals():
    quarter = arithmetic_step("/", DOUBLE, Literal(4.0, DOUBLE), DOUBLE)
    assert quarter is not None
    assert quarter.back(IntervalSet(DOUBLE, (Interval(1.0, 2.5),))) == IntervalSet(DOUBLE, (Interval(4.0, 10.0),))
    half = Literal(Decimal("0.5"), decimal_type(1, 1))
    more = arithmetic_step("+", MONEY, half, decimal_type(8, 2))
    assert more is not None
    found = more.forward(IntervalSet(MONEY, (Interval(Decimal("1.25"), Decimal("2.00")),)))
    assert found is not None
    assert found.intervals[0][:2] == (Decimal("1.75"), Decimal("2.50"))
    # One digit is rounded away: which values meet is Spark's business.
    assert arithmetic_step("*", MONEY, half, decimal_type(8, 2)) is None


@pytest.mark.parametrize(
    ("op", "source", "constant", "type"),
    [
        ("*", INTEGER, Literal(0, INTEGER), INTEGER),
        ("/", INTEGER, Literal(2, INTEGER), INTEGER),
        ("+", INTEGER, Literal(None, INTEGER), INTEGER),
        ("+", INTEGER, Literal(1, LONG), LONG),
        ("*", DATE, Literal(1, INTEGER), DATE),
        ("+", STRING, Literal("a", STRING), STRING),
        ("*", DOUBLE, Literal(math.inf, DOUBLE), DOUBLE),
        ("/", DOUBLE, Literal(0.0, DOUBLE), DOUBLE),
        ("+", DOUBLE, Literal(math.nan, DOUBLE), DOUBLE),
        ("/", MONEY, Literal(Decimal(2), decimal_type(1, 0)), decimal_type(13, 6)),
    ],
)
def test_what_is_not_understood_is_no_step(op, source, constant, type):
    assert arithmetic_step(op, source, constant, type) is None


def test_a_cast_that_changes_order_is_no_step():
    assert cast_step(LONG, INTEGER) is None
    assert cast_step(DOUBLE, LONG) is None
    assert isinstance(cast_step(INTEGER, LONG), CastTo)


def test_steps_go_back_in_turn():
    steps: list[Step] = [
        step
        for step in (
            arithmetic_step("+", INTEGER, Literal(1, INTEGER), INTEGER),
            cast_step(INTEGER, DOUBLE),
            arithmetic_step("/", DOUBLE, Literal(4.0, DOUBLE), DOUBLE),
        )
        if step is not None
    ]
    ranges: IntervalSet | None = IntervalSet.point(DOUBLE, 2.5)
    for step in reversed(steps):
        assert ranges is not None
        ranges = step.back(ranges)
    assert ranges is not None
    assert [n for n in range(-100, 100) if ranges.contains(n)] == [9]
