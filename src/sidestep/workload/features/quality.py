"""How good a workload is for features, and features for a workload: curves and shares (thesis, 3.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidestep.render.document import Line, Part, Plot
from sidestep.render.report import Report
from sidestep.workload.canonical import formula_of
from sidestep.workload.features.augment import FilterBits, subsumption_matrix
from sidestep.workload.features.extract import AugmentedWorkload
from sidestep.workload.features.feature_set import Feature
from sidestep.workload.table import ScanRun, TableWorkload

WINDOWS = 5
"""Windows of time that a stability curve is averaged over, so that no starting point decides it."""


@dataclass(frozen=True, slots=True)
class Curve(Report):
    """A line through points; shares are between 0 and 1."""

    name: str
    x_name: str
    y_name: str
    points: tuple[tuple[float, float], ...]

    @property
    def plot(self) -> Plot:
        """The curve as a picture."""
        return Plot(self.name, self.x_name, self.y_name, (Line(self.name, self.points),))

    def _document(self) -> tuple[Part, ...]:
        return (self.plot,)

    def at(self, x: float) -> float:
        """The height at x, straight between two points."""
        if not self.points:
            return 0.0
        xs, ys = zip(*self.points, strict=True)
        return float(np.interp(x, xs, ys))


def commonality(augmented: AugmentedWorkload) -> Curve:
    """Filter commonality: the most frequent x of the predicates are used by y of the queries.

    Predicates are those that may become features, in descending order of how many queries use them; a query counts once
    it uses one. Queries without any such predicate are not counted: no feature could help them.
    """
    workload = augmented.workload
    uses = _usage_matrix(augmented)
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


def stability(augmented: AugmentedWorkload, windows: int = WINDOWS) -> Curve:
    """Filter stability: predicates in the first x of the queries are used by y of all queries, averaged over windows.

    The scans are cut into disjoint windows of equal weight, in the order of time. Were every predicate new, the curve
    would be the diagonal.
    """
    uses = _usage_matrix(augmented)
    scans = [scan for scan in augmented.workload.scans if uses[:, scan.filter].any()] if len(uses) else []
    grid = np.linspace(0, 1, 51)
    parts = equal_windows(scans, max(1, min(windows, len(scans))))
    curves = [_share_seen(window, uses, grid) for window in parts if window]
    heights = np.mean(curves, axis=0) if curves else np.zeros(0)
    points = tuple((float(x), float(y)) for x, y in zip(grid, heights, strict=False))
    return Curve("filter stability", "share of the workload seen", "share of queries with a filter seen", points)


def subsumed_filters(workload: TableWorkload, features: Sequence[Feature]) -> FilterBits:
    """Which of the workload's filters each feature subsumes; the features may come from another log."""
    formulas = [[formula_of(predicate) for predicate in feature.predicates] for feature in features]
    rows = subsumption_matrix(workload, [formula for parts in formulas for formula in parts])
    subsumed = np.ones((len(features), len(workload.filters)), np.bool_)
    at = 0
    for number, parts in enumerate(formulas):
        subsumed[number] = rows[at : at + len(parts)].all(axis=0)
        at += len(parts)
    return subsumed


def coverage(workload: TableWorkload, features: Sequence[Feature]) -> Curve:
    """The share of the workload's filtered queries that at least one of the first k features subsumes."""
    weights = workload.weights
    total = int(weights.sum())
    covered = np.zeros(len(weights), np.bool_)
    points = [(0.0, 0.0)]
    for number, row in enumerate(subsumed_filters(workload, features), 1):
        covered |= row
        points.append((float(number), int(weights[covered].sum()) / total if total else 0.0))
    return Curve("coverage", "features", "share of queries subsumed", tuple(points))


def equal_windows(runs: Sequence[ScanRun], count: int) -> list[list[ScanRun]]:
    """The runs in ``count`` windows of equal weight, in the order of time; one that reaches over an edge is cut there.

    >>> equal_windows([ScanRun(0, 3), ScanRun(1, 1)], 2)
    [[ScanRun(filter=0, weight=2)], [ScanRun(filter=0, weight=1), ScanRun(filter=1, weight=1)]]
    """
    total = sum(run.weight for run in runs)
    windows: list[list[ScanRun]] = [[] for _ in range(count)]
    passed = 0
    for run in runs:
        left = run.weight
        while left:
            window = min(passed * count // total, count - 1)
            edge = -(-total * (window + 1) // count)
            taken = left if window == count - 1 else min(left, edge - passed)
            windows[window].append(ScanRun(run.filter, taken))
            left -= taken
            passed += taken
    return windows


def _share_seen(scans: Sequence[ScanRun], uses: FilterBits, grid: npt.NDArray[np.float64]) -> list[float]:
    """The share of the scans that use a predicate seen so far, at each point of the grid."""
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


def _usage_matrix(augmented: AugmentedWorkload) -> FilterBits:
    """Which filters (columns) hold each eligible predicate (rows) as it was written."""
    uses = np.zeros((len(augmented.items), len(augmented.workload.filters)), np.bool_)
    position = {number: at for at, number in enumerate(augmented.numbers)}
    for at, numbers in enumerate(augmented.workload.filters):
        uses[[position[number] for number in numbers if number in position], at] = True
    return uses
