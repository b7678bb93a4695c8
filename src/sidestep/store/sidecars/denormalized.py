"""Denormalized tables that were made of a fact table: where they are, of what, and of which files of it.

They are told beside the index of the fact table, so that a query which reads it finds them. What is proven of the base
tables' keys, and that the denormalized table holds their rows, is so for the files that are listed here alone: a base
table with any other file, or without one of these, is another table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sidestep.errors import SidestepError, check_format
from sidestep.layout.join_tree import JoinTree, KeptColumn, Role
from sidestep.store.sidecars.sidecar import JsonObject, Numbered
from sidestep.store.snapshot import DataFile

FORMAT = 1


@dataclass(frozen=True, slots=True)
class BaseTable:
    """A table as it was when it was denormalized."""

    name: str
    """What the join tree calls it."""
    root: str
    """The URI of its folder."""
    files: tuple[DataFile, ...]
    rows: int
    widths: Mapping[str, float] = field(default_factory=dict)
    """What a value of each column takes on disk, in bytes; a column that is not listed takes next to nothing."""

    def to_json(self) -> dict[str, Any]:
        files = [[file.path, file.size, file.modified] for file in self.files]
        return {"name": self.name, "root": self.root, "rows": self.rows, "widths": dict(self.widths), "files": files}

    @classmethod
    def from_json(cls, written: JsonObject) -> BaseTable:
        files = tuple(DataFile(str(path), int(size), int(modified)) for path, size, modified in written["files"])
        return cls(written["name"], written["root"], files, int(written["rows"]), _widths(written["widths"]))


@dataclass(frozen=True, slots=True)
class DenormalizedTable:
    """A denormalized table, at one version, and what it was made of."""

    root: str
    """The URI of its folder."""
    version: int
    """Of the Delta table there, or of the inner one of a table in column groups."""
    table_id: str | None
    rows: int
    widths: Mapping[str, float]
    tree: JoinTree
    bases: tuple[BaseTable, ...]
    reading: str = ""
    """The settings that the base tables' files were read by, where they differ from Spark's own."""

    def __post_init__(self) -> None:
        if {base.name for base in self.bases} != set(self.tree.tables):
            raise SidestepError("A denormalized table knows the files of each table that it was made of.")

    def base(self, name: str) -> BaseTable:
        return next(base for base in self.bases if base.name == name)

    def to_json(self) -> dict[str, Any]:
        roles = [
            {"name": role.name, "table": role.table, "parent": role.parent, "on": role.on, "total": role.total}
            for role in self.tree.roles
        ]
        columns = [[column.role, column.name, column.type, column.stored] for column in self.tree.columns]
        return {
            "root": self.root,
            "version": self.version,
            "id": self.table_id,
            "rows": self.rows,
            "widths": dict(self.widths),
            "roles": roles,
            "columns": columns,
            "reading": self.reading,
            "bases": [base.to_json() for base in self.bases],
        }

    @classmethod
    def from_json(cls, written: JsonObject) -> DenormalizedTable:
        roles = tuple(
            Role(one["name"], one["table"], one["parent"], tuple((str(a), str(b)) for a, b in one["on"]), one["total"])
            for one in written["roles"]
        )
        columns = tuple(KeptColumn(*one) for one in written["columns"])
        return cls(
            written["root"],
            int(written["version"]),
            written["id"],
            int(written["rows"]),
            _widths(written["widths"]),
            JoinTree(roles, columns),
            tuple(BaseTable.from_json(one) for one in written["bases"]),
            str(written["reading"]),
        )


@dataclass(frozen=True, slots=True)
class DenormalizedTables:
    """Those that there are of one fact table; of two at one place, the later."""

    tables: tuple[DenormalizedTable, ...] = ()

    def with_table(self, table: DenormalizedTable) -> DenormalizedTables:
        return DenormalizedTables((*(each for each in self.tables if each.root != table.root), table))

    @classmethod
    def from_json(cls, written: JsonObject, source: str) -> DenormalizedTables:
        """What a file says; SidestepError if it is damaged."""
        check_format(written.get("format"), FORMAT, f"The denormalized tables {source}")
        try:
            return cls(tuple(DenormalizedTable.from_json(one) for one in written["tables"]))
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            raise SidestepError(f"The denormalized tables {source} are damaged: {problem}.") from problem

    def to_json(self) -> dict[str, Any]:
        """The tables as plain data."""
        return {"format": FORMAT, "tables": [table.to_json() for table in self.tables]}


def _widths(written: JsonObject) -> dict[str, float]:
    return {str(name): float(width) for name, width in written.items()}


DENORMALIZED: Numbered[DenormalizedTables] = Numbered(
    "denormalized", DenormalizedTables.to_json, DenormalizedTables.from_json
)
