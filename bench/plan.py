"""Planning time that sidestep adds: TPC-H q1, q6, q17 and a six-way join, with up to 100,000 files in lineitem.

The files are real and listed by Spark: a few distinct ones, sorted by ship date, hard-linked many times over. What is
timed is optimizing, physical planning and the scans' file listing, with sidestep on and off in turns; the figure is the
median of (on - off). Matching index keys to the listing, the check that skipped files are unchanged on disk, and
everything else that happens in between is inside. The first query of a session, which compiles the bridge and opens the
index, is reported apart. A fresh ``spark.read`` before each query leaves nothing cached from an earlier listing.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import sidestep
from bench.session import spark_session
from bench.tpcds_layout import plain_strings
from bench.tpch import DATA, make_tpch, queries
from sidestep.predicate import parse_type
from sidestep.store import append_blocks, block_summaries, index_folder, locate, open_index, read_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = 50
OTHERS = ("orders", "customer", "supplier", "nation", "region", "part")
SIX_WAY = """
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-04-01' GROUP BY n_name
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sf", type=float, default=0.1, help="TPC-H scale factor of the distinct files")
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="files in lineitem")
    parser.add_argument("--runs", type=int, default=51, help="timed rounds of each query; few are a young JVM")
    parser.add_argument("--threads", type=int, default=8, help="how many threads plan at once in that part")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seed", type=int, default=0, help="unused: nothing here is random")


def run(args: argparse.Namespace) -> dict[str, Any]:
    spark = spark_session()
    console = Console()
    base = make_tpch(args.data, args.sf, 1)
    chosen = {name: queries()[name] for name in ("q1", "q6", "q17")} | {"six-way": SIX_WAY}
    figures: dict[str, Any] = {"median_ms": {}, "p95_ms": {}, "fresh_read_ms": {}, "threads_ms": {}, "first_ms": {}}
    for table in OTHERS:
        spark.read.parquet(str(base / table)).createOrReplaceTempView(table)
    for files in args.files:
        folder = many_files(args.data / f"plan-sf{args.sf:g}-{files}", base / "lineitem", files)
        with sidestep.enable(spark) as state:
            report = measure(spark, state, str(folder), chosen, args)
        show(console, files, report)
        key = str(files)
        figures["median_ms"][key] = statistics.median(report["cached"]["all"])
        figures["p95_ms"][key] = float(np.percentile(report["cached"]["all"], 95))
        figures["fresh_read_ms"][key] = statistics.median(report["fresh"]["all"])
        figures["threads_ms"][key] = report["threads"]
        figures["first_ms"][key] = report["first"]
        figures.setdefault("by_query_ms", {})[key] = {
            name: statistics.median(report["cached"][name]) for name in chosen
        }
        figures.setdefault("off_ms", {})[key] = report["off"]
        figures["bytes_per_file_column"] = report["bytes_per_file_column"]
        console.print(f"catalog in memory: {report['bytes_per_file_column']:.1f} bytes per file and column\n")
    for table in (*OTHERS, "lineitem"):
        spark.catalog.dropTempView(table)
    spark.conf.unset("spark.sidestep.enabled")
    return figures


def many_files(folder: Path, lineitem: Path, files: int) -> Path:
    """A lineitem of this many files: sorted by ship date, cut in SOURCES pieces, each linked as often as needed."""
    done = folder / "_done"
    if done.exists() and len(open_index(folder).files) == files:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = plain_strings(pq.read_table(lineitem)).sort_by("l_shipdate")
    pieces = min(SOURCES, files)
    sources = folder / "_sources"
    sources.mkdir()
    cut = np.linspace(0, len(rows), pieces + 1).astype(int)
    for piece in range(pieces):
        pq.write_table(rows.slice(cut[piece], cut[piece + 1] - cut[piece]), sources / f"s{piece:03d}.parquet")
    time.sleep(0.2)
    for number in range(files):
        name = f"part-{number:06d}.parquet"
        os.link(sources / f"s{number * pieces // files:03d}.parquet", folder / name)
    index_links(folder, files, pieces)
    done.touch()
    return folder


