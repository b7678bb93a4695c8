"""Column groups (GSOP) against other layouts: cells, row ids, bytes and time of later queries on denormalized TPC-H.

The ten templates of the thesis (4.7.2), some queries to learn from and some later ones. ``parquet`` is the table as it
arrives, ``normalized`` TPC-H's own tables, joined, both without sidestep; ``sop_thesis`` has rows in blocks by features
of the log as the thesis takes them; ``sop`` is what ``sidestep.load`` chooses among row layouts, and ``gsop`` what it
makes with ``layout="gsop"``. The others are loaded the same way with groups that are given: a group for each column
that is read, and those of HillClimb and Hyrise. Every query gives the same answer on each, or the run ends (but for
``normalized``, where queries on dimensions alone have fewer rows). A cell is a value of a column that a scan hands on;
the row ids that groups are joined by count as cells too. Bytes are Spark's own count.

The parts: ``run`` loads and runs; ``model`` works the layouts out in memory, in blocks of the same share of the rows,
those by the letter of the thesis included; ``objectives`` compares ways to work out the objective of the search
(Figure 4.10); ``widths`` compares groups chosen by cells with groups chosen by bytes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table

import sidestep
from bench.denorm_data import FILES, columns, make_denorm
from bench.gsop_grouping import hill_climb, hyrise
from bench.gsop_model import (
    MOST_FEATURES,
    THRESHOLD,
    compare_layouts,
    compare_objectives,
    compare_widths,
    denorm_experiment,
)
from bench.gsop_normalized import normalized_sql
from bench.gsop_queries import GsopQuery, random_queries, whole_sql, workload_of
from bench.harness import race
from bench.kept import KeptTables, add_kept_arguments
from bench.options import add_parts
from bench.reads import bytes_read, peak_memory
from bench.session import spark_session
from bench.tpch import DATA, make_tpch, register
from sidestep.advisor.trials.column_queries import column_workload
from sidestep.spark.jvm.bridge import Bridge
from sidestep.store.sidecars.column_groups import ROW_ID
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.workload import Eligibility, ExtractOptions, FeatureSet, augment, extract_features, table_workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PARQUET, NORMALIZED, SOP, GSOP = "parquet", "normalized", "sop", "gsop"
LAYOUTS = (PARQUET, NORMALIZED, "sop_thesis", SOP, "gsop_single", GSOP, "hillclimb", "hyrise")
PLAIN = (PARQUET, NORMALIZED)
PARTS = ("run", "model", "objectives", "widths")
PREPARATION = ("analyze", "count", "choose", "synopses")
"""The stages of a load before any row is written: the first of the thesis's two phases."""
MODELLED = 600_000
"""Rows that layouts are worked out on in memory at most."""
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
    memory: float = 0.0
    """The most that the tasks of a stage held at once to join and to aggregate, in bytes."""
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
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each query, after one that is not; 0: none")
    add_parts(parser, PARTS)
    add_parts(parser, LAYOUTS, "--layouts")
    parser.add_argument("--seed", type=int, default=1, help="of the queries")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="6g", help="of Spark's driver")
    add_kept_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    found: dict[str, Any] = _run(args, console) if "run" in args.parts else {}
    if {"model", "objectives", "widths"} & set(args.parts):
        rows = round(6_000_000 * args.sf)
        keep = max(1, round(rows / MODELLED))
        blocks = max(10, round(rows / (args.min_size or LayoutSpec().min_size)))
        experiment = denorm_experiment(args.sf, args.train, args.test, blocks, args.seed, keep)
        if "model" in args.parts:
            layouts = compare_layouts(experiment, console.print)
            found["model"] = {
                name: {
                    "cells": round(each.total, 4),
                    "row_ids": round(each.row_ids, 4),
                    "groups": each.groups,
                    "local_features": list(each.local),
                    "seconds": round(each.seconds, 1),
                }
                for name, each in layouts.items()
            }
        if "objectives" in args.parts:
            found["objectives"] = compare_objectives(experiment)
            console.print("objectives:", found["objectives"])
        if "widths" in args.parts:
            measured = compare_widths(experiment)
            found["widths"] = {
                name: {"cells": round(each.total, 4), "bytes": round(each.bytes, 3), "groups": each.groups}
                for name, each in measured.items()
            }
            console.print("widths:", found["widths"])
    return found


