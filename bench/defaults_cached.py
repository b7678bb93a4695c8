"""Tables in memory: the part ``cached`` of ``bench defaults``.

A table in no order and the same table as ``sidestep.load`` lays it out for a log are both cached. How much of them is
read by queries that are not in the log is counted by Spark: the rows of the batches that its own statistics in memory,
the least and greatest value of each column, do not rule out. What sidestep reads of the files stands beside it.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import sidestep
from bench.whole_folder import whole_folder

FILES, LOGGED, ASKED = 4, 120, 30
BATCHES = (10_000, 2_000)
"""Rows of a batch: as Spark has them, and fewer."""
KINDS = ("order", "shipment", "payment", "refund", "login", "search", "error", "review")
STORES, DAYS = 60, 365


def make_sales(folder: Path, rows: int, seed: int) -> Path:
    """Events of a year in no order."""
    target = folder / f"cached-{rows}-{seed}"
    if target.is_dir():
        return target
    rng = np.random.default_rng(seed)
    with whole_folder(target) as partial:
        for number in range(FILES):
            count = rows // FILES
            columns = {
                "kind": pa.array(KINDS).take(pa.array(rng.integers(0, len(KINDS), count))),
                "store": pa.array([f"S{each:03d}" for each in range(STORES)]).take(
                    pa.array(np.minimum(rng.zipf(1.3, count) - 1, STORES - 1))
                ),
                "day": pa.array(rng.integers(0, DAYS, count).astype(np.int32)),
                "amount": np.round(rng.lognormal(3, 1, count), 2),
            }
            pq.write_table(pa.table(columns), partial / f"part-{number:05d}.parquet")
    return target


def conditions(count: int, rng: np.random.Generator) -> list[str]:
    """What is asked: kinds in turn popular and rare, some for a store, some for two weeks."""
    found = []
    for _ in range(count):
        kind = KINDS[min(int(rng.zipf(1.6)) - 1, len(KINDS) - 1)]
        begin = int(rng.integers(0, DAYS - 14))
        more = (
            f"day BETWEEN {begin} AND {begin + 13}",
            f"store = 'S{min(int(rng.zipf(1.5)) - 1, STORES - 1):03d}'",
            "amount > 100",
        )[int(rng.integers(0, 3))]
        found.append(f"kind = '{kind}' AND {more}")
    return found


def cached(spark: SparkSession, console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """The share of rows that queries read from memory, by the size of batches, and from files."""
    source = make_sales(args.data, args.cached_rows, args.seed)
    rng = np.random.default_rng(args.seed)
    log, asked = conditions(LOGGED, rng), conditions(ASKED, rng)
    base = Path(tempfile.mkdtemp(prefix="sidestep-bench-"))
    statements = base / "log.sql"
    statements.write_text("".join(f"SELECT * FROM sales WHERE {each};\n" for each in log), encoding="utf-8")
    figures: dict[str, Any] = {}
    try:
        report = sidestep.load(spark, str(source), str(base / "laid"), log=str(statements), name="sales")
        frames: dict[str, Callable[[], DataFrame]] = {
            "in no order": lambda: spark.read.parquet(str(source)),
            "laid out": lambda: sidestep.read(spark, str(base / "laid")),
        }
        with sidestep.enable(spark):
            for batch in BATCHES:
                spark.conf.set("spark.sql.inMemoryColumnarStorage.batchSize", str(batch))
                for name, frame in frames.items():
                    figures[f"{name}, batches of {batch:,}"] = from_memory(frame().cache(), asked, args.cached_rows)
            spark.conf.unset("spark.sql.inMemoryColumnarStorage.batchSize")
            laid = frames["laid out"]()
            read = [sidestep.metrics(laid.where(condition)).rows for condition in asked]
            figures["laid out, from files"] = 100 * float(np.mean(read)) / args.cached_rows
    finally:
        shutil.rmtree(base, ignore_errors=True)
    table = Table(title=f"{ASKED} queries on {args.cached_rows:,} rows, {report.blocks:,} blocks: share of rows read")
    table.add_column("table")
    table.add_column("rows read", justify="right")
    for name, share in figures.items():
        table.add_row(name, f"{share:.1f}%")
    console.print(table)
    return {"cached_rows_pct": figures}


def from_memory(frame: DataFrame, asked: list[str], rows: int) -> float:
    """The mean share of rows in the batches that queries read, in percent."""
    try:
        frame.count()
        read = [sum(each.rows for each in sidestep.metrics(frame.where(condition)).memory) for condition in asked]
        return 100 * float(np.mean(read)) / rows
    finally:
        frame.unpersist(blocking=True)
