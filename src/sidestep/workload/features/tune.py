"""The number of features and the threshold T, chosen by cross-validation over time (thesis, 3.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sidestep.predicate import All, Any, Compares, Formula, Holds, Matches, Null, Within
from sidestep.workload.features.extract import (
    AugmentedWorkload,
    ExtractOptions,
    PredicateSet,
    Weights,
    predicate_sets,
)
from sidestep.workload.features.mining import Miner, closed_sets
from sidestep.workload.features.selection import SHARES, fewest_near_best, threshold_at, time_folds

NUM_FEATURES = (2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40)
TUNED_SHARES = (0.005, *SHARES)
"""Thresholds that are tried, as shares of the queries: without rows to judge by, very low ones too."""

MOST_ITEMS = 64
"""Predicates that are mined for each trial: what is asked is which does better, not what comes out."""

FEWEST_SCANS = 20
"""A log of fewer scans is not divided: a part of it would say nothing."""

Selectivities = npt.NDArray[np.float64]
"""For each item of a workload, the share of rows that satisfy it."""


@dataclass(frozen=True, slots=True)
class Score:
    """How a number of features and a threshold did on the queries that came later."""

    num_features: int
    share: float
    """T as a share of the queries learned from."""
    coverage: float
    """The share of later queries that some feature subsumes."""
    skipped: float
    """The share of rows that the best feature for each later query would leave out."""


@dataclass(frozen=True, slots=True)
class TunedParameters:
    """The number of features and the threshold that did best, and all that was tried."""

    num_features: int
    threshold: int
    share: float
    scores: tuple[Score, ...]

    def apply_to(self, options: ExtractOptions) -> ExtractOptions:
        """The options with what was chosen."""
        return replace(options, num_features=self.num_features, threshold=self.threshold)


def tune_parameters(
    augmented: AugmentedWorkload, options: ExtractOptions | None = None, miner: Miner = closed_sets
) -> TunedParameters | None:
    """Learn from the past, score on what followed, and take what did best; None if the log is too short for that.

    Each window of time is predicted from all before it (:func:`~.selection.time_folds`). Coverage alone would reward
    features so general that no block can be skipped with them. So a later query scores the share of rows that its
    strictest subsuming feature leaves out, by :func:`assumed_selectivity` as no data is at hand. Of thresholds that do
    equally well the highest is taken, and the fewest features that come within :data:`~.selection.NEAR` of the best
    score.
    """
    chosen = options or ExtractOptions()
    chosen = replace(chosen, most_items=min(chosen.most_items, MOST_ITEMS))
    workload = augmented.workload
    if workload.total < FEWEST_SCANS or not augmented.items:
        return None
    selectivities = np.array([assumed_selectivity(item.formula) for item in augmented.items])
    results: dict[tuple[int, float], list[tuple[float, float, int]]] = {}
    for past, later in time_folds(workload):
        for share in TUNED_SHARES:
            threshold = threshold_at(share, int(past.sum()))
            ranked = predicate_sets(augmented, past, replace(chosen, threshold=threshold), miner)
            for count, coverage, skipped in _score(ranked, augmented, selectivities, later):
                results.setdefault((count, share), []).append((coverage, skipped, int(later.sum())))
    scores = tuple(
        Score(
            count,
            share,
            float(np.average([coverage for coverage, _, _ in folds], weights=[weight for _, _, weight in folds])),
            float(np.average([skipped for _, skipped, _ in folds], weights=[weight for _, _, weight in folds])),
        )
        for (count, share), folds in sorted(results.items())
    )
    best = max(scores, key=lambda score: (round(score.skipped, 6), score.share, -score.num_features))
    enough = fewest_near_best({score.num_features: score.skipped for score in scores if score.share == best.share})
    return TunedParameters(enough, threshold_at(best.share, workload.total), best.share, scores)


def assumed_selectivity(formula: Formula) -> float:
    """The share of rows that satisfy a formula, assumed from its form alone, as optimizers do without statistics.

    >>> from sidestep.predicate import INTEGER, column, compare, normalize
    >>> a = column("a", INTEGER)
    >>> assumed_selectivity(normalize(compare(a, "=", 1))), assumed_selectivity(normalize(compare(a, "<>", 1)))
    (0.1, 0.9)
    """
    match formula:
        case Within(ranges=ranges):
            if ranges.intervals[0].low is None and ranges.intervals[-1].high is None:
                return 0.9
            return min(0.5, sum(0.1 if interval.is_point else 1 / 3 for interval in ranges.intervals))
        case Compares(op=op):
            return {"=": 0.1, "<>": 0.9}.get(op, 1 / 3)
        case Matches(negated=negated):
            return 0.9 if negated else 0.1
        case Null():
            return 0.1
        case Holds():
            return 0.25
        case All(children=children):
            return float(np.prod([assumed_selectivity(child) for child in children]))
        case Any(children=children):
            return min(0.9, sum(assumed_selectivity(child) for child in children))


def _score(
    ranked: Sequence[PredicateSet], augmented: AugmentedWorkload, selectivities: Selectivities, later: Weights
) -> list[tuple[int, float, float]]:
    """For each number of features: coverage of the later queries, and the share of rows they skip."""
    total = int(later.sum())
    read = np.ones(len(later))
    covered = np.zeros(len(later), np.bool_)
    scores = []
    for number in range(1, max(NUM_FEATURES) + 1):
        if number <= len(ranked):
            one = ranked[number - 1]
            covered |= one.subsumes
            read[one.subsumes] = np.minimum(read[one.subsumes], _selectivity_of_set(one, augmented, selectivities))
        if number in NUM_FEATURES:
            skipped = float(((1 - read) * later).sum()) / total
            scores.append((number, int(later[covered].sum()) / total, skipped))
    return scores


def _selectivity_of_set(
    predicate_set: PredicateSet, augmented: AugmentedWorkload, selectivities: Selectivities
) -> float:
    """The share of rows for a predicate set: the strictest predicate of each group of columns, as if independent."""
    strictest: dict[frozenset[str], float] = {}
    for at in predicate_set.items:
        columns = frozenset(column.name for column in augmented.items[at].columns)
        strictest[columns] = min(strictest.get(columns, 1.0), float(selectivities[at]))
    return float(np.prod(list(strictest.values())))
