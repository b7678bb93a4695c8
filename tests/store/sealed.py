"""Index files with a content that no writer of sidestep's makes, but with digests that are right."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sidestep.store.digest import segment_digests, stamp


def seal(path: Path, content: bytes) -> Path:
    """Put content in the place of an index file, under the name that is right for it."""
    body = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.unlink()
    sealed = path.with_name(re.sub("-[0-9a-f]{32}", f"-{stamp(content[body:])}", path.name))
    sealed.write_bytes(content)
    return sealed


def rewrite(path: Path, blocks: pa.Table | None = None, metadata: Mapping[str, str | bytes] | None = None) -> Path:
    """An index file with other rows, or with another metadata."""
    before = pq.read_metadata(path).metadata
    stated = {key.decode(): value for key, value in before.items() if key.startswith(b"sidestep.")}
    rows = pq.read_table(path) if blocks is None else blocks
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False) as writer:
        writer.write_table(rows, row_group_size=max(1, len(rows)))
        digests = base64.b64encode(segment_digests(sink.getvalue()))
        writer.add_key_value_metadata({**stated, **(metadata or {}), "sidestep.digests": digests})
    return seal(path, sink.getvalue())


def as_first_format(path: Path) -> Path:
    """The same file as format 1 had it: under a random name, without digests."""
    rows = pq.read_table(path)
    stated = {key.decode(): value for key, value in pq.read_metadata(path).metadata.items()}
    old = path.with_name(re.sub("-[0-9a-f]{32}", "-8e66d225bf02414ea891fc81a61bb30c", path.name))
    path.unlink()
    with pq.ParquetWriter(old, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        wanted = ("sidestep.writer", "sidestep.schema", "sidestep.recipes", "sidestep.rates")
        writer.add_key_value_metadata({"sidestep.format": "1", **{name: stated[name] for name in wanted}})
    return old
