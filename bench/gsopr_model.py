"""What queries read of replicated layouts (GSOP-R), worked out in memory, scheme by scheme.

Schemes are made of a sample and a log. Each of their parts is arranged by all means that sidestep has, for the queries
whose path leads there, and later queries are judged on all rows of the table by the code that skips blocks of tables:
the rows that a query reads of each part that it may read, and the cheapest path through these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import duckdb
import numpy as np

from bench.denorm_data import columns as denorm_columns
from bench.denorm_data import make_denorm
from bench.gsop_model import SEED, Experiment, formula_of
from bench.gsop_queries import SELECTIVE, random_queries
from sidestep.advisor.families.replicas import LayoutPart, PartTrials, cheapest, parts_of
from sidestep.advisor.layouts.column_groups import RATED_ROWS
from sidestep.advisor.trials.column_queries import FilterWays
from sidestep.advisor.trials.trial import catalog_of
from sidestep.layout.columns.costs import Group
from sidestep.layout.columns.queries import Ways
from sidestep.layout.columns.rows import RowsByFeatures
from sidestep.layout.columns.search import search
from sidestep.layout.replicas.basic import copy_fully, replicate_selectively
from sidestep.layout.replicas.paths import AS_RUN, find_path, greedy_path
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.schemes import FeatureNumbers, ReplicaLayout, ReplicaScheme
from sidestep.layout.replicas.search import SEARCH_COST, RatedScheme, search_replicas
from sidestep.layout.vectors import reduce_vectors
from sidestep.synopsis import Catalog, kept_blocks

BUDGETS = (1.0, 1.1, 1.2, 1.5, 2.0)
SEARCHED_ROWS, SEARCHED_VECTORS = 3_000, 300
"""Rows that schemes are searched on, and distinct vectors of a layout."""
GREW_ON = 6_000
"""Rows that each part is arranged by."""


@dataclass(frozen=True)
class Measured:
    """What a test query reads of one scheme, on average, as a multiple of the table's rows."""

    layouts: int
    storage: float
    cells: float
    row_ids: float
    search_s: float
    """Seconds of processor time: what else runs on the machine has no part in it."""
    greedy_optimal: float
    """The share of queries for which the greedy path is as cheap as the best one."""
    by_template: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return self.cells + self.row_ids


def replica_experiment(
    sf: float = 0.1, train: int = 1_400, test: int = 140, blocks: int = 1_000, seed: int = 1
) -> Experiment:
    """Denormalized TPC-H and the fourteen templates; storage counts all columns, values only those that are read."""
    asked, later = (list(random_queries(n, s, SELECTIVE)) for n, s in ((train, seed), (test, seed + 1)))
    filtered = ", ".join(sorted({name for query in (*asked, *later) for name in query.columns}))
    with duckdb.connect() as connection:
        source = make_denorm(sf=sf) / "*.parquet"
        table = connection.execute(f"SELECT {filtered} FROM '{source}'").to_arrow_table()
    return Experiment(table, asked, later, blocks, columns=tuple(denorm_columns()))


class Schemes:
    """The schemes of an experiment, by the approaches of chapter 5."""

    def __init__(self, experiment: Experiment) -> None:
        self.workload = experiment.study.workload
        drawn = experiment.words[np.sort(np.random.default_rng(SEED).permutation(experiment.rows)[:SEARCHED_ROWS])]
        block = max(1, round(experiment.block * len(drawn) / experiment.rows))
        vectors = reduce_vectors(drawn, len(experiment.features))
        self.rows = LayoutRows(self.workload, vectors, block, SEARCHED_VECTORS)
        self.trials = PartTrials(self.workload, experiment.sample, experiment.words, experiment.block, RATED_ROWS)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Column groups, as the search of chapter 4 finds them."""
        rows = RowsByFeatures(self.workload, self.rows.vectors, self.rows.block, SEARCHED_VECTORS)
        return search(self.workload, rows).best.groups

    def gsop(self) -> ReplicaScheme:
        """The groups as a scheme without replicas: each may be arranged by any feature."""
        return ReplicaScheme(
            len(self.workload.columns), tuple(ReplicaLayout(group, frozenset(), group) for group in self.groups)
        )

    def gsop_r(self, budget: float) -> RatedScheme:
        """As a load chooses: of the search's candidates, the one that is cheapest by all means."""
        found = search_replicas(self.workload, self.rows, budget, self.groups).candidates
        return cheapest(found, self.workload, self.rows, self.trials, SEARCH_COST)

    def gsop_se(self, budget: float) -> RatedScheme:
        return replicate_selectively(self.workload, self.rows, budget, self.groups).best

    def gsop_fc(self, copies: int) -> RatedScheme:
        return copy_fully(self.workload, self.rows, copies).best


@dataclass(frozen=True, eq=False)
class _Access:
    """A way to read some columns: a part, or a part and the rest."""

    columns: frozenset[int]
    parts: tuple[int, ...]
    features: FeatureNumbers | None
    """What the filter has to imply."""


