"""What a workload demands of one unit of a table: features weigh only as much as the queries that come there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.layout.maxskip import partition
from sidestep.layout.tree import merge_leaves
from sidestep.layout.vectors import Bits, Counts, Words, locate, pack, reduce_vectors, unpack
from sidestep.predicate import DataType, Kind

TIME_KINDS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
"""Types of time: queries ask for ranges of them, and units are cut by them."""

MOST_WINDOWS = 24
"""Windows of time that a unit's vectors are extended by: those that most queries ask for."""

SERVED, UNSERVED = 0.5, 1.5
"""What a query's window counts, if features serve the query too and if they do not. Where features can skip for it, its
window is a second way; where none can, it is the only one, and no feature's weight speaks for the query. On
denormalized TPC-H by month, blocks of 5,000 rows, q14 (a month of shipping, nothing else) read 4.2% of the rows instead
of 4.35%, and the mean of all templates fell from 4.75% to 4.64%."""

Range = tuple[str, int | None, int | None]
"""A column, and the least and greatest value that may be asked of it: days or microseconds since 1970, None if open."""

TimeBounds = tuple[Counts, Counts]
"""The least and greatest value of a column in each of some sets of rows; least above greatest where there is none."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Queries of one kind: the features that subsume them, the ranges of time that they ask for, and their number."""

    features: tuple[int, ...]
    ranges: tuple[Range, ...]
    weight: float = 1.0

    def meets(self, bounds: Mapping[str, TimeBounds]) -> Bits | np.bool_:
        """For each set of rows, whether such a query may ask for some of them."""
        met: Bits | np.bool_ = np.bool_(True)
        for column, low, high in self.ranges:
            if column in bounds:
                met = met & may_meet(bounds[column], low, high)
        return met

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Demand:
        """The demand that a layout file has (``dataclasses.asdict`` writes it)."""
        ranges = tuple((str(name), _optional_int(low), _optional_int(high)) for name, low, high in written["ranges"])
        return cls(tuple(int(at) for at in written["features"]), ranges, float(written["weight"]))


@dataclass(frozen=True)
class Demands:
    """The demands of a workload on a table with ``features`` features.

    The thesis weighs a feature by all queries that it subsumes (3.4.1), in every coarse partition alike. But a query on
    1994 never reads a block of 1996, so there its features only keep others from being grouped well. Here a feature
    weighs, in each unit, as much as the queries that come to that unit. On denormalized TPC-H by month this alone took
    the rows read from 7.7% to 6.6% with blocks of 5,000 rows.

    >>> demands = Demands(2, (Demand((0,), (("day", 0, 9),), 5), Demand((1,), (), 3), Demand((0,), (("day", 7, 8),))))
    >>> demands.weights({"day": (np.array([20]), np.array([30]))}), demands.weights({"day": (np.array([8]),) * 2})
    ([0.0, 3.0], [6.0, 3.0])
    """

    features: int
    demands: tuple[Demand, ...] = ()

    def __post_init__(self) -> None:
        if any(at < 0 or at >= self.features for demand in self.demands for at in demand.features):
            raise SidestepError(f"The demands speak of other features than the {self.features} there are.")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns whose bounds say which demands meet a unit."""
        return tuple(sorted({column for demand in self.demands for column, _, _ in demand.ranges}))

    def weights(self, bounds: Mapping[str, TimeBounds]) -> list[float]:
        """The weight of each feature in a unit whose rows have these bounds."""
        weights = [0.0] * self.features
        for demand in self._demands_in(bounds):
            for feature in demand.features:
                weights[feature] += demand.weight
        return weights

    def windows(self, bounds: Mapping[str, TimeBounds], most: int = MOST_WINDOWS) -> tuple[Bits, list[float]]:
        """Further bits for the vectors of a unit: the windows of time that queries ask for, and how many do.

        ``bounds`` has a value for each vector. A bit is set where a row of the vector may lie in the window. Windows
        that all vectors meet, or none, are left out. Blocks that lack one are skipped by zone maps: the bits only
        guide the partitioner, so that blocks become narrow in the columns of time that many queries filter.
        """
        windows: dict[bytes, float] = {}
        for demand in self._demands_in(bounds):
            for column, low, high in demand.ranges:
                if column in bounds:
                    met = may_meet(bounds[column], low, high)
                    if met.any() and not met.all():
                        form = met.tobytes()
                        counts = SERVED if demand.features else UNSERVED
                        windows[form] = windows.get(form, 0.0) + counts * demand.weight
        heaviest = sorted(windows.items(), key=lambda one: (-one[1], one[0]))[:most]
        size = max((len(least) for least, _ in bounds.values()), default=0)
        bits = np.array([np.frombuffer(form, np.bool_) for form, _ in heaviest]).reshape(len(heaviest), size)
        return bits.T, [weight for _, weight in heaviest]

    def _demands_in(self, bounds: Mapping[str, TimeBounds]) -> list[Demand]:
        whole = {name: (least.min(keepdims=True), most.max(keepdims=True)) for name, (least, most) in bounds.items()}
        return [demand for demand in self.demands if np.all(demand.meets(whole))]

    def restrict(self, features: Sequence[int]) -> Demands:
        """The demands on some of the features only, in that order: what is left if others can't be used."""
        place = {old: new for new, old in enumerate(features)}
        left = (
            Demand(tuple(sorted(place[at] for at in demand.features if at in place)), demand.ranges, demand.weight)
            for demand in self.demands
        )
        return merge_demands(len(place), left)


