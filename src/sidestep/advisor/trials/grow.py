"""Cut trees grown on a sample: top-down by what queries need, or by quantiles of columns.

:func:`grow` is greedy (Yang et al., SIGMOD 2020): a node takes the cut that lets its queries skip most rows on either
side, judged by all that is known of the two sides, not only by the column that is cut: where a date follows another,
a cut by one serves queries on the other. A cut lies where queries end: at the ends of their ranges, between the values
that they ask for and all others, between two of a column's values such that many queries ask for those on one side
only, or at a feature. A node becomes a leaf if it is small, or if no cut saves anything.

:func:`cut_evenly` needs no queries: columns in turn are cut where their rows are halved. One column is a sort, several
are a Z-order by ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sidestep.advisor.trials.needs import Needs, Positions
from sidestep.advisor.trials.sample import RowNumbers, Sample
from sidestep.advisor.trials.sides import Conditions, Describer, Sides
from sidestep.layout.tree import MOST_DEPTH, Cut, Test
from sidestep.layout.vectors import Bits
from sidestep.layout.weights import Floats
from sidestep.predicate import Comparison, DataType, In, Kind
from sidestep.predicate.nodes import Column, Literal, Op

MOST_BOUNDARIES = 32
"""Places at which a node tries to cut one column."""
LAST_CHANCE, SMALL_PART = 3, 0.0625
"""A cut is urgent if one side has fewer rows than so many of the smallest leaves, and than this share of the node."""
MOST_SETS, MOST_HALVES, MOST_FEATURE_CUTS = 16, 8, 8
"""Sets of values of one column, places between its values, and features that a node tries: those that promise most."""


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree as it was grown: its tests are about the ranks of a sample's values."""

    top: _Node
    tree: Cut | None
    """The same about the values themselves; None if there is a single leaf."""

    @property
    def leaves(self) -> int:
        return 1 if self.tree is None else self.tree.leaves

    def route(self, sample: Sample, satisfied: Bits) -> RowNumbers:
        """The leaf of each row of a sample that has the same distinct values; ``satisfied`` is features by rows."""
        leaf_of_row = np.zeros(len(sample), np.int64)
        leaves = 0
        pending = [(self.top, np.arange(len(sample)))]
        while pending:
            node, rows = pending.pop()
            if node.cut is None or node.no is None or node.yes is None:
                leaf_of_row[rows] = leaves
                leaves += 1
                continue
            yes = node.cut.passes(sample, satisfied, rows)
            pending += [(node.yes, rows[yes]), (node.no, rows[~yes])]
        return leaf_of_row


def grow(sample: Sample, needs: Needs, satisfied: Bits, least: int, urgent: float = 1.0) -> Grown:
    """The tree that lets the queries skip most; each leaf has at least ``least`` of the sample's rows.

    ``satisfied`` says which rows have each of the features that ``needs.subsumes`` is about. A cut that sets few rows
    apart, few enough that they could not be set apart any more once the node has been cut by something else, goes
    first if it saves the queries at least a share ``urgent`` of the node: it costs the others next to nothing.
    """
    grower = _Grower(sample, needs, satisfied, max(1, least), urgent)
    return _grown(sample, grower.grow(np.arange(len(sample)), np.arange(len(needs.weights))))


def cut_evenly(sample: Sample, columns: Sequence[str], least: int) -> Grown:
    """The columns cut in turn, each time in the middle; each leaf has at least ``least`` of the sample's rows."""

    def part(rows: RowNumbers, turn: int) -> _Node:
        for step in range(len(columns)) if len(rows) >= 2 * least else ():
            name = columns[(turn + step) % len(columns)]
            codes = sample.codes[name][rows]
            boundary = _middle(codes, least)
            if boundary is not None:
                yes = codes >= boundary
                no_side, yes_side = (part(rows[side], turn + step + 1) for side in (~yes, yes))
                return _Node(_RankCut(name, boundary), no_side, yes_side)
        return _Node()

    return _grown(sample, part(np.arange(len(sample)), 0))


def _middle(codes: RowNumbers, least: int) -> int | None:
    """The boundary that halves the rows best with at least ``least`` on either side; None if there is none."""
    ordered = np.sort(codes)
    starts = np.flatnonzero(np.diff(ordered)) + 1
    starts = starts[(starts >= least) & (starts <= len(ordered) - least)]
    if not len(starts):
        return None
    return int(ordered[starts[np.abs(starts - len(ordered) / 2).argmin()]])


@dataclass(frozen=True, slots=True)
class _RankCut:
    """Values of at least a rank."""

    column: str
    rank: int

    def passes(self, sample: Sample, satisfied: Bits, rows: RowNumbers) -> Bits:
        return np.asarray(sample.codes[self.column][rows] >= self.rank)

    def test(self, sample: Sample) -> Test:
        kind = sample.types[self.column]
        return Comparison(Op.GE, Column(self.column, kind), _literal(sample.values[self.column][self.rank], kind))


