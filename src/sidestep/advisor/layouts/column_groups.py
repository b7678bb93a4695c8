"""Which columns of a table lie together, and how each group of them is arranged: chosen on a sample, in limited time.

The search of the thesis (:mod:`sidestep.layout.columns.search`) goes by features alone, which takes seconds. Of what it
came across, the few best schemes are rated by all means there are, on fewer rows, and the groups of the one that is
chosen are arranged once more by more of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sidestep.advisor.families.columns import FEWEST_ROWS, URGENT, ColumnTrials
from sidestep.advisor.layouts.choose import LayoutChoice
from sidestep.advisor.trials.sample import SEED, RowNumbers, Sample
from sidestep.layout.columns.costs import CostModel
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.columns.rows import RowsByFeatures
from sidestep.layout.columns.search import Scheme, rate_again, search
from sidestep.layout.vectors import Words, reduce_vectors
from sidestep.workload import Feature, FeatureSet

SEARCHED_ROWS, WIDE_ROWS = 12_000, 3_000
"""Rows that groups are searched on; of a table with many columns, fewer."""
SEARCHED_VECTORS, WIDE_VECTORS = 1_000, 300
"""Distinct vectors of a group during the search."""
WIDE = 60
"""Columns from which a table is wide."""
RATED_ROWS, MOST_RATED = 4_000, 3
"""Rows by which schemes are rated again, and how many of them."""
FINAL_ROWS, MOST_FINAL_ROWS, ROWS_OF_BLOCK = 8_000, 24_000, 60
"""Rows by which the groups of the chosen scheme are arranged: at least, at most, and for each block of a unit."""
SECONDS = 60.0
"""After so long, no further scheme is rated."""


@dataclass(frozen=True, eq=False)
class ColumnStudy:
    """A table and its workload, as column groups are chosen by."""

    table: str
    workload: ColumnWorkload
    features: tuple[Feature, ...]
    sample: Sample
    words: Words
    """The feature vector of each row of the sample."""
    min_size: int
    unit_rows: int
    """Rows of a unit: the groups of each are arranged on their own."""

    def draw(self, rows: int) -> RowNumbers:
        """Some rows of the sample, the same ones each time."""
        return np.sort(np.random.default_rng(SEED).permutation(len(self.sample))[:rows])

    def block(self, rows: int) -> int:
        """How many of so many rows make a block, if they stand for a unit."""
        return max(1, round(rows * self.min_size / max(1, self.unit_rows)))

    def trials(self, rows: int, cuts: tuple[float, ...]) -> ColumnTrials:
        """Groups tried on some of the rows."""
        drawn = self.draw(rows)
        block = max(FEWEST_ROWS, self.block(len(drawn)))
        return ColumnTrials(self.workload, self.sample.take(drawn), self.words[drawn], block, cuts=cuts)


@dataclass(frozen=True, eq=False)
class ChosenGroup:
    """Columns that lie together, and how their rows are arranged."""

    columns: tuple[str, ...]
    layout: LayoutChoice


@dataclass(frozen=True, eq=False)
class ChosenGroups:
    """The column groups of a table."""

    groups: tuple[ChosenGroup, ...]
    cost: float
    """What the queries of the log would read of the sample: cells and row ids."""
    together: float
    """What they would read of one group that has all columns."""
    filtered: tuple[str, ...]
    """Columns that queries filter: blocks of every group are to know what their rows hold in them."""

    @cached_property
    def summary(self) -> str:
        """What was chosen and why, in a sentence."""
        if len(self.groups) == 1:
            return (
                "All columns are in one group, as no division of them that was tried would let the queries read less: "
                "the table is laid out as an ordinary one."
            )
        share = self.cost / self.together if self.together else 1.0
        return (
            f"{len(self.groups)} column groups: by a sample, the queries of the log would read {share:.0%} of the "
            "cells that they read where all columns are in one, row ids included."
        )


def choose_groups(
    study: ColumnStudy, *, seconds: float = SECONDS, tell: Callable[[str], None] = lambda _: None
) -> ChosenGroups:
    """The column groups that suit the queries best; one group where nothing is better than that."""
    began = time.monotonic()
    tell("column groups")
    scheme, together = _choose_scheme(study, lambda: time.monotonic() - began > seconds)
    blocks = study.unit_rows // study.min_size
    trials = study.trials(min(MOST_FINAL_ROWS, max(FINAL_ROWS, ROWS_OF_BLOCK * blocks)), URGENT)
    groups = []
    for group in scheme.groups:
        names = tuple(study.workload.columns[at] for at in sorted(group))
        tell(f"the arrangement of {', '.join(names[:3])}" + (", …" if len(names) > 3 else ""))
        arranged = trials.arrange(group)
        local = [study.features[int(at)] for at in arranged.local.numbers]
        tree = arranged.arrangement.tree
        layout = LayoutChoice(
            FeatureSet(study.table, tuple(local)),
            arranged.demands,
            None,
            study.min_size,
            arranged.arrangement.order,
            (),
            None if tree is None else tree.tree,
            family=arranged.arrangement.family,
            detail=arranged.arrangement.detail,
            few_valued=trials.few_valued,
        )
        groups.append(ChosenGroup(names, layout))
    return ChosenGroups(tuple(groups), scheme.cost, together, tuple(sorted(study.sample.types)))


@dataclass(frozen=True, slots=True)
class GroupsTrial:
    """The best division of the columns for one size of blocks; shares are of all cells that queries ask for."""

    groups: tuple[tuple[str, ...], ...]
    read: float
    """What the queries would read of it, row ids and their join included."""
    together: float
    """What they would read of one group that has all columns."""


def try_groups(study: ColumnStudy, *, seconds: float = SECONDS) -> GroupsTrial:
    """What the queries would read of the best column groups there are, without working out how to arrange them."""
    began = time.monotonic()
    scheme, together = _choose_scheme(study, lambda: time.monotonic() - began > seconds)
    workload = study.workload
    rows = min(RATED_ROWS, len(study.sample))
    everything = max(1.0, float(workload.weights @ workload.reads.sum(axis=1)) * rows)
    return GroupsTrial(scheme.names(workload), scheme.cost / everything, together / everything)


def _choose_scheme(study: ColumnStudy, stop: Callable[[], bool]) -> tuple[Scheme, float]:
    """The scheme, and what one group for all would cost."""
    workload = study.workload
    wide = len(workload.columns) > WIDE
    drawn = study.words[study.draw(WIDE_ROWS if wide else SEARCHED_ROWS)]
    vectors = reduce_vectors(drawn, len(study.features))
    most = WIDE_VECTORS if wide else SEARCHED_VECTORS
    found = search(workload, RowsByFeatures(workload, vectors, study.block(len(drawn)), most))
    trials = study.trials(RATED_ROWS, URGENT[-1:])
    best = rate_again(found, workload, trials, most=MOST_RATED, stop=stop)
    return best, Scheme.of(found.together.groups, workload, trials, CostModel()).cost
