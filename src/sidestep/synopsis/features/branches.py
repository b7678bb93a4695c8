"""Taking formulas apart, so that several features can answer together.

A list of values that implies no feature may still fall into values that imply one and values that imply another:
``size IN (3, 9)`` has no row in a block that lacks the features ``size = 3`` and ``size = 9``. And a feature that is a
conjunction answers a branch of ``(a = 1 OR a = 2) AND b = 5`` only together with the conjunct outside. Both are one
step: a formula becomes branches, at least one of which holds wherever the formula does, and a block is skipped if each
branch rules it out. Any such branches are sound; which ones are worth it, the features tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sidestep.predicate.formula import All, Any, Formula, Names, Within, all_of, names_in, within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.like import LikePattern
from sidestep.synopsis.features.union_vectors import MOST_REMEMBERED, FeatureStatement, UnionVectors

_MOST_LISTED = 1_000
"""A pattern divides sets of up to so many values."""


def divide(vectors: Sequence[UnionVectors], atom: Within, most: int) -> tuple[Formula, ...]:
    """The ranges of one column cut where features begin and end, into at most so many parts.

    Each part lies inside or outside of what a feature says, so that it is all or nothing for that feature. Parts are
    made for the features in the order of their rank.

    >>> import numpy as np
    >>> from sidestep.predicate import INTEGER, column, compare, normalize, one_of, sql
    >>> size = column("size", INTEGER)
    >>> features = tuple(normalize(compare(size, "=", value)) for value in (3, 9, 30))
    >>> vectors = UnionVectors(features, np.zeros((1, 1), dtype=np.uint64), np.ones(1, dtype=bool))
    >>> [sql(part) for part in divide([vectors], normalize(one_of(size, [3, 4, 9, 12])), 64)]
    ['size = 3', 'size = 9', 'size IN (4, 12)']
    """
    return _divide(atom, _statements(vectors, atom), most)


def branches(vectors: Sequence[UnionVectors], formula: All, most: int) -> tuple[Formula, ...]:
    """A conjunction as branches: one child that is a choice, or has several ranges, spread over all others.

    Of the children whose branches a feature might answer only together with others, the one with the fewest is taken;
    none if there is none. What is left to choose is for the next step.
    """
    remembered = vectors[0].branchings if len(vectors) == 1 else None
    if remembered is None:
        return _branches(vectors, formula, most)
    if (formula, most) not in remembered:
        if len(remembered) >= MOST_REMEMBERED:
            remembered.clear()
        remembered[formula, most] = _branches(vectors, formula, most)
    return remembered[formula, most]


def _branches(vectors: Sequence[UnionVectors], formula: All, most: int) -> tuple[Formula, ...]:
    best: tuple[Formula, ...] = ()
    of_child = [names_in(child) for child in formula.children]
    every = frozenset().union(*of_child)
    for at, child in enumerate(formula.children):
        if not isinstance(child, Any | Within):
            continue
        around = frozenset().union(*(columns for other, columns in enumerate(of_child) if other != at))
        joint = [_spanning(each, of_child[at], around, every) for each in vectors]
        if not any(joint):
            continue
        ways = child.children if isinstance(child, Any) else _divide(child, _statements(vectors, child, joint), most)
        if 1 < len(ways) <= most and not 0 < len(best) <= len(ways):
            others = formula.children[:at] + formula.children[at + 1 :]
            best = tuple(all_of([way, *others]) for way in ways)
    return best


def _spanning(vectors: UnionVectors, inside: Names, around: Names, every: Names) -> frozenset[int]:
    """The features about columns of one child and of others, and of nothing else."""
    return frozenset(
        at
        for at in vectors.may_answer
        if (names := vectors.columns[at]) <= every and not names.isdisjoint(inside) and not names.isdisjoint(around)
    )


def _statements(
    vectors: Sequence[UnionVectors], atom: Within, among: Sequence[frozenset[int]] | None = None
) -> Iterator[FeatureStatement]:
    """What features (or, of each vectors' features, only those ``among``) say of the atom's column."""
    for number, each in enumerate(vectors):
        for statement in each.statements.get(atom.column.name, ()):
            if statement.column == atom.column and (among is None or not among[number].isdisjoint(statement.features)):
                yield statement


def _divide(atom: Within, statements: Iterable[FeatureStatement], most: int) -> tuple[Formula, ...]:
    parts = [atom.ranges]
    for statement in statements:
        cut = [piece for part in parts for piece in _pieces(part, statement.says)]
        if len(cut) > most:
            break
        parts = cut
    return tuple(within(atom.column, part) for part in parts) if len(parts) > 1 else (atom,)


def _pieces(part: IntervalSet, said: IntervalSet | LikePattern) -> tuple[IntervalSet, ...]:
    if isinstance(said, LikePattern):
        values = part.values(_MOST_LISTED)
        if values is None or len(values) < 2:
            return (part,)
        inside = IntervalSet.points(part.type, [value for value in values if said.matches(str(value))])
    else:
        inside = part.intersect(said)
    if inside.is_empty or inside == part:
        return (part,)
    return inside, part.difference(inside)
