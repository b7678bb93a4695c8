"""Queries as column groups see them: the columns that they read, and the features that let them skip blocks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.layout.vectors import Bits
from sidestep.layout.weights import Floats

Part = tuple[int, ...]
"""Features that subsume a part of a filter: a block that lacks one of them has no row for that part."""
Way = tuple[Part, ...]
"""Parts that make up a filter together: a block that has no row for any of them is skipped."""
Ways = tuple[Way, ...]
"""All ways by which a filter may skip a block; none, and it reads every block."""
Numbers = npt.NDArray[np.intp]


def subsumed_by(features: Iterable[int]) -> Ways:
    """The filter that these features subsume: the query vector of the thesis (4.6.1).

    >>> subsumed_by([4, 1]), subsumed_by([])
    ((((1, 4),),), ())
    """
    part = tuple(sorted(set(features)))
    return ((part,),) if part else ()


@dataclass(frozen=True, slots=True)
class ColumnQuery:
    """One or more queries of a workload that read the same columns and skip alike."""

    columns: frozenset[str]
    ways: Ways
    weight: float = 1.0
    filter: Hashable = None
    """The filter itself, where more is known of blocks than features: then those of equal ways may still differ."""


@dataclass(frozen=True, eq=False)
class ColumnWorkload:
    """The queries of a workload on one table, equal ones made one.

    Contract: a filter is a number, so that what it reads of a group of columns is worked out once however many queries
    have it. The thesis lets a query skip a block that lacks one of the features which subsume the query. Here a filter
    has *ways* to skip: in one way it is taken whole, in another it falls into parts, such as the values of a list, and
    a block is skipped if each part is ruled out by some feature. So several features can answer together.

    >>> workload = ColumnWorkload.of(["a", "b"], 2, [ColumnQuery(frozenset("a"), subsumed_by([0]))] * 3)
    >>> workload.weights.tolist(), workload.reads.tolist()
    ([3.0], [[True, False]])
    """

    columns: tuple[str, ...]
    features: int
    filters: tuple[Ways, ...]
    keys: tuple[Hashable, ...]
    """The filters themselves, as they were given."""
    filter_of_query: Numbers
    reads: Bits
    """Queries by columns."""
    weights: Floats

    @classmethod
    def of(cls, columns: Sequence[str], features: int, queries: Iterable[ColumnQuery]) -> ColumnWorkload:
        """The workload of some queries; one that reads no column of the table has no part in it."""
        place = {name: at for at, name in enumerate(columns)}
        filters: dict[tuple[Ways, Hashable], int] = {}
        weights: dict[tuple[int, frozenset[int]], float] = {}
        for query in queries:
            unknown = sorted(query.columns - place.keys())
            if unknown:
                raise SidestepError(f"A query reads {', '.join(unknown)}, which the table does not have.")
            if any(not 0 <= at < features for way in query.ways for part in way for at in part):
                raise SidestepError(f"A query speaks of other features than the {features} there are.")
            if query.columns:
                number = filters.setdefault((query.ways, query.filter), len(filters))
                same = number, frozenset(place[name] for name in query.columns)
                weights[same] = weights.get(same, 0.0) + query.weight
        reads = np.zeros((len(weights), len(columns)), np.bool_)
        for at, (_, read) in enumerate(weights):
            reads[at, list(read)] = True
        return cls(
            tuple(columns),
            features,
            tuple(ways for ways, _ in filters),
            tuple(key for _, key in filters),
            np.array([number for number, _ in weights], np.intp),
            reads,
            np.array(list(weights.values()), np.float64),
        )

    @cached_property
    def helped(self) -> Floats:
        """Filters by features: the share of a filter that a feature speaks of, in the way where it is most.

        A feature that subsumes the filter speaks of all of it; one that subsumes one of eight values, of an eighth.
        """
        shares = np.zeros((len(self.filters), self.features))
        for number, ways in enumerate(self.filters):
            for way in ways:
                share = np.zeros(self.features)
                for part in way:
                    share[list(part)] += 1 / len(way)
                shares[number] = np.maximum(shares[number], share)
        return shares

    def skipping(self, filters: Sequence[int] | Numbers) -> SkippingTest:
        """The test of which blocks these filters skip."""
        return self._test.take(filters)

    @cached_property
    def _test(self) -> SkippingTest:
        return SkippingTest.of(self.filters, self.features)


@dataclass(frozen=True, eq=False)
class SkippingTest:
    """Which of many blocks each of some filters skips, by matrices.

    Filters that skip alike are looked at once: a log has many that only features cannot tell apart.
    """

    _whole: npt.NDArray[np.float32]
    """Kinds of filters by features: those that subsume the filter as a whole, in whichever way."""
    _parts: npt.NDArray[np.float32]
    """Parts by features, of ways that have several parts."""
    _ways: Sequence[Numbers]
    """The parts of each such way."""
    _of_kind: Sequence[Sequence[int]]
    """The ways of each kind of filter."""
    _kind: Numbers
    """The kind of each filter."""

    @classmethod
    def of(cls, filters: Sequence[Ways], features: int) -> SkippingTest:
        kinds: dict[Ways, int] = {}
        kind = np.array([kinds.setdefault(each, len(kinds)) for each in filters], np.intp)
        whole = np.zeros((len(kinds), features), np.float32)
        parts: dict[Part, int] = {}
        ways: dict[Way, int] = {}
        for at, each in enumerate(kinds):
            for way in each:
                if len(way) == 1:
                    whole[at, list(way[0])] = 1
                else:
                    ways.setdefault(way, len(ways))
                    for part in way:
                        parts.setdefault(part, len(parts))
        by_part = np.zeros((len(parts), features), np.float32)
        for part, at in parts.items():
            by_part[at, list(part)] = 1
        return cls(
            whole,
            by_part,
            [np.array([parts[part] for part in way], np.intp) for way in ways],
            [[ways[way] for way in each if len(way) > 1] for each in kinds],
            kind,
        )

    def take(self, filters: Sequence[int] | Numbers) -> SkippingTest:
        """The same for some of the filters, in that order."""
        chosen = self._kind[np.asarray(filters, np.intp)]
        kinds, kind = np.unique(chosen, return_inverse=True)
        ways = [self._of_kind[at] for at in kinds.tolist()]
        return SkippingTest(self._whole[kinds], self._parts, self._ways, ways, kind.ravel())

    def skipped(self, present: Bits, local: Sequence[int] | Numbers) -> Bits:
        """Filters by blocks: whether a block is skipped.

        Contract: ``present`` has the union vector of each block over the local features alone, in their order: no
        other feature can rule a block out, whatever its bit would have been (the *invalid* bits of 4.6.1; ``local`` is
        what the thesis calls the mask vector). A block is skipped only if some way rules out all of its parts.
        """
        return np.asarray(self._skipped(present, local)[self._kind])

    def count(self, present: Bits, local: Sequence[int] | Numbers, sizes: npt.NDArray[Any]) -> Floats:
        """For each filter, how many rows it skips of blocks that have so many rows."""
        return np.asarray((self._skipped(present, local) @ sizes.astype(np.float64))[self._kind])

    def _skipped(self, present: Bits, local: Sequence[int] | Numbers) -> Bits:
        features = np.asarray(local, np.intp)
        missing = (~present).T.astype(np.float32)
        skipped: Bits = self._whole[:, features] @ missing > 0
        used = sorted({way for ways in self._of_kind for way in ways})
        if used:
            ruled_out = self._parts[:, features] @ missing > 0
            sizes = np.array([len(self._ways[way]) for way in used])
            members = np.concatenate([self._ways[way] for way in used])
            by_way = np.logical_and.reduceat(ruled_out[members], np.cumsum(sizes) - sizes, axis=0)
            place = {way: at for at, way in enumerate(used)}
            for at, ways in enumerate(self._of_kind):
                for way in ways:
                    skipped[at] |= by_way[place[way]]
        return skipped
