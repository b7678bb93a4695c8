"""What is known about one row while a proof is under way: atoms taken together, and what follows from them.

Facts about one column are one set of ranges and a list of patterns. Comparisons between columns are a graph of "at
most" edges: its closure finds cycles (equal columns, or a contradiction) and carries bounds from column to column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sidestep.predicate.casts import above_by_value, below_by_value, by_value
from sidestep.predicate.formula import Atom, Compares, Holds, Matches, Null, Relation, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.like import LikePattern
from sidestep.predicate.nodes import Column, Opaque

MOST_COMPARED = 12
"""Columns whose comparisons are followed in one proof; the closure is cubic, and further comparisons are left aside."""

MOST_POINTS = 20_000
"""Values of a column that are tried one by one against its patterns."""


@dataclass(frozen=True, slots=True)
class Outside:
    """The column is not NULL and its value lies outside the ranges: kept so, since a complement can be much larger."""

    column: Column
    ranges: IntervalSet


@dataclass(frozen=True, slots=True)
class Fails:
    """The atom about an opaque predicate does not hold: the predicate has the other value, or is NULL."""

    atom: Holds


class Facts:
    """A conjunction of atoms that grows; ``contradictory`` once no row can satisfy it.

    Dropping a fact is always allowed: the conjunction then says less, and fewer contradictions are found. A
    contradiction that is found is always real.
    """

    def __init__(self) -> None:
        self.ranges: dict[Column, IntervalSet] = {}
        self.nulls: set[Column] = set()
        self.patterns: dict[Column, list[tuple[LikePattern, bool]]] = {}
        self.comparisons: set[tuple[Column, Relation, Column]] = set()
        self.holding: set[tuple[Opaque, bool]] = set()
        self.failing: set[tuple[Opaque, bool]] = set()
        self.contradictory = False

    def copy(self) -> Facts:
        """Facts that grow on their own from here."""
        other = Facts()
        other.ranges = dict(self.ranges)
        other.nulls = set(self.nulls)
        other.patterns = {column: list(patterns) for column, patterns in self.patterns.items()}
        other.comparisons = set(self.comparisons)
        other.holding = set(self.holding)
        other.failing = set(self.failing)
        other.contradictory = self.contradictory
        return other

    def add(self, *atoms: Atom | Outside | Fails) -> None:
        """Take atoms as true, and draw what follows."""
        for atom in atoms:
            match atom:
                case Within(column=column, ranges=ranges):
                    self._narrow(column, ranges)
                case Null(column=column):
                    self.nulls.add(column)
                case Matches(column=column, pattern=pattern, negated=negated):
                    self._narrow(column, IntervalSet.full(column.type) if negated else pattern.necessary_range())
                    self.patterns.setdefault(column, []).append((pattern, negated))
                case Compares(left=left, op=op, right=right):
                    self._narrow(left, IntervalSet.full(left.type))
                    self._narrow(right, IntervalSet.full(right.type))
                    if len({c for a, _, b in self.comparisons for c in (a, b)} | {left, right}) <= MOST_COMPARED:
                        self.comparisons.add((left, op, right))
                case Holds(opaque=opaque, value=value):
                    self.holding.add((opaque, value))
                case Fails(atom=Holds(opaque=opaque, value=value)):
                    self.failing.add((opaque, value))
                case Outside(column=column, ranges=ranges):
                    known = self.ranges.get(column)
                    self.ranges[column] = ranges.complement() if known is None else known.difference(ranges)
        self._conclude()

    def entails_directly(self, atom: Atom | Outside | Fails) -> bool:
        """Whether the atom is among the facts, or a wider range than they give: quick, and not all that follows."""
        match atom:
            case Within(column=column, ranges=ranges):
                known = self.ranges.get(column)
                return known is not None and known.issubset(ranges)
            case Null(column=column):
                return column in self.nulls
            case Matches(column=column, pattern=pattern, negated=negated):
                return (pattern, negated) in self.patterns.get(column, ())
            case Compares(left=left, op=op, right=right):
                return (left, op, right) in self.comparisons
            case Holds(opaque=opaque, value=value):
                return opaque.identified and (opaque, value) in self.holding
        return False

    def only_ranges(self, column: Column) -> bool:
        """Whether all that is known of the column is its ranges: then they alone decide."""
        return column not in self.patterns and all(column not in (a, b) for a, _, b in self.comparisons)

    def _narrow(self, column: Column, ranges: IntervalSet) -> None:
        known = self.ranges.get(column)
        self.ranges[column] = ranges if known is None else known.intersect(ranges)

    def _conclude(self) -> None:
        if not self.contradictory:
            self.contradictory = self._compare_columns() or self._match_patterns() or self._contradicts_itself()

    def _contradicts_itself(self) -> bool:
        if any(ranges.is_empty for ranges in self.ranges.values()) or self.nulls & self.ranges.keys():
            return True
        return any(
            opaque.identified and ((opaque, not value) in self.holding or (opaque, value) in self.failing)
            for opaque, value in self.holding
        )

    def _match_patterns(self) -> bool:
        """Whether the patterns on some column leave nothing; listable values are tried one by one."""
        for column, patterns in self.patterns.items():
            wanted = [pattern for pattern, negated in patterns if not negated]
            unwanted = [pattern for pattern, negated in patterns if negated]
            if any(a.implies(b) for a in wanted for b in unwanted):
                return True
            if any(a.excludes(b) for k, a in enumerate(wanted) for b in wanted[k + 1 :]):
                return True
            values = self.ranges[column].values(MOST_POINTS)
            if values is not None:
                left = [v for v in values if all(p.matches(str(v)) is not negated for p, negated in patterns)]
                if len(left) < len(values):
                    self.ranges[column] = IntervalSet.points(column.type, left)
        return False

    def _compare_columns(self) -> bool:
        """Close the comparisons, find their contradictions, and carry bounds along them until nothing changes."""
        if not self.comparisons:
            return False
        at_most = _closure(self.comparisons)
        if any(a == b and strict for (a, b), strict in at_most.items()):
            return True
        apart = [(a, b) for a, op, b in self.comparisons if op == "<>"]
        # Each round carries bounds along every edge of a closed graph; values taken out one by one may need more
        # rounds, and stopping early only leaves facts unsaid.
        for _ in range(4):
            changed = False
            for (a, b), strict in at_most.items():
                if a != b:
                    changed |= self._carry(b, above_by_value(self.ranges[a], strict, b.type))
                    changed |= self._carry(a, below_by_value(self.ranges[b], strict, a.type))
                    if not strict and (b, a) in at_most:
                        changed |= self._carry(a, by_value(self.ranges[b], a.type))
            for a, b in [*apart, *((b, a) for a, b in apart)]:
                single = self.ranges[b].values(1)
                if single is not None and len(single) == 1:
                    changed |= self._carry(a, by_value(self.ranges[b], a.type), outside=True)
            if not changed or any(ranges.is_empty for ranges in self.ranges.values()):
                break
        return False

    def _carry(self, to: Column, ranges: IntervalSet, outside: bool = False) -> bool:
        """Narrow one column by what another's ranges allow; whether that said anything new."""
        known = self.ranges[to]
        narrowed = known.difference(ranges) if outside else known.intersect(ranges)
        self.ranges[to] = narrowed
        return narrowed != known


