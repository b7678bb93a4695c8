"""Partitioned tables: where rows go, which partitions predicates need; the examples of the paper's section 2."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate import DATE, INTEGER, STRING, And, Column, Interval, IntervalSet, Literal, Or, Predicate
from sidestep.predicate.build import between, compare, is_like, is_not_null, is_null, literal, negation, one_of
from sidestep.predicate.oracle import evaluate
from sidestep.prune.selectors.partitions import DEFAULT, Constraint, Level, Partition, PartitionedTable, bind

PK = Column("pk", INTEGER)


def within(low: int | None, high: int | None, closed: bool = True, nulls: bool = False) -> Constraint:
    return Constraint(IntervalSet(INTEGER, (Interval(low, high, high_closed=closed),)), nulls)


def figure_5() -> PartitionedTable:
    """A hundred partitions of ten keys each."""
    parts = (Partition(f"T{i}", (within((i - 1) * 10 + 1, i * 10),)) for i in range(1, 101))
    return PartitionedTable("T", (PK,), tuple(parts))


def numbered(first: int, last: int) -> frozenset[str]:
    return frozenset(f"T{i}" for i in range(first, last + 1))


@pytest.mark.parametrize(
    ("predicate", "selected"),
    [
        (None, numbered(1, 100)),  # 5 (a)
        (compare(PK, "=", 35), numbered(4, 4)),  # 5 (b)
        (compare(PK, "<", 35), numbered(1, 4)),  # 5 (c)
        (compare(PK, "<", 31), numbered(1, 3)),
        (one_of(PK, [5, 500, 5000]), numbered(1, 1) | numbered(50, 50)),
        (is_null(PK), frozenset()),
        (is_not_null(PK), numbered(1, 100)),
        (negation(compare(PK, ">", 20)), numbered(1, 2)),
        (Or((compare(PK, "=", 1), compare(PK, "=", 1000))), numbered(1, 1) | numbered(100, 100)),
    ],
)
def test_figure_5_selects_by_equality_and_by_ranges(predicate, selected):
    assert figure_5().select([predicate]) == selected


def test_figure_5_d_chooses_by_the_rows_that_pass():
    table, a = figure_5(), Column("R.A", INTEGER)
    rows = [{"R.A": Literal(value, INTEGER)} for value in (7, 33, 34, None, 2000)]
    assert table.choose([compare(PK, "=", a)], rows) == {"T1", "T4"}
    assert table.choose([compare(PK, "=", a)], []) == frozenset()
    assert table.choose([None], [{}]) == table.oids


def test_a_row_goes_to_its_partition_or_to_none():
    table = figure_5()
    assert [table.partition_of([value]) for value in (1, 10, 11, 1000, 1001, None)] == [
        "T1",
        "T1",
        "T2",
        "T100",
        None,
        None,
    ]


def test_figure_15_both_implementations_of_a_selector_choose_what_its_predicate_does():
    table, a = figure_5(), Column("R.A", INTEGER)
    values = [7, 33, 34, None, 2000]
    by_equality = {table.partition_of([value]) for value in values} - {None}
    rows = [{"R.A": Literal(value, INTEGER)} for value in values]
    assert by_equality == table.choose([compare(PK, "=", a)], rows)
    by_range = {oid for oid, interval in table.bounds() if isinstance(interval.low, int) and interval.low < 35}
    assert by_range == table.select([compare(PK, "<", 35)])


DAY, REGION = Column("date", DATE), Column("region", STRING)
MONTHS = [datetime.date(2012 + i // 12, i % 12 + 1, 1) for i in range(25)]


def figure_9() -> PartitionedTable:
    """Two years of months, each split into regions."""
    months = {
        f"{i + 1}": Constraint(
            IntervalSet(DATE, (Interval(_days(MONTHS[i]), _days(MONTHS[i + 1]), high_closed=False),))
        )
        for i in range(24)
    }
    regions = {f"{j}": Constraint(IntervalSet.point(STRING, f"Region {j}")) for j in range(1, 5)}
    return PartitionedTable.by_levels("orders", [Level(DAY, months), Level(REGION, regions)])


def _days(day: datetime.date) -> int:
    value = literal(day, DATE).value
    assert isinstance(value, int)
    return value


JANUARY = between(DAY, datetime.date(2012, 1, 1), datetime.date(2012, 1, 31))


@pytest.mark.parametrize(
    ("predicates", "selected"),
    [
        ([JANUARY, None], {f"1/{j}" for j in range(1, 5)}),
        ([None, compare(REGION, "=", "Region 1")], {f"{i}/1" for i in range(1, 25)}),
        ([JANUARY, compare(REGION, "=", "Region 1")], {"1/1"}),
        ([None, None], {f"{i}/{j}" for i in range(1, 25) for j in range(1, 5)}),
    ],
)
def test_figure_10_selects_on_several_levels(predicates, selected):
    assert figure_9().select(predicates) == selected


def test_a_default_partition_has_what_no_other_takes_and_null_with_it():
    level = Level(PK, {"low": within(None, 9), "high": within(100, None), "rest": DEFAULT})
    table = PartitionedTable.by_levels("t", [level])
    assert [table.partition_of([value]) for value in (5, 10, 99, 100, None)] == ["low", "rest", "rest", "high", "rest"]
    assert table.select([compare(PK, "=", 50)]) == {"rest"}
    assert table.select([is_null(PK)]) == {"rest"}


def test_null_has_its_own_partition_where_one_says_so():
    hive = Constraint(IntervalSet.empty(INTEGER), nulls=True)  # __HIVE_DEFAULT_PARTITION__
    level = Level(PK, {"1": within(1, 1), "2": within(2, 2), "null": hive, "rest": DEFAULT})
    table = PartitionedTable.by_levels("t", [level])
    assert table.partition_of([None]) == "null"
    assert table.select([is_null(PK)]) == {"null"}
    assert table.select([is_not_null(PK)]) == {"1", "2", "rest"}
    assert table.select([compare(PK, "<=>", Literal(None, INTEGER))]) == {"null"}
    assert table.select([compare(PK, "=", Literal(None, INTEGER))]) == frozenset()


def test_constraints_that_overlap_select_all_that_may_hold_a_row():
    parts = (Partition("a", (within(0, 10, nulls=True),)), Partition("b", (within(5, 15),)))
    table = PartitionedTable("blocks", (PK,), parts)
    assert table.select([compare(PK, "=", 7)]) == {"a", "b"}
    assert table.select([compare(PK, ">", 10)]) == {"b"}
    with pytest.raises(SidestepError, match="a, b of blocks all may hold"):
        table.partition_of([7])


def test_what_cannot_be_decided_is_selected():
    table = PartitionedTable.by_levels(
        "t", [Level(REGION, {"x": Constraint(IntervalSet.point(STRING, "x")), "y": DEFAULT})]
    )
    assert table.select([is_like(REGION, "%z%")]) >= {"y"}


def test_tables_that_make_no_sense_are_refused():
    with pytest.raises(SidestepError, match="one default partition"):
        PartitionedTable.by_levels("t", [Level(PK, {"a": DEFAULT, "b": DEFAULT})])
    with pytest.raises(SidestepError, match="a constraint for each of 1 keys"):
        PartitionedTable("t", (PK,), (Partition("a", ()),))
    with pytest.raises(SidestepError, match="same name"):
        PartitionedTable("t", (PK,), (Partition("a", (within(0, 1),)), Partition("a", (within(2, 3),))))


_values = st.integers(-3, 12)
_ends = st.one_of(st.none(), _values)


@st.composite
def _constraints(draw: st.DrawFn) -> Constraint:
    intervals = draw(st.lists(st.tuples(_ends, _ends, st.booleans(), st.booleans()), max_size=3))
    kept = [
        Interval(low, high, low_closed=a, high_closed=b)
        for low, high, a, b in intervals
        if low is None or high is None or low <= high
    ]
    return Constraint(IntervalSet(INTEGER, tuple(kept)), draw(st.booleans()))


_atoms: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(lambda op, v: compare(PK, op, v), st.sampled_from(["=", "<", "<=", ">", ">="]), _values),
    st.builds(lambda vs: one_of(PK, vs), st.lists(_values, min_size=1, max_size=4)),
    st.just(is_null(PK)),
    st.builds(lambda op: compare(PK, op, Column("r", INTEGER)), st.sampled_from(["=", "<=>", "<", ">="])),
)
_predicates = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda c: And(tuple(c))),
        st.lists(inner, max_size=3).map(lambda c: Or(tuple(c))),
        inner.map(negation),
    ),
    max_leaves=6,
)


@given(st.lists(_constraints(), min_size=1, max_size=5), _predicates, st.one_of(st.none(), _values))
def test_every_partition_that_may_satisfy_a_predicate_is_selected(constraints, predicate, other):
    table = PartitionedTable("t", (PK,), tuple(Partition(str(i), (each,)) for i, each in enumerate(constraints)))
    selected = table.select([bind(predicate, {"r": Literal(other, INTEGER)})])
    for value in [None, *range(-5, 15)]:
        if evaluate(predicate, {"pk": value, "r": other}) is True:
            holding = {part.oid for part in table.partitions if part.constraints[0].holds(value)}
            assert holding <= selected, value
