"""What synopses are judged by where no one says what is asked: values of one block, looked up in the others.

A value that some block holds, alone or as the begin of a range, is a query. What matters is how many of the *other*
blocks are kept for it: the one that it is from is read whatever is known of it. So a few dozen blocks tell of a
thousand: if a share p of the other blocks is kept, a query reads ``1 + (n - 1) p`` of n blocks. Ranges of several
widths are among the queries, since that is what filters on other tables come to when a join carries them here.

What counts is by how much the reads shrink, not how many rows that is: of a column whose zone maps leave three of a
hundred blocks, ranges that leave one make all that is joined by it read a third.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sidestep.advisor.synopses.candidates import CodeSynopsis
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import GREATEST, Codes
from sidestep.synopsis.values.forms import Mask

WIDTHS = (0.0, 0.001, 0.01, 0.05)
"""Of the queries of each kind, as shares of what lies between the least and the greatest value; 0 is a single one."""
KIND_WEIGHTS = np.array([0.4, 0.2, 0.2, 0.2])
"""What a kind counts."""
QUERIES_OF_A_KIND = 48

Reads = npt.NDArray[np.float64]
"""The share of the blocks that each query reads."""


@dataclass(frozen=True, eq=False)
class Lookups:
    """Queries by the values of a column's blocks, and how to judge by them."""

    blocks: Sequence[Codes]
    """Each block's ascending, distinct codes."""
    stands_for: npt.NDArray[np.float64]
    """How many blocks each of them stands for."""
    lows: Codes
    highs: Codes
    """One for each query, kind after kind."""
    source: npt.NDArray[np.int64]
    """The block that each query's value is from."""

    @property
    def single(self) -> slice:
        """The queries for single values."""
        return slice(0, len(self.lows) // len(WIDTHS))

    @cached_property
    def zone_maps(self) -> Mask:
        """For each query and block, whether the zone map keeps the block."""
        kept = [
            (self.lows <= codes[-1]) & (self.highs >= codes[0]) if len(codes) else np.zeros(len(self.lows), np.bool_)
            for codes in self.blocks
        ]
        return np.array(kept, dtype=np.bool_).reshape(len(self.blocks), len(self.lows)).T

    @cached_property
    def held(self) -> Mask:
        """The same for whether the block does hold something that is asked for."""
        holding = [
            np.searchsorted(codes, self.lows, side="left") < np.searchsorted(codes, self.highs, side="right")
            for codes in self.blocks
        ]
        return np.array(holding, dtype=np.bool_).reshape(len(self.blocks), len(self.lows)).T

    def kept(self, synopsis: CodeSynopsis) -> Mask:
        """The same for a synopsis together with the zone map."""
        ends = zip(self.lows[:, np.newaxis], self.highs[:, np.newaxis], strict=True)
        met = np.array([synopsis.meeting(CodeRanges(low, high)) for low, high in ends], dtype=np.bool_)
        return np.asarray(self.zone_maps & met, dtype=np.bool_)

    def reads(self, kept: npt.NDArray[np.bool_] | npt.NDArray[np.float64]) -> Reads:
        """What each query reads of all blocks if those are kept, each for certain or with a likelihood."""
        others = np.array(kept, dtype=np.float64)
        others[np.arange(len(self.source)), self.source] = 0.0
        weights = np.tile(self.stands_for, (len(self.source), 1))
        weights[np.arange(len(self.source)), self.source] = 0.0
        rates = (others * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9)
        count = max(float(len(self.blocks)), float(self.stands_for.sum()))
        return np.asarray((1 + (count - 1) * rates) / count, dtype=np.float64)


def gain(before: Reads, after: Reads) -> float:
    """By how much reads shrink, as a logarithm: what synopses of different columns save together adds up.

    Each query counts by itself: those for frequent values, which read much anyway, do not hide what others save.
    """
    return float(KIND_WEIGHTS @ np.log(before / after).reshape(len(WIDTHS), -1).mean(axis=1))


def lookups(blocks: Sequence[Codes], stands_for: npt.NDArray[np.float64], seed: int = 0) -> Lookups | None:
    """Queries by values of these blocks; None if only one of them has any.

    Half of them are by blocks, each of which counts by how many it stands for: what occurs often is asked for often.
    The others are by values that all count alike, as those do that come from a table where each of them is a row.
    """
    rng = np.random.default_rng([seed, len(blocks)])
    filled = np.array([number for number, codes in enumerate(blocks) if len(codes)], dtype=np.int64)
    if len(filled) < 2:
        return None
    least, greatest = min(int(blocks[at][0]) for at in filled), max(int(blocks[at][-1]) for at in filled)
    count = QUERIES_OF_A_KIND * len(WIDTHS)
    by_block = stands_for[filled]
    by_value = by_block * [len(blocks[at]) for at in filled]
    halves = [rng.choice(filled, count // 2, p=each / each.sum()) for each in (by_block, by_value)]
    source = np.stack(halves, axis=1).ravel()
    lows = [int(blocks[at][int(rng.integers(len(blocks[at])))]) for at in source]
    widths = np.repeat(WIDTHS, QUERIES_OF_A_KIND).tolist()
    highs = [min(low + int(width * (greatest - least)), int(GREATEST)) for low, width in zip(lows, widths, strict=True)]
    return Lookups(blocks, stands_for, np.array(lows, dtype=np.uint64), np.array(highs, dtype=np.uint64), source)
