"""What queries need of a sample's columns, as ranks of values: what cuts are chosen by.

Three things about a block prove that a query needs none of its rows: the least and greatest value of a column (zone
maps), the set of values of a column that has few (value sets), and features that no row has (union vectors). Here each
query is put into these terms once: for each of its columns the values that it may want, and the features that subsume
it. A formula with disjunctions says less in these terms than as a whole, so they choose layouts and do not judge them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sidestep.advisor.trials.sample import RowNumbers, Sample
from sidestep.advisor.trials.trial import FEW_VALUES, Blocks, catalog_of_values
from sidestep.layout.vectors import Bits
from sidestep.layout.weights import Floats
from sidestep.predicate import Formula
from sidestep.predicate.formula import All, names_in
from sidestep.synopsis import kept_blocks

Positions = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Needs:
    """What each of some queries needs; queries are numbered by ``weights``."""

    weights: Floats
    ranges: Mapping[str, tuple[Positions, RowNumbers, RowNumbers]]
    """By column of many values: queries that filter it, and the least and greatest rank that each may want."""
    sets: Mapping[str, tuple[Positions, Bits]]
    """By column of few values: queries that filter it, and which of its values each may want."""
    subsumes: Bits
    """Features by queries: a query needs no block that lacks a feature which subsumes it."""

    def take(self, queries: Positions) -> Needs:
        """Those of some queries, in that order; a query may come several times."""
        ranges, sets = {}, {}
        for name, (of, low, high) in self.ranges.items():
            at, place = _matches(of, queries)
            ranges[name] = at, low[place], high[place]
        for name, (of, wanted) in self.sets.items():
            at, place = _matches(of, queries)
            sets[name] = at, wanted[place]
        return Needs(self.weights[queries], ranges, sets, self.subsumes[:, queries])

    def join(self, other: Needs) -> Needs:
        """Those of these queries and of others, about the same columns."""
        count = len(self.weights)
        ranges = {
            name: _join(self.ranges.get(name, _NO_RANGES), other.ranges.get(name, _NO_RANGES), count)
            for name in {*self.ranges, *other.ranges}
        }
        width = {name: wanted.shape[1] for one in (self, other) for name, (_, wanted) in one.sets.items()}
        sets = {}
        for name, values in width.items():
            none = np.zeros(0, np.intp), np.zeros((0, values), np.bool_)
            sets[name] = _join(self.sets.get(name, none), other.sets.get(name, none), count)
        weights = np.concatenate([self.weights, other.weights])
        return Needs(weights, ranges, sets, np.hstack([self.subsumes, other.subsumes]))

    def shift(self, sample: Sample, rng: np.random.Generator) -> Needs:
        """The same queries about other places: each range elsewhere, over as many rows, by chance.

        A log whose focus moves asks for the like of what it asked before, somewhere else. Sets of values stay: a query
        asks for what there is.
        """
        moved = {}
        for name, (of, low, high) in self.ranges.items():
            counts = np.bincount(sample.codes[name] + 1, minlength=len(sample.values[name]) + 1)
            below = np.cumsum(counts)  # rows below each rank, NULL counting as least
            first, width = below[low.clip(0)], np.zeros(len(low), np.int64)
            width = np.maximum(0, below[(high + 1).clip(0, len(below) - 1)] - first)
            total = int(below[-1])
            closed = (low > 0) & (high < len(sample.values[name]) - 1)
            start = (rng.random(len(low)) * np.maximum(1, total - width)).astype(np.int64)
            new_low = np.searchsorted(below, start, side="right") - 1
            new_high = np.searchsorted(below, start + np.maximum(1, width) - 1, side="right") - 1
            new_high = np.maximum(new_high, np.where(low == high, new_low, new_high))
            moved[name] = of, np.where(closed, new_low, low), np.where(closed, new_high, high)
        return replace(self, ranges=moved)


def skipped_by_values(sample: Sample, needs: Needs, blocks: Blocks) -> Bits:
    """Queries by blocks: whether bounds or sets of a column's values prove that a query needs no row of a block."""
    skipped = np.zeros((len(needs.weights), len(blocks)), np.bool_)
    for name, (of, low, high) in needs.ranges.items():
        codes = sample.codes[name][blocks.order]
        least = np.minimum.reduceat(np.where(codes < 0, np.iinfo(np.int64).max, codes), blocks.starts)
        greatest = np.maximum.reduceat(codes, blocks.starts)
        skipped[of] |= (greatest[None, :] < low[:, None]) | (least[None, :] > high[:, None])
    number = np.repeat(np.arange(len(blocks)), blocks.sizes)
    for name, (of, wanted) in needs.sets.items():
        present = np.zeros((len(blocks), wanted.shape[1] + 1), np.float32)
        present[number, sample.codes[name][blocks.order]] = 1
        skipped[of] |= wanted.astype(np.float32) @ present[:, :-1].T == 0
    return skipped


