"""Vectors that resemble each other are brought together: in parts of a bounded number, and side by side in an order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sidestep.layout.merging import Positions
from sidestep.layout.overlap import ByteWeights, codes_of
from sidestep.layout.vectors import Bits, Counts, Words, unpack


def similar_parts(bits: Bits, counts: Counts, weights: ByteWeights, limit: int) -> Iterator[Positions]:
    """The positions of the vectors, in parts of at most ``limit``.

    A part that is too large is split by a feature: one that weighs much and holds for about half of the rows, so that
    the vectors on either side are those that would hardly have been merged. Where no feature splits, the middle does.
    """
    waiting = [np.arange(len(bits), dtype=np.int64)]
    while waiting:
        part = waiting.pop()
        if len(part) <= limit:
            yield part
            continue
        rows_with = counts[part] @ bits[part]
        worth = weights.each * np.minimum(rows_with, counts[part].sum() - rows_with)
        if worth.size and worth.max() > 0:
            has = bits[part, int(worth.argmax())]
            halves = [part[~has], part[has]]
        else:
            halves = np.array_split(part, 2)
        waiting += reversed(halves)


def side_by_side(vectors: Words, features: int, weights: ByteWeights, limit: int) -> Positions:
    """An order in which neighbours differ little, so that each feature's 1s come in few and long runs.

    From the emptiest vector on, the next is always the nearest of those that are left, by the weight of the features in
    which two differ. More than ``limit`` vectors are put in order part by part.
    """
    ones = np.ones(len(vectors), dtype=np.int64)
    parts = similar_parts(unpack(vectors, features), ones, weights, limit)
    ordered = [part[_chain(vectors[part], features, weights)] for part in parts]
    return np.concatenate(ordered)


def _chain(vectors: Words, features: int, weights: ByteWeights) -> Positions:
    """From the emptiest vector on, always the nearest that is left."""
    order = np.empty(len(vectors), dtype=np.int64)
    left = np.arange(len(vectors), dtype=np.int64)
    codes = codes_of(vectors, features)
    weight = weights.weight(codes)
    distance = weight
    for step in range(len(vectors)):
        at = int(distance.argmin())
        order[step], here = left[at], codes[:, at].copy()
        # What comes last takes the place of what was taken, so that only those left are looked at.
        left[at], weight[at], codes[:, at] = left[-1], weight[-1], codes[:, -1]
        left, weight, codes = left[:-1], weight[:-1], codes[:, :-1]
        # The distance less the weight of the vector that is here, which is the same for all.
        distance = weight - 2 * weights.shared(here, codes)
    return order
