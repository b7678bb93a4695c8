"""What a denormalized table can stand for: the joins that are told, those that are not, and random ones row by row."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.layout.join_tree import JoinTree, KeptColumn, Role
from sidestep.predicate import And, Column, Comparison, IsNull, Literal, Not, Op
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import INTEGER, LONG, TIMESTAMP
from sidestep.prune import Filter, Join, Limit, Operator, Other, Project, Query, Scan
from sidestep.prune.denormal.match import find_matches, replaced
from sidestep.prune.plan.algebra import walk
from tests.prune.joins import CROSS, FULL_OUTER, INNER, LEFT_ANTI, LEFT_OUTER, LEFT_SEMI, RIGHT_OUTER
from tests.prune.plans import column, equal, run, scan

# fact(x, y, z) --y--> dim(x, y) --y--> far(x, y);  fact --z--> far as well
ROLES = (
    Role("fact", "fact"),
    Role("dim", "dim", 0, (("y", "x"),)),
    Role("far", "far", 0, (("z", "x"),)),
    Role("dim_far", "far", 1, (("y", "x"),)),
)


def tree(*total: bool) -> JoinTree:
    """The tree above; total: whether each look-up finds a partner for every row."""
    roles = [ROLES[0]]
    for role, each in zip(ROLES[1:], total or (True, True, True), strict=True):
        roles.append(Role(role.name, role.table, role.parent, role.on, each))
    kept = [(0, "x"), (0, "y"), (0, "z"), (1, "y"), (2, "y"), (3, "y")]
    kept += [(position, "x") for position, role in enumerate(roles) if position and not role.total]
    return JoinTree(tuple(roles), tuple(KeptColumn(r, n, "int", f"{roles[r].name}_{n}") for r, n in sorted(kept)))


def named(scan: Scan) -> str | None:
    table = scan.key.rstrip("0123456789")
    return table if table in ("fact", "dim", "far") else None


FACT, DIM, FAR = scan("fact", 1, 2, 3), scan("dim", 4, 5), scan("far", 6, 7)
FAR2 = scan("far2", 8, 9)


def matches(operator, shape=None):
    return find_matches(Query((operator,)), shape or tree(), named)


def roles_of(operator, shape=None) -> dict[str, str]:
    (match,), _ = matches(operator, shape)
    return {scan.key: match.tree.roles[role].name for _, scan, role in match.scans}


def test_a_star_a_snowflake_and_a_table_twice():
    star = Join(INNER, Join(INNER, FACT, DIM, equal(2, 4)), FAR, equal(3, 6))
    assert roles_of(star) == {"fact": "fact", "dim": "dim", "far": "far"}
    snowflake = Join(INNER, FACT, Join(INNER, DIM, FAR, equal(5, 6)), equal(2, 4))
    assert roles_of(snowflake) == {"fact": "fact", "dim": "dim", "far": "dim_far"}
    twice = Join(INNER, Join(INNER, star, FAR2, equal(5, 8)), scan("far3", 10, 11), equal(3, 10))
    assert roles_of(twice) == {"fact": "fact", "dim": "dim", "far": "far", "far2": "dim_far", "far3": "far"}
    assert roles_of(FACT) == {"fact": "fact"}, "a role that no scan has is left out"


def test_equalities_follow_from_each_other():
    plan = Filter(And((equal(3, 5),)), Join(INNER, Join(INNER, FACT, DIM, equal(2, 4)), FAR, equal(5, 6)))
    assert roles_of(plan)["far"] in ("far", "dim_far")
    plan = Filter(And((equal(2, 4), equal(3, 6))), Join(CROSS, Join(CROSS, FACT, DIM), FAR))
    assert roles_of(plan) == {"fact": "fact", "dim": "dim", "far": "far"}


@pytest.mark.parametrize(
    "plan",
    [
        Join(INNER, FACT, DIM, equal(1, 4)),
        Join(INNER, FACT, DIM, equal(2, 5)),
        Join(INNER, FACT, DIM, Comparison(Op.LE, column(2), column(4))),
        Join(CROSS, FACT, DIM),
        Join(LEFT_ANTI, FACT, DIM, equal(2, 4)),
        Join(LEFT_SEMI, DIM, FACT, equal(2, 4)),
        Join(INNER, Join(LEFT_SEMI, DIM, FACT, equal(2, 4)), FAR, equal(5, 6)),
        Join(FULL_OUTER, FACT, DIM, equal(2, 4)),
        Join(RIGHT_OUTER, FACT, DIM, equal(2, 4)),
        Join(LEFT_OUTER, FACT, DIM, And((equal(2, 4), Comparison(Op.GT, column(5), Literal(3, INTEGER))))),
        Join(LEFT_OUTER, FACT, Filter(Comparison(Op.GT, column(5), Literal(3, INTEGER)), DIM), equal(2, 4)),
        Join(LEFT_OUTER, FACT, Join(INNER, DIM, FAR, equal(5, 6)), equal(2, 4)),
        Join(LEFT_OUTER, FACT, Project(DIM, computes=True), equal(2, 4)),
        Join(RIGHT_OUTER, Filter(Not(IsNull(column(4))), Project(DIM, computes=True)), FACT, equal(2, 4)),
        Join(INNER, FACT, scan("stranger", 4, 5), equal(2, 4)),
        Join(INNER, FACT, Limit(DIM), equal(2, 4)),
        Join(INNER, FACT, Project(DIM, name="Generate"), equal(2, 4)),
        Join(INNER, FACT, scan("fact2", 21, 22), equal(1, 21)),
        Join(INNER, DIM, FAR, equal(5, 6)),
        Join(INNER, scan("fact", 1, 2), scan("fact", 1, 2), equal(2, 1)),
    ],
)
def test_what_is_left_alone(plan):
    found, _ = matches(plan)
    assert all(len(match.scans) == 1 for match in found), "a fact by itself at most"


def test_below_what_is_random_nothing_is_replaced():
    plan = Join(INNER, FACT, DIM, equal(2, 4))
    assert matches(plan)[0]
    assert not matches(Project(plan, random=True))[0]
    assert not matches(Filter(equal(1, 1), plan, random=True))[0]
    assert not matches(Other("Sample", (plan,)))[0]
    assert matches(Other("Window", (plan,)))[0]


def test_a_column_that_is_not_held_or_of_another_type_is_named():
    wide = Scan("fact", None, ("/fact",), (*FACT.columns, ("99", Column("w", INTEGER))))
    _, (why,) = matches(Join(INNER, wide, DIM, equal(2, 4)))
    assert "fact.w" in why.reason
    long = Scan("dim", None, ("/dim",), (("4", Column("x", INTEGER)), ("5", Column("y", LONG))))
    found, (why,) = matches(Join(INNER, FACT, long, equal(2, 4)))
    assert "dim.y" in why.reason
    assert [len(match.scans) for match in found] == [1]


def test_a_partition_that_the_time_zone_decides_is_none_of_the_table_s():
    when = (("1", Column("x", TIMESTAMP)), *FACT.columns[1:])
    kept = [KeptColumn(0, "x", "timestamp", "t"), *(each for each in tree().columns if each.stored != "fact_x")]
    shape = JoinTree(tree().roles, tuple(kept))
    assert matches(Scan("fact", None, ("/fact",), when), shape)[0]
    found, (why,) = matches(Scan("fact", None, ("/fact",), when, frozenset({"x"})), shape)
    assert not found
    assert "fact.x" in why.reason


def test_conditions_that_hold_for_every_row_are_left_out():
    present = Not(IsNull(column(4)))
    more = Comparison(Op.GT, column(5), Literal(3, INTEGER))
    plan = Filter(And((present, more)), Join(INNER, FACT, DIM, equal(2, 4)))
    (match,), _ = matches(plan)
    assert match.remaining() == (Comparison(Op.GT, Column("dim_y", INTEGER), Literal(3, INTEGER)),)
    (match,), _ = matches(plan, tree(False, True, True))
    assert len(match.remaining()) == 3, "a key that is not there tells that there is no partner"


def test_trees_are_checked():
    with pytest.raises(SidestepError, match="begins with its fact"):
        JoinTree((), ())
    with pytest.raises(SidestepError, match="looked up by a key"):
        JoinTree((ROLES[0], Role("dim", "dim", 0)), ())
    with pytest.raises(SidestepError, match="name of its own"):
        JoinTree((ROLES[0], Role("fact", "dim", 0, (("y", "x"),))), ())


# ---- row by row


def random_plan(random: Random):
    """A tree of joins over the fact and others, by keys or not, with filters."""
    plan: Operator = FACT
    left = [1, 2, 3]
    for dim in random.sample([DIM, FAR, FAR2], random.randint(0, 3)):
        key, value = (int(number) for number, _ in dim.columns)
        kind = random.choice((INNER, INNER, INNER, LEFT_SEMI, LEFT_OUTER, RIGHT_OUTER, LEFT_ANTI))
        by = random.choice({"dim": (2, 2, 2, 1), "far": (3, 5 if 5 in left else 3), "far2": (3, 5)}[dim.key])
        on = equal(by if by in left else 3, key)
        side: Operator = dim
        if random.random() < 0.3:
            side = Filter(Comparison(Op.LE, column(value), Literal(random.randint(0, 4), INTEGER)), dim)
        swapped = random.random() < 0.5 if kind is not LEFT_OUTER else random.random() < 0.2
        swapped = swapped or kind is RIGHT_OUTER
        plan = Join(kind, side, plan, on) if swapped else Join(kind, plan, side, on)
        shown = [key, value] if swapped else left
        left = shown if kind in (LEFT_SEMI, LEFT_ANTI) else [*left, key, value]
        if 2 not in left:
            return plan
        if random.random() < 0.3:
            number = random.choice(left)
            test = random.choice((IsNull(column(number)), Comparison(Op.GE, column(number), Literal(2, INTEGER))))
            plan = Filter(test, plan)
    return plan


def random_tables(random: Random, total: tuple[bool, ...]):
    """Tables of which each look-up finds a partner for every row, or may not: NULL, and keys that are not there."""

    def value(sure: bool = False) -> int | None:
        return random.randrange(4) if sure else random.choice([None, *range(6)])

    dims = range(4) if total[0] else random.sample(range(5), random.randint(0, 4))
    fars = range(4) if total[1] or total[2] else random.sample(range(5), random.randint(0, 4))
    return {
        "far": [{"x": key, "y": value()} for key in fars] + [{"x": None, "y": 1}] * random.randint(0, 2),
        "dim": [{"x": key, "y": value(total[2])} for key in dims],
        "fact": [{"x": value(), "y": value(total[0]), "z": value(total[1])} for _ in range(random.randint(0, 8))],
    }


def denormalized(rows, shape: JoinTree):
    """The fact, left outer joined with each role."""

    def partner(role: Role, row):
        found = [other for other in rows[role.table] if all(row.get(a) == other[b] is not None for a, b in role.on)]
        assert len(found) <= 1
        return found[0] if found else dict.fromkeys(("x", "y", "z"))

    made = []
    for fact in rows["fact"]:
        parts = [fact]
        for role in shape.roles[1:]:
            parts.append(partner(role, parts[role.parent]))
        made.append({column.stored: parts[column.role][column.name] for column in shape.columns})
    return made


@given(st.integers(0, 10**9))
def test_random_joins_give_the_same_rows(seed):
    random = Random(seed)
    for _ in range(20):
        total = tuple(random.random() < 0.5 for _ in range(3))
        shape, rows, plan = tree(*total), random_tables(random, total), random_plan(random)
        data = {"fact": rows["fact"], "dim": rows["dim"], "far": rows["far"], "far2": rows["far"]}
        made = denormalized(rows, shape)
        for match in matches(plan, shape)[0]:
            stored, shown = match.stored, sorted(set(_numbers(match.operator)))
            kept = [row for row in made if all(evaluate(each, row) for each in match.remaining())]
            ours = Counter(tuple(row[stored[number]] for number in shown) for row in kept)
            theirs = Counter(tuple(row[number] for number in shown) for row in run(match.operator, data))
            assert ours == theirs, plan


def test_random_joins_are_of_all_kinds():
    """Most of what the test above is about would be about the fact alone if no joins were told."""
    random = Random(1)
    told = Counter(len(match.scans) for _ in range(400) for match in matches(random_plan(random))[0])
    assert min(told[1], told[2], told[3], told[4]) >= 15, told


def _numbers(operator) -> list[str]:
    """The columns that an operator gives."""
    if isinstance(operator, Scan):
        return [number for number, _ in operator.columns]
    if isinstance(operator, Join):
        right = [] if operator.type is LEFT_SEMI else _numbers(operator.right)
        return [*_numbers(operator.left), *right]
    return _numbers(operator.child)


@given(st.integers(0, 10**9))
def test_what_is_put_in_the_place_of_a_part_reads_the_table(seed):
    plan = Limit(random_plan(Random(seed)))
    found, _ = matches(plan)
    table = Scan("table", None, ("/table",), ())
    query = replaced(Query((plan,)), {match.place: (match, table) for match in found})
    scans = [each for each in walk(query.plans[0]) if isinstance(each, Scan)]
    gone = {scan.key for match in found for _, scan, _ in match.scans}
    put = {"table"} if found else set()
    assert {each.key for each in scans} == put | ({each.key for each in _scans(plan)} - gone)
    if len(found) == 1:
        (table,) = (each for each in scans if each.key == "table")
        assert {column.name for _, column in table.columns} == set(found[0].stored.values())


def _scans(plan) -> list[Scan]:
    return [each for each in walk(plan) if isinstance(each, Scan)]
