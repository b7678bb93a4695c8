"""What queries read of a laid-out table: as planned, from the blocks kept; as run, from Spark's own counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession

import sidestep
from bench.denorm_data import columns_in
from bench.layouts import Layout
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan
from sidestep.spark.rule.session import Enabled
from sidestep.store.block_column import BLOCK
from sidestep.store.index.table_index import TableIndex, open_index

_CONDITION = re.compile(r"\bWHERE\b(.*?)(?:\bGROUP BY\b|$)", re.DOTALL)


@dataclass(frozen=True)
class Reads:
    """Rows, and bytes of the columns that are asked for, as planned."""

    rows: int
    bytes: int


class Reader:
    """A laid-out table under a name of its own, so that several of one run can be asked the same."""

    def __init__(self, spark: SparkSession, layout: Layout, skipping: bool = True) -> None:
        self.spark, self.layout, self.skipping = spark, layout, skipping
        self.view = "denorm_" + re.sub(r"\W", "_", Path(layout.path).name)
        sidestep.read(spark, layout.path).createOrReplaceTempView(self.view)

    def query(self, text: str) -> DataFrame:
        """The query on this table, with skipping as it is meant to be here."""
        self.spark.conf.set("spark.sidestep.enabled", str(self.skipping).lower())
        return self.spark.sql(re.sub(r"\bdenorm\b", self.view, text))

    def planned(self, enabled: Enabled, text: str) -> Reads:
        """What the planner decides to read; nothing is run."""
        plan = self.query(text)._jdf.queryExecution().optimizedPlan()
        query = read_plan(Bridge(self.spark).factory().describe(plan))
        decisions = enabled.planner.decide(query).scans if self.skipping else ()
        kept, columns = np.ones(len(self.sizes.rows), np.bool_), columns_in(text)
        for decision in decisions:
            if decision.index.index.map.blocks != len(kept):
                raise AssertionError(f"The index of {self.layout.path} changed while it was measured.")
            if decision.block_filter is None and decision.row_groups is not None:
                kept &= decision.row_groups.read
            elif decision.block_filter is None:
                kept &= ~decision.skipped_files[decision.catalog.file_of_block]
            else:
                kept &= decision.kept
                columns |= {BLOCK}
        taken = sum(int(self.sizes.columns[name][kept].sum()) for name in columns)
        return Reads(int(self.sizes.rows[kept].sum()), taken)

    def everything(self, text: str) -> Reads:
        """What a scan of all blocks would read of the columns that the query names."""
        return Reads(int(self.sizes.rows.sum()), sum(int(self.sizes.columns[name].sum()) for name in columns_in(text)))

    @cached_property
    def sizes(self) -> ChunkSizes:
        return chunk_sizes(Path(self.layout.path), open_index(self.layout.path))

    def run(self, text: str) -> tuple[list[Row], DataFrame]:
        df = self.query(text)
        return df.collect(), df


@dataclass(frozen=True, eq=False)
class ChunkSizes:
    """The rows of each block, and what each of its columns takes on disk."""

    rows: npt.NDArray[np.int64]
    columns: dict[str, npt.NDArray[np.int64]]


def chunk_sizes(root: Path, index: TableIndex) -> ChunkSizes:
    """From the footers of the files that an index knows, in the order of its blocks."""
    files = index.files["path"].to_pylist()
    footers = [pq.ParquetFile(root / path).metadata for path in files]
    names = footers[0].schema.to_arrow_schema().names
    sizes = np.zeros((index.map.blocks, len(names)), np.int64)
    for block, (file, group) in enumerate(zip(index.map.file_of_block, index.map.row_group, strict=True)):
        row_group = footers[file].row_group(int(group))
        sizes[block] = [row_group.column(at).total_compressed_size for at in range(len(names))]
    return ChunkSizes(index.map.rows, {name: sizes[:, at] for at, name in enumerate(names)})


def rows_of(spark: SparkSession, source: Path, texts: Sequence[str], at_once: int = 20) -> list[int]:
    """The rows that satisfy the filter of each query: what even a perfect layout reads. Many queries share a scan."""
    from pyspark.sql import functions as f

    rows = spark.read.parquet(str(source))
    found: list[int] = []
    for start in range(0, len(texts), at_once):
        conditions = [condition_of(text) for text in texts[start : start + at_once]]
        counts = rows.agg(*(f.count_if(f.expr(condition)).alias(str(n)) for n, condition in enumerate(conditions)))
        found += [int(count) for count in counts.collect()[0]]
    return found


def condition_of(text: str) -> str:
    """
    >>> condition_of("SELECT a FROM t WHERE a > 1 AND b = 2 GROUP BY a")
    'a > 1 AND b = 2'
    """
    match = _CONDITION.search(text)
    if match is None:
        raise ValueError(f"The query has no filter: {text}")
    return match[1].strip()


def bytes_read(spark: SparkSession, group: str) -> int:
    """What the tasks of a job group have read from files, as Spark counted it."""
    return sum(int(stage.inputBytes()) for stage in _stages_of_group(spark, group))


def peak_memory(spark: SparkSession, group: str) -> int:
    """What the tasks of a stage held at most to join, sort and aggregate, of the stage with most in a job group."""
    return max((int(stage.peakExecutionMemory()) for stage in _stages_of_group(spark, group)), default=0)


def _stages_of_group(spark: SparkSession, group: str) -> list[Any]:
    tracker = spark.sparkContext.statusTracker()
    store: Any = cast("Any", spark.sparkContext._jsc).sc().statusStore()
    stages = {stage for job in tracker.getJobIdsForGroup(group) for stage in _stages(tracker, job)}
    # Of very many stages Spark forgets first those that it did not run.
    return [store.lastStageAttempt(stage) for stage in stages if tracker.getStageInfo(stage) is not None]


def _stages(tracker: Any, job: int) -> list[int]:
    info = tracker.getJobInfo(job)
    return list(info.stageIds) if info else []