@dataclass(frozen=True, slots=True, eq=False)
class _SetCut:
    """Some of a column's values."""

    column: str
    chosen: Bits
    """By rank."""

    def passes(self, sample: Sample, satisfied: Bits, rows: RowNumbers) -> Bits:
        codes = sample.codes[self.column][rows]
        return np.asarray((codes >= 0) & self.chosen[codes])

    def test(self, sample: Sample) -> Test:
        kind, values = sample.types[self.column], sample.values[self.column]
        return In(
            Column(self.column, kind), tuple(_literal(values[int(at)], kind) for at in np.flatnonzero(self.chosen))
        )


@dataclass(frozen=True, slots=True)
class _FeatureCut:
    feature: int

    def passes(self, sample: Sample, satisfied: Bits, rows: RowNumbers) -> Bits:
        return np.asarray(satisfied[self.feature, rows])

    def test(self, sample: Sample) -> Test:
        return self.feature


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A node; a leaf without a cut."""

    cut: _RankCut | _SetCut | _FeatureCut | None = None
    no: _Node | None = None
    yes: _Node | None = None


def _grown(sample: Sample, top: _Node) -> Grown:
    def tree(node: _Node) -> Cut | None:
        if node.cut is None or node.no is None or node.yes is None:
            return None
        return Cut(node.cut.test(sample), tree(node.no), tree(node.yes))

    return Grown(top, tree(top))


@dataclass(frozen=True, eq=False)
class _Choice:
    gain: float
    cut: _RankCut | _SetCut | _FeatureCut
    yes: Bits
    """Of the node's rows."""
    skipped: tuple[Bits, Bits]
    """For the rows that do not pass and those that do: which queries need none."""


class _Grower:
    def __init__(self, sample: Sample, needs: Needs, satisfied: Bits, least: int, urgent: float) -> None:
        self.sample, self.least, self.urgent = sample, least, urgent
        self.describer = Describer(sample, needs, satisfied)
        self.conditions = self.describer.conditions(needs)
        self.satisfied = satisfied
        self.subsumes = needs.subsumes

    def grow(self, rows: RowNumbers, queries: Positions, depth: int = 0) -> _Node:
        """The tree below a node that these queries read."""
        if len(rows) < 2 * self.least or not len(queries) or depth == MOST_DEPTH:
            return _Node()
        conditions = self.conditions.take(queries)
        limit = self.urgent * float(conditions.weights.sum()) * len(rows)
        choices = list(self._choices(rows, queries, conditions))
        if not choices:
            return _Node()
        best = max(choices, key=lambda one: (one.gain >= limit and self._is_last_chance(one), one.gain))
        no, yes = (queries[~skipped] for skipped in best.skipped)
        return _Node(best.cut, self.grow(rows[~best.yes], no, depth + 1), self.grow(rows[best.yes], yes, depth + 1))

    def _choices(self, rows: RowNumbers, queries: Positions, conditions: Conditions) -> Iterator[_Choice]:
        """The best cut by each column, and cuts by features."""
        for at in range(len(self.describer.ranged)):
            yield from self._range_cut(rows, conditions, at)
        for name in self.describer.listed:
            yield from self._set_cut(rows, conditions, name)
        yield from self._feature_cuts(rows, queries, conditions)

    def _is_last_chance(self, choice: _Choice) -> bool:
        """Whether one side is so small that it could not be cut off any more from half of the rows."""
        rows, passing = len(choice.yes), int(choice.yes.sum())
        return min(passing, rows - passing) < min(LAST_CHANCE * self.least, SMALL_PART * rows)

    def _range_cut(self, rows: RowNumbers, conditions: Conditions, at: int) -> Iterator[_Choice]:
        of, column, low, high = conditions.ranges
        mine = column == at
        if not mine.any():
            return
        codes = self.describer.codes[at][rows]
        ends = np.concatenate([low[mine], high[mine] + 1])
        weights = np.concatenate([conditions.weights[of[mine]]] * 2)
        inside = (ends > codes.min()) & (ends <= codes.max())
        if not inside.any():
            return
        boundaries = _weighted(ends[inside], weights[inside], MOST_BOUNDARIES)
        bin_of_row = np.searchsorted(boundaries, codes, side="right")
        bins = self.describer.describe(rows, bin_of_row, len(boundaries) + 1)
        before, after = bins.accumulate(), bins.accumulate(backwards=True)
        best = self._best(conditions, before.take(slice(None, -1)), after.take(slice(1, None)))
        if best is not None:
            gain, place, skipped = best
            boundary = int(boundaries[place])
            yield _Choice(gain, _RankCut(self.describer.ranged[at], boundary), codes >= boundary, skipped)

    def _set_cut(self, rows: RowNumbers, conditions: Conditions, name: str) -> Iterator[_Choice]:
        of, wanted = self.describer.wanted(conditions, name)
        if not len(of):
            return
        codes, count = self.sample.codes[name][rows], len(self.sample.values[name])
        seen = np.bincount(codes + 1, minlength=count + 1)[1:] > 0
        asked = wanted & seen
        lines = _heaviest(asked, conditions.weights[of], MOST_SETS)
        if not len(lines):
            return
        # Of many values no query's own may have rows enough for a leaf, but each query wants one half or the other.
        halves = _between(conditions.weights[of] @ asked, seen, MOST_HALVES)
        chosen = np.vstack([lines, np.arange(count) >= halves[:, None]])
        inside = np.hstack([np.zeros((len(chosen), 1), np.bool_), chosen])
        bins = self.describer.describe(rows, codes + 1, count + 1)
        best = self._best(conditions, bins.unite(~inside), bins.unite(inside))
        if best is not None:
            gain, place, skipped = best
            at = place - len(lines)
            cut = _SetCut(name, lines[place]) if at < 0 else _RankCut(name, int(halves[at]))
            yield _Choice(gain, cut, inside[place][codes + 1], skipped)

    def _feature_cuts(self, rows: RowNumbers, queries: Positions, conditions: Conditions) -> Iterator[_Choice]:
        if not len(self.satisfied):
            return
        having = self.satisfied[:, rows].sum(axis=1)
        promise = (self.subsumes[:, queries] @ conditions.weights) * (len(rows) - having)
        promise[(having < self.least) | (having > len(rows) - self.least)] = 0
        for feature in np.argsort(-promise, kind="stable")[:MOST_FEATURE_CUTS].tolist():
            if promise[feature] <= 0:
                return
            yes = self.satisfied[feature, rows]
            bins = self.describer.describe(rows, yes.astype(np.int64), 2)
            best = self._best(conditions, bins.take(slice(0, 1)), bins.take(slice(1, 2)))
            if best is not None:
                yield _Choice(best[0], _FeatureCut(feature), yes, best[2])

    def _best(self, conditions: Conditions, no: Sides, yes: Sides) -> tuple[float, int, tuple[Bits, Bits]] | None:
        """Of several cuts, each with its two sides, the one that saves most: its gain, its number, who skips what."""
        allowed = (no.counts >= self.least) & (yes.counts >= self.least)
        if not allowed.any():
            return None
        skips = [conditions.skipped(side) for side in (no, yes)]
        saved = [(conditions.weights @ skip) * side.counts for skip, side in zip(skips, (no, yes), strict=True)]
        gain: Floats = np.where(allowed, saved[0] + saved[1], 0)
        place = int(gain.argmax())
        if gain[place] <= 0:
            return None
        return float(gain[place]), place, (skips[0][:, place], skips[1][:, place])


