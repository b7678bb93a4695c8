"""Partition selectors: what numbering files costs a scan, files and time they save on TPC-DS, plan sizes, and MERGE.

The parts: (a) a full scan of lineitem in 42 to 361 files, (b) the files that TPC-DS reads of its fact tables, laid out
by their dates and as generated, for Spark alone, for Spark on folders by date, and for what sidestep adds step by step,
and the time that its queries take, (c) the size of plans over 10 to 10,000 files, (d) what a MERGE of few rows moves.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import selectors_plan, selectors_scan
from bench.options import add_parts
from bench.selectors_merge import merge_costs
from bench.selectors_plan import MEASURES, growth, plan_sizes
from bench.selectors_scan import NUMBERED, ONE, PLAIN, scan_overhead
from bench.selectors_tpcds import OFF, SELECTORS, TpcDs, sides_of, summary
from bench.session import spark_session
from bench.tpch import DATA

PARTS = ("a", "b", "c", "d")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-DS scale factor, for b")
    parser.add_argument("--lineitem-sf", type=float, default=1.0, help="TPC-H scale factor, for a and d")
    parser.add_argument("--files", type=int, default=60, help="files of each fact table, and of lineitem in d")
    parser.add_argument("--queries", type=int, default=99, help="so many of TPC-DS's queries, for b")
    parser.add_argument("--runs", type=int, default=1, help="timed runs of each query, after one that is not; 0: none")
    parser.add_argument("--scan-runs", type=int, default=5, help="timed runs of each scan, for a")
    parser.add_argument("--scan-files", type=int, nargs="+", default=list(selectors_scan.COUNTS), help="files, for a")
    parser.add_argument("--plan-files", type=int, nargs="+", default=list(selectors_plan.COUNTS), help="files, for c")
    parser.add_argument("--plan-rows", type=int, default=100_000, help="rows of the tables of c, whatever their files")
    parser.add_argument("--batch", type=int, default=1_000, help="rows that are merged, for d")
    parser.add_argument(
        "--least-bytes", type=int, default=None, help="selectors.leastBytes for b; by default 0 below --sf 10"
    )
    parser.add_argument(
        "--folders",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also count Spark's own pruning of folders",
    )
    add_parts(parser, PARTS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seed", type=int, default=0, help="of the rows that are merged")
    parser.add_argument("--memory", default="6g", help="of Spark's driver")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    spark = spark_session(args.memory)

    def say(text: str) -> None:
        console.print(f"[dim]{text}[/]", highlight=False, soft_wrap=True)

    figures: dict[str, Any] = dict.fromkeys(("scan_overhead_pct", "tpcds", "plan_growth_pct", "merge_bytes_share"))
    if "a" in args.parts:
        scans = scan_overhead(spark, args.data, args.lineitem_sf, args.scan_files, args.scan_runs, say)
        console.print(scan_table(scans))
        figures["scan_overhead_pct"] = max(each["overhead_pct"] for each in scans.values())
        figures["scans"] = scans
    if "b" in args.parts:
        tpcds = TpcDs(spark, args, say)
        by_query = tpcds.run()
        figures["tpcds"] = summary(by_query) | {"least_bytes": tpcds.least_bytes}
        show_tpcds(console, by_query, figures["tpcds"])
    if "c" in args.parts:
        sizes = plan_sizes(spark, args.data, args.plan_files, args.plan_rows, say)
        grown = growth(sizes)
        console.print(plan_table(sizes, grown))
        raw = growth(sizes, same_choice=False)
        figures["plan_growth_pct"] = largest(grown)
        figures |= {"plan_growth_raw_pct": largest(raw), "plan_growth": grown, "plan_growth_raw": raw}
        figures["plan_sizes"] = sizes
    if "d" in args.parts:
        merges = merge_costs(spark, args.data, args.lineitem_sf, args.files, args.batch, args.seed, say)
        if merges is not None:
            console.print(merge_table(merges))
            figures["merge_bytes_share"] = merges["late"]["share"]
            figures["merges"] = merges
    return figures


def largest(grown: Mapping[str, Mapping[str, float]]) -> float:
    return max(each for by_measure in grown.values() for each in by_measure.values())


def titled(title: str, *headings: str) -> Table:
    table = Table(title=title)
    for at, heading in enumerate(headings):
        table.add_column(heading, justify="right" if at else "left", no_wrap=not at)
    return table


def scan_table(scans: Mapping[str, Mapping[str, Any]]) -> Table:
    names = (ONE, PLAIN, NUMBERED)
    table = titled(
        "A full scan of lineitem", "files", *(f"{name} s" for name in names), "overhead %", "over one file %"
    )
    for count, each in scans.items():
        seconds = (f"{each['seconds'][name]:.2f}" for name in names)
        table.add_row(count, *seconds, f"{each['overhead_pct']:.1f}", f"{each['over_one_file_pct']:.1f}")
    return table


def show_tpcds(console: Console, by_query: Mapping[str, Mapping[str, Any]], found: Mapping[str, Any]) -> None:
    sides = sides_of(by_query)
    least = "as it is by default" if found["least_bytes"] is None else found["least_bytes"]
    table = titled(
        f"Files read over all queries (selectors.leastBytes {least})", "table", *sides, "saved where by date %"
    )
    for name, each in found["tables"].items():
        saved = each["eliminated_by_dates_pct"]
        table.add_row(name, *(f"{each[side]:,}" for side in sides), "" if saved is None else f"{saved:.1f}")
    console.print(table)
    classes = titled("Against Spark's own pruning of folders", "class", "queries", "%")
    for name, members in found["classes"].items():
        classes.add_row(name, str(len(members)), f"{100 * len(members) / len(by_query):.0f}")
    console.print(classes)
    queries = titled("By query", "query", *sides, "off s", "on s", "speed-up", "by date")
    for name, each in by_query.items():
        sums = (str(sum(each["files"][side].values())) for side in sides)
        seconds = each.get("seconds")
        timed = [f"{seconds[side]:.2f}" for side in (OFF, SELECTORS)] if seconds else ["", ""]
        speedup = f"{found['speedup'][name]:.2f}" if seconds else ""
        queries.add_row(name, *sums, *timed, speedup, str(len(each["by_dates"])))
    console.print(queries)
    if found["wrong"]:
        console.print(f"[red]Answers differ: {', '.join(found['wrong'])}[/]")


def plan_table(sizes: Mapping[str, Any], grown: Mapping[str, Mapping[str, float]]) -> Table:
    counts = list(next(iter(sizes.values())))
    table = titled("Bytes with sidestep (without)", "query", "of", *counts, "growth %")
    for name, by_count in sizes.items():
        for measure in MEASURES:
            cells = (f"{by_count[n]['on'][measure]:,} ({by_count[n]['off'][measure]:,})" for n in counts)
            table.add_row(name, measure, *cells, f"{grown[name][measure]:.1f}")
        per_file = (_per_file(by_count[n]["on"], by_count[n]["off"]) for n in counts)
        table.add_row(name, "tasks, per file", *per_file, "")
    return table


def _per_file(on: Mapping[str, int], off: Mapping[str, int]) -> str:
    mine, base = (f"{each['tasks'] / max(1, each['files']):,.0f}" for each in (on, off))
    return f"{mine} ({base})"


def merge_table(merges: Mapping[str, Mapping[str, Any]]) -> Table:
    table = titled(
        "MERGE into lineitem", "batch", "files", "looked at", "rewritten", "MB", "looked at", "written", "share"
    )
    for name, each in merges.items():
        counts = (str(each[key]) for key in ("files", "files_looked_at", "files_rewritten"))
        sizes = (f"{each[key] / 1e6:,.1f}" for key in ("bytes", "bytes_looked_at", "bytes_written"))
        table.add_row(name, *counts, *sizes, f"{each['share']:.4f}")
    return table
