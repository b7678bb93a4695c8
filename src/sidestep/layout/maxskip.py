"""Balanced MaxSkip: feature vectors are merged bottom up into groups that queries can skip whole.

Groups are then cut into blocks of one size, or nearly so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.layout.merge import GroupIds, merge_up, move_vectors
from sidestep.layout.order import nearest_first, similar_parts
from sidestep.layout.vectors import Counts, VectorCounts, Words, unite, unpack
from sidestep.layout.weights import ByteWeights, check_weights, vector_bytes

AT_ONCE = 10_000
"""How many vectors are merged as a whole: the time grows with the square of their number, and is seconds for these."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """Which group each distinct vector went to, and what the groups are: the partitioning map of the thesis (3.4.4)."""

    group_of_vector: npt.NDArray[np.int32]
    unions: Words
    """The union vector of each group: bit j is 0 only if no row of the group satisfies feature j."""
    sizes: Counts

    def __len__(self) -> int:
        return len(self.sizes)


def partition(vectors: VectorCounts, weights: Sequence[float], min_size: int, at_once: int = AT_ONCE) -> Grouping:
    """Group feature vectors so that the workload skips many rows, in groups that can be cut into blocks of one size.

    This is Balanced MaxSkip (thesis, 3.4): maximize the sum over all groups of rows times the weight of the features
    that no row satisfies (thesis, 3.2), with ``min_size`` rows or more per group.
    It is NP-hard; the thesis merges greedily as Ward's method does, and so does this:

    1. A vector that stands for ``min_size`` rows or more is a group of its own at once. All of its rows are alike, so
       any cut of it is as good as it gets, and merging it with anything would only cost.
    2. The others are merged bottom up, always the pair that costs least, until each group has ``min_size`` rows
       (:func:`~sidestep.layout.merge.merge_up`).
    3. Single vectors move to groups that suit them better (:func:`~sidestep.layout.merge.move_vectors`).
    4. Groups are put in an order in which neighbours resemble each other, so that what a query reads lies together.

    Contract: every vector is in one group. A group has one vector of ``min_size`` rows or more, or its size is in
    ``[min_size, 2 * min_size)``, or it is the one leftover that is smaller. That one is kept as it is: a merge never
    raises the objective (Lemma 1), so to give it to another group could only make it worse. The same input gives the
    same groups. Weights that are whole numbers are compared exactly; others to the precision of a double.

    More than ``at_once`` vectors are merged in parts of similar ones, so that time stays linear in their number:
    parts of a sixth made the workload read 5 to 6% more rows.

    The six rows of the thesis' Figure 3.1, two to a block. Its own blocks, {2, 3}, {4, 6} and {0, 1}, are drawn to show
    what a union vector is, and let the workload skip 180 rows; {0, 4}, {2, 6} and {1, 3} let it skip 260:

    >>> import numpy as np
    >>> vectors = VectorCounts(np.array([[0], [1], [2], [3], [4], [6]], dtype=np.uint64), np.ones(6, dtype=np.int64), 3)
    >>> grouping = partition(vectors, [50, 20, 10], 2)
    >>> grouping.group_of_vector.tolist(), grouping.unions.ravel().tolist(), grouping.sizes.tolist()
    ([0, 2, 1, 2, 0, 1], [4, 6, 3], [2, 2, 2])
    """
    grouping = group_vectors(vectors, weights, min_size, at_once)
    if not len(grouping):
        return grouping
    byte_weights = ByteWeights(check_weights(weights, vectors.features))
    order = nearest_first(grouping.unions, vectors.features, byte_weights, at_once)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return Grouping(place[grouping.group_of_vector], grouping.unions[order], grouping.sizes[order])


def group_vectors(vectors: VectorCounts, weights: Sequence[float], min_size: int, at_once: int = AT_ONCE) -> Grouping:
    """The groups of :func:`partition` in no particular order, for those who only count what queries skip.

    To put them in order takes as long as to find them.
    """
    byte_weights = ByteWeights(check_weights(weights, vectors.features))
    if min_size < 1:
        raise SidestepError(f"The least number of rows per block is {min_size}: it must be at least 1.")
    if at_once < 1:
        raise SidestepError(f"Vectors can't be merged {at_once} at once: it must be at least 1.")
    if not len(vectors):
        return Grouping(np.zeros(0, dtype=np.int32), vectors.words, np.zeros(0, dtype=np.int64))
    frequent = vectors.counts >= min_size
    alone = int(frequent.sum())
    group = np.empty(len(vectors), dtype=np.int64)
    group[frequent] = np.arange(alone)
    rare = ~frequent
    group[rare] = alone + _merge_rare(vectors.words[rare], vectors.counts[rare], byte_weights, min_size, at_once)
    unions, sizes = unite(vectors.words, vectors.counts, group)
    return Grouping(group.astype(np.int32), unions, sizes)


def block_sizes(size: int, min_size: int) -> tuple[int, ...]:
    """The sizes of the blocks that a group of rows is cut into: as many as ``min_size`` allows, as even as possible.

    Contract: they sum to ``size``; each is in ``[min_size, 2 * min_size)`` unless the group itself is smaller than
    ``min_size``, and then it is one block. No rows, no blocks. Small blocks skip more, which is why there are as many
    as the bound allows; even ones leave no straggler (thesis, 3.4.1 and 3.4.4). A group that the partitioner merged is
    below ``2 * min_size`` and stays one block: only a vector that is frequent on its own is cut.

    >>> block_sizes(1_750, 500)
    (584, 583, 583)
    >>> block_sizes(999, 500), block_sizes(120, 500)
    ((999,), (120,))
    """
    if min_size < 1:
        raise SidestepError(f"The least number of rows per block is {min_size}: it must be at least 1.")
    if size < 0:
        raise SidestepError(f"A group of {size} rows can't be cut: a size is never negative.")
    if size == 0:
        return ()
    blocks = max(size // min_size, 1)
    each, over = divmod(size, blocks)
    return (each + 1,) * over + (each,) * (blocks - over)


def _merge_rare(words: Words, counts: Counts, weights: ByteWeights, min_size: int, at_once: int) -> GroupIds:
    """The group of each vector; of more than can be merged at once, the leftovers of all parts are merged last."""
    features = len(weights.each)
    bits, codes = unpack(words, features), vector_bytes(words, features)
    group = np.empty(len(words), dtype=np.int64)
    parts = groups = 0
    for part in similar_parts(bits, counts, weights, at_once):
        in_part = merge_up(codes[:, part], counts[part], weights, min_size)
        in_part = move_vectors(bits[part], codes[:, part], counts[part], weights, in_part, min_size)
        group[part] = groups + in_part
        groups += int(in_part.max(initial=-1)) + 1
        parts += 1
    if parts < 2:
        return group
    unions, sizes = unite(words, counts, group)
    small = np.flatnonzero(sizes < min_size)
    renamed = np.arange(groups)
    renamed[small] = groups + merge_up(vector_bytes(unions[small], features), sizes[small], weights, min_size)
    return np.unique(renamed[group], return_inverse=True)[1].astype(np.int64)
