"""What sidestep makes of a table and its log, all by default, and what the queries that follow then read and take."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import sidestep
from bench.harness import race
from bench.outofbox_kinds import Kind, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHOOSING = ("analyze", "choose", "synopses")
"""The stages of a load in which a layout is chosen, before any row is moved."""
RUN_TWICE = 60
"""Later queries that are run without sidestep too, and timed."""
_SWITCH, _ZONE = "spark.sidestep.enabled", "spark.sql.session.timeZone"


@contextmanager
def session_for(spark: SparkSession) -> Iterator[None]:
    """sidestep enabled, and hours as the generator has them; the session is left as it was."""
    zone = spark.conf.get(_ZONE)
    spark.conf.set(_ZONE, "UTC")
    try:
        with sidestep.enable(spark):
            yield
    finally:
        spark.conf.unset(_SWITCH)
        spark.conf.set(_ZONE, str(zone))


class StageCpu:
    """Processor seconds by stage of a load, of this process and all that it started: told of the steps of the load."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = _cpu_seconds()
        self._lock = threading.Lock()

    def __call__(self, step: sidestep.Step, /) -> None:
        with self._lock:
            now = _cpu_seconds()
            self.seconds[step.stage] = self.seconds.get(step.stage, 0.0) + now - self._last
            self._last = now

    @property
    def choose_share(self) -> float | None:
        """How much of the load's processor time goes into the choice of a layout; None where that cannot be told."""
        if any(seconds < 0 for seconds in self.seconds.values()):
            return None  # a process ended that no one has waited for, and took its seconds along
        spent = sum(self.seconds.values())
        return sum(self.seconds.get(stage, 0.0) for stage in CHOOSING) / spent if spent > 0 else None


def _cpu_seconds() -> float:
    """Of this process and those below it, the dead ones that were waited for included; 0 where there is no /proc."""
    times: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        times[int(entry.parent.name)] = (int(words[1]), sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK"))
    mine, total = {os.getpid()}, 0.0
    # Parents have smaller numbers than their children, unless numbers have gone round; then a few are missed.
    for process, (parent, seconds) in sorted(times.items()):
        if process in mine or parent in mine:
            mine.add(process)
            total += seconds
    return total


@dataclass(frozen=True)
class Laid:
    """A table as sidestep laid it out, under a name in the session, and the same as it arrived under another."""

    report: sidestep.LoadReport
    cpu: StageCpu
    view: str
    arrived: str


@contextmanager
def laid_out(spark: SparkSession, kind: Kind, min_size: int | None, data: Path) -> Iterator[Laid]:
    """The table and its log, written and laid out by sidestep as for a user who says no more; gone afterwards."""
    data.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="outofbox-", dir=data))
    try:
        yield _lay_out(spark, kind, folder, min_size)
    finally:
        for view in (f"{kind.name}_laid", f"{kind.name}_arrived"):
            spark.catalog.dropTempView(view)
        shutil.rmtree(folder, ignore_errors=True)


def _lay_out(spark: SparkSession, kind: Kind, folder: Path, min_size: int | None) -> Laid:
    source, target, log = folder / kind.name, folder / f"{kind.name}_laid", folder / f"{kind.name}.jsonl"
    kind.table.write(source)
    kind.write_log(log)
    cpu = StageCpu()
    report = sidestep.load(spark, str(source), str(target), log=str(log), min_size=min_size, progress=cpu)
    view, arrived = f"{kind.name}_laid", f"{kind.name}_arrived"
    sidestep.read(spark, str(target)).createOrReplaceTempView(view)
    spark.read.parquet(str(source)).createOrReplaceTempView(arrived)
    return Laid(report, cpu, view, arrived)


@dataclass(frozen=True)
class Run:
    """One query as it ran on the laid-out table, and as it arrived without sidestep."""

    matching: int
    rows: int
    files: int
    planned_rows: int
    """Rows that sidestep could not rule out; Spark's reader may pass over row groups by itself."""
    arrived_rows: int
    """Rows that Spark read of the table as it arrived; of the first queries, for the others it is 0."""


def run_queries(spark: SparkSession, laid: Laid, queries: Sequence[Query], matching: Sequence[int]) -> list[Run]:
    """Run each query, the first ones also without sidestep; AssertionError where other rows match than it should be."""
    runs = []
    for number, (query, expected) in enumerate(zip(queries, matching, strict=True)):
        counted_off, arrived = expected, 0
        if number < RUN_TWICE:
            off = _query(spark, query, laid.arrived, on=False)
            counted_off, arrived = _matching(off), sidestep.metrics(off).rows
        on = _query(spark, query, laid.view, on=True)
        counted_on, read = _matching(on), sidestep.metrics(on)
        if not counted_on == counted_off == expected:
            raise AssertionError(
                f"{expected:,} rows match, {counted_off:,} were found without sidestep and {counted_on:,} with it: "
                f"{query.sql(laid.view)}"
            )
        runs.append(Run(counted_on, read.rows, read.files, _planned(on), arrived))
    return runs


def _query(spark: SparkSession, query: Query, view: str, on: bool) -> DataFrame:
    spark.conf.set(_SWITCH, str(on).lower())
    return spark.sql(query.sql(view))


def _matching(df: DataFrame) -> int:
    return sum(int(row[0]) for row in df.collect())


def _planned(df: DataFrame) -> int:
    return sum(scan.rows.kept for scan in sidestep.explain(df).scans if scan.rows is not None)


def time_queries(spark: SparkSession, laid: Laid, queries: Sequence[Query], runs: int) -> dict[str, float]:
    """Seconds for all queries, each the median of its runs, on and off in turns; each has run once before."""
    seconds = {"off": 0.0, "on": 0.0}

    def run(query: Query, on: bool) -> None:
        _query(spark, query, laid.view if on else laid.arrived, on).collect()

    for query in queries:
        result = race({"off": partial(run, query, False), "on": partial(run, query, True)}, runs=runs, warmups=0)
        for timing in result.timings:
            seconds[timing.name] += timing.median
    return seconds
