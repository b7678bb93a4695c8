"""Figures of the diPs paper that ask why: statistics, ranges, blocks, conditions, and range-sets that grow.

TPC-H in runs (bench/skew.py) in the paper's tuned layout and in layouts by random columns, in memory; queries are
planned by Spark once, and nothing is run. What each part is for in the paper, and what comes of it, is in
docs/papers.md. A run that is cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.dipfigures_conditions import conditions, taints
from bench.dipfigures_cuts import by_blocks, by_ranges, by_statistic
from bench.dipfigures_data import FigureData
from bench.dipfigures_fineblock import fineblock
from bench.dipfigures_updates import construction_times, growth_quality, update_times
from bench.journal import Journal
from bench.options import add_parts
from bench.tpch import DATA

PARTS: Mapping[str, Callable[[FigureData, Console], dict[str, Any]]] = {
    "ranges": by_ranges,
    "statistics": by_statistic,
    "partitions": by_blocks,
    "conditions": conditions,
    "taints": taints,
    "updates": update_times,
    "growth": growth_quality,
    "construction": construction_times,
    "fineblock": fineblock,
}
"""In this order: Figure 18; Figures 15 and 21; Figure 19; Table 9 and Figure 24; taints; Table 7; Figures 16a and 16b;
Figures 22 and 25."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=0.1, help="TPC-H scale factor")
    parser.add_argument("--zipf", type=float, default=2.0, help="the skew of its columns")
    parser.add_argument("--blocks", type=int, default=1_000, help="blocks of lineitem")
    parser.add_argument("--seed", type=int, default=10, help="the first; the data's set-up was chosen by 0 to 3")
    parser.add_argument("--seeds", type=int, default=1, help="how many skewed TPC-Hs")
    parser.add_argument("--layouts", type=int, default=6, help="how many layouts sorted by random columns")
    parser.add_argument("--ranges", type=int, nargs="+", default=[1, 2, 4, 8, 16, 20, 32, 64], help="of range-sets")
    parser.add_argument("--partitions", type=int, nargs="+", default=[30, 100, 300, 1_000, 3_000], help="of lineitem")
    parser.add_argument("--view-sf", type=float, default=0.1, help="TPC-H scale factor of the denormalized view")
    parser.add_argument("--view-blocks", type=int, default=11_000, help="blocks of the view, about; the paper's number")
    add_parts(parser, PARTS)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="2g", help="of Spark's driver, which only plans")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs have done")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console = Console()
    home = Path(args.data) / "dipfigures"
    if args.fresh:
        shutil.rmtree(home, ignore_errors=True)

    def say(text: str) -> None:
        console.print(f"[dim]{text}[/]", highlight=False, soft_wrap=True)

    data = FigureData(args, Journal(home / "journal.jsonl"), say)
    figures: dict[str, Any] = {}
    for part in args.parts:
        figures |= PARTS[part](data, console)
    return figures
