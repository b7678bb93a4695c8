"""The hidden column of a laid-out table: each row carries the id of its block.

A block is a row group, so in it the column is constant, and Parquet's statistics tell readers which row groups a
condition on ids can be true in. The column is marked in the table's schema, so that a column which a user happens to
call the same is never hidden or taken for it.
"""

from __future__ import annotations

import json
from typing import Any

BLOCK = "_block"
MARK = "sidestep.block"


def block_field() -> dict[str, Any]:
    """The column as a field of a schema in Spark's JSON."""
    return {"name": BLOCK, "type": "integer", "nullable": True, "metadata": {MARK: True}}


def is_block_field(field: dict[str, Any]) -> bool:
    return field.get("name") == BLOCK and field.get("type") == "integer" and bool(field.get("metadata", {}).get(MARK))


def has_block_column(schema: str | None) -> bool:
    """Whether a table with this schema, in Spark's JSON, has the column.

    >>> has_block_column(json.dumps({"type": "struct", "fields": [block_field()]}))
    True
    >>> has_block_column('{"type": "struct", "fields": [{"name": "_block", "type": "integer", "metadata": {}}]}')
    False
    """
    return schema is not None and any(map(is_block_field, json.loads(schema)["fields"]))


def with_block_column(schema: str) -> str:
    """The schema with the column at its end; as it is if it has one."""
    if has_block_column(schema):
        return schema
    struct = json.loads(schema)
    return json.dumps({**struct, "fields": [*struct["fields"], block_field()]}, ensure_ascii=False)


def without_block_column(schema: str) -> str:
    """The schema as users see it."""
    struct = json.loads(schema)
    return json.dumps({**struct, "fields": [f for f in struct["fields"] if not is_block_field(f)]}, ensure_ascii=False)
