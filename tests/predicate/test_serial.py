"""The codec loses nothing."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.predicate import (
    BINARY,
    DOUBLE,
    FLOAT,
    STRING,
    Cast,
    Column,
    Comparison,
    DataType,
    In,
    Kind,
    Literal,
    Match,
    MatchKind,
    Op,
    Opaque,
    decimal_type,
    from_dict,
    parse_type,
    to_dict,
)
from sidestep.predicate.serial import type_from_json, type_to_json
from tests import strategies

OPAQUES = (
    Opaque("f(x)", (Column("x", DOUBLE),), "v1", True, "a function"),
    Opaque("rand() < 0.5", deterministic=False),
)


def round_trip(predicate):
    return from_dict(json.loads(json.dumps(to_dict(predicate), allow_nan=False)))


@strategies.tries(300)
@given(strategies.predicates(opaque=OPAQUES))
def test_what_is_written_is_read(predicate):
    assert round_trip(predicate) == predicate


MAP = DataType(Kind.OTHER, detail="map<string,int>")


@pytest.mark.parametrize(
    "literal",
    [
        Literal(math.nan, DOUBLE),
        Literal(-math.inf, FLOAT),
        Literal(-0.0, DOUBLE),
        Literal(0.1, FLOAT),
        Literal(Decimal("1.50"), decimal_type(38, 10)),
        Literal(Decimal("1E+3"), decimal_type(5, 0)),
        Literal(b"\x00\xff", BINARY),
        Literal("\0é\U0010ffff'", STRING),
        Literal(None, STRING),
        Literal("a", MAP),
        Literal(True, MAP),
        Literal(b"\1", MAP),
        Literal(math.nan, MAP),
        Literal(Decimal("1.0"), MAP),
    ],
    ids=repr,
)
def test_literals(literal):
    predicate = Comparison(Op.EQ, Column("x", literal.type), literal)
    assert round_trip(predicate) == predicate


def test_lists_of_one_type_are_written_compactly_and_of_several_in_full():
    column = Column("m", decimal_type(12, 2))
    same = In(column, (Literal(Decimal("1"), column.type), Literal(None, column.type)))
    mixed = In(column, (Literal(Decimal("1"), column.type), Literal(Decimal("2.5"), decimal_type(2, 1))))
    assert to_dict(same)["values"] == ["1", None]
    assert round_trip(same) == same
    assert round_trip(mixed) == mixed


def test_other_nodes():
    escaped = Match(MatchKind.LIKE, Column("s", STRING), "a#%", "#")
    assert round_trip(escaped) == escaped
    casted = Comparison(Op.LT, Cast(Column("f", FLOAT), DOUBLE), Literal(1.0, DOUBLE))
    assert round_trip(casted) == casted
    assert round_trip(OPAQUES[0]).reason == "a function"


@given(
    st.one_of(
        st.sampled_from(strategies.TYPES),
        st.builds(
            lambda d: DataType(Kind.OTHER, detail=d), st.sampled_from(["", "int", "array<int>", "String Collate X"])
        ),
    )
)
def test_types(type):
    assert type_from_json(json.loads(json.dumps(type_to_json(type)))) == type


def test_what_is_not_known_is_refused():
    with pytest.raises(ValueError, match="newer sidestep"):
        from_dict({"is": "xor", "children": []})


@pytest.mark.parametrize("name", ["interval day", "interval hour to minute", "interval year", "time(0)", "time(6)"])
def test_units_and_precision_survive(name):
    kind = parse_type(name)
    assert type_to_json(kind) == name
    assert type_from_json(name) == kind
    literal = Literal(0, kind)
    comparison = Comparison(Op.EQ, Column("x", kind), literal)
    assert from_dict(to_dict(comparison)) == comparison
