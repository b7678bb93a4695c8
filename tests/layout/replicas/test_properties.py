"""What holds for every workload, every scheme and every budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.layout import pack, reduce_vectors, unpack
from sidestep.layout.replicas.basic import copy_fully, replicate_selectively
from sidestep.layout.replicas.costs import layout_reads, retrieve, scheme_cost
from sidestep.layout.replicas.paths import AS_RUN, PathCost, find_path, greedy_path, optimal_path
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.schemes import ReplicaLayout, ReplicaScheme
from sidestep.layout.replicas.search import SEARCH_COST, search_replicas
from tests.layout.columns.inputs import Case, cases
from tests.layout.columns.test_properties import satisfied
from tests.layout.replicas.inputs import Laid, cells, figure_rows, laid_out

CHOICES = st.dictionaries(
    st.integers(0, 5), st.lists(st.integers(0, 4), min_size=1, max_size=4, unique=True), min_size=1, max_size=4
)
ROWS = st.lists(st.integers(0, 100).map(float), min_size=5, max_size=5)


@given(CHOICES, ROWS, st.booleans())
def test_the_greedy_path_costs_at_most_twice_the_optimum(eligible, rows, always):
    cost = PathCost(always=always)
    greedy, optimum = greedy_path(eligible, rows), optimal_path(eligible, rows, cost)
    assert all(greedy[column] in layouts for column, layouts in eligible.items())
    assert cost.of(optimum, rows) <= cost.of(greedy, rows) <= 2 * cost.of(optimum, rows)
    assert cost.of(find_path(eligible, rows, cost), rows) == cost.of(optimum, rows), "few paths are all tried"


@given(CHOICES, ROWS)
def test_many_paths_are_not_all_tried(eligible, rows):
    wide = dict(enumerate([[0, 1, 2, 3, 4]] * 8))
    found = find_path(wide, rows)
    assert AS_RUN.of(found, rows) == 8 * min(rows), "one layout that has everything needs no row ids"
    assert AS_RUN.of(find_path(eligible | wide, rows), rows) <= AS_RUN.of(greedy_path(eligible | wide, rows), rows)


@settings(max_examples=25)
@given(laid_out(), st.booleans())
def test_paths_lead_to_all_rows_that_a_filter_wants(laid: Laid, always: bool):
    """An eligible layout holds each row that a filter wants, and reads it; others are read for masters alone."""
    workload, rows, bits = laid.case.workload, laid.rows, unpack(laid.case.vectors.words, laid.case.workload.features)
    reads = [layout_reads(workload, layout, rows) for layout in laid.scheme.layouts]
    for at, number in enumerate(workload.filter_of_query):
        wanted = satisfied(workload.filters[number], bits)
        for each in reads:
            if each.eligible[at]:
                assert not (wanted & ~rows.selected(each.layout.features)).any()
            least = laid.case.vectors.counts[wanted].sum()
            assert least <= each.rows[at] <= rows.total
    cost = PathCost(always=always)
    found = retrieve(workload.reads, reads, cost)
    for at, path in enumerate(found.layout):
        assert (path >= 0).tolist() == workload.reads[at].tolist()
        chosen = {column: int(layout) for column, layout in enumerate(path) if layout >= 0}
        for column, layout in chosen.items():
            assert column in reads[layout].layout.masters or reads[layout].eligible[at]
        of = [each.rows[at] for each in reads]
        eligible = {
            column: [
                number
                for number, each in enumerate(reads)
                if column in each.layout.masters or (column in each.layout.columns and each.eligible[at])
            ]
            for column in chosen
        }
        assert np.isclose(found.cost(cost)[at], cost.of(chosen, of))
        assert found.cost(cost)[at] <= cost.of(greedy_path(eligible, of), of) + 1e-9
        assert found.cost(cost)[at] <= 2 * cost.of(optimal_path(eligible, of, cost), of) + 1e-9


@settings(max_examples=25)
@given(laid_out())
def test_every_cell_is_stored_once_at_least(laid: Laid):
    scheme, rows = laid.scheme, laid.rows
    assert sorted(c for layout in scheme.layouts for c in layout.masters) == list(range(scheme.columns))
    assert scheme.storage(rows.count, rows.total) >= 1
    assert ReplicaScheme.of(scheme.columns, scheme.cells, rows.count) == scheme
    stored = 0.0
    for layout in scheme.layouts:
        some = laid.case.vectors.counts[rows.selected(layout.features)].sum()
        stored += some * len(layout.columns) + (rows.total - some) * len(layout.masters)
    assert np.isclose(scheme.storage(rows.count, rows.total), stored / (rows.total * scheme.columns))


@settings(max_examples=10)
@given(cases(most_columns=4), st.floats(1, 4))
def test_a_search_keeps_within_its_budget_and_never_gets_worse(case: Case, budget: float):
    rows = LayoutRows(case.workload, case.vectors, case.block, case.most_vectors)
    found = search_replicas(case.workload, rows, budget)
    assert all(rated.storage <= budget + 1e-6 for rated in found.path)
    assert found.best.cost <= found.path[0].cost
    assert np.isclose(found.best.cost, scheme_cost(case.workload, found.best.scheme, rows, SEARCH_COST))
    candidates = found.candidates
    assert candidates[0].cost == found.best.cost
    assert found.path[0].scheme in [one.scheme for one in candidates], "what it began with may be best after all"
    assert all(one.storage <= budget + 1e-6 for one in candidates)
    assert len({one.scheme for one in candidates}) == len(candidates) <= 4 * (1 + len(found.others))
    everything = [frozenset(range(len(case.workload.columns)))]
    selected = replicate_selectively(case.workload, rows, budget, everything)
    assert selected.best.storage <= budget + 1e-6
    assert selected.best.cost <= selected.path[0].cost


@settings(max_examples=10)
@given(cases(most_columns=4), st.integers(1, 3))
def test_full_copies_hold_everything(case: Case, copies: int):
    rows = LayoutRows(case.workload, case.vectors, case.block, case.most_vectors)
    found = copy_fully(case.workload, rows, copies)
    assert found.best.storage == len(found.copies) <= copies
    for copy in found.copies:
        assert sorted(column for layout in copy for column in layout.masters) == list(range(len(case.workload.columns)))


@pytest.mark.parametrize("budget", [0.99, 0, -1, float("nan")])
def test_a_budget_below_one_is_refused(budget: float):
    rows = figure_rows()
    with pytest.raises(SidestepError, match="at least 1"):
        search_replicas(rows.workload, rows, budget)


@pytest.mark.parametrize("budget", [1, 1.0, 1e9, float("inf")])
def test_budgets_of_one_and_without_limit(budget: float):
    rows = figure_rows()
    found = search_replicas(rows.workload, rows, budget)
    assert found.best.storage == 1 if budget == 1 else found.best.storage <= 4


def test_features_that_select_every_row_or_none():
    rows = figure_rows()
    every, none = np.ones((4, 1), bool), np.zeros((4, 1), bool)
    workload = rows.workload
    odd = LayoutRows(workload, reduce_vectors(pack(np.hstack([every, none, none])), 3), 2)
    found = search_replicas(workload, odd, 2.0)
    assert found.best.storage <= 2
    assert odd.count(frozenset({1, 2})) == 0
    empty = ReplicaScheme.of(4, [cells({0, 1, 2, 3}, {1}), cells({0}, {0})], odd.count)
    assert empty.storage(odd.count, 4) == 1, "a feature without rows takes no storage, and its masters are elsewhere"


@pytest.mark.parametrize(
    ("layouts", "reason"),
    [
        ([], "masters of no layout"),
        ([ReplicaLayout(frozenset({0, 1}), frozenset({0}), frozenset({0}))], "masters of no layout"),
        ([ReplicaLayout(frozenset({0, 5}), frozenset(), frozenset({0, 5}))], "other columns"),
    ],
)
def test_incomplete_schemes_cannot_be_made(layouts, reason):
    with pytest.raises(SidestepError, match=reason):
        ReplicaScheme(2, tuple(layouts))


@pytest.mark.parametrize(
    ("columns", "features", "masters"), [(set(), {0}, set()), ({0}, {0}, {1}), ({0, 1}, set(), {0})]
)
def test_layouts_that_make_no_sense_cannot_be_made(columns, features, masters):
    with pytest.raises(SidestepError):
        ReplicaLayout(frozenset(columns), frozenset(features), frozenset(masters))
