"""Column groups, each arranged by the best means there is for the queries that read it.

The thesis arranges a group by its local features (4.5). A group's blocks can know more than that: bounds and sets of
values of any column that its queries filter, whether the group holds the column or not, for its rows are rows of the
table. So a group is also tried as a tree of cuts, grown for the queries that read it, and weighed by what they read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sidestep.advisor.families.family import Arrangement
from sidestep.advisor.trials.grow import grow
from sidestep.advisor.trials.needs import Needs, Positions, needs_of, skipped_by_values
from sidestep.advisor.trials.sample import SEED, Sample
from sidestep.advisor.trials.trial import Blocks
from sidestep.layout.columns.costs import Group
from sidestep.layout.columns.local import MOST_VECTORS, LocalFeatures, rank_by_weight, select_features
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.demand import Demand, Demands, Range, merge_demands
from sidestep.layout.vectors import Bits, VectorCounts, Words, pack, reduce_vectors, unpack
from sidestep.layout.weights import Floats
from sidestep.predicate import Formula
from sidestep.predicate.formula import necessary_ranges

URGENT = (0.05, 0.2)
"""As for tables: see :mod:`.cuts`."""
LEAVES_PER_BLOCK = 1.3
"""Leaves have from once to twice their least size."""
MOST_FILTERS = 240
"""Filters that cuts are made by: the time to grow a tree is in proportion to their number."""
FEWEST_ROWS = 12
"""Rows of a sample's block: of fewer too little is known."""


@dataclass(frozen=True, eq=False)
class ArrangedGroup:
    """How the rows of a group of columns are arranged."""

    arrangement: Arrangement
    local: LocalFeatures
    demands: Demands
    """What the queries of the group demand, in terms of its local features."""

    def blocks(self, sample: Sample, words: Words, features: int, block: int) -> Blocks:
        """The blocks that it makes of rows; ``words`` are over all features."""
        return self.arrangement.blocks(sample, self.project(words, features), self.demands, block)

    def project(self, words: Words, features: int) -> Words:
        """Vectors over the local features alone."""
        return pack(unpack(words, features)[:, self.local.numbers])


@dataclass(frozen=True, eq=False)
class FilterNeeds:
    """What the filters of a workload need of a sample's values: the same whichever of its rows groups are tried on.

    To work it out for hundreds of filters takes as long as to arrange a group, so trials on parts of a sample share it.
    """

    workload: ColumnWorkload
    sample: Sample

    @cached_property
    def needs(self) -> Needs:
        filters = len(self.workload.filters)
        return needs_of(self.sample, self._formulas, np.ones(filters), np.zeros((0, filters), np.bool_))

    @cached_property
    def subsumes(self) -> Bits:
        """Features by filters."""
        return np.ascontiguousarray(self.workload.helped.T >= 1)

    @cached_property
    def times(self) -> list[tuple[Range, ...]]:
        """For each filter the times that it asks for."""
        return [_time_ranges(self.sample, formula) for formula in self._formulas]

    @cached_property
    def _formulas(self) -> list[Formula]:
        return [key for key in self.workload.keys if isinstance(key, Formula)]


