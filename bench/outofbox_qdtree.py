"""A greedy Qd-tree (Yang et al., SIGMOD 2020): rows parted from the top down by the predicates of the workload.

Cuts are the comparisons of the queries to learn from: each bound of a range, each list of values, and as the paper's
*advanced cuts* whole comparisons of functions of a column, or of two columns. A leaf is parted by the cut after which
these queries skip most rows, both sides having at least ``min_size``; the leaf where that saves most comes first. What
a side is known to hold is what a block of it will be known to hold: bounds of all columns, sets of values of those that
have few, and for advanced cuts whether they are true of any row. The tree is grown on a sample. Leaves that no cut
parts are cut evenly, as their rows arrived, until there are as many blocks as in the layout it is compared with.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.outofbox_filters import (
    Atom,
    Blocks,
    Bools,
    Bound,
    BoundRange,
    Ints,
    atoms,
    codes_of,
    hold_any,
    is_plain,
    matching_rows,
)
from bench.outofbox_judge import MOST_VALUES, Arrangement, Sampled, sample_rows, terms_of
from bench.outofbox_kinds.table import Table

SAMPLE = 40_000
MOST_CUTS = 400
"""Those that most queries have come first."""


@dataclass(frozen=True)
class Leaf:
    """A block to be."""


@dataclass(frozen=True)
class Branch:
    cut: Atom
    satisfied: Node
    other: Node


Node = Leaf | Branch


def cuts_of(table: Table, queries: Sequence[Bound]) -> list[Atom]:
    """The cuts that queries suggest, those of most queries first."""
    counted: Counter[Atom] = Counter()
    for query in queries:
        counted.update({cut for atom in atoms(query) for cut in _cuts(table, atom)})
    return [cut for cut, _ in counted.most_common(MOST_CUTS)]


def _cuts(table: Table, atom: Atom) -> list[Atom]:
    last = len(table.coded(atom.term).values) - 1
    if not isinstance(atom, BoundRange) or not is_plain(atom.term):
        return [atom]
    sides = (BoundRange(atom.term, atom.low, last), BoundRange(atom.term, 0, atom.high))
    return [side for side in sides if side != BoundRange(atom.term, 0, last)]


@dataclass(frozen=True, eq=False)
class _Split:
    """The best way to part a leaf."""

    saved: float
    cut: int
    satisfied: Ints
    other: Ints


class _Grower:
    """A sample with its cuts, on which leaves are parted."""

    def __init__(self, table: Table, queries: Sequence[Bound], min_share: float) -> None:
        self.cuts = cuts_of(table, queries)
        self.queries = queries
        self.sample = Sampled(table, sample_rows(table.rows, SAMPLE))
        self.least = max(1, round(min_share * len(self.sample.rows)))
        self.terms = terms_of(queries)
        self.codes = {term: self.sample.coded(term).codes for term in self.terms}
        self.values = {term: len(table.coded(term).values) for term in self.terms}
        self.truth = np.array([matching_rows(cut, self.codes) for cut in self.cuts], np.bool_)
        self.advanced = [cut for cut in self.cuts if not is_plain(cut.term)]

    def split(self, rows: Ints, asking: Sequence[Bound]) -> tuple[_Split, list[Bound], list[Bound]] | None:
        """The cut that saves the queries which read these rows most; None if none saves any."""
        if len(rows) < 2 * self.least or not self.cuts or not asking:
            return None
        truth = self.truth[:, rows]
        size = truth.sum(axis=1)
        usable = np.flatnonzero((size >= self.least) & (len(rows) - size >= self.least))
        if not len(usable):
            return None
        truth = truth[usable]
        sides = self._describe(rows, truth)
        kept = np.array([sides.may_match(query) for query in asking])
        saved = len(rows) * len(asking) - (kept * sides.rows).sum(axis=0).reshape(2, -1).sum(axis=0)
        best = int(np.argmax(saved))
        if saved[best] <= 0:
            return None
        found = _Split(float(saved[best]), int(usable[best]), rows[truth[best]], rows[~truth[best]])
        mine, others = (
            [q for q, keeps in zip(asking, kept[:, at], strict=True) if keeps] for at in (best, best + len(usable))
        )
        return found, mine, others

    def _describe(self, rows: Ints, truth: Bools) -> Blocks:
        """Both sides of each cut as blocks: first those that satisfy the cuts, then the others."""
        size = truth.sum(axis=1)
        low, high, present, cuts = {}, {}, {}, {}
        for term in self.terms:
            codes, values = self.codes[term][rows], self.values[term]
            if values <= MOST_VALUES:
                held = _codes_held(codes, truth, values)
                if is_plain(term):
                    present[term] = held
                else:
                    allowed = {codes_of(cut) for cut in self.advanced if cut.term == term}
                    cuts[term] = [(one, hold_any(held, one)) for one in allowed]
            else:
                low[term], high[term] = _bounds(codes, truth, values)
        return Blocks(np.concatenate([size, len(rows) - size]), low, high, present, cuts)


def _codes_held(codes: npt.NDArray[np.int32], truth: Bools, values: int) -> Bools:
    every = np.bincount(codes + 1, minlength=values + 1)
    satisfied = np.array([np.bincount(codes[mask] + 1, minlength=values + 1) for mask in truth])
    return np.concatenate([satisfied > 0, every - satisfied > 0])[:, 1:]


def _bounds(codes: npt.NDArray[np.int32], truth: Bools, values: int) -> tuple[Ints, Ints]:
    known = np.where(codes < 0, values, codes)
    low = [known[mask].min() for mask in itertools.chain(truth, ~truth)]
    high = [codes[mask].max() for mask in itertools.chain(truth, ~truth)]
    return np.array(low, np.int64), np.array(high, np.int64)


def grow(table: Table, queries: Sequence[Bound], min_size: int, most: int) -> tuple[Node, list[Atom]]:
    """The tree, of at most so many leaves, and the advanced cuts whose truth its blocks know."""
    grower = _Grower(table, queries, min_size / max(1, table.rows))
    number = itertools.count()
    cut_of: dict[int, tuple[Atom, int, int]] = {}
    waiting: list[tuple[float, int, _Split, list[Bound], list[Bound]]] = []

    def add(rows: Ints, asking: Sequence[Bound]) -> int:
        me = next(number)
        if (found := grower.split(rows, asking)) is not None:
            split, mine, others = found
            heapq.heappush(waiting, (-split.saved, me, split, mine, others))
        return me

    root = add(np.arange(len(grower.sample.rows)), list(queries))
    while waiting and len(cut_of) + 1 < most:
        _, me, split, mine, others = heapq.heappop(waiting)
        cut_of[me] = (grower.cuts[split.cut], add(split.satisfied, mine), add(split.other, others))

    def node(me: int) -> Node:
        if me not in cut_of:
            return Leaf()
        cut, satisfied, other = cut_of[me]
        return Branch(cut, node(satisfied), node(other))

    return node(root), grower.advanced


def arrange(table: Table, tree: Node, blocks: int) -> Arrangement:
    """All rows by the tree's leaves; large leaves are cut until there are about as many blocks as wanted."""
    leaves = list(_leaves(table, tree, np.arange(table.rows)))
    pieces = np.ones(len(leaves), np.int64)
    sizes = np.array([len(rows) for rows in leaves])
    while pieces.sum() < blocks:
        pieces[np.argmax(sizes / pieces)] += 1
    cut = [piece for rows, count in zip(leaves, pieces, strict=True) for piece in np.array_split(rows, count)]
    filled = [piece for piece in cut if len(piece)]
    starts = np.cumsum([0, *map(len, filled)])[:-1]
    return Arrangement(np.concatenate(filled), starts, f"{len(leaves)} leaves")


def _leaves(table: Table, node: Node, rows: Ints) -> list[Ints]:
    if isinstance(node, Leaf):
        return [rows]
    truth = matching_rows(node.cut, {node.cut.term: table.coded(node.cut.term).codes[rows]})
    return [*_leaves(table, node.satisfied, rows[truth]), *_leaves(table, node.other, rows[~truth])]
