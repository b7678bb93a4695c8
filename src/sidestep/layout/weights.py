"""How good a layout is: the rows that the workload's queries skip, by the union vectors of its blocks.

The weight of the features that one vector shares with each of many, by table look-up.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.layout.vectors import Counts, Words, bytes_for, unpack, words_for

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


Codes = npt.NDArray[np.intp]
"""One row per byte of a vector, one column per vector: the bytes of many vectors as indexes into a table."""


def codes_of(words: Words, features: int) -> Codes:
    """The bytes of packed vectors."""
    spread = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    return np.ascontiguousarray(spread[:, : bytes_for(features)].T, dtype=np.intp)


class ByteWeights:
    """The weight of every value that a byte of a feature vector can have, so that eight features are one look-up.

    This is the innermost loop of the partitioner. Look-ups take half the time of a product with a matrix of bits, and
    they leave the processors alone: a library that runs every small product on all of them is many times slower where
    several units are laid out at once. Sums of whole numbers are exact in any order, so equal pairs stay equal.
    """

    def __init__(self, weights: Floats) -> None:
        self.each = weights
        self.total = float(weights.sum())
        padded = np.zeros(bytes_for(len(weights)) * 8)
        padded[: len(weights)] = weights
        values = np.arange(256)
        bits = (values[:, None] >> np.arange(8)) & 1
        self._values = values
        self._tables: Floats = np.einsum("vb,kb->kv", bits.astype(np.float64), padded.reshape(-1, 8))
        self._bytes = np.arange(len(self._tables))[:, None]

    def weight(self, codes: Codes) -> Floats:
        """The weight of the features that each vector has."""
        return self._sum(self._tables, codes)

    def shared(self, one: Codes, codes: Codes) -> Floats:
        """The weight of the features that each vector has in common with the one."""
        return self._sum(self._tables[self._bytes, self._values & one[:, None]], codes)

    def _sum(self, tables: Floats, codes: Codes) -> Floats:
        total = np.zeros(codes.shape[1])
        if len(tables):
            tables[0].take(codes[0], out=total, mode="clip")
        found = np.empty_like(total)
        for table, code in zip(tables[1:], codes[1:], strict=True):
            # Every code is a byte, so none is clipped: the mode only spares numpy a copy.
            table.take(code, out=found, mode="clip")
            total += found
        return total
