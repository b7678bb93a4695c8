"""Later queries judge: they are not those that layouts are made from."""

from __future__ import annotations

from sidestep.advisor.layouts.hold_out import hold_out, judged_queries
from sidestep.predicate import INTEGER, column, compare
from sidestep.workload import LoggedQuery, TableUse, Workload, table_workload
from sidestep.workload.table import split_by_time

A = column("a", INTEGER)


def query(value: int, *, count: int = 1, time: float | None = None, last: float | None = None) -> LoggedQuery:
    use = TableUse("t", frozenset({compare(A, "=", value)}), frozenset("ab"))
    return LoggedQuery((use,), count=count, time=time, last_time=last)


def test_the_last_part_of_a_log_is_held_out() -> None:
    log = Workload(tuple(query(value) for value in range(100)))
    held = hold_out(log, table_workload(log, "t"))
    assert len(held.early.queries) == 60
    assert held.past.sum() == 60
    assert held.judges.weights.sum() == 40
    early = {one.formula for one in judged_queries(held.early, "t")}
    assert not early & set(held.judges.formulas)
    assert held.judges.columns is not None
    assert set(held.judges.columns) == {frozenset("ab")}


def test_a_repeated_query_is_in_both_parts_as_often_as_it_ran_in_either() -> None:
    often = query(1, count=100, time=0.0, last=100.0)
    early, late = split_by_time(Workload((often, query(2, time=99.0))), "t", 0.4)
    assert sum(one.count for one in early.queries) + sum(one.count for one in late.queries) == 101
    assert abs(sum(one.count for one in late.queries) - 40) <= 7, "in sixteen pieces"
    assert [one.uses for one in early.queries] == [often.uses]


def test_queries_without_a_filter_judge_too() -> None:
    use = TableUse("t", frozenset(), frozenset("a"))
    log = Workload((*(query(value) for value in range(60)), *(LoggedQuery((use,)) for _ in range(40))))
    held = hold_out(log, table_workload(log, "t"))
    assert len(held.judges.formulas) == 1
    assert held.judges.weights.tolist() == [40.0]


def test_a_short_log_judges_itself_and_a_test_log_judges_alone() -> None:
    log = Workload(tuple(query(value) for value in range(5)))
    table = table_workload(log, "t")
    assert hold_out(log, table).early is log
    later = Workload((query(7),))
    assert len(hold_out(log, table, later).judges.formulas) == 1
