"""Conditions on a date or time: those that recur from query to query, and those that move on with the calendar.

``day > DATE '2024-05-01'`` is asked once and never again; ``hour(departure) >= 6`` and ``dayofweek(departure) = 1`` are
asked every day. What sidestep does not look into is told apart by its text, as Spark writes it:

* A condition with an absolute date or time in it moves: ``date_trunc('HOUR', t) = TIMESTAMP '2024-05-01 06:00:00'``.
* So does one that asks where on the calendar the column is: as it is, by its year, by a count of days or seconds, or as
  text that begins with a year.
* All else recurs: what takes of the column its hour, its weekday, its month, or gives it to a function that is no
  measure of time, with any expression around (CASE, arithmetic, a list); and what holds parts of the column against
  each other, as ``t = date_trunc('DAY', t)`` and ``t - date_trunc('DAY', t) < INTERVAL '06' HOUR`` do.

A wrong verdict costs a feature, or is one that later queries do not use; answers do not depend on it.

>>> [recurs(text, ["t"]) for text in ("(hour(t) >= 6)", "(dayofweek(CAST(t AS DATE)) IN (1, 7))", "(year(t) = 1995)")]
[True, True, False]
>>> recurs("(t = date_trunc('DAY', t))", ["t"]), recurs("(date_trunc('DAY', t) = TIMESTAMP '2024-05-01')", ["t"])
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

_SAME = frozenset(
    {
        *("", "cast", "date", "timestamp", "to_date", "to_timestamp", "coalesce", "nvl", "if", "greatest", "least"),
        *(
            "date_trunc",
            "trunc",
            "last_day",
            "next_day",
            "date_add",
            "date_sub",
            "dateadd",
            "add_months",
            "timestampadd",
        ),
        *("from_utc_timestamp", "to_utc_timestamp", "convert_timezone"),
    }
)
"""What gives a moment for a moment, near by: what is asked of it is asked of the column."""
_PLACES = frozenset(
    {
        *("year", "yearofweek", "datediff", "date_diff", "timestampdiff", "months_between", "to_char", "to_varchar"),
        *("unix_timestamp", "to_unix_timestamp", "unix_date", "unix_seconds", "unix_millis", "unix_micros", "hash"),
        *("xxhash64", "string", "date_from_unix_date"),
    }
)
"""What says where on the calendar a moment is."""
_FORMAT = "date_format"
_YEAR = re.compile("[yuYG]")
"""Letters of a pattern by which a date is written with its year."""
_MOMENTS = ("date", "timestamp")
"""What the names of the types of moments begin with, and those of the constants."""
_KEYWORDS = frozenset({"and", "or", "not", "in", "case", "when", "then", "else", "between", "is", "like", "as"})
_CUT = "..."
"""What a text ends with that was too long to be written in full."""
_TOKEN = re.compile(r"'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`|[A-Za-z_]\w*|[(),]|[^\sA-Za-z_'`(),]+")


def recurs(text: str, columns: Collection[str]) -> bool:
    """Whether a condition on columns of dates or times, of which this is the text, asks for what comes again."""
    tokens: list[str] = _TOKEN.findall(text)
    if text.endswith(_CUT) or names_moment(text):
        return False
    passed_on = 0
    for calls in _uses(tokens, columns):
        telling = next((call for call in reversed(calls) if not call.gives_moment), None)
        if telling is None:
            passed_on += 1
        elif telling.places:
            return False
    # A moment that meets nothing but constants is compared with where it is; two of them with each other.
    return passed_on != 1


def names_moment(text: str) -> bool:
    """Whether an absolute date or time is in the text of a condition."""
    tokens: list[str] = _TOKEN.findall(text)
    return any(one.lower().startswith(_MOMENTS) and two.startswith("'") for one, two in pairwise(tokens))


@dataclass(frozen=True, slots=True)
class _Call:
    """A function, or mere parentheses, around a mention of a column."""

    name: str
    """In lower case; empty for parentheses."""
    last: str
    """The last of what stands in them: of a cast its type, of a format its pattern."""

    @property
    def gives_moment(self) -> bool:
        return self.name in _SAME and (self.name != "cast" or self.last.lower().startswith(_MOMENTS))

    @property
    def places(self) -> bool:
        """Whether it says where on the calendar a moment is."""
        if self.name == _FORMAT:
            return not self.last.startswith("'") or bool(_YEAR.search(self.last))
        return self.name in _PLACES or self.name == "cast"


def _uses(tokens: list[str], columns: Collection[str]) -> Iterator[list[_Call]]:
    """The calls around each mention of a column, the outermost first."""
    ends = _matching(tokens)
    open_at: list[int] = []
    for at, token in enumerate(tokens):
        if token == "(":
            open_at.append(at)
        elif token == ")" and open_at:
            open_at.pop()
        elif _name(token) in columns and not (at + 1 < len(tokens) and tokens[at + 1] == "("):
            yield [_call(tokens, begin, ends.get(begin, len(tokens))) for begin in open_at]


def _call(tokens: list[str], begin: int, end: int) -> _Call:
    before = tokens[begin - 1].lower() if begin else ""
    named = re.match(r"[a-z_`]", before) and before not in _KEYWORDS
    return _Call(before if named else "", tokens[end - 1])


def _matching(tokens: list[str]) -> dict[int, int]:
    """Where the parenthesis closes that opens at each place."""
    open_at: list[int] = []
    ends: dict[int, int] = {}
    for at, token in enumerate(tokens):
        if token == "(":
            open_at.append(at)
        elif token == ")" and open_at:
            ends[open_at.pop()] = at
    return ends


def _name(token: str) -> str:
    return token[1:-1].replace("``", "`") if token.startswith("`") else token
