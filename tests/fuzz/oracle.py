"""What must be so, whatever is skipped: the same rows as Spark alone gives, as DuckDB gives, and as are left without
what was skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sidestep.prune import Query
from sidestep.spark.rule.planner import PlannedQuery
from sidestep.spark.rule.session import Enabled, state_of
from tests.fuzz.world import WorldSpec
from tests.spark.garbage import blocks_read_in_part
from tests.spark.tables import changed_settings, switched_off

REFUSALS = (PySparkException, Py4JJavaError)
"""How Spark says that a query is none, or that it fails."""


@dataclass(frozen=True)
class Outcome:
    """What came of a case: a difference in words, or none; and how much was skipped."""

    difference: str = ""
    invalid: bool = False
    """Spark itself refuses the query, or fails on it."""
    skipped: int = 0
    """Files that some scan left out on the word of an index."""
    blocks: int = 0
    """Row groups that were left out of files that are read."""
    induced: bool = False
    """Whether something was left out because of what another table holds."""
    rows: int = 0
    oracles: tuple[str, ...] = ()
    """What the rows were held against."""


@dataclass(frozen=True)
class Asked:
    """A query to a world in a session, with all that is needed to ask it."""

    spark: SparkSession
    world: WorldSpec
    root: Path
    query: str
    copy: Path
    """A folder for copies of tables."""


@dataclass
class Spy:
    """What sidestep decided about queries while it was watched."""

    plans: list[PlannedQuery] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    """The plans that were decided on, as they can be decided on again."""

    def outcome(self, rows: int, *oracles: str) -> Outcome:
        scans = [scan for plan in self.plans for scan in plan.scans]
        return Outcome(
            skipped=sum(int(scan.skipped_files.sum()) for scan in scans),
            blocks=sum(
                int((~scan.kept & ~scan.skipped_files[scan.catalog.file_of_block]).sum())
                for scan in scans
                if scan.block_filter is not None or scan.row_groups is not None
            ),
            induced=any(bool((scan.static & ~scan.kept).any()) for scan in scans),
            rows=rows,
            oracles=oracles,
        )

    def skipped_files(self, root: str) -> set[str]:
        """The files of a table that each scan of it left out on the word of its index."""
        skipped: set[str] = set()
        for index, kept in self.kept_blocks().values():
            if index.root.rstrip("/") == root:
                read = np.zeros(len(index.index.files), dtype=np.bool_)
                read[index.index.map.file_of_block[kept]] = True
                skipped.update(np.array(index.index.files["path"].to_pylist(), dtype=object)[~read])
        return skipped

    def blocks_read_in_part(self) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
        """The same where scans are given pieces of files, which may hold a little more."""
        read: dict[str, tuple[Any, np.ndarray[Any, Any]]] = {}
        for plan in self.plans:
            for scan in plan.scans:
                before = read.get(scan.index.id)
                blocks = blocks_read_in_part(scan)
                read[scan.index.id] = (scan.index, blocks if before is None else before[1] | blocks)
        return read

    def kept_blocks(self) -> dict[str, tuple[Any, np.ndarray[Any, Any]]]:
        """The row groups that some scan may read, by the id of their index, with that index."""
        kept: dict[str, tuple[Any, np.ndarray[Any, Any]]] = {}
        for plan in self.plans:
            for scan in plan.scans:
                before = kept.get(scan.index.id)
                kept[scan.index.id] = (scan.index, scan.kept if before is None else before[1] | scan.kept)
        return kept


def enabled(spark: SparkSession) -> Enabled:
    state = state_of(spark)
    assert state is not None, "sidestep is not enabled in this session"
    return state


@contextmanager
def watched(spark: SparkSession) -> Iterator[Spy]:
    """Note what is decided about queries for the length of a block."""
    planner, spy = enabled(spark).planner, Spy()
    decide = planner.decide

    def note(*arguments: Any, **more: Any) -> PlannedQuery:
        planned = decide(*arguments, **more)
        spy.queries.append(arguments[0])
        spy.plans.append(planned)
        return planned

    planner.decide = note  # type: ignore[method-assign]
    try:
        yield spy
    finally:
        del planner.decide


def NOTHING() -> None:
    """What happens between planning and running, mostly."""


def compare(
    asked: Asked,
    settings: Mapping[str, str],
    more: Sequence[Callable[[Asked, DataFrame, list[str], Spy], Outcome]] = (),
    form: Callable[[DataFrame], DataFrame] | None = None,
    meanwhile: Callable[[], None] = NOTHING,
) -> Outcome:
    """Run a query on and off, and compare; then whatever else is to be held against it.

    ``form`` makes what is collected of the query; ``meanwhile`` happens when both have been planned, and not yet run.
    """
    spark = asked.spark

    def made() -> DataFrame:
        frame = spark.sql(asked.query)
        return planned(frame if form is None else form(frame))

    with changed_settings(spark, settings), watched(spark) as spy:
        try:
            with switched_off(spark):
                off = made()
                if meanwhile is NOTHING:
                    expected = rows_of(off)
        except REFUSALS:
            return Outcome(invalid=True)
        if form is not None:
            spark.catalog.clearCache()  # or what was cached without sidestep is read again
        spy.plans.clear()
        spy.queries.clear()
        try:
            frame = made()
            meanwhile()
            problem = None
            actual = rows_of(frame)
        except REFUSALS as error:
            problem = str(error).splitlines()[0]
        if meanwhile is not NOTHING:
            try:
                expected = rows_of(off)
            except REFUSALS:
                return Outcome(invalid=True)
        if problem is not None:
            return Outcome(f"fails with sidestep: {problem}")
        if given_up := enabled(spark).last_problem:
            return Outcome(f"sidestep gave up: {given_up}")
        outcome = spy.outcome(len(expected), "off")
        if actual != expected:
            return Outcome(difference(expected, actual, "on"), rows=len(expected), induced=outcome.induced)
        oracles = list(outcome.oracles)
        for oracle in more:
            found = oracle(asked, frame, expected, spy)
            if found.difference:
                return found
            oracles += found.oracles
        return spy.outcome(len(expected), *oracles)


def planned(frame: DataFrame) -> DataFrame:
    """The frame, with the plan made that it will run by."""
    frame._jdf.queryExecution().executedPlan()
    return frame


def rows_of(frame: DataFrame) -> list[str]:
    """The rows as a multiset that can be compared: NaN equals NaN, -0.0 equals 0.0, order does not matter."""
    return sorted(repr(row).replace("-0.0", "0.0") for row in frame.collect())


def difference(expected: Sequence[str], actual: Sequence[str], when: str) -> str:
    """In words how rows differ."""
    missing, more = (list((Counter(a) - Counter(b)).elements()) for a, b in ((expected, actual), (actual, expected)))
    return f"{len(expected)} rows off, {len(actual)} {when}; missing {missing[:2]}, too many {more[:2]}"