def _closure(comparisons: set[tuple[Column, Relation, Column]]) -> dict[tuple[Column, Column], bool]:
    """Which columns are at most which, and whether strictly so: paths of comparisons, and equal columns that differ."""
    at_most: dict[tuple[Column, Column], bool] = {}
    for a, op, b in comparisons:
        for low, high, strict in _edges(a, op, b):
            at_most[low, high] = at_most.get((low, high), False) or strict
    columns = list({column for a, _, b in comparisons for column in (a, b)})
    apart = {frozenset((a, b)) for a, op, b in comparisons if op == "<>"}
    grown = True
    while grown:
        grown = False
        for (a, b), strict in list(at_most.items()):
            if not strict and frozenset((a, b)) in apart:
                at_most[a, b] = grown = True
        for middle in columns:
            for low in columns:
                first = at_most.get((low, middle))
                if first is None:
                    continue
                for high in columns:
                    second = at_most.get((middle, high))
                    if second is not None and at_most.get((low, high)) is not True:
                        strict = first or second
                        grown |= (low, high) not in at_most or strict
                        at_most[low, high] = strict
    return at_most


def _edges(a: Column, op: Relation, b: Column) -> Iterator[tuple[Column, Column, bool]]:
    if op != "<>":
        yield (a, b, op == "<")
    if op == "=":
        yield (b, a, False)
