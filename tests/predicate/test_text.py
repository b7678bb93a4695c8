"""Text for people."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest
from hypothesis import given

from sidestep.predicate import (
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    YEAR_MONTH,
    Cast,
    Match,
    MatchKind,
    Not,
    Opaque,
    between,
    column,
    compare,
    conjunction,
    decimal_type,
    disjunction,
    is_like,
    is_null,
    literal,
    negation,
    normalize,
    one_of,
    parse_type,
    sql,
)
from sidestep.predicate.text import literal_text, name_text
from tests import strategies

X, S = column("x", INTEGER), column("s", STRING)

LITERALS = [
    (literal(datetime.date(1994, 1, 1), DATE), "DATE '1994-01-01'"),
    (literal(datetime.datetime(1994, 1, 1, 12, 30), TIMESTAMP), "TIMESTAMP '1994-01-01 12:30:00Z'"),
    (literal(datetime.datetime(1994, 1, 1), TIMESTAMP_NTZ), "TIMESTAMP_NTZ '1994-01-01 00:00:00'"),
    (literal(10**9, DATE), "DATE_FROM_UNIX_DATE(1000000000)"),
    (literal(2**62, TIMESTAMP), f"TIMESTAMP_MICROS({2**62})"),
    (literal(datetime.time(1, 2, 3, 500000), TIME), "TIME '01:02:03.5'"),
    (literal(-14, YEAR_MONTH), "INTERVAL '-1-2' YEAR TO MONTH"),
    (literal(datetime.timedelta(days=1, hours=2), DAY_TIME), "INTERVAL '1 02:00:00' DAY TO SECOND"),
    (literal(3 * 86_400_000_000, parse_type("interval day")), "INTERVAL '3' DAY"),
    (literal(-90_061_500_000, parse_type("interval day to second")), "INTERVAL '-1 01:01:01.5' DAY TO SECOND"),
    (literal(-90_060_000_000, parse_type("interval hour to minute")), "INTERVAL '-25:01' HOUR TO MINUTE"),
    (literal(65_000_000, parse_type("interval minute to second")), "INTERVAL '1:05' MINUTE TO SECOND"),
    (literal(65_000_001, parse_type("interval second")), "INTERVAL '65.000001' SECOND"),
    (literal(1, parse_type("interval day")), "INTERVAL '0 00:00:00.000001' DAY TO SECOND"),
    (literal(24, parse_type("interval year")), "INTERVAL '2' YEAR"),
    (literal(0, parse_type("time(0)")), "CAST(TIME '00:00:00' AS TIME(0))"),
    (literal("it's \\", STRING), "'it\\'s \\\\'"),
    (literal(b"\x01\xff", BINARY), "X'01FF'"),
    (literal(True, BOOLEAN), "TRUE"),
    (literal(0.1, FLOAT), "0.1"),
    (literal(math.nan, DOUBLE), "double('NaN')"),
    (literal(Decimal("1E+3"), decimal_type(5, 0)), "1000"),
    (literal(None, INTEGER), "NULL"),
]


@pytest.mark.parametrize(("constant", "expected"), LITERALS, ids=lambda v: v if isinstance(v, str) else "")
def test_literals(constant, expected):
    assert literal_text(constant.value, constant.type) == expected


PREDICATES = [
    (conjunction(compare(X, ">", 1), disjunction(compare(X, "<", 9), is_null(X))), "x > 1 AND (x < 9 OR x IS NULL)"),
    (Not(conjunction(compare(X, ">", 1), is_null(S))), "NOT (x > 1 AND s IS NULL)"),
    (conjunction(), "TRUE"),
    (is_like(S, "a#%", "#"), "s LIKE 'a#%' ESCAPE '#'"),
    (Match(MatchKind.PREFIX, S, "a%"), "startswith(s, 'a%')"),
    (compare(Cast(X, DOUBLE), "<", 0.5), "CAST(x AS double) < 0.5"),
    (one_of(X, range(1000)), "x IN (0, 1, 2, 3, 4, 5, … 994 more)"),
    (conjunction(Opaque("a OR b"), is_null(X)), "(a OR b) AND x IS NULL"),
    (negation(Opaque("f(x)")), "NOT f(x)"),
]


@pytest.mark.parametrize(("predicate", "expected"), PREDICATES, ids=lambda v: v if isinstance(v, str) else "")
def test_predicates(predicate, expected):
    assert sql(predicate) == expected


def test_formulas():
    assert sql(normalize(between(X, 3, 5))) == "x BETWEEN 3 AND 5"
    assert sql(normalize(negation(one_of(X, [3, 7])))) == "x NOT IN (3, 7)"
    assert sql(normalize(one_of(X, range(0, 200, 2)))) == "x IN (0, 2, 4, 6, 8, 10, … 94 more)"
    assert sql(normalize(negation(is_like(S, "%\\%_")))) == "s NOT LIKE '%\\%_'"
    assert sql(normalize(negation(Opaque("a OR b")))) == "NOT (a OR b)"
    assert name_text("a b`c") == "`a b``c`"


@given(strategies.predicates())
def test_everything_has_a_text(predicate):
    assert sql(predicate)
    assert sql(normalize(predicate))
