"""What a query log says, once each statement is understood: queries as sets of predicates, per table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sidestep.predicate import Predicate

MOST_REASONS = 4
"""Reasons for which statements are not used, that are told: those of most."""


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


@dataclass(frozen=True, slots=True)
class Workload:
    """The queries of a log in the order they ran, and the statements that are not among them."""

    queries: tuple[LoggedQuery, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the statements that are not among the queries: how many, and for which reasons.

        >>> lost = Failure(Statement("SELECT 1 FROM nope", count=2), "unknown table nope")
        >>> Workload((), (lost, Failure(Statement("?"), "not parsable"))).notes
        ('3 statements of the log could not be used: 2, unknown table nope; 1, not parsable.',)
        """
        reasons: Counter[str] = Counter()
        for failure in self.failures:
            reasons[failure.reason] += failure.statement.count
        if not reasons:
            return ()
        many = reasons.total()
        listed = [f"{count:,}, {reason.rstrip('.')}" for reason, count in reasons.most_common(MOST_REASONS)]
        if (left := len(reasons) - len(listed)) > 0:
            listed.append(f"{left:,} further reasons (sidestep analyze lists them)")
        return (f"{many:,} statement{'s' * (many != 1)} of the log could not be used: {'; '.join(listed)}.",)
