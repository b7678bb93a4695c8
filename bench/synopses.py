"""What each synopsis costs and saves: time to build against zone maps alone, bytes, and rows read by queries.

Built on TPC-H (columns of integers and dates: keys and days) by the collect job, into an index of its own each time, in
turns. *zone maps* trusts Parquet footers, as the job does by default; every other synopsis has to read the columns, so
there is *zone maps, data read* to tell the reading from the making; *default* is what `sidestep index` chooses by
itself, choice included. Rows read are those of the row groups that the planner keeps: for the 22 queries of TPC-H, and
for lookups in a table of sparse ids, where zone maps say almost nothing.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import sidestep
from bench.grt import growth
from bench.grt_data import clustered
from bench.harness import race
from bench.session import spark_session
from bench.synopses_data import ID, make_sparse, sparse_workload
from bench.tpch import DATA, TABLES, make_tpch, queries, register
from sidestep.predicate import Formula, Kind
from sidestep.spark.table import index as collect
from sidestep.store import IndexStatus, read_snapshot
from sidestep.store.index.table_index import open_index
from sidestep.synopsis import kept_blocks
from sidestep.synopsis.build import BuildPlan, block_synopses
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.values.codes import integer_values
from sidestep.synopsis.values.summary import summarize

RECIPES = {
    "range-set": Recipe(range_set=8),
    "gap histogram": Recipe(gap_histogram=8),
    "Bloom filter": Recipe(bloom=1 << 20),
    "GRT": Recipe(grt=256),
}
ZONES, READ, DEFAULT = "zone maps", "zone maps, data read", "default"
KINDS = frozenset({Kind.SHORT, Kind.INTEGER, Kind.LONG, Kind.DATE})
BYTES_PER_BLOCK = 48
"""The budget on the sparse ids, for each block."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--files", type=int, default=16, help="files per large table of TPC-H")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, help="those of TPC-H that are indexed")
    parser.add_argument("--tpch-queries", type=int, default=22, help="how many queries of TPC-H are planned")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of sparse ids")
    parser.add_argument("--days", type=int, default=1_000, help="their row groups")
    parser.add_argument("--queries", type=int, default=100, help="lookups of each kind")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=DATA)


def run(args: argparse.Namespace) -> dict[str, Any]:
    spark, console = spark_session(), Console()
    return {
        **tpch(spark, console, args),
        "making_us": making(console, args),
        "sparse": sparse(spark, console, args),
        "grow_us": growth(console, clustered(args.rows, args.days, args.seed)),
    }


