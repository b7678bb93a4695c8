"""What ``sidestep.index(spark, path)`` gives with nothing else said, and by hand.

Lookups by ids in no order, InputCut of TPC-H's joins, false positives of a global range table, bytes that joins of the
Join Order Benchmark's shape need not read, and the size of the index.

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
from rich.table import Table

from bench import job_families, joins
from bench.defaults_cached import cached
from bench.defaults_ids import ids
from bench.defaults_inputcut import BY_HAND, inputcut
from bench.defaults_rowgroups import rowgroups
from bench.grt import grt
from bench.options import add_parts
from bench.session import spark_session
from bench.tpch import DATA


def range_table(spark: SparkSession, console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """False positives of a global range table of the product, and of one that is encoded from all values at once."""
    found = grt(spark, rows=args.grt_rows, partitions=args.grt_rows // 100, seed=args.seed)
    table = Table(title=f"Global range table of {args.grt_rows:,} ids in {args.grt_rows // 100:,} blocks, 1,024 bits")
    for heading in ("made by", "false positives"):
        table.add_column(heading, justify="right")
    for name, share in found.items():
        table.add_row(name, f"{share:.4f}")
    console.print(table)
    return {"grt_fpr": {name: round(share, 5) for name, share in found.items()}}


def job(spark: SparkSession, console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """Bytes that joins of the Join Order Benchmark's shape need not read."""
    folder = joins.job_files(args.data, args.films, args.seed)
    texts = dict(list(job_families.queries(args.seed).items())[: args.queries])
    found = {name: joins.measure(spark, folder, given, texts) for name, given in joins.INDEXES.items()}
    joins.print_cuts(console, found, f"{len(texts)} joins, {args.films:,} films: bytes of files that are not read")
    cut = {name.replace(" ", "_"): one.percent for name, one in found.items()}
    return {"job_bytes_cut_pct": cut["default"], "job_bytes_cut_pct_by_hand": cut["by_hand"]}


Part = Callable[[SparkSession, Console, argparse.Namespace], dict[str, Any]]
PARTS: Mapping[str, Part] = {
    "ids": ids,
    "inputcut": inputcut,
    "grt": range_table,
    "joins": job,
    "rowgroups": rowgroups,
    "cached": cached,
}
"""By name; the figures of a part may have ``index_bytes_pct`` by what was indexed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parts(parser, PARTS)
    parser.add_argument("--rows", type=int, default=1_500_000, help="rows of ids")
    parser.add_argument("--files", type=int, default=64, help="files of ids")
    parser.add_argument("--lookups", type=int, default=100, help="lookups by each kind of id")
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H scale factor, for InputCut")
    parser.add_argument("--blocks", type=int, default=1_000, help="row groups of lineitem")
    parser.add_argument("--grt-rows", type=int, default=500_000, help="ids of the global range table, 100 in a block")
    parser.add_argument("--films", type=int, default=40_000, help="films of the joins, each with a cast of twelve")
    parser.add_argument("--queries", type=int, default=113, help="so many of the joins, from the first")
    parser.add_argument("--groups", type=int, default=400, help="row groups of events, for what is read inside files")
    parser.add_argument("--cached-rows", type=int, default=400_000, help="rows of the tables in memory")
    parser.add_argument("--by-hand", default=",".join(BY_HAND), help="what is given by hand besides, for InputCut")
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--memory", default="6g", help="of Spark's driver")


def run(args: argparse.Namespace) -> dict[str, Any]:
    spark, console = spark_session(args.memory), Console()
    figures: dict[str, Any] = {}
    sizes: dict[str, float] = {}
    for part in args.parts:
        found = PARTS[part](spark, console, args)
        sizes |= found.pop("index_bytes_pct", {})
        figures |= found
    if sizes:
        figures |= {"index_bytes_pct": max(sizes.values()), "index_bytes_pct_of": sizes}
    return figures
