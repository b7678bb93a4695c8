"""InputCut of TPC-H in runs as the product's own indexes have it: the part ``inputcut`` of ``bench defaults``."""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import sidestep
from bench import tpch
from bench.dips_cut import CoveredWhole, columns_needed, patient_settings, ratio
from bench.dips_cuts import FAVOURABLE
from bench.dips_layouts import tpch_blocks, tuned_tpch
from bench.dips_plans import planned
from bench.dips_tables import BlockTable
from bench.journal import Journal
from bench.skew import Skew
from bench.skew_tpch import skewed_tpch, tpch_tables
from bench.whole_folder import whole_folder
from sidestep.prune import Query, scan_filters
from sidestep.prune.analysis import by_scan
from sidestep.prune.decide import decide
from sidestep.prune.dips.model import TableView
from sidestep.store.index.table_index import open_index

ZIPF = (1, 2)
BLOCKS_PER_FILE = 64
JOINED = {
    "lineitem": ("l_orderkey", "l_partkey", "l_suppkey"),
    "orders": ("o_orderkey", "o_custkey"),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "part": ("p_partkey",),
    "customer": ("c_custkey", "c_nationkey"),
    "supplier": ("s_suppkey", "s_nationkey"),
    "nation": ("n_nationkey", "n_regionkey"),
    "region": ("r_regionkey",),
}


BY_HAND = ("none", "joined", "tuned")
"""What columns are given by hand: nothing, four ranges on join columns, twenty on all."""
NAMES = {"none": "zone maps", "joined": "4 on join columns", "tuned": "20 everywhere", "default": "default"}


def by_hand(variant: str, table: str) -> dict[str, Any]:
    """What is said of a table's columns."""
    if variant == "tuned":
        return {"synopses": "range-set:20"}
    if variant == "joined":
        return {"synopses": {**dict.fromkeys(JOINED[table], "range-set:4"), "*": "none"}}
    return {"synopses": "none"} if variant == "none" else {}


def make_skewed(folder: Path, sf: float, blocks: int, zipf: int, seed: int) -> Path:
    """TPC-H with runs in the diPs paper's tuned layout, a row group for each block."""
    target = folder / f"tpch-runs-sf{sf:g}-z{zipf}-blocks{blocks}-seed{seed}"
    if not target.is_dir():
        tables = skewed_tpch(tpch_tables(tpch.make_tpch(folder, sf, 16)), Skew("runs", zipf), seed)
        with whole_folder(target) as partial:
            for name, table in tuned_tpch(tables, tpch_blocks(blocks)).items():
                write_blocks(partial / name, table)
    return target


def write_blocks(folder: Path, table: BlockTable) -> None:
    folder.mkdir()
    rows = table.rows if table.order is None else table.rows.take(pa.array(table.order))
    for file, begin in enumerate(range(0, table.blocks, BLOCKS_PER_FILE)):
        ends = table.ends[begin : begin + BLOCKS_PER_FILE + 1]
        with pq.ParquetWriter(folder / f"part-{file:05d}.parquet", rows.schema) as writer:
            for first, last in pairwise(ends):
                writer.write_table(rows.slice(first, last - first), row_group_size=max(1, int(last - first)))


def inputcut(spark: SparkSession, console: Console, args: argparse.Namespace) -> dict[str, Any]:
    """Medians over the diPs paper's favourable queries, by what the indexes were given."""
    names = {name: NAMES[name] for name in (*args.by_hand.split(","), "default")}
    cuts: dict[str, dict[str, float]] = {name: {} for name in names}
    sizes: dict[str, float] = {}
    table = Table(title=f"TPC-H in runs, SF {args.sf:g}, {args.blocks:,} row groups: InputCut, and the index's share")
    for heading in ("Zipf", *names.values()):
        table.add_column(heading, justify="right")
    for zipf in ZIPF:
        folder = make_skewed(args.data, args.sf, args.blocks, zipf, args.seed)
        tpch.register(spark, folder)
        base = Path(tempfile.mkdtemp(prefix="sidestep-bench-"))
        try:
            journal = Journal(base / "plans.jsonl")
            plans = planned(spark, journal, tpch.queries(), "tpch")
            row, by_query = [], {}
            for name in names:
                pct = index_all(spark, folder, base / name, name)
                by_query[name] = {query: cut_of(plans[query], folder, base / name) for query in FAVOURABLE}
                if name == "default":
                    sizes[f"TPC-H in runs, Zipf {zipf}"] = pct
                row.append(pct)
            counted = [q for q in FAVOURABLE if all(by_query[name][q] is not None for name in names)]
            for name in names:
                values = [value for q in counted if (value := by_query[name][q]) is not None]
                cuts[name][str(zipf)] = round(statistics.median(values), 3) if values else 1.0
            table.add_row(
                str(zipf), *(f"{cuts[name][str(zipf)]:.2f} ({pct:.2f}%)" for name, pct in zip(names, row, strict=True))
            )
        finally:
            shutil.rmtree(base, ignore_errors=True)
    console.print(table)
    return {
        "inputcut": {name: cuts[name] for name in ("default", "tuned") if name in cuts},
        "inputcut_by_hand": cuts,
        "index_bytes_pct": sizes,
    }


def index_all(spark: SparkSession, folder: Path, index_dir: Path, variant: str) -> float:
    """Index every table; what the indexes take of the data, in percent."""
    status = [
        sidestep.index(spark, str(folder / table), index_dir=str(index_dir), **by_hand(variant, table))
        for table in tpch.TABLES
    ]
    return 100 * sum(each.index_bytes for each in status) / sum(each.bytes for each in status)


def cut_of(query: Query, folder: Path, index_dir: Path) -> float | None:
    """The InputCut of a query by the indexes; None if it provably has no result."""
    columns = columns_needed(query)
    scans = {place.scan.key: place.scan for place in scan_filters(query)}
    views = {
        key: TableView((open_index(str(folder / scan.name), str(index_dir)).catalog(columns[key]),), complete=True)
        for key, scan in scans.items()
    }
    analyzed, decision = decide(query, CoveredWhole(views), patient_settings())
    return ratio(views, {key: masks[0] for key, masks in by_scan(analyzed, decision.kept).items()})