def tpch(spark: SparkSession, console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """Each synopsis on all key and date columns of TPC-H: its build time, its bytes, and what queries read with it."""
    folder = make_tpch(args.data, args.sf, args.files)
    columns = {table: _columns(spark, folder / table) for table in args.tables}
    base = Path(tempfile.mkdtemp(prefix="sidestep-bench-"))

    def build(variant: str) -> None:
        target = base / variant.replace(" ", "-")
        shutil.rmtree(target, ignore_errors=True)
        for table in columns:
            path, where = str(folder / table), str(target)
            if variant == DEFAULT:
                sidestep.index(spark, path, columns=columns[table], index_dir=where)
            else:
                recipes = dict.fromkeys(columns[table], RECIPES[variant]) if variant in RECIPES else {}
                footers = variant != READ
                snapshot = read_snapshot(path)
                types = collect.column_types(spark, snapshot, path, columns[table])
                opened = open_index(path, where)
                collect.index_snapshot(spark, snapshot, types, opened, footers=footers, recipes=recipes)

    try:
        variants = [ZONES, READ, *RECIPES, DEFAULT]
        timed = race(
            {variant: lambda variant=variant: build(variant) for variant in variants},  # type: ignore[misc]
            runs=args.runs,
            warmups=min(1, args.runs - 1),
        )
        console.print(timed.table(f"Building on TPC-H SF {args.sf:g}, keys and dates of {', '.join(args.tables)}"))
        sizes, reads = {}, {}
        for variant in variants:
            target = base / variant.replace(" ", "-")
            sizes[variant] = _index_bytes([folder / table for table in columns], target)
            reads[variant] = _rows_read(spark, folder, target, args.tpch_queries)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    table = Table(title=f"TPC-H: index size, and rows that the planner keeps for {args.tpch_queries} queries")
    for heading in ("synopsis", "index bytes", "rows read", "against zone maps"):
        table.add_column(heading, justify="left" if heading == "synopsis" else "right")
    for variant in variants:
        saved = f"{reads[variant] / max(1, reads[ZONES]):.3f}"
        table.add_row(variant, f"{sizes[variant]:,}", f"{reads[variant]:,}", saved)
    console.print(table)
    return {
        "build_ratio": {variant: timed.paired_ratio(variant) for variant in variants},
        "build_ratio_read": {
            variant: timed[variant].median / timed[READ].median for variant in variants if variant != ZONES
        },
        "bytes": sizes,
        "tpch_rows_read": reads,
    }


def _columns(spark: SparkSession, path: Path) -> list[str]:
    types = collect.column_types(spark, read_snapshot(str(path)), str(path), None)
    return [name for name, type in types.items() if type.kind in KINDS]


def _index_bytes(tables: Sequence[Path], target: Path) -> int:
    found = [sidestep.status(None, str(table), index_dir=str(target)) for table in tables]
    return sum(_bytes(status) for status in found)


def _bytes(status: IndexStatus) -> int:
    """The index files, and the range tables beside them."""
    folder = Path(status.folder.removeprefix("file:"))
    return sum(path.stat().st_size for path in folder.iterdir() if not path.name.startswith("_estimates"))


def _rows_read(spark: SparkSession, folder: Path, target: Path, first: int) -> int:
    """The rows of the row groups that are kept, over all scans of the queries."""
    total = 0
    with sidestep.enable(spark, index_dir=str(target)):
        register(spark, folder)
        for text in list(queries().values())[:first]:
            scans = sidestep.explain(text, spark).scans
            total += sum(scan.rows.kept for scan in scans if scan.rows is not None)
    return total


def making(console: Console, args: argparse.Namespace) -> dict[str, float]:
    """Processor microseconds per value to make each synopsis of blocks in memory, zone maps included."""
    blocks = [pa.array(integer_values(codes)) for codes in clustered(args.rows, args.days, args.seed).blocks]
    rng = np.random.default_rng(args.seed)
    blocks = [block.take(pa.array(rng.permutation(len(block)))) for block in blocks]
    values, found = sum(map(len, blocks)), {}
    table = Table(title=f"Making synopses of {values:,} ids in {len(blocks):,} blocks, in memory")
    for heading in ("synopsis", "µs per value"):
        table.add_column(heading, justify="left" if heading == "synopsis" else "right")
    for name, recipe in {ZONES: Recipe(), **RECIPES}.items():
        job, times = BuildPlan({ID.name: recipe}, partitions=len(blocks)), []
        for _ in range(args.runs):
            start = time.process_time()
            for block in blocks:
                summarize(block, ID.type)
                block_synopses(ID.name, ID.type, block, job)
            times.append(1e6 * (time.process_time() - start) / values)
        found[name] = min(times)
        table.add_row(name, f"{found[name]:.3f}")
    console.print(table)
    return found


def sparse(spark: SparkSession, console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """Each synopsis on sparse ids: its bytes, and the share of rows in the blocks that lookups keep."""
    folder = make_sparse(args.data, args.rows, args.days, args.seed)
    workload = sparse_workload(args.rows, args.days, args.seed, args.queries)
    budget = BYTES_PER_BLOCK * args.days
    forced = {"range-set": "range-set:8", "gap histogram": "gap-histogram:8", "Bloom filter": "bloom", "GRT": "grt:256"}
    options: dict[str, dict[str, Any]] = {
        ZONES: {"synopses": "none"},
        **{name: {"synopses": f"id={text},none"} for name, text in forced.items()},
        DEFAULT: {},
        f"budget of {budget:,} bytes": {"budget": budget},
    }
    table = Table(title=f"Sparse ids, {args.rows:,} rows in {args.days:,} row groups: share of rows read by lookups")
    for heading in ("synopsis", "on id", "bytes", *workload):
        table.add_column(heading, justify="left" if heading in ("synopsis", "on id") else "right")
    found: dict[str, Any] = {}
    for name, option in options.items():
        target = tempfile.mkdtemp(prefix="sidestep-bench-")
        try:
            status = sidestep.index(spark, str(folder), index_dir=target, **option)
            held = status.synopses.get(ID.name)
            shares = {kind: _share_read(folder, target, filters) for kind, filters in workload.items()}
            recipe = (
                "" if held is None else " + ".join(f"{kind} {size}" for kind, size in held.recipe.to_json().items())
            )
            size = 0 if held is None else held.bytes
            found[name] = {"recipe": recipe, "bytes": size, "rows_read": shares}
            table.add_row(name, recipe, f"{size:,}", *(f"{share:.4f}" for share in shares.values()))
        finally:
            shutil.rmtree(target, ignore_errors=True)
    console.print(table)
    return found


def _share_read(folder: Path, target: str, filters: list[Formula]) -> float:
    catalog = open_index(str(folder), target).catalog({ID.name: ID.type})
    total = catalog.rows.sum()
    return float(np.mean([catalog.rows[kept_blocks(catalog, each)].sum() / total for each in filters]))
