"""Vectors are moved between finished groups as long as that makes more rows skippable."""

from __future__ import annotations

import numpy as np

from sidestep.layout.merging import Positions
from sidestep.layout.overlap import ByteWeights, Codes, codes_of
from sidestep.layout.vectors import Bits, Counts, pack

PASSES = 5
"""A sixth changed the objective by less than one part in a thousand wherever it was measured."""


def move_vectors(
    bits: Bits, codes: Codes, counts: Counts, weights: ByteWeights, group: Positions, min_size: int
) -> Positions:
    """The group of each vector after moving those that are better off elsewhere; groups stay within their bounds.

    Merging never looks back: a vector stays with whom it met first, though a group that fits it better may have come
    about since. Here each vector in turn goes to the group where it raises the objective (3.2) most, if that group
    stays below ``2 * min_size`` rows and its own keeps ``min_size``. A group that never had so many, the leftover of
    merging, may lose any but the last, which is nowhere better off than alone.

    This goes beyond the thesis: on vectors of 15 to 128 features it made the workload read 2 to 9% fewer rows than
    merging alone, in a fraction of the time that merging takes.
    """
    groups = _Groups(bits, codes, counts, weights, group)
    for _ in range(PASSES):
        moved = sum(groups.move(vector, min_size) for vector in range(len(counts)))
        if not moved:
            break
    # Fractions as weights may be rounded such that the last one leaves: no number is left without a group.
    return np.unique(groups.of_vector, return_inverse=True)[1].astype(np.int64)


class _Groups:
    """Sizes and union vectors of the groups, kept up to date as vectors come and go."""

    def __init__(self, bits: Bits, codes: Codes, counts: Counts, weights: ByteWeights, group: Positions) -> None:
        groups = int(group.max()) + 1 if len(group) else 0
        self.of_vector = group.copy()
        self._bits = bits
        self._codes = codes
        self._count = counts.astype(np.float64)
        self._weights = weights
        self._vector_weight = weights.weight(codes)
        self._size = np.bincount(group, weights=self._count, minlength=groups)
        self._holders = np.zeros((groups, bits.shape[1]), dtype=np.int64)
        """How many vectors of the group have the feature: the one that leaves takes along what it alone has."""
        np.add.at(self._holders, group, bits)
        self._union = codes_of(pack(self._holders > 0), bits.shape[1])
        self._weight = weights.weight(self._union)

    def move(self, vector: int, min_size: int) -> bool:
        """Move a vector to the group where it does best, if that is not its own and the bounds allow it."""
        own = int(self.of_vector[vector])
        count = self._count[vector]
        rest = self._size[own] - count
        if rest < min_size <= self._size[own]:
            return False
        # C(P) - C(P without v), and C(P with v) - C(P) for each group P; see (3.1).
        sole = self._weights.each[self._bits[vector] & (self._holders[own] == 1)].sum()
        loss = count * (self._weights.total - self._weight[own]) - rest * sole
        new = self._vector_weight[vector] - self._weights.shared(self._codes[:, vector], self._union)
        gain = count * (self._weights.total - self._weight) - (self._size + count) * new
        gain[self._size + count >= 2 * min_size] = -np.inf
        gain[own] = loss
        best = int(gain.argmax())
        if gain[best] <= loss:
            return False
        self._holders[own] -= self._bits[vector]
        self._holders[best] += self._bits[vector]
        self._size[own] -= count
        self._size[best] += count
        self._union[:, own] = np.packbits(self._holders[own] > 0, bitorder="little")
        self._union[:, best] |= self._codes[:, vector]
        for changed in (own, best):
            self._weight[changed] = self._weights.weight(self._union[:, changed, None])[0]
        self.of_vector[vector] = best
        return True
