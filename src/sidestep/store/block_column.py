"""The hidden column of a laid-out table: each row carries the id of its block.

A block is a row group, so in it the column is constant, and Parquet's statistics tell readers which row groups a
condition on ids can be true in. The column is known by its mark in the table's schema, never by its name: a column that
a user happens to call the same is the user's, and the hidden one of that table has another name.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

BLOCK = "_block"
"""What the column is called where no other has that name."""
MARK = "sidestep.block"


def block_field(name: str = BLOCK) -> dict[str, Any]:
    """The column as a field of a schema in Spark's JSON."""
    return {"name": name, "type": "integer", "nullable": True, "metadata": {MARK: True}}


def is_block_field(field: dict[str, Any]) -> bool:
    return field.get("type") == "integer" and bool(field.get("metadata", {}).get(MARK))


def block_name(schema: str | None) -> str | None:
    """What the column is called in a table with this schema, in Spark's JSON; None if there is no such column.

    >>> block_name(json.dumps({"type": "struct", "fields": [block_field("_block_2")]}))
    '_block_2'
    >>> block_name('{"type": "struct", "fields": [{"name": "_block", "type": "integer", "metadata": {}}]}')
    """
    fields = [] if schema is None else json.loads(schema)["fields"]
    return next((str(field["name"]) for field in fields if is_block_field(field)), None)


def free_name(names: Iterable[str]) -> str:
    """A name for the column that none of the others has, in whichever case.

    >>> free_name(["id"]), free_name(["_Block", "_block_2"])
    ('_block', '_block_3')
    """
    taken = {name.lower() for name in names}
    others = (f"{BLOCK}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([BLOCK], others) if name not in taken)


def with_block_column(schema: str) -> str:
    """The schema with the column at its end; as it is if it has one."""
    if block_name(schema) is not None:
        return schema
    struct = json.loads(schema)
    added = block_field(free_name(field["name"] for field in struct["fields"]))
    return json.dumps({**struct, "fields": [*struct["fields"], added]}, ensure_ascii=False)


def without_block_column(schema: str) -> str:
    """The schema as users see it."""
    struct, hidden = json.loads(schema), block_name(schema)
    fields = [field for field in struct["fields"] if field["name"] != hidden]
    return json.dumps({**struct, "fields": fields}, ensure_ascii=False)
