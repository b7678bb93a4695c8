"""Column groups (GSOP) against row layouts: cells, row ids, bytes and time of later queries on denormalized TPC-H.

The ten templates of the thesis (4.7.2), some queries to learn from and some later ones. ``parquet`` is the table as it
arrives, without sidestep; ``sop`` is what ``sidestep.load`` chooses among row layouts, ``gsop`` what it makes with
``layout="gsop"``: both through the product, with its defaults. Every query gives the same answer on each, or the run
ends. A cell is a value of a column that a scan hands on; the row ids that groups are joined by count as cells too.

With ``--model``, cells of the layouts that the product does not make (by the letter of the thesis, a group for each
column, groups by HillClimb and by Hyrise) are worked out in memory, in blocks of the same share of the rows.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

import sidestep
from bench.denorm_data import make_denorm
from bench.gsop_model import compare_layouts, denorm_experiment
from bench.gsop_queries import GsopQuery, random_queries, whole_sql
from bench.harness import race
from bench.reads import bytes_read
from bench.session import spark_session
from bench.tpch import DATA
from sidestep.spark.jvm.bridge import Bridge
from sidestep.store.sidecars.column_groups import ROW_ID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PARQUET, SOP, GSOP = "parquet", "sop", "gsop"
LAYOUTS = (PARQUET, SOP, GSOP)
MODELLED = ("sop_thesis", "gsop_thesis", "gsop_single", "hillclimb", "hyrise")
_SWITCH = "spark.sidestep.enabled"
_UNCOUNTED = ("_unit", "_block")
"""Columns of which each block, or unit, has one value."""


@dataclass
class Reads:
    """What the queries read of one layout, on average, as a multiple of the table's rows; bytes as they are."""

    cells: float = 0.0
    row_ids: float = 0.0
    bytes: float = 0.0
    rows: float = 0.0
    seconds: float = 0.0
    """For all queries, each the median of its runs."""
    by_template: dict[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return self.cells + self.row_ids


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--train", type=int, default=1_000, help="queries to learn from")
    parser.add_argument("--test", type=int, default=100, help="later queries")
    parser.add_argument("--min-size", type=int, help="rows per block, instead of the default")
    parser.add_argument("--runs", type=int, default=1, help="timed runs of each query, after one that is not; 0: none")
    parser.add_argument("--model", action="store_true", help="also work other layouts out in memory; takes minutes")
    parser.add_argument("--seed", type=int, default=1, help="of the queries")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="6g", help="of Spark's driver")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    train, test = list(random_queries(args.train, args.seed)), list(random_queries(args.test, args.seed + 1))
    source = make_denorm(args.data, args.sf, "lean")
    spark = spark_session(args.memory)
    folder = args.data / "gsop"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        log = folder / "log.sql"
        log.write_text(";\n".join(query.sql for query in train) + ";\n")
        loads = {name: _load(spark, source, folder, log, name, args.min_size) for name in (SOP, GSOP)}
        for name, (report, seconds) in loads.items():
            console.print(f"{name}: loaded in {seconds:.0f} s", str(report), sep="\n")
        paths = {PARQUET: source, **{name: folder / name for name in (SOP, GSOP)}}
        reads, rows = measure(spark, paths, test, args.runs, console)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    modelled = _model(args, rows, loads, console) if args.model else {}
    _print(console, reads, f"{len(test)} later queries, SF {args.sf:g}, {rows:,} rows", args.runs)
    cells = {name: round(each.total, 4) for name, each in reads.items()}
    return {
        "cells": cells | modelled,
        "row_ids": {name: round(each.row_ids, 4) for name, each in reads.items()},
        "bytes": {name: round(each.bytes) for name, each in reads.items()},
        "seconds": {name: round(each.seconds, 3) for name, each in reads.items()} if args.runs else None,
        "times_fewer_cells": {name: round(cells[name] / cells[GSOP], 2) for name in (PARQUET, SOP) if cells[GSOP]},
        "load": {
            name: {
                "seconds": round(seconds, 1),
                "stages": {stage.name: round(stage.seconds, 1) for stage in report.stages},
                "bytes": report.bytes_after,
            }
            for name, (report, seconds) in loads.items()
        },
        "templates": {name: each.by_template for name, each in reads.items()},
    }


def _load(
    spark: SparkSession, source: Path, folder: Path, log: Path, name: str, min_size: int | None
) -> tuple[sidestep.LoadReport, float]:
    layout = GSOP if name == GSOP else None
    began = time.perf_counter()
    report = sidestep.load(
        spark, source, folder / name, name="denorm", log=log, tables={}, min_size=min_size, layout=layout
    )
    return report, time.perf_counter() - began


