"""The collect job against a plain Spark scan of the same columns, and the size of the index against the data.

The job runs in two ways: as it does by default (footers of known writers are trusted, other columns are read) and
reading all data. Each run indexes all of TPC-H from scratch, into a folder of its own.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import sidestep
from bench.harness import race
from bench.session import spark_session
from bench.tpch import DATA, TABLES, make_tpch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--files", type=int, default=16, help="files per large table")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seed", type=int, default=0, help="unused: the generator has its own fixed seed")


def run(args: argparse.Namespace) -> dict[str, Any]:
    spark = spark_session()
    console = Console()
    folder = make_tpch(args.data, args.sf, args.files)
    sizes: dict[str, list[int]] = {}

    def scan() -> None:
        for table in TABLES:
            spark.read.parquet(str(folder / table)).write.format("noop").mode("overwrite").save()

    def index(footers: bool) -> None:
        target = tempfile.mkdtemp(prefix="sidestep-bench-")
        try:
            for table in TABLES:
                status = sidestep.index(spark, str(folder / table), index_dir=target, footers=footers)
                assert status.complete
                sizes[table] = [status.bytes, status.index_bytes, status.blocks, status.files]
        finally:
            shutil.rmtree(target)

    result = race(
        {"scan": scan, "index": lambda: index(True), "index, all data": lambda: index(False)},
        runs=args.runs,
        warmups=min(1, args.runs - 1),
    )
    console.print(result.table(f"TPC-H SF {args.sf:g}, all tables, all columns"))
    table = Table(title="Index size")
    for heading in ("table", "files", "row groups", "data bytes", "index bytes", "share"):
        table.add_column(heading, justify="left" if heading == "table" else "right")
    for name, (data, size, blocks, files) in sizes.items():
        table.add_row(name, str(files), str(blocks), f"{data:,}", f"{size:,}", f"{size / data:.3%}")
    console.print(table)
    data, size = (sum(row[i] for row in sizes.values()) for i in (0, 1))
    return {
        "time_ratio": result.paired_ratio("index"),
        "time_ratio_all_data": result.paired_ratio("index, all data"),
        "size_ratio": size / data,
        "seconds": {timing.name: timing.median for timing in result.timings},
    }