def _run(args: argparse.Namespace, console: Console) -> dict[str, Any]:
    train, test = list(random_queries(args.train, args.seed)), list(random_queries(args.test, args.seed + 1))
    source = make_denorm(args.data, args.sf, "lean")
    spark = spark_session(args.memory)
    size = "" if args.min_size is None else f"-blocks{args.min_size}"
    home = args.data / f"gsop-sf{args.sf:g}-seed{args.seed}-train{args.train}{size}"
    kept = KeptTables(home, keep=args.keep, fresh=args.fresh)
    loader = _Loader(spark, source, kept.path("log.sql"), train, args.min_size)
    loads: dict[str, dict[str, Any]] = {}
    try:
        for name in args.layouts:
            if name not in PLAIN:
                loads[name] = kept.load(name, partial(loader.load, name))
                console.print(f"{name}: loaded in {loads[name]['seconds']:.0f} s", loads[name]["said"], sep="\n")
        if NORMALIZED in args.layouts:
            register(spark, make_tpch(args.data, args.sf, FILES))
        paths = {name: source if name in PLAIN else kept.path(name) for name in args.layouts}
        reads, rows = measure(spark, paths, test, args.runs, console)
    finally:
        kept.finish()
    _print(console, reads, f"{len(test)} later queries, SF {args.sf:g}, {rows:,} rows", args.runs)
    cells = {name: round(each.total, 4) for name, each in reads.items()}
    return {
        "cells": cells,
        "row_ids": {name: round(each.row_ids, 4) for name, each in reads.items()},
        "bytes": {name: round(each.bytes) for name, each in reads.items()},
        "seconds": {name: round(each.seconds, 3) for name, each in reads.items()} if args.runs else None,
        "memory": {name: round(each.memory) for name, each in reads.items()},
        "times_fewer_cells": {name: round(cells[name] / cells[GSOP], 2) for name in cells if cells.get(GSOP)},
        "load": {name: {key: of for key, of in each.items() if key != "said"} for name, each in loads.items()},
        "templates": {name: each.by_template for name, each in reads.items()},
    }


class _Loader:
    """Loads the table in each layout."""

    def __init__(
        self, spark: SparkSession, source: Path, log: Path, train: Sequence[GsopQuery], min_size: int | None
    ) -> None:
        self.spark, self.source, self.log, self.min_size = spark, source, log, min_size
        self.train = list(train)
        self.log.write_text(";\n".join(query.sql for query in train) + ";\n")

    def load(self, name: str, target: Path) -> dict[str, Any]:
        """Load one layout: seconds in all and by phase, bytes, and each column group's columns and local features."""
        began = time.perf_counter()
        how: dict[str, Any] = {"log": self.log}
        if name == "sop_thesis":
            how = {"features": thesis_features(self.train)}
        elif name != SOP:
            how |= {"layout": "gsop", "groups": self._groups(name)}
        report = sidestep.load(self.spark, self.source, target, name="denorm", tables={}, min_size=self.min_size, **how)
        prepared = sum(stage.seconds for stage in report.stages if stage.name in PREPARATION)
        return {
            "seconds": round(time.perf_counter() - began, 1),
            "preparation": round(prepared, 1),
            "loading": round(sum(stage.seconds for stage in report.stages) - prepared, 1),
            "stages": {stage.name: round(stage.seconds, 1) for stage in report.stages},
            "bytes": report.bytes_after,
            "groups": [{"columns": len(group.columns), "features": group.features} for group in report.groups],
            "said": str(report),
        }

    def _groups(self, name: str) -> list[list[str]] | None:
        if name == GSOP:
            return None
        names = tuple(columns("lean"))
        workload = column_workload(workload_of(self.train), "denorm", names, [])
        read = np.flatnonzero(workload.reads.any(axis=0))
        if name == "gsop_single":
            return [[names[at]] for at in read]
        groups = hill_climb(workload) if name == "hillclimb" else hyrise(workload)
        return [[names[at] for at in sorted(group)] for group in groups]


