"""How many rows of a group queries read (thesis, 4.4.3): by arranging it, or by an estimate that does without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidestep.layout.columns.costs import Group
from sidestep.layout.columns.local import MOST_VECTORS, LocalFeatures, project, rank_features, select_features
from sidestep.layout.columns.queries import ColumnWorkload, Numbers
from sidestep.layout.maxskip import Grouping, group_vectors
from sidestep.layout.vectors import Counts, VectorCounts, Words, unpack
from sidestep.layout.weights import Floats


@dataclass(frozen=True, eq=False)
class GroupLayout:
    """A group of columns arranged by its local features."""

    local: LocalFeatures
    vectors: VectorCounts
    """Distinct vectors over the local features."""
    grouping: Grouping
    """Their blocks; a group of one frequent vector is cut into several, which are all alike."""


class RowsByFeatures:
    """Rows that filters read of groups arranged by Balanced MaxSkip on local features.

    ``vectors`` stands for the table's rows, or a sample of them; blocks have at least ``block`` of these rows. What a
    group reads depends on the queries that touch it and not on its columns as such, so groups that the same queries
    touch alike are worked out once.
    """

    def __init__(
        self, workload: ColumnWorkload, vectors: VectorCounts, block: int, most_vectors: int = MOST_VECTORS
    ) -> None:
        self.workload, self.vectors, self.block, self.most_vectors = workload, vectors, block, most_vectors
        self._local: dict[bytes, LocalFeatures] = {}
        self._estimates: dict[bytes, Floats] = {}
        self._exact: dict[bytes, Floats] = {}

    def local_features(self, group: Group) -> LocalFeatures:
        """The features by which a group is arranged."""
        key = self._key(group)
        if key not in self._local:
            ranked = rank_features(self.workload, group)
            self._local[key] = select_features(ranked, self.vectors, self.most_vectors)
        return self._local[key]

    def arrange(self, group: Group) -> GroupLayout:
        """The blocks of a group."""
        local = self.local_features(group)
        vectors = project(self.vectors, local)
        return GroupLayout(local, vectors, group_vectors(vectors, local.weights.tolist(), self.block))

    def exact(self, group: Group) -> Floats:
        """The rows that each filter reads of the group as it would be arranged; filters that don't touch it read all.

        This is the computation approach: features are selected, vectors projected, blocks made, and the queries run
        through their union vectors.
        """
        key = self._key(group)
        if key not in self._exact:
            layout = self.arrange(group)
            self._exact[key] = self._read(group, layout.local, layout.grouping.unions, layout.grouping.sizes)
        return self._exact[key]

    def estimate(self, group: Group) -> Floats:
        """At most how many rows each filter reads of the group, without an arrangement.

        A vector that fills a block gets blocks of its own, which every query skips that skips the vector; rows of
        other vectors are taken as read. The thesis counts whole blocks, ``block · floor(count / block)``; here the
        last block of a vector is a little larger instead, and all of its rows are skipped. Both are upper bounds on
        :meth:`exact`.
        """
        key = self._key(group)
        if key not in self._estimates:
            local = self.local_features(group)
            vectors = project(self.vectors, local)
            whole = vectors.counts >= self.block
            self._estimates[key] = self._read(group, local, vectors.words[whole], vectors.counts[whole])
        return self._estimates[key]

    def least(self) -> Floats:
        """At least how many rows each filter reads of any group: those whose own vectors it cannot skip."""
        test = self.workload.skipping(range(len(self.workload.filters)))
        every = np.arange(self.workload.features)
        skipped = test.count(unpack(self.vectors.words, self.workload.features), every, self.vectors.counts)
        return np.asarray(self.vectors.rows - skipped)

    def _read(self, group: Group, local: LocalFeatures, unions: Words, sizes: Counts) -> Floats:
        rows = np.full(len(self.workload.filters), float(self.vectors.rows))
        asked = self.filters_of(group)
        test = self.workload.skipping(asked)
        rows[asked] -= test.count(unpack(unions, len(local)), local.numbers, sizes)
        return rows

    def filters_of(self, group: Group) -> Numbers:
        """The filters of queries that touch a group."""
        touching = self.workload.reads[:, sorted(group)].any(axis=1)
        return np.unique(self.workload.filter_of_query[touching])

    def _key(self, group: Group) -> bytes:
        columns = self.workload.reads[:, sorted(group)].sum(axis=1).astype(np.int32)
        # Twice as many columns of each query are twice the weights, and the same blocks.
        return bytes((columns // max(1, int(np.gcd.reduce(columns, initial=0)))).tobytes())
