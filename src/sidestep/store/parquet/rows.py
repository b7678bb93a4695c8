"""The rows of a small table, each as a block of its own.

A table of a few thousand rows is one block, and its zone maps say little: of the days of two centuries one month is
asked for, and the block still holds the keys of all. Read as a block per row, with the same care as any block
(:mod:`.blocks`), it tells exactly which. That is for tables that are small enough to be read while a query is planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sidestep.predicate.types import DataType
from sidestep.store.location import Location, open_file, stat
from sidestep.store.parquet.blocks import zone_map_columns
from sidestep.store.parquet.leaf import leaves_of
from sidestep.store.parquet.scan import FileScan, RowZones, Sources
from sidestep.store.parquet.trust import writer_of
from sidestep.store.snapshot import DataFile
from sidestep.synopsis import Catalog, zone_maps

MOST_FILES = 8
MOST_BYTES = 1 << 26
"""Of what the columns that are asked for are read while a query is planned: files, and bytes of these."""


def row_columns(
    root: Location, files: Sequence[DataFile], columns: Mapping[str, DataType], *, log_times: bool = False
) -> dict[str, pa.Array] | None:
    """The zone maps of each row of some files, as index columns; None if one of the files is not what its key says.

    ``log_times`` as for :func:`~sidestep.store.parquet.blocks.block_summaries`: where times are a Delta log's, names
    are never used twice.
    """
    ordered = {name: type for name, type in columns.items() if zone_map_columns(name, type)}
    parts: dict[str, list[RowZones]] = {name: [] for name in ordered}
    for file in files:
        found = _rows_of_file(root, file, ordered, log_times)
        if found is None:
            return None
        for name, zones in found.items():
            parts[name].append(zones)
    made: dict[str, pa.Array] = {}
    for name, type in ordered.items():
        whole = RowZones.of(parts[name], type)
        made |= {column: getattr(whole, column.partition(":")[0]) for column in zone_map_columns(name, type)}
    return made


def row_catalog(columns: Mapping[str, DataType], made: Mapping[str, pa.Array], rows: int) -> Catalog:
    """A block for each row, by what :func:`row_columns` made of these columns."""
    ones = np.ones(rows, dtype=np.int64)
    return Catalog(np.arange(rows, dtype=np.int32), ones, ones, rows, (zone_maps(columns, made, ones),))


def _rows_of_file(
    root: Location, file: DataFile, columns: Mapping[str, DataType], log_times: bool
) -> dict[str, RowZones] | None:
    location = root.child(file.path)
    before = stat(location)
    if before is None or before.size != file.size or (before.modified != file.modified and not log_times):
        return None
    with open_file(location) as stream:
        parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
        footer = parquet.metadata
        rows = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        scan = FileScan(parquet, leaves_of(parquet), writer_of(footer.created_by, footer.metadata), rows, Sources())
        found = {name: scan.rows_of(name, type) for name, type in columns.items()}
    return found if stat(location) == before else None
