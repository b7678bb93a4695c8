"""Recording the queries of a session, and reading a recording back: a log for those who have none.

A recording is a file of JSON lines, one per query that ran and read a table: its start, seconds, rows and bytes read,
user, SQL text where there was one, and its optimized plan as ``PlanWriter.java`` writes it (docs/formats.md). Lines say
their format, so that one file may have lines of several. Reading one needs no Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession

from sidestep.errors import NewerFormat, SidestepError, check_format
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_document
from sidestep.spark.log.uses import Interpret, given_names, query_uses, table_name
from sidestep.workload.query import Failure, LoggedQuery, Statement, Workload

MARK = b'{"recording":'
"""How every line begins."""
FORMAT = 2
"""The newest form of a line that is read here; in 1, plans did not say theirs."""


class Recorder:
    """A recording under way; as a context manager, until the end of the block."""

    def __init__(self, spark: SparkSession, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.fspath(path).removeprefix("file:")).absolute()
        if self.path.is_dir():
            raise SidestepError(
                f"{self.path} is a folder: a recording is a file, for example {self.path / 'log.jsonl'}."
            )
        if self.path.exists() and self.path.stat().st_size and not is_recording(self.path):
            raise SidestepError(f"{self.path} holds something other than a recording: choose another file.")
        try:
            self.java: Any = Bridge(spark).new("Recorder", spark._jsparkSession, str(self.path))
        except Exception as problem:
            if isinstance(problem, SidestepError):
                raise
            raise SidestepError(f"Cannot record to {self.path}: {_cause(problem)}") from problem
        self._started = False

    def start(self) -> Recorder:
        """Note every query that ends from now on."""
        if not self._started:
            self.java.start()
            self._started = True
        return self

    def stop(self) -> None:
        """Note no more; all that has ended before is in the file afterwards."""
        if self._started:
            self._started = False
            self.java.stop()

    @property
    def records(self) -> int:
        """How many queries have been noted. Spark tells of a query shortly after it has ended."""
        return int(self.java.records())

    @property
    def milliseconds_each(self) -> float:
        """What a record has cost on average, on Spark's listener thread."""
        return float(self.java.nanos()) / 1e6 / max(1, self.records)

    @property
    def last_problem(self) -> str:
        """What went wrong last, or nothing."""
        return str(self.java.lastProblem())

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"recording to {self.path} ({'under way' if self._started else 'stopped'})"


def record(spark: SparkSession, path: str | os.PathLike[str]) -> Recorder:
    """Note every query that runs in this session from now on in a file, for ``analyze`` to read.

    A query that reads a table adds one line when it has ended, whoever began it: SQL, a DataFrame, a write. ``explain``
    adds none, nor do commands that read nothing and queries that fail. A file that is there is added to. Use
    ``with sidestep.record(spark, path):`` or call ``stop()`` on what is returned; stopping Spark ends it as well.
    """
    return Recorder(spark, path).start()


def is_recording(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a recording does."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MARK)) == MARK
    except OSError:
        return False


def read_recording(
    path: str | os.PathLike[str], tables: Mapping[str, object] | None = None, interpret: Interpret = query_uses
) -> Workload:
    """The queries of a recording.

    Tables are called as ``tables`` calls their paths, else as the catalog or their folder does. Lines that cannot be
    read (the last one of a crash, say) are among the failures.
    """
    names = given_names(tables or {})
    queries: list[LoggedQuery] = []
    failures: list[Failure] = []
    for source, line in _lines(Path(path)):
        try:
            queries.append(_query(json.loads(line), names, interpret))
        except NewerFormat as problem:
            failures.append(Failure(Statement(line[:200], source=source), str(problem)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SidestepError) as problem:
            reason = f"the line is damaged: {problem or type(problem).__name__}"
            failures.append(Failure(Statement(line[:200], source=source), reason))
    # Lines are in the order in which queries ended.
    return Workload(tuple(sorted(queries, key=lambda query: query.time or 0.0)), tuple(failures))


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield f"{path}:{number}", line


def _query(line: dict[str, Any], names: Mapping[str, str], interpret: Interpret) -> LoggedQuery:
    check_format(line["recording"], FORMAT, "The line")
    uses, joins = interpret(read_document(line["plan"]), lambda scan: table_name(scan, names))
    return LoggedQuery(
        uses,
        joins,
        sql=line.get("sql", ""),
        time=line["time"],
        user=line.get("user"),
        seconds=line["seconds"],
        rows=line["rows"],
        bytes=line["bytes"],
    )


def _cause(problem: Exception) -> str:
    """The first line of what Java said, without the names of its exceptions."""
    java = getattr(problem, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    return str(java.getMessage() if java is not None else problem).splitlines()[0]
