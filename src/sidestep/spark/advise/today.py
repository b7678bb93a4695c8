"""What queries read of a table as it is now, by its index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidestep.layout.vectors import Bits, Counts
from sidestep.predicate import Formula
from sidestep.spark.advise.source import Source
from sidestep.store.index.table_index import TableIndex
from sidestep.synopsis import Catalog, kept_blocks


@dataclass(frozen=True, eq=False)
class ReadToday:
    """The blocks of a table's indexed files, and which of them each of some queries keeps."""

    catalog: Catalog
    present: Bits
    """Which of the index's files the table has."""
    rows: Counts
    """Of each block; 0 for one that the table does not have."""
    kept: Bits
    """Queries by blocks."""

    @property
    def total(self) -> int:
        return max(1, int(self.rows.sum()))


def read_today(source: Source, index: TableIndex, queries: Sequence[Formula]) -> ReadToday:
    """What queries keep of those files of a table that its index knows."""
    positions = index.positions(source.snapshot.files)
    present = np.zeros(len(index.files), np.bool_)
    present[positions[positions >= 0]] = True
    catalog = index.catalog(source.types)
    mine = present[catalog.file_of_block]
    kept = np.array([mine & kept_blocks(catalog, query) for query in queries], np.bool_)
    return ReadToday(catalog, present, np.where(mine, catalog.rows, 0), kept.reshape(len(queries), len(mine)))
