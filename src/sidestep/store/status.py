"""How much of a table its index covers, for people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sidestep.predicate.types import DataType
from sidestep.store.datafile import Snapshot
from sidestep.store.files import Location
from sidestep.store.index import open_index
from sidestep.store.snapshot import read_snapshot


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """What the index knows, against what the table has now."""

    root: str
    folder: str
    """Where the index files are."""
    format: str
    version: int | None
    files: int
    bytes: int
    indexed_files: int
    indexed_bytes: int
    indexed_rows: int
    blocks: int
    """Row groups in the indexed files."""
    columns: Mapping[str, DataType]
    column_files: Mapping[str, int]
    """For each column, how many of the table's files have it indexed."""
    partition_columns: tuple[str, ...]
    index_files: int
    index_bytes: int
    stale_files: int
    """Entries for files that the table no longer has (always 0 for a part of a table or an older version)."""
    problems: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether every file of the table is indexed."""
        return self.indexed_files == self.files


def status(
    table: str | os.PathLike[str] | Location | Snapshot, index_dir: str | os.PathLike[str] | Location | None = None
) -> IndexStatus:
    """The state of a table's index. A table that was never indexed has zeros, not an error."""
    snapshot = table if isinstance(table, Snapshot) else read_snapshot(table)
    index = open_index(snapshot.root, index_dir)
    positions = index.positions(snapshot.files)
    known = positions >= 0
    live = np.zeros(len(index.files), dtype=np.bool_)
    live[positions[known]] = True
    blocks = live[index.map.file_of_block]
    columns = index.columns
    return IndexStatus(
        root=snapshot.root.uri,
        folder=index.folder.uri,
        format=snapshot.format,
        version=snapshot.version,
        files=len(snapshot.files),
        bytes=snapshot.bytes,
        indexed_files=int(known.sum()),
        indexed_bytes=sum(file.size for file, hit in zip(snapshot.files, known, strict=True) if hit),
        indexed_rows=int(index.map.rows[blocks].sum()),
        blocks=int(blocks.sum()),
        columns=columns,
        column_files={name: int((index.covered({name: type}) & live).sum()) for name, type in columns.items()},
        partition_columns=snapshot.partition_columns,
        index_files=len(index.index_files),
        index_bytes=index.nbytes,
        stale_files=int((~live).sum()) if snapshot.whole else 0,
        problems=index.problems,
    )
