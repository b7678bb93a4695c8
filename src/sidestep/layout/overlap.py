"""The weight of the features that one vector shares with each of many, by table look-up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sidestep.layout.vectors import Words, bytes_for

Floats = npt.NDArray[np.float64]
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
