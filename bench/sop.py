"""SOP against full scans, range partitioning and Z-order: what queries on denormalized TPC-H read, and for how long.

Eight templates; 800 queries to learn from and 80 that follow, with parameters drawn uniformly and skewed (Zipf 3 on all
but the dates). Every layout has the same rows, in as many blocks, in files of the same kind; only the arrangement
differs. What is read is worked out for all test queries of all seeds from the planner's decisions (``rows_pct``), and
counted by Spark as they run on the layouts that ``--counted`` names (``read_pct``): less where its reader passes over
pages. Some queries of the first seed are timed. A run that is cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

import sidestep
from bench.comparison import ZIPF, Comparison, add_comparison_arguments, workload
from bench.denorm import TEMPLATES
from bench.layouts import Layout
from bench.options import add_parts
from sidestep.spark.rule.session import Enabled

LAYOUTS = ("full", "range1", "range2", "zorder", "sop")
_COUNTED = ("rows", "planned_rows", "bytes", "planned_bytes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument(
        "--width",
        choices=("wide", "lean", "narrow"),
        default="wide",
        help="all columns; without comments and addresses; or only those that queries name",
    )
    parser.add_argument(
        "--features",
        type=int,
        help="lay out by so many features within months, as the thesis does; by default what a load chooses",
    )
    parser.add_argument("--min-size", type=int, default=5_000, help="least rows of a block")
    parser.add_argument("--seeds", type=int, default=5, help="how many pairs of training and test queries")
    parser.add_argument("--seed", type=int, default=0, help="the first of them; it is the one that is timed")
    parser.add_argument("--parameters", default="uniform,skewed", help="how parameters are drawn, of these two")
    parser.add_argument("--sizes", default="500,2000,20000", help="further least sizes, for SOP's rows alone")
    add_parts(parser, LAYOUTS, "--layouts")
    add_parts(parser, LAYOUTS, "--counted", ("zorder", "sop"), "on which of these all test queries are run and counted")
    parser.add_argument("--timed", type=int, default=16, help="test queries of the first seed that are run and timed")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each, after one that is not")
    add_comparison_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    asked = [name for name in args.parameters.split(",") if name]
    unknown = [name for name in asked if name not in ZIPF]
    if unknown or not asked:
        raise sidestep.SidestepError(f"--parameters takes {' and '.join(ZIPF)}, not {args.parameters!r}.")
    comparison = Comparison(args, console)
    with sidestep.enable(comparison.spark) as enabled:
        try:
            figures = {name: measured(comparison, enabled, name) for name in asked}
            swept = sweep(comparison, enabled, [int(size) for size in args.sizes.split(",") if size])
        finally:
            comparison.spark.conf.unset("spark.sidestep.enabled")
    for name, found in figures.items():
        console.print(_table(name, found, args))
        console.print(_template_table(name, found))
    if swept:
        console.print(_sweep_table(swept))
    first = figures[asked[0]]
    return {
        **{key: first[key] for key in ("rows_pct", "read_pct", "bytes_pct", "seconds")},
        "parameters": asked[0],
        **({"skewed": figures["skewed"]} if "skewed" in figures and asked[0] != "skewed" else {}),
        **{key: first[key] for key in ("min_size", "size_on_disk", "load_seconds", "per_template", "seeds")},
        **{key: first[key] for key in ("read_seeds", "worse_in_seeds", "blocks", "run", "choices")},
        "sweep": swept,
    }


def measured(comparison: Comparison, enabled: Enabled, parameters: str) -> dict[str, Any]:
    """All figures for one way to draw parameters: planned over all seeds, timed on the first."""
    args = comparison.args
    names: tuple[str, ...] = args.layouts
    works = [workload(parameters, seed, args.train, args.test) for seed in _seeds(args)]
    like = comparison.sop(workload("uniform", args.seed, args.train, args.test), args.min_size)
    counted_names = tuple(name for name in names if name in args.counted)
    planned: list[dict[str, list[list[int]]]] = []
    counted: list[dict[str, list[int]]] = []
    timed: list[dict[str, Any]] = []
    kept: dict[str, Layout] = {}
    z_orders: list[Layout] = []
    for work in works:
        layouts = {**comparison.others(work, like, names), "sop": comparison.sop(work, args.min_size)}
        planned.append({name: comparison.planned(enabled, work, layouts[name]) for name in names})
        counted.append({name: comparison.counted(work, layouts[name]) for name in counted_names})
        planned[-1]["whole"] = comparison.whole(work, layouts[names[0]])
        planned[-1]["actual"] = [[rows, 0] for rows in comparison.actual(work)]
        if work.seed == args.seed:
            kept = layouts
            timed = comparison.timed(enabled, work, {name: layouts[name] for name in names})
        else:
            comparison.drop(layouts["sop"])
        z_orders += [layouts["zorder"]] if "zorder" in layouts else []
    for layout in z_orders[1:]:
        if layout != z_orders[0]:
            comparison.drop(layout)
    every = [template for work in works for template, _ in work.test]
    rows = kept[names[0]].rows
    reads = [
        {name: [count for count, _ in one[name]] for name in (*names, "actual")} | more
        for one, more in zip(planned, counted, strict=True)
    ]
    return {
        "rows_pct": _shares(planned, 0, (*names, "actual")),
        "read_pct": _mean_shares(counted, counted_names, rows),
        "bytes_pct": _shares(planned, 1, names),
        "seconds": {name: round(sum(each["seconds"][name] for each in timed), 3) for name in names} if timed else {},
        "timed_queries": len(timed),
        "run": _run_shares(timed, names, rows),
        "min_size": args.min_size,
        "blocks": {name: kept[name].blocks for name in names},
        "size_on_disk": {name: kept[name].bytes for name in names},
        "load_seconds": {name: round(kept[name].seconds, 1) for name in names},
        "per_template": per_template(reads, every, timed, (*names, "actual"), rows),
        "seeds": [_shares([one], 0, (*names, "actual")) for one in planned],
        "read_seeds": [_mean_shares([one], counted_names, rows) for one in counted],
        "worse_in_seeds": [
            {"seed": work.seed, "template": template, **each["rows_pct"]}
            for work, one in zip(works, reads, strict=True)
            for template, each in per_template([one], [name for name, _ in work.test], (), tuple(one), rows).items()
            if each["worse"]
        ],
        "choices": {"zorder": [layout.details["columns"] for layout in z_orders], "sop": kept["sop"].details},
    }


def _seeds(args: argparse.Namespace) -> range:
    return range(args.seed, args.seed + args.seeds)


def sweep(comparison: Comparison, enabled: Enabled, sizes: Sequence[int]) -> dict[str, Any]:
    """Rows that SOP reads with blocks of other sizes; columns that no query names make no difference, and stay out."""
    args = comparison.args
    found: dict[str, Any] = {}
    for size in sizes:
        shares, blocks, read = [], [], []
        for seed in _seeds(args):
            work = workload("uniform", seed, args.train, args.test)
            layout = comparison.sop(work, size, narrow=True)
            planned = [rows for rows, _ in comparison.planned(enabled, work, layout)]
            shares.append(_mean_share([planned], layout.rows))
            if "sop" in args.counted:
                read.append(_mean_share([comparison.counted(work, layout)], layout.rows))
            blocks.append(layout.blocks)
            comparison.drop(layout)
        found[str(size)] = {"rows_pct": round(statistics.mean(shares), 3), "seeds": shares, "blocks": blocks}
        if read:
            found[str(size)] |= {"read_pct": round(statistics.mean(read), 3), "read_seeds": read}
    return found


def _mean_share(counts: Sequence[Sequence[int]], rows: int) -> float:
    """Of rows that queries read, by list of queries: how much of the table a query reads on average, in percent."""
    return round(100 * statistics.mean(count for one in counts for count in one) / max(1, rows), 3)


def _mean_shares(counted: Sequence[dict[str, list[int]]], names: Sequence[str], rows: int) -> dict[str, float]:
    return {name: _mean_share([one[name] for one in counted], rows) for name in names}


def _shares(planned: Sequence[dict[str, list[list[int]]]], at: int, names: Sequence[str]) -> dict[str, float]:
    """Per layout, what all queries read by what full scans would, in percent: the mean over seeds."""
    found = {}
    for name in names:
        ratios = [sum(q[at] for q in one[name]) / max(1, sum(q[at] for q in one["whole"])) for one in planned]
        found[name] = round(100 * statistics.mean(ratios), 3)
    return found


def _run_shares(timed: Sequence[dict[str, Any]], names: Sequence[str], table_rows: int) -> dict[str, dict[str, float]]:
    """What Spark counted as the timed queries ran, and what was planned: rows in percent of the table, bytes in MB.

    Bytes as counted hold footers and what is read ahead. Rows may be fewer than planned where Spark passes over a row
    group, or pages of one, by itself.
    """
    every = max(1, len(timed) * table_rows)
    total = {what: {name: sum(each[what][name] for each in timed) for name in names} for what in _COUNTED}
    return {
        **{
            f"{what}_pct": {name: round(100 * n / every, 3) for name, n in total[what].items()} for what in _COUNTED[:2]
        },
        **{f"{what}_mb": {name: round(n / 1e6, 3) for name, n in total[what].items()} for what in _COUNTED[2:]},
    }


def per_template(
    reads: Sequence[dict[str, list[int]]],
    templates: Sequence[str],
    timed: Sequence[dict[str, Any]],
    names: Sequence[str],
    table_rows: int,
) -> dict[str, Any]:
    """Rows read in percent and seconds for each template, and whether SOP reads more than the Z-order.

    ``reads`` has the rows that each query reads by layout, for one seed after the other: as counted, else as planned.
    """
    found: dict[str, Any] = {}
    for template in (each.__name__ for each in TEMPLATES):
        mine = [number for number, each in enumerate(templates) if each == template]
        flat = {name: [count for one in reads for count in one[name]] for name in names}
        rows = {name: _mean_share([[flat[name][n] for n in mine] or [0]], table_rows) for name in names}
        seconds = {
            name: round(sum(each["seconds"][name] for each in timed if each["template"] == template), 3)
            for name in (timed[0]["seconds"] if timed else ())
        }
        worse = rows.get("sop", 0.0) > rows.get("zorder", 100.0)
        found[template] = {"rows_pct": rows, "seconds": seconds, "worse": worse}
    return found


def _table(name: str, found: dict[str, Any], args: argparse.Namespace) -> Table:
    table = Table(
        title=f"{name}: {args.seeds} seeds of {args.test} queries, blocks of at least {args.min_size:,} rows; "
        f"time of {found['timed_queries']} queries"
    )
    for heading in ("layout", "rows %", "read %", "bytes %", "seconds", "blocks", "MB", "load s"):
        table.add_column(heading, justify="left" if heading == "layout" else "right")
    for layout in found["blocks"]:
        table.add_row(
            layout,
            f"{found['rows_pct'][layout]:.2f}",
            f"{found['read_pct'][layout]:.2f}" if layout in found["read_pct"] else "",
            f"{found['bytes_pct'][layout]:.2f}",
            f"{found['seconds'][layout]:.2f}" if found["seconds"] else "",
            f"{found['blocks'][layout]:,}",
            f"{found['size_on_disk'][layout] / 1e6:,.0f}",
            f"{found['load_seconds'][layout]:,.0f}",
        )
    table.add_row("actual", f"{found['rows_pct']['actual']:.2f}")
    return table


def _template_table(name: str, found: dict[str, Any]) -> Table:
    table = Table(title=f"{name}: rows % by template")
    layouts = (*found["blocks"], "actual")
    for heading in ("template", *layouts):
        table.add_column(heading, justify="left" if heading == "template" else "right")
    for template, each in found["per_template"].items():
        shares = [f"{each['rows_pct'][layout]:.2f}" for layout in layouts]
        table.add_row(template, *shares, style="red" if each["worse"] else "")
    return table


def _sweep_table(swept: dict[str, Any]) -> Table:
    table = Table(title="SOP by the size of blocks, uniform")
    for heading in ("least rows", "rows %", "read %", "blocks"):
        table.add_column(heading, justify="right")
    for size, each in swept.items():
        read = f"{each['read_pct']:.2f}" if "read_pct" in each else ""
        table.add_row(f"{int(size):,}", f"{each['rows_pct']:.2f}", read, f"{statistics.mean(each['blocks']):,.0f}")
    return table