def merge_demands(features: int, demands: Iterable[Demand]) -> Demands:
    """Equal demands as one, weights added."""
    weights: dict[tuple[tuple[int, ...], tuple[Range, ...]], float] = {}
    for demand in demands:
        same = demand.features, demand.ranges
        weights[same] = weights.get(same, 0.0) + demand.weight
    return Demands(features, tuple(Demand(*same, weight) for same, weight in weights.items()))


def group_rows(
    words: Words, counts: Counts, bounds: Mapping[str, TimeBounds], demands: Demands, min_size: int
) -> npt.NDArray[np.int32]:
    """The group of each set of rows of one unit: Balanced MaxSkip with the weights and windows that queries give it.

    Contract: ``words`` has the feature vector of each set of rows, ``counts`` its number of rows, ``bounds`` for each
    of ``demands.columns`` the least and greatest value in it (a column may be missing: then it is as if no query
    filtered it). One set per feature vector gives the thesis's partitioning with the unit's own weights. Where vectors
    are also split by a bucket of time, such as the month of a date, queries that ask for windows of time keep the sets
    apart; the buckets need not be those of the queries.
    """
    known = {name: bounds[name] for name in demands.columns if name in bounds}
    if not len(counts):
        return np.zeros(0, np.int32)
    weights = demands.weights(known)
    windows, window_weights = demands.windows(known) if known else (np.zeros((len(counts), 0), np.bool_), [])
    extended = pack(np.hstack([unpack(words, demands.features), windows])) if window_weights else words
    vectors = reduce_vectors(extended, demands.features + len(window_weights), counts)
    grouping = partition(vectors, [*weights, *window_weights], min_size)
    return grouping.group_of_vector[locate(vectors, extended)]


def group_leaves(
    words: Words,
    counts: Counts,
    leaf: Counts,
    bounds: Mapping[str, TimeBounds],
    demands: Demands,
    min_size: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The group of each set of rows of one unit whose rows a tree has put into leaves, and its run of leaves.

    Leaves that are too small are merged with their neighbours, and what is large enough for several blocks is grouped
    by features, as a unit is. Trees are grown on samples, so a leaf may be somewhat smaller than a block should be.
    """
    distinct, place = np.unique(leaf, return_inverse=True)
    place = place.ravel()
    sizes = np.bincount(place, counts, minlength=len(distinct)).astype(np.int64)
    run = np.array(merge_leaves(sizes.tolist(), least_leaf(min_size)), np.int64)[place]
    group = np.zeros(len(counts), np.int32)
    first = 0
    for number in range(int(run.max(initial=-1)) + 1):
        mine = np.flatnonzero(run == number)
        if int(counts[mine].sum()) >= 2 * min_size:
            within = {name: (least[mine], most[mine]) for name, (least, most) in bounds.items()}
            group[mine] = first + group_rows(words[mine], counts[mine], within, demands, min_size)
        else:
            group[mine] = first
        first = int(group[mine].max()) + 1
    return group, run.astype(np.int32)


def least_leaf(min_size: int) -> int:
    """The rows that a leaf needs to be a block of its own."""
    return max(1, min_size // 2)


def may_meet(bounds: TimeBounds, low: int | None, high: int | None) -> Bits:
    """For each pair of bounds, whether some value between them may lie in the range."""
    least, most = bounds
    met: Bits = least <= most
    if low is not None:
        met = met & (most >= low)
    if high is not None:
        met = met & (least <= high)
    return met


def is_time_type(type: DataType) -> bool:
    """Whether ranges of this type say which queries come to a unit."""
    return type.kind in TIME_KINDS


def _optional_int(value: Any) -> int | None:
    return None if value is None else int(value)
