"""Query logs as statements: SQL scripts, JSON lines, CSV, and folders of them.

Spark's own event logs and sidestep's recordings are read where Spark is; they join in as further
:class:`LogReader` values given to :func:`read_log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from sidestep.errors import SidestepError
from sidestep.workload.logs.entries import BadLine, Entry, read_csv, read_json, read_sql
from sidestep.workload.query import Statement

FOLD_ABOVE = 100_000
"""Entries that are kept one by one; a longer log has its repeats folded into counts as it is read."""

MOST_NAMED = 100
"""Bad lines that are kept with their reasons; all are counted."""


@dataclass(frozen=True, slots=True)
class LogReader:
    """One kind of log: how a file of it is known, and how it is read."""

    name: str
    recognizes: Callable[[Path], bool]
    read: Callable[[Path], Iterator[Entry]]


@dataclass(frozen=True, slots=True)
class Log:
    """What a log holds."""

    statements: tuple[Statement, ...]
    bad: tuple[BadLine, ...] = ()
    """The first bad lines, named."""
    bad_count: int = 0


def read_log(path: str | Path, readers: Sequence[LogReader] | None = None) -> Log:
    """The statements of a file or of all files in a folder (in the order of their names), in the log's own order.

    ``readers`` are asked in order which of them recognizes a file (or a whole folder, so that a kind of log may be
    one); the default is :data:`READERS`. A log of more than :data:`FOLD_ABOVE` entries comes back with identical
    statements folded: one entry with their count, and the first and last time.
    """
    chosen = READERS if readers is None else tuple(readers)
    log = Path(path)
    if not log.exists():
        raise SidestepError(f"There is no log at {log}: give the path of a file or a folder.")
    entries = _entries(log, chosen)
    if entries is None:
        raise SidestepError(
            f"{log} is not a log that is understood. Its name should say what it is: {', '.join(_SUFFIXES)}, each "
            f"also with .gz; the kinds known are {', '.join(reader.name for reader in chosen)}."
        )
    builder = _LogBuilder()
    for entry in entries:
        builder.add(entry)
    return builder.log()


@dataclass(slots=True)
class _Repeats:
    """Repeats of one statement while they are counted."""

    first: Statement
    count: int = 0
    low: float | None = None
    high: float | None = None

    def add(self, again: Statement) -> None:
        self.count += again.count
        for time in (again.time, again.last_time):
            if time is not None:
                self.low = time if self.low is None else min(self.low, time)
                self.high = time if self.high is None else max(self.high, time)

    def statement(self) -> Statement:
        first = self.first
        last = self.high if self.high != self.low else None
        return Statement(first.sql, self.low, self.count, first.user, first.source, last)


@dataclass(slots=True)
class _LogBuilder:
    """A log while it is read: a list at first, folded once it grows long, so that a million repeats cost one entry."""

    listed: list[Statement] = field(default_factory=list)
    folded: dict[tuple[str, str | None], _Repeats] = field(default_factory=dict)
    bad: list[BadLine] = field(default_factory=list)
    bad_count: int = 0

    def add(self, entry: Entry) -> None:
        if isinstance(entry, BadLine):
            self.bad_count += 1
            if len(self.bad) < MOST_NAMED:
                self.bad.append(entry)
        elif self.folded:
            self._fold(entry)
        else:
            self.listed.append(entry)
            if len(self.listed) > FOLD_ABOVE:
                for statement in self.listed:
                    self._fold(statement)
                self.listed.clear()

    def _fold(self, statement: Statement) -> None:
        key = (statement.sql, statement.user)
        repeats = self.folded.get(key)
        if repeats is None:
            repeats = self.folded[key] = _Repeats(statement)
        repeats.add(statement)

    def log(self) -> Log:
        folded = (repeats.statement() for repeats in self.folded.values())
        return Log(tuple(chain(self.listed, folded)), tuple(self.bad), self.bad_count)


def _entries(log: Path, readers: Sequence[LogReader]) -> Iterator[Entry] | None:
    for reader in readers:
        if reader.recognizes(log):
            return reader.read(log)
    return _in_folder(log, readers) if log.is_dir() else None


def _in_folder(folder: Path, readers: Sequence[LogReader]) -> Iterator[Entry]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        entries = _entries(path, readers)
        if entries is None:
            yield BadLine(str(path), "its name is not that of a log, so the file was left out")
        else:
            yield from entries


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


_SUFFIXES: dict[str, Callable[[Path], Iterator[Entry]]] = {
    ".sql": read_sql,
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".json": read_json,
    ".csv": read_csv,
}


def _by_suffix(name: str, *suffixes: str) -> LogReader:
    def recognizes(path: Path) -> bool:
        return path.is_file() and _suffix(path) in suffixes

    return LogReader(name, recognizes, lambda path: _SUFFIXES[_suffix(path)](path))


READERS: tuple[LogReader, ...] = (
    _by_suffix("SQL script", ".sql"),
    _by_suffix("JSON lines", ".jsonl", ".ndjson", ".json"),
    _by_suffix("CSV", ".csv"),
)
"""The kinds of log that need no Spark."""
