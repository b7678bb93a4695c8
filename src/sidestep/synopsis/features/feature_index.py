"""Which of many features subsume a formula, found without asking a full proof of each.

:func:`sidestep.predicate.implication.implies` decides about one formula and one feature. Here a formula, and then each
of its parts, meets a hundred features or more while a query is planned. So features are taken apart into their
conjuncts, which many share; a conjunct is held only against the part of the formula that speaks of its columns; what
ranges alone decide is decided by ranges; and what was found is remembered by that part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidestep.predicate.formula import (
    All,
    Any,
    Compares,
    Formula,
    Names,
    Within,
    atoms,
    names_in,
)
from sidestep.predicate.implication import implies
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import Column

_MOST_REMEMBERED = 4_096
_LARGEST_REMEMBERED = 256
"""Atoms and ranges of a formula that is remembered: four thousand lists of many values would be gigabytes."""


class Subsumption:
    """Features by number, ready to be held against formulas.

    Contract: never wrong, as a feature is found only if it is implied; not always found, as what a formula says of
    other columns is left aside.

    >>> from sidestep.predicate import INTEGER, column, compare, conjunction, normalize
    >>> a, b = (column(name, INTEGER) for name in "ab")
    >>> positive = {7: normalize(compare(a, ">", 0)), 8: normalize(conjunction(compare(a, ">", 0), compare(b, ">", 0)))}
    >>> Subsumption(positive).subsuming(normalize(conjunction(compare(a, "=", 3), compare(b, "<", 9))))
    (7,)
    """

    def __init__(self, features: Mapping[int, Formula]) -> None:
        numbers: dict[Formula, int] = {}
        self.features = [
            (feature, [numbers.setdefault(part, len(numbers)) for part in _conjuncts(formula)])
            for feature, formula in features.items()
        ]
        groups: dict[Names, list[tuple[int, Formula]]] = {}
        for part, number in numbers.items():
            groups.setdefault(names_in(part), []).append((number, part))
        self.groups = list(groups.items())
        """The distinct conjuncts of the features, by the columns that they speak of."""
        self._remembered: dict[tuple[Formula, Names], frozenset[int]] = {}

    def subsuming(self, formula: Formula) -> tuple[int, ...]:
        """The features that the formula implies, in ascending order."""
        said = [(part, names_in(part)) for part in _conjuncts(formula)]
        mentioned = frozenset().union(*(names for _, names in said))
        holding: set[int] = set()
        for names, parts in self.groups:
            if names <= mentioned or any(isinstance(part, Any) for _, part in parts):
                holding |= self._implications(_about(names, said), names, parts)
        return tuple(sorted(feature for feature, parts in self.features if holding.issuperset(parts)))

    def _implications(self, said: Formula | None, names: Names, parts: list[tuple[int, Formula]]) -> frozenset[int]:
        if said is None:
            return frozenset()
        key = (said, names)
        found = self._remembered.get(key)
        if found is None:
            found = frozenset(number for number, part in parts if _implies(said, part))
            if _size(said) <= _LARGEST_REMEMBERED:
                if len(self._remembered) >= _MOST_REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = found
        return found


def _size(said: Formula) -> int:
    """About how much a formula holds: its atoms, and the ranges in them."""
    return sum(len(atom.ranges.intervals) if isinstance(atom, Within) else 1 for atom in atoms(said))


def _about(names: Names, said: list[tuple[Formula, Names]]) -> Formula | None:
    """The part of a conjunction that can matter to a condition on these columns; None if there is none.

    Leaving conjuncts out is always allowed: what the rest implies, the whole implies. Columns that are compared with
    these matter too. A choice of which some branch speaks of other things does not: that branch would have to be ruled
    out by those other things, and such formulas are taken apart elsewhere (:mod:`sidestep.synopsis.features.branches`).
    """
    if len(said) == 1:
        return said[0][0]
    near = set(names)
    compared = [pair for part, pair in said if isinstance(part, Compares)]
    while any(not pair.isdisjoint(near) and not pair <= near for pair in compared):
        near.update(*(pair for pair in compared if not pair.isdisjoint(near)))
    parts = tuple(part for part, mentioned in said if _matters(part, mentioned, names, near))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else All(parts)


def _matters(part: Formula, mentioned: Names, names: Names, near: set[str]) -> bool:
    if not isinstance(part, Any):
        return not mentioned or not mentioned.isdisjoint(near)
    return not mentioned.isdisjoint(names) and all(not names_in(way).isdisjoint(names) for way in part.children)


def _implies(said: Formula, part: Formula) -> bool:
    """Implication of one conjunct; most are refused at once, since other values are asked for than it has."""
    if isinstance(part, Within):
        known = _ranges(said, part.column)
        if known is not None and known.issubset(part.ranges):
            return True
        if known is not None and (_only_ranges(said) or known.intersect(part.ranges).is_empty):
            return False
    return implies(said, part)


def _ranges(said: Formula, column: Column) -> IntervalSet | None:
    for part in _conjuncts(said):
        if isinstance(part, Within) and part.column == column:
            return part.ranges
    return None


def _only_ranges(said: Formula) -> bool:
    return all(isinstance(part, Within) for part in _conjuncts(said))


def _conjuncts(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, All):
        yield from formula.children
    else:
        yield formula
