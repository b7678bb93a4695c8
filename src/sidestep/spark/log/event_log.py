"""Spark's own event logs as statements and queries.

An event log tells of every execution: its description, times, and the physical plan as text. The description is the
SQL text where a server or ``spark-sql`` ran it, or where a program set it as the job's description. Else it is only
the line of the program, and all that can be read is what the plan's scans print of their filters (:mod:`.event_plan`):
no joins, and of the columns only those that a scan's schema was short enough to name. A recording (:mod:`.recording`)
has everything.

Logs may be compressed by any of Spark's codecs but lzf. zstd is the common stream; lz4 and snappy are the framings of
lz4-java's ``LZ4BlockOutputStream`` and snappy-java's ``SnappyOutputStream``, read here with pyarrow's raw codecs. A log
that is still being written, or was cut off by a crash, ends in the middle of a frame: all before it is read.
"""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.spark.log.event_plan import scan_uses
from sidestep.spark.log.uses import table_name
from sidestep.workload.query import Failure, LoggedQuery, Statement, TableUse

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
    queries: tuple[LoggedQuery, ...]
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
    queries: list[LoggedQuery] = []
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
    """The files of a log in the order they were written, without those that a compacted file stands for."""
    if not log.is_dir():
        yield log
        return
    numbered = {path: int(match[1]) for path in log.iterdir() if (match := ROLLED.match(path.name))}
    if not numbered:
        raise SidestepError(f"{log} has no event files: a rolled event log has files named events_1_….")
    # A compacted file stands for all before it.
    compacted = max((number for path, number in numbered.items() if path.name.endswith(".compact")), default=0)
    for path, number in sorted(numbered.items(), key=lambda pair: pair[1]):
        if number > compacted or path.name.endswith(".compact"):
            yield path


def _event(line: str) -> dict[str, Any] | None:
    """The event of a line, empty if it is of a kind that does not matter; None if the line is damaged."""
    # Nearly all events are about tasks: they are not worth parsing.
    if "SQLExecution" not in line[:120] and "ApplicationStart" not in line[:60]:
        return {}
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _queries(
    start: Mapping[str, Any], end: Mapping[str, Any], user: str | None, names: Mapping[str, str]
) -> Iterator[LoggedQuery]:
    uses = [
        TableUse(table_name(scan, names), use.predicates, use.columns)
        for scan, use in scan_uses(start.get("sparkPlanInfo") or {})
    ]
    if uses:
        seconds = (end["time"] - start["time"]) / 1e3 if end else None
        yield LoggedQuery(tuple(uses), time=start["time"] / 1e3, user=user, seconds=seconds)


LZ4_MAGIC = b"LZ4Block"
LZ4_HEADER = struct.Struct("<8sBiiI")
LZ4_PLAIN = 0x10
"""The block is stored as it is; 0x20 is compressed. The other half of the byte is a level for writers."""
SNAPPY_MAGIC = b"\x82SNAPPY\x00"
SNAPPY_HEADER = 16
"""The magic, and two versions of four bytes."""


def event_lines(path: Path) -> Generator[str]:
    """The lines of an event log, one event each."""
    name = path.name.removesuffix(".inprogress")
    suffix = name.rpartition(".")[2] if "." in name else ""
    unpack = _CODECS.get(suffix)
    with open(path, "rb") as file:
        if unpack is None:
            with io.TextIOWrapper(file, "utf-8", errors="replace") as text:
                yield from text
            return
        yield from _lines(unpack(file))


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line.decode("utf-8", errors="replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", errors="replace")


def _zstd(file: IO[bytes]) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
    while True:
        try:
            piece = stream.read(1 << 20)
        except OSError:
            return
        if not piece:
            return
        yield piece


def _lz4(file: IO[bytes]) -> Iterator[bytes]:
    codec = pa.Codec("lz4_raw")
    while len(header := file.read(LZ4_HEADER.size)) == LZ4_HEADER.size:
        magic, token, packed, plain, _ = LZ4_HEADER.unpack(header)
        if magic != LZ4_MAGIC or packed < 0 or plain < 0:
            raise SidestepError(f"{getattr(file, 'name', 'The log')} is not lz4 as Spark writes it.")
        data = file.read(packed)
        if len(data) < packed:
            return
        if plain:
            yield data if token & 0xF0 == LZ4_PLAIN else codec.decompress(data, plain, asbytes=True)


def _snappy(file: IO[bytes]) -> Iterator[bytes]:
    codec = pa.Codec("snappy")
    header = file.read(SNAPPY_HEADER)
    if not header.startswith(SNAPPY_MAGIC):
        raise SidestepError(f"{getattr(file, 'name', 'The log')} is not snappy as Spark writes it.")
    while len(size := file.read(4)) == 4:
        if size == SNAPPY_MAGIC[:4]:
            # Another stream was appended: its header comes again.
            file.read(SNAPPY_HEADER - 4)
            continue
        (packed,) = struct.unpack(">i", size)
        data = file.read(packed)
        if len(data) < packed:
            return
        yield codec.decompress(data, _snappy_length(data), asbytes=True)


def _snappy_length(data: bytes) -> int:
    """A raw snappy block begins with its plain length, seven bits a byte, the lowest first."""
    length = 0
    for position, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            break
    return length


def _lzf(file: IO[bytes]) -> Iterator[bytes]:
    raise SidestepError(
        f"{getattr(file, 'name', 'The log')} is compressed with lzf, which is not read here. Set "
        "spark.eventLog.compression.codec to zstd for later logs."
    )


_CODECS: dict[str, Callable[[IO[bytes]], Iterator[bytes]]] = {
    "zstd": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
    "lzf": _lzf,
}
