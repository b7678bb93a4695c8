"""Loading a table by its workload against a plain rewrite by Spark: time, size on disk, memory, and how time grows.

The plain rewrite writes the same rows to Parquet (zstd), sorted by what the load cuts the table into, a month of the
order. Both run in turns. The log of 800 queries is analyzed within the load. Python workers are watched while it runs.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.comparison import BY_MONTH
from bench.denorm import NAME, random_queries
from bench.denorm_data import make_denorm
from bench.harness import Race, race
from bench.memory import WorkerMemory, watched
from bench.session import spark_session
from bench.tpch import DATA
from sidestep.spark.table.load import load
from sidestep.spark.table.reports import LoadReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor of the race")
    parser.add_argument("--scales", default="0.1,0.5,1,2", help="scale factors at which the time of a load is taken")
    parser.add_argument(
        "--width",
        choices=("wide", "lean", "narrow"),
        default="wide",
        help="all columns; without comments and addresses; or only those that queries name",
    )
    parser.add_argument("--min-size", type=int, default=None, help="least rows of a block (default: the load's own)")
    parser.add_argument("--train", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0, help="of the training queries")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="6g", help="of Spark's driver")


@dataclass(frozen=True)
class Loads:
    """Loads and rewrites of one table, run in turns; the last of each is on disk while it is looked at."""

    timing: Race
    report: LoadReport
    plain_bytes: int
    stages: Mapping[str, float]
    """Median seconds of each stage."""


def run(args: argparse.Namespace) -> dict[str, Any]:
    spark, console = spark_session(args.memory), Console()
    home = Path(args.data) / "load"
    home.mkdir(parents=True, exist_ok=True)
    try:
        scales = sorted({float(scale) for scale in args.scales.split(",") if scale})
        with watched() as memory:
            measured = measure(spark, args, home, args.sf, args.runs, plain=True)
            seconds = {args.sf: measured.timing["load"].median}
            for scale in scales:
                if scale not in seconds:
                    again = measure(spark, args, home, scale, args.runs, plain=False)
                    seconds[scale] = again.timing["load"].median
        return _told(console, args, measured, memory, {scale: seconds[scale] for scale in scales})
    finally:
        shutil.rmtree(home, ignore_errors=True)


def measure(spark: SparkSession, args: argparse.Namespace, home: Path, sf: float, runs: int, *, plain: bool) -> Loads:
    """Load the table at a scale factor, in turns with plain rewrites if asked."""
    source = make_denorm(args.data, sf, args.width)
    log = home / "train.sql"
    log.write_text(";\n".join(random_queries(args.train, seed=args.seed)) + ";\n", encoding="utf-8")
    rewritten, laid_out = home / "plain", home / "laid-out"
    reports: list[LoadReport] = []

    def rewrite() -> None:
        shutil.rmtree(rewritten, ignore_errors=True)
        rows = spark.read.parquet(str(source))
        month = rows.selectExpr(BY_MONTH).columns[0]
        by_month = rows.selectExpr("*", f"{BY_MONTH} AS `{month}`").sort(f"`{month}`").drop(month)
        by_month.write.option("compression", "zstd").parquet(str(rewritten))

    def lay_out() -> None:
        shutil.rmtree(laid_out, ignore_errors=True)
        reports.append(
            load(
                spark,
                str(source),
                str(laid_out),
                name=NAME,
                log=str(log),
                min_size=args.min_size,
            )
        )

    variants = {"plain": rewrite, "load": lay_out} if plain else {"load": lay_out}
    timing = race(variants, runs=runs, warmups=1 if plain else 0)
    timed = reports[-runs:]
    stages = {
        stage.name: statistics.median({s.name: s.seconds for s in report.stages}[stage.name] for report in timed)
        for stage in timed[0].stages
    }
    size = sum(file.stat().st_size for file in rewritten.glob("*.parquet")) if plain else 0
    return Loads(timing, timed[-1], size, stages)


def linearity(seconds: Mapping[float, float]) -> float:
    """How far times are from growing along a line, at most: 0.1 is a tenth above or below it.

    The line is the one that fits best, by relative distance, among those that cost something at the start and the same
    for each row. One that grows faster than that cannot hide in an intercept below zero.

    >>> round(linearity({1: 3.0, 2: 5.0, 4: 9.0}), 6)
    0.0
    >>> round(linearity({1: 1.0, 2: 4.0, 4: 16.0}), 1)
    0.7
    """
    if len(seconds) < 2:
        return 0.0
    sizes, times = np.array(list(seconds), float), np.array(list(seconds.values()), float)
    design = np.stack([np.ones_like(sizes), sizes], axis=1) / times[:, None]
    (start, slope), *_ = np.linalg.lstsq(design, np.ones_like(times), rcond=None)
    if start < 0:
        start, slope = 0.0, float(np.sum(design[:, 1]) / np.sum(design[:, 1] ** 2))
    return float(np.max(np.abs((start + slope * sizes) / times - 1)))


def _told(
    console: Console, args: argparse.Namespace, measured: Loads, memory: WorkerMemory, seconds: Mapping[float, float]
) -> dict[str, Any]:
    report = measured.report
    console.print(measured.timing.table(f"Denormalized TPC-H SF {args.sf:g}: a load, and a plain rewrite by month"))
    table = Table(title="A load, stage by stage")
    table.add_column("stage")
    for heading in ("seconds", "share"):
        table.add_column(heading, justify="right")
    for name, each in measured.stages.items():
        table.add_row(name, f"{each:.1f}", f"{each / sum(measured.stages.values()):.0%}")
    console.print(table)
    console.print(
        f"{report.rows:,} rows in {report.blocks:,} blocks of at least {report.spec.min_size:,}; "
        f"{report.bytes_after / 1e6:,.1f} MB, plain {measured.plain_bytes / 1e6:,.1f} MB; "
        f"Python workers took up to {memory.peak_mb:,.0f} MB each"
    )
    for scale, taken in seconds.items():
        console.print(f"SF {scale:g}: {taken:.1f} s, {taken / scale:.1f} s per SF")
    return {
        "time_ratio": measured.timing.paired_ratio("load"),
        "size_ratio": report.bytes_after / measured.plain_bytes,
        "peak_mb": round(memory.peak_mb, 1),
        "stages": {name: round(each, 3) for name, each in measured.stages.items()},
        "linearity": round(linearity(seconds), 4),
        "seconds": {f"{scale:g}": round(taken, 3) for scale, taken in seconds.items()},
        "plain_seconds": measured.timing["plain"].median,
        "load_seconds": measured.timing["load"].median,
        "min_size": report.spec.min_size,
        "blocks": report.blocks,
        "rows": report.rows,
    }
