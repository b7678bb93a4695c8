"""What a query actually read, from the metrics of its scans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame

from sidestep.render import size_text
from sidestep.render.document import Cell, Grid, Part, number
from sidestep.render.report import Report
from sidestep.spark.jvm.bridge import Bridge


@dataclass(frozen=True, slots=True)
class SelectorMetrics:
    """What chose files of a scan when the query ran."""

    by: str
    """The condition."""
    source: str
    """Where its values came from, in words."""
    values: int | None
    """How many there were; None if it chose nothing."""


SOURCES = {
    "broadcast": "the join's broadcast",
    "query": "a query of its own for the keys",
    "subquery": "the query's own subquery",
    "nothing": "nothing: the input is not broadcast",
}


def read_selectors(text: str) -> tuple[SelectorMetrics, ...]:
    """What ``inspector.selectors(scan)`` says."""
    lines = (line.split("\t") for line in text.splitlines())
    return tuple(SelectorMetrics(by, SOURCES[source], int(count) if count else None) for by, source, count in lines)


@dataclass(frozen=True, slots=True)
class ScanMetrics:
    """One scan as it ran."""

    table: str
    files: int
    """Files read: after partition pruning, skipping, and what Spark pruned at run time."""
    bytes: int
    """Size of these files."""
    rows: int
    """Rows that left the scan, after Spark's own row-group filters and before the query's filter."""
    paths: tuple[str, ...]
    """The files read."""
    planned_files: int = 0
    """The files that were left when the query was planned; what chose among them when it ran are the selectors."""
    selectors: tuple[SelectorMetrics, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryMetrics:
    """One scan of a cached table as it ran."""

    table: str
    """The name that it was cached by; empty for a DataFrame."""
    rows: int
    """Rows of the batches that were read: Spark passes over those whose least and greatest values tell it to."""


@dataclass(frozen=True, slots=True)
class Metrics(Report):
    """All file scans of a query, in no particular order. A scan whose result was reused is there once."""

    scans: tuple[ScanMetrics, ...]
    memory: tuple[MemoryMetrics, ...] = ()
    """What was read from memory instead, which counts nowhere else."""

    @property
    def files(self) -> int:
        return sum(scan.files for scan in self.scans)

    @property
    def bytes(self) -> int:
        return sum(scan.bytes for scan in self.scans)

    @property
    def rows(self) -> int:
        return sum(scan.rows for scan in self.scans)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _document(self) -> Iterator[Part]:
        rows = [[scan.table, f"{scan.files:,}", f"{scan.rows:,}", size_text(scan.bytes)] for scan in self.scans]
        rows += [[f"{each.table or 'a DataFrame'} in memory", "-", f"{each.rows:,}", "-"] for each in self.memory]
        yield Grid(("scan", number("files"), number("rows"), number("bytes")), rows, "What was read")
        chosen: list[list[Cell | str]] = [
            [
                scan.table,
                Cell(each.by, code=True),
                each.source,
                "-" if each.values is None else f"{each.values:,}",
                Cell(f"{scan.files:,} of {scan.planned_files:,}", share=scan.files / max(1, scan.planned_files)),
            ]
            for scan in self.scans
            for each in scan.selectors
        ]
        if chosen:
            heads = ("scan", "by", "from", number("values"), number("files"))
            yield Grid(heads, chosen, "What was chosen when it ran")


def metrics(df: DataFrame) -> Metrics:
    """What Spark read for this DataFrame: files, bytes and rows of each scan.

    If the DataFrame has not run yet it is run, and its rows are thrown away. (``df.count()`` and ``df.write`` run other
    plans than ``df.collect()`` does, so they do not count as having run it.)
    """
    inspector = Bridge(df.sparkSession).factory()
    execution = df._jdf.queryExecution()
    plan = execution.executedPlan()
    if not inspector.hasRun(plan):
        execution.toRdd().count()
    scans = []
    for scan in inspector.scans(plan):
        values = dict(line.split("=", 1) for line in inspector.metrics(scan).splitlines())
        paths = inspector.filesRead(scan)
        scans.append(
            ScanMetrics(
                table=inspector.tableName(scan) or inspector.rootPath(scan),
                files=int(values.get("numFiles", 0)),
                bytes=int(values.get("filesSize", 0)),
                rows=int(values.get("numOutputRows", 0)),
                paths=tuple(paths.split("\0")) if paths else (),
                planned_files=int(values.get("staticFilesNum") or values.get("numFiles") or 0),
                selectors=read_selectors(inspector.selectors(scan)),
            )
        )
    memory = (
        MemoryMetrics(inspector.memoryName(each), inspector.memoryRows(each)) for each in inspector.memoryScans(plan)
    )
    return Metrics(tuple(scans), tuple(memory))
