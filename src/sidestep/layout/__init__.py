"""Where do rows go? Feature vectors, what queries demand, the partitioner, and the placement of groups in files."""

from sidestep.layout.maxskip import Grouping, block_sizes, partition
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

__all__ = [
    "Grouping",
    "VectorCounts",
    "Words",
    "block_sizes",
    "from_bytes",
    "locate",
    "pack",
    "partition",
    "reduce_vectors",
    "to_bytes",
    "unite",
    "unpack",
]
