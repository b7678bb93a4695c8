"""Which cells of a table are stored more than once, within a storage budget: chosen on a sample, like column groups.

The search of the thesis (:mod:`sidestep.layout.replicas.search`) begins with the column groups of chapter 4 and goes by
features. The parts of the scheme that it finds are then arranged by all means there are, each for the queries whose
path leads there, and become groups of the table: some of them with only some of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sidestep.advisor.families.columns import URGENT
from sidestep.advisor.families.replicas import PartTrials, parts_of
from sidestep.advisor.layouts.column_groups import (
    ChosenGroup,
    ChosenGroups,
    ColumnStudy,
    arrange_group,
    choose_groups,
)
from sidestep.layout.columns.search import search
from sidestep.layout.replicas.costs import scheme_cost
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.schemes import ReplicaLayout, ReplicaScheme
from sidestep.layout.replicas.search import SEARCH_COST, RatedScheme, check_budget, search_replicas
from sidestep.layout.vectors import reduce_vectors
from sidestep.workload import FeatureSet

SEARCHED_ROWS, SEARCHED_VECTORS = 3_000, 300
"""Rows that schemes are searched on, and distinct vectors of a layout."""
CURVE = (1.0, 1.1, 1.2, 1.5, 2.0)
"""The budgets that are shown to people who wonder."""
MOST_STORAGE = 10.0
"""More is never of use: a copy of the table for each of so many kinds of queries."""


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

    def search(self, storage: float) -> RatedScheme:
        """The best scheme that takes at most so many times the cells of the table."""
        budget = min(check_budget(storage), MOST_STORAGE)
        return search_replicas(self.study.workload, self.rows, budget, self.start).best

    def together(self) -> float:
        """What the queries cost where all columns are in one layout, arranged by all features."""
        workload = self.study.workload
        every = frozenset(range(len(workload.columns)))
        layout = ReplicaLayout(every, frozenset(range(workload.features)), every)
        return scheme_cost(workload, ReplicaScheme(len(every), (layout,)), self.rows, SEARCH_COST)


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
    found = [(budget, searches.search(budget)) for budget in budgets]
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
    rated = searches.search(storage)
    if all(layout.whole for layout in rated.scheme.layouts):
        chosen = choose_groups(study, tell=tell)
        return replace(chosen, note="No copy of cells would let the queries read less within the storage budget.")
    trials = PartTrials(study.workload, study.sample, study.words, study.block(len(study.sample)), study.final_rows)
    few_valued = study.trials(study.final_rows, URGENT[-1:]).few_valued
    groups: list[ChosenGroup] = []
    some_of: dict[int, int] = {}
    """By layout, the position of the group with the rows of its features."""
    for part in parts_of(study.workload, rated.scheme, searches.rows, SEARCH_COST):
        names = tuple(study.workload.columns[at] for at in sorted(part.columns))
        tell(f"the arrangement of {', '.join(names[:3])}" + (", …" if len(names) > 3 else ""))
        group = arrange_group(study, trials.arrange(part), names, few_valued)
        if part.features is not None:
            rows = FeatureSet(study.table, tuple(study.features[at] for at in sorted(part.features)))
            group = replace(group, rows=rows, rest_of=some_of[part.layout] if part.rest else None)
            if not part.rest:
                some_of[part.layout] = len(groups)
        groups.append(group)
    share = rated.cost / max(1e-9, searches.together())
    return ChosenGroups(
        tuple(groups),
        rated.cost,
        searches.together(),
        tuple(sorted(study.sample.types)),
        f"{len(rated.scheme.layouts)} layouts that have {rated.storage:.2f} times the table's cells: by features and a "
        f"sample, the queries of the log would read {share:.0%} of the cells that they read where all columns are in "
        "one, row ids included.",
    )
