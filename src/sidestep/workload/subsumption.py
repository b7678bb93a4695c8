"""Predicate augmentation (thesis, 3.3.2): which filters each predicate subsumes, for all of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from sidestep.predicate import All, Any, Column, Formula, Holds, IntervalSet, Within, all_of, atoms, implies
from sidestep.predicate.cuts import high_cut, low_cut
from sidestep.predicate.facts import Facts
from sidestep.workload.canonical import necessary_ranges
from sidestep.workload.folded import TableWorkload

Bits = npt.NDArray[np.bool_]


def subsumed(workload: TableWorkload, predicates: Sequence[Formula]) -> Bits:
    """A matrix: row k says which of the workload's filters are subsumed by predicate k.

    Contract: a filter Q is subsumed by f if the conjunction of Q implies f. That is the thesis's rule (some predicate of
    Q is as strict as f, or stricter) with one step more: predicates of Q that share columns are taken together, as
    ``a >= 5 AND a <= 7`` implies ``a IN (5, 6, 7)`` where neither half does; this is also how a query meets features
    when it runs. Adding to each filter all that subsumes it is the augmentation after which occurrences are counts of
    subsumed queries. An opaque predicate is implied by itself alone.

    Filters fall apart into components that share no columns, and what a component implies is decided once. Ranges on one
    column, which are nearly all there is in a log, are compared as arrays; only the rest goes to a proof.
    """
    components, places = _components(workload)
    implied = np.zeros((len(components), len(predicates)), np.bool_)
    known = [_Component(workload, numbers) for numbers in components]
    _compare_ranges(known, predicates, implied)
    _prove(known, predicates, implied)
    found = np.zeros((len(predicates), len(workload.filters)), np.bool_)
    for at, parts in enumerate(places):
        found[:, at] = implied[parts].any(axis=0)
    return found


class _Component:
    """Predicates of a filter that are linked by the columns they share, and what they say together."""

    def __init__(self, workload: TableWorkload, numbers: frozenset[int]) -> None:
        items = [workload.items[number] for number in sorted(numbers)]
        self.columns = frozenset(column for item in items for column in item.columns)
        self.parts = frozenset(item.formula for item in items)
        self.formula = all_of(item.formula for item in items)
        children = self.formula.children if isinstance(self.formula, All) else (self.formula,)
        self.facts = Facts()
        self.facts.add(*(child for child in children if not isinstance(child, All | Any)))
        self.has_choice = any(isinstance(child, Any) for child in children)


def _components(workload: TableWorkload) -> tuple[list[frozenset[int]], list[list[int]]]:
    """The distinct components of all filters, and for each filter which of them it has."""
    numbers: dict[frozenset[int], int] = {}
    places = []
    for numbered in workload.filters:
        groups: list[tuple[set[Column], set[int]]] = []
        for number in numbered:
            columns, members = set(workload.items[number].columns), {number}
            apart = []
            for group in groups:
                if group[0].isdisjoint(columns):
                    apart.append(group)
                else:
                    columns |= group[0]
                    members |= group[1]
            groups = [*apart, (columns, members)]
        places.append([numbers.setdefault(frozenset(members), len(numbers)) for _, members in groups])
    return list(numbers), places


def _compare_ranges(components: Sequence[_Component], predicates: Sequence[Formula], implied: Bits) -> None:
    """Decide every predicate that is a range on one column.

    What a disjunction says of one column alone has become a conjunct of its own in factoring, so the ranges that the
    component's facts come to are all that is known.
    """
    by_column: dict[Column, list[int]] = defaultdict(list)
    for k, predicate in enumerate(predicates):
        if isinstance(predicate, Within):
            by_column[predicate.column].append(k)
    for column, wanted in by_column.items():
        known = [component.facts.ranges.get(column) for component in components]
        sources = [c for c, ranges in enumerate(known) if ranges is not None and not ranges.is_empty]
        if not sources:
            continue
        inner = [components[c].facts.ranges[column] for c in sources]
        outer = [predicates[k].ranges for k in wanted]  # type: ignore[union-attr]
        implied[np.ix_(sources, wanted)] = _subsets(inner, outer)


def _subsets(inner: Sequence[IntervalSet], outer: Sequence[IntervalSet]) -> Bits:
    """Which of the inner sets (rows) lie in which of the outer ones (columns); none of them is empty."""
    ends = [
        [(low_cut(s.type, s.intervals[0]), high_cut(s.type, s.intervals[-1])) for s in sets] for sets in (inner, outer)
    ]
    ranks = {cut: rank for rank, cut in enumerate(sorted({cut for pairs in ends for pair in pairs for cut in pair}))}
    lows, highs = ([np.array([ranks[pair[side]] for pair in pairs]) for pairs in ends] for side in (0, 1))
    found: Bits = (lows[0][:, None] >= lows[1][None, :]) & (highs[0][:, None] <= highs[1][None, :])
    several = [j for j, s in enumerate(outer) if len(s.intervals) > 1]
    for j in several:
        for i in np.flatnonzero(found[:, j]):
            found[i, j] = inner[i].issubset(outer[j])
    return found


def _prove(components: Sequence[_Component], predicates: Sequence[Formula], implied: Bits) -> None:
    """Decide every predicate that is more than a range on one column."""
    by_columns: dict[frozenset[Column], list[int]] = defaultdict(list)
    for k, predicate in enumerate(predicates):
        if not isinstance(predicate, Within):
            by_columns[_columns(predicate)].append(k)
    bounds = [() if isinstance(p, Within) else tuple(necessary_ranges(p).items()) for p in predicates]
    for c, component in enumerate(components):
        for columns, wanted in by_columns.items():
            if columns <= component.columns:
                for k in wanted:
                    implied[c, k] = _implies(component, predicates[k], bounds[k])


def _implies(component: _Component, predicate: Formula, bounds: Iterable[tuple[Column, IntervalSet]]) -> bool:
    if predicate in component.parts:
        return not any(isinstance(atom, Holds) and not atom.opaque.identified for atom in atoms(predicate))
    if isinstance(predicate, Holds) and not component.has_choice:
        return component.facts.entails_directly(predicate)
    ranges = component.facts.ranges
    if any(column not in ranges or not ranges[column].issubset(bound) for column, bound in bounds):
        return False  # not even what the predicate needs of single columns follows
    return implies(component.formula, predicate)


def _columns(formula: Formula) -> frozenset[Column]:
    """The columns a formula speaks of."""
    found: set[Column] = set()
    for atom in atoms(formula):
        match atom:
            case Holds(opaque=opaque):
                found.update(opaque.columns)
            case _ if hasattr(atom, "column"):
                found.add(atom.column)
            case _:
                found.update((atom.left, atom.right))  # type: ignore[union-attr]
    return frozenset(found)
