"""What all families have in common: what they are made from, and what they make."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sidestep.advisor.trials.grow import Grown
from sidestep.advisor.trials.needs import Needs
from sidestep.advisor.trials.sample import RowNumbers, Sample
from sidestep.advisor.trials.trial import Blocks, by_group, group_sample
from sidestep.layout.demand import Demands, group_leaves
from sidestep.layout.vectors import Bits, Words, unpack
from sidestep.predicate import Formula


@dataclass(frozen=True, eq=False)
class Material:
    """A sample's rows and the queries to arrange them for."""

    sample: Sample
    words: Words
    """The feature vector of each row."""
    demands: Demands
    """What the queries demand of units, in terms of the features."""
    needs: Needs
    """What they need of columns, and which features subsume them."""
    queries: Sequence[Formula]
    features: Sequence[Formula]
    """When each feature holds."""
    columns: Sequence[str]
    """The columns that queries compare with constants, those of most queries first."""
    min_size: int
    """Rows of the table that a block has at least."""
    buckets: Mapping[str, str]
    """For columns of time, the expression of a bucket."""
    by: str | None
    """The units, where a layout has them."""

    @property
    def block(self) -> int:
        """Rows of the sample that a block has at least."""
        return self.sample.rows_for(self.min_size)

    @property
    def satisfied(self) -> Bits:
        """Features by rows."""
        return np.ascontiguousarray(unpack(self.words, self.demands.features).T)


@dataclass(frozen=True, eq=False)
class Arrangement:
    """A way to lay a table out."""

    family: str
    detail: str
    by: str | None = None
    tree: Grown | None = None
    featured: bool = True
    """Whether rows of the same features are grouped, and blocks know which features they lack."""
    order: tuple[str, ...] = ()
    buckets: tuple[str, ...] = ()
    """Columns of time whose buckets keep rows of the same features apart."""

    def blocks(self, sample: Sample, words: Words, demands: Demands, block: int) -> Blocks:
        """The blocks that it makes of a sample's rows; a table that stays as it is has the blocks that it has."""
        if self.tree is None:
            group = group_sample(sample, words, demands, block, self.buckets)
            return by_group(sample, group, self.order, block)
        leaf = self.tree.route(sample, np.ascontiguousarray(unpack(words, demands.features).T))
        vectors = words if self.featured else np.zeros((len(sample), 0), np.uint64)
        wanted = demands if self.featured else Demands(0)
        return by_group(sample, _group_leaves(sample, leaf, vectors, wanted, block), self.order, block)


def _group_leaves(sample: Sample, leaf: RowNumbers, words: Words, demands: Demands, block: int) -> RowNumbers:
    """The group of each row of a sample, as a load would group those of the table."""
    bounds = {name: sample.bounds(name) for name in demands.columns if name in sample.times}
    keys = np.column_stack([leaf.astype(np.uint64), words])
    distinct, place, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    place = place.ravel()
    arranged = np.argsort(place, kind="stable")
    starts = np.cumsum(counts) - counts
    limits = {
        name: (np.minimum.reduceat(least[arranged], starts), np.maximum.reduceat(greatest[arranged], starts))
        for name, (least, greatest) in bounds.items()
    }
    vectors = np.ascontiguousarray(distinct[:, 1:])
    leaves = distinct[:, 0].astype(np.int64)
    group, _ = group_leaves(vectors, counts.astype(np.int64), leaves, limits, demands, block)
    return group[place].astype(np.int64)


Plan = Callable[[Material], Arrangement | None]
"""Makes an arrangement, from whichever rows and queries; None if there is nothing to make it of."""
Plans = Generator[Plan, float, None]
"""One plan after the other; each is answered with what it costs, by which a family may tell what else to try."""
Family = Callable[[Material], Plans]
"""The most promising few plans of a family."""
