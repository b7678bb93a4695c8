"""Local features (thesis, 4.5): by which features the rows of one group of columns are arranged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidestep.layout.columns.costs import Group
from sidestep.layout.columns.queries import ColumnWorkload, Numbers
from sidestep.layout.vectors import VectorCounts, Words, pack, reduce_vectors, unpack
from sidestep.layout.weights import Floats

MOST_VECTORS = 3_000
"""Distinct vectors of a group: more features are taken until there are about so many."""


@dataclass(frozen=True, eq=False)
class LocalFeatures:
    """The features of a group, those of most weight first, and their weights."""

    numbers: Numbers
    weights: Floats

    def __len__(self) -> int:
        return len(self.numbers)

    def mask(self, features: int) -> Words:
        """The mask vector of the group: a 1 for each feature that its union vectors speak of (4.6.1).

        >>> LocalFeatures(np.array([2, 0]), np.ones(2)).mask(3).tolist()
        [[5]]
        """
        bits = np.zeros((1, features), np.bool_)
        bits[0, self.numbers] = True
        return pack(bits)


def feature_weights(workload: ColumnWorkload, group: Group) -> Floats:
    """What each feature weighs for a group: the queries that it lets skip and that read some column of the group.

    Features that occur with a column count for it even if they speak of others: a query on ``C like 'y%'`` that
    selects D would otherwise read all of D (4.5). A query counts as often as it reads columns of the group, as that is
    what skipping saves, and in proportion to what the feature says of its filter.
    """
    columns = workload.reads[:, sorted(group)].sum(axis=1)
    return np.asarray((workload.weights * columns) @ workload.helped[workload.filter_of_query])


def rank_features(workload: ColumnWorkload, group: Group) -> LocalFeatures:
    """All candidates of a group, ranked; those that no query of the group can use are none."""
    return rank_by_weight(feature_weights(workload, group))


def rank_by_weight(weights: Floats) -> LocalFeatures:
    """The features that weigh anything, those of most weight first."""
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > 0]
    return LocalFeatures(order, weights[order])


def select_features(ranked: LocalFeatures, vectors: VectorCounts, most: int = MOST_VECTORS) -> LocalFeatures:
    """As many of the first features as there may be without more than ``most`` distinct vectors, at least one.

    The number of distinct vectors grows with each feature, so it is found by bisection. Few vectors leave room for
    further features at no price; too many mean that features conflict, and the partitioner could serve none.
    ``vectors`` has the feature vectors of a sample.
    """
    if not len(ranked):
        return ranked
    bits = unpack(vectors.words, vectors.features)[:, ranked.numbers]
    fewest, enough = 1, len(ranked)
    while fewest < enough:
        middle = (fewest + enough + 1) // 2
        if len(reduce_vectors(pack(bits[:, :middle]), middle)) <= most:
            fewest = middle
        else:
            enough = middle - 1
    return LocalFeatures(ranked.numbers[:fewest], ranked.weights[:fewest])


def project(vectors: VectorCounts, local: LocalFeatures) -> VectorCounts:
    """The vectors over the local features alone, equal ones made one."""
    bits = unpack(vectors.words, vectors.features)[:, local.numbers]
    return reduce_vectors(pack(bits), len(local), vectors.counts)
