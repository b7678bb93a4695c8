"""Orders of feature vectors: parts of similar ones, a chain of near neighbours, and the order of block ids.

Similar vectors are brought together so that they can be merged part by part, and so that what a query reads lies
together. Block ids follow the union vectors across all units: a reader gets the blocks to read as ranges of ids, which
Parquet's statistics judge at no cost. By unit and then by block, a feature's blocks are a range or two in every unit,
and 80 units make more ranges than a condition may have. By union vector first, the blocks of the heaviest feature are
one range over all units, those of the next at most two, and so on; the units that a query does not come to are passed
over as files, so that numbers in between cost nothing. On denormalized TPC-H by month, 15 features and 2,251 blocks,
q19 needs one range instead of 80, q5 two instead of 18, q12 nine instead of 31, q6 24 instead of 51; q14, which asks
for a month and nothing else, 32 instead of 21.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sidestep.layout.merge import GroupIds
from sidestep.layout.vectors import Bits, Counts, Words, unpack
from sidestep.layout.weights import ByteWeights, vector_bytes


def similar_parts(bits: Bits, counts: Counts, weights: ByteWeights, limit: int) -> Iterator[GroupIds]:
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


def nearest_first(vectors: Words, features: int, weights: ByteWeights, limit: int) -> GroupIds:
    """An order in which neighbours differ little, so that each feature's 1s come in few and long runs.

    From the emptiest vector on, the next is always the nearest of those that are left, by the weight of the features in
    which two differ. More than ``limit`` vectors are put in order part by part.
    """
    ones = np.ones(len(vectors), dtype=np.int64)
    parts = similar_parts(unpack(vectors, features), ones, weights, limit)
    ordered = [part[_greedy_chain(vectors[part], features, weights)] for part in parts]
    return np.concatenate(ordered)


def rank_unions(unions: Words, weights: Sequence[float]) -> Counts:
    """The rank of each union vector: by the heaviest feature first, then by the next; equal vectors rank alike.

    >>> rank_unions(np.array([[0b10], [0b01], [0b11], [0b01]], dtype=np.uint64), [1.0, 5.0]).tolist()
    [1, 0, 2, 0]
    """
    if not len(unions) or not weights:
        return np.zeros(len(unions), np.int64)
    heaviest = np.argsort(-np.asarray(weights), kind="stable")
    keys = np.packbits(unpack(unions, len(weights))[:, heaviest], axis=1)
    _, rank = np.unique(keys, axis=0, return_inverse=True)
    return rank.ravel().astype(np.int64)


def _greedy_chain(vectors: Words, features: int, weights: ByteWeights) -> GroupIds:
    """From the emptiest vector on, always the nearest that is left."""
    order = np.empty(len(vectors), dtype=np.int64)
    left = np.arange(len(vectors), dtype=np.int64)
    codes = vector_bytes(vectors, features)
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
