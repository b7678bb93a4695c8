"""The tables that `soak` queries: three that stay as they are, and two that grow while they are read."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import sidestep
from sidestep.predicate import STRING, column, compare
from sidestep.spark.table.load import load
from sidestep.workload.features.feature_set import Feature, FeatureSet

DAYS = 40
COLORS = ("red", "green", "blue", "grey")
BATCH = 50
"""Rows that a growing table gets at a time."""
MOST_BATCHES = 40
"""After so many, a growing table begins anew under another name."""


def make_tables(spark: SparkSession, folder: Path, rows: int, seed: int) -> None:
    """facts by day, parts by key, and a Delta table that is laid out by color, all of them indexed."""
    random = np.random.default_rng(seed)
    keys = np.sort(random.integers(0, rows, rows))
    facts = pa.table(
        {
            "id": np.arange(rows),
            "k": keys,
            "day": np.arange(rows) * DAYS // rows,
            "v": random.integers(0, 1_000, rows),
            "color": random.choice(COLORS, rows),
        }
    )
    for day in range(DAYS):
        of_day = facts.filter(pa.array(facts["day"].to_numpy() == day))
        _write(folder / "facts" / f"day-{day:03d}.parquet", of_day)
    parts = pa.table({"k": np.arange(rows), "kind": np.arange(rows) * 16 // rows, "w": random.integers(0, 9, rows)})
    for number, start in enumerate(range(0, rows, max(1, rows // 8))):
        _write(folder / "parts" / f"part-{number}.parquet", parts.slice(start, max(1, rows // 8)))
    write_deltalake(str(folder / "laid"), facts.slice(0, rows // 2))
    features = FeatureSet("laid", tuple(Feature((compare(column("color", STRING), "=", c),)) for c in COLORS[:2]))
    load(spark, str(folder / "laid"), features=features, by="day div 10", min_size=max(20, rows // 64))
    for name in ("facts", "parts"):
        sidestep.index(spark, folder / name)


def _write(path: Path, rows: pa.Table) -> None:
    """A file that appears whole, and looks ten seconds old: one just written would have to settle to be indexed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    pq.write_table(rows, hidden)
    moment = hidden.stat().st_mtime - 10
    os.utime(hidden, (moment, moment))
    hidden.rename(path)


class GrowingTable:
    """A table that gets one batch of rows after the other; each has the rows [n * BATCH, (n + 1) * BATCH).

    Whoever reads it sees all batches up to one that was there when the query began, or came while it ran.
    """

    def __init__(self, spark: SparkSession, folder: Path, delta: bool) -> None:
        self.spark = spark
        self.folder = folder
        self.delta = delta
        self._numbers = itertools.count()
        self._now = (folder, 0)
        self._lock = threading.Lock()
        self._begin()

    def state(self) -> tuple[Path, int]:
        """Where the table is now, and how many batches it has at least."""
        with self._lock:
            return self._now

    def grow(self) -> None:
        """Add a batch; only one thread may do so at a time."""
        path, batches = self.state()
        if batches == MOST_BATCHES:
            self._begin()
            return
        self._put(path, batches)
        if batches % 8 == 3:
            sidestep.index(self.spark, path)
        with self._lock:
            self._now = (path, batches + 1)

    def _begin(self) -> None:
        path = self.folder.with_name(f"{self.folder.name}-{next(self._numbers)}")
        for batch in range(4):
            self._put(path, batch)
        sidestep.index(self.spark, path)
        with self._lock:
            self._now = (path, 4)

    def _put(self, path: Path, batch: int) -> None:
        rows = pa.table({"n": np.arange(batch * BATCH, (batch + 1) * BATCH)})
        if self.delta:
            write_deltalake(str(path), rows, mode="append")
        else:
            _write(path / f"batch-{batch:04d}.parquet", rows)

    @staticmethod
    def expected(batches: int, low: int) -> tuple[int, int]:
        """How many numbers from ``low`` on there are in so many batches, and their sum."""
        high = batches * BATCH
        return (high - low, (low + high - 1) * (high - low) // 2) if high > low else (0, 0)
