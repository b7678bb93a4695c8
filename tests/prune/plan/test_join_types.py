"""Every row of the table of join types, held against what such a join gives, row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest

from sidestep.prune import JOIN_TYPES, Filter, Join, JoinType, Query, scan_filters
from sidestep.prune.dips.emptiness import irrelevant_scans
from sidestep.prune.dips.lineage import join_graph
from sidestep.prune.plan.algebra import Sides
from sidestep.spark.jvm.plan_reader import read_document
from tests.prune.joins import KINDS, Row, join_rows
from tests.prune.plans import equal, scan

RIGHT_SEMI = JoinType(
    "RIGHT SEMI", condition_holds=Sides.BOTH, above_holds=Sides.RIGHT, passes=Sides.RIGHT, emptied_by=Sides.BOTH
)
"""A type that Spark does not have, to see that a row is all that a new one takes."""
SIDES = (Sides.LEFT, Sides.RIGHT)
VALUES = (None, 0, 1)
INPUTS = [list(values) for size in range(3) for values in product(VALUES, repeat=size)]
NAME = {Sides.LEFT: "l", Sides.RIGHT: "r"}

Inputs = dict[Sides, list[Row]]
Test = Callable[[Row], bool]


def every_input() -> Iterator[Inputs]:
    """All tables of at most two rows of one column each."""
    for left, right in product(INPUTS, repeat=2):
        yield {Sides.LEFT: [{"l": v} for v in left], Sides.RIGHT: [{"r": v} for v in right]}


def joined(kind: JoinType, inputs: Inputs, also: Test = lambda row: True) -> Counter[tuple[tuple[str, object], ...]]:
    """l = r, and what else the condition says of a pair."""

    def meets(a: Row, b: Row) -> bool:
        return a["l"] is not None and a["l"] == b["r"] and also(a | b)

    rows = join_rows(kind.name, inputs[Sides.LEFT], inputs[Sides.RIGHT], meets, ["l"], ["r"])
    return Counter(tuple(sorted(row.items())) for row in rows)


def without(inputs: Inputs, side: Sides, test: Test) -> Iterator[Inputs]:
    """The inputs without one or all of a side's rows that fail a test."""
    failing = [number for number, row in enumerate(inputs[side]) if not test(row)]
    for gone in [*([number] for number in failing), failing]:
        if gone:
            yield {**inputs, side: [row for number, row in enumerate(inputs[side]) if number not in gone]}


def criteria(side: Sides) -> list[Test]:
    name = NAME[side]
    return [lambda row: row[name] is not None, lambda row: row[name] is None, lambda row: row[name] == 1]


def changes(claim: str, kind: JoinType, side: Sides) -> bool:
    """Whether there are inputs whose result changes if rows go that the claim says cannot matter."""
    other = Sides.BOTH ^ side
    for inputs in every_input():
        match claim:
            case "condition_holds":
                partners = {row[NAME[other]] for row in inputs[other]} - {None}
                if any(
                    joined(kind, inputs) != joined(kind, less)
                    for less in without(inputs, side, lambda row: row[NAME[side]] in partners)  # noqa: B023
                ):
                    return True
                for test in criteria(side):
                    if any(
                        joined(kind, inputs, test) != joined(kind, less, test) for less in without(inputs, side, test)
                    ):
                        return True
            case "above_holds" if side in kind.passes:
                for test in criteria(side):
                    if any(
                        filtered(joined(kind, inputs), test) != filtered(joined(kind, less), test)
                        for less in without(inputs, side, test)
                    ):
                        return True
            case "emptied_by":
                if joined(kind, {**inputs, side: []}):
                    return True
    return False


def filtered(rows: Counter[tuple[tuple[str, object], ...]], test: Test) -> Counter[tuple[tuple[str, object], ...]]:
    return Counter({row: times for row, times in rows.items() if test(dict(row))})  # type: ignore[arg-type]


