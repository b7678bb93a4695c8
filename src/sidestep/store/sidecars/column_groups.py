"""Tables in column groups: how one is told, where its parts are, and which columns lie together.

The columns of such a table lie in groups, and each group has a row order of its own. What is stored is an inner Delta
table under ``_sidestep/groups``, so that no one takes fragments of rows for rows. A file of it holds the columns of one
group, which its partition value ``_group`` names, the hidden column of block ids, and ``_unit`` and ``_rid``. The rows
of a unit are in the files of that unit in every group, and a row has the same ``_rid``, which no other row of the table
has, in each. The sidecar of the inner table says which columns a group has, and what the table looks like to its users.

Some groups may hold copies of cells that lie in others too (partial replication), and then only in some rows: those
that satisfy at least one of some features. Such a group may have a partner with the other rows, in fewer columns; the
two together are as good as a group of all rows in those columns.

In the folder of the table itself, and in those of its parts, lies one file that is no Parquet file, whatever its name
says: who reads the folder without sidestep gets an error that names it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sidestep.errors import SidestepError, check_format
from sidestep.store.sidecars.sidecar import JsonObject, Numbered
from sidestep.store.snapshots.groups import PLACE, inner_table

__all__ = [
    "COLUMN_GROUPS",
    "GROUP",
    "MARKER",
    "PLACE",
    "ROW_ID",
    "STAGED",
    "UNIT",
    "ColumnGroups",
    "GroupRows",
    "inner_table",
]

FORMAT = 2
GROUP, UNIT, ROW_ID = "_group", "_unit", "_rid"
"""The partition column of the inner table, and the columns that its groups are joined by."""
STAGED = "_staged-"
"""What folders beside the index begin with that hold rows on their way into a table."""
MARKER = "this-table-has-column-groups--read-it-with-sidestep.parquet"
"""The file that tells readers without sidestep what they have before them."""


@dataclass(frozen=True, slots=True)
class GroupRows:
    """Which rows a group has, where these are not all."""

    features: str
    """The id of a set of features: the rows that satisfy at least one of them."""
    rest_of: int | None = None
    """Instead, the rows that satisfy none: those that the group of this number has not."""


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
    Every column is in at least one group of each division that has all rows, or in a pair that has them together."""
    rows: dict[int, GroupRows] = field(default_factory=dict)
    """The groups that have only some rows, by their numbers."""

    def __post_init__(self) -> None:
        names = {field["name"] for field in json.loads(self.schema)["fields"]}
        if type(self.first) is not int or not 0 <= self.first < len(self.groups):
            raise SidestepError(f"There is no column group {self.first!r} for the newest division to begin with.")
        for number, some in self.rows.items():
            self._check_rows(number, some)
        held = {name for number in self.complete(self.newest) for name in self.groups[number]}
        others = {name for group in self.groups[self.first :] for name in group} - held
        if names != held or others or not all(self.groups):
            raise SidestepError("Column groups have the columns of their table between them, and none is empty.")
        if type(self.buckets) is not int or self.buckets < 1:
            raise SidestepError(f"buckets is {self.buckets!r}, but it must be a whole number of at least 1.")

    def _check_rows(self, number: int, some: GroupRows) -> None:
        other = some.rest_of
        if not 0 <= number < len(self.groups):
            raise SidestepError(f"There is no column group {number} that has only some rows.")
        if other is None:
            return
        partner = self.rows.get(other)
        if partner is None or partner.rest_of is not None or partner.features != some.features:
            raise SidestepError(f"Column group {number} has the rows that group {other} lacks, which says otherwise.")
        if not set(self.groups[number]) <= set(self.groups[other]):
            raise SidestepError(f"Column group {number} has columns that its partner {other} has not.")

    @property
    def newest(self) -> tuple[int, ...]:
        """The numbers of the groups of the newest division."""
        return tuple(range(self.first, len(self.groups)))

    def is_partial(self, number: int) -> bool:
        """Whether a group has cells of some rows only, and no partner's help to have them of all."""
        some = self.rows.get(number)
        return some is not None and some.rest_of is None

    def complete(self, numbers: Collection[int]) -> tuple[int, ...]:
        """Those of some groups whose columns can be read in every row: partners with the help of theirs.

        >>> schema = '{"fields": [{"name": "a"}, {"name": "b"}]}'
        >>> some = {1: GroupRows("x"), 2: GroupRows("x", 1)}
        >>> copied = ColumnGroups(schema, (("b",), ("a", "b"), ("a",)), 4, rows=some)
        >>> copied.complete((0, 1, 2)), copied.parts(0), copied.parts(2)
        ((0, 2), (0,), (1, 2))
        """
        return tuple(number for number in numbers if not self.is_partial(number))

    def parts(self, number: int) -> tuple[int, ...]:
        """The groups whose files have the columns of one in all the rows that it stands for."""
        some = self.rows.get(number)
        return (number,) if some is None or some.rest_of is None else (some.rest_of, number)

    @classmethod
    def from_json(cls, written: JsonObject, source: str) -> ColumnGroups:
        """What a file says; SidestepError if it is damaged."""
        check_format(written.get("format"), FORMAT, f"The column groups {source}")
        try:
            groups = tuple(tuple(str(name) for name in group) for group in written["groups"])
            return cls(
                json.dumps(written["schema"], ensure_ascii=False),
                groups,
                written["buckets"],
                written.get("first", 0),
                {one["group"]: GroupRows(str(one["features"]), one.get("rest_of")) for one in written.get("rows", ())},
            )
        except (ValueError, TypeError, KeyError) as problem:
            raise SidestepError(f"The column groups {source} are damaged: {problem}.") from problem

    def to_json(self) -> dict[str, Any]:
        """The groups as plain data."""
        groups = [list(group) for group in self.groups]
        # Who does not know of groups with some rows must not read such a table; any other it may.
        written = {
            "format": FORMAT if self.rows else 1,
            "schema": json.loads(self.schema),
            "groups": groups,
            "buckets": self.buckets,
        }
        rows = [
            {"group": number, "features": some.features} | ({} if some.rest_of is None else {"rest_of": some.rest_of})
            for number, some in self.rows.items()
        ]
        return written | ({"first": self.first} if self.first else {}) | ({"rows": rows} if rows else {})


COLUMN_GROUPS: Numbered[ColumnGroups] = Numbered("groups", ColumnGroups.to_json, ColumnGroups.from_json)


def inner_path(root: str) -> str:
    """The same for a table given by its path.

    >>> inner_path("s3://bucket/orders/")
    's3://bucket/orders/_sidestep/groups'
    """
    return "/".join([root.rstrip("/"), *PLACE])
