"""Which parts of a query a denormalized table can stand for, and the query with the table in their place.

A part is a tree of joins, filters and projections over scans. It is matched if each scan can be given a role of the
table's :class:`~sidestep.layout.join_tree.JoinTree`: one is the fact, and any other is compared, column by column of
its unique key, with what its parent's scan is looked up by. Then each row of the fact meets at most one row of each
other scan: the one whose columns are in the fact's row of the denormalized table. So the part's rows are those rows of
the table that meet the part's conditions, each once.

=================  =====================================================================================================
join               is matched
=================  =====================================================================================================
inner, cross       always; its condition is one of the part's. A row without a partner has NULL for the key, and no
                   comparison with that is TRUE
left semi          the same, if the fact is not what is looked for: at most one row is found, so that finding it is
                   joining it
left, right outer  if what may be missing is one table whole, of which nothing is computed before the join, and the
                   condition is its key alone: rows without a partner have NULL for what is computed, too
any other          never
=================  =====================================================================================================

Equalities count whichever join or filter they stand in, and follow from each other (``a = b``, ``b = c``): all of them
hold for every row of the part. Two scans may have one role: joined by the same key, they give the same row twice over.
A role that no scan has is left out of the part, and changes nothing: its columns are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sidestep.layout.join_tree import JoinTree
from sidestep.predicate import (
    And,
    Column,
    Comparison,
    DataType,
    IsNull,
    Kind,
    Not,
    Op,
    Predicate,
    conjuncts,
    parse_type,
)
from sidestep.predicate.columns import columns_of, rename
from sidestep.prune.plan.algebra import Filter, Join, Operator, Project, Query, Scan, children, is_sample, with_children

JOINED = frozenset({"INNER", "CROSS", "LEFT SEMI"})
"""Joins of which the condition holds for each row of the result, as if the inputs were joined by it."""

Named = Callable[[Scan], str | None]
"""What the join tree calls the table of a scan; None if it is none of its tables, or not as the tree's was."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A tree of joins, opened."""

    scans: tuple[tuple[int, Scan], ...]
    """With the numbers of the places where they stand."""
    conditions: tuple[Predicate, ...] = ()
    outer: tuple[tuple[str, tuple[Predicate, ...]], ...] = ()
    """Scans whose columns are NULL where there is no partner, by key, with the condition that they are joined by."""
    looked_for: frozenset[str] = frozenset()
    """Scans of which it counts only whether there is a row, by key: none of them can be the fact."""
    computes: bool = False
    """Whether it gives more than columns of its scans."""

    def and_also(self, other: _Part, conditions: tuple[Predicate, ...]) -> _Part:
        both = (*self.conditions, *other.conditions, *conditions)
        outer, looked_for = (*self.outer, *other.outer), self.looked_for | other.looked_for
        return _Part((*self.scans, *other.scans), both, outer, looked_for, self.computes or other.computes)


@dataclass(frozen=True, slots=True)
class JoinMatch:
    """A part of a query that a denormalized table can stand for."""

    place: int
    """The number of its top operator: operators are numbered plan by plan, each before its inputs."""
    operator: Operator
    scans: tuple[tuple[int, Scan, int], ...]
    """The place of each scan, the scan, and its role."""
    conditions: tuple[Predicate, ...]
    tree: JoinTree

    @property
    def stored(self) -> dict[str, str]:
        """The stored column that holds each column of the query, by its number."""
        held = self.tree.held
        return {
            number: held[role, column.name].stored for _, scan, role in self.scans for number, column in scan.columns
        }

    @property
    def types(self) -> dict[str, DataType]:
        """The types of these, by number."""
        return {number: column.type for _, scan, _ in self.scans for number, column in scan.columns}

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the part joins."""
        return tuple(dict.fromkeys(self.tree.roles[role].table for _, _, role in self.scans))

    def remaining(self) -> tuple[Predicate, ...]:
        """The part's conditions on the stored columns, less those that hold for every row of the table."""
        stored, types = self.stored, self.types
        renamed = {number: Column(name, types[number]) for number, name in stored.items()}
        kept = (each for each in self.conditions if {column.name for column in columns_of(each)} <= renamed.keys())
        remaining = dict.fromkeys(rename(each, renamed) for each in kept)
        return tuple(each for each in remaining if not _always_holds(each, self.tree.never_null))


def _always_holds(condition: Predicate, never_null: frozenset[str]) -> bool:
    match condition:
        case Comparison(op=Op.EQ, left=Column() as left, right=Column() as right):
            return left == right and left.name in never_null
        case Not(child=IsNull(operand=Column() as column)):
            return column.name in never_null
    return False


