"""What is left out of the files that are read: by row groups, ranges of block ids, and bounds that joins induce."""

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


MOST_RUNS = 16
"""Runs of row groups that a file is read in: each is opened on its own, and reads the footer once more."""


@dataclass(frozen=True, eq=False)
class RowGroups:
    """The row groups to be read of the files that are read in part.

    Spark is given pieces of such files in place of the whole. It reads a row group with the piece that holds the row
    group's middle, and so not at all if none does: whichever condition rules it out, and by whatever synopsis.
    """

    read: Mask
    """The blocks that are read, if each of the files can be read so: those kept, and what lies between two runs of them
    that are read as one."""
    files: Mask
    """The files that are read in part."""
    runs: _Ids
    """For each of these its number, how many row groups it has, and how many runs of them are read; then the first row
    group of each run and the next one after it."""
    spared: int
    """What the blocks take on disk that are not read of files that are."""


def row_groups(catalog: Catalog, kept: Mask, row_group: _Ids) -> RowGroups | None:
    """The row groups to be read for the blocks kept, or None where too little would be left out.

    ``row_group`` says which row group of its file each block is.

    >>> catalog = Catalog(np.array([0, 0, 0, 0, 1, 2, 2, 2], np.int32), np.full(8, 99), np.full(8, 10), 3)
    >>> kept = np.array([1, 0, 0, 1, 1, 1, 1, 0], dtype=np.bool_)
    >>> found = row_groups(catalog, kept, np.array([0, 1, 2, 3, 0, 0, 1, 2], dtype=np.int32))
    >>> found.runs.tolist(), found.spared
    ([0, 4, 2, 0, 1, 3, 4, 2, 3, 1, 0, 2], 30)
    """
    file_of = catalog.file_of_block
    read_files = catalog.files_kept(kept)
    in_read = read_files[file_of]
    if _spared(catalog, in_read, kept) <= LEAST_SHARE * int(catalog.bytes[in_read].sum()):
        return None
    counts = np.bincount(file_of, minlength=catalog.files)
    starts = np.cumsum(counts) - counts
    misplaced = row_group != np.arange(len(file_of)) - starts[file_of]
    files = read_files & (np.bincount(file_of[kept], minlength=catalog.files) < counts)
    files[file_of[misplaced]] = False
    chosen = kept & files[file_of]
    edge = np.diff(file_of, prepend=-1) != 0
    first = np.flatnonzero(chosen & (edge | ~np.roll(chosen, 1)))
    after = np.flatnonzero(chosen & (np.roll(edge, -1) | ~np.roll(chosen, -1))) + 1
    first, after = _join_runs(first, after, file_of, catalog.bytes)
    between = np.zeros(len(file_of) + 1, dtype=np.int64)
    np.add.at(between, first, 1)
    np.add.at(between, after, -1)
    read = (np.cumsum(between[:-1]) > 0) | in_read & ~files[file_of]
    spared = _spared(catalog, in_read, read)
    if spared <= LEAST_SHARE * int(catalog.bytes[in_read].sum()):
        return None
    return RowGroups(read, files, _pack_runs(np.flatnonzero(files), counts, first, after, starts, file_of), spared)


def _spared(catalog: Catalog, in_files: Mask, read: Mask) -> int:
    return int(catalog.bytes[in_files & ~read].sum())


_Numbers = npt.NDArray[np.int64]


def _join_runs(
    first: _Numbers, after: _Numbers, file_of: npt.NDArray[np.int32], sizes: _Numbers
) -> tuple[_Numbers, _Numbers]:
    """The runs, with those of a file that has too many joined where least lies between."""
    if not len(first):
        return first, after
    before = np.concatenate([[0], np.cumsum(sizes)])
    gap = before[first[1:]] - before[after[:-1]]
    file = file_of[first]
    inner = np.flatnonzero(file[1:] == file[:-1])
    order = inner[np.lexsort((-gap[inner], file[inner]))]
    begins = np.flatnonzero(np.diff(file[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    closed = np.zeros(len(gap), dtype=np.bool_)
    closed[order[rank >= MOST_RUNS - 1]] = True
    return first[np.concatenate([[True], ~closed])], after[np.concatenate([~closed, [True]])]


def _pack_runs(
    files: _Numbers,
    counts: _Numbers,
    first: _Numbers,
    after: _Numbers,
    starts: _Numbers,
    file_of: npt.NDArray[np.int32],
) -> _Ids:
    runs = np.bincount(file_of[first], minlength=len(counts))[files]
    head = 3 * np.arange(len(files)) + 2 * (np.cumsum(runs) - runs)
    packed = np.zeros(3 * len(files) + 2 * len(first), dtype=np.int32)
    packed[head], packed[head + 1], packed[head + 2] = files, counts[files], runs
    at = np.repeat(3 * np.arange(1, len(files) + 1), runs) + 2 * np.arange(len(first))
    base = starts[file_of[first]]
    packed[at], packed[at + 1] = first - base, after - base
    return packed


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