def thesis_features(train: Sequence[GsopQuery]) -> FeatureSet:
    """The features of the log as the thesis takes them: by how many queries they serve, without dates."""
    folded = table_workload(workload_of(list(train)), "denorm")
    threshold = max(1, round(THRESHOLD * folded.total))
    options = ExtractOptions(num_features=MOST_FEATURES, threshold=threshold, eligibility=Eligibility())
    return extract_features(augment(folded, options), options)


def measure(
    spark: SparkSession, paths: Mapping[str, Path], queries: Sequence[GsopQuery], runs: int, console: Console
) -> tuple[dict[str, Reads], int]:
    """Run the queries on each layout; what they read and take, and the table's rows."""
    reads = {name: Reads() for name in paths}
    with sidestep.enable(spark):
        frames = {
            name: spark.read.parquet(str(path)) if name == PARQUET else sidestep.read(spark, str(path))
            for name, path in paths.items()
            if name != NORMALIZED
        }
        rows = next(iter(frames.values())).count()
        for name, frame in frames.items():
            frame.createOrReplaceTempView(f"denorm_{name}")
        for number, query in enumerate(queries):
            answers = {name: _measure_one(spark, name, query, number, rows, reads[name]) for name in paths}
            if len({str(answer) for name, answer in answers.items() if name != NORMALIZED}) > 1:
                raise AssertionError(f"The answers differ ({answers}): {query.sql}")
            for name, seconds in _time_one(spark, list(paths), query, runs).items():
                reads[name].seconds += seconds
            if (number + 1) % 20 == 0:
                console.print(f"{number + 1} of {len(queries)} queries")
        spark.conf.unset(_SWITCH)
    for each in reads.values():
        for name in ("cells", "row_ids", "bytes", "rows", "memory"):
            setattr(each, name, getattr(each, name) / len(queries))
        asked = {name: sum(query.template == name for query in queries) for name in each.by_template}
        each.by_template = {name: round(total / asked[name], 4) for name, total in each.by_template.items()}
    return reads, rows


def _ask(spark: SparkSession, layout: str, query: GsopQuery) -> DataFrame:
    """A query that needs every row and column of the answer, and returns one row."""
    spark.conf.set(_SWITCH, str(layout not in PLAIN).lower())
    if layout == NORMALIZED:
        return spark.sql(normalized_sql(query))
    names = ", ".join(sorted(query.columns))
    where = " AND ".join(f"({whole_sql(one)})" for one in query.predicates)
    return spark.sql(
        f"SELECT count(*), sum(CAST(xxhash64({names}) AS DECIMAL(38, 0))) FROM denorm_{layout} WHERE {where}"
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
    reads.memory += peak_memory(spark, group)
    reads.by_template[query.template] = reads.by_template.get(query.template, 0.0) + cells + row_ids
    return answer


def _time_one(spark: SparkSession, layouts: Sequence[str], query: GsopQuery, runs: int) -> dict[str, float]:
    if not runs:
        return {}
    timed = race({name: lambda name=name: _ask(spark, name, query).collect() for name in layouts}, runs=runs)  # type: ignore[misc]
    return {timing.name: timing.median for timing in timed.timings}


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def _print(console: Console, reads: Mapping[str, Reads], title: str, runs: int) -> None:
    table = Table(title=title)
    for heading in ("layout", "cells", "row ids", "sum", "times fewer", "MB", "MB held", "seconds"):
        table.add_column(heading, justify="left" if heading == "layout" else "right")
    plain = reads.get(PARQUET, Reads())
    for name, each in reads.items():
        table.add_row(
            name,
            f"{each.cells:.3f}",
            f"{each.row_ids:.3f}",
            f"{each.total:.3f}",
            f"{plain.total / each.total:.1f}" if each.total else "-",
            f"{each.bytes / 1e6:.1f}",
            f"{each.memory / 1e6:.1f}",
            f"{each.seconds:.2f}" if runs else "-",
        )
    console.print(table)