def measure(
    spark: SparkSession, paths: Mapping[str, Path], queries: Sequence[GsopQuery], runs: int, console: Console
) -> tuple[dict[str, Reads], int]:
    """Run the queries on each layout; what they read and take, and the table's rows."""
    reads = {name: Reads() for name in paths}
    with sidestep.enable(spark):
        frames = {
            name: spark.read.parquet(str(path)) if name == PARQUET else sidestep.read(spark, str(path))
            for name, path in paths.items()
        }
        rows = frames[PARQUET].count()
        for name, frame in frames.items():
            frame.createOrReplaceTempView(f"denorm_{name}")
        for number, query in enumerate(queries):
            answers = {name: _measure_one(spark, name, query, number, rows, reads[name]) for name in paths}
            if len(set(map(str, answers.values()))) != 1:
                raise AssertionError(f"The answers differ ({answers}): {query.sql}")
            for name, seconds in _time_one(spark, list(paths), query, runs).items():
                reads[name].seconds += seconds
            if (number + 1) % 20 == 0:
                console.print(f"{number + 1} of {len(queries)} queries")
        spark.conf.unset(_SWITCH)
    for each in reads.values():
        for name in ("cells", "row_ids", "bytes", "rows"):
            setattr(each, name, getattr(each, name) / len(queries))
        asked = {name: sum(query.template == name for query in queries) for name in each.by_template}
        each.by_template = {name: round(total / asked[name], 4) for name, total in each.by_template.items()}
    return reads, rows


def _ask(spark: SparkSession, layout: str, query: GsopQuery) -> DataFrame:
    """A query that needs every row and column of the answer, and returns one row."""
    spark.conf.set(_SWITCH, str(layout != PARQUET).lower())
    columns = ", ".join(sorted(query.columns))
    where = " AND ".join(f"({whole_sql(one)})" for one in query.predicates)
    return spark.sql(
        f"SELECT count(*), sum(CAST(xxhash64({columns}) AS DECIMAL(38, 0))) FROM denorm_{layout} WHERE {where}"
    )


def _measure_one(spark: SparkSession, layout: str, query: GsopQuery, number: int, rows: int, reads: Reads) -> Row:
    group = f"gsop-{layout}-{number}"
    spark.sparkContext.setJobGroup(group, query.template)
    df = _ask(spark, layout, query)
    (answer,) = df.collect()
    inspector = Bridge(spark).factory()
    cells = row_ids = 0.0
    for scan in inspector.scans(df._jdf.queryExecution().executedPlan()):
        values = dict(line.split("=", 1) for line in inspector.metrics(scan).splitlines())
        names = [column.name() for column in _each(scan.output()) if column.name() not in _UNCOUNTED]
        read = int(values.get("numOutputRows", 0))
        reads.rows += read
        row_ids += read / rows * (ROW_ID in names)
        cells += read / rows * len([name for name in names if name != ROW_ID])
    reads.cells, reads.row_ids = reads.cells + cells, reads.row_ids + row_ids
    reads.bytes += bytes_read(spark, group)
    reads.by_template[query.template] = reads.by_template.get(query.template, 0.0) + cells + row_ids
    return answer


def _time_one(spark: SparkSession, layouts: Sequence[str], query: GsopQuery, runs: int) -> dict[str, float]:
    if not runs:
        return {}
    timed = race({name: lambda name=name: _ask(spark, name, query).collect() for name in layouts}, runs=runs)  # type: ignore[misc]
    return {timing.name: timing.median for timing in timed.timings}


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def _model(
    args: argparse.Namespace, rows: int, loads: Mapping[str, tuple[sidestep.LoadReport, float]], console: Console
) -> dict[str, float]:
    report, _ = loads[SOP]
    experiment = denorm_experiment(args.sf, args.train, args.test, max(1, report.blocks), args.seed)
    found = compare_layouts(experiment, console.print)
    return {name: round(found[name].total, 4) for name in MODELLED}


def _print(console: Console, reads: Mapping[str, Reads], title: str, runs: int) -> None:
    table = Table(title=title)
    for heading in ("layout", "cells", "row ids", "sum", "times fewer", "MB", "seconds"):
        table.add_column(heading, justify="left" if heading == "layout" else "right")
    plain = reads[PARQUET]
    for name, each in reads.items():
        table.add_row(
            name,
            f"{each.cells:.3f}",
            f"{each.row_ids:.3f}",
            f"{each.total:.3f}",
            f"{plain.total / each.total:.1f}" if each.total else "-",
            f"{each.bytes / 1e6:.1f}",
            f"{each.seconds:.2f}" if runs else "-",
        )
    console.print(table)
