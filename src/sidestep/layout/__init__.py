"""Where do rows go? Feature vectors, the objective, and the partitioner that groups vectors into blocks."""

from sidestep.layout.maxskip import Grouping, cut, partition
from sidestep.layout.vectors import (
    VectorCounts,
    Words,
    from_bytes,
    locate,
    pack,
    reduce_vectors,
    to_bytes,
    unite,
    unpack,
)
from sidestep.layout.weights import skippable_per_block, skippable_rows

__all__ = [
    "Grouping",
    "VectorCounts",
    "Words",
    "cut",
    "from_bytes",
    "locate",
    "pack",
    "partition",
    "reduce_vectors",
    "skippable_per_block",
    "skippable_rows",
    "to_bytes",
    "unite",
    "unpack",
]
