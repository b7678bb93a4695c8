"""How good a workload is for features, and features for a workload: curves and shares (thesis, 3.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidestep.workload.canonical import formula_of
from sidestep.workload.features.augment import Bits, subsumed
from sidestep.workload.features.extract import Augmented, Options, augment, extract_from
from sidestep.workload.features.feature_set import Feature, FeatureDiff, FeatureSet, diff
from sidestep.workload.features.mining import Miner, closed_sets
from sidestep.workload.table import Scan, TableWorkload

WINDOWS = 5
"""Windows of time that a stability curve is averaged over, so that no starting point decides it."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A line through points; shares are between 0 and 1."""

    name: str
    x_name: str
    y_name: str
    points: tuple[tuple[float, float], ...]

    def at(self, x: float) -> float:
        """The height at x, straight between two points."""
        if not self.points:
            return 0.0
        xs, ys = zip(*self.points, strict=True)
        return float(np.interp(x, xs, ys))


def commonality(augmented: Augmented) -> Curve:
    """Filter commonality: the most frequent x of the predicates are used by y of the queries.

    Predicates are those that may become features, in descending order of how many queries use them; a query counts once
    it uses one. Queries without any such predicate are not counted: no feature could help them.
    """
    workload = augmented.workload
    uses = _uses(augmented)
    weights = workload.weights
    counted = uses.any(axis=0)
    total = int(weights[counted].sum())
    order = np.lexsort((np.arange(len(uses)), -(uses @ weights))) if len(uses) else np.zeros(0, np.intp)
    covered = np.zeros(len(weights), np.bool_)
    points = [(0.0, 0.0)]
    for rank, item in enumerate(order, 1):
        covered |= uses[item]
        points.append((rank / len(order), int(weights[covered].sum()) / total))
    return Curve("filter commonality", "share of the filters, most frequent first", "share of queries", tuple(points))


def stability(augmented: Augmented, windows: int = WINDOWS) -> Curve:
    """Filter stability: predicates in the first x of the queries are used by y of all queries, averaged over windows.

    The scans are cut into disjoint windows of equal weight, in the order of time. Were every predicate new, the curve
    would be the diagonal.
    """
    uses = _uses(augmented)
    scans = [scan for scan in augmented.workload.scans if uses[:, scan.filter].any()] if len(uses) else []
    grid = np.linspace(0, 1, 51)
    curves = [_seen(window, uses, grid) for window in _windows(scans, max(1, min(windows, len(scans)))) if window]
    heights = np.mean(curves, axis=0) if curves else np.zeros(0)
    points = tuple((float(x), float(y)) for x, y in zip(grid, heights, strict=False))
    return Curve("filter stability", "share of the workload seen", "share of queries with a filter seen", points)


def _seen(scans: Sequence[Scan], uses: Bits, grid: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
    weights = np.zeros(uses.shape[1], np.int64)
    for scan in scans:
        weights[scan.filter] += scan.weight
    total = int(weights.sum())
    known = np.zeros(len(uses), np.bool_)
    met: set[int] = set()
    xs, ys, passed, covered = [0.0], [0.0], 0, 0
    for scan in scans:
        passed += scan.weight
        if scan.filter not in met:
            met.add(scan.filter)
            known |= uses[:, scan.filter]
            covered = int(weights[uses[known].any(axis=0)].sum())
        xs.append(passed / total)
        ys.append(covered / total)
    return [float(y) for y in np.interp(grid, xs, ys)]


def _windows(scans: Sequence[Scan], windows: int) -> list[list[Scan]]:
    """The scans in windows of equal weight; one that reaches over an edge is cut there."""
    total = sum(scan.weight for scan in scans)
    found: list[list[Scan]] = [[] for _ in range(windows)]
    passed = 0
    for scan in scans:
        left = scan.weight
        while left:
            window = min(passed * windows // total, windows - 1)
            edge = -(-total * (window + 1) // windows)
            taken = left if window == windows - 1 else min(left, edge - passed)
            found[window].append(Scan(scan.filter, taken))
            left -= taken
            passed += taken
    return found


def _uses(augmented: Augmented) -> Bits:
    """Which filters hold each eligible predicate in their own words."""
    found = np.zeros((len(augmented.items), len(augmented.workload.filters)), np.bool_)
    position = {number: at for at, number in enumerate(augmented.numbers)}
    for at, numbers in enumerate(augmented.workload.filters):
        found[[position[number] for number in numbers if number in position], at] = True
    return found


def subsumed_by(workload: TableWorkload, features: Sequence[Feature]) -> Bits:
    """Which of the workload's filters each feature subsumes; the features may come from another log."""
    formulas = [[formula_of(predicate) for predicate in feature.predicates] for feature in features]
    rows = subsumed(workload, [formula for parts in formulas for formula in parts])
    found = np.ones((len(features), len(workload.filters)), np.bool_)
    at = 0
    for number, parts in enumerate(formulas):
        found[number] = rows[at : at + len(parts)].all(axis=0)
        at += len(parts)
    return found


def coverage(workload: TableWorkload, features: Sequence[Feature]) -> Curve:
    """The share of the workload's filtered queries that at least one of the first k features subsumes."""
    weights = workload.weights
    total = int(weights.sum())
    covered = np.zeros(len(weights), np.bool_)
    points = [(0.0, 0.0)]
    for number, row in enumerate(subsumed_by(workload, features), 1):
        covered |= row
        points.append((float(number), int(weights[covered].sum()) / total if total else 0.0))
    return Curve("coverage", "features", "share of queries subsumed", tuple(points))


@dataclass(frozen=True, slots=True)
class FeatureDrift:
    """One feature of an old set on a new log."""

    feature: Feature
    share_before: float
    share_now: float


@dataclass(frozen=True, slots=True)
class Drift:
    """How well an old feature set still covers a new log, and what a fresh one would do."""

    before: float
    """The share of its own workload that the old set covered."""
    now: float
    """The share of the new log that it covers."""
    fresh: float
    """The share of the new log that as many features made from it cover."""
    features: tuple[FeatureDrift, ...]
    change: FeatureDiff
    """From the old set to the fresh one."""

    @property
    def lost(self) -> float:
        """The share of queries that the old set no longer helps and a fresh one would."""
        return max(0.0, self.fresh - self.now)

    @property
    def stale(self) -> tuple[Feature, ...]:
        """The features that subsume no query of the new log."""
        return tuple(one.feature for one in self.features if one.share_now == 0)


def drift(
    old: FeatureSet, workload: TableWorkload, options: Options | None = None, miner: Miner = closed_sets
) -> Drift:
    """Compare an old feature set with a new log of the same table."""
    chosen = options or Options(num_features=max(1, len(old)))
    fresh = extract_from(augment(workload, chosen), chosen, miner)
    rows, weights, total = subsumed_by(workload, old.features), workload.weights, workload.total
    features = tuple(
        FeatureDrift(
            feature,
            feature.weight / old.queries if old.queries else 0.0,
            int(weights[row].sum()) / total if total else 0.0,
        )
        for feature, row in zip(old.features, rows, strict=True)
    )
    now = int(weights[rows.any(axis=0)].sum()) / total if total and len(rows) else 0.0
    return Drift(old.coverage, now, fresh.coverage, features, diff(old, fresh))