@dataclass(frozen=True, slots=True)
class JoinMismatch:
    """A part that reads the fact, perhaps joined with others, and why the denormalized table cannot stand for it."""

    tables: tuple[str, ...]
    reason: str


def find_matches(query: Query, tree: JoinTree, named: Named) -> tuple[list[JoinMatch], list[JoinMismatch]]:
    """The largest parts of a query that a denormalized table can stand for, and parts that it cannot."""
    matches: list[JoinMatch] = []
    mismatches: list[JoinMismatch] = []
    place = 0

    def visit(operator: Operator, random: bool, inside: bool, told: bool) -> None:
        """inside: whether a part around this one has been matched; told: whether it has been said why one was not."""
        nonlocal place
        own, place = place, place + 1
        random = random or is_sample(operator) or (not isinstance(operator, Scan) and operator.random)
        if not inside and not random:
            part = _open(operator, own, named)
            if part is not None and any(named(scan) == tree.fact for _, scan in part.scans):
                found = _match(part, own, operator, tree, named)
                if isinstance(found, JoinMatch):
                    matches.append(found)
                    inside = True
                elif not told:
                    mismatches.append(found)
                    told = True
        for child in children(operator):
            visit(child, random, inside, told)

    for plan in query.plans:
        visit(plan, False, False, False)
    return matches, mismatches


def size_of(operator: Operator) -> int:
    """How many operators there are in a plan."""
    return 1 + sum(map(size_of, children(operator)))


def _open(operator: Operator, place: int, named: Named) -> _Part | None:
    """What a tree of joins joins and asks for; None for any other plan."""
    if isinstance(operator, Scan):
        usable = operator.reason is None and named(operator) is not None
        return _Part(((place, operator),)) if usable else None
    if operator.random:
        return None
    match operator:
        case Project(child=child, name="Project", computes=computes):
            below = _open(child, place + 1, named)
            return None if below is None else replace(below, computes=below.computes or computes)
        case Filter(condition=condition, child=child):
            below = _open(child, place + 1, named)
            return None if below is None else below.and_also(_Part(()), tuple(conjuncts(condition)))
        case Join(type=kind, left=left, right=right, condition=condition):
            own = () if condition is None else tuple(conjuncts(condition))
            first, second = _open(left, place + 1, named), _open(right, place + 1 + size_of(left), named)
            if first is None or second is None or operator.exists is not None:
                return None
            if kind.name == "LEFT SEMI":
                second = replace(second, looked_for=frozenset(scan.key for _, scan in second.scans))
            if kind.name in JOINED:
                return first.and_also(second, own)
            if kind.name == "RIGHT OUTER":
                first, second = second, first
            elif kind.name != "LEFT OUTER":
                return None
            return _outer(first, second, own)
    return None


def _outer(kept: _Part, missing: _Part, condition: tuple[Predicate, ...]) -> _Part | None:
    """All rows of one part, with the columns of a whole table or NULL."""
    if len(missing.scans) != 1 or missing.outer or missing.computes:
        return None
    ((place, scan),) = missing.scans
    keys = {column.name for each in condition for column in columns_of(each)}
    for each in missing.conditions:
        # Spark asks for this by itself: what is NULL in a column of the key finds no partner anyway.
        if not (
            isinstance(each, Not) and isinstance(each.child, IsNull) and {c.name for c in columns_of(each)} <= keys
        ):
            return None
    return replace(kept, scans=(*kept.scans, (place, scan)), outer=(*kept.outer, (scan.key, condition)))


def _match(part: _Part, place: int, operator: Operator, tree: JoinTree, named: Named) -> JoinMatch | JoinMismatch:
    tables = tuple(dict.fromkeys(name for _, scan in part.scans if (name := named(scan)) is not None))
    if len({scan.key for _, scan in part.scans}) < len(part.scans):
        return JoinMismatch(tables, "the same occurrence of a table stands in it twice")
    why = "it is not joined by the keys that the table was made by"
    for _, fact in part.scans:
        if named(fact) != tree.fact or fact.key in part.looked_for or any(key == fact.key for key, _ in part.outer):
            continue
        roles = _assign(part, fact, tree, named)
        if len(roles) < len(part.scans):
            continue
        missing = sorted(set(_missing(part, roles, tree)))
        if not missing:
            scans = tuple((at, scan, roles[scan.key]) for at, scan in part.scans)
            return JoinMatch(place, operator, scans, part.conditions, tree)
        why = f"it does not hold {', '.join(missing)}, or not as the query reads it"
    return JoinMismatch(tables, why)


