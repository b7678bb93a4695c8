"""A table in column groups, opened: the files of its inner table, and which group each is of."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property

from sidestep.errors import SidestepError
from sidestep.store.index.index_file import index_folder
from sidestep.store.location import Location, locate
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, GROUP, ROW_ID, UNIT, ColumnGroups, inner_table
from sidestep.store.snapshot import Snapshot
from sidestep.store.snapshots.delta import is_delta, read_delta


@dataclass(frozen=True)
class GroupedTable:
    """What a table in column groups consists of at one moment."""

    root: Location
    groups: ColumnGroups
    snapshot: Snapshot
    """The files of the inner table."""

    def __post_init__(self) -> None:
        names = {field["name"].lower() for field in json.loads(self.groups.schema)["fields"]}
        if taken := sorted(names & {GROUP, UNIT, ROW_ID}):
            raise SidestepError(
                f"{self.root.uri} cannot be read: column groups have columns named {', '.join(taken)} of their own."
            )

    @cached_property
    def group_of_file(self) -> tuple[int, ...]:
        """The number of the group that each file is of."""
        numbers = tuple(_number(dict(file.partition).get(GROUP)) for file in self.snapshot.files)
        for file, number in zip(self.snapshot.files, numbers, strict=True):
            if not 0 <= number < len(self.groups.groups):
                raise SidestepError(
                    f"{self.snapshot.root.uri} is damaged: {file.path} is of none of the "
                    f"{len(self.groups.groups)} column groups that the table has."
                )
        return numbers


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else -1


def read_groups(path: str | os.PathLike[str] | Location, version: int | None = None) -> GroupedTable | None:
    """The table at ``path``, now or at an older ``version``, if it is in column groups; None for any other."""
    root = locate(path)
    inner = inner_table(root)
    if not is_delta(inner):
        return None
    snapshot = read_delta(inner, version)
    groups = COLUMN_GROUPS.load(index_folder(inner))
    if groups is None:
        raise SidestepError(f"{inner.uri} is damaged: nothing there says which columns lie in which group.")
    return GroupedTable(root, groups, snapshot)
