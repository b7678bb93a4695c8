"""The normal form holds exactly where the predicate is TRUE."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.predicate import (
    BYTE,
    DATE,
    DOUBLE,
    FALSE,
    FLOAT,
    INTEGER,
    LONG,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TRUE,
    And,
    Cast,
    Column,
    Comparison,
    DataType,
    Holds,
    In,
    IsNull,
    Kind,
    Not,
    Op,
    Opaque,
    Or,
    Predicate,
    Within,
    as_opaque,
    atoms,
    between,
    column,
    compare,
    conjunction,
    decimal_type,
    disjunction,
    is_like,
    is_not_null,
    is_null,
    literal,
    negation,
    normalize,
    one_of,
    sql,
)
from sidestep.predicate.oracle import evaluate, holds
from tests import strategies

X, Y = column("x", INTEGER), column("y", INTEGER)
D, S = column("d", DOUBLE), column("s", STRING)
M = column("m", decimal_type(12, 2))

NORMAL_FORMS = [
    (negation(compare(X, ">", 5)), "x <= 5"),
    (conjunction(compare(X, ">", 3), compare(X, "<", 9), negation(one_of(X, [5]))), "x = 4 OR x BETWEEN 6 AND 8"),
    (between(X, 3, 2), "FALSE"),
    (disjunction(compare(X, "<", 4), compare(X, ">=", 4)), "x IS NOT NULL"),
    (disjunction(is_null(X), is_not_null(X)), "TRUE"),
    (disjunction(is_null(X), compare(X, "<", 4), compare(X, ">", 2)), "TRUE"),
    (conjunction(is_null(X), compare(X, "<", 4)), "FALSE"),
    (conjunction(is_null(X), compare(X, "<", Y)), "FALSE"),
    (negation(one_of(X, [1, None])), "FALSE"),
    (one_of(X, [1, None, 1]), "x = 1"),
    (negation(compare(X, "<=>", 3)), "x <> 3 OR x IS NULL"),
    (compare(X, "=", None), "FALSE"),
    (compare(X, "<=>", None), "x IS NULL"),
    (negation(compare(X, "<=>", None)), "x IS NOT NULL"),
    (compare(D, ">", math.nan), "FALSE"),
    (compare(D, ">=", math.nan), "d = double('NaN')"),
    (compare(D, "<=", math.nan), "d IS NOT NULL"),
    (negation(compare(D, "<=", math.inf)), "d = double('NaN')"),
    (is_like(S, "ab%"), "s >= 'ab' AND s < 'ac'"),
    (is_like(S, "abc"), "s = 'abc'"),
    (is_like(S, "%"), "s IS NOT NULL"),
    (is_like(S, "%_"), "s > ''"),
    (negation(is_like(S, "%x")), "s NOT LIKE '%x'"),
    (is_like(S, "a%x"), "(s > 'a' AND s < 'b') AND s LIKE 'a%x'"),
    (compare(X, ">", Y), "y < x"),
    (negation(compare(Y, "=", X)), "x <> y"),
    (compare(X, "<=>", Y), "x IS NULL AND y IS NULL OR x = y"),
    (compare(X, "<=", X), "x IS NOT NULL"),
    (compare(X, "<", X), "FALSE"),
    (conjunction(is_not_null(X), is_not_null(Y), compare(X, "<", Y)), "x < y"),
    (compare(Cast(X, LONG), ">", 2**40), "FALSE"),
    (compare(Cast(X, DOUBLE), ">", 2.5), "x >= 3"),
    (compare(Cast(M, DOUBLE), ">=", 0.05), "m >= 0.05"),
    (compare(Cast(column("day", DATE), TIMESTAMP_NTZ), "<", 86_400_000_001), "day <= DATE '1970-01-02'"),
    (compare(Cast(X, LONG), "=", column("l", LONG)), "l = x"),
    (Comparison(Op.LT, literal(1, INTEGER), literal(2, INTEGER)), "TRUE"),
    (Not(NULL), "FALSE"),
    (Or((NULL, TRUE)), "TRUE"),
    (And((TRUE, FALSE)), "FALSE"),
]


@pytest.mark.parametrize(("predicate", "expected"), NORMAL_FORMS, ids=lambda p: p if isinstance(p, str) else sql(p))
def test_normal_form_reads(predicate, expected):
    assert sql(normalize(predicate)) == expected


def test_conjuncts_on_one_column_become_one_set_of_ranges():
    formula = normalize(conjunction(compare(X, ">=", 2), compare(X, "<=", 9), compare(X, "<>", 5)))
    assert isinstance(formula, Within)
    assert [(i.low, i.high) for i in formula.ranges.intervals] == [(2, 4), (6, 9)]


def test_a_cast_that_depends_on_the_time_zone_is_opaque_and_has_no_identity():
    day = Cast(column("day", DATE), TIMESTAMP)
    formula = normalize(compare(day, "<", 5))
    assert sql(formula) == "day IS NOT NULL AND (CAST(day AS timestamp) < TIMESTAMP '1970-01-01 00:00:00.000005Z')"
    assert not any(a.opaque.identified for a in atoms(formula) if isinstance(a, Holds))


def test_a_cast_that_may_overflow_is_opaque():
    assert "CAST" in sql(normalize(compare(Cast(X, decimal_type(5, 0)), "<", 5)))
    assert "CAST" in sql(normalize(compare(Cast(column("l", LONG), INTEGER), "<", 5)))


def test_a_long_compared_with_a_double_as_double_is_not_compared_as_numbers():
    # 2**53 + 1 equals 2.0**53 as doubles, and not as numbers.
    formula = normalize(compare(Cast(column("l", LONG), DOUBLE), "=", D))
    assert "CAST" in sql(formula)


def test_unordered_types_are_opaque_but_known_again():
    collated = Column("c", DataType(Kind.OTHER, detail="string collate UNICODE_CI"))
    formula = normalize(Comparison(Op.EQ, collated, literal("a", collated.type)))
    assert any(a.opaque.identified for a in atoms(formula) if isinstance(a, Holds))
    assert sql(normalize(Not(IsNull(collated)))) == "c IS NOT NULL"


def test_a_zero_in_a_float_list_is_decided_neither_way():
    listed = one_of(D, [0.0, 1.0])
    for predicate in (listed, negation(listed)):
        for zero in (0.0, -0.0):
            assert holds(normalize(predicate), {"d": zero})
            assert not holds(normalize(predicate), {"d": zero}, lambda opaque, row: None)
    assert not holds(normalize(negation(listed)), {"d": 1.0})
    assert not holds(normalize(listed), {"d": 2.0})


def test_what_is_not_deterministic_is_not_merged():
    coin = Opaque("rand() < 0.5", depends="", deterministic=False)
    assert len(list(atoms(normalize(And((coin, coin)))))) == 2
    known = Opaque("f(x)", (X,), depends="v1")
    assert normalize(And((known, known))) == normalize(known)


def test_thousands_of_nested_ors_are_opened_without_recursion():
    nested: Predicate = compare(X, "=", 0)
    for n in range(1, 5000):
        nested = Or((nested, compare(X, "=", 2 * n)))
    formula = normalize(nested)
    assert isinstance(formula, Within)
    assert len(formula.ranges.intervals) == 5000


OPAQUES = (
    Opaque("f(x)", (), depends="v1"),
    Opaque("g(x)", (), depends=None),
)


def resolver(*predicates: Predicate, opaque_values):
    """Opaque predicates that normalize made are evaluated as what they were made of."""
    made = {as_opaque(leaf).text: leaf for predicate in predicates for leaf in leaves(predicate)}

    def resolve(opaque: Opaque, row):
        return evaluate(made[opaque.text], row) if opaque.text in made else opaque_values[opaque.text]

    return resolve


def leaves(predicate: Predicate):
    match predicate:
        case And(children=children) | Or(children=children):
            for child in children:
                yield from leaves(child)
        case Not(child=child):
            yield from leaves(child)
        case Comparison() | In():
            yield predicate


@strategies.tries(500)
@given(st.data())
def test_holds_exactly_where_the_predicate_is_true(data):
    predicate = data.draw(strategies.predicates(opaque=OPAQUES))
    formula = normalize(predicate)
    for _ in range(3):
        row = data.draw(strategies.rows_around(predicate))
        values = {o.text: data.draw(st.sampled_from([True, False, None])) for o in OPAQUES}
        resolve = resolver(predicate, opaque_values=values)
        expected = evaluate(predicate, row, resolve) is True
        assert holds(formula, row, resolve) is expected
        assert holds(formula, row) or not expected, "unknown means keep"


FEW = tuple(
    Column(n, t)
    for n, t in (
        ("i", INTEGER),
        ("j", INTEGER),
        ("l", LONG),
        ("b", BYTE),
        ("f", FLOAT),
        ("d", DOUBLE),
        ("s", STRING),
        ("m", decimal_type(6, 2)),
    )
)


@strategies.tries(400)
@given(st.data())
def test_holds_exactly_on_few_columns(data):
    table = data.draw(st.lists(strategies.rows(FEW), min_size=1, max_size=3))
    predicate = data.draw(strategies.predicates_about(table, FEW))
    resolve = resolver(predicate, opaque_values={})
    for row in table:
        assert holds(normalize(predicate), row, resolve) is (evaluate(predicate, row, resolve) is True)


def test_decimals_beyond_the_context_keep_every_digit():
    wide = column("w", decimal_type(38, 0))
    big = Decimal(10**38 - 1)
    assert holds(normalize(compare(wide, "=", big)), {"w": big})
    assert not holds(normalize(compare(wide, "=", big)), {"w": Decimal(10**38 - 2)})
