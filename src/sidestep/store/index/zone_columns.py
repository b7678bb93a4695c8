"""What index files say of one column of a table, for all blocks of a view: its zone maps, or its partition values.

Zone maps that were stored for one type, read as another, where that is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.predicate.types import INTEGRAL, DataType, Kind
from sidestep.store.index.block_map import BlockMap, Gather
from sidestep.store.index.index_file import IndexFile
from sidestep.store.index.layout_columns import Read
from sidestep.store.parquet.blocks import zone_map_columns
from sidestep.synopsis.values.forms import stored_type


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


_BYTEWISE = frozenset({Kind.STRING, Kind.BINARY})
_BY_WIDTH = (Kind.BYTE, Kind.SHORT, Kind.INTEGER, Kind.LONG)


def convertible(stored: DataType, asked: DataType) -> bool:
    """Whether zone maps of a ``stored`` column speak of an ``asked`` one as well: the same values in the same order.

    >>> from sidestep.predicate.types import DOUBLE, FLOAT, INTEGER, LONG
    >>> convertible(INTEGER, LONG), convertible(FLOAT, DOUBLE), convertible(DOUBLE, FLOAT)
    (True, True, False)
    """
    if stored == asked:
        return True
    if stored.kind is Kind.DECIMAL:
        return asked.kind is Kind.DECIMAL and stored.scale == asked.scale and stored.precision <= asked.precision
    pair = {stored.kind, asked.kind}
    if pair <= INTEGRAL:
        # Spark reads an integer as a narrower one by cutting bits off: 200 becomes -56.
        return _BY_WIDTH.index(stored.kind) <= _BY_WIDTH.index(asked.kind)
    return pair <= _BYTEWISE or (stored.kind is Kind.FLOAT and asked.kind is Kind.DOUBLE)


def convert_bounds(bounds: pa.Array, asked: DataType) -> pa.Array:
    """Bounds of a convertible type in the stored form of ``asked``; what does not fit becomes unbounded."""
    wanted = stored_type(asked)
    if wanted is None or bounds.type == wanted:
        return bounds
    if pa.types.is_decimal(bounds.type):
        words = _words(bounds)
        fits = words[:, 1] == (words[:, 0] >> 63)
        return pa.array(words[:, 0], pa.int64(), mask=~fits | bounds.is_null().to_numpy(zero_copy_only=False))
    low = bounds.fill_null(0).to_numpy(zero_copy_only=False)
    words = np.column_stack([low, low >> 63])
    whole = pa.Array.from_buffers(wanted, len(bounds), [None, pa.py_buffer(words.astype("<i8").tobytes())])
    return pa.array(whole.to_pylist(), wanted, mask=bounds.is_null().to_numpy(zero_copy_only=False))


def _words(decimals: pa.Array) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The low and high 64 bits of each decimal128."""
    data = decimals.buffers()[1]
    whole = np.frombuffer(data, dtype="<i8") if data is not None else np.zeros(0, dtype="<i8")
    return whole[2 * decimals.offset : 2 * (decimals.offset + len(decimals))].reshape(-1, 2)
