"""What features weigh, and the weight that many feature vectors have or share, by table look-up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.layout.vectors import Words, bytes_for

Floats = npt.NDArray[np.float64]
VectorBytes = npt.NDArray[np.intp]
"""One row per byte of a vector, one column per vector: the bytes of many vectors as indexes into a table."""


class ByteWeights:
    """The weight of every value that a byte of a feature vector can have, so that eight features are one look-up.

    This is the innermost loop of the partitioner. Look-ups leave the processors alone: a library that runs every small
    product on all of them is many times slower where several units are laid out at once. What a vector shares with
    others is looked up in tables of its own bytes, which are kept: there are few distinct ones, and to make such a
    table takes longer than to look into it. Sums of whole numbers are exact in any order, so equal pairs stay equal.
    """

    def __init__(self, weights: Floats) -> None:
        self.each = weights
        self.total = float(weights.sum())
        padded = np.zeros(bytes_for(len(weights)) * 8)
        padded[: len(weights)] = weights
        values = np.arange(256)
        bits = (values[:, None] >> np.arange(8)) & 1
        self._values = values
        self._tables = list(np.einsum("vb,kb->kv", bits.astype(np.float64), padded.reshape(-1, 8)))
        self._shared: list[dict[int, Floats]] = [{} for _ in self._tables]
        """By position and value of a byte: what every other value there weighs in common with it."""

    def weight(self, codes: VectorBytes) -> Floats:
        """The weight of the features that each vector has."""
        return _sum(self._tables, codes)

    def shared(self, one: VectorBytes, codes: VectorBytes) -> Floats:
        """The weight of the features that each vector has in common with the one."""
        tables = []
        for known, table, value in zip(self._shared, self._tables, one.tolist(), strict=True):
            if value not in known:
                known[value] = table[self._values & value]
            tables.append(known[value])
        return _sum(tables, codes)


def _sum(tables: Sequence[Floats], codes: VectorBytes) -> Floats:
    if not tables:
        return np.zeros(codes.shape[1])
    # Every code is a byte, so none is clipped: the mode only spares numpy a check.
    total: Floats = tables[0].take(codes[0], mode="clip")
    for table, code in zip(tables[1:], codes[1:], strict=True):
        total += table.take(code, mode="clip")
    return total


def check_weights(weights: Sequence[float], features: int) -> Floats:
    """The weights as an array; refused unless there is one for each feature, finite and not negative."""
    weighed = np.asarray(weights, dtype=np.float64)
    if weighed.shape != (features,):
        raise SidestepError(f"{len(weights)} weights were given for {features} features: give one for each.")
    if not np.isfinite(weighed).all() or (weighed < 0).any():
        raise SidestepError("A feature's weight is the number of queries it serves: it must be finite and at least 0.")
    return weighed


def vector_bytes(words: Words, features: int) -> VectorBytes:
    """The bytes of packed vectors, as look-ups need them."""
    spread = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
    return np.ascontiguousarray(spread[:, : bytes_for(features)].T, dtype=np.intp)
