"""Index files put together: which blocks there are, and where each column's newest values for them lie.

Each index file is a run of blocks per data file. Files that have the same key (path, size, modification time) in
several index files are one file: its blocks are those of the newest entry, and an older entry still supplies the
columns that the newer ones lack, provided that it describes the same row groups, of a file with the same footer. So a
file that was laid out keeps its union vectors when it is indexed again for its zone maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.store.parquet.blocks import KEYS
from sidestep.store.parquet.footer import FOOTER, Digests, digests_of

_Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BlockMap:
    """All blocks of a view in file order, and the block that each row of each index file describes."""

    files: pa.Table
    """path, size, modified: one row per file; its row number is the file's position."""
    file_of_block: npt.NDArray[np.int32]
    row_group: npt.NDArray[np.int32]
    rows: _Longs
    bytes: _Longs
    footers: Digests
    """The digest of each file's footer, where its newest entry has one."""
    block_of_row: tuple[_Longs, ...]
    """For each index file, the block of each of its rows, or -1 where a newer entry disagrees."""

    @property
    def blocks(self) -> int:
        return len(self.rows)

    def sources(self, of: Sequence[int], says: Sequence[npt.NDArray[np.bool_]] | None = None) -> _Longs:
        """For each block, its row in the concatenation of the index files ``of``, or -1; the last one wins.

        With ``says``, only the rows marked there count, for each of the files.
        """
        found = np.full(self.blocks, -1, dtype=np.int64)
        base = 0
        for number, position in enumerate(of):
            blocks = self.block_of_row[position]
            held = np.flatnonzero(blocks >= 0 if says is None else (blocks >= 0) & says[number])
            found[blocks[held]] = base + held
            base += len(blocks)
        return found


class Gather:
    """Brings concatenated index rows into block order; a block without a row gets NULL."""

    def __init__(self, sources: _Longs) -> None:
        self.missing = sources < 0
        self.sources = sources
        self.identity = bool(np.array_equal(sources, np.arange(len(sources))))

    def __call__(self, array: pa.Array) -> pa.Array:
        if self.identity and len(array) == len(self.sources):
            return array
        return array.take(pa.array(self.sources, mask=self.missing))


@dataclass(frozen=True, eq=False)
class _Runs:
    """The rows of one index file, cut where a data file ends."""

    keys: pa.Table
    starts: _Longs
    lengths: _Longs
    files: pa.Table
    footers: Digests


def map_blocks(keys: Sequence[pa.Table]) -> BlockMap:
    """The blocks that index files describe, from the key columns of each, oldest file first."""
    runs = [_runs_of(table) for table in keys]
    if not runs:
        none = digests_of(None, 0)
        return BlockMap(_no_files(), np.zeros(0, np.int32), np.zeros(0, np.int32), _zeros(0), _zeros(0), none, ())
    files, ids = _identify(runs)
    owner = np.full(len(files), -1, dtype=np.int64)
    lengths = _zeros(len(files))
    for number, (run, its) in enumerate(zip(runs, ids, strict=True)):
        owner[its] = number
        lengths[its] = run.lengths
    starts = np.cumsum(lengths) - lengths
    blocks = int(lengths.sum())
    row_group, rows, sizes = np.zeros(blocks, np.int32), _zeros(blocks), _zeros(blocks)
    maps: list[_Longs] = []
    for number, (run, its) in enumerate(zip(runs, ids, strict=True)):
        fits = run.lengths == lengths[its]
        block = np.repeat(np.where(fits, starts[its] - run.starts, 0), run.lengths) + np.arange(len(run.keys))
        block[np.repeat(~fits, run.lengths)] = -1
        mine = np.repeat(owner[its] == number, run.lengths) & (block >= 0)
        for target, name in ((row_group, "row_group"), (rows, "rows"), (sizes, "bytes")):
            target[block[mine]] = _numbers(run.keys, name)[mine]
        maps.append(block)
    footers = digests_of(None, len(files))
    for number, (run, its) in enumerate(zip(runs, ids, strict=True)):
        newest = owner[its] == number
        footers[its[newest]] = run.footers[newest]
    for run, its, block in zip(runs, ids, maps, strict=True):
        _drop_disagreeing(run, block, row_group, rows, footers[its])
    file_of_block = np.repeat(np.arange(len(files), dtype=np.int32), lengths)
    return BlockMap(files, file_of_block, row_group, rows, sizes, footers, tuple(maps))


def _runs_of(keys: pa.Table) -> _Runs:
    keys = keys.combine_chunks()
    begins = np.ones(len(keys), dtype=np.bool_)
    if len(keys) > 1:
        path = keys["path"]
        differs = pc.not_equal(path.slice(1), path.slice(0, len(keys) - 1)).to_numpy()
        for name in ("size", "modified"):
            differs = differs | (np.diff(_numbers(keys, name)) != 0)
        begins[1:] = differs
    starts = np.flatnonzero(begins).astype(np.int64)
    lengths = np.diff(starts, append=len(keys)).astype(np.int64)
    column = keys[FOOTER.name].take(starts) if FOOTER.name in keys.column_names else None
    footers = digests_of(column, len(starts))
    return _Runs(keys, starts, lengths, keys.select(["path", "size", "modified"]).take(starts), footers)


def _identify(runs: Sequence[_Runs]) -> tuple[pa.Table, list[_Longs]]:
    """The distinct keys of all runs, and for each index file the number of each of its runs' key."""
    every = pa.concat_tables([run.files for run in runs]).combine_chunks()
    if len(every) == 0:
        return _no_files(), [_zeros(0) for _ in runs]
    codes = every["path"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((_numbers(every, "modified"), _numbers(every, "size"), codes))
    new = np.ones(len(every), dtype=np.bool_)
    sorted_keys = [codes[order], _numbers(every, "size")[order], _numbers(every, "modified")[order]]
    new[1:] = np.logical_or.reduce([np.diff(key) != 0 for key in sorted_keys])
    number = np.empty(len(every), dtype=np.int64)
    number[order] = np.cumsum(new) - 1
    bounds = np.cumsum([len(run.files) for run in runs])[:-1]
    return every.take(order[new]).combine_chunks(), [part.astype(np.int64) for part in np.split(number, bounds)]


def _drop_disagreeing(
    run: _Runs, block: _Longs, row_group: npt.NDArray[np.int32], rows: _Longs, footers: Digests
) -> None:
    """Forget a run whose row groups are not those of the newest entry: its zone maps would land on the wrong blocks.

    So would those of a run whose footer is not the newest entry's (``footers``, for each file of the run).
    """
    if len(block) == 0:
        return
    at = np.maximum(block, 0)
    same = (row_group[at] == _numbers(run.keys, "row_group")) & (rows[at] == _numbers(run.keys, "rows")) & (block >= 0)
    whole = np.logical_and.reduceat(same, run.starts)
    both_known = run.footers.any(axis=1) & footers.any(axis=1)
    whole &= ~(both_known & (run.footers != footers).any(axis=1))
    block[np.repeat(~whole, run.lengths)] = -1


def _numbers(table: pa.Table, name: str) -> _Longs:
    numbers: _Longs = table[name].to_numpy().astype(np.int64, copy=False)
    return numbers


def _zeros(length: int) -> _Longs:
    return np.zeros(length, dtype=np.int64)


def _no_files() -> pa.Table:
    return pa.schema([KEYS.field(name) for name in ("path", "size", "modified")]).empty_table()
