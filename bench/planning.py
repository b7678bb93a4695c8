"""Where planning time goes: what sidestep adds to queries with joins, in milliseconds of the clock and of either CPU.

The queries are TPC-DS's over many files and those of the Join Order Benchmark's shape, planned with sidestep on and off
in turns. The clock tells what a user waits; on a busy machine only CPU times can be compared: those of the JVM's
planning thread (on - off), and of Python while it answers. A query that is planned again gets the answer that it had;
with ``--first`` each is planned as if for the first time. ``--profile`` prints Python's functions by their own CPU time
(it implies ``--first``), ``--kept FILE`` writes how many blocks were kept of each scan, to compare two versions of the
code.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import sidestep
from bench import job, job_queries, tpcds
from bench.session import spark_session
from bench.tpcds_layout import make_tuned, write_cut
from bench.tpch import DATA
from bench.whole_folder import whole_folder
from sidestep.spark.rule.session import Enabled

FAMILIES = ("tpcds", "job")
MEASURES = ("wall", "java", "python", "messages", "questions", "characters")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--families", default=",".join(FAMILIES), help="which queries to plan")
    parser.add_argument("--sf", type=float, default=0.1, help="TPC-DS scale factor")
    parser.add_argument("--films", type=int, default=20_000, help="films in the JOB-shaped data")
    parser.add_argument("--files", type=int, default=1_000, help="files of the largest table of each")
    parser.add_argument("--queries", type=int, default=None, help="so many queries of each, instead of all")
    parser.add_argument("--runs", type=int, default=7, help="times that each is planned, after two that do not count")
    parser.add_argument("--first", action="store_true", help="let no query have the answer that it had before")
    parser.add_argument("--profile", action="store_true", help="print where Python's time goes")
    parser.add_argument("--kept", type=Path, default=None, help="write what is kept of each scan to this file")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seed", type=int, default=0, help="of the JOB-shaped data")
    parser.add_argument("--memory", default="2g", help="of Spark's driver")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    families = args.families.split(",")
    if unknown := [name for name in families if name not in FAMILIES]:
        raise sidestep.SidestepError(f"--families takes {', '.join(FAMILIES)}, not {', '.join(unknown)}.")
    spark = spark_session(args.memory)
    figures: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for name in families:
        folder, texts = prepare(spark, name, args)
        chosen = dict(list(texts.items())[: args.queries])
        with sidestep.enable(spark) as state:
            profile = cProfile.Profile(time.thread_time) if args.profile else None
            meter = Meter(spark, state, args.first or args.profile, profile)
            added = {query: meter.added(text, args.runs) for query, text in chosen.items()}
        if args.kept:
            with sidestep.enable(spark) as state:
                kept[name] = {query: kept_blocks(spark, state, text) for query, text in chosen.items()}
        figures[name] = summary(added)
        console.print(added_table(f"{name}: what sidestep adds to planning", added))
        if meter.profile is not None:
            pstats.Stats(meter.profile).sort_stats("tottime").print_stats(45)
        drop_views(spark, folder)
    if args.kept:
        args.kept.write_text(json.dumps(kept, indent=1, sort_keys=True), encoding="utf-8")
    return figures


def prepare(spark: SparkSession, family: str, args: argparse.Namespace) -> tuple[Path, dict[str, str]]:
    """The indexed tables of a family as views, and its queries."""
    if family == "job":
        folder = make_job_files(args.data, args.films, args.files, args.seed)
        texts = job_queries.queries()
    else:
        folder = make_tuned(tpcds.make_tpcds(args.data, args.sf), args.files)
        texts = {name: text for name, text in tpcds.queries().items() if int(name[1:]) in tpcds.CHOSEN}
    for path in tables_in(folder):
        sidestep.index(spark, str(path))
        spark.read.parquet(str(path)).createOrReplaceTempView(path.name)
    return folder, texts


def make_job_files(data: Path, films: int, files: int, seed: int) -> Path:
    """The JOB-shaped tables, each in the order that it came in, the largest in so many files."""
    source = job.make_job(data, films, seed)
    target = source.parent / f"{source.name}-files{files}"
    if not target.is_dir():
        tables = {path.name: pq.read_table(path) for path in tables_in(source)}
        largest = max(map(len, tables.values()))
        with whole_folder(target) as partial:
            for name, table in tables.items():
                write_cut(partial / name, table, max(1, round(files * len(table) / largest)))
    return target


def tables_in(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.iterdir()) if path.is_dir())


def drop_views(spark: SparkSession, folder: Path) -> None:
    for path in tables_in(folder):
        spark.catalog.dropTempView(path.name)
    spark.conf.unset("spark.sidestep.enabled")


@dataclass
class Cost:
    """What Python did for one planning."""

    seconds: float = 0.0
    messages: int = 0
    questions: int = 0
    characters: int = 0


@dataclass
class Meter:
    """Counts what passes between the rule and the planner of a session."""

    spark: SparkSession
    state: Enabled
    first: bool = False
    """Whether to forget answers before each planning."""
    profile: cProfile.Profile | None = None
    cost: Cost = field(default_factory=Cost)

    def __post_init__(self) -> None:
        planner = self.state.planner
        apply, complete = planner.apply, planner.complete
        jvm: Any = self.spark.sparkContext._jvm
        self.threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()

        def metered_apply(message: str) -> str:
            began = time.thread_time()
            if self.profile is not None:
                self.profile.enable()
            reply = apply(message)
            if self.profile is not None:
                self.profile.disable()
            self.cost.seconds += time.thread_time() - began
            self.cost.messages += 1
            self.cost.characters += len(message) + len(reply)
            return reply

        def metered_complete(number: str, scans: str) -> str:
            self.cost.questions += 1
            return complete(number, scans)

        planner.apply = metered_apply  # type: ignore[method-assign]
        planner.complete = metered_complete

    def added(self, text: str, runs: int) -> dict[str, list[float]]:
        """Of each measure what is more with sidestep than without, for each run."""
        added: dict[str, list[float]] = {measure: [] for measure in MEASURES}
        for number in range(runs + 2):
            both = {}
            for enabled in ("true", "false") if number % 2 else ("false", "true"):
                self.spark.conf.set("spark.sidestep.enabled", enabled)
                gc.collect()
                both[enabled] = self.planned(text)
            if number > 1:
                for measure in MEASURES:
                    added[measure].append(both["true"][measure] - both["false"][measure])
        return added

    def planned(self, text: str) -> dict[str, float]:
        """What it takes to get from a query's analyzed plan to the files that its scans will read."""
        execution = self.spark.sql(text)._jdf.queryExecution()
        execution.analyzed()
        self.cost = Cost()
        if self.first:
            self.state.planner.forget()
        # One thread of Python is served by one thread of Java: the time of the current one is that of planning.
        cpu, began = self.threads.getCurrentThreadCpuTime(), time.perf_counter()
        self.state.inspector.listAll(execution.executedPlan())
        wall, used = time.perf_counter() - began, self.threads.getCurrentThreadCpuTime() - cpu
        return {
            "wall": 1e3 * wall,
            "java": used / 1e6,
            "python": 1e3 * self.cost.seconds,
            "messages": self.cost.messages,
            "questions": self.cost.questions,
            "characters": self.cost.characters,
        }


