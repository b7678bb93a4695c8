"""The number of features and the threshold T, chosen by cross-validation over time (thesis, 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sidestep.predicate import All, Any, Compares, Formula, Holds, Matches, Null, Within
from sidestep.workload.features.extract import Augmented, Options, PredicateSet, predicate_sets
from sidestep.workload.features.mining import Miner, closed_sets
from sidestep.workload.table import Item, Scan

NUM_FEATURES = (2, 4, 6, 8, 10, 12, 15, 20, 25, 30, 40)
SHARES = (0.005, 0.01, 0.0125, 0.02, 0.03, 0.05, 0.08)
"""Thresholds that are tried, as shares of the queries: 4 to 64 of the thesis's 800."""

MOST_ITEMS = 64
"""Predicates that are mined for each thing tried: what is asked is which does better, not what comes out."""

FEWEST_SCANS = 20
"""A log of fewer scans is not divided: a part of it would say nothing."""

NEAR = 0.02
"""Fewer features are taken if they lose no more than this share of the best score."""

Selectivity = Callable[[Item], float]
"""The share of rows that satisfy a predicate."""


@dataclass(frozen=True, slots=True)
class Score:
    """What a number of features and a threshold were worth on queries that came after."""

    num_features: int
    share: float
    """T as a share of the queries learned from."""
    coverage: float
    """The share of later queries that some feature subsumes."""
    skipped: float
    """The share of rows that the best feature for each later query would leave out."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The number of features and the threshold that did best, and all that was tried."""

    num_features: int
    threshold: int
    share: float
    scores: tuple[Score, ...]

    def applied(self, options: Options) -> Options:
        """The options with what was chosen."""
        return replace(options, num_features=self.num_features, threshold=self.threshold)


def choose(
    augmented: Augmented,
    options: Options | None = None,
    miner: Miner = closed_sets,
    selectivity: Selectivity | None = None,
    num_features: Sequence[int] = NUM_FEATURES,
    shares: Sequence[float] = SHARES,
    folds: int = 4,
) -> Choice | None:
    """Learn from the past, score on what followed, and take what did best; None if the log is too short to tell.

    The scans are cut into ``folds + 1`` windows of time; each window after the first is predicted from all before it.
    Coverage alone would reward features so general that no block can be skipped with them. So a later query scores the
    share of rows that its strictest subsuming feature leaves out, by the selectivity given or, as no data is at hand,
    by :func:`assumed_selectivity`. Of thresholds that do equally well the highest is taken, and the fewest features
    that come within :data:`NEAR` of the best score.
    """
    chosen = options or Options()
    chosen = replace(chosen, most_items=min(chosen.most_items, MOST_ITEMS))
    workload = augmented.workload
    if workload.total < FEWEST_SCANS or not augmented.items:
        return None
    passing = np.array([(selectivity or assumed_selectivity)(item) for item in augmented.items])
    results: dict[tuple[int, float], list[tuple[float, float, int]]] = {}
    for past, later in _folds(workload.scans, folds):
        known, coming = workload.weights_of(past), workload.weights_of(later)
        for share in shares:
            threshold = max(1, round(share * int(known.sum())))
            ranked = predicate_sets(augmented, known, replace(chosen, threshold=threshold), miner)
            for count, coverage, skipped in _scored(ranked, augmented, passing, coming, num_features):
                results.setdefault((count, share), []).append((coverage, skipped, int(coming.sum())))
    scores = tuple(
        Score(
            count,
            share,
            float(np.average([c for c, _, _ in found], weights=[w for _, _, w in found])),
            float(np.average([s for _, s, _ in found], weights=[w for _, _, w in found])),
        )
        for (count, share), found in sorted(results.items())
    )
    best = max(scores, key=lambda score: (round(score.skipped, 6), score.share, -score.num_features))
    enough = [s for s in scores if s.share == best.share and s.skipped >= best.skipped * (1 - NEAR)]
    least = min(enough, key=lambda score: score.num_features)
    return Choice(least.num_features, max(1, round(least.share * workload.total)), least.share, scores)


def assumed_selectivity(item: Item) -> float:
    """A guess at the share of rows that satisfy a predicate, from its form alone, as optimizers do without statistics.

    >>> from sidestep.predicate import INTEGER, column, compare, normalize
    >>> a = column("a", INTEGER)
    >>> guess(normalize(compare(a, "=", 1))), guess(normalize(compare(a, "<>", 1)))
    (0.1, 0.9)
    """
    return guess(item.formula)


def guess(formula: Formula) -> float:
    """The share of rows for which a formula is guessed to hold."""
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
            return float(np.prod([guess(child) for child in children]))
        case Any(children=children):
            return min(0.9, sum(guess(child) for child in children))


def _scored(
    ranked: Sequence[PredicateSet],
    augmented: Augmented,
    passing: np.ndarray[tuple[int], np.dtype[np.float64]],
    coming: np.ndarray[tuple[int], np.dtype[np.int64]],
    num_features: Sequence[int],
) -> list[tuple[int, float, float]]:
    """For each number of features: coverage of the coming queries, and the share of rows they skip."""
    total = int(coming.sum())
    read = np.ones(len(coming))
    covered = np.zeros(len(coming), np.bool_)
    found = []
    for number in range(1, max(num_features) + 1):
        if number <= len(ranked):
            one = ranked[number - 1]
            covered |= one.subsumes
            read[one.subsumes] = np.minimum(read[one.subsumes], _passing(one, augmented, passing))
        if number in num_features:
            skipped = float(((1 - read) * coming).sum()) / total
            found.append((number, int(coming[covered].sum()) / total, skipped))
    return found


def _passing(found: PredicateSet, augmented: Augmented, passing: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The share of rows for a predicate set: the strictest predicate of each group of columns, as if independent."""
    strictest: dict[frozenset[str], float] = {}
    for at in found.items:
        columns = frozenset(column.name for column in augmented.items[at].columns)
        strictest[columns] = min(strictest.get(columns, 1.0), float(passing[at]))
    return float(np.prod(list(strictest.values())))


def _folds(scans: Sequence[Scan], folds: int) -> list[tuple[list[Scan], list[Scan]]]:
    """The past and what followed it, for each window of time but the first."""
    total = sum(scan.weight for scan in scans)
    windows: list[list[Scan]] = [[] for _ in range(folds + 1)]
    passed = 0
    for scan in scans:
        windows[min(passed * (folds + 1) // total, folds)].append(scan)
        passed += scan.weight
    found = []
    past: list[Scan] = []
    for window in windows:
        if past and window:
            found.append((list(past), window))
        past += window
    return found
