"""What a workload asks of each column: the ranges of its filters, and the columns that tables meet on."""

from __future__ import annotations

from dataclasses import replace

from sidestep.predicate import INTEGER, Column, IntervalSet, between, column, compare, disjunction, one_of
from sidestep.workload import JoinUse, LoggedQuery, Workload
from sidestep.workload.table import ColumnUsage, column_usage
from tests.workload.queries import query, workload

A, B = column("a", INTEGER), column("b", INTEGER)


def test_filters_on_one_column_are_one_set_and_equal_ones_are_counted():
    found = column_usage(
        workload(
            query(compare(A, ">=", 1), compare(A, "<", 5), count=3),
            query(between(A, 1, 4)),
            query(one_of(B, [7, 9]), table="other"),
        ),
        "sales",
    )
    assert found.ranges == {A: {IntervalSet.at_least(INTEGER, 1).intersect(IntervalSet.at_most(INTEGER, 4)): 4}}
    assert (found.scans("a"), found.scans("b"), found.uses("a")) == (4, 0, 4)


def test_a_choice_bounds_a_column_only_if_all_of_it_does():
    either = disjunction(compare(A, "=", 1), compare(A, "=", 9))
    other = disjunction(compare(A, "=", 1), compare(B, "=", 9))
    assert column_usage(workload(query(either)), "sales").ranges == {A: {IntervalSet.points(INTEGER, [1, 9]): 1}}
    assert column_usage(workload(query(other)), "sales") == ColumnUsage()


def test_join_keys_count_on_both_sides():
    joining = replace(query(count=2), joins=(JoinUse(("sales", "a"), ("shops", "b")),))
    assert column_usage(Workload((joining,)), "sales").joins == {"a": 2}
    assert column_usage(Workload((joining,)), "shops").joins == {"b": 2}
    assert column_usage(Workload((joining,)), "sales").uses("a") == 2


def test_a_table_that_no_query_reads_is_asked_nothing():
    assert column_usage(Workload((LoggedQuery(()),)), "sales") == ColumnUsage()
    assert ColumnUsage().uses("a") == 0
    assert Column("a", INTEGER) == A
