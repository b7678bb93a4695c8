"""Which cells of a table are stored more than once, within a storage budget: chosen on a sample, like column groups.

The search of the thesis (:mod:`sidestep.layout.replicas.search`) begins with the column groups of chapter 4 and goes by
features. The parts of the scheme that it finds are then arranged by all means there are, each for the queries whose
path leads there, and become groups of the table: some of them with only some of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sidestep.advisor.families.columns import URGENT
from sidestep.advisor.families.replicas import PartTrials, cheapest, cost_of_parts, parts_of
from sidestep.advisor.layouts.choose import Judges, Trial
from sidestep.advisor.layouts.column_groups import (
    RATED_ROWS,
    ChosenGroup,
    ChosenGroups,
    ColumnStudy,
    arrange_group,
    choose_groups,
)
from sidestep.advisor.trials.cost import (
    ID_BYTES,
    PER_BYTE,
    PER_FILE,
    PER_GROUP,
    PER_JOINED,
    PER_ROW,
    files_by_size,
    reading,
)
from sidestep.advisor.trials.trial import Shares, catalog_of
from sidestep.layout.columns.search import search
from sidestep.layout.replicas.paths import find_path
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.search import (
    SEARCH_COST,
    RatedScheme,
    ReplicaSearch,
    check_budget,
    search_replicas,
)
from sidestep.layout.vectors import reduce_vectors, unpack
from sidestep.synopsis import Catalog, kept_blocks
from sidestep.synopsis.features.union_vectors import without_features
from sidestep.workload import FeatureSet

SEARCHED_ROWS, SEARCHED_VECTORS = 3_000, 300
"""Rows that schemes are searched on, and distinct vectors of a layout."""
CURVE = (1.0, 1.1, 1.2, 1.5, 2.0)
"""The budgets that are shown to people who wonder."""
COPIES = "copies"
"""What the family is called where layouts are compared."""
MOST_STORAGE = 10.0
"""More is never of use: a copy of the table for each of so many kinds of queries."""


def noted_budget(storage: float | None) -> float | None:
    """A storage budget as it is kept with a table; None if every cell is to be stored once.

    >>> noted_budget(1.2), noted_budget(float("inf")), noted_budget(1), noted_budget(None)
    (1.2, 10.0, None, None)
    """
    return None if storage is None or storage <= 1 else float(min(storage, MOST_STORAGE))


@dataclass(frozen=True, eq=False)
class ReplicaStudy:
    """What schemes are searched by: a study of a table for column groups, on few of its rows."""

    study: ColumnStudy
    rows: LayoutRows
    start: tuple[frozenset[int], ...]
    """The column groups that every search begins with."""

    @classmethod
    def of(cls, study: ColumnStudy) -> ReplicaStudy:
        drawn = study.words[study.draw(SEARCHED_ROWS)]
        vectors = reduce_vectors(drawn, len(study.features))
        rows = LayoutRows(study.workload, vectors, study.block(len(drawn)), SEARCHED_VECTORS)
        return cls(study, rows, search(study.workload, study.search_rows()).best.groups)

    def search(self, storage: float) -> ReplicaSearch:
        """The schemes that take at most so many times the cells of the table, by features alone."""
        budget = min(check_budget(storage), MOST_STORAGE)
        return search_replicas(self.study.workload, self.rows, budget, self.start)

    def best(self, storage: float) -> RatedScheme:
        """The scheme of the search that is cheapest by all means: see :func:`cheapest`."""
        found = self.search(storage).candidates
        return cheapest(found, self.study.workload, self.rows, part_trials(self.study, RATED_ROWS), SEARCH_COST)


def part_trials(study: ColumnStudy, rows: int) -> PartTrials:
    """Parts of schemes tried on at most so many rows of the sample."""
    block = study.block(len(study.sample))
    return PartTrials(study.workload, study.sample, study.words, block, rows, filters=study.filters)


@dataclass(frozen=True, slots=True)
class StoragePoint:
    """What queries would cost with so much storage."""

    budget: float
    storage: float
    """What the scheme takes, as a multiple of the table's cells."""
    layouts: int
    cost: float
    """What queries would read by features alone, as a share of what they read with a budget of 1."""


