"""Copies of cells, chosen on a sample within a storage budget, and what later queries would read of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sidestep.advisor.families import replicas
from sidestep.advisor.families.replicas import cheapest
from sidestep.advisor.layouts.choose import Judges
from sidestep.advisor.layouts.column_groups import ColumnStudy, choose_groups, judge_groups
from sidestep.advisor.layouts.replicas import (
    ReplicaStudy,
    choose_replicas,
    judge_replicas,
    part_trials,
    storage_curve,
)
from sidestep.advisor.trials.column_queries import column_workload
from sidestep.advisor.trials.needs import Needs, needs_of
from sidestep.advisor.trials.sample import sample_of
from sidestep.errors import SidestepError
from sidestep.layout.replicas.search import SEARCH_COST
from sidestep.layout.vectors import pack
from sidestep.predicate import INTEGER, Predicate, all_of, column, compare, normalize
from sidestep.predicate.oracle import evaluate
from sidestep.workload import Feature, LoggedQuery, TableUse, Workload

A, B, C = (column(name, INTEGER) for name in "abc")
ASKED = [
    *((compare(A, "=", value), frozenset("ax")) for value in range(3)),
    *((compare(B, "=", value), frozenset("bxy")) for value in range(3)),
    *((compare(C, "=", value), frozenset("cxy")) for value in range(3)),
]
"""Queries that filter by three columns, and share others."""
EVERY, NONE = compare(A, ">=", 0), compare(A, ">", 1_000)


def study(queries: list[tuple[Predicate, frozenset[str]]], rows: int = 900) -> ColumnStudy:
    draw = np.random.default_rng(0)
    table = pa.table({name: draw.integers(0, 30, rows) for name in "abc"})
    distinct = list(dict.fromkeys(one for one, _ in queries))
    features = tuple(Feature((one,)) for one in distinct)
    rows_of = table.to_pylist()
    bits = np.array([[evaluate(one, row) is True for one in distinct] for row in rows_of], np.bool_)
    uses = (TableUse("t", frozenset({one}), read) for one, read in queries)
    asked = Workload(tuple(LoggedQuery((use,)) for use in uses))
    workload = column_workload(asked, "t", "abcxyz", [one.formula for one in features])
    sample = sample_of(table, dict.fromkeys("abc", INTEGER), rows)
    return ColumnStudy("t", workload, features, sample, pack(bits), 1_000, 30_000)


def judges(queries: list[tuple[Predicate, frozenset[str]]]) -> Judges:
    formulas = [all_of([normalize(one)]) for one, _ in queries]
    return Judges(formulas, np.ones(len(queries)), "these", [read for _, read in queries])


def test_copies_are_within_the_budget_and_cost_less() -> None:
    drawn = study(ASKED)
    chosen = choose_replicas(drawn, 1.5)
    assert chosen.replicated
    partial = [group for group in chosen.groups if group.rows is not None and group.rest_of is None]
    assert partial
    for group in chosen.groups:
        if group.rest_of is not None:
            partner = chosen.groups[group.rest_of]
            assert partner.rows == group.rows
            assert set(group.columns) <= set(partner.columns)
    complete = {name for group in chosen.groups if group not in partial for name in group.columns}
    assert complete == set("abcxyz")
    widths = dict.fromkeys("abcxyz", 8.0)
    copied = judge_replicas(drawn, chosen, judges(ASKED), widths, 10_000)
    plain = choose_groups(drawn)
    grouped = judge_groups(drawn, plain, judges(ASKED), widths, 10_000)
    assert copied.rows <= grouped.rows
    assert "times the table's cells" in chosen.summary


def test_what_filters_need_is_worked_out_once_for_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*args: Any) -> Needs:
        calls.append(args)
        return needs_of(*args)

    monkeypatch.setattr("sidestep.advisor.families.columns.needs_of", counted)
    drawn = study(ASKED)
    assert len(choose_replicas(drawn, 1.5).groups) > 1
    choose_groups(drawn)
    assert len(calls) == 1


def test_of_schemes_that_cost_about_as_much_the_one_of_fewest_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By all means, whatever they cost by features."""
    drawn = study(ASKED)
    searches = ReplicaStudy.of(drawn)
    found = sorted(searches.search(2.0).path, key=lambda one: -len(one.scheme.layouts))
    assert len({len(one.scheme.layouts) for one in found}) > 1
    most, fewest = found[0].scheme, found[-1].scheme
    asked = drawn.workload, searches.rows, part_trials(drawn, 300), SEARCH_COST
    for costs, expected in (
        ({most: 1.0, fewest: 1.004}, fewest),
        ({most: 1.0, fewest: 1.006}, most),
        ({most: 2.0, fewest: 1.0}, fewest),
    ):
        monkeypatch.setattr(replicas, "cost_of_parts", lambda _, scheme, *rest, costs=costs: costs.get(scheme, 9.0))
        assert cheapest(found, *asked).scheme == expected


def test_the_curve_falls_with_the_budget() -> None:
    points = storage_curve(study(ASKED), (1.0, 1.2, 1.5))
    assert [point.budget for point in points] == [1.0, 1.2, 1.5]
    assert points[0].cost == 1
    assert points[0].storage == 1
    assert points[0].cost >= points[1].cost >= points[2].cost
    assert all(point.storage <= point.budget + 1e-6 for point in points)


@pytest.mark.parametrize("storage", [1.1, 1e9])
@pytest.mark.parametrize("odd", [[EVERY], [NONE], [EVERY, NONE]], ids=["every row", "no row", "both"])
def test_features_of_every_row_or_none(odd: list[Predicate], storage: float) -> None:
    queries = [*ASKED, *((one, frozenset(read)) for one in odd for read in ("axy", "bcz"))]
    chosen = choose_replicas(study(queries), storage)
    assert {name for group in chosen.groups for name in group.columns} == set("abcxyz")
    if chosen.replicated:
        judge_replicas(study(queries), chosen, judges(queries), dict.fromkeys("abcxyz", 8.0), 10_000)


def test_a_budget_of_one_stores_nothing_twice() -> None:
    assert not choose_replicas(study(ASKED), 1.0).replicated
    with pytest.raises(SidestepError, match="at least 1"):
        choose_replicas(study(ASKED), 0.99)
