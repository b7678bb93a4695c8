"""The blocks of a table as one Arrow table, for people and notebooks: what the index knows of each, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.layout.vectors import bytes_for, from_bytes
from sidestep.predicate.types import INTEGRAL, DataType, Kind
from sidestep.store.index.table_index import TableIndex
from sidestep.store.sidecars.layout import load_features
from sidestep.store.snapshot import Snapshot
from sidestep.synopsis.value_set import VALUES, decode_values
from sidestep.synopsis.values.forms import Form, stored_form

_Positions = npt.NDArray[np.int64]
_INTEGERS = {Kind.BYTE: pa.int8(), Kind.SHORT: pa.int16(), Kind.INTEGER: pa.int32(), Kind.LONG: pa.int64()}


def block_table(snapshot: Snapshot, index: TableIndex, columns: Collection[str] | None = None) -> pa.Table:
    """All indexed blocks that the table has now, in file order; ``columns`` are those to tell of, all if not given.

    ==================  ===========================================================================================
    column              what it is
    ==================  ===========================================================================================
    ``file``            the path of its file, relative to the table
    ``block``           its number in this table
    ``row_group``       its number in the file
    ``rows``, ``bytes`` how many rows it has, and what they take in the file
    ``block_id``        the id that its rows carry in the hidden column; NULL where it was not laid out
    ``unit``            what its file was laid out as a part of
    ``feature_set``     the id of the features that its union vector is about
    ``union_vector``    for each of these features, whether some row of the block may satisfy it
    ``features``        those that some row may satisfy, as SQL
    ``part:c``          for a partition column c, its value as text
    ``min:c, max:c``    bounds of column c: no value is outside; long strings are cut, so that they need not be values
    ``nulls:c``         how many rows have NULL there; NULL where that is not known
    ``values:c``        every value that column c has in the block, where the index keeps the set
    ==================  ===========================================================================================
    """
    known = index.positions(snapshot.files)
    live = np.zeros(len(index.files), np.bool_)
    live[known[known >= 0]] = True
    blocks = np.flatnonzero(live[index.map.file_of_block])
    wanted = _wanted(index, columns)
    arrays: dict[str, pa.Array] = {
        "file": index.files["path"].combine_chunks().dictionary_encode().take(_taken(index.map.file_of_block, blocks)),
        "block": pa.array(np.arange(len(blocks), dtype=np.int32)),
        "row_group": pa.array(index.map.row_group[blocks]),
        "rows": pa.array(index.map.rows[blocks]),
        "bytes": pa.array(index.map.bytes[blocks]),
        **_layout(index, blocks),
    }
    for name in sorted(index.partition_columns):
        texts = index.file_values(name)
        if texts is not None and (columns is None or name in columns):
            arrays[f"part:{name}"] = texts.take(_taken(index.map.file_of_block, blocks))
    for name, type in wanted.items():
        arrays |= _column(index, name, type, blocks)
    return pa.table(arrays)


def _wanted(index: TableIndex, columns: Collection[str] | None) -> dict[str, DataType]:
    known = index.columns
    unknown = [name for name in columns or () if name not in known and name not in index.partition_columns]
    if unknown:
        raise SidestepError(
            f"The index in {index.folder.uri} has no column {', '.join(unknown)}; it has {', '.join(known) or 'none'}."
        )
    return {name: type for name, type in known.items() if columns is None or name in columns}


def _taken(of: npt.NDArray[np.int32], blocks: _Positions) -> pa.Array:
    return pa.array(of[blocks])


def _layout(index: TableIndex, blocks: _Positions) -> dict[str, pa.Array]:
    layout, taken = index.layout, pa.array(blocks)
    ids, sets, unions = layout.block.take(taken), layout.features.take(taken), layout.union.take(taken)
    vectors, texts = [pa.nulls(1, pa.list_(pa.bool_()))], [pa.nulls(1, pa.list_(pa.string()))]
    place, filled = np.zeros(len(blocks), np.int64), 1
    for id in layout.feature_sets():
        features = load_features(index.folder, id)
        if features is None:
            continue
        fits = pc.and_(pc.equal(sets, id), pc.equal(pc.binary_length(unions), bytes_for(len(features))))
        mine = np.flatnonzero(pc.fill_null(fits, False).to_numpy(zero_copy_only=False))
        words = from_bytes(unions.take(pa.array(mine)).to_pylist(), len(features))
        bits = (words[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).astype(np.bool_)
        bits = bits.reshape(len(mine), -1)[:, : len(features)]
        named = pa.array([str(feature) for feature in features.features], pa.string())
        vectors.append(_lists(np.full(len(mine), len(features)), pa.array(bits.ravel())))
        texts.append(_lists(bits.sum(axis=1), named.take(pa.array(np.nonzero(bits)[1]))))
        place[mine] = filled + np.arange(len(mine))
        filled += len(mine)
    return {
        "block_id": ids,
        "unit": layout.unit.take(taken),
        "feature_set": sets,
        "union_vector": pa.concat_arrays(vectors).take(pa.array(place)),
        "features": pa.concat_arrays(texts).take(pa.array(place)),
    }


def _lists(lengths: npt.NDArray[np.int64], members: pa.Array) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), members)


def _column(index: TableIndex, name: str, type: DataType, blocks: _Positions) -> dict[str, pa.Array]:
    taken = pa.array(blocks)
    arrays: dict[str, pa.Array] = {}
    stored = index.stored_arrays(name, type)
    if stored is not None:
        lower, upper = (stored[f"{end}:{name}"].take(taken) for end in ("lower", "upper"))
        nulls = stored[f"nulls:{name}"].take(taken)
        # Where a block holds no number but NaN, or no value at all, its bounds are the wrong way round.
        empty = pc.fill_null(pc.greater(lower, upper), False)
        arrays[f"min:{name}"], arrays[f"max:{name}"] = (
            readable(pc.if_else(empty, pa.scalar(None, end.type), end), type) for end in (lower, upper)
        )
        arrays[f"nulls:{name}"] = pc.if_else(pc.less(nulls, 0), pa.scalar(None, pa.int64()), nulls)
    if name in index.recipes:
        held = index.reader().arrays(name, type, VALUES)
        if held is not None:
            parts = {part: array.take(taken) for part, array in VALUES.parts_of(name, held).items()}
            arrays[f"values:{name}"] = value_lists(type, parts)
    return arrays


def value_lists(type: DataType, parts: Mapping[str, pa.Array]) -> pa.Array:
    """The stored sets of blocks as lists of values; NULL where a block has none."""
    sets, counts = parts["values"], parts["distinct"]
    whole = pc.fill_null(pc.equal(pc.list_value_length(sets), counts), False)
    kept = pc.if_else(whole, sets, pa.scalar(None, sets.type))
    members = pc.list_flatten(kept)
    encoded = members.dictionary_encode()
    values = readable(decode_values(type, encoded.dictionary.to_pylist()), type)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(kept), 0), np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    missing = pc.is_null(kept).to_numpy(zero_copy_only=False)
    starts = pa.array(offsets, mask=np.append(missing, False))
    return pa.ListArray.from_arrays(starts, values.take(encoded.indices))


def readable(stored: pa.Array, type: DataType) -> pa.Array:
    """Stored values as Arrow values of their own type.

    >>> from sidestep.predicate.types import DATE, decimal_type
    >>> readable(pa.array([0, None]), DATE).to_pylist(), readable(pa.array([1250]), decimal_type(9, 2)).to_pylist()
    ([datetime.date(1970, 1, 1), None], [Decimal('12.50')])
    """
    match type.kind:
        case kind if kind in INTEGRAL:
            return pc.cast(stored, _INTEGERS[kind], safe=False)
        case Kind.BOOLEAN:
            return pc.not_equal(stored, 0)
        case Kind.DATE:
            return stored.cast(pa.int32()).cast(pa.date32())
        case Kind.TIMESTAMP:
            return stored.cast(pa.timestamp("us", "UTC"))
        case Kind.TIMESTAMP_NTZ:
            return stored.cast(pa.timestamp("us"))
        case Kind.DECIMAL if stored_form(type) is Form.INTEGER:
            return _decimals(stored, type)
        case Kind.STRING:
            return _strings(stored)
    return stored


def _decimals(stored: pa.Array, type: DataType) -> pa.Array:
    whole = stored.cast(pa.decimal128(38, 0))
    data = whole.buffers()[1]
    # The same 128 bits, read with another scale: a division would round.
    bits = [whole.buffers()[0], data]
    wide = pa.Array.from_buffers(pa.decimal128(38, type.scale), len(whole), bits, offset=whole.offset)
    return wide.cast(pa.decimal128(type.precision, type.scale), safe=False)


def _strings(stored: pa.Array) -> pa.Array:
    """A bound that was cut may end inside a character: what is left of that is shown as such."""
    try:
        return stored.cast(pa.string())
    except pa.ArrowInvalid:
        texts = (None if value is None else value.decode(errors="replace") for value in stored.to_pylist())
        return pa.array(texts, pa.string())