def storage_curve(study: ColumnStudy, budgets: Sequence[float] = CURVE) -> tuple[StoragePoint, ...]:
    """What the queries of a log would cost by budget: what it is worth to store cells more than once."""
    searches = ReplicaStudy.of(study)
    found = [(budget, searches.search(budget).best) for budget in budgets]
    base = max(1e-9, found[0][1].cost) if found else 1.0
    # A larger budget allows for what a smaller one does: a search that ends with less is not to be shown.
    points: list[StoragePoint] = []
    best: RatedScheme | None = None
    for budget, rated in found:
        best = rated if best is None or rated.cost < best.cost else best
        points.append(StoragePoint(budget, best.storage, len(best.scheme.layouts), best.cost / base))
    return tuple(points)


def choose_replicas(
    study: ColumnStudy, storage: float, *, tell: Callable[[str], None] = lambda _: None
) -> ChosenGroups:
    """The groups of columns, some with only some rows, that suit the queries best within a storage budget.

    With a budget of 1, or where no copy is worth its place, they are column groups without copies.
    """
    check_budget(storage)
    if storage == 1:
        return choose_groups(study, tell=tell)
    tell("partial replicas")
    searches = ReplicaStudy.of(study)
    rated = searches.best(storage)
    if all(layout.whole for layout in rated.scheme.layouts):
        chosen = choose_groups(study, tell=tell)
        return replace(chosen, note="No copy of cells would let the queries read less within the storage budget.")
    trials = part_trials(study, study.final_rows)
    few_valued = study.trials(study.final_rows, URGENT[-1:]).few_valued
    bits = unpack(study.words, len(study.features))
    groups: list[ChosenGroup] = []
    some_of: dict[int, int] = {}
    """By layout, the position of the group with the rows of its features."""
    for part in parts_of(study.workload, rated.scheme, searches.rows, SEARCH_COST):
        names = tuple(study.workload.columns[at] for at in sorted(part.columns))
        tell(f"the arrangement of {', '.join(names[:3])}" + (", …" if len(names) > 3 else ""))
        # Of a part without a row in the sample nothing can be told: it is arranged as all rows would be.
        held = part.holds(bits)
        tried = part if held.any() else replace(part, features=None, rest=False)
        some = held if part.features is not None and held.any() else None
        group = arrange_group(study, trials.arrange(tried), names, few_valued, some)
        if part.features is not None:
            rows = FeatureSet(study.table, tuple(study.features[at] for at in sorted(part.features)))
            group = replace(group, rows=rows, rest_of=some_of[part.layout] if part.rest else None)
            if not part.rest:
                some_of[part.layout] = len(groups)
        groups.append(group)
    cost = cost_of_parts(study.workload, rated.scheme, searches.rows, trials, SEARCH_COST) / study.all_cells
    together = study.cost_together()
    return ChosenGroups(
        tuple(groups),
        cost,
        together,
        tuple(sorted(study.sample.types)),
        f"{len(rated.scheme.layouts)} layouts that have {rated.storage:.2f} times the table's cells: by a sample, the "
        f"queries of the log would read {cost / max(1e-9, together):.0%} of the cells that they read where all columns "
        "are in one, row ids included.",
    )


def judge_replicas(
    study: ColumnStudy, chosen: ChosenGroups, judges: Judges, widths: Mapping[str, float], file_rows: float
) -> Trial:
    """What queries would read of groups with copies, on rows that these were not arranged by; see ``judge_groups``.

    Each query takes the path that it would take in a table: by the rows that it reads of each group that has all rows
    it wants.
    """
    bench = _ReplicaBench(study, chosen, judges, widths, file_rows)
    for query in range(len(judges.formulas)):
        bench.add(query)
    return bench.trial()


@dataclass(frozen=True, eq=False)
class _PartReads:
    """What each query reads of a group, if it reads there."""

    rows: Shares
    """The share of all rows."""
    files: Shares
    groups: Shares


@dataclass(frozen=True, slots=True)
class _Source:
    """Groups that some columns can be read from: one, or two partners."""

    columns: frozenset[str]
    parts: tuple[int, ...]
    lacks: int | None
    """The block that stands for the rows it lacks; None: none."""


