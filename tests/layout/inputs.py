"""Random feature vectors for the tests of this package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sidestep.layout import VectorCounts, pack, reduce_vectors


@dataclass(frozen=True)
class Problem:
    """What the partitioner is asked."""

    vectors: VectorCounts
    weights: list[float]
    min_size: int


@st.composite
def problems(draw, most_vectors=14, most_features=9) -> Problem:
    features = draw(st.integers(0, most_features))
    rows = draw(st.integers(0, most_vectors))
    bits = draw(arrays.arrays(np.bool_, (rows, features)))
    counts = draw(arrays.arrays(np.int64, rows, elements=st.integers(1, 12)))
    weights = draw(st.lists(st.integers(0, 9).map(float), min_size=features, max_size=features))
    return Problem(reduce_vectors(pack(bits), features, counts), weights, draw(st.integers(1, 40)))


def many(vectors: int, features: int, seed: int = 0, most: int = 50) -> VectorCounts:
    """Distinct vectors around some archetypes, with counts from 1 to ``most``."""
    random = np.random.default_rng(seed)
    archetypes = random.random((20, features)) < random.beta(0.5, 2, features)
    bits = archetypes[random.integers(0, 20, 3 * vectors)] ^ (random.random((3 * vectors, features)) < 0.06)
    words = reduce_vectors(pack(bits), features).words
    words = words[np.sort(random.permutation(len(words))[:vectors])]
    return VectorCounts(words, random.integers(1, most + 1, len(words)), features)
