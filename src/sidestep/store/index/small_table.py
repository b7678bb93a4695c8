"""The rows of a small table, as far as its index knows its files: what a filter on it leaves is known to the row."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property

from sidestep.predicate.types import DataType
from sidestep.store.index.table_index import TableIndex
from sidestep.store.location import Location
from sidestep.store.parquet.rows import MOST_BYTES, MOST_FILES, row_catalog
from sidestep.store.snapshot import DataFile
from sidestep.store.snapshots.delta import is_delta
from sidestep.synopsis import Catalog

log = logging.getLogger("sidestep")


class SmallTable:
    """The rows of a table, if it is small: read when first asked for, column by column."""

    def __init__(self, location: Location, index: TableIndex) -> None:
        self._location, self._index = location, index
        self._lock = threading.Lock()
        self._catalogs: dict[frozenset[tuple[str, DataType]], Catalog | None] = {}

    @cached_property
    def _files(self) -> tuple[DataFile, ...] | None:
        """All files that there are entries of; None if that is too much to be read while a query is planned."""
        files, blocks = self._index.files, self._index.map
        small = len(files) <= MOST_FILES and blocks.bytes.sum() <= MOST_BYTES
        if not small or not self._location.local or self._index.partition_columns:
            return None
        keys = (files[name].to_pylist() for name in ("path", "size", "modified"))
        return tuple(DataFile(*key) for key in zip(*keys, strict=True))

    def catalog(self, columns: Mapping[str, DataType], most: int) -> Catalog | None:
        """A block for each row, with what it holds in these columns; None if there are more than ``most`` rows."""
        if not columns or int(self._index.map.rows.sum()) > most or self._files is None:
            return None
        wanted = frozenset(columns.items())
        with self._lock:
            if wanted not in self._catalogs:
                self._catalogs[wanted] = self._read(self._files, columns)
            return self._catalogs[wanted]

    def _read(self, files: Sequence[DataFile], columns: Mapping[str, DataType]) -> Catalog | None:
        try:
            return row_catalog(self._location, files, columns, log_times=is_delta(self._location))
        except Exception as problem:
            # What cannot be read now is for the query to find out.
            log.info("sidestep could not read the rows of %s: %r", self._location.uri, problem)
            return None