class ReplicaJudge:
    """What the test queries of an experiment read of a scheme."""

    def __init__(self, experiment: Experiment, schemes: Schemes) -> None:
        self.experiment, self.schemes = experiment, schemes
        self.formulas = [formula_of(query) for query in experiment.test]
        ways = FilterWays(experiment.formulas)
        self.ways = [ways.of(formula) for formula in self.formulas]
        self.trials = PartTrials(schemes.workload, experiment.sample, experiment.words, experiment.block, GREW_ON)
        self.bits = experiment.bits_of(experiment.features)

    def measure(self, scheme: ReplicaScheme, seconds: float = 0.0) -> Measured:
        """Cells and row ids on the best path of each query."""
        parts = list(parts_of(self.schemes.workload, scheme, self.schemes.rows, SEARCH_COST))
        catalogs = [self._catalog(part) for part in parts]
        stored = sum(len(part.columns) * int(catalog.rows.sum()) for part, catalog in zip(parts, catalogs, strict=True))
        place = {name: at for at, name in enumerate(self.experiment.columns)}
        cells, ids, optimal = [], [], 0
        templates: dict[str, list[float]] = {}
        for number, query in enumerate(self.experiment.test):
            needed = frozenset(place[name] for name in query.columns)
            open_to = [each for each in _accesses(scheme, parts) if _covers(self.ways[number], each.features)]
            read = {
                at: float(catalogs[at].rows[kept_blocks(catalogs[at], self.formulas[number])].sum())
                for at in {at for each in open_to for at in each.parts}
                if parts[at].columns & needed
            }
            rows = [sum(read.get(at, 0.0) for at in each.parts) / self.experiment.rows for each in open_to]
            eligible = {c: [at for at, each in enumerate(open_to) if c in each.columns] for c in needed}
            path = find_path(eligible, rows)
            cost = AS_RUN.of(path, rows)
            optimal += AS_RUN.of(greedy_path(eligible, rows), rows) <= cost + 1e-12
            cells.append(sum(rows[at] for at in path.values()))
            ids.append(cost - cells[-1])
            templates.setdefault(query.template, []).append(cost)
        named = sorted(templates.items(), key=lambda pair: int(pair[0][1:]))
        return Measured(
            len(scheme.layouts),
            stored / (self.experiment.rows * len(self.experiment.columns)),
            float(np.mean(cells)),
            float(np.mean(ids)),
            seconds,
            optimal / len(self.experiment.test),
            {name: round(float(np.mean(costs)), 3) for name, costs in named},
        )

    def _catalog(self, part: LayoutPart) -> Catalog:
        experiment = self.experiment
        arranged = self.trials.arrange(part)
        mine = np.flatnonzero(part.holds(self.bits))
        sample, words = experiment.sample.take(mine), experiment.words[mine]
        blocks = arranged.blocks(sample, words, len(experiment.features), experiment.block)
        local = [experiment.formulas[int(at)] for at in arranged.local.numbers]
        return catalog_of(sample, blocks, local, arranged.project(words, len(experiment.features)))


def _accesses(scheme: ReplicaScheme, parts: Sequence[LayoutPart]) -> list[_Access]:
    accesses = []
    for at, layout in enumerate(scheme.layouts):
        mine = tuple(number for number, part in enumerate(parts) if part.layout == at)
        if not layout.whole:
            accesses.append(_Access(layout.columns, mine[:1], layout.features))
        if layout.masters:
            accesses.append(_Access(layout.masters, mine, None))
    return accesses


def _covers(ways: Ways, features: FeatureNumbers | None) -> bool:
    """Whether a filter wants only rows that satisfy one of these features."""
    return features is None or any(all(features & set(part) for part in way) for way in ways)


def compare_schemes(
    experiment: Experiment,
    budgets: Sequence[float] = BUDGETS,
    tell: Callable[[str], None] = lambda _: None,
    basic: bool = True,
) -> dict[str, Measured]:
    """All approaches at each budget, by names such as ``gsop-r 1.2``; a budget of 1.0 is GSOP."""
    measured = {}
    for name, each in _schemes(experiment, budgets, basic):
        measured[name] = each
        tell(f"{name}: {each}")
    return measured


def _schemes(experiment: Experiment, budgets: Sequence[float], basic: bool) -> Iterator[tuple[str, Measured]]:
    schemes = Schemes(experiment)
    judge = ReplicaJudge(experiment, schemes)
    began = time.process_time()
    gsop = schemes.gsop()
    yield "gsop", judge.measure(gsop, time.process_time() - began)
    for budget in budgets:
        ways: dict[str, Callable[[], RatedScheme]] = {"gsop-r": lambda budget=budget: schemes.gsop_r(budget)}  # type: ignore[misc]
        if basic and budget > 1:
            ways["gsop-se"] = lambda budget=budget: schemes.gsop_se(budget)  # type: ignore[misc]
            if budget >= 2:
                ways["gsop-fc"] = lambda budget=budget: schemes.gsop_fc(int(budget))  # type: ignore[misc]
        for name, make in ways.items():
            began = time.process_time()
            found = make()
            yield f"{name} {budget:g}", judge.measure(found.scheme, time.process_time() - began)
