"""Predicate augmentation (thesis, 3.3.2): which filters each predicate subsumes, for all of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sidestep.predicate import (
    All,
    Any,
    Column,
    Formula,
    Holds,
    IntervalSet,
    Within,
    all_of,
    implies,
)
from sidestep.predicate.cuts import high_cut, low_cut
from sidestep.predicate.facts import Facts
from sidestep.predicate.formula import columns_in, is_identified, necessary_ranges
from sidestep.workload.table import TableWorkload

FilterBits = npt.NDArray[np.bool_]

MOST_PIECES = 500
"""Intervals up to which a set is turned into bits; longer lists are compared as they are."""


def subsumption_matrix(workload: TableWorkload, predicates: Sequence[Formula]) -> FilterBits:
    """A matrix: row k says which of the workload's filters are subsumed by predicate k.

    Contract: a filter Q is subsumed by f if the conjunction of Q implies f. That is the thesis's rule (some predicate
    of Q is as strict as f, or stricter) with one step more: predicates of Q that share columns are taken together, as
    ``a >= 5 AND a <= 7`` implies ``a IN (5, 6, 7)`` where neither half does; this is also how a query meets features
    when it runs. Adding to each filter all that subsumes it is the augmentation after which occurrences are counts of
    subsumed queries. An opaque predicate is implied by itself alone.

    Filters fall apart into components that share no columns, and what a component implies is decided once. Ranges on
    one column, which are nearly all there is in a log, are compared as arrays; only the rest goes to a proof.
    """
    numbers, places = _components(workload)
    components = [_Component(workload, members) for members in numbers]
    subsumed = np.zeros((len(predicates), len(workload.filters)), np.bool_)
    implied = _compare_ranges(components, predicates)
    for at, parts in enumerate(places):
        subsumed[:, at] = implied[parts].any(axis=0)
    by_columns: dict[frozenset[Column], list[int]] = defaultdict(list)
    for k, predicate in enumerate(predicates):
        if not isinstance(predicate, Within):
            by_columns[columns_in(predicate)].append(k)
    for columns, wanted in by_columns.items():
        _prove(workload, columns, [predicates[k] for k in wanted], numbers, places, subsumed, wanted)
    return subsumed


class _Component:
    """Predicates of a filter, and what they say together."""

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


def _compare_ranges(components: Sequence[_Component], predicates: Sequence[Formula]) -> FilterBits:
    """Which components (rows) imply which predicates (columns), of those that are a range on one column.

    What a disjunction says of one column alone has become a conjunct of its own in factoring, so the ranges that the
    component's facts come to are all that is known.
    """
    implied = np.zeros((len(components), len(predicates)), np.bool_)
    by_column: dict[Column, dict[int, IntervalSet]] = defaultdict(dict)
    for k, predicate in enumerate(predicates):
        if isinstance(predicate, Within):
            by_column[predicate.column][k] = predicate.ranges
    for column, wanted in by_column.items():
        implied[:, list(wanted)] = _in_ranges(components, column, list(wanted.values()))
    return implied


def _in_ranges(components: Sequence[_Component], column: Column, bounds: Sequence[IntervalSet]) -> FilterBits:
    """Which components (rows) force the column's value into which ranges (columns)."""
    known = [component.facts.ranges.get(column) for component in components]
    sources = [c for c, ranges in enumerate(known) if ranges is not None and not ranges.is_empty]
    inside = np.zeros((len(components), len(bounds)), np.bool_)
    if sources:
        inside[sources] = _subsets([components[c].facts.ranges[column] for c in sources], bounds)
    return inside


def _subsets(inner: Sequence[IntervalSet], outer: Sequence[IntervalSet]) -> FilterBits:
    """Which of the inner sets (rows) lie in which of the outer ones (columns); none of them is empty.

    The hulls are compared as arrays. Where the outer set has gaps, both become bits over the segments between all ends.
    """
    lows, highs = _hulls(inner, outer)
    contained: FilterBits = (lows[0][:, None] >= lows[1][None, :]) & (highs[0][:, None] <= highs[1][None, :])
    several = [j for j, s in enumerate(outer) if len(s.intervals) > 1]
    if not several:
        return contained
    masks = _segments([*inner, *(outer[j] for j in several)])
    for j, outside in zip(several, (None if m is None else ~m for m in masks[len(inner) :]), strict=True):
        for i in map(int, np.flatnonzero(contained[:, j])):
            inside = masks[i]
            if outside is None or inside is None:
                contained[i, j] = inner[i].issubset(outer[j])
            else:
                contained[i, j] = not inside & outside
    return contained


