"""Column groups of a table with 450 columns and a skewed log, like SDSS's Star table: time to choose them, and reads.

The thesis (4.7.6) has 453 columns and 2,340 queries of half a year, the first three quarters to learn from; a query
reads 13.6 columns on average (3 to 23), most of them a few. Here users come with tasks of their own, each with columns
that it reads and columns that it filters, and tasks are as skewed as the columns. ``rated`` is what the log costs by
the model that the search itself goes by; ``later`` what the last quarter reads, on all rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.gsop_model import Experiment, Judge, Measured
from bench.gsop_queries import GsopQuery
from sidestep.advisor.layouts.column_groups import choose_groups
from sidestep.advisor.trials.column_queries import FilterWays
from sidestep.layout.columns.costs import CostModel
from sidestep.layout.columns.queries import SkippingTest
from sidestep.layout.columns.rows import RowsByFeatures
from sidestep.layout.columns.search import Scheme, search
from sidestep.layout.vectors import unpack
from sidestep.layout.weights import Floats
from sidestep.predicate import DOUBLE, INTEGER, Column, Predicate, between, column, compare, one_of

BANDS = "ugriz"
PLAIN = ("ra", "dec", "run", "camcol", "field", "kind", "mode", "clean", "flags", "status")
FILTERED = 30
"""Columns that some task filters, beside place and kind."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the table (the thesis: 4 million at a time)")
    parser.add_argument("--columns", type=int, default=450)
    parser.add_argument("--queries", type=int, default=2_340, help="of the log; the last quarter judges")
    parser.add_argument("--tasks", type=int, default=40, help="kinds of queries")
    parser.add_argument("--blocks", type=int, default=200, help="blocks of each group")
    parser.add_argument("--seed", type=int, default=1, help="of table and queries")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from that one on")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    figures = [_one(args, args.seed + number, console) for number in range(args.seeds)]
    return figures[0] if len(figures) == 1 else {**figures[0], "seeds": figures}


def _one(args: argparse.Namespace, seed: int, console: Console) -> dict[str, Any]:
    names = column_names(args.columns)
    queries = make_queries(names, args.queries, args.tasks, seed)
    first = 3 * len(queries) // 4
    table = make_table(names, queries, args.rows, seed)
    types = {name: INTEGER if name in PLAIN[2:] else DOUBLE for name in names}
    experiment = Experiment(table, queries[:first], queries[first:], args.blocks, types=types, columns=names)
    study, judge = experiment.study, Judge(experiment)
    began, used = time.perf_counter(), time.process_time()
    chosen = choose_groups(study)
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    later = {
        "plain": judge.plain(),
        "sop": judge.arranged(choose_groups(study, given=[list(names)])),
        "gsop": judge.arranged(chosen),
    }
    rows = study.search_rows()
    by_features = search(study.workload, rows)
    rated = _rated(experiment, rows, by_features.best, chosen.cost, chosen.together)
    later["gsop_single_features"] = _single(judge, experiment, rows)
    reads = np.array([len(query.columns) for query in queries])
    console.print(
        f"seed {seed}: {len(names)} columns, {first} queries to learn from ({reads.mean():.1f} ± {reads.std():.1f} "
        f"columns, {reads.min()} to {reads.max()}), {len(queries) - first} later ones; {len(study.features)} features; "
        f"chosen in {seconds:.0f} s ({processor:.0f} s of processor time), {len(chosen.groups)} groups: "
        + ", ".join(str(len(group.columns)) for group in chosen.groups)
    )
    console.print(_table(later, rated))
    return {
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "groups": len(chosen.groups),
        "sizes": [len(group.columns) for group in chosen.groups],
        "cells": {name: round(each.total, 4) for name, each in later.items()},
        "row_ids": {name: round(each.row_ids, 4) for name, each in later.items()},
        "rated": rated,
    }


def _rated(
    experiment: Experiment,
    rows: RowsByFeatures,
    found: Scheme,
    cost: float,
    together: float,
) -> dict[str, float]:
    """What a query of the log costs by the search's own model, and by the trials that chose among its schemes."""
    workload, model = experiment.study.workload, CostModel()
    each = float(workload.weights.sum())
    columns = range(len(workload.columns))
    schemes = {
        "sop_features": [frozenset(columns)],
        "gsop_single_features": [frozenset({at}) for at in columns],
        "gsop_features": list(found.groups),
    }
    rated = {name: Scheme.of(groups, workload, rows, model).cost for name, groups in schemes.items()}
    figures = {name: round(total / rows.vectors.rows / each, 4) for name, total in rated.items()}
    cells = experiment.study.all_cells / each
    return figures | {"sop": round(together * cells, 4), "gsop": round(cost * cells, 4)}


