"""Which features to take: those that save most rows, by a sample of the table (beyond the thesis's 3.3.3)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidestep.layout.demand import Demand, Demands, Range, is_time_type, merge_demands
from sidestep.layout.vectors import Bits
from sidestep.layout.weights import Floats
from sidestep.predicate import IntervalSet
from sidestep.predicate.formula import necessary_ranges
from sidestep.workload import ExtractOptions, Feature, TableWorkload, subsumed_filters
from sidestep.workload.features.selection import fewest_near_best, time_folds

MOST_FEATURES = 40


@dataclass(frozen=True, slots=True)
class Selection:
    """Candidates in the order they were taken, and the share of rows that the judged queries read after each."""

    chosen: tuple[int, ...]
    reads: tuple[float, ...]
    """One more than chosen: the first is without any feature."""


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


def fewest_features(
    workload: TableWorkload, satisfied: Bits, subsumes: Bits, asked: Bits, floor: Floats, most: int = MOST_FEATURES
) -> int:
    """How many features to take: the fewest with which later queries read nearly as little as with any number.

    Each window of time is predicted from all before it, as where the number is tuned by the log alone
    (:mod:`sidestep.workload.features.tune`), but here the rows that would be read are known.
    """
    curves, totals = [], []
    for past, later in time_folds(workload):
        reads = select(satisfied, subsumes, past, asked, floor, most, later).reads
        curves.append([*reads, *[reads[-1]] * (most + 1 - len(reads))])
        totals.append(int(later.sum()))
    if not curves:
        return min(most, ExtractOptions().num_features)
    curve = np.average(curves, axis=0, weights=totals)
    return max(1, fewest_near_best({number: -float(read) for number, read in enumerate(curve)}))


def demands_of(workload: TableWorkload, features: Sequence[Feature], columns: Collection[str] | None = None) -> Demands:
    """The demands of a workload: which features subsume each filter, and the times that it asks for.

    ``columns`` names the columns of time that count; without it, all that filters compare with constants.
    """
    subsumes = subsumed_filters(workload, features)
    demands = [
        Demand(tuple(map(int, np.flatnonzero(subsumes[:, at]))), ranges, float(workload.weights[at]))
        for at, ranges in enumerate(time_ranges(workload, columns))
    ]
    return merge_demands(len(features), demands)


def time_ranges(workload: TableWorkload, columns: Collection[str] | None = None) -> list[tuple[Range, ...]]:
    """For each filter the least and greatest value it allows in columns of time."""
    of_filters = []
    for numbers in workload.filters:
        ranges: dict[str, IntervalSet] = {}
        for number in numbers:
            for column, allowed in necessary_ranges(workload.items[number].formula).items():
                if is_time_type(column.type) and not allowed.is_full and (columns is None or column.name in columns):
                    known = ranges.get(column.name)
                    ranges[column.name] = allowed if known is None else known.intersect(allowed)
        of_filters.append(tuple(_hull(name, allowed) for name, allowed in sorted(ranges.items()) if allowed.intervals))
    return of_filters


def _hull(name: str, ranges: IntervalSet) -> Range:
    first, last = ranges.intervals[0], ranges.intervals[-1]
    return name, None if first.low is None else int(first.low), None if last.high is None else int(last.high)


def _mean(shares: Floats, weights: Floats) -> float:
    return float(np.average(shares, weights=weights)) if weights.any() else 0.0
