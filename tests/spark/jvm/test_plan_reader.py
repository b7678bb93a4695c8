"""Plans in which one number is several columns: nothing is attributed by number."""

from __future__ import annotations

from typing import Any

from sidestep.predicate import Column, Op
from sidestep.predicate.columns import columns_of
from sidestep.predicate.types import INTEGER
from sidestep.prune import Aggregate, Filter, Join, Project, Scan, Window, scan_filters
from sidestep.prune.plan.computed import Computed, text_of
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


def joined(right: Node, condition: list[Any], **more: Any) -> Join:
    """A table with column 1 joined with something on a condition, as it is read."""
    plan = {"op": "Join", "type": "INNER", "in": [scan((1, "a")), right], "if": condition, **more}
    (read,) = read_document({"depends": "", "plans": [plan]}).plans
    assert isinstance(read, Join)
    return read


def aliased(source: list[Any]) -> Node:
    """A table with column 2, of which 10 is computed."""
    below = scan((2, "b"), root="file:/u")
    return {"op": "Project", "in": [below], "columns": [[2, ["a", 2]], [10, source]]}


TIMES_TWO = ["*", ["a", 2], ["l", "int", 2], "int"]


def test_what_a_column_is_computed_from_is_known_in_the_condition_and_below_it():
    opaque = ["?", "(a = (b * 2))", "id", True, [1, 2]]
    above = joined(scan((2, "b"), root="file:/u"), opaque, computed=[["=", ["a", 1], TIMES_TWO]])
    below = joined(aliased(TIMES_TWO), ["=", ["a", 1], ["a", 10]])
    for join in (above, below):
        ((op, one, other),) = join.computed
        assert (op, one) == (Op.EQ, Column("1", INTEGER))
        assert isinstance(other, Computed)
        assert other.column == Column("2", INTEGER)
        assert [step.text("b") for step in other.steps] == ["b * 2"]


def test_steps_add_up_through_aliases_and_casts():
    twice = {"op": "Project", "in": [aliased(TIMES_TWO)], "columns": [[11, ["cast", 10, "bigint"]]]}
    last = {"op": "Project", "in": [twice], "columns": [[12, ["negate", ["a", 11], None, "bigint"]]]}
    ((_, _, other),) = joined(last, ["=", ["cast", 1, "bigint"], ["a", 12]]).computed
    assert isinstance(other, Computed)
    assert text_of("b", other.steps) == "-CAST(b * 2 AS bigint)"


def test_what_does_not_keep_order_means_nothing():
    for source in (
        ["*", ["a", 2], ["l", "int", 0], "int"],
        ["as", TIMES_TWO, "smallint"],
        ["/", ["a", 2], ["l", "int", 3], "int"],
        ["+", ["a", 99], ["l", "int", 3], "int"],
    ):
        assert joined(aliased(source), ["=", ["a", 1], ["a", 10]]).computed == ()


def test_a_computed_column_is_no_column_of_a_filter():
    condition = ["and", [">", ["a", 10], ["l", "int", 3]], ["null", ["a", 10]], ["?", "f(c)", "f", True, [10]]]
    plan = {"op": "Filter", "in": [aliased(TIMES_TWO)], "if": condition}
    assert [place.conjuncts for place in scan_filters(read_document({"depends": "", "plans": [plan]}))] == [()]


def test_groups_by_what_is_computed_pass_and_windows_do_not():
    group = {"op": "Aggregate", "in": [aliased(TIMES_TWO)], "groups": [10], "columns": [[10, ["a", 10]]]}
    window = {"op": "Window", "in": [aliased(TIMES_TWO)], "partition": [10]}
    read = [joined(each, ["=", ["a", 1], ["a", 10]]) for each in (group, window)]
    assert isinstance(read[0].right, Aggregate)
    assert read[0].right.groups == {"2"}
    assert isinstance(read[1].right, Window)
    assert read[1].right.partition == frozenset()
