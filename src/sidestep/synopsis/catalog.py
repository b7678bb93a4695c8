"""What is known of all blocks of a table, as columns: one value per block, in the order of the files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Formula
from sidestep.synopsis.contract.answer import Answer
from sidestep.synopsis.features.union_vectors import UnionVectors
from sidestep.synopsis.values.forms import Mask


class Synopsis(Protocol):
    """Something small that is known of every block and can prove the absence of rows.

    ``can_satisfy(formula)`` says for each block of which it knows something whether *any* row of it can satisfy the
    formula, and which blocks it knows nothing of. False for a known block is a proof that no row does; True is no proof
    of anything. None is "nothing to say" of this formula in any block: the same as unknown throughout, but cheaper, and
    told to people as such.

    A synopsis does not keep blocks: what becomes of those that are unknown is decided in :mod:`sidestep.synopsis.skip`,
    for all kinds alike, so one that forgets to answer for them cannot lose their rows.

    Each part of a query's formula is offered to each synopsis: first the whole, then its children, down to the atoms.
    A synopsis of single columns (zone map, range-set, Bloom filter) answers atoms and returns None for an ``All`` or
    ``Any``; one that knows of whole conjunctions (a union vector, whose features may be conjunctions or opaque
    predicates) answers those. Neither has to combine answers: that is done once, in :mod:`sidestep.synopsis.skip`.
    """

    @property
    def name(self) -> str:
        """What people call it, as in "zone map"."""
        ...

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        ...

    def can_satisfy(self, formula: Formula) -> Answer | None: ...


@dataclass(frozen=True, eq=False)
class Catalog:
    """The blocks of a table, and what the synopses say of them.

    A block is a row group inside a file. ``file_of_block`` is the position of each block's file, ascending from 0
    without a gap. A file of which nothing is known is one block of which nothing is known: a file without a block
    would be skipped without proof.
    """

    file_of_block: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    files: int
    synopses: tuple[Synopsis, ...] = ()
    parts: tuple[Mask, ...] = ()
    """Of a table in column groups, the blocks of each group: these alone have a part of every row of the table."""

    def __post_init__(self) -> None:
        if not len(self.file_of_block) == len(self.rows) == len(self.bytes):
            raise SidestepError(
                f"A catalog needs a file, a row count and a size for each block, but got {len(self.file_of_block)} "
                f"files, {len(self.rows)} row counts and {len(self.bytes)} sizes."
            )
        steps = np.diff(self.file_of_block, prepend=np.int32(-1), append=np.int32(self.files))
        # From -1 to `files`: one step up to the first file, none or one from block to block, one past the last file.
        if steps[0] != 1 or steps[-1] != 1 or np.any((steps != 0) & (steps != 1)):
            raise SidestepError(
                f"The blocks of a catalog go through its {self.files} files in order, with at least one block in each: "
                "give a file of which nothing is known one block of which nothing is known."
            )

    @property
    def blocks(self) -> int:
        return len(self.rows)

    @cached_property
    def union_vectors(self) -> tuple[UnionVectors, ...]:
        """Those of the synopses that know of whole conjunctions, and may answer a formula better in branches."""
        return tuple(synopsis for synopsis in self.synopses if isinstance(synopsis, UnionVectors))

    def files_kept(self, block_mask: Mask) -> Mask:
        """For each file, whether any of its blocks is kept.

        >>> none = np.zeros(3, dtype=np.int64)
        >>> catalog = Catalog(np.array([0, 0, 1], dtype=np.int32), none, none, 2)
        >>> catalog.files_kept(np.array([False, True, False])).tolist()
        [True, False]
        """
        kept = np.zeros(self.files, dtype=np.bool_)
        kept[self.file_of_block[block_mask]] = True
        return kept

    @property
    def nbytes(self) -> int:
        """The memory that the catalog and its synopses take."""
        own = self.file_of_block.nbytes + self.rows.nbytes + self.bytes.nbytes
        return own + sum(synopsis.nbytes for synopsis in self.synopses)
