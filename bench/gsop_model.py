"""What queries read of column groups, worked out in memory: cells and row ids of later queries, layout by layout.

Layouts are made of a sample and a log, and judged by later queries on all rows of the table, by the code that skips
blocks of tables. ``sop_thesis`` and ``gsop_thesis`` are by the letter of the thesis: features of the log without dates,
Balanced MaxSkip, and union vectors. The others have all that sidestep knows: features with dates and of list values,
which answer together, trees of cuts (but for ``gsop_features``), and zone maps and value sets of every column that
queries filter, for the blocks of each group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import duckdb
import numpy as np
import pyarrow as pa

from bench.denorm_data import make_denorm
from bench.gsop_grouping import hill_climb, hyrise
from bench.gsop_queries import GsopQuery, col, random_queries, whole_sql, workload_of
from sidestep.advisor.families.columns import FEWEST_ROWS, URGENT, ArrangedGroup, ColumnTrials
from sidestep.advisor.trials.column_queries import FilterWays, column_workload, list_features
from sidestep.advisor.trials.sample import RowNumbers, Sample, sample_of
from sidestep.advisor.trials.trial import catalog_of
from sidestep.layout.columns.costs import Group
from sidestep.layout.columns.queries import ColumnQuery, ColumnWorkload, subsumed_by
from sidestep.layout.columns.rows import RowsByFeatures
from sidestep.layout.columns.search import rate_again, search
from sidestep.layout.vectors import Bits, Words, pack, reduce_vectors, unpack
from sidestep.layout.weights import Floats
from sidestep.predicate import Formula, all_of, normalize
from sidestep.predicate.formula import names_in
from sidestep.synopsis import Catalog, kept_blocks
from sidestep.workload import (
    Eligibility,
    ExtractOptions,
    Feature,
    TableWorkload,
    augment,
    extract_features,
    table_workload,
)

SEED = 20_170_501
MOST_FEATURES = 150
THRESHOLD, LIST_THRESHOLD = 0.005, 0.01
"""The least share of queries that a feature subsumes, and that ask for a value of a list."""
GREW_ON, SEARCHED_ON = 12_000, 12_000
"""Rows that final groups are arranged by, and those that groups are searched on."""
MOST_VECTORS = 1_000
"""Distinct vectors of a group during the search: a third of the thesis's, for a tenth of the time."""


@dataclass(frozen=True)
class Measured:
    """What a test query reads of one layout, on average, as a multiple of the table's rows."""

    groups: int
    cells: float
    row_ids: float
    seconds: float
    """To choose it."""
    by_template: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return self.cells + self.row_ids


