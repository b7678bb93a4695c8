"""Copies of tables that lack what a query skipped, or hold noise there: it must give the same rows from them."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import sidestep
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.relation import from_snapshot
from sidestep.store import read_snapshot
from tests.fuzz.build import frame_of, register_table
from tests.fuzz.oracle import REFUSALS, Asked, Outcome, Spy, difference, rows_of
from tests.fuzz.values import ticked
from tests.spark.garbage import copy_with_garbage
from tests.spark.tables import data_files, switched_off, with_only


def read_files(frame: DataFrame) -> set[str]:
    """The paths that some scan of a query that has run was given."""
    return {str(Path(path.removeprefix("file:"))) for scan in sidestep.metrics(frame).scans for path in scan.paths}


def named(query: str, table: str) -> bool:
    """Whether a table may be read: without its name it cannot. It saves copies; a table too many does no harm."""
    return re.search(rf"\b{re.escape(table)}\b", query) is not None


def without_skipped(asked: Asked, frame: DataFrame, expected: list[str], spy: Spy) -> Outcome:
    """The same query without sidestep on copies of the tables that lack each file that was skipped, and not read."""
    spark, read = asked.spark, read_files(frame)
    shutil.rmtree(asked.copy, ignore_errors=True)
    changed = []
    try:
        for name, table in asked.world.tables.items():
            folder = asked.root / name
            if table.form == "catalog" or not named(asked.query, name):
                continue
            columns = spark.table(name).columns
            skipped = spy.skipped_files(str(folder))
            if table.form == "plain":
                files = data_files(folder)
                kept = [
                    str(file) for file in files if str(file) in read or str(file.relative_to(folder)) not in skipped
                ]
                if len(kept) == len(files):
                    continue
                schema = spark.table(name).schema
                partial = with_only(folder, kept, asked.copy / name)
                rows = spark.read.schema(schema).parquet(str(partial)) if kept else spark.createDataFrame([], schema)
            else:
                snapshot = read_snapshot(str(folder))
                left = tuple(
                    file
                    for file in snapshot.files
                    if snapshot.root.child(file.path).path in read or file.path not in skipped
                )
                if len(left) == len(snapshot.files):
                    continue
                rows = from_snapshot(spark, replace(snapshot, files=left))
            changed.append(name)
            rows.select(*map(ticked, columns)).createOrReplaceTempView(name)
        if not changed:
            return Outcome()
        with switched_off(spark):
            found = rows_of(spark.sql(asked.query))
    finally:
        for name in changed:
            register_table(spark, name, asked.world.tables[name], asked.root)
    if found != expected:
        return Outcome(difference(expected, found, "without what was skipped"), rows=len(expected))
    return Outcome(oracles=("deleted",))


def with_garbage(asked: Asked, frame: DataFrame, expected: list[str], spy: Spy) -> Outcome:
    """The same query with sidestep on copies in which all that it does not read is noise; footers and times stay."""
    spark, read = asked.spark, read_files(frame)
    shutil.rmtree(asked.copy, ignore_errors=True)
    kept = {index.root: (index, blocks) for index, blocks in spy.kept_blocks().values()}
    in_part = {index.root: (index, blocks) for index, blocks in spy.blocks_read_in_part().values()}
    # Without pushdown, a condition on ids is one on rows alone, and row groups are read.
    by_block = _roots_by_block(frame) if spark.conf.get("spark.sql.parquet.filterPushdown") == "true" else {}
    kept = {root: kept[root] for root, told in by_block.items() if told and root in kept}
    kept |= {root: in_part[root] for root, told in _roots_in_part(frame).items() if told and root in in_part}
    changed, groups = [], 0
    try:
        for name, table in asked.world.tables.items():
            folder = asked.root / name
            if table.form == "catalog" or not named(asked.query, name) or not folder.exists():
                continue
            files = [snapshot_file.path for snapshot_file in read_snapshot(str(folder)).files]
            skipped = spy.skipped_files(str(folder))
            unread = [path for path in files if path in skipped and str(folder / path) not in read]
            noise = {path: _all_groups(folder / path) for path in unread}
            within: dict[str, set[int]] = {}
            if str(folder) in kept:
                index, blocks = kept[str(folder)]
                paths = index.index.map.files["path"].to_pylist()
                for number in range(len(blocks)):
                    path = paths[index.index.map.file_of_block[number]]
                    if not blocks[number] and path in files and path not in noise:
                        within.setdefault(path, set()).add(int(index.index.map.row_group[number]))
            groups += len(within)
            noise |= within
            if not any(noise.values()):
                continue
            copy = Path(copy_with_garbage(str(folder), asked.copy / name, noise))
            frame_of(spark, table, copy).createOrReplaceTempView(name)
            changed.append(name)
        if not changed:
            return Outcome()
        found = rows_of(spark.sql(asked.query))
    except REFUSALS as problem:
        return Outcome(f"reads what it said to skip: {str(problem).splitlines()[0]}", rows=len(expected))
    finally:
        for name in changed:
            register_table(spark, name, asked.world.tables[name], asked.root)
    if found != expected:
        return Outcome(difference(expected, found, "with noise in what was skipped"), rows=len(expected))
    return Outcome(oracles=("garbage", "garbage in row groups") if groups else ("garbage",))


def _all_groups(path: Path) -> set[int]:
    return set(range(pq.read_metadata(path).num_row_groups))


def _roots_in_part(frame: DataFrame) -> dict[str, bool]:
    """For each folder that is read, whether each of its scans is given pieces of files."""
    inspector = Bridge(frame.sparkSession).factory()
    told: dict[str, bool] = {}
    for scan in inspector.scans(frame._jdf.queryExecution().executedPlan()):
        root = inspector.rootPath(scan).removeprefix("file:")
        told[root] = told.get(root, True) and scan.getClass().getSimpleName() == "RowGroupScan"
    return told


def _roots_by_block(frame: DataFrame) -> dict[str, bool]:
    """For each folder that is read, whether each of its scans is told by a condition on ids which blocks to read."""
    inspector = Bridge(frame.sparkSession).factory()
    told: dict[str, bool] = {}
    for scan in inspector.scans(frame._jdf.queryExecution().executedPlan()):
        root = inspector.rootPath(scan).removeprefix("file:")
        told[root] = told.get(root, True) and "_block#" in scan.dataFilters().toString()
    return told
