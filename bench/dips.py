"""Data-induced predicates: what they save on TPC-H with and without skew, TPC-DS and JOB, what they cost, and how fast.

InputCut (bytes before by bytes after skipping) is worked out from plans and synopses alone: for the query's own
predicates, and for predicates induced from zone maps, range-sets of 4 and of 20, without movement rules, and by a naive
schedule. TPC-DS is also run: on files of ordinary size, and in the tuned layout with sidestep off and on. A run that is
cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.dips_cut import BEST, NAIVE, VARIANTS
from bench.dips_cuts import FAVOURABLE, Cuts, InputCuts, least_gain, medians, of_query, proven_empty
from bench.dips_time import Timed
from bench.journal import Journal
from bench.options import add_parts
from bench.session import spark_session
from bench.tpch import DATA

PARTS = ("tpch", "tpcds", "job", "time", "plan")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=0.1, help="TPC-H scale factor; cuts depend on blocks, hardly on it")
    parser.add_argument("--tpcds-sf", type=float, default=1.0, help="TPC-DS scale factor, for InputCut")
    parser.add_argument(
        "--time-sf", type=float, default=20.0, help="TPC-DS scale factor, for run times; below 10 Spark's own are most"
    )
    parser.add_argument("--plan-sf", type=float, default=1.0, help="TPC-DS scale factor, for planning times")
    parser.add_argument("--blocks", type=int, default=1_000, help="blocks of the largest table, for InputCut")
    parser.add_argument("--time-blocks", type=int, default=500, help="blocks of store_sales, for run times")
    parser.add_argument("--plan-files", type=int, default=1_000, help="files of store_sales, for planning times")
    parser.add_argument("--films", type=int, default=20_000, help="films in the JOB-shaped data")
    parser.add_argument("--seeds", type=int, default=3, help="how many skewed TPC-Hs of each kind")
    parser.add_argument("--seed", type=int, default=10, help="the first; the data's set-up was chosen by 0 to 3")
    parser.add_argument("--layouts", type=int, default=3, help="how many layouts sorted by random columns")
    parser.add_argument("--queries", type=int, default=50, help="so many of the paper's 50 TPC-DS queries are run")
    parser.add_argument("--runs", type=int, default=1, help="timed runs of each, after one that is not")
    parser.add_argument("--plan-runs", type=int, default=3, help="times that each is planned, after one that is not")
    add_parts(parser, PARTS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="10g", help="of Spark's driver")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs have done")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    home = Path(args.data) / "dips"
    if args.fresh:
        shutil.rmtree(home, ignore_errors=True)
    spark, journal = spark_session(args.memory), Journal(home / "journal.jsonl")

    def say(text: str) -> None:
        console.print(f"[dim]{text}[/]", highlight=False, soft_wrap=True)

    cuts = InputCuts(spark, args, journal, say)
    figures: dict[str, Any] = {}
    if "tpch" in args.parts:
        figures |= tpch_figures(console, cuts.tpch())
    by_family = {}
    if "tpcds" in args.parts:
        by_family["TPC-DS"] = cuts.tpcds()
    if "job" in args.parts:
        by_family["JOB"] = cuts.job()
    for name, found in by_family.items():
        console.print(cut_table(f"InputCut of {name}: medians", {kind: medians(runs) for kind, runs in found.items()}))
        figures[f"inputcut_{name.lower().replace('-', '')}"] = {kind: medians(runs) for kind, runs in found.items()}
        figures[f"cuts_{name.lower().replace('-', '')}"] = {kind: runs[0] for kind, runs in found.items()}
    if "time" in args.parts:
        timed = Timed(spark, args, args.time_sf, journal, say)
        figures["tpcds"] = time_figures(console, timed.run(), timed.eligible())
    if "plan" in args.parts:
        by_query = Timed(spark, args, args.plan_sf, journal, say).plan_ms()
        added = [ms for each in by_query.values() for ms in each]
        figures["plan_ms"] = {"p50": float(np.percentile(added, 50)), "p95": float(np.percentile(added, 95))}
        figures["plan_ms_of_queries"] = {name: round(statistics.median(each), 2) for name, each in by_query.items()}
        console.print(
            f"planning: sidestep adds {figures['plan_ms']['p50']:.1f} ms, p95 {figures['plan_ms']['p95']:.1f}"
        )
    return figures


def tpch_figures(console: Console, found: Mapping[str, Mapping[str, Sequence[Cuts]]]) -> dict[str, Any]:
    """Medians over the favourable queries, by kind of data in the tuned layout, and by data set and layout."""
    detailed = {
        f"{skew}, {layout}": {**medians(runs, FAVOURABLE), "proven empty": proven_empty(runs, FAVOURABLE)}
        for skew, layouts in found.items()
        for layout, runs in layouts.items()
    }
    console.print(cut_table("InputCut of TPC-H: medians over 15 queries", detailed))
    by_kind: dict[str, list[Cuts]] = {}
    for skew, layouts in found.items():
        by_kind.setdefault(skew.partition("-")[0], []).extend(layouts["tuned"])
    every = [cuts for layouts in found.values() for runs in layouts.values() for cuts in runs]
    runs_kind = by_kind.get("runs", [])
    queries = list(runs_kind[0]) if runs_kind else []
    table = {name: of_query(runs_kind, name) for name in queries}
    console.print(cut_table("InputCut of TPC-H with runs, tuned layout, by query", table))
    return {
        "inputcut_median": {kind: round(medians(runs, FAVOURABLE)[BEST], 3) for kind, runs in by_kind.items()},
        "q17": round(of_query(runs_kind, "q17")[BEST], 3),
        "least_gain": least_gain(every),
        "inputcut_tpch": detailed,
        "cuts_tpch": table,
    }


def time_figures(console: Console, timed: Mapping[str, Mapping[str, Any]], eligible: Sequence[str]) -> dict[str, Any]:
    """How many queries skip a third of their input, and how much faster those run that joins may help."""
    speedups = {
        name: min(each["seconds"]["off"], each["seconds"]["ordinary"]) / each["seconds"]["on"]
        for name, each in timed.items()
    }
    table = Table(title="TPC-DS in the tuned layout")
    for heading in ("query", "ordinary s", "off s", "on s", "speed-up", "skipped %"):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for name, each in timed.items():
        seconds = (f"{each['seconds'][side]:.2f}" for side in ("ordinary", "off", "on"))
        table.add_row(name, *seconds, f"{speedups[name]:.2f}", f"{100 * each['skipped']:.0f}")
    console.print(table)
    counted = [name for name in eligible if name in timed]
    return {
        "share_third": round(sum(each["skipped"] >= 1 / 3 for each in timed.values()) / len(timed), 3),
        "median_speedup": round(statistics.median(speedups[name] for name in counted), 3) if counted else None,
        "eligible": list(counted),
        "queries": {name: {**each, "speedup": round(speedups[name], 3)} for name, each in timed.items()},
    }


def cut_table(title: str, rows: Mapping[str, Mapping[str, float]]) -> Table:
    names = (*VARIANTS, NAIVE)
    table = Table(title=title)
    for heading in ("", *names):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=not heading)
    for name, cuts in rows.items():
        empty = f" ({cuts['proven empty']:.0f} proven empty)" if cuts.get("proven empty") else ""
        table.add_row(f"{name}{empty}", *(f"{cuts[variant]:.2f}" for variant in names))
    return table