def _single(judge: Judge, experiment: Experiment, rows: RowsByFeatures) -> Measured:
    """Each column for itself, arranged by features and known by union vectors: for trees there are too many."""
    ways = FilterWays(experiment.formulas)
    test = SkippingTest.of([ways.of(formula) for formula in judge.formulas], len(experiment.features))
    groups = [frozenset({at}) for at in range(len(experiment.columns))]

    def read(number: int, mine: Sequence[int]) -> Floats:
        layout = rows.arrange(groups[number])
        unions = unpack(layout.grouping.unions, len(layout.local))
        skipped = test.take(mine).skipped(unions, layout.local.numbers)
        kept = rows.vectors.rows - skipped @ layout.grouping.sizes.astype(np.float64)
        return np.asarray(kept * experiment.rows / rows.vectors.rows)

    return judge.measure(groups, read)


def column_names(count: int) -> tuple[str, ...]:
    """Place, kind and the like, and measures in five bands."""
    return (*PLAIN, *(f"m{number // 5:02}_{BANDS[number % 5]}" for number in range(count - len(PLAIN))))[:count]


def make_queries(names: tuple[str, ...], count: int, tasks: int, seed: int) -> list[GsopQuery]:
    """Queries of tasks that come and go: a task starts somewhere in the log, and is asked for a while."""
    draw = np.random.default_rng([seed, 1])
    popular = 1 / np.arange(1, len(names) + 1) ** 1.1
    popular = draw.permutation(popular / popular.sum())
    measures = [name for name in names if name not in PLAIN]
    filtered = [measures[at] for at in draw.choice(len(measures), min(FILTERED, len(measures)), replace=False)]
    made = [_Task(draw, names, popular, filtered) for _ in range(tasks)]
    weights = 1 / np.arange(1, tasks + 1) ** 0.8
    begins = np.where(np.arange(tasks) % 3 == 0, draw.random(tasks) * 0.6, 0.0)
    queries = []
    for number in range(count):
        alive = weights * (begins <= number / count)
        task = int(draw.choice(tasks, p=alive / alive.sum()))
        queries.append(GsopQuery(f"t{task}", *made[task].query(draw)))
    return queries


class _Task:
    """Columns that one kind of query reads, and what it asks of them."""

    def __init__(self, draw: Any, names: tuple[str, ...], popular: Any, filtered: list[str]) -> None:
        size = int(np.clip(round(draw.normal(12.0, 5.1)), 2, 21))
        self.columns = frozenset(draw.choice(names, size, replace=False, p=popular).tolist())
        self.filters = draw.choice(filtered, int(draw.integers(1, 3)), replace=False).tolist()
        self.limits = {name: [round(float(x), 1) for x in draw.uniform(14, 24, 4)] for name in self.filters}
        self.place, self.kind = draw.random() < 0.4, int(draw.choice([3, 6]))

    def query(self, draw: Any) -> tuple[tuple[Predicate, ...], frozenset[str]]:
        asked: list[Predicate] = []
        for name in self.filters:
            low = self.limits[name][int(draw.choice(4, p=[0.55, 0.25, 0.15, 0.05]))]
            asked.append(between(_col(name), low, low + 0.5))
        if self.place:
            ra, dec = float(np.round(draw.uniform(0, 350), 2)), float(np.round(draw.uniform(-10, 60), 2))
            asked += [between(_col("ra"), ra, ra + 10), between(_col("dec"), dec, dec + 5)]
        asked.append(
            one_of(_col("kind"), [self.kind, 8]) if draw.random() < 0.2 else compare(_col("kind"), "=", self.kind)
        )
        named = {"kind", *self.filters, *(("ra", "dec") if self.place else ())}
        return tuple(asked), self.columns | named


def _col(name: str) -> Column:
    return column(name, INTEGER if name in PLAIN[2:] else DOUBLE)


def make_table(names: tuple[str, ...], queries: list[GsopQuery], rows: int, seed: int) -> pa.Table:
    """The columns that queries filter: magnitudes of a band follow each other, and places are strips of the sky."""
    draw = np.random.default_rng([seed, 2])
    run = draw.integers(0, 60, rows)
    bright = draw.normal(20, 2.0, rows)
    values: dict[str, Any] = {
        "ra": np.round((run * 6 + draw.random(rows) * 25) % 360, 4),
        "dec": np.round(draw.uniform(-10, 65, rows), 4),
        "kind": pa.array(draw.choice([3, 6, 0, 8], rows, p=[0.55, 0.35, 0.05, 0.05]), pa.int32()),
    }
    asked = sorted({name for query in queries for name in query.columns if name not in PLAIN})
    for name in asked:
        values[name] = np.round(bright + draw.normal(0, 1.5, rows), 3)
    return pa.table({name: values[name] for name in names if name in values})


def _table(later: dict[str, Measured], rated: dict[str, float]) -> Table:
    shown = Table(title="a later query, as a multiple of the rows; and what a query of the log is rated")
    for heading in ("layout", "groups", "cells", "row ids", "sum", "rated"):
        shown.add_column(heading, justify="left" if heading == "layout" else "right")
    for name, each in later.items():
        own = f"{rated[name]:.3f}" if name in rated else "-"
        shown.add_row(name, str(each.groups), f"{each.cells:.3f}", f"{each.row_ids:.3f}", f"{each.total:.3f}", own)
    for name in sorted(rated.keys() - later.keys()):
        shown.add_row(name, "", "", "", "", f"{rated[name]:.3f}")
    return shown
