"""What every selection of features shares: candidates at several thresholds, folds over time, and when fewer will do.

Features are selected twice. ``analyze`` knows the log alone: it tunes the number of features and the threshold
(:mod:`.tune`). A load knows a sample of the rows as well, and takes the candidates that save most of them
(:mod:`sidestep.advisor.layouts.select`). Both learn from the past, are judged by the queries that came later, and stop
where more features hardly help.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sidestep.workload.features.extract import (
    AugmentedWorkload,
    ExtractOptions,
    PredicateSet,
    Weights,
    predicate_sets,
)
from sidestep.workload.features.mining import Miner, TooManySets, Transaction, closed_sets
from sidestep.workload.table import TableWorkload

SHARES = (0.01, 0.0125, 0.02, 0.03, 0.05, 0.08)
"""Thresholds T that are tried, as shares of the queries: 8 to 64 of the thesis's 800."""

FOLDS = 4
"""Windows of time that are predicted, each from all queries before it."""

NEAR = 0.02
"""Fewer features are taken if they come within this share of the best."""


def threshold_at(share: float, total: int) -> int:
    """The threshold T that is a share of ``total`` queries."""
    return max(1, round(share * total))


def candidate_sets(
    augmented: AugmentedWorkload,
    options: ExtractOptions | None = None,
    miner: Miner = closed_sets,
    shares: Sequence[float] = SHARES,
) -> list[PredicateSet]:
    """The predicate sets that survive elimination at one threshold or another, each once.

    A low T lets strict sets displace general ones, a high T loses what only some queries have in common. Which are
    better cannot be seen in the log: the rows decide.
    """
    workload = augmented.workload
    most_items = (options or ExtractOptions()).most_items
    distinct: dict[tuple[int, ...], PredicateSet] = {}
    learning = _with_limit(miner)
    for threshold in sorted({threshold_at(share, workload.total) for share in shares}, reverse=True):
        at_threshold = ExtractOptions(threshold=threshold, rank="weight", most_items=most_items)
        for candidate in predicate_sets(augmented, workload.weights, at_threshold, learning):
            distinct.setdefault(candidate.items, candidate)
    return list(distinct.values())


def _with_limit(miner: Miner) -> Miner:
    """The miner, which gives up at once on as many items as were too many before.

    Thresholds are tried from the highest on: at a lower one the same items have more sets, not fewer.
    """
    too_many = math.inf

    def mine(transactions: Sequence[Transaction], min_support: int) -> Iterable[Transaction]:
        nonlocal too_many
        items = len(frozenset().union(*(held for held, _ in transactions)))
        if items >= too_many:
            raise TooManySets(f"There were too many sets of {too_many:,} items.")
        try:
            return miner(transactions, min_support)
        except TooManySets:
            too_many = items
            raise

    return mine


def time_folds(workload: TableWorkload, folds: int = FOLDS) -> list[tuple[Weights, Weights]]:
    """Cross-validation over time: for each window but the first, the weights of all filters before it and those in it.

    The scans are divided into ``folds + 1`` windows of about equal weight, each run going where it begins. A fold whose
    past or whose window is empty is left out.
    """
    total, passed = workload.total, 0
    windows = np.zeros((folds + 1, len(workload.filters)), np.int64)
    for run in workload.scans:
        windows[min(passed * (folds + 1) // total, folds), run.filter] += run.weight
        passed += run.weight
    pairs = zip(np.cumsum(windows, axis=0)[:-1], windows[1:], strict=True)
    return [(past, later) for past, later in pairs if past.any() and later.any()]


def fewest_near_best(scores: Mapping[int, float]) -> int:
    """The least number of features whose score comes within :data:`NEAR` of the best, higher being better.

    >>> fewest_near_best({5: 0.2, 10: 0.495, 20: 0.5}), fewest_near_best({0: -1.0, 1: -0.301, 2: -0.3})
    (10, 1)
    """
    best = max(scores.values())
    return min(number for number, score in scores.items() if score >= best - NEAR * abs(best))
