"""The rows of a small table, as far as its index knows its files: what a filter on it leaves is known to the row."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from sidestep.predicate.types import DataType
from sidestep.store.index.table_index import TableIndex
from sidestep.store.location import Location
from sidestep.store.parquet.rows import MOST_BYTES, MOST_FILES, row_catalog, row_columns
from sidestep.store.snapshot import DataFile
from sidestep.store.snapshots.delta import is_delta
from sidestep.synopsis import Catalog

log = logging.getLogger("sidestep")


class SmallTable:
    """The rows of a table, if it is small: read when first asked for, column by column, and kept."""

    def __init__(self, location: Location, index: TableIndex) -> None:
        self._location, self._index = location, index
        self._lock = threading.Lock()
        self._types: dict[str, DataType] = {}
        self._columns: dict[str, pa.Array] = {}
        self._catalog: Catalog | None = None

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
        """A block for each row, with what it holds in these columns; None if there are more than ``most`` rows.

        It may know others besides, which were asked for before.
        """
        rows = int(self._index.map.rows.sum())
        if not columns or rows > most or self._files is None:
            return None
        with self._lock:
            # A type is the query's: another session may read the same column as another.
            missing = {name: type for name, type in columns.items() if self._types.get(name) != type}
            if missing:
                made = self._read(self._files, missing)
                if made is None or any(len(each) != rows for each in made.values()):
                    return None
                others = {column: each for column, each in self._columns.items() if _name(column) not in missing}
                self._types, self._columns = {**self._types, **missing}, {**others, **made}
            if missing or self._catalog is None:
                self._catalog = row_catalog(self._types, self._columns, rows)
            return self._catalog

    def _read(self, files: Sequence[DataFile], columns: Mapping[str, DataType]) -> dict[str, pa.Array] | None:
        try:
            return row_columns(self._location, files, columns, log_times=is_delta(self._location))
        except Exception as problem:
            # What cannot be read now is for the query to find out.
            log.info("sidestep could not read the rows of %s: %r", self._location.uri, problem)
            return None


def _name(column: str) -> str:
    """The table's column that an index column is about."""
    return column.partition(":")[2]
