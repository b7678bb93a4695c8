"""Spark's own event logs as statements and queries.

An event log tells of every execution: its description, times, and the physical plan as text. The description is the
SQL text where a server or ``spark-sql`` ran it, or where a program set it as the job's description; else it is only
the line of the program, and what can be had is what the plan's scans print of their filters (:mod:`.eventplan`): no
joins, and columns that a scan's schema was not too long to name. A recording (:mod:`.recording`) has all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidestep.errors import SidestepError
from sidestep.spark.eventplan import scan_uses
from sidestep.spark.unpack import event_lines
from sidestep.spark.uses import table_name
from sidestep.workload.query import Failure, Query, Statement, TableUse

SQL_START = re.compile(
    r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(?:\(\s*)*(?:select|with|from|insert|create|merge|table)\b", re.I | re.S
)
CALL_SITE = re.compile(r"\w+ at \S+:\d+")
START = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
END = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd"
ROLLED = re.compile(r"events_(\d+)_")


@dataclass(frozen=True, slots=True)
class EventLog:
    """What an event log tells of the queries that ran to their end."""

    statements: tuple[Statement, ...]
    """Those with SQL text."""
    queries: tuple[Query, ...]
    """Those whose scans' filters are all there is."""
    failures: tuple[Failure, ...] = ()
    """What could not be had, and why."""


def is_event_log(path: Path) -> bool:
    """Whether this is an event log: a folder of a rolled one, or a file that begins with Spark's first event."""
    if path.is_dir():
        return path.name.startswith("eventlog_v2_")
    try:
        with closing(event_lines(path)) as lines:
            return '"SparkListener' in next(lines, "")[:60]
    except (OSError, SidestepError, ValueError):
        return path.name.endswith(".lzf")


def read_event_log(path: str | Path, names: Mapping[str, str] | None = None) -> EventLog:
    """The queries of an event log, plain or compressed, one file or rolled; ``names`` calls tables by their paths."""
    log = Path(path)
    started: dict[int, dict[str, Any]] = {}
    ended: dict[int, dict[str, Any]] = {}
    failures: list[Failure] = []
    user: str | None = None
    for file in event_files(log):
        for number, line in enumerate(event_lines(file), 1):
            event = _event(line)
            if event is None:
                reason = "the line is cut off or damaged, so the event was left out"
                failures.append(Failure(Statement(line[:100], source=f"{file}:{number}"), reason))
            elif event.get("Event") == START:
                started[event["executionId"]] = event
            elif event.get("Event") == END:
                ended[event["executionId"]] = event
            elif event.get("Event") == "SparkListenerApplicationStart":
                user = event.get("User")
    statements: list[Statement] = []
    queries: list[Query] = []
    for number, start in started.items():
        end = ended.get(number, {})
        # An execution inside another is part of it; one that failed says nothing certain of what was wanted.
        if start.get("rootExecutionId", number) not in (None, number) or end.get("errorMessage"):
            continue
        description = str(start.get("description") or "")
        if SQL_START.match(description) and not CALL_SITE.fullmatch(description):
            source = f"{log} execution {number}"
            statements.append(Statement(description.rstrip(" ;\n"), start["time"] / 1e3, user=user, source=source))
        else:
            queries += _queries(start, end, user, names or {})
    return EventLog(tuple(statements), tuple(queries), tuple(failures))


def event_files(log: Path) -> Iterator[Path]:
    """The files of a log in the order they were written; of a rolled one, that which was compacted is not there."""
    if not log.is_dir():
        yield log
        return
    found = {path: match for path in log.iterdir() if (match := ROLLED.match(path.name))}
    if not found:
        raise SidestepError(f"{log} has no event files: a rolled event log has files named events_1_….")
    # A compacted file stands for all before it.
    compacted = max((int(match[1]) for path, match in found.items() if path.name.endswith(".compact")), default=0)
    for path, match in sorted(found.items(), key=lambda pair: int(pair[1][1])):
        if int(match[1]) > compacted or path.name.endswith(".compact"):
            yield path


def _event(line: str) -> dict[str, Any] | None:
    # Nearly all events are about tasks: they are not worth parsing.
    if "SQLExecution" not in line[:120] and "ApplicationStart" not in line[:60]:
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _queries(
    start: Mapping[str, Any], end: Mapping[str, Any], user: str | None, names: Mapping[str, str]
) -> Iterator[Query]:
    uses = [
        TableUse(table_name(scan, names), use.predicates, use.columns)
        for scan, use in scan_uses(start.get("sparkPlanInfo") or {})
    ]
    if uses:
        seconds = (end["time"] - start["time"]) / 1e3 if end else None
        yield Query(tuple(uses), time=start["time"] / 1e3, user=user, seconds=seconds)
