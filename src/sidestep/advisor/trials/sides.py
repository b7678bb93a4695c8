"""What is known of sets of rows, and which queries need none of them: what cuts are compared by.

A tree tries dozens of cuts at each of its nodes, so queries are put into flat arrays first: a range of ranks, or bits
of which a set must have one, or bits that it must have all. Values of columns of few, and features, are bits of the
same words, so that the union of rows is an OR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sidestep.advisor.trials.needs import Needs, Positions
from sidestep.advisor.trials.sample import RowNumbers, Sample
from sidestep.layout.vectors import Bits, Words, pack
from sidestep.layout.weights import Floats

NONE = np.int32(2**31 - 1)
"""The least rank where there is no value."""
Ranks = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Sides:
    """What is known of some sets of rows; sets are the last axis."""

    counts: RowNumbers
    low: Ranks
    """Least rank by column of many values."""
    high: Ranks
    words: Words
    """Values of columns of few, and features, that some row has."""

    def accumulate(self, *, backwards: bool = False) -> Sides:
        """What is known of each set together with all before it, or all after it."""
        step = -1 if backwards else 1

        def along(function: Any, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            return np.asarray(function.accumulate(array[..., ::step], axis=-1)[..., ::step])

        return Sides(
            along(np.add, self.counts),
            along(np.minimum, self.low),
            along(np.maximum, self.high),
            along(np.bitwise_or, self.words),
        )

    def unite(self, chosen: Bits) -> Sides:
        """For each line of ``chosen``, which says which sets, what is known of them together."""
        return Sides(
            chosen.astype(np.int64) @ self.counts,
            np.where(chosen, self.low[:, None, :], NONE).min(axis=2, initial=NONE),
            np.where(chosen, self.high[:, None, :], np.int32(-1)).max(axis=2, initial=-1),
            np.bitwise_or.reduce(np.where(chosen, self.words[:, None, :], np.uint64(0)), axis=2),
        )

    def take(self, sets: slice) -> Sides:
        return Sides(self.counts[sets], self.low[:, sets], self.high[:, sets], self.words[:, sets])


@dataclass(frozen=True, eq=False)
class Conditions:
    """What some queries need, as conditions on sets of rows; those of a query stand together."""

    weights: Floats
    ranges: tuple[Positions, Positions, Ranks, Ranks]
    """Query, column of many values, and the least and greatest rank that it may want."""
    sets: tuple[Positions, Words]
    """Query, and bits of which a set must have one (words by conditions)."""
    features: Words
    """Bits that a set must have all for the query to need it (words by queries)."""

    def take(self, queries: Positions) -> Conditions:
        """Those of some queries, ascending, which are then numbered anew."""
        place = np.full(len(self.weights), -1, np.intp)
        place[queries] = np.arange(len(queries))
        of_range, column, low, high = self.ranges
        of_set, bits = self.sets
        ranged, listed = place[of_range] >= 0, place[of_set] >= 0
        return Conditions(
            self.weights[queries],
            (place[of_range[ranged]], column[ranged], low[ranged], high[ranged]),
            (place[of_set[listed]], bits[:, listed]),
            self.features[:, queries],
        )

    def skipped(self, sides: Sides) -> Bits:
        """Queries by sets: whether a query needs none of the rows."""
        skip = np.zeros((len(self.weights), len(sides.counts)), np.bool_)
        of_range, column, low, high = self.ranges
        if len(of_range):
            _any(skip, of_range, (sides.high[column] < low[:, None]) | (sides.low[column] > high[:, None]))
        of_set, bits = self.sets
        if len(of_set):
            met = np.zeros((len(of_set), len(sides.counts)), np.bool_)
            for wanted, there in zip(bits, sides.words, strict=True):
                if wanted.any():
                    met |= wanted[:, None] & there[None, :] != 0
            _any(skip, of_set, ~met)
        for wanted, there in zip(self.features, sides.words, strict=True):
            if wanted.any():
                skip |= wanted[:, None] & ~there[None, :] != 0
        return skip


def _any(skip: Bits, of: Positions, met: Bits) -> None:
    """Skip a query where one of its conditions, which stand together, is met."""
    starts = np.flatnonzero(np.diff(of, prepend=-1))
    skip[of[starts]] |= np.logical_or.reduceat(met, starts, axis=0)


class Describer:
    """A sample's rows by column, in the form in which sets of them are described."""

    def __init__(self, sample: Sample, needs: Needs, satisfied: Bits) -> None:
        self.ranged, self.listed = sorted(needs.ranges), sorted(needs.sets)
        self.codes = [sample.codes[name].astype(np.int32) for name in self.ranged]
        self._low = [np.where(codes < 0, NONE, codes) if (codes < 0).any() else codes for codes in self.codes]
        self.first_bit: dict[str, int] = {}
        bits = 0
        for name in self.listed:
            self.first_bit[name] = bits
            bits += len(sample.values[name])
        self._features, self._bits = bits, bits + len(satisfied)
        self._words = list(self._row_words(sample, satisfied))

    def _row_words(self, sample: Sample, satisfied: Bits) -> Sequence[Words]:
        words = np.zeros((-(-self._bits // 64), len(sample)), np.uint64)
        rows = np.arange(len(sample))
        for name in self.listed:
            codes = sample.codes[name]
            bit = np.where(codes < 0, 0, codes) + self.first_bit[name]
            words[bit // 64, rows] |= np.where(codes < 0, np.uint64(0), np.uint64(1) << (bit % 64).astype(np.uint64))
        for at, line in enumerate(satisfied, self._features):
            words[at // 64] |= line.astype(np.uint64) << np.uint64(at % 64)
        return [np.ascontiguousarray(line) for line in words]

    def conditions(self, needs: Needs) -> Conditions:
        """The needs of queries on these columns as conditions."""
        none = np.zeros(0, np.intp), np.zeros(0, np.int64), np.zeros(0, np.int64)
        ranges = [(at, *needs.ranges.get(name, none)) for at, name in enumerate(self.ranged)]
        of = np.concatenate([np.zeros(0, np.intp), *(one for _, one, _, _ in ranges)]).astype(np.intp)
        column = np.concatenate([np.zeros(0, np.intp), *(np.full(len(one), at) for at, one, _, _ in ranges)])
        low = np.concatenate([np.zeros(0, np.int32), *(one for _, _, one, _ in ranges)]).astype(np.int32)
        high = np.concatenate([np.zeros(0, np.int32), *(one for _, _, _, one in ranges)]).astype(np.int32)
        by_query = np.argsort(of, kind="stable")
        of_set: list[Positions] = [np.zeros(0, np.intp)]
        lines = [np.zeros((0, self._bits), np.bool_)]
        for name in self.listed:
            if name in needs.sets:
                mine, wanted = needs.sets[name]
                line = np.zeros((len(mine), self._bits), np.bool_)
                line[:, self.first_bit[name] : self.first_bit[name] + wanted.shape[1]] = wanted
                of_set.append(mine)
                lines.append(line)
        queries, bits = np.concatenate(of_set), np.concatenate(lines)
        by_set = np.argsort(queries, kind="stable")
        needed = np.zeros((len(needs.weights), self._bits), np.bool_)
        needed[:, self._features :] = needs.subsumes.T
        return Conditions(
            needs.weights,
            (of[by_query], column[by_query].astype(np.intp), low[by_query], high[by_query]),
            (queries[by_set], np.ascontiguousarray(pack(bits[by_set]).T)),
            np.ascontiguousarray(pack(needed).T),
        )

    def wanted(self, conditions: Conditions, name: str) -> tuple[Positions, Bits]:
        """The queries that filter a column of few values, and which of them each may want."""
        of, bits = conditions.sets
        first, last = self.first_bit[name], self._last_bit(name)
        numbers = np.arange(first, last)
        lines = (bits[numbers // 64] >> (numbers % 64).astype(np.uint64)[:, None]) & np.uint64(1) != 0
        mine = np.flatnonzero(lines.any(axis=0))
        return of[mine], lines.T[mine]

    def _last_bit(self, name: str) -> int:
        at = self.listed.index(name) + 1
        return self.first_bit[self.listed[at]] if at < len(self.listed) else self._features

    def describe(self, rows: RowNumbers, bin_of_row: RowNumbers, bins: int) -> Sides:
        """What is known of the rows in each bin; bins may be empty."""
        # Numbers of two bytes are sorted by their digits, in a fraction of the time.
        order = np.argsort(bin_of_row.astype(np.int16) if bins < 1 << 15 else bin_of_row, kind="stable")
        counts = np.bincount(bin_of_row, minlength=bins)
        filled = np.flatnonzero(counts)
        starts = (np.cumsum(counts) - counts)[filled]
        mine = rows[order]
        low = np.full((len(self.codes), bins), NONE)
        high = np.full((len(self.codes), bins), np.int32(-1))
        words = np.zeros((len(self._words), bins), np.uint64)
        for at, (least, codes) in enumerate(zip(self._low, self.codes, strict=True)):
            held = codes[mine]
            high[at, filled] = np.maximum.reduceat(held, starts)
            low[at, filled] = np.minimum.reduceat(held if least is codes else least[mine], starts)
        for at, line in enumerate(self._words):
            words[at, filled] = np.bitwise_or.reduceat(line[mine], starts)
        return Sides(counts, low, high, words)
