"""Layouts that share cells (GSOP-R), each arranged by the best means there is for the queries that read it.

A scheme comes from features alone (:mod:`sidestep.layout.replicas.search`). Here its layouts become parts of a table,
and every part is arranged as a column group is (:mod:`.columns`): for the queries whose path leads there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sidestep.advisor.families.columns import FEWEST_ROWS, URGENT, ArrangedGroup, ColumnTrials, FilterNeeds
from sidestep.advisor.trials.sample import SEED, Sample
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.replicas.costs import LayoutReads, layout_reads, retrieve
from sidestep.layout.replicas.paths import PathCost
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.schemes import ColumnNumbers, FeatureNumbers, ReplicaScheme
from sidestep.layout.replicas.search import HARDLY, RatedScheme
from sidestep.layout.vectors import Bits, Words, unpack
from sidestep.layout.weights import Floats


@dataclass(frozen=True, eq=False)
class LayoutPart:
    """Columns of a table in some of its rows, or in all of them, that are stored and arranged together.

    A layout in which every column is a master is one part, of all rows. Any other has a part of all its columns in the
    rows of its features, and one of its master columns in the rest (5.4.2).
    """

    layout: int
    columns: ColumnNumbers
    features: FeatureNumbers | None
    """The rows that satisfy at least one of these; None: all rows."""
    rest: bool
    """Instead, the rows that satisfy none of them."""
    columns_read: Floats
    """For each query of the workload, how many columns it reads here."""

    def holds(self, bits: Bits) -> Bits:
        """Which rows are of this part; ``bits`` has rows by features."""
        if self.features is None:
            return np.ones(len(bits), np.bool_)
        some = bits[:, sorted(self.features)].any(axis=1)
        return np.asarray(~some if self.rest else some)


def parts_of(workload: ColumnWorkload, scheme: ReplicaScheme, rows: LayoutRows, cost: PathCost) -> Iterator[LayoutPart]:
    """The parts that a scheme is stored in, and what queries read of each on the paths that features lead to."""
    layouts = [layout_reads(workload, layout, rows) for layout in scheme.layouts]
    path = retrieve(workload.reads, layouts, cost).layout
    for at, (layout, reads) in enumerate(zip(scheme.layouts, layouts, strict=True)):
        columns = (path == at).sum(axis=1).astype(np.float64)
        if layout.whole:
            yield LayoutPart(at, layout.columns, None, False, columns)
            continue
        yield LayoutPart(at, layout.columns, layout.features, False, columns)
        if layout.masters:
            yield LayoutPart(at, layout.masters, layout.features, True, np.where(reads.eligible, 0.0, columns))


class PartTrials:
    """Parts tried on a sample: at most ``most`` rows of each, in blocks of the same share of its rows as in a table.

    ``block`` is how many rows of the whole sample make a block.
    """

    def __init__(
        self,
        workload: ColumnWorkload,
        sample: Sample,
        words: Words,
        block: float,
        most: int,
        cuts: tuple[float, ...] = URGENT[-1:],
        filters: FilterNeeds | None = None,
    ) -> None:
        self.workload, self.sample, self.words = workload, sample, words
        self._filters = FilterNeeds(workload, sample) if filters is None else filters
        self._block, self._most, self._cuts = block, most, cuts
        self._bits = unpack(words, workload.features)
        self._drawn: dict[tuple[FeatureNumbers | None, bool], ColumnTrials] = {}

    def arrange(self, part: LayoutPart) -> ArrangedGroup:
        """The arrangement that suits the queries of the part best."""
        return self.trials(part).arrange_for(part.columns_read)

    def read(self, part: LayoutPart) -> Floats:
        """For each filter what it reads of the part, as a share of all rows."""
        trials = self.trials(part)
        if not len(trials.sample):
            return np.zeros(len(self.workload.filters))
        share = float(part.holds(self._bits).mean()) / len(trials.sample)
        return np.asarray(share * trials.read_by_all(self.arrange(part)))

    def trials(self, part: LayoutPart) -> ColumnTrials:
        """Some of the rows of the part."""
        key = part.features, part.rest
        if key not in self._drawn:
            mine = np.flatnonzero(part.holds(self._bits))
            drawn = np.sort(np.random.default_rng(SEED).permutation(mine)[: self._most])
            block = max(FEWEST_ROWS, round(self._block * len(drawn) / max(1, len(mine))))
            sample = self.sample.take(drawn)
            self._drawn[key] = ColumnTrials(
                self.workload, sample, self.words[drawn], block, cuts=self._cuts, filters=self._filters
            )
        return self._drawn[key]


def parts_read(
    workload: ColumnWorkload, scheme: ReplicaScheme, rows: LayoutRows, trials: PartTrials, cost: PathCost
) -> Iterator[LayoutReads]:
    """What queries read of each layout by all means, as shares of all rows.

    That is what they read of all parts of it, or of one that has all rows they want.
    """
    read: list[list[Floats]] = [[] for _ in scheme.layouts]
    for part in parts_of(workload, scheme, rows, cost):
        read[part.layout].append(trials.read(part))
    for layout, of_parts in zip(scheme.layouts, read, strict=True):
        whole = np.sum(of_parts, axis=0)
        eligible = np.zeros(len(whole), np.bool_) if layout.whole else rows.eligible(layout.features)
        of_filter = np.where(eligible, of_parts[0], whole)
        asked = workload.filter_of_query
        yield LayoutReads(layout, of_filter[asked], eligible[asked])


def cost_of_parts(
    workload: ColumnWorkload, scheme: ReplicaScheme, rows: LayoutRows, trials: PartTrials, cost: PathCost
) -> float:
    """What a workload costs on a scheme whose parts are arranged by all means."""
    layouts = list(parts_read(workload, scheme, rows, trials, cost))
    return float(retrieve(workload.reads, layouts, cost).cost(cost) @ workload.weights)


def cheapest(
    found: Sequence[RatedScheme], workload: ColumnWorkload, rows: LayoutRows, trials: PartTrials, cost: PathCost
) -> RatedScheme:
    """Of schemes that a search came to by features, the one that is cheapest by all means.

    What looks the same by features can be a fifth dearer. Of schemes that cost hardly more, it is the one of fewest
    layouts: every layout has to be written.
    """
    costs = [cost_of_parts(workload, one.scheme, rows, trials, cost) for one in found]
    nearly = [at for at, of in enumerate(costs) if of <= min(costs) * (1 + HARDLY)]
    return found[min(nearly, key=lambda at: (len(found[at].scheme.layouts), costs[at]))]
