"""The rows of a small table, each as a block of its own.

A table of a few hundred rows is one block, and its zone maps say little: of 113 kinds of information one is asked for,
and the block still holds all their ids. Read as a block per row, with the same care as any block (:mod:`.blocks`), it
tells exactly which. That is for tables that are small enough to be read while a query is planned.
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
from sidestep.store.parquet.scan import FileScan, Sources
from sidestep.store.parquet.trust import writer_of
from sidestep.store.snapshot import DataFile
from sidestep.synopsis import Catalog, zone_maps

MOST_FILES = 4
MOST_BYTES = 1 << 20
"""What can be read while a query is planned: files, and bytes of these."""


def row_catalog(
    root: Location, files: Sequence[DataFile], columns: Mapping[str, DataType], *, log_times: bool = False
) -> Catalog | None:
    """A block for each row of some files, with zone maps; None if one of the files is not what its key says.

    ``log_times`` as for :func:`~sidestep.store.parquet.blocks.block_summaries`: where times are a Delta log's, names
    are never used twice.
    """
    parts: dict[str, list[pa.Array]] = {}
    rows = 0
    for file in files:
        found = _rows_of_file(root, file, columns, log_times)
        if found is None:
            return None
        rows += found[0]
        for name, array in found[1].items():
            parts.setdefault(name, []).append(array)
    index = {name: pa.concat_arrays(arrays) for name, arrays in parts.items()}
    ones = np.ones(rows, dtype=np.int64)
    return Catalog(np.arange(rows, dtype=np.int32), ones, ones, rows, (zone_maps(columns, index, ones),))


def _rows_of_file(
    root: Location, file: DataFile, columns: Mapping[str, DataType], log_times: bool
) -> tuple[int, dict[str, pa.Array]] | None:
    location = root.child(file.path)
    before = stat(location)
    if before is None or before.size != file.size or (before.modified != file.modified and not log_times):
        return None
    found: dict[str, pa.Array] = {}
    with open_file(location) as stream:
        parquet = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
        footer = parquet.metadata
        rows = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        scan = FileScan(parquet, leaves_of(parquet), writer_of(footer.created_by, footer.metadata), rows, Sources())
        for name, type in columns.items():
            zone_columns = zone_map_columns(name, type)
            summaries = scan.rows_of(name, type) if zone_columns else []
            for column, arrow in zone_columns.items():
                part = column.partition(":")[0]
                found[column] = pa.array([getattr(each, part) for each in summaries], arrow)
    return (sum(rows), found) if stat(location) == before else None
