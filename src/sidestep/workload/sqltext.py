"""SQL text cut into statements, as Spark's parser would see their ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NEXT = re.compile(r"""[;'"`]|--|/\*|\$[A-Za-z_]*\$""")
"""Where the meaning of the text may change; all before it is plain."""

_RAW = re.compile(r"""(?<![A-Za-z0-9_])[rR]$""")
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class SqlPiece:
    """One statement of a script, or what stands where a statement should end and does not."""

    text: str
    line: int
    problem: str = ""
    """Why the piece cannot be trusted; empty for a sound statement."""


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
        found = _NEXT.search(script, position)
        plain_end = found.start() if found else len(script)
        if begin is None and (first := _first_word(script, position, plain_end)) is not None:
            begin = first
        if found is None or found[0] == ";":
            if begin is not None:
                line += script.count("\n", line_at, begin)
                line_at = begin
                yield SqlPiece(script[begin:plain_end].strip(), line)
            if found is None:
                return
            begin, position = None, found.end()
            continue
        comment = found[0] in ("--", "/*")
        if begin is None and not comment:
            begin = found.start()
        end = _end_of(script, found)
        if end is None:
            begin = found.start() if begin is None else begin
            line += script.count("\n", line_at, begin)
            opened = line + script.count("\n", begin, found.start())
            what = "comment" if comment else "quote"
            yield SqlPiece(
                script[begin:].strip(), line, f"the {what} {found[0]} opened in line {opened} is never closed"
            )
            return
        position = end


def _first_word(script: str, start: int, end: int) -> int | None:
    """Where the first character that is not a space stands."""
    found = re.compile(r"\S").search(script, start, end)
    return found.start() if found else None


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
