"""Feature vectors as bit sets: packed into words, written as bytes, reduced to distinct vectors with counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError

Words = npt.NDArray[np.uint64]
"""One row per vector, ``ceil(m / 64)`` words each: feature j is bit ``j % 64`` of word ``j // 64``."""
Bits = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

WORD = 64


@dataclass(frozen=True, eq=False)
class VectorCounts:
    """Distinct feature vectors, and for how many rows each stands: all the partitioner needs of a table (3.4.3)."""

    words: Words
    counts: Counts
    features: int

    def __post_init__(self) -> None:
        expected = (len(self.counts), words_for(self.features))
        if self.words.shape != expected:
            raise SidestepError(
                f"{len(self.counts)} vectors of {self.features} features take words of shape {expected}, "
                f"not {self.words.shape}: pack them with the same number of features."
            )
        if len(self.counts) and int(self.counts.min()) < 1:
            raise SidestepError("A feature vector stands for at least one row: leave out those with a count below 1.")

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def rows(self) -> int:
        """How many rows the vectors stand for."""
        return int(self.counts.sum())


def words_for(features: int) -> int:
    """How many words hold a vector of ``features`` bits."""
    return -(-features // WORD)


def bytes_for(features: int) -> int:
    """How many bytes hold a vector of ``features`` bits."""
    return -(-features // 8)


def pack(bits: Bits) -> Words:
    """A matrix of one row per vector and one column per feature, as words.

    >>> import numpy as np
    >>> pack(np.array([[0, 1, 0], [1, 1, 0]], dtype=bool)).tolist()
    [[2], [3]]
    """
    rows, features = bits.shape
    padded = np.zeros((rows, words_for(features) * 8), dtype=np.uint8)
    padded[:, : bytes_for(features)] = np.packbits(bits, axis=1, bitorder="little")
    return _as_words(padded)


def unpack(words: Words, features: int) -> Bits:
    """The matrix of bits that :func:`pack` was given."""
    spread = np.unpackbits(_as_bytes(words), axis=1, count=features, bitorder="little")
    return spread.view(np.bool_)


def to_bytes(words: Words, features: int) -> list[bytes]:
    """Each vector as ``ceil(m / 8)`` bytes, feature 0 in the lowest bit of the first: how union vectors are stored."""
    used = np.ascontiguousarray(_as_bytes(words)[:, : bytes_for(features)])
    return [row.tobytes() for row in used]


def from_bytes(vectors: Sequence[bytes], features: int) -> Words:
    """The words of stored vectors; refused unless each has ``features`` bits: others stand for other features."""
    length = bytes_for(features)
    for vector in vectors:
        if len(vector) != length:
            raise SidestepError(
                f"A vector of {features} features takes {length} bytes, not {len(vector)}: "
                "it was made with another feature set."
            )
    padded = np.zeros((len(vectors), words_for(features) * 8), dtype=np.uint8)
    padded[:, :length] = np.frombuffer(b"".join(vectors), dtype=np.uint8).reshape(len(vectors), length)
    if features % 8 and length and (padded[:, length - 1] >> (features % 8)).any():
        raise SidestepError(f"A vector has bits beyond its {features} features: it was made with another feature set.")
    return _as_words(padded)


def reduce_vectors(words: Words, features: int, counts: Counts | None = None) -> VectorCounts:
    """The distinct vectors with the sums of their counts, in ascending order; without counts each stands for one row.

    Which row a vector came from is of no interest to the partitioner: rows with the same vector can share a block at no
    cost, so a table of millions of rows becomes some thousand pairs (thesis, 3.4.3).

    >>> import numpy as np
    >>> reduced = reduce_vectors(np.array([[2], [1], [2]], dtype=np.uint64), 3)
    >>> reduced.words.ravel().tolist(), reduced.counts.tolist()
    ([1, 2], [1, 2])
    """
    if not len(words):
        return VectorCounts(words, np.zeros(0, dtype=np.int64), features)
    ranks, first = _ranks(words)
    summed = np.zeros(len(first), dtype=np.int64)
    np.add.at(summed, ranks, 1 if counts is None else counts)
    return VectorCounts(words[first], summed, features)


def locate(vectors: VectorCounts, words: Words) -> Counts:
    """The position of each row's vector among the distinct ones, and -1 for one that is not among them."""
    ranks, first = _ranks(np.concatenate([vectors.words, words]))
    position = np.full(len(first), -1, dtype=np.int64)
    position[ranks[: len(vectors)]] = np.arange(len(vectors))
    return position[ranks[len(vectors) :]]


def unite(words: Words, counts: Counts, group: Counts) -> tuple[Words, Counts]:
    """The union vector and the number of rows of each group, given the group of each vector, from 0 on."""
    groups = int(group.max(initial=-1)) + 1
    unions = np.zeros((groups, words.shape[1]), dtype=np.uint64)
    np.bitwise_or.at(unions, group, words)
    sizes = np.zeros(groups, dtype=np.int64)
    np.add.at(sizes, group, counts)
    return unions, sizes


def _ranks(words: Words) -> tuple[Counts, Counts]:
    """The rank of each row among the distinct rows, and where each distinct row occurs first."""
    order = np.lexsort(words.T) if words.shape[1] else np.arange(len(words))
    sorted_words = words[order]
    starts = np.ones(len(words), dtype=np.bool_)
    starts[1:] = (sorted_words[1:] != sorted_words[:-1]).any(axis=1)
    ranks = np.empty(len(words), dtype=np.int64)
    ranks[order] = np.cumsum(starts) - 1
    return ranks, order[starts]


def _as_words(padded: npt.NDArray[np.uint8]) -> Words:
    return padded.view("<u8").astype(np.uint64, copy=False)


def _as_bytes(words: Words) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
