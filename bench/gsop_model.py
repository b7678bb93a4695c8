"""What queries read of column groups, worked out in memory: cells and row ids of later queries, layout by layout.

Layouts are made of a sample and a log by the code that loads tables, and judged by later queries on all rows of the
table, by the code that skips blocks of tables. ``sop_thesis`` and ``gsop_thesis`` are by the letter of the thesis:
features of the log without dates, Balanced MaxSkip, and union vectors. The others have all that sidestep knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import duckdb
import numpy as np
import pyarrow as pa

from bench.denorm_data import make_denorm
from bench.gsop_grouping import hill_climb, hyrise
from bench.gsop_queries import GsopQuery, col, random_queries, whole_sql, workload_of
from sidestep.advisor.layouts.column_groups import ChosenGroup, ChosenGroups, ColumnStudy, choose_groups
from sidestep.advisor.trials.column_queries import FilterWays, column_features, column_workload
from sidestep.advisor.trials.sample import RowNumbers, Sample, sample_of
from sidestep.advisor.trials.trial import catalog_of
from sidestep.layout.columns.costs import CostModel, Group
from sidestep.layout.columns.queries import ColumnQuery, ColumnWorkload, subsumed_by
from sidestep.layout.columns.rows import RowsByFeatures
from sidestep.layout.columns.search import Scheme, search
from sidestep.layout.vectors import Bits, Words, pack, reduce_vectors, unpack
from sidestep.layout.weights import Floats
from sidestep.predicate import DataType, Formula, all_of, normalize
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
MOST_FEATURES, THRESHOLD = 150, 0.005
"""By the letter of the thesis: how many features at most, and the least share of queries that one subsumes."""
SAMPLE_ROWS = 40_000
"""Rows that layouts are made by, as in a load."""


@dataclass(frozen=True)
class Measured:
    """What a test query reads of one layout, on average, as a multiple of the table's rows."""

    groups: int
    cells: float
    row_ids: float
    bytes: float
    """Of the columns' widths, by the row; row ids count 8."""
    seconds: float
    """To choose it."""
    local: tuple[int, ...] = ()
    """Local features of each group."""
    by_template: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return self.cells + self.row_ids


