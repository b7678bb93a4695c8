"""What ``sidestep.index(spark, path)`` gives with nothing else said, and by hand: lookups, InputCut, the index's size.

Each part is a function of :data:`PARTS` that prints its table and returns its figures. All indexes are made by the jobs
that users run; what is given by hand stands beside it. ``index_bytes_pct`` is the largest share of a table's, or a
schema's, data that an index by default takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

import sidestep
from bench.defaults_cached import cached
from bench.defaults_ids import ids
from bench.defaults_inputcut import BY_HAND, inputcut
from bench.defaults_rowgroups import rowgroups
from bench.session import spark_session
from bench.tpch import DATA

Part = Callable[[SparkSession, Console, argparse.Namespace], dict[str, Any]]
PARTS: Mapping[str, Part] = {"ids": ids, "inputcut": inputcut, "rowgroups": rowgroups, "cached": cached}
"""By name; the figures of a part may have ``index_bytes_pct`` by what was indexed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", default=",".join(PARTS), help="which of these to do")
    parser.add_argument("--rows", type=int, default=1_500_000, help="rows of ids")
    parser.add_argument("--files", type=int, default=64, help="files of ids")
    parser.add_argument("--lookups", type=int, default=100, help="lookups by each kind of id")
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H scale factor, for InputCut")
    parser.add_argument("--blocks", type=int, default=1_000, help="row groups of lineitem")
    parser.add_argument("--groups", type=int, default=400, help="row groups of events, for what is read inside files")
    parser.add_argument("--cached-rows", type=int, default=400_000, help="rows of the tables in memory")
    parser.add_argument("--by-hand", default=",".join(BY_HAND), help="what is given by hand besides, for InputCut")
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="6g", help="of Spark's driver")


def run(args: argparse.Namespace) -> dict[str, Any]:
    parts = args.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise sidestep.SidestepError(f"--parts takes {', '.join(PARTS)}, not {', '.join(unknown)}.")
    spark, console = spark_session(args.memory), Console()
    figures: dict[str, Any] = {}
    sizes: dict[str, float] = {}
    for part in parts:
        found = PARTS[part](spark, console, args)
        sizes |= found.pop("index_bytes_pct", {})
        figures |= found
    if sizes:
        figures |= {"index_bytes_pct": max(sizes.values()), "index_bytes_pct_of": sizes}
    return figures
