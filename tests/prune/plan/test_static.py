"""Static pruning: which predicates reach which scan, and that dropping the rows that fail them changes no result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.predicate import And, Column, Comparison, Literal, Op, Or, Predicate
from sidestep.predicate.nodes import IsNull, Not
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import BOOLEAN, INTEGER
from sidestep.prune import UNKNOWN_JOIN, Filter, Join, Operator, Other, Project, Query, Scan, scan_filters
from sidestep.prune.plan.algebra import Sides, children, walk
from tests.prune.joins import (
    CROSS,
    EXISTENCE,
    FULL_OUTER,
    INNER,
    KINDS,
    LEFT_ANTI,
    LEFT_OUTER,
    LEFT_SEMI,
    RIGHT_OUTER,
    Row,
    join_rows,
)

Rows = list[Row]


def table(number: int) -> Scan:
    """A table with columns x and y, which the query knows as 10 n and 10 n + 1."""
    columns = tuple((str(10 * number + place), Column(name, INTEGER)) for place, name in enumerate("xy"))
    return Scan(key=str(number), table=None, roots=(f"/t{number}",), columns=columns)


def less(number: int, bound: int) -> Predicate:
    return Comparison(Op.LT, Column(str(number), INTEGER), Literal(bound, INTEGER))


def equal(left: int, right: int) -> Predicate:
    return Comparison(Op.EQ, Column(str(left), INTEGER), Column(str(right), INTEGER))


# ---- a reference for what a plan means


def outputs(operator: Operator) -> list[str]:
    if isinstance(operator, Scan):
        return [number for number, _ in operator.columns]
    if isinstance(operator, Join) and Sides.RIGHT not in operator.type.passes:
        return outputs(operator.left)
    return [name for child in children(operator) for name in outputs(child)]


def run(operator: Operator, data: Mapping[str, Rows]) -> Rows:
    match operator:
        case Scan(key=key):
            return data[key]
        case Filter(condition=condition, child=child):
            return [row for row in run(child, data) if evaluate(condition, row) is True]
        case Project(child=child):
            return run(child, data)
        case Join():
            return joined(operator, run(operator.left, data), run(operator.right, data))
    raise AssertionError(operator)


def joined(join: Join, left: Rows, right: Rows) -> Rows:
    def meets(a: Row, b: Row) -> bool:
        return join.condition is None or evaluate(join.condition, a | b) is True

    return join_rows(join.type.name, left, right, meets, outputs(join.left), outputs(join.right))


# ---- random plans


@st.composite
def conditions(draw: st.DrawFn, columns: Sequence[str]) -> Predicate:
    def leaf() -> Predicate:
        column = Column(draw(st.sampled_from(columns)), INTEGER)
        kind = draw(st.integers(0, 3))
        if kind == 0:
            return IsNull(column)
        other = (
            Column(draw(st.sampled_from(columns)), INTEGER) if kind == 1 else Literal(draw(st.integers(0, 3)), INTEGER)
        )
        return Comparison(draw(st.sampled_from(Op)), column, other)

    parts = tuple(leaf() for _ in range(draw(st.integers(1, 3))))
    whole: Predicate = Or(parts) if draw(st.integers(0, 2)) == 2 else And(parts)
    return Not(whole) if draw(st.integers(0, 4)) == 0 else whole


@st.composite
def plans(draw: st.DrawFn, tables: int = 3) -> Operator:
    """Joins of tables in any shape, with filters anywhere."""
    parts: list[Operator] = [table(number) for number in range(tables)]
    while len(parts) > 1 or draw(st.integers(0, 2)) == 2:
        place = draw(st.integers(0, len(parts) - 1))
        if len(parts) > 1 and not draw(st.booleans()):
            left, right = parts.pop(place), parts.pop(draw(st.integers(0, len(parts) - 1)))
            condition = draw(st.none() | conditions(outputs(left) + outputs(right)))
            parts.append(Join(draw(st.sampled_from(KINDS)), left, right, condition))
        elif draw(st.booleans()):
            parts[place] = Filter(draw(conditions(outputs(parts[place]))), parts[place])
        else:
            parts[place] = Project(parts[place])
    return parts[0]


cells = st.none() | st.integers(0, 3)


@given(plans(), st.data())
def test_rows_that_fail_what_is_known_of_their_scan_do_not_matter(plan, data):
    scans = [operator for operator in walk(plan) if isinstance(operator, Scan)]
    rows: dict[str, Rows] = {
        scan.key: data.draw(st.lists(st.fixed_dictionaries({number: cells for number, _ in scan.columns}), max_size=4))
        for scan in scans
    }
    assert_same_without_the_rest(plan, rows)


def assert_same_without_the_rest(plan: Operator, rows: Mapping[str, Rows]) -> None:
    """The plan gives the same on only those rows of each scan that satisfy what is known of it."""
    kept = dict(rows)
    for found in scan_filters(Query((plan,))):
        named = {number: column.name for number, column in found.scan.columns}
        kept[found.scan.key] = [
            row
            for row in rows[found.scan.key]
            if all(evaluate(p, {named[n]: v for n, v in row.items()}) is True for p in found.conjuncts)
        ]
    expected, pruned = (Counter(tuple(sorted(row.items())) for row in run(plan, data)) for data in (rows, kept))
    assert pruned == expected, (plan, rows)


@pytest.mark.parametrize("kind", KINDS)
def test_every_small_join_keeps_its_result(kind):
    """All tables of up to three values, with each of a few conditions in the join and above it: no mistake can hide."""
    left, right = Column("0", INTEGER), Column("10", INTEGER)
    on_left = [less(0, 1), IsNull(left), Not(IsNull(left))]
    on_right = [less(10, 1), IsNull(right), Not(IsNull(right))]
    subsets = [[v for bit, v in enumerate((None, 0, 1)) if mask >> bit & 1] for mask in range(8)]
    tables = [
        {"0": [{"0": v, "1": 0} for v in a], "1": [{"10": v, "11": 0} for v in b]} for a in subsets for b in subsets
    ]
    for own in (*on_left, *on_right):
        for above in on_left if Sides.RIGHT not in kind.passes else on_left + on_right:
            plan = Filter(above, Join(kind, table(0), table(1), And((equal(0, 10), own))))
            for rows in tables:
                assert_same_without_the_rest(plan, rows)


# ---- and that something does reach the scans


def reached(plan: Operator) -> dict[str, int]:
    """For each table, how many predicates reach it."""
    return {found.scan.key: len(found.conjuncts) for found in scan_filters(Query((plan,)))}


@pytest.mark.parametrize(
    ("kind", "from_condition", "from_above"),
    [
        (INNER, (1, 1), (1, 1)),
        (CROSS, (1, 1), (1, 1)),
        (LEFT_OUTER, (0, 1), (1, 0)),
        (RIGHT_OUTER, (1, 0), (0, 1)),
        (FULL_OUTER, (0, 0), (0, 0)),
        (LEFT_SEMI, (1, 1), (1, 0)),
        (LEFT_ANTI, (0, 1), (1, 0)),
        (EXISTENCE, (0, 1), (1, 0)),
        (UNKNOWN_JOIN, (0, 0), (0, 0)),
    ],
)
def test_what_passes_a_join(kind, from_condition, from_above):
    both = And((less(0, 5), less(10, 5), equal(0, 10)))
    assert reached(Join(kind, table(0), table(1), both)) == dict(zip("01", from_condition, strict=True))
    assert reached(Filter(both, Join(kind, table(0), table(1)))) == dict(zip("01", from_above, strict=True))


def test_predicates_come_in_the_tables_own_names_and_once():
    plan = Filter(less(11, 3), Filter(And((less(11, 3), less(10, 4))), table(1)))
    (found,) = scan_filters(Query((plan,)))
    names = [p.left.name for p in found.conjuncts if isinstance(p, Comparison) and isinstance(p.left, Column)]
    assert names == ["y", "x"]


def test_nothing_passes_an_operator_that_is_not_known():
    assert reached(Filter(less(0, 5), Other("Window", (table(0),)))) == {"0": 0}
    assert reached(Other("Limit", (Filter(less(0, 5), table(0)),))) == {"0": 1}


@pytest.mark.parametrize(
    "plan",
    [
        Other("Sample", (Filter(less(0, 5), table(0)),)),
        Other("Aggregate", (Filter(less(0, 5), table(0)),), random=True),
        Project(Filter(less(0, 5), table(0)), random=True),
        Filter(less(0, 5), table(0), random=True),
        Join(INNER, Filter(less(0, 5), table(0)), table(1), random=True),
    ],
)
def test_under_a_sample_or_a_random_function_nothing_is_pruned_and_it_is_said_why(plan):
    found = scan_filters(Query((plan,)))
    assert all(not one.conjuncts and one.blocked for one in found)


def test_a_constant_says_nothing_of_a_table():
    assert reached(Filter(And((Literal(None, BOOLEAN), less(0, 5))), table(0))) == {"0": 1}
