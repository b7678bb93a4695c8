"""Where predicates may move (diPs, section 3.3): each rule lets one through, and stops it where rows would be lost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sidestep.predicate import And, Cast, Column, Comparison, Op, Opaque, Or, Predicate
from sidestep.predicate.types import BOOLEAN, INTEGER, LONG, STRING
from sidestep.prune import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Operator,
    Other,
    Project,
    Query,
    Scan,
    Union,
    Window,
)
from sidestep.prune.dips.join_graph import join_columns
from sidestep.prune.dips.lineage import join_graph
from sidestep.prune.dips.model import InducedOptions
from sidestep.prune.plan.computed import Computed, Linear
from tests.prune.joins import CROSS, EXISTENCE, FULL_OUTER, INNER, LEFT_ANTI, LEFT_OUTER, LEFT_SEMI, RIGHT_OUTER
from tests.prune.plans import Blocks, column, equal, prune, result, rows_of, scan, spans, viewed

A, B, C = scan("a", 1, 2), scan("b", 11, 12), scan("c", 21, 22)
LOW, HIGH = (0, 3), (6, 9)
PATIENT = InducedOptions(seconds=60)
DATA = {
    "a": spans(x=[LOW], y=[LOW]),
    "b": spans(x=[LOW, HIGH], y=[LOW, HIGH]),
    "c": spans(x=[LOW, HIGH], y=[LOW, HIGH]),
}


def kept(
    plan: Operator, data: Mapping[str, Blocks] = DATA, options: InducedOptions | None = None
) -> dict[str, list[int]]:
    """The blocks that are left of each table; the result is checked to be the same without the others."""
    found = prune(Query((plan,)), {key: viewed(blocks) for key, blocks in data.items()}, options or PATIENT)
    left = {key: masks[0].nonzero()[0].tolist() for key, masks in found.kept.items()}
    everything = {key: rows_of(blocks) for key, blocks in data.items()}
    pruned = {key: rows_of(data[key], masks[0]) for key, masks in found.kept.items()}
    assert result([plan], pruned) == result([plan], everything)
    return left


def wrongly_without(plan: Operator, key: str, block: int, data: Mapping[str, Blocks] = DATA) -> bool:
    """Whether leaving out a block would change the result: the reason why a rule must not let a predicate through."""
    everything = {key: rows_of(blocks) for key, blocks in data.items()}
    without = [place != block for place in range(len(data[key]))]
    return result([plan], everything | {key: rows_of(data[key], without)}) != result([plan], everything)


def to_b(middle: Operator, number: int | str = 11) -> Operator:
    """A predicate comes from a, on the left of an inner join, and meets what is in the middle on the way to b."""
    return Join(INNER, A, middle, equal(1, number))


def test_rule_1_selections_pass():
    assert kept(to_b(Filter(Comparison(Op.LE, column(12), column(12)), B)))["b"] == [0]


def test_rule_2_projections_pass_what_they_keep():
    assert kept(to_b(Project(B)))["b"] == [0]


def test_rule_2_a_column_that_was_made_anew_is_another_column():
    # b.x + 6 under the number 99: nothing resolves it, so nothing goes through.
    assert join_graph(Query((to_b(Project(B), 99),))).links == ()


def test_rule_2_a_column_plus_a_constant_is_undone():
    later = Aggregate(frozenset({"11"}), B)
    less = Computed(column(11), (Linear(INTEGER, INTEGER, 1, -6, "{} - 6"),))
    assert kept(Join(INNER, A, later, computed=((Op.EQ, column(1), less),)))["b"] == [1]
    assert kept(Join(INNER, A, later, computed=((Op.EQ, less, column(1)),)))["b"] == [1]


def test_rule_3_group_bys_pass_their_columns():
    assert kept(to_b(Aggregate(frozenset({"11"}), B)))["b"] == [0]
    assert kept(to_b(Aggregate(frozenset({"11", "12"}), B)))["b"] == [0]


def test_rule_3_other_columns_do_not_pass_a_group_by():
    # What is joined above it is the greatest x of each group, say: rows with another x belong to the group too.
    assert join_graph(Query((to_b(Aggregate(frozenset({"12"}), B), 11),))).links == ()


def test_an_aggregate_without_groups_passes_nothing():
    plan = Join(CROSS, A, Aggregate(frozenset(), B, grouped=False))
    assert kept(plan)["b"] == [0, 1]
    assert wrongly_without(plan, "b", 1)


def union(*numbers: int) -> Union:
    outputs = tuple((column(number),) for number in numbers)
    return Union((B, C), (column("u"),), outputs)


def test_rule_4_unions_pass_to_each_input():
    left = kept(to_b(union(11, 21), "u"))
    assert (left["b"], left["c"]) == ([0], [0])


def test_rule_4_a_union_says_what_all_its_inputs_hold():
    data = {"a": spans(x=[(0, 1), (4, 5), (7, 8)], y=[LOW] * 3), "b": spans(x=[(0, 1)], y=[LOW])}
    data["c"] = spans(x=[(8, 9)], y=[LOW])
    assert kept(to_b(union(11, 21), "u"), data)["a"] == [0, 2]


def test_rule_4_a_union_with_an_input_that_is_not_known_says_nothing():
    # The other input puts the constant 7 there.
    data = DATA | {"a": spans(x=[LOW, (7, 9)], y=[LOW, HIGH]), "b": DATA["a"], "c": DATA["a"]}
    plan = to_b(Union((B, C), (column("u"),), ((column(11),), (None,))), "u")
    assert kept(plan, data)["a"] == [0, 1]
    assert wrongly_without(plan, "a", 1, data)


def test_rule_4_intersections_pass_both_ways_and_differences_from_left_to_right():
    other = DATA | {"a": spans(x=[LOW, HIGH], y=[LOW, HIGH]), "b": DATA["a"]}
    intersect = Aggregate(frozenset({"1"}), Join(LEFT_SEMI, A, B, equal(1, 11, Op.NULL_SAFE)))
    assert kept(intersect)["b"] == [0]
    assert kept(intersect, other)["a"] == [0]
    difference = Aggregate(frozenset({"1"}), Join(LEFT_ANTI, A, B, equal(1, 11, Op.NULL_SAFE)))
    assert kept(difference)["b"] == [0]
    assert kept(difference, other)["a"] == [0, 1]
    assert wrongly_without(difference, "a", 1, other)


@pytest.mark.parametrize(
    ("kind", "to_right", "to_left"),
    [
        (INNER, True, True),
        (CROSS, True, True),
        (LEFT_SEMI, True, True),
        (LEFT_OUTER, True, False),
        (RIGHT_OUTER, False, True),
        (FULL_OUTER, False, False),
        (LEFT_ANTI, True, False),
        (EXISTENCE, True, False),
    ],
)
def test_rule_5_which_way_a_join_may_be_crossed(kind, to_right, to_left):
    plan = Join(kind, A, B, equal(1, 11), exists="e" if kind is EXISTENCE else None)
    assert kept(plan)["b"] == ([0] if to_right else [0, 1])
    assert to_right or wrongly_without(plan, "b", 1)
    swapped = {"a": DATA["b"], "b": DATA["a"]}
    assert kept(plan, swapped)["a"] == ([0] if to_left else [0, 1])
    assert to_left or wrongly_without(plan, "a", 1, swapped)


@pytest.mark.parametrize(
    ("kind", "to_left", "to_right"),
    [
        (INNER, True, True),
        (LEFT_OUTER, True, False),
        (RIGHT_OUTER, False, True),
        (FULL_OUTER, False, False),
        (LEFT_SEMI, True, False),
        (LEFT_ANTI, True, False),
    ],
)
def test_rule_6_which_input_of_a_join_a_predicate_from_above_reaches(kind, to_left, to_right):
    """From a, through a join of b and c on a column that leaves all blocks, onto b or c."""
    data = DATA | {"b": spans(x=[LOW, HIGH], y=[(0, 9)] * 2), "c": spans(x=[LOW, HIGH], y=[(0, 9)] * 2)}
    below = Join(kind, B, C, equal(12, 22))
    assert kept(to_b(below, 11), data)["b"] == ([0] if to_left else [0, 1])
    if kind not in (LEFT_SEMI, LEFT_ANTI):
        assert kept(to_b(below, 21), data)["c"] == ([0] if to_right else [0, 1])


def test_rule_6_null_of_an_outer_join_is_a_partner_too():
    """A row that loses its match gets NULL, and ``<=>`` finds that: the null-supplying side must keep its blocks."""
    data: dict[str, Blocks] = {
        "a": [[{"x": 1, "y": 1}, {"x": None, "y": 1}]],
        "b": spans(x=[(0, 9)], y=[LOW]),
        "c": DATA["c"],
    }
    plan = Join(INNER, A, Join(LEFT_OUTER, B, C, equal(11, 21)), equal(1, 22, Op.NULL_SAFE))
    assert kept(plan, data)["c"] == [0, 1]
    assert wrongly_without(plan, "c", 1, data)


def test_null_that_an_outer_join_adds_goes_along_where_it_may_match():
    data: dict[str, Blocks] = {
        "a": [[{"x": None, "y": 1}], *DATA["b"]],
        "b": spans(x=[(7, 9)], y=[LOW]),
        "c": DATA["a"],
    }
    plan = Join(LEFT_SEMI, A, Join(LEFT_OUTER, B, C, equal(11, 21)), equal(1, 21, Op.NULL_SAFE))
    assert kept(plan, data)["a"] == [0]
    assert wrongly_without(plan, "a", 0, data)


def test_windows_pass_the_columns_they_partition_by():
    assert kept(to_b(Window(frozenset({"11"}), B)))["b"] == [0]
    other = to_b(Window(frozenset({"12"}), B))
    data = DATA | {"b": [[{"x": 1, "y": 5}], [{"x": 8, "y": 5}]], "a": [[{"x": 1, "y": 1}]]}
    assert kept(other, data)["b"] == [0, 1]
    assert wrongly_without(other, "b", 1, data)


def test_limits_let_nothing_down_but_values_up():
    data = DATA | {"b": [[{"x": 8, "y": 5}] * 2, [{"x": 1, "y": 5}]], "a": [[{"x": 1, "y": 1}]]}
    plan = to_b(Limit(B))
    assert kept(plan, data)["b"] == [0, 1]
    assert wrongly_without(plan, "b", 0, data)
    up = Join(INNER, B, Limit(A), equal(11, 1))
    assert kept(up)["b"] == [0]


def test_what_is_not_known_lets_nothing_through():
    plan = to_b(Other("Anything", (B,)))
    assert kept(plan)["b"] == [0, 1]
    assert wrongly_without(to_b(Other("Anything", (B,))), "b", 0)
    assert kept(Join(INNER, B, Other("Anything", (A,)), equal(11, 1)))["b"] == [0, 1]


@pytest.mark.parametrize("above", [lambda p: Project(p, random=True), lambda p: Other("Sample", (p,))])
def test_under_a_random_function_or_a_sample_nothing_is_pruned(above):
    assert kept(above(to_b(B)))["b"] == [0, 1]
    assert kept(to_b(above(B)))["b"] == [0, 1]


def test_values_come_out_from_under_a_random_function():
    assert kept(Join(INNER, B, Filter(equal(1, 2), A, random=True), equal(11, 1)))["b"] == [0]


def test_a_condition_above_a_cross_join_is_a_join_too():
    assert kept(Filter(equal(1, 11), Join(CROSS, A, B)))["b"] == [0]


def test_without_movement_only_selections_and_joins_are_crossed():
    still = InducedOptions(seconds=60, movement=False)
    assert kept(to_b(Filter(equal(12, 12), Project(B))), options=still)["b"] == [0]
    for middle, number in (
        (Aggregate(frozenset({"11"}), B), 11),
        (union(11, 21), "u"),
        (Window(frozenset({"11"}), B), 11),
    ):
        assert kept(to_b(middle, number), options=still)["b"] == [0, 1]


# ---- existence joins


def exists(flag: str, left: Operator, right: Scan, number: int) -> Operator:
    return Join(EXISTENCE, left, right, equal(1, number), exists=flag)


def either(*flags: str) -> Predicate:
    return Or(tuple(Column(flag, BOOLEAN) for flag in flags))


FLAGGED = {
    "a": spans(x=[(0, 1), (4, 5), (8, 9)], y=[LOW] * 3),
    "b": spans(x=[(0, 1)], y=[LOW]),
    "c": spans(x=[(8, 9)], y=[LOW]),
}


def test_one_of_two_that_must_exist_bounds_the_left_by_both_together():
    both = exists("f", exists("e", A, B, 11), C, 21)
    assert kept(Filter(either("e", "f"), both), FLAGGED)["a"] == [0, 2]
    assert kept(Filter(Column("e", BOOLEAN), both), FLAGGED)["a"] == [0]


def test_an_existence_that_need_not_be_true_bounds_nothing():
    both = exists("f", exists("e", A, B, 11), C, 21)
    maybe = Or((Column("e", BOOLEAN), Comparison(Op.GE, column(1), column(2))))
    assert kept(Filter(maybe, both), FLAGGED)["a"] == [0, 1, 2]
    assert kept(both, FLAGGED)["a"] == [0, 1, 2]


# ---- what is compared


def test_an_alias_with_a_cast_is_followed_through_the_cast():
    wide = scan("b", 11, 12, type=LONG)
    plan = Join(INNER, A, wide, Comparison(Op.EQ, Cast(column(1), LONG), column(11, LONG)))
    assert join_columns(join_graph(Query((plan,)))) == {"a": {"x": INTEGER}, "b": {"x": LONG}}


@pytest.mark.parametrize(
    "condition",
    [
        None,
        Opaque("f(a.x) = b.x", (column(1), column(11))),
        Or((equal(1, 11), equal(2, 12))),
        Comparison(Op.EQ, Cast(column(1), STRING), Cast(column(11), STRING)),
        equal(1, 2),
    ],
    ids=["none", "expression", "or", "cast to text", "one side"],
)
def test_other_conditions_link_nothing(condition):
    assert join_graph(Query((Join(INNER, A, B, condition),))).links == ()


def test_bands_bound_the_other_side_by_the_least_or_greatest():
    assert kept(Join(INNER, A, B, equal(1, 11, Op.GE)))["b"] == [0]
    high = DATA | {"a": spans(x=[(7, 9)], y=[LOW])}
    assert kept(Join(INNER, A, B, equal(1, 11, Op.LE)), high)["b"] == [1]
    assert kept(Join(INNER, A, B, equal(1, 11, Op.GE)), high)["b"] == [0, 1]


def test_several_columns_are_a_conjunction():
    data = DATA | {"b": spans(x=[LOW, LOW, HIGH], y=[LOW, HIGH, LOW])}
    assert kept(Join(INNER, A, B, And((equal(1, 11), equal(2, 12)))), data)["b"] == [0]


# ---- equalities that follow from others


def pairs(*conditions: tuple[int, int], op: Op = Op.EQ) -> set[tuple[int, int]]:
    """The tables that are linked if a, b and c are joined on these conditions."""
    joined = And(tuple(equal(x, y, op) for x, y in conditions))
    plan = Filter(joined, Join(CROSS, Join(CROSS, A, B), C))
    return {(link.origin, link.target) for link in join_graph(Query((plan,))).links}


def test_an_equality_that_follows_from_others_makes_no_cycle():
    assert pairs((1, 11), (11, 21), (1, 21)) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert len(pairs((1, 11), (12, 21), (2, 22))) == 6


def test_only_plain_equalities_in_both_directions_follow_from_each_other():
    assert len(pairs((1, 11), (11, 21), (1, 21), op=Op.LE)) == 6
    outer = Join(LEFT_OUTER, Join(INNER, A, B, equal(1, 11)), C, And((equal(1, 21), equal(11, 21))))
    links = {(link.origin, link.target) for link in join_graph(Query((outer,))).links}
    assert links == {(0, 1), (1, 0), (0, 2), (1, 2)}
