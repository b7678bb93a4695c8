"""Small tables with a block per row group, made by hand: what the rule does must not depend on how they came about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction, create_table_with_add_actions

from sidestep.store.block_column import BLOCK, with_block_column


def with_ids(block: pa.Table, number: int) -> pa.Table:
    return block.append_column(pa.field(BLOCK, pa.int32()), pa.array([number] * len(block), pa.int32()))


def write_file(path: Path, blocks: Sequence[pa.Table], first: int) -> None:
    """One row group per block, with ids from ``first`` on."""
    with pq.ParquetWriter(path, with_ids(blocks[0], 0).schema, compression="zstd") as writer:
        for number, block in enumerate(blocks):
            writer.write_table(with_ids(block, first + number), row_group_size=max(1, len(block)))


def lay_out(root: Path, files: Sequence[Sequence[pa.Table]], first: int = 1) -> str:
    """A Delta table whose files hold the given blocks."""
    root.mkdir()
    added = []
    for number, blocks in enumerate(files):
        path = root / f"part-{number:05d}.parquet"
        write_file(path, blocks, first)
        first += len(blocks)
        status = path.stat()
        added.append(AddAction(path.name, status.st_size, {}, status.st_mtime_ns // 1_000_000, True, "{}"))
    schema = json.dumps(json.loads(Schema.from_arrow(files[0][0].schema).to_json()))
    create_table_with_add_actions(str(root), Schema.from_json(with_block_column(schema)), added)
    assert DeltaTable(str(root)).version() == 0
    return str(root)
