"""Canonical forms and factoring keep what a filter says, and make alike what is alike."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.predicate import (
    DATE,
    DOUBLE,
    FALSE,
    INTEGER,
    STRING,
    TRUE,
    And,
    Cast,
    Comparison,
    Literal,
    Not,
    Op,
    Opaque,
    Or,
    between,
    column,
    compare,
    conjunction,
    disjunction,
    is_not_null,
    is_null,
    one_of,
    sql,
)
from sidestep.predicate.oracle import evaluate
from sidestep.workload.canonical import canonical, key
from sidestep.workload.factor import factor
from tests import strategies
from tests.work import counted_work
from tests.workload.queries import TPCH, tpch_filter

A, B, C = (column(name, INTEGER) for name in "abc")
NAME, DAY = column("name", STRING), column("day", DATE)
RANDOM = Opaque("rand() < 0.5", deterministic=False)


def shown(*predicates):
    return {sql(predicate) for predicate in factor(predicates).predicates}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (one_of(A, [3, 1, 2, 3]), "a IN (1, 2, 3)"),
        (one_of(A, [7, 7]), "a = 7"),
        (one_of(A, [Literal(None, INTEGER), 7, 8]), "a IN (7, 8)"),
        (Not(one_of(A, [Literal(None, INTEGER), 7])), "FALSE"),
        (Comparison(Op.LT, Literal(5, INTEGER), A), "a > 5"),
        (compare(B, ">", A), "a < b"),
        (compare(B, "=", A), "a = b"),
        (Not(compare(A, "<", 5)), "a >= 5"),
        (Not(compare(A, "<", B)), "b <= a"),
        (disjunction(compare(A, "=", 2), compare(A, "=", 1)), "a IN (1, 2)"),
        (disjunction(compare(B, "=", 2), compare(A, "=", 1)), "a = 1 OR b = 2"),
        (Not(disjunction(compare(A, "=", 1), is_null(B))), "NOT a = 1 AND NOT b IS NULL"),
        (conjunction(compare(A, ">", 1), TRUE, compare(A, ">", 1)), "a > 1"),
        (conjunction(compare(A, ">", 1), FALSE), "FALSE"),
        (compare(A, "<=>", 4), "a = 4"),
        (compare(A, "=", Literal(None, INTEGER)), "FALSE"),
    ],
)
def test_one_spelling(written, expected):
    assert sql(canonical(written)) == expected


def test_what_is_random_is_not_merged():
    assert canonical(And((RANDOM, RANDOM))) == And((RANDOM, RANDOM))


@given(st.data())
def test_canonical_means_the_same_and_is_stable(data):
    rows = data.draw(st.lists(strategies.rows(), min_size=1, max_size=4))
    predicate = data.draw(strategies.predicates_about(rows, strategies.COLUMNS))
    spelled = canonical(predicate)
    assert canonical(spelled) == spelled
    for row in rows:
        assert (evaluate(spelled, row) is True) == (evaluate(predicate, row) is True)


@given(st.data())
def test_order_makes_no_difference(data):
    parts = data.draw(st.lists(strategies.predicates(), min_size=1, max_size=4))
    shuffled = data.draw(st.permutations(parts))
    assert canonical(And(tuple(parts))) == canonical(And(tuple(shuffled)))
    assert canonical(Or(tuple(parts))) == canonical(Or(tuple(shuffled)))
    assert factor(parts) == factor(shuffled)


@given(st.data())
def test_factoring_keeps_the_rows_and_is_stable(data):
    rows = data.draw(st.lists(strategies.rows(), min_size=1, max_size=4))
    predicates = data.draw(st.lists(strategies.predicates_about(rows, strategies.COLUMNS), max_size=3))
    factored = factor(predicates)
    for row in rows:
        keeps = all(evaluate(predicate, row) is True for predicate in predicates)
        assert keeps == all(evaluate(part, row) is True for part in factored.predicates)
        assert not (keeps and factored.empty)
    if not factored.empty:
        assert factor(factored.predicates) == factored


def test_nested_ands_are_opened_and_columns_stay_apart():
    nested = conjunction(compare(A, ">", 1), conjunction(compare(A, "<", 9), compare(B, "=", 2)))
    assert shown(nested) == {"a > 1", "a < 9", "b = 2"}


def test_what_all_branches_share_becomes_a_conjunct():
    either = disjunction(
        conjunction(compare(A, "=", 1), compare(B, "=", 2), compare(NAME, "=", "x")),
        conjunction(compare(NAME, "=", "x"), compare(C, "=", 5)),
    )
    assert shown(either) == {"name = 'x'", "a = 1 AND b = 2 OR c = 5"}


def test_a_branch_that_is_only_what_is_shared_takes_the_rest_away():
    assert shown(disjunction(conjunction(compare(A, "=", 1), compare(B, "=", 2)), compare(A, "=", 1))) == {"a = 1"}


def test_columns_that_every_branch_restricts_become_conjuncts():
    either = disjunction(
        conjunction(compare(A, "=", 1), between(B, 1, 5)), conjunction(compare(A, "=", 2), between(B, 4, 9))
    )
    found = shown(either)
    assert {"a IN (1, 2)", "b >= 1", "b <= 9"} < found
    assert len(found) == 4


def test_branches_that_the_rest_rules_out_go():
    either = disjunction(compare(A, "=", 2), compare(B, ">", 0))
    assert shown(compare(A, "=", 1), either) == {"a = 1", "b > 0"}
    assert factor([compare(A, "=", 1), compare(B, "<", 0), either]).empty


def test_branches_within_branches():
    inner = disjunction(
        conjunction(compare(C, "=", 1), compare(A, "<", 5)), conjunction(compare(C, "=", 1), compare(B, "<", 5))
    )
    outer = disjunction(conjunction(compare(C, "=", 1), compare(NAME, "=", "x")), inner)
    assert "c = 1" in shown(outer)


def test_q19_gives_its_fixed_parts():
    found = shown(*tpch_filter(19, random.Random(3)))
    containers = next(text for text in found if text.startswith("p_container IN"))
    assert "6 more" in containers
    assert {
        "l_shipinstruct = 'DELIVER IN PERSON'",
        "l_shipmode IN ('AIR', 'AIR REG')",
        "p_size >= 1",
        "p_size <= 15",
    } < found
    assert any(text.startswith("p_brand IN") for text in found)
    assert {text.split()[1] for text in found if text.startswith("l_quantity")} == {">=", "<="}


def test_contradictions_are_noticed():
    assert factor([compare(A, ">", 5), compare(A, "<", 3)]).empty
    assert factor([compare(A, "<", B), compare(B, "<", A)]).empty
    assert factor([FALSE]).empty
    assert factor([disjunction(FALSE, conjunction(compare(A, "=", 1), compare(A, "=", 2)))]).empty
    assert not factor([compare(A, ">", 3), compare(A, "<", 5)]).empty


def test_is_not_null_goes_where_it_is_implied():
    assert shown(is_not_null(A), compare(A, ">", 1), is_not_null(B)) == {"a > 1", "NOT b IS NULL"}
    assert shown(is_not_null(A), compare(A, "<", B), is_not_null(B)) == {"a < b"}
    assert shown(is_not_null(A), is_not_null(Cast(A, DOUBLE))) in ({"NOT a IS NULL"}, {"NOT CAST(a AS double) IS NULL"})


def test_what_always_holds_goes():
    assert factor([TRUE, disjunction(is_null(A), is_not_null(A))]).predicates == frozenset()
    assert factor([]).predicates == frozenset()


def test_reasons_are_no_part_of_a_predicate():
    one, two = (Opaque("f(a)", (A,), "v1", reason=reason) for reason in ("first", "second"))
    assert key(canonical(one)) == key(canonical(two))


def test_an_enormous_list_is_factored_value_by_value():
    wanted = list(range(0, 60_000, 3))
    random.Random(1).shuffle(wanted)
    with counted_work() as work:
        (found,) = factor([one_of(A, wanted), is_not_null(A)]).predicates
    assert work.calls < 4_000_000
    assert found == one_of(A, sorted(wanted))


def test_long_chains_and_deep_nests():
    chain = nest = compare(A, "=", 0)
    for number in range(1, 3000):
        chain = Or((chain, compare(A, "=", 2 * number)))
    for number in range(1, 300):
        nest = Or((compare(A, "=", number), And((compare(B, ">", number), nest))))
    assert {part.__class__.__name__ for part in factor([chain]).predicates} == {"In"}
    assert factor([nest, compare(C, "=", 1)]).predicates == {compare(C, "=", 1)}


def test_tpch_columns_are_distinct():
    assert len({column.name for column in TPCH.values()}) == len(TPCH)
