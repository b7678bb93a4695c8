"""Data that must not be read, made unreadable: what a query skips may hold anything."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan
from sidestep.spark.rule.planner import ScanDecision
from sidestep.spark.rule.session import state_of
from sidestep.store.block_column import BLOCK
from sidestep.synopsis import Mask


def copy_with_garbage(table: str, target: Path, skipped: Mapping[str, Collection[int]]) -> str:
    """A copy of a table in which some row groups of some files hold noise. Sizes, times and footers stay as they are.

    So do the ids of blocks: where they are many, Spark looks them up in a row group to see that it may pass it over.
    """
    shutil.copytree(table, target, copy_function=shutil.copy2)
    for name, groups in skipped.items():
        path = target / name
        status = path.stat()
        footer = pq.read_metadata(path)
        rng = np.random.default_rng(len(name))
        with path.open("r+b") as file:
            for group in groups:
                row_group = footer.row_group(group)
                for number in range(row_group.num_columns):
                    chunk = row_group.column(number)
                    if chunk.path_in_schema == BLOCK:
                        continue
                    start = chunk.data_page_offset
                    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                        start = min(start, chunk.dictionary_page_offset)
                    file.seek(start)
                    file.write(rng.bytes(chunk.total_compressed_size))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return str(target)


def skipped_blocks(spark: SparkSession, df: DataFrame) -> dict[str, set[int]]:
    """The row groups of each file that a query with one scan does not read, by path."""
    state = state_of(spark)
    assert state is not None
    plan = Bridge(spark).factory().describe(df._jdf.queryExecution().optimizedPlan())
    found: dict[str, set[int]] = {}
    for decision in state.planner.decide(read_plan(plan)).scans:
        blocks = decision.index.index.map
        paths = blocks.files["path"].to_pylist()
        kept = decision.kept
        if decision.block_filter is None:
            kept = blocks_read_in_part(decision)
        for number in np.flatnonzero(~kept):
            found.setdefault(paths[blocks.file_of_block[number]], set()).add(int(blocks.row_group[number]))
    return found


def blocks_read_in_part(decision: ScanDecision) -> Mask:
    """The row groups that a scan reads if it can be given pieces of files."""
    if decision.row_groups is not None:
        return decision.row_groups.read
    return ~decision.skipped_files[decision.catalog.file_of_block]