class Experiment:
    """A table, a log and later queries.

    ``table`` has the columns that queries filter, ``columns`` names all there are, and ``widths`` has the bytes of a
    value of each, 1 if it is not there.
    """

    def __init__(
        self,
        table: pa.Table,
        train: Sequence[GsopQuery],
        test: Sequence[GsopQuery],
        blocks: int,
        *,
        types: Mapping[str, DataType] | None = None,
        columns: Sequence[str] | None = None,
        widths: Mapping[str, float] | None = None,
        eligibility: Eligibility | None = None,
    ) -> None:
        self.table, self.train, self.test = table, list(train), list(test)
        self.rows, self.block = len(table), max(1, len(table) // blocks)
        self.columns = tuple(columns or table.column_names)
        self.widths = widths or {}
        self.eligibility = eligibility or Eligibility()
        named = {name for q in (*train, *test) for part in q.predicates for name in names_in(normalize(part))}
        self.types = {name: col(name).type if types is None else types[name] for name in sorted(named)}
        self.log = workload_of(self.train)

    @cached_property
    def folded(self) -> TableWorkload:
        return table_workload(self.log, "denorm")

    @cached_property
    def mined(self) -> tuple[Feature, ...]:
        """The features of the log, as the thesis has them: without dates, unless these are eligible."""
        threshold = max(1, round(THRESHOLD * self.folded.total))
        options = ExtractOptions(num_features=MOST_FEATURES, threshold=threshold, eligibility=self.eligibility)
        return extract_features(augment(self.folded, options), options).features

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Those that a load chooses from."""
        return tuple(column_features(self.log, "denorm"))

    @cached_property
    def formulas(self) -> list[Formula]:
        return [feature.formula for feature in self.features]

    def bits_of(self, features: Sequence[Feature]) -> Bits:
        """Rows by features."""
        if not features:
            return np.zeros((self.rows, 0), np.bool_)
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.register("denorm", self.table)
            distinct = list(dict.fromkeys(whole_sql(part) for feature in features for part in feature.predicates))
            texts = ", ".join(f"coalesce({text}, false) AS p{at}" for at, text in enumerate(distinct))
            answer = connection.execute(f"SELECT {texts} FROM denorm").to_arrow_table()
        holds = {text: column.to_numpy() for text, column in zip(distinct, answer.columns, strict=True)}
        parts = ([holds[whole_sql(part)] for part in feature.predicates] for feature in features)
        return np.column_stack([np.logical_and.reduce(each) for each in parts])

    @cached_property
    def words(self) -> Words:
        return pack(self.bits_of(self.features))

    @cached_property
    def sample(self) -> Sample:
        """All rows of the table, by the columns that queries filter."""
        return sample_of(self.table.select(list(self.types)), self.types, self.rows)

    @cached_property
    def study(self) -> ColumnStudy:
        """What a load would choose column groups by."""
        drawn: RowNumbers = np.sort(np.random.default_rng(SEED).permutation(self.rows)[:SAMPLE_ROWS])
        workload = column_workload(self.log, "denorm", self.columns, self.formulas)
        return ColumnStudy(
            "denorm", workload, self.features, self.sample.take(drawn), self.words[drawn], self.block, self.rows
        )

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

    def letter_rows(self, most_vectors: int = 1_000) -> RowsByFeatures:
        """Groups by the letter of the thesis, on all rows."""
        vectors = reduce_vectors(pack(self.bits_of(self.mined)), len(self.mined))
        return RowsByFeatures(self.by_the_letter, vectors, self.block, most_vectors)


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
        self.widths = np.array([experiment.widths.get(name, 1.0) for name in experiment.columns])

    def measure(self, groups: Sequence[Group], rows: Callable[[int, Sequence[int]], Floats]) -> Measured:
        """Cells and row ids, given the rows that some queries read of the group of a number."""
        queries = len(self.reads)
        cells, row_ids, touched, read_bytes = (np.zeros(queries) for _ in range(4))
        for number, group in enumerate(groups):
            among = self.reads[:, sorted(group)]
            mine = np.flatnonzero(among.any(axis=1))
            if len(mine):
                read = rows(number, [int(at) for at in mine]) / self.experiment.rows
                cells[mine] += among[mine].sum(axis=1) * read
                read_bytes[mine] += (among[mine] @ self.widths[sorted(group)]) * read
                row_ids[mine] += read
                touched[mine] += 1
        row_ids[touched < 2] = 0
        names = np.array([query.template for query in self.experiment.test])
        by_template = {
            str(name): round(float((cells + row_ids)[names == name].mean()), 3)
            for name in sorted(set(names), key=lambda name: (len(name), name))
        }
        return Measured(
            len(groups),
            float(cells.mean()),
            float(row_ids.mean()),
            float((read_bytes + 8 * row_ids).mean()),
            0.0,
            (),
            by_template,
        )

    def plain(self) -> Measured:
        everything = frozenset(range(len(self.experiment.columns)))
        return self.measure([everything], lambda _, mine: np.full(len(mine), float(self.experiment.rows)))

    def thesis(self, groups: Sequence[Group], rows: RowsByFeatures) -> Measured:
        """Union vectors alone, each query answered by the features that subsume it."""
        ways = FilterWays([feature.formula for feature in self.experiment.mined])
        whole = [next((way[0] for way in ways.of(formula) if len(way) == 1), ()) for formula in self.formulas]
        local: list[int] = []

        def read(number: int, mine: Sequence[int]) -> Floats:
            layout = rows.arrange(groups[number])
            local.append(len(layout.local))
            asked = [ColumnQuery(frozenset("c"), subsumed_by(whole[at]), filter=at) for at in mine]
            test = ColumnWorkload.of("c", len(self.experiment.mined), asked).skipping(range(len(mine)))
            skipped = test.skipped(unpack(layout.grouping.unions, len(layout.local)), layout.local.numbers)
            return np.asarray(layout.vectors.rows - skipped @ layout.grouping.sizes.astype(np.float64))

        return replace(self.measure(groups, read), local=tuple(local))

    def arranged(self, chosen: ChosenGroups) -> Measured:
        """All that sidestep knows of the blocks of each group."""
        catalogs: dict[int, Catalog] = {}

        def read(number: int, mine: Sequence[int]) -> Floats:
            if number not in catalogs:
                catalogs.clear()
                catalogs[number] = self._catalog(chosen.groups[number])
            catalog = catalogs[number]
            return np.array([float(catalog.rows[kept_blocks(catalog, self.formulas[at])].sum()) for at in mine])

        place = {name: at for at, name in enumerate(self.experiment.columns)}
        groups = [frozenset(place[name] for name in group.columns) for group in chosen.groups]
        local = tuple(len(group.layout.features) for group in chosen.groups)
        return replace(self.measure(groups, read), local=local)

    def _catalog(self, group: ChosenGroup) -> Catalog:
        experiment, features = self.experiment, len(self.experiment.features)
        blocks = group.arranged.blocks(experiment.sample, experiment.words, features, experiment.block)
        local = [feature.formula for feature in group.layout.features.features]
        return catalog_of(experiment.sample, blocks, local, group.arranged.project(experiment.words, features))


def denorm_experiment(
    sf: float = 0.1, train: int = 1_000, test: int = 100, blocks: int = 1_000, seed: int = 1, keep: int = 1
) -> Experiment:
    """Denormalized TPC-H with the columns that the ten templates read; of the orders, one in ``keep``."""
    asked, later = list(random_queries(train, seed)), list(random_queries(test, seed + 1))
    named = sorted({name for query in (*asked, *later) for name in query.columns})
    folder = make_denorm(sf=sf, width="lean")
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        source = f"'{folder}/*.parquet'"
        text = f"SELECT {', '.join(named)} FROM {source} WHERE hash(l_orderkey) % {keep} = 0"
        table = connection.execute(text).to_arrow_table()
        width = "sum(total_compressed_size) / sum(num_values)"
        text = f"SELECT path_in_schema, {width} FROM parquet_metadata({source}) GROUP BY 1"
        sizes = connection.execute(text).fetchall()
    return Experiment(table, asked, later, blocks, widths=dict(sizes))


def compare_layouts(experiment: Experiment, tell: Callable[[str], None] = lambda _: None) -> dict[str, Measured]:
    """All layouts, made of the log and judged by the test queries."""
    measured = {}
    judge = Judge(experiment)
    for name, each in _layouts(experiment, judge):
        measured[name] = each
        tell(f"{name}: {each}")
    return measured


def given_names(experiment: Experiment, groups: Sequence[Group]) -> list[list[str]]:
    """Groups by the names of their columns."""
    return [[experiment.columns[at] for at in sorted(group)] for group in groups]


def single_groups(experiment: Experiment) -> list[list[str]]:
    """Each column that queries read for itself."""
    return [[name] for name in experiment.columns if any(name in query.columns for query in experiment.train)]


def _layouts(experiment: Experiment, judge: Judge) -> Iterator[tuple[str, Measured]]:
    yield "parquet", judge.plain()
    rows = experiment.letter_rows()
    together = frozenset(range(len(experiment.columns)))
    yield "sop_thesis", judge.thesis([together], rows)
    start = time.perf_counter()
    found = search(experiment.by_the_letter, rows)
    took = time.perf_counter() - start
    yield "gsop_thesis", replace(judge.thesis(found.best.groups, rows), seconds=took)
    workload = experiment.study.workload
    for name, given in (
        ("sop", [list(experiment.columns)]),
        ("gsop_single", single_groups(experiment)),
        ("hillclimb", given_names(experiment, hill_climb(workload))),
        ("hyrise", given_names(experiment, hyrise(workload))),
        ("gsop", None),
    ):
        start = time.perf_counter()
        chosen = choose_groups(experiment.study, given=given)
        took = time.perf_counter() - start
        yield name, replace(judge.arranged(chosen), seconds=took)


def compare_widths(experiment: Experiment) -> dict[str, Measured]:
    """Groups chosen by cells that count 1 each, and by cells that count what they take after compression."""
    judge = Judge(experiment)
    sizes = judge.widths / judge.widths.mean()
    models = {"cells": CostModel(), "widths": CostModel(cells=sizes, row_id=8 / judge.widths.mean())}
    return {name: judge.arranged(choose_groups(experiment.study, model=model)) for name, model in models.items()}


class _OneEvaluator:
    """Rows of groups by one way to work them out, whatever is asked for."""

    def __init__(self, rows: RowsByFeatures, evaluate: Callable[[Group], Floats]) -> None:
        self._rows, self.exact, self.estimate = rows, evaluate, evaluate

    def least(self) -> Floats:
        return self._rows.least()


def compare_objectives(experiment: Experiment) -> dict[str, dict[str, float]]:
    """The search with the objective worked out in full, by selectivities, by blocks, and as a load does it (4.10)."""
    found = {}
    for name in ("full", "selectivity", "blocks", "load"):
        rows = experiment.study.search_rows()
        least = rows.least()
        ways: dict[str, Callable[[Group], Floats]] = {
            "full": rows.exact,
            "selectivity": lambda _, least=least: least,  # type: ignore[misc]
            "blocks": rows.estimate,
        }
        start = time.process_time()
        searched = search(experiment.study.workload, _OneEvaluator(rows, ways[name]) if name in ways else rows)
        took = time.process_time() - start
        from_exact = experiment.study.search_rows()
        best = searched.best.groups
        cost = _objective(experiment, best, from_exact)
        found[name] = {"seconds": round(took, 2), "objective": round(cost, 3), "groups": len(best)}
    return found


def _objective(experiment: Experiment, groups: Sequence[Group], rows: RowsByFeatures) -> float:
    """The exact cost of a scheme: cells, row ids and sorted rows of a query, as a multiple of the rows."""
    workload = experiment.study.workload
    total = Scheme.of(groups, workload, rows, CostModel()).cost
    return total / rows.vectors.rows / float(workload.weights.sum())
