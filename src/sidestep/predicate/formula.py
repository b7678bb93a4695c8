"""Formulas: two-valued, negation-free statements about a row, and how they are simplified as they are built.

A formula is what :func:`sidestep.predicate.normal.normalize` makes of a predicate. :func:`all_of` and :func:`any_of`
are its only connectives; they keep it flat, without repeats, and with one set of ranges per column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.like import LikePattern
from sidestep.predicate.nodes import Column, Opaque

Names: TypeAlias = frozenset[str]
Relation: TypeAlias = OneOf["<", "<=", "=", "<>"]


@dataclass(frozen=True, slots=True)
class Within:
    """The column is not NULL and its value lies in the ranges; IS NOT NULL is the full range."""

    column: Column
    ranges: IntervalSet

    def __post_init__(self) -> None:
        if self.ranges.type != self.column.type:
            raise ValueError(f"{self.column.name} is a {self.column.type}; ranges of {self.ranges.type} do not fit it.")


@dataclass(frozen=True, slots=True)
class Null:
    """The column is NULL."""

    column: Column


@dataclass(frozen=True, slots=True)
class Matches:
    """The column is not NULL and matches the pattern (or, negated, does not)."""

    column: Column
    pattern: LikePattern
    negated: bool


@dataclass(frozen=True, slots=True)
class Compares:
    """Both columns are not NULL and the relation holds; of two types, they are compared as exact numbers."""

    left: Column
    op: Relation
    right: Column


@dataclass(frozen=True, slots=True)
class Holds:
    """The opaque predicate is TRUE (or, if ``value`` is False, FALSE; it may be neither)."""

    opaque: Opaque
    value: bool


Atom = Within | Null | Matches | Compares | Holds


@dataclass(frozen=True, slots=True)
class All:
    """Every child holds; without children, TRUE."""

    children: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Some child holds; without children, FALSE."""

    children: tuple[Formula, ...]


Formula = All | Any | Atom
HOLDS_ALWAYS = All(())
HOLDS_NEVER = Any(())


def all_of(children: Iterable[Formula]) -> Formula:
    """The conjunction, simplified: ranges on one column intersected, contradictions on one column found."""
    flat = list(_flatten(All, children))
    if any(isinstance(child, Any) and not child.children for child in flat):
        return HOLDS_NEVER
    ranges: dict[Column, IntervalSet] = {}
    for child in flat:
        if isinstance(child, Within):
            known = ranges.get(child.column)
            ranges[child.column] = child.ranges if known is None else known.intersect(child.ranges)
    nulls = {child.column for child in flat if isinstance(child, Null)}
    # A comparison or a match already says that its columns are not NULL.
    present = {column for child in flat for column in _non_null_columns(child)}
    if any(allowed.is_empty for allowed in ranges.values()) or nulls & (present | ranges.keys()):
        return HOLDS_NEVER
    redundant = {column for column in present if column in ranges and ranges[column].is_full}
    return _rebuild(All, flat, {column: allowed for column, allowed in ranges.items() if column not in redundant})


def any_of(children: Iterable[Formula]) -> Formula:
    """The disjunction, simplified: ranges on one column united, NULL or not NULL seen as always true."""
    flat = list(_flatten(Any, children))
    if any(isinstance(child, All) and not child.children for child in flat):
        return HOLDS_ALWAYS
    listed: dict[Column, list[IntervalSet]] = {}
    for child in flat:
        if isinstance(child, Within):
            listed.setdefault(child.column, []).append(child.ranges)
    ranges = {c: sets[0] if len(sets) == 1 else IntervalSet.union_all(c.type, sets) for c, sets in listed.items()}
    if any(isinstance(child, Null) and child.column in ranges and ranges[child.column].is_full for child in flat):
        return HOLDS_ALWAYS
    return _rebuild(Any, flat, {column: allowed for column, allowed in ranges.items() if not allowed.is_empty})


def within(column: Column, ranges: IntervalSet) -> Formula:
    """A Within, or HOLDS_NEVER if no value is left."""
    return HOLDS_NEVER if ranges.is_empty else Within(column, ranges)


def not_null(column: Column) -> Formula:
    return Within(column, IntervalSet.full(column.type))


