"""The small relational algebra that queries are pruned in.

A tree of operators over scans. A column is known by the number that Catalyst gave it (unique in the query, so that two
occurrences of a table never mix): predicates here are about :class:`~sidestep.predicate.nodes.Column` whose name is
that number as text, and :class:`Scan` tells which column of the table it is. Aliases are resolved by whoever builds the
tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sidestep.predicate import Column, Predicate


class JoinType(Enum):
    INNER = "inner"
    CROSS = "cross"
    LEFT_OUTER = "left outer"
    RIGHT_OUTER = "right outer"
    FULL_OUTER = "full outer"
    LEFT_SEMI = "left semi"
    LEFT_ANTI = "left anti"
    EXISTENCE = "existence"
    """A left semi join that keeps all left rows and adds whether there was a match."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Scan:
    """One occurrence of a stored table."""

    key: str
    """Tells occurrences apart; copies that Spark makes of one occurrence share it."""
    table: str | None
    roots: tuple[str, ...]
    columns: tuple[tuple[str, Column], ...]
    """(number in the query, column of the table)."""
    partitions: frozenset[str] = frozenset()
    """Names of the columns whose values are in the folder names."""
    reason: str | None = None
    """Why this table cannot be pruned, if so."""

    @property
    def name(self) -> str:
        return self.table or (self.roots[0].rstrip("/").rsplit("/", 1)[-1] if self.roots else "?")


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Predicate
    child: Operator
    random: bool = False


@dataclass(frozen=True, slots=True)
class Project:
    """Columns are resolved where they are used, so a projection matters only in being one that may be random."""

    child: Operator
    random: bool = False


@dataclass(frozen=True, slots=True)
class Join:
    type: JoinType
    left: Operator
    right: Operator
    condition: Predicate | None = None
    random: bool = False


@dataclass(frozen=True, slots=True)
class Other:
    """Any other operator: no predicate passes it, in either direction."""

    name: str
    children: tuple[Operator, ...] = ()
    random: bool = False
    """Whether its result depends on how rows are spread over tasks."""
    reason: str | None = None
    """For a leaf that reads data which sidestep does not cover: why not."""
    about: str = ""


Operator = Scan | Filter | Project | Join | Other


@dataclass(frozen=True, slots=True)
class Query:
    """A query's own plan first, then the plans of its subqueries."""

    plans: tuple[Operator, ...]


def children(operator: Operator) -> tuple[Operator, ...]:
    match operator:
        case Scan():
            return ()
        case Filter(child=child) | Project(child=child):
            return (child,)
        case Join(left=left, right=right):
            return (left, right)
        case Other(children=below):
            return below


def walk(operator: Operator) -> Iterator[Operator]:
    """The operator and all below it, top first."""
    waiting = [operator]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(children(current)))
