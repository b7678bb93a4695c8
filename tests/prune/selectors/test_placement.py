"""Where selectors are placed: trees in, trees out, after the figures of the paper."""

from __future__ import annotations

import pytest

from sidestep.errors import SidestepError
from sidestep.predicate import INTEGER, STRING, And, Cast, Column, Comparison, Literal, Op, Or, Predicate
from sidestep.predicate.build import between, compare, is_null, one_of
from sidestep.predicate.nodes import Opaque
from sidestep.predicate.types import LONG
from sidestep.prune import JOIN_TYPES, Aggregate, Filter, Join, JoinType, Limit, Project, Scan, Union, Window
from sidestep.prune.plan.algebra import (
    DynamicScan,
    Motion,
    Operator,
    PartitionSelector,
    Sequence,
    Sides,
    walk,
)
from sidestep.prune.selectors.placement import (
    PartSelectorSpec,
    find_pred_on_key,
    has_part_scan_id,
    place_selectors,
    push,
)
from tests.prune.joins import CROSS, FULL_OUTER, INNER, LEFT_ANTI, LEFT_OUTER, LEFT_SEMI, RIGHT_OUTER

PK, A, B = Column("T.pk", INTEGER), Column("R.A", INTEGER), Column("R.B", INTEGER)
T = DynamicScan("1", "T", (PK,))
R = Scan("R", "R", ("/R",), (("R.A", Column("A", INTEGER)), ("R.B", Column("B", INTEGER))))


def selector(scan: DynamicScan, *predicates: Predicate | None, child: Operator | None = None) -> PartitionSelector:
    return PartitionSelector(scan.part_scan_id, scan.keys, predicates, child)


def join(left: Operator, right: Operator, condition: Predicate | None, type: JoinType = INNER) -> Join:
    return Join(type, left, right, condition)


@pytest.mark.parametrize(
    ("plan", "placed"),
    [
        (T, Sequence((selector(T, None), T))),
        (
            Filter(compare(PK, "=", 35), T),
            Filter(compare(PK, "=", 35), Sequence((selector(T, compare(PK, "=", 35)), T))),
        ),
        (
            Filter(compare(PK, "<", 35), T),
            Filter(compare(PK, "<", 35), Sequence((selector(T, compare(PK, "<", 35)), T))),
        ),
        (
            join(R, T, compare(A, "=", PK)),
            join(selector(T, compare(A, "=", PK), child=R), T, compare(A, "=", PK)),
        ),
    ],
    ids=["all of it", "equality", "range", "join"],
)
def test_figure_5_one_scan(plan, placed):
    assert place_selectors(plan) == placed


# Figure 6: sales of the last quarter in California.
MONTH, D_ID = Column("d.month", INTEGER), Column("d.id", INTEGER)
DATE_ID, CUST_ID = Column("s.date_id", INTEGER), Column("s.cust_id", INTEGER)
C_ID, STATE = Column("c.id", INTEGER), Column("c.state", STRING)
DATE_DIM = DynamicScan("1", "date_dim", (MONTH,), (D_ID,))
SALES = DynamicScan("2", "sales_fact", (DATE_ID,), (CUST_ID,))
CUSTOMER = Scan("c", "customer_dim", ("/c",), (("c.id", Column("id", INTEGER)), ("c.state", Column("state", STRING))))
QUARTER = between(MONTH, 10, 12)
ON_DATE, ON_CUSTOMER = compare(D_ID, "=", DATE_ID), compare(C_ID, "=", CUST_ID)
CALIFORNIA = Filter(compare(STATE, "=", "CA"), CUSTOMER)


def test_figure_8_a_selector_over_the_dimension_chooses_for_the_fact_table():
    plan = join(Filter(QUARTER, DATE_DIM), join(CALIFORNIA, SALES, ON_CUSTOMER), ON_DATE)
    chosen = Filter(QUARTER, Sequence((selector(DATE_DIM, QUARTER), DATE_DIM)))
    assert place_selectors(plan) == join(
        selector(SALES, ON_DATE, child=chosen), join(CALIFORNIA, SALES, ON_CUSTOMER), ON_DATE
    )


