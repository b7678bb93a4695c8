"""Row groups inside the files that are read, of a plain table: the part ``rowgroups`` of ``bench defaults``.

What a scan reads is counted by Spark, for conditions that Parquet's own filters cannot ask: Spark alone, sidestep that
reads whole files (``spark.sidestep.rowGroups=false``), and sidestep as it is.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import sidestep
from bench.defaults_ids import texts, uuids
from bench.whole_folder import whole_folder

FILES, ROWS_OF_GROUP = 8, 2_000
KINDS = ("order created", "order shipped", "payment accepted", "payment failed", "refund", "login", "search", "error")
STORES = 200
MODES = {"Spark alone": {"enabled": "false"}, "whole files": {"rowGroups": "false"}, "row groups": {}}
"""How the queries are run: settings below ``spark.sidestep.``."""


def make_events(folder: Path, groups: int, seed: int) -> tuple[Path, Path]:
    """Events in the order of time, half an hour to a row group, and the stores that they happened in.

    In a file the kinds of events and the stores come in runs, as they do where several sources are collected one after
    the other. Work is due in thirty days and done in twenty, but for a few days on which nothing was done.
    """
    target = folder / f"events-{groups}-{seed}"
    if target.is_dir():
        return target / "events", target / "stores"
    rng = np.random.default_rng(seed)
    of_file = groups // FILES * ROWS_OF_GROUP
    with whole_folder(target) as partial:
        for name in ("events", "stores"):
            (partial / name).mkdir()
        for number in range(FILES):
            row = np.arange(of_file) + number * of_file
            group = row // ROWS_OF_GROUP
            day = row * 30 // ROWS_OF_GROUP // 1440
            late = group % 40 == 11
            kinds = rng.integers(0, len(KINDS), (groups, 2))[group, rng.integers(0, 2, of_file)]
            stores = (rng.integers(0, STORES, (groups, 3))[group, rng.integers(0, 3, of_file)]) * 7919 % STORES
            columns = {
                "at": pa.array(row * 900_000, pa.timestamp("us")),
                "id": uuids(rng, of_file),
                "kind": pa.array(KINDS).take(pa.array(kinds)),
                "store": pa.array([f"S{each:05d}" for each in range(STORES)]).take(pa.array(stores)),
                "due": pa.array((day + 30).astype(np.int32)).cast(pa.date32()),
                "done": pa.array((day + np.where(late, 40, rng.integers(0, 20, of_file))).astype(np.int32)).cast(
                    pa.date32()
                ),
                "message": texts(rng, of_file, 40),
            }
            # Only columns that repeat have dictionaries, as it would be in larger row groups: a filter looks into them.
            pq.write_table(
                pa.table(columns),
                partial / "events" / f"part-{number:05d}.parquet",
                row_group_size=ROWS_OF_GROUP,
                use_dictionary=["kind", "store", "due", "done"],
            )
        codes = [f"S{each:05d}" for each in range(STORES)]
        regions = [f"region {each % 50}" for each in range(STORES)]
        pq.write_table(pa.table({"code": codes, "region": regions}), partial / "stores" / "part-0.parquet")
    return target / "events", target / "stores"


def queries(events: Path) -> dict[str, str]:
    """Conditions by what they need."""
    known = pq.read_table(sorted(events.glob("*.parquet"))[FILES // 2], columns=["id"])["id"]
    ids = ", ".join(repr(known[at].as_py()) for at in (17, len(known) // 2))
    return {
        "timestamps without zone": "at BETWEEN timestamp_ntz'1970-01-02 09:00' AND timestamp_ntz'1970-01-02 09:50'",
        "column against column": "done > due",
        "LIKE": "kind LIKE '%refund%'",
        "lookups by UUID": f"id IN ({ids})",
        "joined tables": "EXISTS (SELECT 1 FROM stores WHERE code = store AND region = 'region 7')",
    }


def rowgroups(spark: SparkSession, console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """The share of rows that leave the scan of events, and the time that each query takes."""
    events, stores = make_events(args.data, args.groups, args.seed)
    base = Path(tempfile.mkdtemp(prefix="sidestep-bench-"))
    total = sum(pq.read_metadata(path).num_rows for path in events.glob("*.parquet"))
    table = Table(title=f"Rows read of {total:,} in {FILES} files, {args.groups} row groups")
    for heading in ("query", *MODES, "explain says", *(f"{mode}, ms" for mode in MODES)):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    found: dict[str, Any] = {}
    try:
        # Indexed with options as they come; a folder of indexes holds those of both tables.
        for path in (events, stores):
            sidestep.index(spark, str(path), index_dir=str(base))
        with sidestep.enable(spark, index_dir=str(base)):
            for path in (events, stores):
                spark.read.parquet(str(path)).createOrReplaceTempView(path.name)
            for name, condition in queries(events).items():
                found[name] = measure(spark, f"SELECT count(*), max(message) FROM events WHERE {condition}", total)
                figures = found[name]
                shares = (f"{figures[mode]['rows_pct']:.1f}%" for mode in MODES)
                times = (f"{figures[mode]['ms']:,.0f}" for mode in MODES)
                table.add_row(name, *shares, f"{figures['explained_pct']:.1f}%", *times)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    console.print(table)
    return {"rowgroups": found}


def measure(spark: SparkSession, query: str, total: int) -> dict[str, Any]:
    """What the scan of events reads in each mode, of two runs the quicker one; and what explain says."""
    figures: dict[str, Any] = {}
    answers = set()
    for mode, settings in MODES.items():
        for name, value in settings.items():
            spark.conf.set(f"spark.sidestep.{name}", value)
        try:
            seconds = []
            for _ in range(2):
                df = spark.sql(query)
                begin = time.perf_counter()
                answers.add(str(df.collect()))
                seconds.append(time.perf_counter() - begin)
            read = max(scan.rows for scan in sidestep.metrics(df).scans)
            figures[mode] = {"rows_pct": 100 * read / total, "ms": 1000 * min(seconds)}
            explained = sidestep.explain(df).scans[0].rows
        finally:
            for name in settings:
                spark.conf.unset(f"spark.sidestep.{name}")
    if len(answers) != 1:
        raise AssertionError(f"{query} gives {answers}.")
    assert explained is not None
    return figures | {"explained_pct": 100 * explained.kept / total}
