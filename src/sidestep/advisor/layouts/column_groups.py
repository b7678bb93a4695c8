"""Which columns of a table lie together, and how each group of them is arranged: chosen on a sample, in limited time.

The search of the thesis (:mod:`sidestep.layout.columns.search`) goes by features alone, which takes seconds. Of what it
came across, the few best schemes are rated by all means there are, on fewer rows, and the groups of the one that is
chosen are arranged once more by more of them. What came of it is judged as other layouts are: by queries that it was
not made from, on other rows, by what reading costs (:func:`judge_groups`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sidestep.advisor.families.columns import FEWEST_ROWS, URGENT, ArrangedGroup, ColumnTrials, FilterNeeds
from sidestep.advisor.layouts.choose import Judges, LayoutChoice, Trial
from sidestep.advisor.trials.cost import ID_BYTES, PER_BYTE, PER_JOINED, files_by_size, reading
from sidestep.advisor.trials.narrowing import narrowed
from sidestep.advisor.trials.sample import SEED, RowNumbers, Sample
from sidestep.advisor.trials.trial import Blocks, Shares, catalog_of
from sidestep.errors import SidestepError
from sidestep.layout.columns.costs import CostModel, Group
from sidestep.layout.columns.local import MOST_VECTORS
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.columns.rows import RowsByFeatures
from sidestep.layout.columns.search import Scheme, rate_again, search
from sidestep.layout.vectors import Bits, Words, reduce_vectors
from sidestep.synopsis import kept_blocks
from sidestep.workload import Feature, FeatureSet

SEARCHED_ROWS, WIDE_ROWS = 12_000, 3_000
"""Rows that groups are searched on; of a table with many columns, fewer."""
SEARCHED_VECTORS, WIDE_VECTORS = 1_000, 300
"""Distinct vectors of a group during the search."""
WIDE = 60
"""Columns from which a table is wide."""
RATED_ROWS, RATED_VECTORS, MOST_RATED = 4_000, 500, 3
"""Rows by which schemes are rated again, their distinct vectors, and how many schemes."""
FINAL_ROWS, MOST_FINAL_ROWS, ROWS_OF_BLOCK = 8_000, 24_000, 60
"""Rows by which the groups of the chosen scheme are arranged: at least, at most, and for each block of a unit."""
SECONDS = 60.0
"""After so long, of this thread's own time, no further scheme is rated: what else runs does not change the choice."""
FAMILY = "column groups"
CLEAR_GAIN = 0.25
"""By this share column groups have to be cheaper than rows in one piece: they are a table that sidestep alone reads."""


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
    slices: RowNumbers | None = None
    """For each row of the sample, about which unit it would be in; None where that is not known."""

    def draw(self, rows: int) -> RowNumbers:
        """Some rows of the sample, the same ones each time."""
        return np.sort(self._mixed[:rows])

    def draw_others(self, rows: int) -> RowNumbers:
        """As many rows that :meth:`draw` does not give; the same ones, if there are too few."""
        return np.sort(self._mixed[rows : 2 * rows]) if len(self.sample) >= 2 * rows else self.draw(rows)

    @cached_property
    def _mixed(self) -> RowNumbers:
        return np.random.default_rng(SEED).permutation(len(self.sample))

    def block(self, rows: int) -> int:
        """How many of so many rows make a block, if they stand for a unit."""
        return max(1, round(rows * self.min_size / max(1, self.unit_rows)))

    @property
    def all_cells(self) -> float:
        """What the queries would cost for each row, if all of them read it in all columns."""
        return max(1.0, float(self.workload.weights.sum()) * len(self.workload.columns))

    def cost_together(self) -> float:
        """What the queries would read of one group that has all columns, as a share of all cells."""
        rated = self.trials(RATED_ROWS, URGENT[-1:], RATED_VECTORS)
        return _cost_together(self, rated, CostModel()) / (self.all_cells * max(1, len(rated.sample)))

    @property
    def final_rows(self) -> int:
        """By how many rows the groups that were chosen are arranged."""
        return min(MOST_FINAL_ROWS, max(FINAL_ROWS, ROWS_OF_BLOCK * (self.unit_rows // self.min_size)))

    def trials(self, rows: int, cuts: tuple[float, ...], most_vectors: int = MOST_VECTORS) -> ColumnTrials:
        """Groups tried on some of the rows."""
        drawn = self.draw(rows)
        block = max(FEWEST_ROWS, self.block(len(drawn)))
        return ColumnTrials(
            self.workload,
            self.sample.take(drawn),
            self.words[drawn],
            block,
            cuts=cuts,
            most_vectors=most_vectors,
            filters=self.filters,
        )

    @cached_property
    def narrowed_by_units(self) -> frozenset[str] | None:
        """The columns of which each unit holds less than the table does; None where that is not known.

        So it is with times, of rows that lie in the order in which they came.
        """
        if self.slices is None:
            return None
        sizes = np.bincount(self.slices)
        units = Blocks(np.argsort(self.slices, kind="stable"), sizes[sizes > 0])
        return narrowed(self.sample, self.filters.needs, units)

    def known_of_others(
        self, arranged: ArrangedGroup, held: Collection[str], rows: Bits | None
    ) -> frozenset[str] | None:
        """The columns by which blocks of a group can be told apart that lacks them; None: perhaps any that it lacks.

        ``rows`` are those of the sample that the group has, if these are not all.
        """
        by_units = self.narrowed_by_units
        if by_units is None:
            return None
        there = self.draw_others(self.final_rows)
        block = self.block(len(there))
        if rows is not None:
            there = there[rows[there]]
        blocks = arranged.blocks(self.sample.take(there), self.words[there], len(self.features), block)
        placed = Blocks(there[blocks.order], blocks.sizes)
        others = [name for name in self.sample.types if name not in held]
        return narrowed(self.sample, self.filters.needs, placed, others) | by_units.intersection(others)

    @cached_property
    def filters(self) -> FilterNeeds:
        """What the filters of the workload need of the sample, for all trials."""
        return FilterNeeds(self.workload, self.sample)

    def search_rows(self) -> RowsByFeatures:
        """What the search goes by: features alone."""
        wide = len(self.workload.columns) > WIDE
        drawn = self.words[self.draw(WIDE_ROWS if wide else SEARCHED_ROWS)]
        vectors = reduce_vectors(drawn, len(self.features))
        return RowsByFeatures(
            self.workload, vectors, self.block(len(drawn)), WIDE_VECTORS if wide else SEARCHED_VECTORS
        )


@dataclass(frozen=True, eq=False)
class ChosenGroup:
    """Columns that lie together, and how their rows are arranged."""

    columns: tuple[str, ...]
    layout: LayoutChoice
    arranged: ArrangedGroup
    """The same as it was tried on the sample."""
    beside: frozenset[str] | None = None
    """Columns of other groups that its blocks are to know, as they differ in them; None: all that queries filter."""
    rows: FeatureSet | None = None
    """The rows that satisfy at least one of these; None: all rows."""
    rest_of: int | None = None
    """Instead, those that satisfy none: the ones that the group at this position lacks."""


@dataclass(frozen=True, eq=False)
class ChosenGroups:
    """The column groups of a table."""

    groups: tuple[ChosenGroup, ...]
    cost: float
    """What the queries of the log would read by a sample, row ids and their join included: as a share of what all cells
    of the table would cost for each query."""
    together: float
    """What they would read of one group that has all columns."""
    filtered: tuple[str, ...]
    """Columns that queries filter: blocks of every group may know what their rows hold in them."""
    note: str = ""
    """What else is to be said of the choice."""

    @property
    def replicated(self) -> bool:
        """Whether some cells are stored more than once."""
        return any(group.rows is not None for group in self.groups)

    @cached_property
    def summary(self) -> str:
        """What was chosen and why, in a sentence or two."""
        if self.replicated:
            return self.note
        return f"{self.note} {self._division}" if self.note else self._division

    @property
    def _division(self) -> str:
        if len(self.groups) == 1:
            return (
                "All columns are in one group, as no division of them that was tried would let the queries read less."
            )
        share = self.cost / self.together if self.together else 1.0
        return (
            f"{len(self.groups)} column groups: by a sample, the queries of the log would read {share:.0%} of the "
            "cells that they read where all columns are in one, row ids included."
        )


def choose_groups(
    study: ColumnStudy,
    *,
    given: Sequence[Sequence[str]] | None = None,
    model: CostModel | None = None,
    seconds: float = SECONDS,
    tell: Callable[[str], None] = lambda _: None,
) -> ChosenGroups:
    """The column groups that suit the queries best; one group where nothing is better than that.

    With groups that are ``given``, only their arrangements are chosen; columns that none of them names are one more.
    """
    tell("column groups")
    model = model or CostModel()
    rated = study.trials(RATED_ROWS, URGENT[-1:], RATED_VECTORS)
    if given is None:
        scheme = _choose_scheme(study, rated, model, seconds)
    else:
        scheme = Scheme.of(given_groups(given, study.workload.columns), study.workload, rated, model)
    trials = study.trials(study.final_rows, URGENT)
    groups = []
    for group in scheme.groups:
        names = tuple(study.workload.columns[at] for at in sorted(group))
        tell(f"the arrangement of {', '.join(names[:3])}" + (", …" if len(names) > 3 else ""))
        groups.append(arrange_group(study, trials.arrange(group), names, trials.few_valued))
    everything = study.all_cells * max(1, len(rated.sample))
    return ChosenGroups(
        tuple(groups),
        scheme.cost / everything,
        _cost_together(study, rated, model) / everything,
        tuple(sorted(study.sample.types)),
    )


def _choose_scheme(study: ColumnStudy, rated: ColumnTrials, model: CostModel, seconds: float) -> Scheme:
    """The best scheme of those that a search comes across, as it is rated by all means there are."""
    began = time.thread_time()
    found = search(study.workload, study.search_rows(), model)
    return rate_again(
        found, study.workload, rated, model, most=MOST_RATED, stop=lambda: time.thread_time() - began > seconds
    )


def _cost_together(study: ColumnStudy, rated: ColumnTrials, model: CostModel) -> float:
    """What one group of all columns would cost."""
    return Scheme.of([frozenset(range(len(study.workload.columns)))], study.workload, rated, model).cost


def given_groups(given: Sequence[Sequence[str]], columns: Sequence[str]) -> list[Group]:
    """Groups of columns by their positions, and one of those that were left out.

    >>> given_groups([["b"], ["a", "d"]], "abcde")
    [frozenset({1}), frozenset({0, 3}), frozenset({2, 4})]
    """
    place = {name: at for at, name in enumerate(columns)}
    named = [name for group in given for name in group]
    unknown = sorted({name for name in named if name not in place})
    twice = sorted({name for name in named if named.count(name) > 1})
    if unknown or twice or not all(given):
        wrong = f"there is no column {unknown[0]}" if unknown else f"{twice[0]} is in two" if twice else "one is empty"
        raise SidestepError(f"Of these column groups, {wrong}: name each column of the table in one group at most.")
    groups = [frozenset(place[name] for name in group) for group in given]
    rest = frozenset(range(len(columns))).difference(*groups)
    return [*groups, rest] if rest else groups


def arrange_group(
    study: ColumnStudy,
    arranged: ArrangedGroup,
    names: tuple[str, ...],
    few_valued: tuple[str, ...],
    rows: Bits | None = None,
) -> ChosenGroup:
    """Columns of these names, whose rows are to be arranged as they were on the sample; ``rows`` if not all of it."""
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
        few_valued=few_valued,
    )
    return ChosenGroup(names, layout, arranged, study.known_of_others(arranged, names, rows))


def clearly_cheaper(groups: float, rows: float) -> bool:
    """Whether what queries cost on column groups is clearly below what they cost on a layout of rows."""
    return groups <= (1 - CLEAR_GAIN) * rows


def judge_groups(
    study: ColumnStudy, chosen: ChosenGroups, judges: Judges, widths: Mapping[str, float], file_rows: float
) -> Trial:
    """What queries would read of column groups, on rows that these were not arranged by.

    ``judges`` says which columns each query reads; ``file_rows`` is how many rows a file has that holds all columns,
    so that the files of narrow groups have more. A query that reads several groups reads the ids of their rows as well,
    and joins them. Rows are counted by column: half of them in each of two columns is half of the rows.
    """
    bench = _GroupBench(study, chosen, judges, widths)
    total = bench.width_of(bench.known)
    for group in chosen.groups:
        bench.add(group, file_rows * total / bench.width_of(group.columns))
    return bench.trial()


class _GroupBench:
    """Adds up what queries read, group by group."""

    def __init__(self, study: ColumnStudy, chosen: ChosenGroups, judges: Judges, widths: Mapping[str, float]) -> None:
        self.study, self.judges, self.widths = study, judges, widths
        rows = study.draw_others(study.final_rows)
        self.sample, self.words = study.sample.take(rows), study.words[rows]
        self.block = study.block(len(rows))
        self.units = max(1.0, self.sample.rows / study.unit_rows)
        self.groups = len(chosen.groups)
        self.known = frozenset(name for group in chosen.groups for name in group.columns)
        read = judges.columns or [self.known] * len(judges.formulas)
        # A query that reads no column, only counts rows, is taken to read them all: it costs all layouts alike.
        self.asked = [(names & self.known) or self.known for names in read]
        self.files_there = 0.0
        self.cells, self.bytes, self.files, self.seconds, self.rows, self.touched = np.zeros((6, len(self.asked)))

    def width_of(self, names: Iterable[str]) -> float:
        """Bytes of a row in some columns."""
        return max(1.0, sum(self.widths.get(name, 1.0) for name in names))

    def add(self, group: ChosenGroup, file_rows: float) -> None:
        """What the queries read of a group whose files have so many rows."""
        study, features = self.study, len(self.study.features)
        blocks = group.arranged.blocks(self.sample, self.words, features, self.block)
        file_of_block = files_by_size(blocks.sizes, file_rows * len(self.sample) / max(1, study.unit_rows))
        self.files_there += self.units * (int(file_of_block.max(initial=-1)) + 1)
        wanted = {at: names & set(group.columns) for at, names in enumerate(self.asked)}
        mine = np.array([at for at, names in wanted.items() if names], np.intp)
        if not len(mine):
            return
        local = [feature.formula for feature in group.layout.features.features]
        catalog = catalog_of(self.sample, blocks, local, group.arranged.project(self.words, features))
        kept = np.array([kept_blocks(catalog, self.judges.formulas[at]) for at in mine.tolist()], np.bool_)
        read = reading(blocks, file_of_block, kept.reshape(len(mine), len(blocks)))
        width = np.array([self.width_of(wanted[at]) for at in mine.tolist()])
        self.cells[mine] += read.rows * np.array([len(wanted[at]) for at in mine.tolist()])
        self.bytes[mine] += read.rows * width
        self.files[mine] += self.units * read.files
        self.seconds[mine] += self.units * read.seconds(round(self.sample.rows / self.units), width)
        self.rows[mine] += read.rows
        self.touched[mine] += 1

    def trial(self) -> Trial:
        """The mean of all queries, with row ids and joins where several groups were read."""
        weights = self.judges.weights
        ids = np.where(self.touched > 1, self.rows, 0)
        width = np.array([self.width_of(names) for names in self.asked])
        columns = np.array([len(names) for names in self.asked])
        seconds = self.seconds + ids * self.sample.rows * (PER_JOINED + ID_BYTES * PER_BYTE)

        def mean(values: Shares, by: Shares = weights) -> float:
            return float(np.average(values, weights=by)) if len(values) and by.any() else 0.0

        return Trial(
            FAMILY,
            f"{self.groups} groups; {mean(self.touched):.1f} for a query",
            mean(self.cells / columns),
            mean((self.bytes + ID_BYTES * ids) / width, weights * width),
            mean(self.files / max(1.0, self.files_there)),
            mean(seconds),
            np.zeros(1),
        )


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
    workload, model = study.workload, CostModel()
    rated = study.trials(RATED_ROWS, URGENT[-1:], RATED_VECTORS)
    scheme = _choose_scheme(study, rated, model, seconds)
    everything = max(1.0, float(workload.weights @ workload.reads.sum(axis=1)) * min(RATED_ROWS, len(study.sample)))
    together = _cost_together(study, rated, model)
    return GroupsTrial(scheme.names(workload), scheme.cost / everything, together / everything)