def test_figure_8_c_and_d_one_step():
    specs = [PartSelectorSpec.of(DATE_DIM), PartSelectorSpec.of(SALES)]
    dates = Filter(QUARTER, DATE_DIM)
    plan = join(dates, SALES, ON_DATE)
    # A scan in the outer input stays there; that of the inner input goes to the outer with the join's condition.
    assert push(plan, specs[0]) == [(0, specs[0])]
    assert push(plan, specs[1]) == [(0, specs[1].conj([ON_DATE])), (1, specs[1])]
    # A selection adds what it asks of the key, and has nothing to do with scans that are elsewhere.
    assert push(dates, specs[0]) == [(0, specs[0].conj([QUARTER]))]
    assert not has_part_scan_id(dates, "2")


# Figure 11: lists of keys and of predicates.
DAY, REGION = Column("o.date", INTEGER), Column("o.region", STRING)
ORDERS = DynamicScan("1", "orders", (DAY, REGION))


def test_figure_11_one_predicate_for_each_key():
    condition = And((compare(DAY, "=", 1), compare(REGION, "=", "Region 1")))
    assert place_selectors(Filter(condition, ORDERS)) == Filter(
        condition, Sequence((selector(ORDERS, compare(DAY, "=", 1), compare(REGION, "=", "Region 1")), ORDERS))
    )
    only = compare(REGION, "=", "Region 1")
    assert place_selectors(Filter(only, ORDERS)) == Filter(only, Sequence((selector(ORDERS, None, only), ORDERS)))


def test_constants_and_rows_meet_in_one_selector():
    both = And((compare(DAY, "=", A), compare(REGION, "=", "Region 1")))
    placed = place_selectors(join(R, ORDERS, both))
    over = selector(ORDERS, compare(DAY, "=", A), compare(REGION, "=", "Region 1"), child=R)
    beside = Sequence((selector(ORDERS, None, compare(REGION, "=", "Region 1")), ORDERS))
    assert placed == join(over, beside, both)


def test_a_star_chooses_by_each_of_its_dimensions():
    fact = DynamicScan("f", "fact", (Column("f.x", INTEGER), Column("f.y", INTEGER)))
    x, y = fact.keys
    first = Scan("d1", "d1", ("/d1",), (("d1.k", Column("k", INTEGER)),))
    second = Scan("d2", "d2", ("/d2",), (("d2.k", Column("k", INTEGER)),))
    on_x = compare(x, "=", Column("d1.k", INTEGER))
    on_y = compare(y, "=", Column("d2.k", INTEGER))
    assert place_selectors(join(first, join(second, fact, on_y), on_x)) == join(
        selector(fact, on_x, None, child=first), join(selector(fact, None, on_y, child=second), fact, on_y), on_x
    )


def test_a_table_joined_with_itself_has_two_choices():
    first = DynamicScan("1", "T", (Column("a.pk", INTEGER),))
    second = DynamicScan("2", "T", (Column("b.pk", INTEGER),))
    on = compare(first.keys[0], "=", second.keys[0])
    seven = compare(first.keys[0], "=", 7)
    assert place_selectors(join(Filter(seven, first), second, on)) == join(
        selector(second, on, child=Filter(seven, Sequence((selector(first, seven), first)))), second, on
    )
    with pytest.raises(SidestepError, match="share a part scan id"):
        place_selectors(join(first, first, None))


def test_what_runs_first_does_not_wait_for_what_runs_after_it():
    condition = And((compare(A, "=", PK), compare(PK, "<", 50)))
    beside = Sequence((selector(T, compare(PK, "<", 50)), T))
    assert place_selectors(join(T, R, condition)) == join(beside, R, condition)
    over = selector(T, condition, child=R)
    assert place_selectors(join(T, R, condition), lambda _: Sides.RIGHT) == join(beside, over, condition)


def chooses_by_rows(plan: Operator) -> bool:
    return any(isinstance(each, PartitionSelector) and each.child is not None for each in walk(plan))


