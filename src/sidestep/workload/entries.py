"""The entries of one log file: an SQL script, JSON lines or CSV."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from sidestep.errors import SidestepError
from sidestep.workload.moments import seconds_since_1970
from sidestep.workload.query import Statement
from sidestep.workload.sqltext import split_statements

LONGEST_FIELD = 1 << 30


@dataclass(frozen=True, slots=True)
class BadLine:
    """An entry of a log that is not a statement, or not all of one."""

    source: str
    reason: str


Entry = Statement | BadLine


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    # utf-8-sig: what spreadsheets export begins with a byte order mark, which would become part of the first word.
    form: dict[str, Any] = {"mode": "rt", "encoding": "utf-8-sig", "errors": "replace", "newline": ""}
    try:
        with gzip.open(path, **form) if path.suffix == ".gz" else open(path, **form) as file:
            yield file
    except (OSError, EOFError) as error:
        raise SidestepError(f"The log {path} could not be read: {error}.") from error


def read_sql(path: Path) -> Iterator[Entry]:
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


def read_json(path: Path) -> Iterator[Entry]:
    with _opened(path) as file:
        first = file.readline()
        if first.lstrip().startswith("["):
            yield from _json_list(path, first + file.read())
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


def _json_list(path: Path, text: str) -> Iterator[Entry]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield BadLine(str(path), f"it is not JSON: {error}")
        return
    for number, found in enumerate(listed, 1):
        yield from _entry(found, f"{path} entry {number}")


def read_csv(path: Path) -> Iterator[Entry]:
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