def compares(left: Column, op: Relation, right: Column) -> Formula:
    """A comparison of two columns; the sides of a symmetric one in a fixed order, a column with itself decided."""
    if left == right:
        return not_null(left) if op in ("=", "<=") else HOLDS_NEVER
    if op in ("=", "<>") and (right.name, str(right.type)) < (left.name, str(left.type)):
        left, right = right, left
    return Compares(left, op, right)


def atoms(formula: Formula) -> Iterator[Atom]:
    """Every atom, left to right."""
    if isinstance(formula, All | Any):
        for child in formula.children:
            yield from atoms(child)
    else:
        yield formula


def is_identified(formula: Formula) -> bool:
    """Whether an equal formula is certain to hold for the same rows: none of its opaque predicates lacks identity."""
    return next(unidentified(formula), None) is None


def unidentified(formula: Formula) -> Iterator[Opaque]:
    """The opaque predicates of a formula that lack identity, each with the reason why."""
    return (atom.opaque for atom in atoms(formula) if isinstance(atom, Holds) and not atom.opaque.identified)


def columns_in(formula: Formula) -> frozenset[Column]:
    """The columns that a formula speaks of."""
    return frozenset(column for atom in atoms(formula) for column in columns_of_atom(atom))


def names_in(formula: Formula) -> Names:
    """The names of the columns that a formula speaks of."""
    return frozenset(column.name for column in columns_in(formula))


def columns_of_atom(atom: Atom) -> tuple[Column, ...]:
    """The columns that one atom speaks of."""
    match atom:
        case Compares(left=left, right=right):
            return (left, right)
        case Holds(opaque=opaque):
            return opaque.columns
        case Within(column=column) | Null(column=column) | Matches(column=column):
            return (column,)


def necessary_ranges(formula: Formula) -> dict[Column, IntervalSet]:
    """For each column that every way to make the formula hold restricts: the values it may have.

    >>> from sidestep.predicate import INTEGER, compare, conjunction, disjunction, normalize, sql
    >>> a, b = Column("a", INTEGER), Column("b", INTEGER)
    >>> both = disjunction(conjunction(compare(a, "=", 1), compare(b, "=", 2)), compare(a, "=", 7))
    >>> [sql(Within(column, ranges)) for column, ranges in necessary_ranges(normalize(both)).items()]
    ['a IN (1, 7)']
    """
    match formula:
        case Within(column=column, ranges=ranges):
            return {column: ranges}
        case All(children=children):
            required: dict[Column, IntervalSet] = {}
            for child in children:
                for column, ranges in necessary_ranges(child).items():
                    required[column] = required[column].intersect(ranges) if column in required else ranges
            return required
        case Any(children=children) if children:
            ways = [necessary_ranges(child) for child in children]
            shared = [column for column in ways[0] if all(column in way for way in ways)]
            return {column: IntervalSet.union_all(column.type, [way[column] for way in ways]) for column in shared}
    return {}


def _non_null_columns(child: Formula) -> tuple[Column, ...]:
    """The columns that a match or a comparison says are not NULL, besides what else it says of them."""
    if isinstance(child, Matches):
        return (child.column,)
    if isinstance(child, Compares):
        return (child.left, child.right)
    return ()


def _flatten(kind: type[All] | type[Any], children: Iterable[Formula]) -> Iterator[Formula]:
    for child in children:
        if isinstance(child, All | Any) and isinstance(child, kind):
            yield from child.children
        else:
            yield child


def _rebuild(kind: type[All] | type[Any], flat: list[Formula], ranges: dict[Column, IntervalSet]) -> Formula:
    """The children without repeats, each column's ranges once, where they first stood."""
    kept: list[Formula] = []
    seen: set[Formula] = set()
    for child in flat:
        if isinstance(child, Within):
            allowed = ranges.pop(child.column, None)
            if allowed is not None:
                kept.append(child if allowed is child.ranges else Within(child.column, allowed))
        elif child not in seen:
            kept.append(child)
            # rand() < 0.5, twice, is not once: what has no identity is never merged.
            if is_identified(child):
                seen.add(child)
    return kept[0] if len(kept) == 1 else kind(tuple(kept))
