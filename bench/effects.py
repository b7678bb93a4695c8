"""The effect of block size and of the number of features on what SOP reads, as figures and as plots (thesis, 3.6, 3.7).

Each point is a real load of denormalized TPC-H and the planner's decisions for the test queries, uniform and skewed.
Rows read are given as multiples of the rows that satisfy the queries, as the thesis does.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import sidestep
from bench.comparison import ZIPF, Comparison, add_comparison_arguments, workload
from bench.line_chart import line_chart
from sidestep.spark.rule.session import Enabled


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=0.1, help="TPC-H scale factor")
    parser.add_argument("--width", choices=("wide", "lean", "narrow"), default="narrow", help="columns of the table")
    parser.add_argument("--sizes", default="50,200,500,1000,2000,5000", help="least sizes of blocks")
    parser.add_argument("--counts", default="1,3,5,10,15,25", help="numbers of features")
    parser.add_argument("--min-size", type=int, default=500, help="least size while the features vary")
    parser.add_argument("--features", type=int, default=15, help="features while the size varies")
    parser.add_argument("--seed", type=int, default=0, help="of the training and test queries")
    parser.add_argument("--plots", type=Path, help="folder for the plots, as SVG")
    add_comparison_arguments(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    comparison = Comparison(args, console)
    sizes, counts = ([int(one) for one in text.split(",") if one] for text in (args.sizes, args.counts))
    fixed = args.features
    with sidestep.enable(comparison.spark) as enabled:
        by_size = {name: {size: point(comparison, enabled, name, size, fixed) for size in sizes} for name in ZIPF}
        by_count = {
            name: {count: point(comparison, enabled, name, args.min_size, count) for count in counts} for name in ZIPF
        }
    console.print(_table("least rows of a block", by_size))
    console.print(_table("features", by_count))
    if args.plots is not None:
        args.plots.mkdir(parents=True, exist_ok=True)
        for name, found, axis in (
            ("min-size", by_size, "least rows of a block (log scale)"),
            ("num-features", by_count, "features"),
        ):
            series = {kind: [(x, p["ratio"]) for x, p in points.items()] for kind, points in found.items()}
            text = line_chart(series, axis, "rows read / rows that match", log_x=name == "min-size")
            (args.plots / f"sop-{name}.svg").write_text(text, encoding="utf-8")
    return {"sf": args.sf, "min_size": by_size, "num_features": by_count}


def point(comparison: Comparison, enabled: Enabled, parameters: str, size: int, features: int) -> dict[str, float]:
    """One load, and what its test queries read: in percent of all rows, and by the rows that match."""
    args = comparison.args
    args.features = features
    work = workload(parameters, args.seed, args.train, args.test)
    layout = comparison.sop(work, size)
    read = sum(rows for rows, _ in comparison.planned(enabled, work, layout))
    comparison.drop(layout)
    matching = sum(comparison.actual(work))
    share = 100 * read / (layout.rows * args.test)
    return {"rows_pct": round(share, 3), "ratio": round(read / max(1, matching), 3), "blocks": layout.blocks}


def _table(heading: str, found: Mapping[str, Mapping[int, Mapping[str, float]]]) -> Table:
    table = Table(title=f"SOP by {heading}")
    table.add_column(heading, justify="right")
    for name in found:
        for also in ("rows %", "× matching"):
            table.add_column(f"{name}: {also}", justify="right")
    for at in next(iter(found.values())):
        cells: Sequence[str] = [
            text for each in found.values() for text in (f"{each[at]['rows_pct']:.2f}", f"{each[at]['ratio']:.2f}")
        ]
        table.add_row(f"{at:,}", *cells)
    return table
