"""What a query actually read, from the metrics of its scans."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame
from rich import box
from rich.table import Table

from sidestep.render import as_text, size_text
from sidestep.spark.jvm.bridge import Bridge


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


@dataclass(frozen=True, slots=True)
class Metrics:
    """All file scans of a query, in no particular order. A scan whose result was reused is there once."""

    scans: tuple[ScanMetrics, ...]

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

    def __rich__(self) -> Table:
        table = Table("scan", box=box.SIMPLE_HEAD, title="What was read", title_justify="left")
        for heading in ("files", "rows", "bytes"):
            table.add_column(heading, justify="right")
        for scan in self.scans:
            table.add_row(scan.table, f"{scan.files:,}", f"{scan.rows:,}", size_text(scan.bytes))
        return table

    def __str__(self) -> str:
        return as_text(self)


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
            )
        )
    return Metrics(tuple(scans))
