"""Which units and row ids the files of a table in column groups have, by their own footers."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sidestep.errors import DamagedFile
from sidestep.store.index.grouped_table import GroupedTable
from sidestep.store.location import Location, open_file
from sidestep.store.parquet.row_counts import THREADS
from sidestep.store.sidecars.column_groups import ROW_ID, UNIT
from sidestep.store.snapshot import DataFile


@dataclass(frozen=True, slots=True)
class UsedIds:
    """What is taken."""

    units: tuple[int, ...]
    greatest: int
    """The greatest row id; -1 if there is no row."""


def ids_of(table: GroupedTable) -> UsedIds:
    """The units and ids of all rows: every group that has all of them has the same ones, so one is looked at."""
    root = table.snapshot.root
    fewest = min((table.files_of(number) for number in table.complete), key=len, default=())
    with ThreadPoolExecutor(THREADS) as threads:
        seen = list(threads.map(lambda file: _greatest(root.child(file.path)), fewest))
    return UsedIds(tuple(sorted({unit for unit, _, _ in seen})), max((id for _, id, _ in seen), default=-1))


def units_of(root: Location, files: Sequence[DataFile]) -> dict[str, tuple[int, int]]:
    """The unit that each file is of, and how many rows it has, by its path."""
    with ThreadPoolExecutor(THREADS) as threads:
        seen = list(threads.map(lambda file: _greatest(root.child(file.path)), files))
    return {file.path: (unit, rows) for file, (unit, _, rows) in zip(files, seen, strict=True)}


def _greatest(location: Location) -> tuple[int, int, int]:
    """The unit that a file is of, its greatest row id, and how many rows it has."""
    try:
        with open_file(location) as stream:
            footer = pq.read_metadata(stream)
        leaves = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
        groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
        unit, id = (max(int(group.column(leaves[name]).statistics.max) for group in groups) for name in (UNIT, ROW_ID))
        return unit, id, int(footer.num_rows)
    except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise DamagedFile(f"{location.uri} does not say which rows it has parts of: {error!r}.") from error