def kept_blocks(spark: SparkSession, state: Enabled, text: str) -> list[tuple[str, int, int]]:
    """Of each scan, in the order of the plan: its folder, its blocks, and how many are kept."""
    kept: list[tuple[str, int, int]] = []
    planner = state.planner
    decide = planner.decide

    def noted(*arguments: Any, **named: Any) -> Any:
        planned = decide(*arguments, **named)
        kept.extend((each.index.root, each.catalog.blocks, int(each.kept.sum())) for each in planned.scans)
        return planned

    planner.decide = noted  # type: ignore[method-assign]
    spark.conf.set("spark.sidestep.enabled", "true")
    try:
        spark.sql(text)._jdf.queryExecution().executedPlan()
    finally:
        planner.decide = decide  # type: ignore[method-assign]
    return kept


def summary(added: Mapping[str, Mapping[str, list[float]]]) -> dict[str, Any]:
    """Percentiles over all queries and runs, and the medians of each query."""
    figures: dict[str, Any] = {}
    for measure in MEASURES:
        every = [value for each in added.values() for value in each[measure]]
        figures[measure] = {f"p{p}": round(float(np.percentile(every, p)), 3) for p in (50, 95)}
    figures["queries"] = {
        name: {measure: round(statistics.median(each[measure]), 3) for measure in MEASURES}
        for name, each in added.items()
    }
    return figures


def added_table(title: str, added: Mapping[str, Mapping[str, list[float]]]) -> Table:
    table = Table(title=title)
    for heading in ("query", "ms", "ms of Java", "ms of Python", "messages", "questions", "characters"):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for name, each in added.items():
        table.add_row(name, *_cells({measure: statistics.median(each[measure]) for measure in MEASURES}))
    for share in (50, 95):
        every = {
            measure: float(np.percentile([value for each in added.values() for value in each[measure]], share))
            for measure in MEASURES
        }
        table.add_row(f"p{share}", *_cells(every))
    return table


def _cells(values: Mapping[str, float]) -> Iterator[str]:
    for measure, value in values.items():
        yield f"{value:.2f}" if measure in ("wall", "java", "python") else f"{value:.0f}"