class Experiment:
    """A table, a log and later queries."""

    def __init__(self, table: pa.Table, train: Sequence[GsopQuery], test: Sequence[GsopQuery], blocks: int) -> None:
        self.table, self.train, self.test = table, list(train), list(test)
        self.rows, self.block = len(table), max(1, len(table) // blocks)
        self.columns = tuple(table.column_names)
        self.log = workload_of(self.train)

    @cached_property
    def folded(self) -> TableWorkload:
        return table_workload(self.log, "denorm")

    @cached_property
    def mined(self) -> tuple[Feature, ...]:
        """The features of the log, as the thesis has them: without dates."""
        return self._extract(Eligibility())

    def _extract(self, eligibility: Eligibility) -> tuple[Feature, ...]:
        threshold = max(1, round(THRESHOLD * self.folded.total))
        options = ExtractOptions(num_features=MOST_FEATURES, threshold=threshold, eligibility=eligibility)
        return extract_features(augment(self.folded, options), options).features

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """These, those with dates, and values of lists, each once."""
        threshold = max(1, round(LIST_THRESHOLD * self.folded.total))
        lists = list_features(self.folded, threshold)
        dated = self._extract(Eligibility(dates=True))
        return tuple({feature.formula: feature for feature in (*self.mined, *dated, *lists)}.values())

    @cached_property
    def formulas(self) -> list[Formula]:
        return [feature.formula for feature in self.features]

    @cached_property
    def bits(self) -> Bits:
        """Rows by features."""
        with duckdb.connect() as connection:
            connection.register("denorm", self.table)
            distinct = list(dict.fromkeys(whole_sql(part) for feature in self.features for part in feature.predicates))
            texts = ", ".join(f"coalesce({text}, false) AS p{at}" for at, text in enumerate(distinct))
            answer = connection.execute(f"SELECT {texts} FROM denorm").to_arrow_table()
        holds = {text: column.to_numpy() for text, column in zip(distinct, answer.columns, strict=True)}
        parts = ([holds[whole_sql(part)] for part in feature.predicates] for feature in self.features)
        return np.column_stack([np.logical_and.reduce(each) for each in parts])

    @cached_property
    def words(self) -> Words:
        return pack(self.bits)

    @cached_property
    def sample(self) -> Sample:
        """All rows of the table, by the columns that queries filter."""
        queries = [*self.train, *self.test]
        named = sorted({name for query in queries for part in query.predicates for name in names_in(normalize(part))})
        return sample_of(self.table.select(named), {name: col(name).type for name in named}, self.rows)

    @cached_property
    def workload(self) -> ColumnWorkload:
        return column_workload(self.log, "denorm", self.columns, self.formulas)

    @cached_property
    def by_the_letter(self) -> ColumnWorkload:
        """The workload with the features of the log alone, each query answered by those that subsume it."""
        ways = FilterWays([feature.formula for feature in self.mined])
        queries = []
        for query in self.train:
            whole = ways.of(formula_of(query))
            subsuming = next((way[0] for way in whole if len(way) == 1), ())
            queries.append(ColumnQuery(query.columns, subsumed_by(subsuming)))
        return ColumnWorkload.of(self.columns, len(self.mined), queries)

    def search_rows(self) -> RowsByFeatures:
        """Groups by their features, on a part of the rows: what the search goes by."""
        drawn = self.words[self._draw(SEARCHED_ON)]
        block = max(1, round(self.block * len(drawn) / self.rows))
        return RowsByFeatures(self.workload, reduce_vectors(drawn, len(self.features)), block, MOST_VECTORS)

    def trials(self, rows: int, cuts: tuple[float, ...] = URGENT[-1:]) -> ColumnTrials:
        """Groups tried on a part of the rows, in blocks of the same share of them."""
        drawn = self._draw(rows)
        block = max(FEWEST_ROWS, round(self.block * len(drawn) / self.rows))
        return ColumnTrials(self.workload, self.sample.take(drawn), self.words[drawn], block, cuts=cuts)

    def _draw(self, rows: int) -> RowNumbers:
        return np.sort(np.random.default_rng(SEED).permutation(self.rows)[:rows])


def formula_of(query: GsopQuery) -> Formula:
    return all_of(normalize(predicate) for predicate in query.predicates)


class Judge:
    """What the test queries read."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.formulas = [formula_of(query) for query in experiment.test]
        place = {name: at for at, name in enumerate(experiment.columns)}
        self.reads = np.zeros((len(experiment.test), len(place)), np.bool_)
        for at, query in enumerate(experiment.test):
            self.reads[at, [place[name] for name in query.columns]] = True

    def measure(
        self, groups: Sequence[Group], rows: Callable[[Group, Sequence[int]], Floats], seconds: float
    ) -> Measured:
        """Cells and row ids, given the rows that some queries read of a group."""
        queries = len(self.reads)
        cells, row_ids, touched = np.zeros(queries), np.zeros(queries), np.zeros(queries)
        for group in groups:
            among = self.reads[:, sorted(group)].sum(axis=1)
            mine = np.flatnonzero(among)
            if len(mine):
                read = rows(group, [int(at) for at in mine]) / self.experiment.rows
                cells[mine] += among[mine] * read
                row_ids[mine] += read
                touched[mine] += 1
        row_ids[touched < 2] = 0
        names = np.array([query.template for query in self.experiment.test])
        by_template = {
            str(name): round(float((cells + row_ids)[names == name].mean()), 3)
            for name in sorted(set(names), key=lambda name: int(name[1:]))
        }
        return Measured(len(groups), float(cells.mean()), float(row_ids.mean()), seconds, by_template)

    def plain(self) -> Measured:
        everything = frozenset(range(len(self.experiment.columns)))
        return self.measure([everything], lambda _, mine: np.full(len(mine), float(self.experiment.rows)), 0.0)

    def thesis(self, groups: Sequence[Group], rows: RowsByFeatures, seconds: float) -> Measured:
        """Union vectors alone, each query answered by the features that subsume it."""
        ways = FilterWays([feature.formula for feature in self.experiment.mined])
        whole = [next((way[0] for way in ways.of(formula) if len(way) == 1), ()) for formula in self.formulas]

        def read(group: Group, mine: Sequence[int]) -> Floats:
            layout = rows.arrange(group)
            asked = [ColumnQuery(frozenset("c"), subsumed_by(whole[at]), filter=at) for at in mine]
            test = ColumnWorkload.of("c", len(self.experiment.mined), asked).skipping(range(len(mine)))
            skipped = test.skipped(unpack(layout.grouping.unions, len(layout.local)), layout.local.numbers)
            return np.asarray(layout.vectors.rows - skipped @ layout.grouping.sizes.astype(np.float64))

        return self.measure(groups, read, seconds)

    def arranged(self, groups: Sequence[Group], trials: ColumnTrials, seconds: float) -> Measured:
        """All that sidestep knows of the blocks of each group."""

        def read(group: Group, mine: Sequence[int]) -> Floats:
            return np.array([self._read(trials.arrange(group), at) for at in mine])

        return self.measure(groups, read, seconds)

    def _read(self, group: ArrangedGroup, query: int) -> float:
        experiment = self.experiment
        key = id(group)
        if key not in self._catalogs:
            blocks = group.blocks(experiment.sample, experiment.words, len(experiment.features), experiment.block)
            local = [experiment.formulas[int(at)] for at in group.local.numbers]
            words = group.project(experiment.words, len(experiment.features))
            self._catalogs[key] = (group, catalog_of(experiment.sample, blocks, local, words))
        catalog = self._catalogs[key][1]
        return float(catalog.rows[kept_blocks(catalog, self.formulas[query])].sum())

    @cached_property
    def _catalogs(self) -> dict[int, tuple[ArrangedGroup, Catalog]]:
        return {}


def denorm_experiment(
    sf: float = 0.1, train: int = 1_000, test: int = 100, blocks: int = 1_000, seed: int = 1, keep: int = 1
) -> Experiment:
    """Denormalized TPC-H with the columns that the ten templates read; of the orders, one in ``keep``."""
    asked, later = list(random_queries(train, seed)), list(random_queries(test, seed + 1))
    columns = ", ".join(sorted({name for query in (*asked, *later) for name in query.columns}))
    source = make_denorm(sf=sf, width="lean") / "*.parquet"
    with duckdb.connect() as connection:
        text = f"SELECT {columns} FROM '{source}' WHERE hash(l_orderkey) % {keep} = 0"
        table = connection.execute(text).to_arrow_table()
    return Experiment(table, asked, later, blocks)


def compare_layouts(experiment: Experiment, tell: Callable[[str], None] = lambda _: None) -> dict[str, Measured]:
    """All layouts, made of the log and judged by the test queries."""
    measured = {}
    for name, each in _layouts(experiment, Judge(experiment)):
        measured[name] = each
        tell(f"{name}: {each}")
    return measured


def _layouts(experiment: Experiment, judge: Judge) -> Iterator[tuple[str, Measured]]:
    columns = range(len(experiment.columns))
    together, single = [frozenset(columns)], [frozenset({at}) for at in columns]
    yield "parquet", judge.plain()
    letter = experiment.by_the_letter
    vectors = reduce_vectors(pack(experiment.bits[:, : len(experiment.mined)]), len(experiment.mined))
    rows = RowsByFeatures(letter, vectors, experiment.block)
    yield "sop_thesis", judge.thesis(together, rows, 0.0)
    start = time.perf_counter()
    found = search(letter, rows)
    yield "gsop_thesis", judge.thesis(found.best.groups, rows, time.perf_counter() - start)
    start = time.perf_counter()
    found = search(experiment.workload, experiment.search_rows())
    seconds = time.perf_counter() - start
    yield "gsop_features", judge.arranged(found.best.groups, experiment.trials(GREW_ON, cuts=()), seconds)
    final = experiment.trials(GREW_ON)
    start = time.perf_counter()
    chosen = rate_again(found, experiment.workload, final)
    seconds += time.perf_counter() - start
    for name, groups, took in (
        ("gsop", chosen.groups, seconds),
        ("gsop_single", single, 0.0),
        ("hillclimb", hill_climb(experiment.workload), 0.0),
        ("hyrise", hyrise(experiment.workload), 0.0),
        ("sop", together, 0.0),
    ):
        yield name, judge.arranged(groups, final, took)
