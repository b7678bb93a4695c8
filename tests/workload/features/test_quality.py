"""Curves, coverage, and the number of features that a log alone suggests."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.predicate import INTEGER, column, compare
from sidestep.workload import (
    ExtractOptions,
    ScanRun,
    Workload,
    augment,
    commonality,
    coverage,
    stability,
    table_workload,
    tune_parameters,
)
from sidestep.workload.features.quality import equal_windows
from tests.workload.queries import extract, query, tpch, workload

A, B = column("a", INTEGER), column("b", INTEGER)


def equal_to(value, **about):
    return query(compare(A, "=", value), **about)


def augmented(log):
    return augment(table_workload(log, "sales"))


def test_commonality_counts_queries_that_use_one_of_the_top_filters():
    both = query(compare(A, "=", 2), compare(B, "=", 1), count=2)
    log = workload(equal_to(1, count=6), both, query(count=99))
    # a = 1 is used by 6 of 8 queries; then either of the others covers the rest.
    assert commonality(augmented(log)).points == ((0.0, 0.0), (1 / 3, 0.75), (2 / 3, 1.0), (1.0, 1.0))


def test_stability_is_the_diagonal_if_every_filter_is_new():
    log = Workload(tuple(equal_to(n, time=float(n)) for n in range(100)))
    for x, y in stability(augmented(log)).points:
        assert y == pytest.approx(x, abs=0.03)


def test_stability_of_one_filter_is_full_at_once():
    log = Workload(tuple(equal_to(1, time=float(n)) for n in range(100)))
    assert stability(augmented(log), windows=1).at(0.02) == 1.0


def test_stability_goes_by_time_and_not_by_place():
    queries = [equal_to(n % 2 if n < 50 else n, time=float(n)) for n in range(100)]
    forward = stability(augmented(Workload(tuple(queries))))
    assert stability(augmented(Workload(tuple(reversed(queries))))) == forward


def test_a_folded_query_is_spread_over_its_time():
    often = dataclasses.replace(equal_to(1, count=1_000_000, time=0.0), last_time=100.0)
    log = workload(often, equal_to(2, time=50.0))
    folded = table_workload(log, "sales")
    assert folded.total == 1_000_001
    assert [scan.weight for scan in folded.scans if scan.weight > 1] == [62_500] * 16
    position = [scan.weight for scan in folded.scans].index(1)
    assert 7 <= position <= 9


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30), st.integers(1, 7))
def test_windows_are_of_equal_weight_and_lose_nothing(weights, count):
    scans = [ScanRun(n, weight) for n, weight in enumerate(weights)]
    windows = equal_windows(scans, count)
    sums = [sum(scan.weight for scan in window) for window in windows]
    assert sum(sums) == sum(weights)
    assert max(sums) - min(sums) <= 1
    assert [scan.filter for window in windows for scan in window] == sorted(
        scan.filter for window in windows for scan in window
    )


def test_coverage_grows_with_features():
    log = workload(equal_to(1, count=6), equal_to(2, count=3), equal_to(3))
    found = extract(log, "sales", ExtractOptions(threshold=2))
    assert coverage(table_workload(log, "sales"), found.features).points == ((0.0, 0.0), (1.0, 0.6), (2.0, 0.9))
    assert found.coverage == 0.9


def test_curves_of_nothing():
    empty = augmented(workload(query(count=3)))
    assert commonality(empty).points == ((0.0, 0.0),)
    assert stability(empty).points == ()
    assert stability(empty).at(0.5) == 0.0
    assert coverage(empty.workload, ()).points == ((0.0, 0.0),)
    assert tune_parameters(empty) is None


def test_choice_by_what_followed():
    log = tpch(400)
    folded = augment(table_workload(log, "denormalized"))
    chosen = tune_parameters(folded)
    assert chosen is not None
    assert tune_parameters(folded) == chosen
    scores = {(score.num_features, score.share): score for score in chosen.scores}
    best = max(score.skipped for score in chosen.scores)
    assert scores[chosen.num_features, chosen.share].skipped >= best * 0.98
    few = min(chosen.scores, key=lambda score: score.num_features)
    assert chosen.num_features > few.num_features
    options = chosen.apply_to(ExtractOptions())
    later = table_workload(tpch(80, seed=77), "denormalized")
    found = extract(log, "denormalized", options)
    assert coverage(later, found.features).points[-1][1] > 0.7


def test_too_short_to_choose():
    assert tune_parameters(augmented(workload(equal_to(1, count=5)))) is None
