"""The two basic ways to extend column groups with replicas (thesis, 5.3): what a scheme of layouts is compared with."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sidestep.errors import SidestepError
from sidestep.layout.columns.costs import Group
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.columns.rows import RowsByFeatures
from sidestep.layout.columns.search import search
from sidestep.layout.replicas.costs import scheme_cost
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.schemes import Cells, ColumnNumbers, FeatureNumbers, ReplicaLayout, ReplicaScheme
from sidestep.layout.replicas.search import SEARCH_COST, Climb, Operation, RatedScheme, ReplicaSearch
from sidestep.layout.replicas.transform import relevant_columns
from sidestep.layout.weights import Floats


def replicate_selectively(
    workload: ColumnWorkload, rows: LayoutRows, budget: float, groups: Sequence[Group]
) -> ReplicaSearch:
    """GSOP-SE: column groups first, then what one feature after the other requests, the one that pays most (5.3.1)."""
    climb = _Selection(workload, rows, budget)
    return climb.run([(group, climb.features_of(group)) for group in groups])


class _Selection(Climb):
    """The rows and relevant columns of one feature stored apart, which no other layout need care for any more."""

    def always(self) -> Iterator[Operation]:
        for feature, columns in enumerate(self.relevant):
            if columns:
                made = columns, frozenset({feature})
                yield Operation(f"feature {feature}", (), lambda layouts, made=made: _select(layouts, made))  # type: ignore[misc]


def _select(layouts: tuple[Cells, ...], made: Cells) -> tuple[Cells, ...]:
    return (*((columns, features - made[1]) for columns, features in layouts), made)


@dataclass(frozen=True)
class FullCopies:
    """Copies of a whole table, each in column groups of its own."""

    best: RatedScheme
    copies: tuple[tuple[ReplicaLayout, ...], ...]


def copy_fully(workload: ColumnWorkload, rows: LayoutRows, copies: int) -> FullCopies:
    """GSOP-FC: features are clustered, and each copy of the table gets column groups for one cluster (5.3.2).

    Clusters are merged bottom up, always the pair after which queries read least, each of the cluster that serves it
    best. Features that queries of the same columns use begin as one cluster: they would be told apart by rows alone,
    and each pair of clusters is arranged to be rated.
    """
    if copies < 1:
        raise SidestepError(f"There can't be {copies} copies of a table: give 1 or more.")
    clusters = _cluster(workload, rows, copies)
    read = np.array([_rows(workload, rows, cluster) for cluster in clusters])
    serving = read.argmin(axis=0)
    made = []
    for number, cluster in enumerate(clusters):
        mine = replace(workload, weights=np.where(serving == number, workload.weights, 0.0))
        found = search(mine, RowsByFeatures(mine, rows.vectors, rows.block, rows.most_vectors))
        named = relevant_columns(mine)
        made.append(tuple(_whole(group, cluster, named) for group in found.best.groups))
    scheme = ReplicaScheme(len(workload.columns), tuple(layout for copy in made for layout in copy))
    rated = RatedScheme(
        scheme, scheme_cost(workload, scheme, rows, SEARCH_COST), scheme.storage(rows.count, rows.total)
    )
    return FullCopies(rated, tuple(made))


def _whole(group: Group, cluster: FeatureNumbers, relevant: Sequence[ColumnNumbers]) -> ReplicaLayout:
    return ReplicaLayout(group, frozenset(at for at in cluster if relevant[at] & group), group)


def _rows(workload: ColumnWorkload, rows: LayoutRows, cluster: FeatureNumbers) -> Floats:
    """The rows that each query reads of a copy that is arranged by these features as a whole."""
    everything = frozenset(range(len(workload.columns)))
    return rows.exact((everything, cluster))[workload.filter_of_query]


def _cluster(workload: ColumnWorkload, rows: LayoutRows, most: int) -> list[FeatureNumbers]:
    columns = workload.reads.sum(axis=1) * workload.weights
    clusters = dict(enumerate(_used_alike(workload)))
    read = {at: _rows(workload, rows, cluster) for at, cluster in clusters.items()}
    numbers = itertools.count(len(clusters))
    waiting: list[tuple[float, int, int, Floats]] = []

    def offer(one: int, other: int) -> None:
        merged = _rows(workload, rows, clusters[one] | clusters[other])
        # What the merge costs if no other cluster helped: an upper bound that doesn't change with the others.
        worse = float((merged - np.minimum(read[one], read[other])) @ columns)
        heapq.heappush(waiting, (worse, one, other, merged))

    for one, other in itertools.combinations(clusters, 2):
        offer(one, other)
    while len(clusters) > most:
        _, one, other, merged = heapq.heappop(waiting)
        if one in clusters and other in clusters:
            at = next(numbers)
            union = clusters.pop(one) | clusters.pop(other)
            for each in list(clusters):
                read[at] = merged
                clusters[at] = union
                offer(each, at)
            clusters[at], read[at] = union, merged
    return list(clusters.values())


def _used_alike(workload: ColumnWorkload) -> list[FeatureNumbers]:
    """Features that help queries of the same sets of columns, together."""
    _, kind = np.unique(workload.reads, axis=0, return_inverse=True)
    helped = workload.helped[workload.filter_of_query] > 0
    used = np.zeros((int(kind.max(initial=-1)) + 1, workload.features), np.bool_)
    np.logical_or.at(used, kind.ravel(), helped)
    classes: dict[bytes, set[int]] = {}
    for feature in range(workload.features):
        classes.setdefault(used[:, feature].tobytes(), set()).add(feature)
    return [frozenset(members) for members in classes.values()] or [frozenset()]
