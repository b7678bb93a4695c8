"""``sidestep.analyze``: from a log of any kind to features, with all that says how good they are."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from typing import Literal as OneOf

from pyspark.sql import SparkSession

from sidestep.errors import SidestepError
from sidestep.render.document import Command, Heading, Paragraph, Part
from sidestep.render.report import Report
from sidestep.spark.jvm.sessions import leaves_session_active
from sidestep.spark.log.event_log import is_event_log, read_event_log
from sidestep.spark.log.fp_growth import FrequentSets
from sidestep.spark.log.recording import is_recording, read_recording
from sidestep.spark.log.statements import Table, analyze_statements
from sidestep.spark.log.uses import Interpret, given_names, query_uses
from sidestep.spark.progress import Progress, Watch
from sidestep.workload import (
    Analysis,
    Eligibility,
    ExtractOptions,
    Failure,
    FeatureSet,
    LoggedQuery,
    Statement,
    TableAnalysis,
    Workload,
    closed_sets,
    read_log,
    to_json,
)
from sidestep.workload import analyze as analyze_workload

LogSource = str | os.PathLike[str] | Sequence[str] | Workload
"""A log: a file or a folder of any kind, a list of statements, or what one was read as."""
MOST_FAILURES = 1_000


@dataclass(frozen=True, slots=True)
class LogAnalysis(Report):
    """What a log says of its tables. Prints as a report, shows as HTML in a notebook, and is data by ``to_dict``."""

    _title: ClassVar[str] = "Workload analysis"

    analysis: Analysis
    failures: tuple[Failure, ...] = ()
    """The statements that were not understood, each with the reason."""
    statements: tuple[Statement, ...] = ()
    """Those that were, as far as the log has their text."""
    command: str = "sidestep advise LOG -t NAME=PATH"
    """The next step."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that were analyzed, most read first."""
        return tuple(table.table for table in self.analysis.tables)

    def table(self, name: str) -> TableAnalysis:
        """All about one table."""
        return self.analysis.table(name)

    def features(self, table: str | None = None) -> FeatureSet:
        """The features of a table; the name may be left out where there is one table."""
        if table is None and len(self.tables) != 1:
            raise SidestepError(f"The log reads {', '.join(self.tables)}: say whose features are meant.")
        return self.analysis.table(table or self.tables[0]).features

    def save_features(self, path: str | os.PathLike[str]) -> list[Path]:
        """Save the feature set of each table; of several tables, each into a file with the table's name in it."""
        target = Path(path)
        if len(self.tables) == 1:
            self.features().save(target)
            return [target]
        written = []
        for name in self.tables:
            one = target.with_name(f"{target.stem}.{name.replace('/', '_')}{target.suffix or '.json'}")
            self.features(name).save(one)
            written.append(one)
        return written

    def to_dict(self) -> dict[str, Any]:
        """The analysis as plain data, with the first failures by statement."""
        listed = [
            {
                "source": failure.statement.source,
                "sql": failure.statement.sql[:500],
                "reason": failure.reason,
                "hint": failure.hint,
            }
            for failure in self.failures[:MOST_FAILURES]
        ]
        return {**to_json(self.analysis), "failed": listed}

    def _document(self) -> Iterator[Part]:
        yield from self.analysis._document()
        if any(len(table.features) for table in self.analysis.tables):
            yield Heading("Next step")
            yield Paragraph("See what these queries would read under other layouts; nothing is written:")
            yield Command(self.command)


