"""What index files say of one column of a table, for all blocks of a view: its zone maps, or its partition values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.predicate.types import DataType
from sidestep.store.convert import convert_bounds, convertible
from sidestep.store.indexfile import IndexFile
from sidestep.store.laidout import Read
from sidestep.store.parquet.blocks import zone_map_columns
from sidestep.store.view import BlockMap, Gather


def zone_arrays(
    files: Sequence[IndexFile],
    blocks: BlockMap,
    read: Read,
    warn: Callable[[str, str], None],
    name: str,
    type: DataType,
) -> dict[str, pa.Array] | None:
    """The index columns of a zone map in the stored form of ``type``; None if no file has one that speaks of it."""
    wanted = zone_map_columns(name, type)
    holders = [n for n, f in enumerate(files) if name in f.columns and convertible(f.columns[name], type)]
    for number, file in enumerate(files):
        if wanted and name in file.columns and number not in holders:
            warn(
                f"{file.location.uri}:{name}:{type}",
                f"Column {name} is indexed as {file.columns[name]} in {file.location.uri}, but the query reads it "
                f"as {type}: it skips nothing there. Index the table again to change that.",
            )
    if not holders or not wanted:
        return None
    parts: dict[str, list[pa.Array]] = {column: [] for column in wanted}
    for number in holders:
        file = files[number]
        found = read(file, list(wanted))
        for column, arrow in wanted.items():
            if found is None:
                parts[column].append(pa.nulls(file.rows, arrow))
            else:
                bounds = column.startswith(("lower:", "upper:"))
                parts[column].append(convert_bounds(found[column], type) if bounds else found[column])
    gather = Gather(blocks.sources(holders))
    return {column: gather(pa.concat_arrays(arrays)) for column, arrays in parts.items()}


def partition_texts(
    files: Sequence[IndexFile], view: BlockMap, read: Read, name: str, blocks: npt.NDArray[np.bool_] | None = None
) -> pa.Array | None:
    """The raw value of a partition column for each file; None unless all files (those of ``blocks``) have one."""
    holders = [number for number, file in enumerate(files) if name in file.partition_columns]
    missing = view.sources(holders) < 0
    # NULL is a value here, so a file without one cannot be told from a NULL one: nothing is said then.
    if not holders or np.any(missing if blocks is None else missing & blocks):
        return None
    column = f"part:{name}"
    arrays: list[pa.Array] = []
    for number in holders:
        found = read(files[number], [column])
        if found is None:
            return None
        arrays.append(found[column])
    first = np.flatnonzero(np.diff(view.file_of_block, prepend=np.int32(-1)))
    return Gather(view.sources(holders))(pa.concat_arrays(arrays)).take(pa.array(first))
