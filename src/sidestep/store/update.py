"""Bringing an index up to date: list, see what is missing, read it, append, compact."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa

from sidestep.errors import DamagedFile, SidestepWarning
from sidestep.predicate.types import DataType
from sidestep.store.blocks import Sources, block_summaries
from sidestep.store.compaction import append_blocks, compact
from sidestep.store.datafile import DataFile, Snapshot
from sidestep.store.files import Location
from sidestep.store.index import TableIndex, open_index
from sidestep.store.settle import settle

_BATCH = 256
"""The rows of so many files are joined at a time."""


def missing_files(snapshot: Snapshot, index: TableIndex, columns: Mapping[str, DataType]) -> tuple[DataFile, ...]:
    """The files of the snapshot that the index does not know, or not all these columns of."""
    positions = index.positions(snapshot.files)
    covered = np.append(index.covered(columns), False)  # position -1 is the last: not covered
    return tuple(file for file, known in zip(snapshot.files, covered[positions], strict=True) if not known)


def trusted_files(snapshot: Snapshot, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """The files whose keys identify them, waiting for those only just written (a Delta log never reuses a name)."""
    return files if snapshot.format == "delta" else settle(snapshot.root, files)


Summaries = Iterable[pa.Table | DamagedFile | None]
"""The index rows of files, in any order: a table each, an error for a damaged one, None for one that changed."""


def update_index(
    snapshot: Snapshot,
    columns: Mapping[str, DataType],
    index_dir: str | os.PathLike[str] | Location | None = None,
    summarize: Callable[[Sequence[DataFile]], Summaries] | None = None,
) -> TableIndex:
    """Index what is missing and return the new view. Damaged files are left out, with a warning each.

    ``summarize`` reads the files; by default threads of this process do, on Spark the collect job does.
    """
    index = open_index(snapshot.root, index_dir)
    todo = trusted_files(snapshot, missing_files(snapshot, index, columns))
    joined: list[pa.Table] = []
    tables: list[pa.Table] = []
    for result in (summarize or partial(summarize_here, snapshot, columns))(todo):
        if isinstance(result, DamagedFile):
            warnings.warn(str(result), SidestepWarning, stacklevel=2)
        elif result is not None:
            tables.append(result)
        if len(tables) == _BATCH:
            joined += _joined(tables)
            tables = []
    append_blocks(index.folder, joined + tables, columns)
    return compact(index.refreshed(), snapshot)


def _joined(tables: list[pa.Table]) -> list[pa.Table]:
    """Neighbours with the same columns as one table: tables of a row or two are mostly overhead."""
    alike = [list(group) for _, group in groupby(tables, key=lambda table: table.schema)]
    return [pa.concat_tables(group).combine_chunks() for group in alike]


def summarize_here(
    snapshot: Snapshot, columns: Mapping[str, DataType], files: Sequence[DataFile], sources: Sources | None = None
) -> Summaries:
    """The index rows of the files, read by threads of this process."""

    def one(file: DataFile) -> pa.Table | DamagedFile | None:
        try:
            return block_summaries(snapshot.root, file, columns, sources, log_times=snapshot.format == "delta")
        except DamagedFile as error:
            return error

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(files), _BATCH):
            yield from pool.map(one, files[start : start + _BATCH])
