"""What a workload asks of each column of a table: the values that its filters name, and whether tables meet on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sidestep.predicate import Column, Formula, IntervalSet, Within, all_of, normalize
from sidestep.predicate.formula import All, Any
from sidestep.workload.query import Workload


@dataclass(frozen=True, slots=True)
class Asked:
    """What queries ask of the columns of one table, and how often."""

    ranges: Mapping[Column, Mapping[IntervalSet, int]] = field(default_factory=dict)
    """For each column that filters bound, the sets of values they ask for, each with the number of scans."""
    joins: Mapping[str, int] = field(default_factory=dict)
    """For each column that queries join on, how many do."""
    filters: Mapping[frozenset[tuple[Column, IntervalSet]], int] = field(default_factory=dict)
    """What scans ask for in all columns together, each with the number of scans."""

    def scans(self, column: str) -> int:
        """How many scans bound the column by a filter."""
        return sum(sum(sets.values()) for of, sets in self.ranges.items() if of.name == column)

    def uses(self, column: str) -> int:
        """How many scans or joins use the column: what should be served first."""
        return self.scans(column) + self.joins.get(column, 0)


def asked_of(workload: Workload, table: str) -> Asked:
    """What the workload's queries ask of one table; nothing, if none reads it."""
    ranges: dict[Column, Counter[IntervalSet]] = {}
    joins: Counter[str] = Counter()
    filters: Counter[frozenset[tuple[Column, IntervalSet]]] = Counter()
    for query in workload.queries:
        for use in query.uses:
            if use.table == table:
                whole = all_of(normalize(predicate) for predicate in use.predicates)
                bounds = bounds_of(whole)
                for column, wanted in bounds.items():
                    ranges.setdefault(column, Counter())[wanted] += query.count
                if bounds:
                    filters[frozenset(bounds.items())] += query.count
        for join in query.joins:
            for name, column_name in (join.left, join.right):
                if name == table:
                    joins[column_name] += query.count
    return Asked(ranges, joins, filters)


def bounds_of(formula: Formula) -> dict[Column, IntervalSet]:
    """The values that each column must have for the formula to hold; a column that may have any is left out.

    A choice bounds a column only if each of its branches does.

    >>> from sidestep.predicate.types import INTEGER
    >>> a, b = Column("a", INTEGER), Column("b", INTEGER)
    >>> one, two = (Within(a, IntervalSet.point(INTEGER, value)) for value in (1, 2))
    >>> other = Within(b, IntervalSet.point(INTEGER, 9))
    >>> {column.name: ranges.values() for column, ranges in bounds_of(Any((All((one, other)), two))).items()}
    {'a': (1, 2)}
    """
    match formula:
        case Within(column, ranges):
            return {} if ranges.is_full else {column: ranges}
        case All(children):
            found: dict[Column, IntervalSet] = {}
            for child in children:
                for column, ranges in bounds_of(child).items():
                    found[column] = found[column].intersect(ranges) if column in found else ranges
            return found
        case Any(children) if children:
            branches = [bounds_of(child) for child in children]
            shared = set(branches[0]).intersection(*branches[1:])
            return {column: IntervalSet.united(column.type, [each[column] for each in branches]) for column in shared}
    return {}
