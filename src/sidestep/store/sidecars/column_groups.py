"""Tables in column groups: how one is told, where its parts are, and which columns lie together.

The columns of such a table lie in groups, and each group has a row order of its own. What is stored is an inner Delta
table under ``_sidestep/groups``, so that no one takes fragments of rows for rows. A file of it holds the columns of one
group, which its partition value ``_group`` names, the hidden column of block ids, and ``_unit`` and ``_rid``. The rows
of a unit are in the files of that unit in every group, and a row has the same ``_rid``, which no other row of the table
has, in each. The sidecar of the inner table says which columns a group has, and what the table looks like to its users.

In the folder of the table itself, and in those of its parts, lies one file that is no Parquet file, whatever its name
says: who reads the folder without sidestep gets an error that names it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sidestep.errors import SidestepError, check_format
from sidestep.store.sidecars.sidecar import JsonObject, Numbered
from sidestep.store.snapshots.groups import PLACE, inner_table

__all__ = ["COLUMN_GROUPS", "GROUP", "MARKER", "PLACE", "ROW_ID", "STAGED", "UNIT", "ColumnGroups", "inner_table"]

FORMAT = 1
GROUP, UNIT, ROW_ID = "_group", "_unit", "_rid"
"""The partition column of the inner table, and the columns that its groups are joined by."""
STAGED = "_staged-"
"""What folders beside the index begin with that hold rows on their way into a table."""
MARKER = "this-table-has-column-groups--read-it-with-sidestep.parquet"
"""The file that tells readers without sidestep what they have before them."""


@dataclass(frozen=True, slots=True)
class ColumnGroups:
    """Which columns of a table lie together."""

    schema: str
    """The columns as users see them, in Spark's JSON."""
    groups: tuple[tuple[str, ...], ...]
    """The columns of each group, by its number. A number is given once: older versions keep the groups they had."""
    buckets: int
    """The name of a file ends in the bucket of its unit, ``pmod(hash(_unit), buckets)``, as Spark names such files."""
    first: int = 0
    """The first group of the newest division of the columns; those before are of divisions that it took the place of.
    Every column is in at least one group of each division."""

    def __post_init__(self) -> None:
        names = {field["name"] for field in json.loads(self.schema)["fields"]}
        if type(self.first) is not int or not 0 <= self.first < len(self.groups):
            raise SidestepError(f"There is no column group {self.first!r} for the newest division to begin with.")
        held = {name for group in self.groups[self.first :] for name in group}
        if names != held or not all(self.groups):
            raise SidestepError("Column groups have the columns of their table between them, and none is empty.")
        if type(self.buckets) is not int or self.buckets < 1:
            raise SidestepError(f"buckets is {self.buckets!r}, but it must be a whole number of at least 1.")

    @property
    def newest(self) -> tuple[int, ...]:
        """The numbers of the groups of the newest division."""
        return tuple(range(self.first, len(self.groups)))

    @classmethod
    def from_json(cls, written: JsonObject, source: str) -> ColumnGroups:
        """What a file says; SidestepError if it is damaged."""
        check_format(written.get("format"), FORMAT, f"The column groups {source}")
        try:
            groups = tuple(tuple(str(name) for name in group) for group in written["groups"])
            return cls(
                json.dumps(written["schema"], ensure_ascii=False), groups, written["buckets"], written.get("first", 0)
            )
        except (ValueError, TypeError, KeyError) as problem:
            raise SidestepError(f"The column groups {source} are damaged: {problem}.") from problem

    def to_json(self) -> dict[str, Any]:
        """The groups as plain data."""
        groups = [list(group) for group in self.groups]
        written = {"format": FORMAT, "schema": json.loads(self.schema), "groups": groups, "buckets": self.buckets}
        return written | ({"first": self.first} if self.first else {})


COLUMN_GROUPS: Numbered[ColumnGroups] = Numbered("groups", ColumnGroups.to_json, ColumnGroups.from_json)


def inner_path(root: str) -> str:
    """The same for a table given by its path.

    >>> inner_path("s3://bucket/orders/")
    's3://bucket/orders/_sidestep/groups'
    """
    return "/".join([root.rstrip("/"), *PLACE])
