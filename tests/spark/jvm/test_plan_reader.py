"""Plans in which one number is several columns: nothing is attributed by number."""

from __future__ import annotations

from typing import Any

from sidestep.predicate.columns import columns_of
from sidestep.prune import Filter, Join, Project, Scan, scan_filters
from sidestep.spark.jvm.plan_reader import read_document

Node = dict[str, Any]


def scan(*columns: tuple[int, str], root: str = "file:/t") -> Node:
    return {
        "op": "scan",
        "ids": ",".join(str(number) for number, _ in columns),
        "table": None,
        "roots": [root],
        "columns": [[number, name, "int"] for number, name in columns],
        "partitions": [],
    }


def decorrelated(kind: str, condition: list[Any]) -> Node:
    """The outer plan (1, 2) joined with a subquery that has a copy of it, and gives its column 2 as 10."""
    outer, copy = scan((1, "a"), (2, "c")), scan((1, "a"), (2, "c"))
    inner = {"op": "Project", "in": [copy], "columns": [[1, ["a", 1]], [10, ["a", 2]]]}
    joined = {"op": "Join", "type": kind, "in": [outer, inner], "if": ["<=>", ["a", 1], ["a", 1]]}
    return {"op": "Filter", "in": [joined], "if": condition}


def test_a_copy_of_the_outer_plan_has_columns_of_its_own():
    query = read_document({"depends": "", "plans": [decorrelated("LEFT OUTER", ["null", ["a", 10]])]})
    (plan,) = query.plans
    assert isinstance(plan, Filter)
    assert isinstance(plan.child, Join)
    assert isinstance(plan.child.left, Scan)
    assert isinstance(plan.child.right, Project)
    copy = plan.child.right.child
    assert isinstance(copy, Scan)
    names = [{name for name, _ in each.columns} for each in (plan.child.left, copy)]
    assert not names[0] & names[1]
    assert {column.name for column in columns_of(plan.condition)} <= names[1]
    assert [place.conjuncts for place in scan_filters(query)] == [(), ()], "cc IS NULL is about no row of either scan"


def test_a_number_that_two_inputs_have_means_nothing_above_them():
    for condition in (["=", ["a", 1], ["l", "int", 3]], ["?", "f(a)", "f", True, [1]]):
        query = read_document({"depends": "", "plans": [decorrelated("INNER", condition)]})
        assert [place.conjuncts for place in scan_filters(query)] == [(), ()]


def test_what_only_one_input_has_reaches_its_scan():
    query = read_document({"depends": "", "plans": [decorrelated("INNER", ["=", ["a", 2], ["l", "int", 3]])]})
    assert [len(place.conjuncts) for place in scan_filters(query)] == [1, 0]
