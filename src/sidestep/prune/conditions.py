"""Conditions over a scan that Parquet's own statistics can judge: ranges of block ids, and bounds that joins induce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidestep.predicate.types import Kind
from sidestep.prune.dips.induced import Bound
from sidestep.synopsis import Catalog, Mask

MOST_RANGES = 16
"""A condition is checked against each row group's statistics and once more for each row that is read, as part of the
query's own code: with 64 ranges and a long OR it passed 8,000 bytes, beyond which the JVM compiles nothing, and a query
took 51 s instead of 6. Where the ranges hold too much, the exact ids are asked for besides."""
MOST_BLOCKS = 20_000
"""The ids of more blocks than this make a plan too large for what is saved."""
LEAST_SHARE = 0.05
"""What of the files to be read must be in blocks that are not, to be worth a condition."""
_Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class BlockFilter:
    """The blocks to be read of a table's files.

    It may be used only on a scan each of whose files is skipped whole or among ``files``: there, every row carries the
    id of its block, as the index found it in the file itself. Elsewhere ids mean nothing: other writers copy them into
    new files, or leave them out. Ids need not be unique for this to be sound, since a block is read if its id is among
    those kept, whichever file it is in.
    """

    files: Mask
    ranges: _Ids
    """Low and high ends in turn, ascending, holding all ids to be read."""
    ids: _Ids
    """The exact ids, where the ranges hold others as well; else empty."""
    bytes: int
    """What the blocks to be read take on disk."""


def block_filter(catalog: Catalog, kept: Mask, block_ids: _Ids) -> BlockFilter | None:
    """The filter for the blocks kept, or None where it would save too little."""
    if not (block_ids >= 0).any():
        return None
    has_ids = np.ones(catalog.files, dtype=np.bool_)
    has_ids[catalog.file_of_block[block_ids < 0]] = False
    read = (catalog.files_kept(kept) & has_ids)[catalog.file_of_block]
    chosen = read & kept
    in_files, in_blocks = int(catalog.bytes[read].sum()), int(catalog.bytes[chosen].sum())
    if in_files - in_blocks <= LEAST_SHARE * in_files:
        return None
    ids = np.unique(block_ids[chosen])
    if not 0 < len(ids) <= MOST_BLOCKS:
        return None
    others = np.setdiff1d(block_ids[read & ~kept], ids)
    ranges, exact = as_ranges(ids, others, MOST_RANGES)
    return BlockFilter(has_ids, ranges, ids[:0] if exact else ids, in_blocks)


def as_ranges(ids: _Ids, others: _Ids, limit: int) -> tuple[_Ids, bool]:
    """At most ``limit`` ranges that hold all of the ids and as few of the others as may be, and whether they hold none.

    Both ascending, without a number in common. Numbers that are in neither are of no concern: no file that is read has
    a block of that id.

    >>> ids = np.array([1, 2, 3, 7, 8, 20, 30], dtype=np.int32)
    >>> ranges, exact = as_ranges(ids, np.array([5, 12, 13, 14], dtype=np.int32), 2)
    >>> ranges.tolist(), exact
    ([1, 8, 20, 30], False)
    """
    between = np.diff(np.searchsorted(others, ids))
    cuts = np.flatnonzero(between)
    exact = len(cuts) < limit
    if not exact:
        cuts = np.sort(cuts[np.argsort(-between[cuts], kind="stable")[: limit - 1]])
    lows = ids[np.concatenate([[0], cuts + 1])]
    highs = ids[np.concatenate([cuts, [len(ids) - 1]])]
    return np.stack([lows, highs], axis=1).reshape(-1), exact


BOUND_KINDS = frozenset({Kind.INTEGER, Kind.LONG, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
MOST_BOUND_RANGES = 4
"""The condition is worked out for every row that is read."""
LEAST_BOUND_SHARE = 0.2
"""What of the files to be read must be in row groups that induced predicates rule out, to be worth a condition."""


def worthwhile_bound(bounds: Sequence[Bound], catalog: Catalog, static: Mask, kept: Mask) -> str:
    """The condition as Java takes it, ``column TAB low:high,…``; empty where it would save too little.

    Whole files are skipped without it. It pays only where files are read that have row groups which induced predicates
    rule out: these are then passed over by their own statistics, as Spark does for any filter. Rows that NULL lets
    through would not be skipped, so such bounds are left out.
    """
    in_read_files = catalog.files_kept(kept)[catalog.file_of_block]
    read, spared = int(catalog.bytes[in_read_files].sum()), int(catalog.bytes[in_read_files & static & ~kept].sum())
    if spared < LEAST_BOUND_SHARE * read or not spared:
        return ""
    for bound in bounds:
        if bound.column.type.kind not in BOUND_KINDS or bound.nulls:
            continue
        ends = [(interval.low, interval.high) for interval in bound.within(MOST_BOUND_RANGES).intervals]
        if ends and all(low is not None or high is not None for low, high in ends):
            texts = (":".join("" if end is None else str(end) for end in pair) for pair in ends)
            return f"{bound.column.name}\t{','.join(texts)}"
    return ""
