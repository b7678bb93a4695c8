"""How good a layout is: the rows that the workload's queries skip, by the union vectors of its blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.layout.vectors import Counts, Words, unpack, words_for

Floats = npt.NDArray[np.float64]


def skippable_per_block(unions: Words, sizes: Counts, weights: Sequence[float]) -> Floats:
    """C(P) of each block: its rows, times the weight of all features that no row of it satisfies (thesis, 3.1).

    A feature's weight is the number of queries that it subsumes. Each of them skips the block if the feature's bit in
    the union vector is 0, so C(P) counts the rows that are not read when the whole workload runs once.
    """
    weighed = checked_weights(weights, len(weights))
    if unions.shape != (len(sizes), words_for(len(weighed))):
        raise SidestepError(
            f"{len(sizes)} sizes and {len(weighed)} weights don't fit union vectors of shape {unions.shape}: "
            "give one size per block and one weight per feature."
        )
    absent = ~unpack(unions, len(weighed))
    return np.asarray(sizes * (absent @ weighed), dtype=np.float64)


def skippable_rows(unions: Words, sizes: Counts, weights: Sequence[float]) -> float:
    """The sum of C(P) over all blocks: the objective that a layout maximizes (thesis, 3.2).

    Two rows of (0,1,0) and (1,1,0) in a block, with weights 50, 20 and 10, are skipped by the 10 queries of the third:

    >>> import numpy as np
    >>> skippable_rows(np.array([[0b011]], dtype=np.uint64), np.array([2]), [50, 20, 10])
    20.0
    """
    return float(skippable_per_block(unions, sizes, weights).sum())


def checked_weights(weights: Sequence[float], features: int) -> Floats:
    """The weights as an array; refused unless there is one for each feature, finite and not negative."""
    weighed = np.asarray(weights, dtype=np.float64)
    if weighed.shape != (features,):
        raise SidestepError(f"{len(weights)} weights were given for {features} features: give one for each.")
    if not np.isfinite(weighed).all() or (weighed < 0).any():
        raise SidestepError("A feature's weight is the number of queries it serves: it must be finite and at least 0.")
    return weighed
