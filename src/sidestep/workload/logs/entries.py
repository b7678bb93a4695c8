"""The entries of one log file: an SQL script, JSON lines or CSV.

A text of several statements is split where Spark's parser would see them end. Times may be counts since 1970 in any
usual unit, or ISO dates.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from sidestep.errors import SidestepError
from sidestep.workload.query import Statement

LONGEST_FIELD = 1 << 30
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""From which size on a count is taken as nano-, micro- or milliseconds: 1e11 seconds are the year 5138."""
_NEXT = re.compile(r"""[;'"`]|--|/\*|\$[A-Za-z_]*\$""")
"""Where the meaning of the text may change; all before it is plain."""
_RAW = re.compile(r"""(?<![A-Za-z0-9_])[rR]$""")
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class BadLine:
    """An entry of a log that is not a statement, or not all of one."""

    source: str
    reason: str


Entry = Statement | BadLine


@dataclass(frozen=True, slots=True)
class SqlPiece:
    """One statement of a script, or what stands where a statement should end and does not."""

    text: str
    line: int
    problem: str = ""
    """Why the piece cannot be trusted; empty for a sound statement."""


def read_sql(path: Path) -> Iterator[Entry]:
    """The statements of an SQL script."""
    with _open_text(path) as file:
        script = file.read()
    yield from _statements(script, f"{path}", first_line=1)


def read_json(path: Path) -> Iterator[Entry]:
    """The statements of a file with one JSON object per line, or with one list of them."""
    with _open_text(path) as file:
        first = file.readline()
        if first.lstrip().startswith("["):
            yield from _json_list(path, first + file.read())
            return
        for number, line in enumerate(chain([first], file), 1):
            if line.strip():
                source = f"{path}:{number}"
                try:
                    written = json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield BadLine(source, f"it is not JSON: {error}")
                else:
                    yield from _entry(written, source)


def read_csv(path: Path) -> Iterator[Entry]:
    """The statements of a CSV file whose first line names its columns."""
    csv.field_size_limit(LONGEST_FIELD)  # generated queries are longer than the 128 kB that csv allows at first
    with _open_text(path) as file:
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


def seconds_since_1970(written: object) -> float | None:
    """The moment in seconds; None where there is none; a ValueError where it cannot be read.

    A date without a time zone is taken as UTC: what matters here is the order of queries, not the hour on a wall.

    >>> seconds_since_1970(1_700_000_000_123), seconds_since_1970("2023-11-14T22:13:20Z"), seconds_since_1970("")
    (1700000000.123, 1700000000.0, None)
    """
    if written is None or written == "":
        return None
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError(f"{written!r} is neither a count since 1970 nor an ISO date")
    try:
        number = float(written)
    except (ValueError, OverflowError):
        return _parse_iso(str(written))
    if not math.isfinite(number):
        raise ValueError(f"{written!r} is no moment")
    return next((number / unit for least, unit in _UNITS if abs(number) >= least), number)


def split_statements(script: str) -> Iterator[SqlPiece]:
    """The statements between semicolons; one inside quotes, backquotes, dollar quotes or comments ends nothing.

    Comments before a statement are left out, comments inside it stay. What holds nothing but comments is no statement.

    >>> [piece.text for piece in split_statements("SELECT ';' -- a; b\\n; /* none; */ ; SELECT `x;y` FROM t")]
    ["SELECT ';' -- a; b", 'SELECT `x;y` FROM t']
    """
    line, line_at = 1, 0
    begin: int | None = None
    position = 0
    while True:
        mark = _NEXT.search(script, position)
        plain_end = mark.start() if mark else len(script)
        if begin is None and (first := _first_word(script, position, plain_end)) is not None:
            begin = first
        if mark is None or mark[0] == ";":
            if begin is not None:
                line += script.count("\n", line_at, begin)
                line_at = begin
                yield SqlPiece(script[begin:plain_end].strip(), line)
            if mark is None:
                return
            begin, position = None, mark.end()
            continue
        comment = mark[0] in ("--", "/*")
        if begin is None and not comment:
            begin = mark.start()
        end = _end_of(script, mark)
        if end is None:
            begin = mark.start() if begin is None else begin
            line += script.count("\n", line_at, begin)
            opened = line + script.count("\n", begin, mark.start())
            what = "comment" if comment else "quote"
            yield SqlPiece(
                script[begin:].strip(), line, f"the {what} {mark[0]} opened in line {opened} is never closed"
            )
            return
        position = end


@contextmanager
def _open_text(path: Path) -> Iterator[IO[str]]:
    # utf-8-sig: what spreadsheets export begins with a byte order mark, which would become part of the first word.
    form: dict[str, Any] = {"mode": "rt", "encoding": "utf-8-sig", "errors": "replace", "newline": ""}
    try:
        with gzip.open(path, **form) if path.suffix == ".gz" else open(path, **form) as file:
            yield file
    except (OSError, EOFError) as error:
        raise SidestepError(f"The log {path} could not be read: {error}.") from error


def _json_list(path: Path, text: str) -> Iterator[Entry]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield BadLine(str(path), f"it is not JSON: {error}")
        return
    for number, written in enumerate(listed, 1):
        yield from _entry(written, f"{path} entry {number}")


def _entry(written: Any, source: str) -> Iterator[Entry]:
    """The statements of one JSON object or CSV row; a bad time costs the time, not the statement."""
    if not isinstance(written, Mapping):
        yield BadLine(source, "it is not a JSON object")
        return
    row = {str(name).lower(): value for name, value in written.items()}
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


def _parse_iso(text: str) -> float:
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text[:80]!r} is neither a count since 1970 nor an ISO date") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def _first_word(script: str, start: int, end: int) -> int | None:
    """Where the first character that is not a space stands."""
    word = re.compile(r"\S").search(script, start, end)
    return word.start() if word else None


def _end_of(script: str, opening: re.Match[str]) -> int | None:
    """Just behind the quote or comment that opens there; None if it never ends."""
    mark, start = opening[0], opening.end()
    if mark == "--":
        end = script.find("\n", start)
        return len(script) if end < 0 else end + 1
    if mark == "/*":
        return _end_of_comment(script, start)
    if mark.startswith("$"):
        end = script.find(mark, start)
        # A lone $name$ is no dollar quote: Spark has none, so only text that closes is taken as one.
        return end + len(mark) if end >= 0 else start
    if mark == "`" or _RAW.search(script, max(0, opening.start() - 1), opening.start()):
        end = script.find(mark, start)
        return end + 1 if end >= 0 else None
    while (end := script.find(mark, start)) >= 0:
        escapes = end - len(script[start:end].rstrip("\\")) - start
        if escapes % 2 == 0:
            return end + 1
        start = end + 1
    return None


def _end_of_comment(script: str, start: int) -> int | None:
    """Bracketed comments nest in Spark's SQL."""
    depth = 1
    while (edge := _COMMENT_EDGE.search(script, start)) is not None:
        depth += 1 if edge[0] == "/*" else -1
        start = edge.end()
        if depth == 0:
            return start
    return None