@pytest.mark.parametrize("side", SIDES, ids=str)
@pytest.mark.parametrize("claim", ["condition_holds", "above_holds", "emptied_by"])
@pytest.mark.parametrize("kind", [*KINDS, RIGHT_SEMI], ids=lambda kind: kind.name)
def test_a_claim_is_made_just_where_it_holds(kind, claim, side):
    claimed = side in getattr(kind, claim)
    if claim == "above_holds" and side not in kind.passes:
        assert not claimed, "of columns that do not pass, nothing above the join can speak"
    else:
        assert claimed == (not changes(claim, kind, side))


@pytest.mark.parametrize("kind", [*KINDS, RIGHT_SEMI], ids=lambda kind: kind.name)
def test_results_are_made_of_the_inputs_that_pass(kind):
    for inputs in every_input():
        for row in joined(kind, inputs):
            names = {name for name, _ in row} - {"exists"}
            assert names == {NAME[side] for side in SIDES if side in kind.passes}
            for side in SIDES:
                if side in kind.passes:
                    held = {own[NAME[side]] for own in inputs[side]}
                    null_added = side not in kind.above_holds
                    assert dict(row)[NAME[side]] in held | ({None} if null_added else set())
    assert not joined(kind, {Sides.LEFT: [], Sides.RIGHT: []})
    assert kind.is_empty(True, True)
    assert not kind.is_empty(False, False)


def test_an_oracle_that_finds_nothing_wrong_proves_nothing():
    wrong = replace(JOIN_TYPES["LEFT OUTER"], condition_holds=Sides.BOTH)
    assert changes("condition_holds", wrong, Sides.LEFT)


# ---- one row is all


def test_adding_a_row_is_all_that_a_new_type_takes(monkeypatch):
    """Read from Spark's plan, pruned statically, sent along in both directions, and known to be empty."""
    monkeypatch.setitem(JOIN_TYPES, RIGHT_SEMI.name, RIGHT_SEMI)
    (plan,) = read_document({"depends": "", "plans": [spark_plan("RIGHT SEMI")]}).plans
    assert isinstance(plan, Filter)
    assert isinstance(plan.child, Join)
    assert plan.child.type is RIGHT_SEMI
    query = Query((plan,))
    assert [len(found.conjuncts) for found in scan_filters(query)] == [0, 1]
    graph = join_graph(query)
    assert sorted((link.origin, link.target) for link in graph.links) == [(0, 1), (1, 0)]
    assert irrelevant_scans(query.plans, lambda place: place == 0) == {1}


def test_nothing_passes_a_type_without_a_row():
    (plan,) = read_document({"depends": "", "plans": [spark_plan("SIDEWAYS")]}).plans
    query = Query((plan,))
    assert [len(found.conjuncts) for found in scan_filters(query)] == [0, 0]
    assert join_graph(query).links == ()
    assert irrelevant_scans(query.plans, lambda place: True) == set()


def spark_plan(join: str) -> dict[str, object]:
    """A filter on the right table's column over a join of two tables by equality."""

    def table(number: int) -> dict[str, object]:
        columns = [[number, "x", "int"]]
        return {"op": "scan", "ids": f"{number}", "table": None, "roots": [], "columns": columns, "partitions": []}

    both: Sequence[object] = [table(1), table(2)]
    joined = {"op": "Join", "type": join, "if": ["=", ["a", 1], ["a", 2]], "in": both}
    return {"op": "Filter", "if": ["<", ["a", 2], ["l", "int", 5]], "in": [joined]}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_links_go_where_the_condition_holds(kind):
    plan = Join(kind, scan("a", 1), scan("b", 11), equal(1, 11), exists="e" if kind.name == "EXISTENCE" else None)
    targets = {link.target for link in join_graph(Query((plan,))).links}
    assert targets == {place for place, side in enumerate(SIDES) if side in kind.condition_holds}