def needs_of(sample: Sample, queries: Sequence[Formula], weights: Floats, subsumes: Bits) -> Needs:
    """What the queries need of a sample's columns."""
    ranges: dict[str, tuple[list[int], list[int], list[int]]] = {}
    sets: dict[str, tuple[list[int], list[Bits]]] = {}
    wanted = {name: _Wanted(sample, name) for name in sample.types}
    for number, query in enumerate(queries):
        for name in sorted(names_in(query) & set(sample.types)):
            values = wanted[name].of(query)
            if values is None or values.all():
                continue
            if len(values) <= FEW_VALUES:
                at, bits = sets.setdefault(name, ([], []))
                at.append(number)
                bits.append(values)
            else:
                places = np.flatnonzero(values)
                of, low, high = ranges.setdefault(name, ([], [], []))
                of.append(number)
                low.append(int(places[0]) if len(places) else len(values))
                high.append(int(places[-1]) if len(places) else -1)
    return Needs(
        np.asarray(weights, np.float64),
        {n: (np.array(at, np.intp), np.array(low), np.array(high)) for n, (at, low, high) in ranges.items()},
        {n: (np.array(at, np.intp), np.array(bits, np.bool_)) for n, (at, bits) in sets.items()},
        subsumes,
    )


class _Wanted:
    """Which values of one column a query may want, by the rules that tables are skipped by."""

    def __init__(self, sample: Sample, name: str) -> None:
        self._name = name
        self._catalog = catalog_of_values(sample, name)
        self._known: dict[Formula, Bits | None] = {}

    def of(self, query: Formula) -> Bits | None:
        # Nothing else is known here, so only the conditions on the column count; queries have these in common.
        about = _conditions_on(query, self._name)
        if about not in self._known:
            self._known[about] = kept_blocks(self._catalog, about) if len(self._catalog.rows) else None
        return self._known[about]


def _conditions_on(query: Formula, name: str) -> Formula:
    """The conjuncts of a query that speak of a column."""
    if not isinstance(query, All):
        return query
    children = tuple(child for child in query.children if name in names_in(child))
    return children[0] if len(children) == 1 else All(children)


_NO_RANGES = (np.zeros(0, np.intp), np.zeros(0, np.int64), np.zeros(0, np.int64))


def _join(one: Any, other: Any, count: int) -> Any:
    """Two tuples of arrays as one; the first of each numbers queries, the other's from ``count`` on."""
    of, *rest = (np.concatenate([a, b]) for a, b in zip(one, (other[0] + count, *other[1:]), strict=True))
    return of, *rest


def _matches(of: Positions, queries: Positions) -> tuple[Positions, Positions]:
    """Where the numbers in ``queries`` occur in the ascending ``of``: positions in either."""
    if not len(of):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    place = np.searchsorted(of, queries).clip(0, len(of) - 1)
    at = np.flatnonzero(of[place] == queries)
    return at, place[at]
