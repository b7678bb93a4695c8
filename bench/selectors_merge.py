"""A MERGE of few rows into lineitem for ``bench selectors``: bytes read and written, against a rewrite of the table.

The batch is what a table gets every hour: nine of ten rows are new values for lines that are there, one is a new line.
Lines of a *late* batch are of the last hundredth of all orders; those of a *scattered* one are of any, which is the
worst there is for a table in the order of its keys.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import sidestep
from bench.layouts import natural, write_arrangement
from bench.tpcds_layout import plain_strings
from bench.tpch import make_tpch

BATCHES = ("late", "scattered")
ON = "target.l_orderkey = source.l_orderkey AND target.l_linenumber = source.l_linenumber"


def merge_costs(
    spark: SparkSession, data: Path, sf: float, files: int, rows: int, seed: int, say: Callable[[str], None]
) -> dict[str, dict[str, Any]] | None:
    """By kind of batch, what the merge read and wrote; None if this version of sidestep has no merge."""
    merge = getattr(sidestep, "merge", None)
    if merge is None:
        say("There is no sidestep.merge in this version: its part is left out.")
        return None
    source = make_tpch(data, sf, 1) / "lineitem"
    lines = plain_strings(pq.read_table(source))
    last = int(pc.max(lines["l_orderkey"]).as_py())
    figures = {}
    for kind in BATCHES:
        target, batch = Path(data) / "selectors-merge", Path(data) / "selectors-batch"
        shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(batch, ignore_errors=True)
        batch.mkdir(parents=True)
        pq.write_table(make_batch(lines, rows, last * 99 // 100 if kind == "late" else 0, seed), batch / "rows.parquet")
        write_arrangement(spark, source, target, natural(files, last), 4 * files)
        figures[kind] = _merge(merge, spark, target, batch, len(lines))
        say(f"{kind}: {figures[kind]['share']:.4f} of the bytes of a rewrite, {figures[kind]['seconds']:.1f} s")
    shutil.rmtree(target)
    shutil.rmtree(batch)
    return figures


def make_batch(lines: pa.Table, rows: int, after: int, seed: int) -> pa.Table:
    """Lines of orders with a greater number, drawn at random; a tenth gets a line number that no order has."""
    rng = np.random.default_rng(seed)
    places = np.flatnonzero(lines["l_orderkey"].to_numpy() > after)
    chosen = lines.take(np.sort(rng.choice(places, min(rows, len(places)), replace=False)))
    new = np.arange(len(chosen)) % 10 == 9
    number = np.where(new, 100, chosen["l_linenumber"].to_numpy())
    # Two lines of an order must not become the same new one.
    number += np.where(new, np.arange(len(chosen)), 0)
    at = chosen.schema.get_field_index("l_linenumber")
    return chosen.set_column(at, chosen.schema.field(at), pa.array(number, chosen.schema.field(at).type))


def _merge(merge: Callable[..., Any], spark: SparkSession, target: Path, batch: Path, before: int) -> dict[str, Any]:
    source = spark.read.parquet(str(batch))
    start = time.perf_counter()
    with sidestep.enable(spark):
        report = merge(spark, str(target), source, ON).when_matched_update().when_not_matched_insert().run()
    seconds = time.perf_counter() - start
    rows = sidestep.read(spark, str(target)).count()
    if rows != before + report.rows_inserted or report.rows_updated + report.rows_inserted != source.count():
        raise sidestep.SidestepError(f"The merge lost rows: {before} became {rows}; {report}")
    # A rewrite reads the table once and writes it once.
    moved = report.bytes_looked_at + report.bytes_rewritten + report.bytes_written
    return {
        "share": round(moved / (2 * report.bytes), 5),
        "seconds": seconds,
        **{
            name: getattr(report, name)
            for name in (
                *("bytes", "bytes_looked_at", "bytes_rewritten", "bytes_written", "files", "files_looked_at"),
                *("files_rewritten", "files_written", "rows_updated", "rows_inserted"),
            )
        },
    }
