"""Query logs as statements: SQL scripts, JSON lines, CSV, and folders of them.

Spark's own event logs and sidestep's recordings are read where Spark is; they join in as further
:class:`LogReader` values given to :func:`read_log`.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

from sidestep.errors import SidestepError
from sidestep.workload.moments import seconds_since_1970
from sidestep.workload.query import Statement
from sidestep.workload.sqltext import split_statements

FOLD_ABOVE = 100_000
"""Entries that are kept one by one; a longer log has its repeats folded into counts as it is read."""

MOST_NAMED = 100
"""Bad lines that are kept with their reasons; all are counted."""

LONGEST_FIELD = 1 << 30


@dataclass(frozen=True, slots=True)
class BadLine:
    """An entry of a log that is not a statement, or not all of one."""

    source: str
    reason: str


Entry = Statement | BadLine


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

    @property
    def executions(self) -> int:
        """How often any statement ran."""
        return sum(statement.count for statement in self.statements)


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
    gathered = _Gathered()
    for entry in entries:
        gathered.add(entry)
    return gathered.log()


def fold(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Identical statements of one user as one, counts added, first and last time kept; in the order of first sight.

    >>> fold([Statement("SELECT 1", time=5.0), Statement("SELECT 1", time=9.0, count=2)])
    (Statement(sql='SELECT 1', time=5.0, count=3, user=None, source='', last_time=9.0),)
    """
    gathered = _Gathered(fold_above=0)
    for statement in statements:
        gathered.add(statement)
    return gathered.log().statements


@dataclass(slots=True)
class _Folded:
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
class _Gathered:
    """A log while it is read: a list at first, folded once it grows long, so that a million repeats cost one entry."""

    fold_above: int = FOLD_ABOVE
    listed: list[Statement] = field(default_factory=list)
    folded: dict[tuple[str, str | None], _Folded] = field(default_factory=dict)
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
            if len(self.listed) > self.fold_above:
                for statement in self.listed:
                    self._fold(statement)
                self.listed.clear()

    def _fold(self, statement: Statement) -> None:
        key = (statement.sql, statement.user)
        found = self.folded.get(key)
        if found is None:
            found = self.folded[key] = _Folded(statement)
        found.add(statement)

    def log(self) -> Log:
        folded = (found.statement() for found in self.folded.values())
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


def _opened(path: Path) -> IO[str]:
    # utf-8-sig: what spreadsheets export begins with a byte order mark, which would become part of the first word.
    form: dict[str, Any] = {"mode": "rt", "encoding": "utf-8-sig", "errors": "replace", "newline": ""}
    return gzip.open(path, **form) if path.suffix == ".gz" else open(path, **form)


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def _read_sql(path: Path) -> Iterator[Entry]:
    with _opened(path) as file:
        script = file.read()
    yield from _statements(script, f"{path}", first_line=1)


def _statements(script: str, where: str, first_line: int | None, **about: Any) -> Iterator[Entry]:
    """The statements of a text; their line is the text's own (a script) or already part of ``where`` (an entry)."""
    for piece in split_statements(script):
        source = where if first_line is None else f"{where}:{piece.line}"
        if piece.problem:
            yield BadLine(source, piece.problem)
        elif "\ufffd" in piece.text:
            yield BadLine(source, "it is not UTF-8 text")
        else:
            yield Statement(piece.text, source=source, **about)


def _read_json(path: Path) -> Iterator[Entry]:
    with _opened(path) as file:
        first = file.readline()
        if first.lstrip().startswith("["):
            yield from _read_json_list(path, first + file.read())
            return
        for number, line in enumerate(chain([first], file), 1):
            if line.strip():
                source = f"{path}:{number}"
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield BadLine(source, f"it is not JSON: {error}")
                else:
                    yield from _entry(found, source)


def _read_json_list(path: Path, text: str) -> Iterator[Entry]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield BadLine(str(path), f"it is not JSON: {error}")
        return
    for number, found in enumerate(listed, 1):
        yield from _entry(found, f"{path} entry {number}")


def _read_csv(path: Path) -> Iterator[Entry]:
    csv.field_size_limit(LONGEST_FIELD)  # generated queries are longer than the 128 kB that csv allows at first
    with _opened(path) as file:
        rows = csv.DictReader(file)
        names = [name.strip().lower() for name in rows.fieldnames or ()]
        if not names:
            return
        if "sql" not in names:
            raise SidestepError(
                f"{path} has no column named sql: its first line should name the columns (sql, and if there are such "
                f"time, count and user), but it reads {', '.join(names)[:200]}."
            )
        rows.fieldnames = names
        try:
            for row in rows:
                yield from _entry(row, f"{path}:{rows.line_num}")
        except csv.Error as error:
            yield BadLine(f"{path}:{rows.line_num}", f"the rest is not CSV: {error}")


def _entry(found: Any, source: str) -> Iterator[Entry]:
    """The statements of one JSON object or CSV row; a bad time costs the time, not the statement."""
    if not isinstance(found, Mapping):
        yield BadLine(source, "it is not a JSON object")
        return
    row = {str(name).lower(): value for name, value in found.items()}
    sql = row.get("sql")
    if not isinstance(sql, str) or not sql.strip():
        yield BadLine(source, "it has no sql" if not sql else "its sql is not a text")
        return
    try:
        count = int(row.get("count") or 1) if row.get("count") != 0 else 0
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        yield BadLine(source, f"its count is not a whole number above zero: {row.get('count')!r}")
        return
    try:
        time = seconds_since_1970(row.get("time"))
    except ValueError as error:
        time = None
        yield BadLine(source, f"its time was left out: {error}")
    user = row.get("user")
    named = None if user in (None, "") else str(user)
    yield from _statements(sql, source, None, time=time, count=count, user=named)


_SUFFIXES: dict[str, Callable[[Path], Iterator[Entry]]] = {
    ".sql": _read_sql,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".json": _read_json,
    ".csv": _read_csv,
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
