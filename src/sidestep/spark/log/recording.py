"""Recording the queries of a session, and reading a recording back: a log for those who have none.

A recording is a file of JSON lines, one per query that ran and read a table: its start, seconds, rows and bytes read,
user, SQL text where there was one, and its optimized plan as ``PlanWriter.java`` writes it (docs/formats.md). Lines say
their format, so that one file may have lines of several. Reading one needs no Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession

from sidestep.errors import NewerFormat, SidestepError, check_format
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_document
from sidestep.spark.log.statements import Table
from sidestep.spark.log.uses import Interpret, given_names, query_uses, table_name
from sidestep.workload.query import Failure, LoggedQuery, Statement, Workload

MARK = b'{"recording":'
"""How every line begins."""
FORMAT = 3
"""The newest form of a line that is read here. In 1, plans did not say theirs; queries are written in 2, by
``Recorder.java``; a line of 3 has names of tables."""


class Recorder:
    """A recording under way; as a context manager, until the end of the block."""

    def __init__(
        self, spark: SparkSession, path: str | os.PathLike[str], tables: Mapping[str, Table] | None = None
    ) -> None:
        self.path = Path(os.fspath(path).removeprefix("file:")).absolute()
        if self.path.is_dir():
            raise SidestepError(
                f"{self.path} is a folder: a recording is a file, for example {self.path / 'log.jsonl'}."
            )
        if self.path.exists() and self.path.stat().st_size and not is_recording(self.path):
            raise SidestepError(f"{self.path} holds something other than a recording: choose another file.")
        names = {name: where for where, name in given_names(tables or {}).items()}
        if len(names) < len(tables or {}):
            raise SidestepError("A recording knows tables by their paths: give each of tables=… as a path.")
        try:
            if names:
                self._name(names)
            self.java: Any = Bridge(spark).new("Recorder", spark._jsparkSession, str(self.path))
        except Exception as problem:
            if isinstance(problem, SidestepError):
                raise
            raise SidestepError(f"Cannot record to {self.path}: {_cause(problem)}") from problem
        self._started = False

    def _name(self, names: Mapping[str, str]) -> None:
        """Note what tables are to be called."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="ascii") as file:
            file.write(json.dumps({"recording": FORMAT, "tables": names}, separators=(",", ":")) + "\n")

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


def record(spark: SparkSession, path: str | os.PathLike[str], *, tables: Mapping[str, Table] | None = None) -> Recorder:
    """Note every query that runs in this session from now on in a file, for ``analyze`` to read.

    A query that reads a table adds one line when it has ended, whoever began it: SQL, a DataFrame, a write. ``explain``
    adds none, nor do commands that read nothing and queries that fail. A file that is there is added to. Use
    ``with sidestep.record(spark, path):`` or call ``stop()`` on what is returned; stopping Spark ends it as well.

    A recording knows tables by their paths. ``tables`` has the paths of some by the names that they are to have when it
    is read, where these are not the names in the catalog or of folders; whoever reads it can still say otherwise.
    """
    return Recorder(spark, path, tables).start()


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
    names = {**_recorded_names(Path(path)), **given_names(tables or {})}
    queries: list[LoggedQuery] = []
    failures: list[Failure] = []
    for source, line in _lines(Path(path)):
        try:
            written = json.loads(line)
            if not _names_tables(written):
                queries.append(_query(written, names, interpret))
        except NewerFormat as problem:
            failures.append(Failure(Statement(line[:200], source=source), str(problem)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SidestepError) as problem:
            reason = f"the line is damaged: {problem or type(problem).__name__}"
            failures.append(Failure(Statement(line[:200], source=source), reason))
    # Lines are in the order in which queries ended.
    return Workload(tuple(sorted(queries, key=lambda query: query.time or 0.0)), tuple(failures))


def _names_tables(written: Any) -> bool:
    """Whether a line has names of tables, and no query."""
    return isinstance(written, dict) and written.get("recording") == FORMAT and isinstance(written.get("tables"), dict)


def _recorded_names(path: Path) -> dict[str, str]:
    """The names that a recording gives to tables, by their paths; of several, the last."""
    names: dict[str, str] = {}
    for _, line in _lines(path):
        if '"tables"' in line[:40]:
            with suppress(ValueError, RecursionError):
                written = json.loads(line)
                if _names_tables(written):
                    names |= given_names({str(name): where for name, where in written["tables"].items()})
    return names


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