@leaves_session_active
def analyze(
    spark: SparkSession,
    log: LogSource,
    *,
    tables: Mapping[str, Table] | None = None,
    num_features: int | None = None,
    threshold: int | None = None,
    dates: bool = False,
    negations: bool = False,
    dialect: str | None = None,
    miner: OneOf["spark", "numpy"] = "spark",
    progress: Progress | None = None,
) -> LogAnalysis:
    """What the queries of a log have in common: features of each table, and how well they serve.

    ``log`` is a file or a folder: SQL, JSON lines, CSV, a recording, an event log of Spark; or a list of statements.
    ``tables`` gives the path, or the schema, of each table that statements name; recordings need none. With neither
    ``num_features`` nor ``threshold`` both are chosen by what would have served later queries best. Predicates on
    dates, and negations, become features only if asked for. No statement is run.
    """
    watch = Watch(spark.sparkContext, progress)
    with watch.stage("read the log"):
        workload = read_workload(spark, log, tables or {}, dialect)
    options = ExtractOptions(
        num_features=num_features if num_features is not None else ExtractOptions().num_features,
        threshold=threshold,
        eligibility=Eligibility(dates=dates, negations=negations),
    )
    tune = num_features is None and threshold is None
    # Cross-validation mines dozens of small parts: the same sets, found without a job for each.
    mine = closed_sets if tune or miner == "numpy" else FrequentSets(spark)
    asked = [
        name for name in tables or () if any(use.table == name for query in workload.queries for use in query.uses)
    ]
    with watch.stage("choose features"):
        analysis = analyze_workload(workload, asked or None, options, mine, tune)
    statements = (Statement(one.sql, one.time, one.count, one.user) for one in workload.queries if one.sql)
    return LogAnalysis(analysis, workload.failures, tuple(statements), _next_step(log, tables or {}, analysis))


def _next_step(log: LogSource, tables: Mapping[str, Table], analysis: Analysis) -> str:
    """The command that estimates layouts for the table with most features that queries share."""
    best = max(analysis.tables, key=lambda table: (table.features.covered, -analysis.tables.index(table))).table
    paths = {name: os.fspath(path) for name, path in tables.items() if isinstance(path, str | os.PathLike)}
    words = ["sidestep", "advise", os.fspath(log) if isinstance(log, str | os.PathLike) else "LOG"]
    for name in (best, *(name for name in paths if name != best)):
        words += ["-t", f"{name}={paths.get(name, 'PATH')}"]
    return shlex.join(words)


def read_workload(
    spark: SparkSession,
    log: LogSource,
    tables: Mapping[str, Table],
    dialect: str | None = None,
    interpret: Interpret = query_uses,
) -> Workload:
    """The queries of a log of any kind, in the order of time where each has one.

    ``interpret`` says what a plan asks for; event logs have no plans that it could read.
    """
    if isinstance(log, Workload):
        return log
    if not isinstance(log, str | os.PathLike):
        return analyze_statements(spark, [Statement(sql) for sql in log], tables, dialect, interpret)
    path = Path(log)
    statements: list[Statement] = []
    queries: list[LoggedQuery] = []
    failures: list[Failure] = []
    for kind, part in _parts(path):
        if kind == "recording":
            recorded = read_recording(part, tables, interpret)
            queries += recorded.queries
            failures += recorded.failures
        elif kind == "event log":
            events = read_event_log(part, given_names(tables))
            statements += events.statements
            queries += events.queries
            failures += events.failures
        else:
            written = read_log(part)
            statements += written.statements
            failures += [Failure(Statement("", source=bad.source), bad.reason) for bad in written.bad]
            if (rest := written.bad_count - len(written.bad)) > 0:
                failures.append(Failure(Statement("", count=rest, source=str(part)), "further entries of no use"))
    if statements:
        understood = analyze_statements(spark, statements, tables, dialect, interpret)
        queries += understood.queries
        failures += understood.failures
    if all(query.time is not None for query in queries):
        queries.sort(key=lambda query: query.time or 0.0)
    return Workload(tuple(queries), tuple(failures))


def _parts(path: Path) -> Iterator[tuple[str, Path]]:
    """The logs in a folder, or the one that a path is, each with its kind."""
    if not path.exists():
        raise SidestepError(f"There is no log at {path}: give the path of a file or a folder.")
    if is_event_log(path):
        yield "event log", path
    elif path.is_dir():
        inside = [part for part in sorted(path.iterdir()) if not part.name.startswith((".", "_"))]
        special = [part for part in inside if is_event_log(part) or is_recording(part)]
        if not special:
            yield "log", path
        for part in inside if special else ():
            yield from _parts(part)
    else:
        yield ("recording" if is_recording(path) else "log"), path
