"""Invalid trees cannot be made, and the error says what to do."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from sidestep.predicate import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIME,
    TRUE,
    And,
    Cast,
    Column,
    Comparison,
    DataType,
    In,
    IsNull,
    Kind,
    Literal,
    Match,
    MatchKind,
    Not,
    Op,
    Opaque,
    Or,
    columns_of,
    conjuncts,
    decimal_type,
    parse_type,
)

X, S = Column("x", INTEGER), Column("s", STRING)
COLLATED = Column("c", DataType(Kind.OTHER, detail="string collate UNICODE_CI"))

INVALID = [
    (lambda: Column("", INTEGER), "needs a name"),
    (lambda: Literal(1.0, INTEGER), "held as a Python int"),
    (lambda: Literal(True, INTEGER), "held as a Python int"),
    (lambda: Literal(1, DOUBLE), "held as a Python float"),
    (lambda: Literal(Decimal("NaN"), decimal_type(3, 1)), "finite"),
    (lambda: Comparison(Op.EQ, X, Literal(1, LONG)), "Cannot compare int with bigint"),
    (lambda: In(X, ()), "at least one value"),
    (
        lambda: In(X, [Literal(1, INTEGER)]),  # type: ignore[arg-type]
        "tuple",
    ),
    (lambda: In(X, (Literal(1, LONG),)), "cast the column"),
    (lambda: Match(MatchKind.LIKE, X, "a"), "plain strings only"),
    (lambda: Match(MatchKind.LIKE, COLLATED, "a"), "make it an Opaque"),
    (lambda: Match(MatchKind.LIKE, S, "a", ""), "one character"),
    (
        lambda: And([TRUE]),  # type: ignore[arg-type]
        "tuple of predicates",
    ),
    (lambda: Or((X,)), "takes booleans"),
    (
        lambda: Not("x"),  # type: ignore[arg-type]
        "takes predicates",
    ),
]


@pytest.mark.parametrize(("make", "message"), INVALID, ids=[message for _, message in INVALID])
def test_invalid(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_literals_are_equal_by_what_they_are():
    assert Literal(math.nan, DOUBLE) == Literal(math.nan, DOUBLE)
    assert Literal(0.0, DOUBLE) != Literal(-0.0, DOUBLE)
    assert Literal(1, INTEGER) != Literal(1, LONG)
    assert Literal(0.1, FLOAT).value != 0.1
    assert len({Literal(1, INTEGER), Literal(True, BOOLEAN), Literal(1.0, DOUBLE)}) == 3


def test_decimals_of_two_scales_compare():
    Comparison(Op.EQ, Column("m", decimal_type(12, 2)), Literal(Decimal("1.5"), decimal_type(2, 1)))


def test_columns_and_conjuncts():
    opaque = Opaque("f(s)", (S,))
    compared = Comparison(Op.LT, Cast(X, LONG), Column("l", LONG))
    predicate = And((And((Not(IsNull(X)), compared)), Or((opaque, Match(MatchKind.PREFIX, S, "a")))))
    assert set(columns_of(predicate)) == {X, S, Column("l", LONG)}
    assert list(conjuncts(predicate))[:2] == [Not(IsNull(X)), compared]
    assert opaque == Opaque("f(s)", (S,), reason="anything")


def test_types_by_name():
    assert parse_type("interval day to second") == DataType(Kind.DAY_TIME)
    assert parse_type("varchar(10)") == STRING
    assert not parse_type("array<int>").ordered


UNITS = ["year", "month", "year to month", "day", "day to hour", "day to second", "hour", "minute to second", "second"]


def test_intervals_of_other_units_are_other_types():
    types = [parse_type(f"interval {units}") for units in UNITS]
    assert len(set(types)) == len(UNITS)
    assert all(type.ordered for type in types)
    assert [str(type) for type in types] == [f"interval {units}" for units in UNITS]
    assert not parse_type("interval second to day").ordered


def test_times_of_other_precision_are_other_types():
    assert parse_type("time") == parse_type("time(6)") == TIME != parse_type("time(0)")
    assert str(parse_type("time(3)")) == "time(3)"