def _missing(part: _Part, roles: Mapping[str, int], tree: JoinTree) -> Iterator[str]:
    """The columns in use that the denormalized table does not hold, or not in the type that they are read in."""
    for _, scan in part.scans:
        role = roles[scan.key]
        for _, column in scan.columns:
            kept = tree.held.get((role, column.name))
            # Which moment the name of a folder means, the time zone of each session says.
            by_zone = column.name in scan.partitions and column.type.kind is Kind.TIMESTAMP
            if kept is None or parse_type(kept.type) != column.type or by_zone:
                yield f"{tree.roles[role].name}.{column.name}"


def _assign(part: _Part, fact: Scan, tree: JoinTree, named: Named) -> dict[str, int]:
    """Roles of the scans that can be told to have one, given which of them is the fact."""
    same = _classes(part.conditions)
    outer = {key: _pairs(condition) for key, condition in part.outer}
    numbers = {scan.key: {column.name: number for number, column in scan.columns} for _, scan in part.scans}
    roles = {fact.key: 0}

    def looks_up(scan: Scan, position: int, parent: str) -> bool:
        ours, theirs = numbers[parent], numbers[scan.key]
        pairs = [(ours.get(a), theirs.get(b)) for a, b in tree.roles[position].on]
        if any(a is None or b is None for a, b in pairs):
            return False
        if scan.key in outer:
            wanted = {frozenset((a, b)) for a, b in pairs if a is not None and b is not None}
            return outer[scan.key] == wanted
        return all(a == b or same.get(a or "", a) == same.get(b or "", b) for a, b in pairs)

    grown = True
    while grown and len(roles) < len(part.scans):
        grown = False
        for _, scan in part.scans:
            if scan.key in roles:
                continue
            for position, role in enumerate(tree.roles):
                parents = [key for key, given in roles.items() if given == role.parent]
                if role.table == named(scan) and any(looks_up(scan, position, parent) for parent in parents):
                    roles[scan.key] = position
                    grown = True
                    break
    return roles


def _equal_columns(condition: Predicate) -> tuple[str, str] | None:
    match condition:
        case Comparison(op=Op.EQ, left=Column() as left, right=Column() as right) if left.type == right.type:
            return left.name, right.name
    return None


def _pairs(condition: tuple[Predicate, ...]) -> set[frozenset[str]] | None:
    """The columns that a condition compares; None if it asks for anything else."""
    pairs = [_equal_columns(each) for each in condition]
    return None if not pairs or None in pairs else {frozenset(pair) for pair in pairs if pair is not None}


def _classes(conditions: tuple[Predicate, ...]) -> dict[str, str]:
    """For each column that is equal to others, one of them that stands for all."""
    stands: dict[str, str] = {}

    def root(name: str) -> str:
        while stands.get(name, name) != name:
            name = stands[name]
        return name

    for condition in conditions:
        pair = _equal_columns(condition)
        if pair is not None:
            first, second = root(pair[0]), root(pair[1])
            stands.setdefault(first, first)
            stands[second] = first
    return {name: root(name) for name in stands}


def replaced(query: Query, matches: Mapping[int, tuple[JoinMatch, Scan]]) -> Query:
    """The query with scans of denormalized tables in the place of matched parts, by the numbers of these."""
    place = 0

    def visit(operator: Operator) -> Operator:
        nonlocal place
        own = place
        if own in matches:
            place += size_of(operator)
            match, scan = matches[own]
            return _instead(match, scan)
        place += 1
        return with_children(operator, tuple(visit(child) for child in children(operator)))

    # Parts that Spark may run once are told by the scans in them, which are others now.
    return Query(tuple(visit(plan) for plan in query.plans))


def _instead(match: JoinMatch, scan: Scan) -> Operator:
    """The part over the denormalized table: columns keep the numbers by which operators above know them."""
    stored, types = match.stored, match.types
    of_stored: dict[str, str] = {}
    for number, name in stored.items():
        of_stored.setdefault(name, number)
    numbers = {number: Column(of_stored[name], types[number]) for number, name in stored.items()}
    kept = (each for each in match.conditions if {column.name for column in columns_of(each)} <= numbers.keys())
    conditions = tuple(dict.fromkeys(rename(each, numbers) for each in kept))
    columns = tuple((number, Column(name, types[number])) for name, number in of_stored.items())
    narrowed = replace(scan, columns=columns)
    return Filter(And(conditions), narrowed) if conditions else narrowed
