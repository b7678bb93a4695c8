"""What all selections of features share: folds of time, thresholds, and when fewer features will do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sidestep.predicate import INTEGER, column, compare
from sidestep.workload import Workload, augment, table_workload
from sidestep.workload.features.mining import TooManySets, Transaction, closed_sets
from sidestep.workload.features.selection import (
    NEAR,
    candidate_sets,
    fewest_near_best,
    threshold_at,
    time_folds,
)
from tests.workload.queries import query, tpch

A = column("a", INTEGER)


def test_each_fold_predicts_a_window_from_all_before_it():
    log = Workload(tuple(query(compare(A, "=", number % 3), time=float(number)) for number in range(50)))
    table = table_workload(log, "sales")
    folds = time_folds(table, 4)
    assert [(int(past.sum()), int(later.sum())) for past, later in folds] == [(10, 10), (20, 10), (30, 10), (40, 10)]
    past, later = folds[-1]
    assert np.array_equal(past + later, table.weights)


def test_a_log_too_short_for_folds_has_none():
    assert time_folds(table_workload(Workload((query(compare(A, "=", 1)),)), "sales"), 4) == []
    assert time_folds(table_workload(Workload((query(),)), "sales"), 4) == []


def test_candidates_of_all_thresholds_come_once():
    augmented = augment(table_workload(tpch(200), "denormalized"))
    low, high = (candidate_sets(augmented, shares=(share,)) for share in (0.01, 0.08))
    both = candidate_sets(augmented, shares=(0.01, 0.08))
    items = [candidate.items for candidate in both]
    assert len(set(items)) == len(items)
    assert set(items) == {candidate.items for candidate in (*low, *high)}
    assert all(candidate.weight >= threshold_at(0.08, 200) for candidate in high)
    assert threshold_at(0.001, 20) == 1


def test_items_that_were_too_many_are_not_mined_again_at_a_lower_threshold():
    asked: list[int] = []

    def miner(transactions: Sequence[Transaction], min_support: int) -> Iterable[Transaction]:
        asked.append(len({item for held, _ in transactions for item in held}))
        if asked[-1] > 4:
            raise TooManySets
        return closed_sets(transactions, min_support)

    candidate_sets(augment(table_workload(tpch(200), "denormalized")), miner=miner)
    too_many = [items for items in asked if items > 4]
    assert len(too_many) > 1
    assert all(later < before for before, later in pairwise(too_many))


@given(st.dictionaries(st.integers(0, 40), st.floats(-1, 1), min_size=1))
def test_the_fewest_that_come_near_the_best(scores):
    number = fewest_near_best(scores)
    best = max(scores.values())
    assert scores[number] >= best - NEAR * abs(best)
    assert not any(score >= best - NEAR * abs(best) for fewer, score in scores.items() if fewer < number)
