"""Which features to take: those that save most rows, by a sample of the table (beyond the thesis's 3.3.3)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sidestep.layout.demand import Demand, Demands, Range, folded, is_ranged
from sidestep.layout.vectors import Bits
from sidestep.predicate import IntervalSet
from sidestep.predicate.formula import necessary_ranges
from sidestep.workload import Augmented, Feature, Miner, Options, TableWorkload, closed_sets, subsumed_by
from sidestep.workload.features.extract import PredicateSet, predicate_sets

SHARES = (0.01, 0.0125, 0.02, 0.03, 0.05, 0.08)
"""Thresholds T whose predicate sets are candidates, as shares of the queries."""

NEAR = 0.02
"""Fewer features are taken if they read no more than this share above the best."""

MOST_FEATURES = 40
FOLDS = 4

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Selection:
    """Candidates in the order they were taken, and the share of rows that the judged queries read after each."""

    chosen: tuple[int, ...]
    reads: tuple[float, ...]
    """One more than chosen: the first is without any feature."""


def candidates(
    augmented: Augmented, options: Options | None = None, miner: Miner = closed_sets, shares: Sequence[float] = SHARES
) -> list[PredicateSet]:
    """The predicate sets that survive elimination at one threshold or another, each once.

    A low T lets strict sets displace general ones, a high T loses what only some queries have in common. Which are
    better cannot be told from the log: the rows decide.
    """
    total = augmented.workload.total
    thresholds = sorted({max(1, round(share * total)) for share in shares}, reverse=True)
    most_items = (options or Options()).most_items
    found: dict[tuple[int, ...], PredicateSet] = {}
    for threshold in thresholds:
        chosen = Options(threshold=threshold, rank="weight", most_items=most_items)
        for one in predicate_sets(augmented, augmented.workload.weights, chosen, miner):
            found.setdefault(one.items, one)
    return list(found.values())


def select(
    satisfied: Bits,
    subsumes: Bits,
    weights: npt.NDArray[np.int64],
    asked: Bits,
    floor: Floats,
    most: int = MOST_FEATURES,
    judged: npt.NDArray[np.int64] | None = None,
) -> Selection:
    """Take one candidate after another, always the one that saves the queries most rows.

    ``satisfied`` says which rows of a sample satisfy each candidate, ``subsumes`` which queries it subsumes, ``asked``
    which rows each query would read without any feature, because of their unit. A query reads the rows that satisfy all
    features which subsume it, as if blocks could be that pure, but no fewer than its ``floor``: the rows of one block
    in each unit. So a rare feature is worth no more than blocks can give, and one that holds for nearly all rows is
    worth nothing. Queries that weigh in ``judged`` are counted in the result, those in ``weights`` decide.
    """
    total = max(1, asked.shape[1])
    counts, judge = weights.astype(np.float64), (weights if judged is None else judged).astype(np.float64)
    rows = asked.copy()
    failing = (~satisfied).astype(np.float32).T
    left = rows.sum(axis=1).astype(np.float64)
    dropped = rows.astype(np.float32) @ failing
    reads = [_mean(np.maximum(left, floor) / total, judge)]
    chosen: list[int] = []
    while len(chosen) < min(most, len(satisfied)):
        now = np.maximum(left, floor)
        after = np.maximum(left[:, None] - dropped, floor[:, None])
        gain = (counts[:, None] * (now[:, None] - after) * subsumes.T).sum(axis=0)
        gain[chosen] = 0
        best = int(gain.argmax())
        if gain[best] <= 0:
            break
        chosen.append(best)
        touched = subsumes[best]
        rows[touched] &= satisfied[best]
        left[touched] = rows[touched].sum(axis=1)
        dropped[touched] = rows[touched].astype(np.float32) @ failing
        reads.append(_mean(np.maximum(left, floor) / total, judge))
    return Selection(tuple(chosen), tuple(reads))


def enough_features(
    workload: TableWorkload, satisfied: Bits, subsumes: Bits, asked: Bits, floor: Floats, most: int = MOST_FEATURES
) -> int:
    """How many features to take: the fewest with which later queries read nearly as little as with any number.

    Each of the last windows of time is predicted from all before it, as in
    :func:`sidestep.workload.features.tune.choose`, but what counts is the rows that would be read.
    """
    curves, totals = [], []
    edges = np.linspace(0, workload.total, FOLDS + 2)[1:]
    passed = np.cumsum([scan.weight for scan in workload.scans])
    for start, stop in pairwise(edges):
        past = workload.weights_of(scan for scan, at in zip(workload.scans, passed, strict=True) if at <= start)
        later = workload.weights_of(scan for scan, at in zip(workload.scans, passed, strict=True) if start < at <= stop)
        if past.any() and later.any():
            reads = select(satisfied, subsumes, past, asked, floor, most, later).reads
            curves.append([*reads, *[reads[-1]] * (most + 1 - len(reads))])
            totals.append(int(later.sum()))
    if not curves:
        return min(most, Options().num_features)
    curve = np.average(curves, axis=0, weights=totals)
    return max(1, int(np.flatnonzero(curve <= curve.min() * (1 + NEAR))[0]))


def demands_of(workload: TableWorkload, features: Sequence[Feature], columns: Collection[str] | None = None) -> Demands:
    """The demands of a workload: which features subsume each filter, and the times that it asks for.

    ``columns`` names the columns of time that count; without it, all that filters compare with constants.
    """
    subsumes = subsumed_by(workload, features)
    found = [
        Demand(tuple(map(int, np.flatnonzero(subsumes[:, at]))), ranges, float(workload.weights[at]))
        for at, ranges in enumerate(times_asked(workload, columns))
    ]
    return folded(len(features), found)


def times_asked(workload: TableWorkload, columns: Collection[str] | None = None) -> list[tuple[Range, ...]]:
    """For each filter the least and greatest value it allows in columns of time."""
    found = []
    for numbers in workload.filters:
        ranges: dict[str, IntervalSet] = {}
        for number in numbers:
            for column, allowed in necessary_ranges(workload.items[number].formula).items():
                if is_ranged(column.type) and not allowed.is_full and (columns is None or column.name in columns):
                    known = ranges.get(column.name)
                    ranges[column.name] = allowed if known is None else known.intersect(allowed)
        found.append(tuple(_hull(name, allowed) for name, allowed in sorted(ranges.items()) if allowed.intervals))
    return found


def _hull(name: str, ranges: IntervalSet) -> Range:
    first, last = ranges.intervals[0], ranges.intervals[-1]
    return name, None if first.low is None else int(first.low), None if last.high is None else int(last.high)


def _mean(shares: Floats, weights: Floats) -> float:
    return float(np.average(shares, weights=weights)) if weights.any() else 0.0