def index_links(folder: Path, files: int, pieces: int) -> None:
    """The index of the linked files: each distinct file is read once, its entry repeated under every name."""
    root = locate(folder)
    snapshot = read_snapshot(folder)
    schema = pq.read_schema(folder / snapshot.files[0].path)
    columns = {field.name: parse_type(_spark_type(field.type)) for field in schema}
    wanted = np.array([int(file.path[5:11]) * pieces // files for file in snapshot.files])
    first = [snapshot.files[int(np.flatnonzero(wanted == piece)[0])] for piece in range(pieces)]
    entries = [block_summaries(root, file, columns) for file in first]
    parts = []
    for piece, entry in enumerate(entries):
        assert entry is not None
        names = [file.path for file, source in zip(snapshot.files, wanted, strict=True) if source == piece]
        rows = np.repeat(np.arange(len(entry)), len(names))
        repeated = entry.take(pa.array(np.arange(len(entry)).repeat(len(names))))
        path = pa.array(names * len(entry)).take(pc.sort_indices(pa.array(rows)))
        parts.append(repeated.set_column(0, "path", path))
    append_blocks(
        index_folder(root),
        [pa.concat_tables(parts).sort_by([("path", "ascending"), ("row_group", "ascending")])],
        columns,
    )


def _spark_type(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return {"int64": "bigint", "int32": "int", "date32[day]": "date"}.get(str(arrow), "string")


def measure(
    spark: SparkSession, state: Any, folder: str, chosen: dict[str, str], args: argparse.Namespace
) -> dict[str, Any]:
    spark.read.parquet(folder).createOrReplaceTempView("lineitem")
    started = time.perf_counter()
    planned(spark, state, chosen["q6"])
    first = 1000 * (time.perf_counter() - started)
    report: dict[str, Any] = {"first": first, "cached": {"all": []}, "fresh": {"all": []}, "off": {}}
    for name, text in chosen.items():
        on, off = in_turns(spark, state, text, args.runs, lambda: None)
        report["cached"][name] = [x - y for x, y in zip(on, off, strict=True)]
        report["cached"]["all"] += report["cached"][name]
        report["off"][name] = statistics.median(off)
    fresh_runs = max(2, args.runs // 4)
    for name, text in chosen.items():

        def again() -> None:
            spark.read.parquet(folder).createOrReplaceTempView("lineitem")

        on, off = in_turns(spark, state, text, fresh_runs, again)
        report["fresh"][name] = [x - y for x, y in zip(on, off, strict=True)]
        report["fresh"]["all"] += report["fresh"][name]
    report["threads"] = in_threads(spark, state, chosen["q6"], args)
    view = open_index(folder)
    catalog = view.catalog(dict(view.columns))
    report["bytes_per_file_column"] = catalog.nbytes / catalog.files / len(view.columns)
    return report


def in_turns(
    spark: SparkSession, state: Any, text: str, runs: int, before: Callable[[], None]
) -> tuple[list[float], list[float]]:
    times: dict[str, list[float]] = {"true": [], "false": []}
    for number in range(runs + 1):
        for enabled in ("true", "false") if number % 2 else ("false", "true"):
            spark.conf.set("spark.sidestep.enabled", enabled)
            before()
            gc.collect()
            took = planned(spark, state, text)
            if number:  # the first round warms both up
                times[enabled].append(took)
    spark.conf.set("spark.sidestep.enabled", "true")
    return times["true"], times["false"]


def planned(spark: SparkSession, state: Any, text: str) -> float:
    """Milliseconds that a query takes from its analyzed plan to the files that its scans will read."""
    frame = spark.sql(text)
    execution = frame._jdf.queryExecution()
    execution.analyzed()
    started = time.perf_counter()
    state.inspector.listAll(execution.executedPlan())
    return 1000 * (time.perf_counter() - started)


def in_threads(spark: SparkSession, state: Any, text: str, args: argparse.Namespace) -> float:
    """The median of (on - off) with several threads planning at once."""
    from pyspark import InheritableThread

    medians = {}
    for enabled in ("false", "true"):
        spark.conf.set("spark.sidestep.enabled", enabled)
        times: list[float] = []
        lock = threading.Lock()

        def work(into: list[float] = times, guard: threading.Lock = lock) -> None:
            for _ in range(max(2, args.runs // 2)):
                took = planned(spark, state, text)
                with guard:
                    into.append(took)

        threads = [InheritableThread(target=work) for _ in range(args.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        medians[enabled] = statistics.median(times)
    spark.conf.set("spark.sidestep.enabled", "true")
    return medians["true"] - medians["false"]


def show(console: Console, files: int, report: dict[str, Any]) -> None:
    table = Table(title=f"Planning with {files:,} files in lineitem: milliseconds that sidestep adds")
    for name in ("query", "off, median", "added, median", "added, with a fresh spark.read"):
        table.add_column(name, justify="left" if name == "query" else "right")
    for name in report["off"]:
        table.add_row(
            name,
            f"{report['off'][name]:.1f}",
            f"{statistics.median(report['cached'][name]):.1f}",
            f"{statistics.median(report['fresh'][name]):.1f}",
        )
    console.print(table)
    console.print(
        f"first query of the session {report['first']:.0f} ms; added with several threads at once (q6) "
        f"{report['threads']:.1f} ms"
    )
