"""In which order blocks are numbered: those that queries read together next to each other, across all units.

A reader is told which blocks to read as ranges of their ids, which Parquet's statistics judge at no cost. By unit and
then by block, a feature's blocks are a range or two in every unit, and 80 units make more ranges than a condition may
have. By union vector first, the blocks of the heaviest feature are one range over all units, those of the next at most
two, and so on; the units that a query does not come to are passed over as files, so that numbers in between cost
nothing. On denormalized TPC-H by month, 15 features and 2,251 blocks, q19 needs one range instead of 80, q5 two instead
of 18, q12 nine instead of 31, q6 24 instead of 51; q14, which asks for a month and nothing else, 32 instead of 21.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidestep.layout.vectors import Counts, Words, unpack


def sequence(unions: Words, weights: Sequence[float]) -> Counts:
    """The rank of each union vector: by the heaviest feature first, then by the next; equal vectors rank alike.

    >>> sequence(np.array([[0b10], [0b01], [0b11], [0b01]], dtype=np.uint64), [1.0, 5.0]).tolist()
    [1, 0, 2, 0]
    """
    if not len(unions) or not weights:
        return np.zeros(len(unions), np.int64)
    heaviest = np.argsort(-np.asarray(weights), kind="stable")
    keys = np.packbits(unpack(unions, len(weights))[:, heaviest], axis=1)
    _, rank = np.unique(keys, axis=0, return_inverse=True)
    return rank.ravel().astype(np.int64)
