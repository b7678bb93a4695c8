"""Partial replication (GSOP-R) against column groups: cells and row ids of later queries by storage budget.

The fourteen templates of the thesis (5.7.1) on denormalized TPC-H, some queries to learn from and some later ones,
worked out in memory: layouts are searched on a sample, each part of them is arranged by all means that sidestep has,
and the later queries are judged on all rows, each on its best retrieval path. GSOP-SE and GSOP-FC are the basic
approaches of 5.3, at the same storage. A cell is a value that a query reads, a row id counts as one; both are given as
multiples of the table's rows, for an average query.

The parts: ``model`` is that; ``run`` loads the table with ``layout="gsop"`` and, for each budget above 1, with
``layout="gsop-r"``, and runs the later queries on each: what they read and take through Spark, what loading takes, and
what is stored. Every query gives the same answer on each, or the run ends. ``wide`` times the search on a made-up
workload of 70 columns and 100 features.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sidestep
from bench.denorm_data import columns as denorm_columns
from bench.denorm_data import make_denorm
from bench.gsop import measure
from bench.gsop_queries import SELECTIVE, random_queries
from bench.gsopr_model import BUDGETS, SEARCHED_ROWS, SEARCHED_VECTORS, Measured, compare_schemes, replica_experiment
from bench.kept import KeptTables, add_kept_arguments
from bench.options import add_parts
from bench.session import spark_session
from bench.tpch import DATA
from sidestep.layout.columns.queries import ColumnQuery, ColumnWorkload, subsumed_by
from sidestep.layout.columns.rows import RowsByFeatures
from sidestep.layout.columns.search import search
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.search import search_replicas
from sidestep.layout.vectors import pack, reduce_vectors
from sidestep.spark.log.statements import analyze_statements
from sidestep.workload.query import Statement, Workload

PARTS = ("model", "run", "wide")
WIDE_COLUMNS, WIDE_FEATURES, WIDE_QUERIES = 70, 100, 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=0.1, help="TPC-H scale factor")
    parser.add_argument("--train", type=int, default=1_400, help="queries to learn from")
    parser.add_argument("--test", type=int, default=140, help="later queries")
    parser.add_argument("--blocks", type=int, default=1_000, help="blocks that the whole table would have")
    parser.add_argument("--budgets", default=",".join(f"{budget:g}" for budget in BUDGETS), help="comma-separated")
    parser.add_argument("--basic", action=argparse.BooleanOptionalAction, default=True, help="GSOP-SE and GSOP-FC too")
    parser.add_argument("--min-size", type=int, help="rows per block of what is loaded; by default as --blocks has it")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each query, after one that is not; 0: none")
    add_parts(parser, PARTS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="6g", help="of Spark's driver")
    parser.add_argument("--seed", type=int, default=1, help="of the queries")
    add_kept_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    budgets = [float(text) for text in str(args.budgets).split(",")]
    found: dict[str, Any] = _model(args, budgets, console) if "model" in args.parts else {}
    if "run" in args.parts:
        found |= _run(args, budgets, console)
    if "wide" in args.parts:
        taken = wide_search(budgets, args.seed)
        found["wide_search_s"] = {name: round(seconds, 1) for name, seconds in taken}
    return found


def _run(args: argparse.Namespace, budgets: Sequence[float], console: Console) -> dict[str, Any]:
    train, test = (
        list(random_queries(n, s, SELECTIVE)) for n, s in ((args.train, args.seed), (args.test, args.seed + 1))
    )
    source = make_denorm(args.data, args.sf)
    spark = spark_session(args.memory)
    rows = round(6_000_000 * args.sf)
    min_size = args.min_size or max(20, rows // args.blocks)
    home = args.data / f"gsopr-sf{args.sf:g}-seed{args.seed}-train{args.train}-blocks{min_size}"
    kept = KeptTables(home, keep=args.keep, fresh=args.fresh)
    names = {f"{budget:.1f}": f"within_{budget:.1f}".replace(".", "_") for budget in budgets}
    loads: dict[str, Any] = {}
    schema = spark.read.parquet(str(source)).schema

    @cache
    def log() -> tuple[Workload, float]:
        """The log analyzed, once and not by each load, and the seconds that it took."""
        began = time.perf_counter()
        analyzed = analyze_statements(spark, [Statement(query.sql) for query in train], {"denorm": schema})
        return analyzed, time.perf_counter() - began

    def load(budget: float, target: Path) -> dict[str, Any]:
        workload, _ = log()
        began = time.perf_counter()
        report = sidestep.load(
            spark,
            source,
            target,
            name="denorm",
            tables={},
            log=workload,
            layout="gsop-r",
            storage=budget,
            min_size=min_size,
        )
        cells = sum(group.rows * len(group.columns) for group in report.groups)
        return {
            "seconds": round(time.perf_counter() - began, 1),
            "stages": {stage.name: round(stage.seconds, 1) for stage in report.stages},
            "storage": round(cells / (report.rows * len(denorm_columns())), 3) if report.groups else 1.0,
            "bytes": report.bytes_after,
            "groups": len(report.groups),
            "copies": sum(bool(group.copies) for group in report.groups),
            "notes": list(report.notes),
        }

    try:
        for budget in budgets:
            name = f"{budget:.1f}"
            loads[name] = kept.load(names[name], partial(load, budget))
            console.print(f"within {name}:", loads[name])
        paths = {view: kept.path(view) for view in names.values()}
        reads, _ = measure(spark, paths, test, args.runs, console)
    finally:
        kept.finish()
    of = {name: reads[view] for name, view in names.items()}
    return {
        "seconds": {name: round(each.seconds, 3) for name, each in of.items()} if args.runs else None,
        "spark": {
            "cells": {name: round(each.total, 4) for name, each in of.items()},
            "row_ids": {name: round(each.row_ids, 4) for name, each in of.items()},
            "bytes": {name: round(each.bytes) for name, each in of.items()},
            "templates": {name: each.by_template for name, each in of.items()},
        },
        "load": loads,
        "analyze_s": round(log()[1], 1) if log.cache_info().currsize else None,
    }


def _model(args: argparse.Namespace, budgets: Sequence[float], console: Console) -> dict[str, Any]:
    experiment = replica_experiment(args.sf, args.train, args.test, args.blocks, args.seed)
    measured = compare_schemes(experiment, budgets, console.print, args.basic)
    _print(console, measured, f"{args.test} later queries, SF {args.sf:g}, {experiment.rows:,} rows")
    replicated = {f"{budget:.1f}": measured[f"gsop-r {budget:g}"] for budget in budgets}
    gsop = measured["gsop"].total
    return {
        "cells": {name: round(each.total, 4) for name, each in replicated.items()},
        "times_fewer_cells": {name: round(gsop / each.total, 2) for name, each in replicated.items() if each.total},
        "compared": {name: round(each.total, 4) for name, each in measured.items()},
        "storage": {name: round(each.storage, 3) for name, each in measured.items()},
        "row_ids": {name: round(each.row_ids, 4) for name, each in measured.items()},
        "search_s": {name: round(each.search_s, 1) for name, each in replicated.items()},
        "greedy_optimal_share": {name: round(each.greedy_optimal, 4) for name, each in replicated.items()},
        "templates": {name: each.by_template for name, each in measured.items()},
    }


def wide_search(
    budgets: Sequence[float], seed: int, queries: int = WIDE_QUERIES, rows: int = SEARCHED_ROWS
) -> list[tuple[str, float]]:
    """Processor seconds of searches among 70 columns and 100 features, for 20 kinds of queries that share columns."""
    rng = np.random.default_rng(seed)
    kinds = []
    for _ in range(20):
        # A few columns are read by many, as in real logs.
        columns = np.unique(np.minimum(rng.zipf(1.3, 12), WIDE_COLUMNS) - 1)
        kinds.append((columns, rng.choice(WIDE_FEATURES, 12, replace=False)))
    asked = []
    for _ in range(queries):
        columns, features = kinds[int(rng.integers(len(kinds)))]
        used = rng.choice(features, int(rng.integers(1, 4)), replace=False)
        asked.append(ColumnQuery(frozenset(f"c{at}" for at in columns), subsumed_by(used.tolist())))
    workload = ColumnWorkload.of([f"c{at}" for at in range(WIDE_COLUMNS)], WIDE_FEATURES, asked)
    share = rng.beta(0.5, 3, WIDE_FEATURES)
    vectors = reduce_vectors(pack(rng.random((rows, WIDE_FEATURES)) < share), WIDE_FEATURES)
    block = max(1, rows // 1_000)
    groups = search(workload, RowsByFeatures(workload, vectors, block, SEARCHED_VECTORS)).best.groups
    taken = []
    for budget in budgets:
        began = time.process_time()
        search_replicas(workload, LayoutRows(workload, vectors, block, SEARCHED_VECTORS), budget, groups)
        taken.append((f"{budget:.1f}", time.process_time() - began))
    return taken


def _print(console: Console, measured: Mapping[str, Measured], title: str) -> None:
    table = Table(title=title)
    for heading in ("scheme", "layouts", "storage", "cells", "row ids", "sum", "times fewer", "search s", "greedy"):
        table.add_column(heading, justify="left" if heading == "scheme" else "right")
    gsop = measured["gsop"].total
    for name, each in measured.items():
        table.add_row(
            name,
            str(each.layouts),
            f"{each.storage:.2f}",
            f"{each.cells:.3f}",
            f"{each.row_ids:.3f}",
            f"{each.total:.3f}",
            f"{gsop / each.total:.2f}" if each.total else "-",
            f"{each.search_s:.1f}",
            f"{each.greedy_optimal:.0%}",
        )
    console.print(table)
