"""Union vectors of small tables, worked out row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidestep.layout.vectors import pack
from sidestep.predicate import Predicate, normalize
from sidestep.predicate.oracle import Resolver, evaluate
from sidestep.synopsis import UnionVectors
from tests.synopsis.tables import Blocks


def vectors_of(
    features: Sequence[Predicate], blocks: Blocks, opaque: Resolver | None = None, known: Sequence[bool] | None = None
) -> UnionVectors:
    """Bit i of a block is set if some row of it makes feature i TRUE; a block that is not known has no bits at all."""
    there = np.ones(len(blocks), dtype=np.bool_) if known is None else np.array(known, dtype=np.bool_)
    bits = np.array(
        [
            [is_known and any(evaluate(feature, row, opaque) is True for row in block) for feature in features]
            for block, is_known in zip(blocks, there, strict=True)
        ],
        dtype=np.bool_,
    ).reshape(len(blocks), len(features))
    return UnionVectors(tuple(map(normalize, features)), np.ascontiguousarray(pack(bits).T), there)
