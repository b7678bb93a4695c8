"""What a query log says, once each statement is understood: queries as sets of predicates, per table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sidestep.predicate import Predicate
from sidestep.render import shorten
from sidestep.render.document import Cell, Grid, number

MOST_REASONS = 4
"""Reasons for which statements are not used, that a sentence tells: those of most."""
SHOWN_TEXT = 200
"""Characters of a reason that a table shows."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One entry of a log as it was read, before anyone has looked into it."""

    sql: str
    time: float | None = None
    """When it (first) ran, in seconds since 1970, if the log says so."""
    count: int = 1
    """How often it ran."""
    user: str | None = None
    source: str = ""
    """Where it stands, for messages: file and line."""
    last_time: float | None = None
    """When it ran last, if ``count`` stands for runs at several times."""


@dataclass(frozen=True, slots=True)
class TableUse:
    """One occurrence of a table in a query: what must hold for its rows, and which columns are touched.

    ``predicates`` is the thesis's model of a query (3.3.1): a conjunction of predicates, each possibly a disjunction of
    literals. Columns are the table's own names, constants are folded, what Catalyst inferred without need is left out.
    """

    table: str
    predicates: frozenset[Predicate]
    columns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JoinUse:
    """An equality between columns of two tables that a query joins on."""

    left: tuple[str, str]
    """(table, column)."""
    right: tuple[str, str]


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """A query of the workload."""

    uses: tuple[TableUse, ...]
    joins: tuple[JoinUse, ...] = ()
    sql: str = ""
    time: float | None = None
    count: int = 1
    user: str | None = None
    seconds: float | None = None
    rows: int | None = None
    """Rows that its scans delivered, if it was recorded."""
    bytes: int | None = None
    last_time: float | None = None
    """When it ran last, if ``count`` stands for runs at several times."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A statement that could not be understood, and why."""

    statement: Statement
    reason: str
    hint: str = ""
    """What to pass or do, so that it would be."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The statements that could not be understood for one reason."""

    reason: str
    count: int
    """How often they ran."""
    hint: str = ""
    example: str = ""
    """One of them: where it stands, and how it begins."""

    def __str__(self) -> str:
        return f"{self.count:,}, {self.reason.rstrip('.')}" + (f" ({self.hint})" if self.hint else "")


def group_failures(failures: Iterable[Failure]) -> tuple[FailureGroup, ...]:
    """The failures by reason, those of most statements first.

    >>> [str(group) for group in group_failures([Failure(Statement("?", count=2), "not parsable", "say dialect=…")])]
    ['2, not parsable (say dialect=…)']
    """
    counts: dict[str, int] = {}
    first: dict[str, Failure] = {}
    for failure in failures:
        counts[failure.reason] = counts.get(failure.reason, 0) + failure.statement.count
        first.setdefault(failure.reason, failure)
    return tuple(
        FailureGroup(reason, count, first[reason].hint, _place_and_text(first[reason].statement))
        for reason, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    )


def failures_table(groups: Iterable[FailureGroup]) -> Grid:
    """Why statements were not understood, and what to do about it."""
    rows: list[list[Cell | str]] = [
        [
            Cell(
                shorten(group.reason, SHOWN_TEXT),
                more="for example" * bool(group.example),
                lines=(group.example,),
            ),
            f"{group.count:,}",
            Cell(group.hint, code=True),
        ]
        for group in groups
    ]
    return Grid(("not understood because", number("statements"), "what to pass or do"), rows)


def _place_and_text(statement: Statement) -> str:
    text = shorten(statement.sql, SHOWN_TEXT)
    return f"{statement.source}: {text}" if statement.source and text else statement.source or text


@dataclass(frozen=True, slots=True)
class Workload:
    """The queries of a log in the order they ran, and the statements that are not among them."""

    queries: tuple[LoggedQuery, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the statements that are not among the queries: how many, and for which reasons.

        >>> lost = Failure(Statement("SELECT 1 FROM nope", count=2), "unknown table nope", "tables={'nope': PATH}")
        >>> Workload((), (lost, Failure(Statement("?"), "not parsable"))).notes[0]
        "3 statements of the log could not be used: 2, unknown table nope (tables={'nope': PATH}); 1, not parsable."
        """
        groups = self.not_understood
        if not groups:
            return ()
        many = sum(group.count for group in groups)
        listed = [str(group) for group in groups[:MOST_REASONS]]
        if (left := len(groups) - len(listed)) > 0:
            listed.append(f"{left:,} further reasons (sidestep analyze lists them)")
        return (f"{many:,} statement{'s' * (many != 1)} of the log could not be used: {'; '.join(listed)}.",)

    @property
    def not_understood(self) -> tuple[FailureGroup, ...]:
        """The failures by reason, those of most statements first."""
        return group_failures(self.failures)