class ColumnTrials:
    """Groups of columns tried on a sample: which arrangement suits each, and how many rows each filter reads of it.

    ``words`` has the feature vector of each row; blocks have at least ``block`` rows of the sample. The keys of the
    workload's filters are formulas. What was tried is kept, by what the queries read of the group. ``rough`` rows are
    enough to tell which of many groups are worth a full trial. ``filters`` are the needs of the workload's filters, if
    these are known already: of the sample that this one was taken from.
    """

    def __init__(
        self,
        workload: ColumnWorkload,
        sample: Sample,
        words: Words,
        block: int,
        *,
        cuts: tuple[float, ...] = URGENT,
        most_vectors: int = MOST_VECTORS,
        rough: int | None = None,
        filters: FilterNeeds | None = None,
    ) -> None:
        self.workload, self.sample, self.words, self.block = workload, sample, words, max(1, block)
        self._cuts, self._most_vectors = cuts, most_vectors
        self._filters = FilterNeeds(workload, sample) if filters is None else filters
        self._tried: dict[bytes, tuple[ArrangedGroup, Floats]] = {}
        self._rough: ColumnTrials | None = None
        if rough is not None and rough < len(sample):
            few = np.arange(0, len(sample), len(sample) / rough).astype(np.int64)
            least = max(FEWEST_ROWS, round(block * len(few) / len(sample)))
            fewer = sample.take(few)
            self._rough = ColumnTrials(workload, fewer, words[few], least, cuts=cuts[-1:], filters=self._filters)

    def exact(self, group: Group) -> Floats:
        """The rows that each filter reads of the group as it would be arranged; those that don't touch it read all."""
        return self._try(group)[1]

    def estimate(self, group: Group) -> Floats:
        """The same by fewer rows, in larger blocks."""
        if self._rough is None:
            return self.exact(group)
        return np.asarray(self._rough.exact(group) * (len(self.sample) / len(self._rough.sample)))

    def least(self) -> Floats:
        """At least how many rows each filter reads of any group: those that it could not skip in blocks of their own.

        A block that has such a row is never skipped, whatever else is in it.
        """
        alone = Blocks(np.arange(len(self.sample)), np.ones(len(self.sample), np.int64))
        every = np.arange(len(self.workload.filters))
        skipped = self.workload.skipping(every).skipped(self._bits, np.arange(self.workload.features))
        skipped |= skipped_by_values(self.sample, self._needs, alone)
        return np.asarray((~skipped).sum(axis=1), np.float64)

    def arrange(self, group: Group) -> ArrangedGroup:
        """The arrangement with which the queries read least of the group."""
        return self._try(group)[0]

    @property
    def few_valued(self) -> tuple[str, ...]:
        """The filtered columns of few values: that a block knows the set of each is taken for granted here."""
        return tuple(sorted(self._needs.sets))

    def arrange_for(self, columns: Floats) -> ArrangedGroup:
        """The arrangement with which queries read least, if each reads so many columns here."""
        return self._try_for(columns.astype(np.int32))[0]

    def read_by_all(self, group: ArrangedGroup) -> Floats:
        """The rows that each filter reads of columns that are so arranged, whether its queries ask for them or not."""
        return self._read(group, np.arange(len(self.workload.filters)))

    def _try(self, group: Group) -> tuple[ArrangedGroup, Floats]:
        return self._try_for(self.workload.reads[:, sorted(group)].sum(axis=1).astype(np.int32))

    def _try_for(self, columns: npt.NDArray[np.int32]) -> tuple[ArrangedGroup, Floats]:
        key = (columns // max(1, int(np.gcd.reduce(columns, initial=0)))).tobytes()
        if key not in self._tried:
            weights = np.zeros(len(self.workload.filters))
            np.add.at(weights, self.workload.filter_of_query, self.workload.weights * columns)
            asked = np.flatnonzero(weights)
            tried = ((one, self._read(one, asked)) for one in self._candidates(weights))
            self._tried[key] = min(tried, key=lambda pair: float(pair[1] @ weights))
        return self._tried[key]

    def _candidates(self, weights: Floats) -> Iterator[ArrangedGroup]:
        ranked = rank_by_weight(weights @ self.workload.helped)
        local = select_features(ranked, self._vectors, self._most_vectors)
        demands = self._demands(local, weights)
        featured = Arrangement("features", f"{len(local)} features", order=self._order(weights))
        yield ArrangedGroup(featured, local, demands)
        asked = _heaviest(weights)
        if not len(asked):
            return
        needs = replace(
            self._needs.take(asked), weights=weights[asked], subsumes=self._filters.subsumes[local.numbers][:, asked]
        )
        satisfied = np.ascontiguousarray(self._bits[:, local.numbers].T)
        least = max(1, round(self.block / LEAVES_PER_BLOCK))
        for urgent in self._cuts:
            tree = grow(self.sample, needs, satisfied, least, urgent)
            if tree.tree is not None:
                cut = Arrangement("cuts", f"{tree.leaves} parts", tree=tree, order=self._order(weights))
                yield ArrangedGroup(cut, local, demands)

    def _read(self, group: ArrangedGroup, asked: Positions) -> Floats:
        rows = np.full(len(self.workload.filters), float(len(self.sample)))
        blocks = group.blocks(self.sample, self.words, self.workload.features, self.block)
        unions = np.logical_or.reduceat(self._bits[blocks.order][:, group.local.numbers], blocks.starts, axis=0)
        skipped = self.workload.skipping(asked).skipped(unions, group.local.numbers)
        skipped |= skipped_by_values(self.sample, self._needs.take(asked), blocks)
        rows[asked] -= skipped @ blocks.sizes
        return rows

    def _demands(self, local: LocalFeatures, weights: Floats) -> Demands:
        """Whole filters with the times that they ask for, and features that speak of a part of a filter."""
        place = {int(number): at for at, number in enumerate(local.numbers)}
        demands = []
        for number in np.flatnonzero(weights):
            helped = self.workload.helped[number]
            whole = [place[int(at)] for at in np.flatnonzero(helped >= 1) if int(at) in place]
            demands.append(Demand(tuple(sorted(whole)), self._filters.times[int(number)], float(weights[number])))
            for at in np.flatnonzero((helped > 0) & (helped < 1)):
                if int(at) in place:
                    demands.append(Demand((place[int(at)],), (), float(weights[number] * helped[at])))
        return merge_demands(len(local), demands)

    def _order(self, weights: Floats) -> tuple[str, ...]:
        """The column that most of the group's queries filter: rows that are alike otherwise are cut along it."""
        filtered = {name: of for name, (of, *_) in (*self._needs.ranges.items(), *self._needs.sets.items())}
        counted = {name: float(weights[of].sum()) for name, of in filtered.items()}
        best = max(counted, key=lambda name: (counted[name], len(self.sample.values[name])), default=None)
        return (best,) if best is not None and counted[best] > 0 else ()

    @property
    def _needs(self) -> Needs:
        return self._filters.needs

    @cached_property
    def _bits(self) -> Bits:
        return unpack(self.words, self.workload.features)

    @cached_property
    def _vectors(self) -> VectorCounts:
        return reduce_vectors(self.words, self.workload.features)


def _heaviest(weights: Floats) -> Positions:
    """The filters that cuts are made by, ascending; of those of equal weight any."""
    mixed = np.random.default_rng(SEED).permutation(len(weights))
    heaviest = mixed[np.argsort(-weights[mixed], kind="stable")[:MOST_FILTERS]]
    return np.sort(heaviest[weights[heaviest] > 0])


def _time_ranges(sample: Sample, formula: Formula) -> tuple[Range, ...]:
    ranges: Mapping[str, Range] = {
        column.name: (column.name, _whole(wanted.intervals[0].low), _whole(wanted.intervals[-1].high))
        for column, wanted in necessary_ranges(formula).items()
        if column.name in sample.times and wanted.intervals
    }
    return tuple(ranges[name] for name in sorted(ranges))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
