"""``sidestep.blocks``: the blocks of a table, and what its index knows of each, as an Arrow table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from sidestep.spark.relation import resolve
from sidestep.store import locate, open_index, read_snapshot
from sidestep.store.index.block_table import block_table
from sidestep.store.index.grouped_table import read_groups


def blocks(
    spark: SparkSession,
    table: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    index_dir: str | os.PathLike[str] | None = None,
) -> pa.Table:
    """The indexed blocks of the table at a path (or of a name in the catalog), one row each, as an Arrow table.

    Each has its file, number, rows and bytes; of each column, or of those named, the least and greatest value
    (``min:c``, ``max:c``), how many are NULL (``nulls:c``) and, where the index keeps the set, all values
    (``values:c``); and of a table that was laid out its id, unit, union vector and the features that some row of it may
    satisfy. Bounds are outer bounds: long strings are cut. Files that are not indexed have no rows here. No data is
    read.
    """
    grouped = read_groups(path := resolve(spark, table))
    snapshot = read_snapshot(path, to_index=True) if grouped is None else grouped.snapshot
    root = locate(path) if grouped is None else snapshot.root
    stored = dict(snapshot.stored_names)
    wanted = None if columns is None else [stored.get(name, name) for name in columns]
    found = block_table(snapshot, open_index(root, index_dir), wanted)
    names = {other: name for name, other in snapshot.stored_names}
    return found.rename_columns([_under_name(column, names) for column in found.column_names]) if names else found


def _under_name(column: str, names: Mapping[str, str]) -> str:
    """A column of blocks, such as ``min:c``, with the name that the table has for its column."""
    what, colon, of = column.partition(":")
    return f"{what}{colon}{names.get(of, of)}"