@pytest.mark.parametrize(
    ("type", "left", "right"),
    [
        (INNER, True, True),
        (CROSS, True, True),
        (LEFT_OUTER, False, True),
        (RIGHT_OUTER, True, False),
        (FULL_OUTER, False, False),
        (LEFT_SEMI, True, True),
        (LEFT_ANTI, False, True),
        (JOIN_TYPES["EXISTENCE"], False, True),
    ],
    ids=lambda value: value.name if isinstance(value, JoinType) else str(value),
)
def test_rows_without_a_partner_that_stay_in_the_result_are_not_pruned(type, left, right):
    """The condition of an outer join says nothing of its preserved side: the paper's algorithm 4 would prune it."""
    on = compare(A, "=", PK)
    assert chooses_by_rows(place_selectors(join(T, R, on, type), lambda _: Sides.RIGHT)) is left
    assert chooses_by_rows(place_selectors(join(R, T, on, type))) is right


@pytest.mark.parametrize(
    ("between", "passes"),
    [
        (lambda scan: Project(scan), True),
        (lambda scan: Motion(scan), True),
        (lambda scan: Filter(is_null(PK), scan), True),
        (lambda scan: Aggregate(frozenset({"T.pk"}), scan), True),
        (lambda scan: Aggregate(frozenset({"T.other"}), scan), False),
        (lambda scan: Window(frozenset({"T.pk"}), scan), True),
        (lambda scan: Window(frozenset(), scan), False),
        (lambda scan: Limit(scan), False),
        (lambda scan: Project(scan, random=True), False),
        (lambda scan: Union((scan, CALIFORNIA), (PK,), ((PK,), (None,))), True),
        (lambda scan: Union((scan,), (PK,), ((None,),)), False),
        (lambda scan: join(scan, CALIFORNIA, None, LEFT_OUTER), True),
        (lambda scan: join(CALIFORNIA, scan, None, LEFT_OUTER), False),
        (lambda scan: join(CALIFORNIA, scan, None, LEFT_ANTI), False),
    ],
    ids=str,
)
def test_a_condition_passes_what_a_filter_would_pass(between, passes):
    seven = compare(PK, "=", 7)
    for plan in (Filter(seven, between(T)), join(R, between(T), seven)):
        placed = [each for each in walk(place_selectors(plan)) if isinstance(each, PartitionSelector)]
        asked = {each.predicates[0] for each in placed}
        assert any(each is not None and seven in (each, *getattr(each, "children", ())) for each in asked) is passes
    assert chooses_by_rows(place_selectors(join(R, between(T), compare(A, "=", PK)))) is passes


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (compare(PK, "=", A), True),
        (compare(PK, "<", A), True),
        (And((compare(PK, ">=", A), compare(PK, "<=", B))), True),
        (Or((compare(PK, "=", A), is_null(PK))), True),
        (Or((compare(PK, "=", A), compare(B, "=", 3))), True),
        (Or((compare(PK, "=", A), one_of(B, [3, 4]))), False),
        (Comparison(Op.EQ, Cast(PK, LONG), Literal(3, LONG)), True),
        (Comparison(Op.EQ, Cast(PK, LONG), Cast(A, LONG)), False),
        (compare(A, "=", B), False),
        (compare(PK, "=", Column("S.C", INTEGER)), False),
        (Opaque("f(pk)", (PK,), "x"), False),
    ],
)
def test_a_predicate_on_a_key_is_found_where_constants_and_the_other_input_decide_it(condition, found):
    assert (find_pred_on_key([PK], condition, ["R.A", "R.B"]) is not None) is found


def test_a_filter_takes_constants_only():
    """A column of the same rows is not known before they are read."""
    other = Column("T.x", INTEGER)
    scan = DynamicScan("1", "T", (PK,), (other,))
    plan = Filter(And((compare(PK, "=", other), compare(PK, "<", 5))), scan)
    assert place_selectors(plan) == Filter(plan.condition, Sequence((selector(scan, compare(PK, "<", 5)), scan)))