def _hulls(*groups: Sequence[IntervalSet]) -> tuple[list[npt.NDArray[np.intp]], list[npt.NDArray[np.intp]]]:
    """The lower and upper ends of the sets of each group, as ranks among all of them."""
    ends = [[(low_cut(s.type, s.intervals[0]), high_cut(s.type, s.intervals[-1])) for s in sets] for sets in groups]
    ranks = {cut: rank for rank, cut in enumerate(sorted({cut for pairs in ends for pair in pairs for cut in pair}))}
    lows, highs = ([np.array([ranks[pair[side]] for pair in pairs], np.intp) for pairs in ends] for side in (0, 1))
    return lows, highs


def _segments(sets: Sequence[IntervalSet]) -> list[int | None]:
    """Each set as bits, one per segment between two neighbouring ends of any set; None for one of too many pieces."""
    pieces = [
        None
        if len(s.intervals) > MOST_PIECES
        else [(low_cut(s.type, interval), high_cut(s.type, interval)) for interval in s.intervals]
        for s in sets
    ]
    cuts = sorted({cut for ends in pieces if ends is not None for pair in ends for cut in pair})
    rank = {cut: at for at, cut in enumerate(cuts)}
    return [None if ends is None else sum((1 << rank[b]) - (1 << rank[a]) for a, b in ends) for ends in pieces]


def _prove(
    workload: TableWorkload,
    columns: frozenset[Column],
    predicates: Sequence[Formula],
    components: Sequence[frozenset[int]],
    places: Sequence[Sequence[int]],
    subsumed: FilterBits,
    rows: Sequence[int],
) -> None:
    """Decide predicates about these columns that are more than a range on one.

    All components that touch one of the columns are taken together: ``a = 1 AND b = 2`` implies ``a < b``, and
    ``a = 1`` alone implies ``a = 1 OR b = 2``.
    """
    mentioned = [frozenset(c for n in members for c in workload.items[n].columns) for members in components]
    touching = {c for c, known in enumerate(mentioned) if not known.isdisjoint(columns)}
    joined: dict[frozenset[int], list[int]] = defaultdict(list)
    for at, parts in enumerate(places):
        together = frozenset(part for part in parts if part in touching)
        if together:
            joined[together].append(at)
    sources = [_Component(workload, frozenset().union(*(components[part] for part in together))) for together in joined]
    possible = np.ones((len(sources), len(predicates)), np.bool_)
    by_bound: dict[Column, dict[int, IntervalSet]] = defaultdict(dict)
    for k, predicate in enumerate(predicates):
        for column, ranges in necessary_ranges(predicate).items():
            by_bound[column][k] = ranges
    for column, bounds in by_bound.items():
        # Where not even what a predicate needs of one column follows, the predicate does not.
        possible[:, list(bounds)] &= _in_ranges(sources, column, list(bounds.values()))
    number = {predicate: k for k, predicate in enumerate(predicates) if is_identified(predicate)}
    ways = [[columns_in(way) for way in (p.children if isinstance(p, Any) else (p,))] for p in predicates]
    for source, filters, open_ones in zip(sources, joined.values(), possible, strict=True):
        own = {number[part] for part in source.parts if part in number}
        for k in {*map(int, np.flatnonzero(open_ones)), *own}:
            if k in own or (any(way <= source.columns for way in ways[k]) and _implies(source, predicates[k])):
                subsumed[rows[k], filters] = True


def _implies(known: _Component, predicate: Formula) -> bool:
    if isinstance(predicate, Holds) and not known.has_choice:
        return known.facts.entails_directly(predicate)
    return implies(known.formula, predicate)