class _ReplicaBench:
    """Adds up what queries read, each on its path."""

    def __init__(
        self,
        study: ColumnStudy,
        chosen: ChosenGroups,
        judges: Judges,
        widths: Mapping[str, float],
        file_rows: float,
    ) -> None:
        self.study, self.chosen, self.judges, self.widths = study, chosen, judges, widths
        drawn = study.draw_others(study.final_rows)
        self.sample, self.words = study.sample.take(drawn), study.words[drawn]
        self.units = max(1.0, self.sample.rows / study.unit_rows)
        self.known = frozenset(name for group in chosen.groups for name in group.columns)
        read = judges.columns or [self.known] * len(judges.formulas)
        self.asked = [(names & self.known) or self.known for names in read]
        self.file_rows = file_rows * self.width_of(self.known)
        self.files_there = 0.0
        self.reads = [self._read(group) for group in chosen.groups]
        self.sources, self.lacking = self._sources()
        self.cells, self.bytes, self.files, self.seconds, self.rows, self.touched = np.zeros((6, len(self.asked)))

    def width_of(self, names: Iterable[str]) -> float:
        """Bytes of a row in some columns."""
        return max(1.0, sum(self.widths.get(name, 1.0) for name in names))

    def _read(self, group: ChosenGroup) -> _PartReads:
        features, queries = len(self.study.features), len(self.judges.formulas)
        mine = np.arange(len(self.sample))
        if group.rows is not None:
            place = {feature: at for at, feature in enumerate(self.study.features)}
            numbers = [place[feature] for feature in group.rows.features]
            some = unpack(self.words, features)[:, numbers].any(axis=1)
            mine = np.flatnonzero(some if group.rest_of is None else ~some)
        if not len(mine):
            return _PartReads(*np.zeros((3, queries)))
        sample, words = self.sample.take(mine), self.words[mine]
        blocks = group.arranged.blocks(sample, words, features, self.study.block(len(self.sample)))
        of_unit = self.file_rows / self.width_of(group.columns) * len(self.sample) / max(1, self.study.unit_rows)
        file_of_block = files_by_size(blocks.sizes, of_unit)
        self.files_there += self.units * (int(file_of_block.max(initial=-1)) + 1)
        local = [feature.formula for feature in group.layout.features.features]
        catalog = catalog_of(sample, blocks, local, group.arranged.project(words, features))
        kept = np.array([kept_blocks(catalog, formula) for formula in self.judges.formulas], np.bool_)
        read = reading(blocks, file_of_block, kept.reshape(queries, len(blocks)))
        return _PartReads(read.rows * len(mine) / len(self.sample), read.files, read.groups)

    def _sources(self) -> tuple[list[_Source], Catalog]:
        partial = [
            at for at, group in enumerate(self.chosen.groups) if group.rows is not None and group.rest_of is None
        ]
        synopses = []
        for block, at in enumerate(partial):
            rows = self.chosen.groups[at].rows
            assert rows is not None
            synopses.append(without_features([one.formula for one in rows.features], block, len(partial)))
        sources = []
        for at, group in enumerate(self.chosen.groups):
            parts = (at,) if group.rest_of is None else (group.rest_of, at)
            sources.append(_Source(frozenset(group.columns), parts, partial.index(at) if at in partial else None))
        nothing = np.zeros(len(partial), np.int64)
        number = np.arange(len(partial), dtype=np.int32)
        return sources, Catalog(number, nothing, nothing, len(partial), tuple(synopses))

    def add(self, query: int) -> None:
        """What a query reads on its path."""
        wanted = kept_blocks(self.lacking, self.judges.formulas[query])
        open_to = [each for each in self.sources if each.lacks is None or not wanted[each.lacks]]
        rows = [sum(self.reads[at].rows[query] for at in each.parts) for each in open_to]
        names = sorted(self.asked[query])
        eligible = {at: [s for s, each in enumerate(open_to) if name in each.columns] for at, name in enumerate(names)}
        path = find_path(eligible, rows)
        for source in set(path.values()):
            held = [names[at] for at, of in path.items() if of == source]
            width = self.width_of(held)
            self.cells[query] += rows[source] * len(held)
            self.bytes[query] += rows[source] * width
            self.rows[query] += rows[source]
            self.touched[query] += 1
            for at in open_to[source].parts:
                read = self.reads[at]
                files, groups = self.units * read.files[query], self.units * read.groups[query]
                self.files[query] += files
                scanned = read.rows[query] * self.sample.rows * (PER_ROW + width * PER_BYTE)
                self.seconds[query] += files * PER_FILE + groups * PER_GROUP + scanned

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
            COPIES,
            f"{len(self.chosen.groups)} groups; {mean(self.touched):.1f} for a query",
            mean(self.cells / columns),
            mean((self.bytes + ID_BYTES * ids) / width, weights * width),
            mean(self.files / max(1.0, self.files_there)),
            mean(seconds),
            np.zeros(1),
        )
