"""Selectors and motions: which plans are valid, which there are, and which is taken."""

from __future__ import annotations

import pytest

from sidestep.predicate import INTEGER, Column
from sidestep.predicate.build import compare
from sidestep.prune import Join, Project, Scan
from sidestep.prune.plan.algebra import DynamicScan, Motion, Operator, PartitionSelector, Sequence, walk
from sidestep.prune.selectors.enforcement import Costs, alternatives, cheapest, separated
from tests.prune.joins import INNER, LEFT_OUTER

PK, A = Column("R.pk", INTEGER), Column("S.a", INTEGER)
R = DynamicScan("0", "R", (PK,), (Column("R.id", INTEGER),))
S = Scan("S", "S", ("/S",), (("S.a", Column("a", INTEGER)), ("S.id", Column("id", INTEGER))))
ON = compare(PK, "=", A)
SPREAD = {"0": ("R.id",), "S": ("S.id",)}
ALL_OF_R = Sequence((PartitionSelector("0", (PK,), (None,)), R))


def over(child: Operator) -> PartitionSelector:
    return PartitionSelector("0", (PK,), (ON,), child)


def hash_join(left: Operator, right: Operator) -> Join:
    return Join(INNER, left, right, ON)


@pytest.mark.parametrize(
    ("plan", "valid"),
    [
        (hash_join(over(Motion(S)), R), True),
        (hash_join(Motion(over(S)), R), False),
        (hash_join(over(S), Motion(R, ("R.pk",))), False),
        (hash_join(over(S), Motion(Project(R), ("R.pk",))), False),
        (Motion(hash_join(over(S), R)), True),
        (hash_join(Motion(ALL_OF_R, ("R.pk",)), S), True),
        (Sequence((Motion(PartitionSelector("0", (PK,), (None,))), R)), False),
    ],
)
def test_figure_12_no_motion_between_a_selector_and_its_scan(plan, valid):
    assert (separated(plan) == frozenset()) is valid


def test_figure_14_the_plan_space():
    plans = alternatives(hash_join(R, S), SPREAD)
    paper = [
        hash_join(Motion(ALL_OF_R, ("R.pk",)), Motion(S, ("S.a",))),
        hash_join(ALL_OF_R, Motion(S)),
        hash_join(Motion(ALL_OF_R), S),
        hash_join(over(Motion(S)), R),
    ]
    assert all(plan in plans for plan in paper)
    assert all(not separated(plan) for plan in plans)
    choosing = [plan for plan in plans if any(isinstance(e, PartitionSelector) and e.child for e in walk(plan))]
    # The other order with a motion over R would part it from its selector; so S is sent everywhere.
    assert choosing == [paper[3]]


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ({"0": 1e6, "S": 1e3}, hash_join(over(Motion(S)), R)),
        ({"0": 1e3, "S": 1e6}, hash_join(Motion(ALL_OF_R, ("R.pk",)), Motion(S, ("S.a",)))),
    ],
    ids=["few rows choose", "many rows are not sent everywhere"],
)
def test_figure_14_the_cheapest_is_taken(rows, chosen):
    costs = Costs(rows)
    best = cheapest(hash_join(R, S), SPREAD, costs)
    if any(isinstance(each, PartitionSelector) and each.child for each in walk(chosen)):
        assert best == chosen
    else:
        assert costs.of(best) < costs.of(hash_join(over(Motion(S)), R))
        assert not any(isinstance(each, PartitionSelector) and each.child for each in walk(best))


def test_no_motion_is_needed_where_rows_lie_right():
    spread = {"0": ("R.pk",), "S": ("S.a",)}
    assert hash_join(ALL_OF_R, S) in alternatives(hash_join(R, S), spread)
    assert hash_join(over(S), R) in alternatives(hash_join(R, S), spread)
    assert cheapest(hash_join(R, S), spread, Costs({"0": 1e6, "S": 1e3})) == hash_join(over(S), R)


def test_plans_of_several_joins_keep_selectors_with_their_scans():
    second = DynamicScan("1", "Q", (Column("Q.pk", INTEGER),))
    on = compare(second.keys[0], "=", A)
    plan = Join(INNER, hash_join(R, S), second, on)
    plans = alternatives(plan, {**SPREAD, "1": ()})
    assert all(not separated(each) for each in plans)
    ids = [{e.part_scan_id for e in walk(each) if isinstance(e, PartitionSelector)} for each in plans]
    assert all(each == {"0", "1"} for each in ids)
    by_rows = [
        {e.part_scan_id for e in walk(each) if isinstance(e, PartitionSelector) and e.child is not None}
        for each in plans
    ]
    assert {"0", "1"} in by_rows


def test_outer_joins_are_not_exchanged():
    plans = alternatives(Join(LEFT_OUTER, S, R, ON), SPREAD)
    assert all(isinstance(plan, Join) and plan.type is LEFT_OUTER for plan in plans)
