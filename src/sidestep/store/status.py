"""How much of a table its index covers, for people."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

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
    organized_files: int = 0
    """Files that were laid out, as a unit or part of one; the others were written by whoever wrote the table."""
    blocks_with_ids: int = 0
    """Row groups whose rows carry a block id."""
    feature_sets: Mapping[str, float] = field(default_factory=dict)
    """The share of the indexed files' row groups that have a union vector of each feature set, by its id."""

    @property
    def unorganized_files(self) -> int:
        """Files that no layout made."""
        return self.files - self.organized_files

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
    features = Counter(index.features_of_block.filter(pa.array(blocks)).drop_null().to_pylist())
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
        organized_files=sum(index.units[position] is not None for position in positions[known]),
        blocks_with_ids=int((index.block_ids[blocks] >= 0).sum()),
        feature_sets={id: count / int(blocks.sum()) for id, count in features.most_common()},
    )
