"""How the rows of small row groups are arranged and encoded, so that many blocks are hardly larger than few.

A row group has its own dictionaries, and a layout tears apart rows that were alike in columns no query asks for. Three
things win most of that back, all measured on a sample block: rows are sorted, within their block, by the column that
brings most like values together (customers, say), unless queries read so much less in another order that this is worth
more; columns whose values hardly recur have no dictionary but one of Parquet's delta encodings, which Spark has read
since 3.3; and zstd tries as hard as Spark's own writer does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidestep.layout.pages import ANY_ORDER, PageOrder

LEVEL = 3
"""As Spark's own writer has it: above it, zstd takes twice the time for a few percent."""
WORTHWHILE = 0.97
"""Rows are sorted only if that leaves less than this share of what there is to write."""


@dataclass(frozen=True, slots=True)
class Encodings:
    """Which column rows are sorted by, which columns get a dictionary, and how the others are encoded."""

    sort_by: tuple[str, ...]
    dictionary: tuple[str, ...] | None
    """By their paths in Parquet's schema; None is all of them."""
    encoding: Mapping[str, str]

    def arrange(self, block: pa.Table) -> pa.Table:
        """The rows of a block in the order in which they are written."""
        if not self.sort_by or len(block) < 2:
            return block
        return block.take(pc.sort_indices(block, sort_keys=[(name, "ascending") for name in self.sort_by]))

    def writer(self, stream: Any, schema: pa.Schema, *, page_rows: int | None = None) -> pq.ParquetWriter:
        """A writer of files in this way; with ``page_rows``, readers know the bounds of pages of so many rows."""
        pages: dict[str, Any] = {}
        if page_rows is not None:
            # Whatever there is after a batch is a page, however few bytes it has.
            pages = {"write_page_index": True, "write_batch_size": page_rows, "data_page_size": 1}
        return pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            compression_level=LEVEL,
            use_dictionary=True if self.dictionary is None else list(self.dictionary),
            column_encoding=dict(self.encoding) or None,
            store_schema=False,
            store_decimal_as_integer=True,
            # They say nothing of NaN, which Spark has greater than all else: it would not look for it in a row group.
            write_statistics=_leaves_without_floats(schema),
            **pages,
        )


def _leaves_without_floats(schema: pa.Schema) -> bool | list[str]:
    """The leaves of columns that hold no floats, by their paths in Parquet's schema; True if none of them does."""
    empty = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), empty, store_schema=False)
    leaves = list(pq.ParquetFile(pa.BufferReader(empty.getvalue())).schema)
    known = [leaf.path for leaf in leaves if leaf.physical_type not in ("FLOAT", "DOUBLE")]
    return True if len(known) == len(leaves) else known


def choose_encodings(sample: pa.Table, ids: str, counter: str | None = None, pages: PageOrder = ANY_ORDER) -> Encodings:
    """What suits blocks like this one, whose ids are in a column of that name.

    Each column is written in each way that it can be, and the smallest is taken. ``counter`` is a column of distinct
    numbers in the order in which rows came, if there is one: by it, rows are back in that order, and it takes hardly
    any space itself. Of the order by which queries pass over pages, what they read counts, not what there is.
    """
    found = sorting_column(sample, ids)
    orders: dict[tuple[str, ...], float] = {() if found is None else (found,): 1.0}
    if counter is not None:
        orders[(counter,)] = 1.0
    if pages.columns:
        orders[pages.columns] = pages.share
    made = [(_encode(sample, ids, order), share) for order, share in orders.items()]
    (chosen, _), _ = min(made, key=lambda one: one[0][1] * one[1])
    return chosen


def _encode(sample: pa.Table, ids: str, sort_by: tuple[str, ...]) -> tuple[Encodings, int]:
    """The encodings of blocks that are sorted by a column, and the bytes of this one."""
    plain = Encodings(sort_by, None, {})
    block = plain.arrange(sample)
    ways: list[dict[str, str]] = [{}, {}]
    for field in sample.schema:
        # Ids keep their dictionary: where there are many, it shows that a row group holds none that is wanted.
        for way, name in zip(ways, _encodings(field.type) if field.name != ids else (), strict=False):
            way[field.name] = name
    sizes = [_sizes(block, plain)]
    leaves = tuple(sizes[0])
    for way in ways:
        sizes.append(_sizes(block, Encodings(sort_by, _others(leaves, way), way)))
    chosen: dict[str, str] = {}
    least = dict(sizes[0])
    for column in ways[0]:
        options = [(sizes[0][column], "")]
        options += [(size[column], way[column]) for size, way in zip(sizes[1:], ways, strict=True) if column in way]
        least[column], best = min(options)
        if best:
            chosen[column] = best
    return Encodings(sort_by, _others(leaves, chosen), chosen), sum(least.values())


def sorting_column(sample: pa.Table, ids: str) -> str | None:
    """The column to sort blocks by, None if none brings enough like values together.

    Sorted by a column, a value that follows its like costs next to nothing. So the cost of an order is, over all
    columns, the width of the values that differ from the one before.

    >>> table = pa.table({"id": [1, 2, 3, 4], "who": [7, 8, 7, 8], "name": ["x" * 50, "y" * 50, "x" * 50, "y" * 50]})
    >>> sorting_column(table, "_block")
    'who'
    """
    codes = {
        field.name: _codes(sample[field.name]) for field in sample.schema if field.name != ids and _sortable(field)
    }
    if not codes or len(sample) < 2:
        return None
    widths = {name: sample[name].nbytes / len(sample) for name in codes}

    def cost(order: npt.NDArray[np.int64] | slice) -> float:
        changes = {name: int(np.count_nonzero(np.diff(code[order]))) for name, code in codes.items()}
        return sum(float(widths[name]) * count for name, count in changes.items())

    costs = {name: cost(np.argsort(code, kind="stable")) for name, code in codes.items()}
    best = min(costs, key=lambda name: costs[name])
    return best if costs[best] < WORTHWHILE * cost(slice(None)) else None


def _others(leaves: tuple[str, ...], encoded: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(leaf for leaf in leaves if leaf not in encoded)


def _encodings(type: pa.DataType) -> tuple[str, ...]:
    """The encodings without a dictionary that a type can have; none for nested types and wide decimals."""
    if pa.types.is_string(type) or pa.types.is_binary(type):
        return "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"
    whole = pa.types.is_integer(type) or pa.types.is_date32(type) or pa.types.is_timestamp(type)
    if whole or (pa.types.is_decimal(type) and type.precision <= 18):
        return "DELTA_BINARY_PACKED", "PLAIN"
    return ("PLAIN",) if pa.types.is_floating(type) else ()


def _sizes(block: pa.Table, encodings: Encodings) -> dict[str, int]:
    """The bytes of each column in a row group of these rows."""
    sink = pa.BufferOutputStream()
    with encodings.writer(sink, block.schema) as writer:
        writer.write_table(block, row_group_size=max(1, len(block)))
    group = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    sizes: dict[str, int] = {}
    for position in range(group.num_columns):
        chunk = group.column(position)
        sizes[chunk.path_in_schema] = chunk.total_compressed_size
    return sizes


def _sortable(field: pa.Field) -> bool:
    return not pa.types.is_nested(field.type)


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    """Numbers that are equal where the values are, and in the same order of first occurrence."""
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int32)
