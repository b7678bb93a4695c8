"""The objective that a layout maximizes, straight from the thesis: what partitioners are tested against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sidestep.layout import Words, unpack


def skippable_per_block(
    unions: Words, sizes: npt.NDArray[np.int64], weights: Sequence[float]
) -> npt.NDArray[np.float64]:
    """C(P) of each block: its rows, times the weight of all features that no row of it satisfies (thesis, 3.1)."""
    absent = ~unpack(unions, len(weights))
    return np.asarray(sizes * (absent @ np.asarray(weights, np.float64)), np.float64)


def skippable_rows(unions: Words, sizes: npt.NDArray[np.int64], weights: Sequence[float]) -> float:
    """The sum of C(P) over all blocks: the rows not read when the whole workload runs once (thesis, 3.2).

    Two rows of (0,1,0) and (1,1,0) in a block, with weights 50, 20 and 10, are skipped by the 10 queries of the third:

    >>> skippable_rows(np.array([[0b011]], dtype=np.uint64), np.array([2]), [50, 20, 10])
    20.0
    """
    return float(skippable_per_block(unions, sizes, weights).sum())
