"""Tables on disk for the tests of the store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sidestep.predicate import Column, DataType, IntervalSet, Within
from sidestep.store import TableIndex, block_summaries, read_snapshot
from sidestep.synopsis.skip import kept_blocks

LONG_X = [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]


def write_parquet(path: Path, data: Mapping[str, Any] | pa.Table, *, age: float = 10.0, **options: Any) -> Path:
    """A Parquet file that was written ``age`` seconds ago (not on a whole second), so that it is settled."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data if isinstance(data, pa.Table) else pa.table(data), path, **options)
    set_age(path, age)
    return path


def set_age(path: Path, age: float) -> None:
    now = os.stat(path).st_mtime_ns // 1_000_000_000
    moment = int((now - age) * 1_000_000_000) + 123_456_789
    os.utime(path, ns=(moment, moment))


def write_delta_log(
    root: Path,
    adds: Sequence[Mapping[str, Any]],
    *,
    fields: Sequence[Mapping[str, Any]] = LONG_X,
    partition_columns: Sequence[str] = (),
    protocol: Mapping[str, Any] | None = None,
    configuration: Mapping[str, str] | None = None,
    version: int = 0,
) -> None:
    """A Delta log of one commit, as written by hand."""
    schema = json.dumps({"type": "struct", "fields": list(fields)})
    metadata = {
        "id": "00000000-0000-0000-0000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": list(partition_columns),
        "createdTime": 1,
        "configuration": dict(configuration or {}),
    }
    actions: list[Mapping[str, Any]] = []
    if version == 0:
        actions.append({"protocol": dict(protocol or {"minReaderVersion": 1, "minWriterVersion": 2})})
        actions.append({"metaData": metadata})
    base = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    actions += [{"add": base | dict(add)} for add in adds]
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))


def index_rows(root: Path, columns: dict[str, DataType]) -> list[pa.Table]:
    snapshot = read_snapshot(root)
    found = [block_summaries(snapshot.root, file, columns) for file in snapshot.files]
    return [each for each in found if each is not None]


def kept(index: TableIndex, column: str, type: DataType, *values: Any) -> list[tuple[str, int]]:
    """The blocks that may hold one of the values, as (path, row group)."""
    ranges = IntervalSet.points(type, values)
    mask = kept_blocks(index.catalog({column: type}), Within(Column(column, type), ranges))
    paths = index.files["path"].to_pylist()
    files, groups = index.map.file_of_block[mask], index.map.row_group[mask]
    return sorted((paths[file], int(group)) for file, group in zip(files, groups, strict=True))
