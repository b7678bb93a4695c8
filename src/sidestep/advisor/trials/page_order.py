"""How the rows of a block are sorted, so that readers pass over pages of it.

Blocks are what sidestep skips. Within those that are left, Spark's own reader passes over pages, runs of some two
thousand rows, by their least and greatest values. Which columns rows are sorted by within their block is open, as no
block's rows are others for it: the queries of a log say by which they would read least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sidestep.advisor.trials.needs import Needs, Positions
from sidestep.advisor.trials.sample import RowNumbers, Sample
from sidestep.advisor.trials.sides import Describer
from sidestep.advisor.trials.trial import Blocks
from sidestep.layout.pages import ANY_ORDER, PAGE_ROWS, PageOrder
from sidestep.layout.vectors import Bits
from sidestep.predicate.types import FLOATING

LEAST_GAIN = 0.05
"""An order that saves a smaller share of what is read is left to what makes blocks small."""
LEADING = 3
"""How many of the best columns are tried with another one below them."""
MOST_QUERIES = 250
"""By so many queries orders are compared, those of most weight."""


def best_page_order(sample: Sample, blocks: Blocks, needs: Needs, satisfied: Bits) -> PageOrder:
    """The columns to sort the rows of these blocks by, for queries with these needs.

    ``satisfied`` has the features of the needs by rows of the sample. No columns are named where none helps: pages of
    few rows, queries that need whole blocks.
    """
    if len(needs.weights) > MOST_QUERIES:
        needs = needs.take(np.sort(np.argsort(-needs.weights, kind="stable")[:MOST_QUERIES]))
    pages = _Pages(sample, blocks, needs, satisfied)
    if not pages.columns or len(pages.starts) == len(blocks):
        return ANY_ORDER
    unsorted = pages.read(())
    if not unsorted:
        return ANY_ORDER
    read: dict[tuple[str, ...], float] = {(name,): pages.read((name,)) for name in pages.columns}
    best = sorted(read, key=read.__getitem__)[:LEADING]
    for first in best:
        read |= {(*first, name): pages.read((*first, name)) for name in pages.columns if name not in first}
    # Of orders that are as good, the shorter one: what it leaves open may make blocks small.
    columns = min(read, key=lambda one: (round(read[one] / unsorted, 2), len(one)))
    share = read[columns] / unsorted
    return PageOrder(columns, share) if share <= 1 - LEAST_GAIN else ANY_ORDER


class _Pages:
    """Blocks that are cut into pages, in one order or another of the rows of each."""

    def __init__(self, sample: Sample, blocks: Blocks, needs: Needs, satisfied: Bits) -> None:
        self._sample, self._order = sample, blocks.order
        self._needs = needs
        # Parquet says nothing of pages of floats: their bounds leave NaN out.
        ordered = {name for name, type in sample.types.items() if type.kind not in FLOATING}
        self.columns: Sequence[str] = sorted(ordered & {*needs.ranges, *needs.sets})
        self._block = np.repeat(np.arange(len(blocks)), blocks.sizes)
        self.starts, page_block = _cut(blocks, sample.rows_for(PAGE_ROWS))
        self._sizes = np.diff(self.starts, append=len(self._order))
        describer = Describer(sample, needs, satisfied)
        sides = describer.describe(blocks.order, self._block, len(blocks))
        self._kept = ~describer.conditions(needs).skipped(sides)[:, page_block]

    def read(self, columns: Sequence[str]) -> float:
        """How many rows the queries read where rows are sorted by these columns within their block."""
        keys = [self._sample.codes[name][self._order] for name in reversed(columns)]
        order = self._order[np.lexsort([*keys, self._block])] if keys else self._mixed()
        kept = self._kept.copy()
        for name in self.columns:
            codes = self._sample.codes[name][order]
            none = len(self._sample.values[name])
            low = np.minimum.reduceat(np.where(codes < 0, none, codes), self.starts)
            high = np.maximum.reduceat(codes, self.starts)
            for of, wanted in self._wanted(name, low, high):
                kept[of] &= wanted
        return float(self._needs.weights @ (kept @ self._sizes))

    def _wanted(self, name: str, low: RowNumbers, high: RowNumbers) -> Iterator[tuple[Positions, Bits]]:
        """Queries, and by page whether it has a value between its bounds that they may want."""
        if name in self._needs.ranges:
            of, least, greatest = self._needs.ranges[name]
            yield of, (least[:, None] <= high) & (greatest[:, None] >= low)
        if name in self._needs.sets:
            of, values = self._needs.sets[name]
            before = np.zeros((len(of), values.shape[1] + 1), np.int32)
            np.cumsum(values, axis=1, out=before[:, 1:])
            yield of, before[:, high + 1] > before[:, np.minimum(low, high + 1)]

    def _mixed(self) -> RowNumbers:
        """The rows of each block in any order."""
        chance: npt.NDArray[np.float64] = np.random.default_rng(0).random(len(self._order))
        return self._order[np.lexsort([chance, self._block])]


def _cut(blocks: Blocks, page: int) -> tuple[RowNumbers, RowNumbers]:
    """Where pages of so many rows begin, and the block of each: the last page of a block has what is left."""
    counts = -(-blocks.sizes // page)
    block = np.repeat(np.arange(len(blocks)), counts)
    number = np.arange(len(block)) - np.repeat(np.cumsum(counts) - counts, counts)
    return blocks.starts[block] + number * page, block