def _heaviest(asked: Bits, weights: Floats, most: int) -> Bits:
    """The distinct sets of values that queries ask for, those of most weight first; empty ones are left out."""
    weight: dict[bytes, float] = {}
    for line, each in zip(asked, weights.tolist(), strict=True):
        if line.any():
            weight[line.tobytes()] = weight.get(line.tobytes(), 0.0) + each
    heaviest = sorted(weight, key=lambda line: (-weight[line], line))[:most]
    return np.array([np.frombuffer(line, np.bool_) for line in heaviest]).reshape(len(heaviest), asked.shape[1])


def _between(asked: Floats, seen: Bits, most: int) -> RowNumbers:
    """Ranks of seen values, but for the least, at even steps of how often the values before each are asked for.

    >>> _between(np.array([5.0, 0, 5, 5, 5]), np.array([True, True, True, True, True]), 1).tolist()
    [3]
    >>> _between(np.array([5.0, 0, 5]), np.array([True, False, False]), 8).tolist()
    []
    """
    values = np.flatnonzero(seen)
    if len(values) < 2:
        return values[:0]
    before = np.cumsum(asked[values])
    if len(values) - 1 <= most:
        return values[1:]
    steps = np.searchsorted(before, np.arange(1, most + 1) / (most + 1) * before[-1])
    return np.asarray(values[np.unique((steps + 1).clip(1, len(values) - 1))])


def _weighted(ends: RowNumbers, weights: Floats, most: int) -> RowNumbers:
    """Distinct ends, ascending; of many, those at even steps of their weight."""
    distinct, place = np.unique(ends, return_inverse=True)
    if len(distinct) <= most:
        return np.asarray(distinct)
    passed = np.cumsum(np.bincount(place, weights))
    steps = np.searchsorted(passed, (np.arange(most) + 0.5) / most * passed[-1])
    return np.asarray(distinct[np.unique(steps)])


def _literal(scalar: pa.Scalar, kind: DataType) -> Literal:
    """An Arrow value as a constant of a column's type."""
    if pa.types.is_date32(scalar.type):
        return Literal(scalar.cast(pa.int32()).as_py(), kind)
    if pa.types.is_temporal(scalar.type):
        return Literal(scalar.cast(pa.int64()).as_py(), kind)
    value = scalar.as_py()
    if kind.kind is Kind.BINARY:
        value = bytes(value)
    return Literal(value, kind)
