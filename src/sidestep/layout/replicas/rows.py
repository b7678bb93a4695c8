"""What is known of layouts on a sample: the rows that features select, and those that queries read of each layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sidestep.layout.columns.local import LocalFeatures, feature_weights, project, select_features
from sidestep.layout.columns.queries import ColumnWorkload, SkippingTest
from sidestep.layout.maxskip import Grouping, group_vectors
from sidestep.layout.replicas.schemes import Cells, ColumnNumbers, FeatureNumbers
from sidestep.layout.vectors import Bits, Counts, VectorCounts, Words, unpack
from sidestep.layout.weights import Floats

MOST_VECTORS = 300
"""Distinct vectors of a layout: a scheme has many layouts, and a search tries thousands."""


@dataclass(frozen=True, eq=False)
class ArrangedLayout:
    """The rows of a layout that satisfy its features, arranged by these."""

    local: LocalFeatures
    vectors: VectorCounts
    grouping: Grouping


class LayoutRows:
    """Rows of layouts, by the feature vectors of a table's rows or of a sample of them.

    ``vectors`` are over all features of the workload; blocks have at least ``block`` of the rows they stand for. What
    was worked out is kept, by features and their weights: a transformation changes few layouts of a scheme, and those
    of other schemes that a search tries have often been seen (5.5.4).
    """

    def __init__(
        self, workload: ColumnWorkload, vectors: VectorCounts, block: int, most_vectors: int = MOST_VECTORS
    ) -> None:
        self.workload, self.vectors, self.block, self.most_vectors = workload, vectors, block, most_vectors
        self._counts: dict[FeatureNumbers, float] = {}
        self._eligible: dict[FeatureNumbers, Bits] = {}
        self._read: dict[bytes, Floats] = {}
        self._selected: dict[Cells, LocalFeatures] = {}

    @property
    def total(self) -> float:
        """All rows."""
        return float(self.vectors.rows)

    def count(self, features: FeatureNumbers) -> float:
        """How many rows satisfy at least one of these features: |R_i|."""
        if features not in self._counts:
            self._counts[features] = float(self.vectors.counts[self.selected(features)].sum())
        return self._counts[features]

    def selected(self, features: Iterable[int]) -> Bits:
        """Which of the vectors satisfy at least one of these features."""
        return np.asarray(self._bits[:, sorted(features)].any(axis=1))

    def eligible(self, features: FeatureNumbers) -> Bits:
        """The filters that find all rows they want among those of these features.

        In some way of the filter each part has one of the features: whatever row it holds for satisfies a part, and so
        a feature. That is also when a block of rows without any of the features is skipped.
        """
        if features not in self._eligible:
            nothing = np.zeros((1, len(features)), np.bool_)
            self._eligible[features] = self._test.skipped(nothing, sorted(features))[:, 0]
        return self._eligible[features]

    def arrange(self, cells: Cells) -> ArrangedLayout:
        """The blocks that Balanced MaxSkip makes of the layout's rows."""
        local = self._local(cells)
        chosen = self.selected(cells[1])
        some = VectorCounts(self.vectors.words[chosen], self.vectors.counts[chosen], self.vectors.features)
        vectors = project(some, local)
        return ArrangedLayout(local, vectors, group_vectors(vectors, local.weights.tolist(), self.block))

    def exact(self, cells: Cells) -> Floats:
        """The rows that each filter reads of the layout, if it may read there at all: rr(q, L) of 5.4.3.

        Rows without any of the features are read by filters that are not eligible: they have to ask for master columns,
        and can skip nothing.
        """
        local = self._local(cells)
        key = b"".join(
            (np.array(sorted(cells[1]), np.int64).tobytes(), local.numbers.tobytes(), _scaled(local.weights))
        )
        if key not in self._read:
            layout = self.arrange(cells)
            self._read[key] = self._rows(cells[1], local, layout.grouping.unions, layout.grouping.sizes)
        return self._read[key]

    def _rows(self, features: FeatureNumbers, local: LocalFeatures, unions: Words, sizes: Counts) -> Floats:
        read = self.count(features) - self._test.count(unpack(unions, len(local)), local.numbers, sizes)
        return np.where(self.eligible(features), read, self.total)

    def _local(self, cells: Cells) -> LocalFeatures:
        """The features of the layout, heaviest first, and only as many as leave few distinct vectors."""
        if cells not in self._selected:
            self._selected[cells] = self._select(*cells)
        return self._selected[cells]

    def _select(self, columns: ColumnNumbers, features: FeatureNumbers) -> LocalFeatures:
        numbers = np.array(sorted(features), np.intp)
        weights = feature_weights(self.workload, columns)[numbers]
        order = np.argsort(-weights, kind="stable")
        order = order[weights[order] > 0]
        return select_features(LocalFeatures(numbers[order], weights[order]), self.vectors, self.most_vectors)

    @cached_property
    def _bits(self) -> Bits:
        return unpack(self.vectors.words, self.vectors.features)

    @cached_property
    def _test(self) -> SkippingTest:
        return self.workload.skipping(range(len(self.workload.filters)))


def _scaled(weights: Floats) -> bytes:
    """Weights as they are told apart: twice all of them make the same blocks."""
    top = float(weights.max(initial=0.0))
    return np.round(weights / top, 9).tobytes() if top else b""
