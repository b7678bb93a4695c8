"""Conditions over a scan that Parquet's own statistics can judge: ranges of block ids, and bounds that joins induce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidestep.predicate import Column, IntervalSet
from sidestep.predicate.types import Kind
from sidestep.prune.dips.induced import Bound
from sidestep.synopsis import Catalog, Mask

MOST_RANGES = 512
"""A condition is checked against each row group's statistics, and sent to executors: it must not grow with tables."""
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
    """Low and high ends in turn, ascending, holding all ids to be read, and perhaps others."""
    bytes: int
    """What the blocks to be read take on disk."""


def block_filter(catalog: Catalog, kept: Mask, block_ids: _Ids, among: Mask | None = None) -> BlockFilter | None:
    """The filter for the blocks kept, or None where it would save too little.

    With ``among`` it is for a scan that reads none but those files.
    """
    if not (block_ids >= 0).any():
        return None
    has_ids = np.ones(catalog.files, dtype=np.bool_) if among is None else among.copy()
    has_ids[catalog.file_of_block[block_ids < 0]] = False
    read = (catalog.files_kept(kept) & has_ids)[catalog.file_of_block]
    chosen = read & kept
    in_files, in_blocks = int(catalog.bytes[read].sum()), int(catalog.bytes[chosen].sum())
    if in_files - in_blocks <= LEAST_SHARE * in_files:
        return None
    ids = np.unique(block_ids[chosen])
    if not len(ids):
        return None
    others = np.setdiff1d(block_ids[read & ~kept], ids)
    return BlockFilter(has_ids, as_ranges(ids, others, MOST_RANGES), in_blocks)


def as_ranges(ids: _Ids, others: _Ids, limit: int) -> _Ids:
    """At most ``limit`` ranges that hold all of the ids and as few of the others as may be.

    Both ascending, without a number in common. Numbers that are in neither are of no concern: no file that is read has
    a block of that id.

    >>> ids = np.array([1, 2, 3, 7, 8, 20, 30], dtype=np.int32)
    >>> as_ranges(ids, np.array([5, 12, 13, 14], dtype=np.int32), 2).tolist()
    [1, 8, 20, 30]
    """
    between = np.diff(np.searchsorted(others, ids))
    cuts = np.flatnonzero(between)
    if len(cuts) >= limit:
        cuts = np.sort(cuts[np.argsort(-between[cuts], kind="stable")[: limit - 1]])
    lows = ids[np.concatenate([[0], cuts + 1])]
    highs = ids[np.concatenate([cuts, [len(ids) - 1]])]
    return np.stack([lows, highs], axis=1).reshape(-1)


BOUND_KINDS = frozenset({Kind.INTEGER, Kind.LONG, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
MOST_BOUND_RANGES = 4
"""The condition is worked out for every row that is read."""
MOST_CHOSEN_RANGES = 64
"""The same for what is chosen when the query runs: no row is asked, only row groups."""
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
        text = "" if bound.nulls else bound_text(bound.column, bound.within(MOST_BOUND_RANGES))
        if text:
            return text
    return ""


def bound_text(column: Column, ranges: IntervalSet) -> str:
    """Ranges of a column as Java takes them; empty if they are none that Parquet can be asked for."""
    if column.type.kind not in BOUND_KINDS or not all(isinstance(end, int) for end in _ends(ranges)):
        return ""
    closed = [
        (
            None if one.low is None else int(one.low) + (not one.low_closed),
            None if one.high is None else int(one.high) - (not one.high_closed),
        )
        for one in ranges.intervals
    ]
    if not closed or any(low is None and high is None for low, high in closed):
        return ""
    return f"{column.name}\t{','.join(':'.join('' if end is None else str(end) for end in pair) for pair in closed)}"


def _ends(ranges: IntervalSet) -> Iterator[object]:
    for one in ranges.intervals:
        yield from (end for end in (one.low, one.high) if end is not None)


def chosen_bound(column: Column, ranges: IntervalSet, catalog: Catalog, kept: Mask) -> str:
    """The same for what was chosen when the query runs, where row groups of the files that are read go by it."""
    in_read_files = catalog.files_kept(kept)[catalog.file_of_block]
    spared = int(catalog.bytes[in_read_files & ~kept].sum())
    if not spared or len(ranges.intervals) > MOST_CHOSEN_RANGES:
        return ""
    return bound_text(column, ranges)
