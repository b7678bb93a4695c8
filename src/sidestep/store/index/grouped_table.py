"""A table in column groups, opened: the files of its inner table, and which group each is of."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sidestep.errors import SidestepError
from sidestep.store.index.index_file import index_folder
from sidestep.store.location import Location, locate
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, GROUP, ROW_ID, UNIT, ColumnGroups, inner_table
from sidestep.store.snapshot import DataFile, Snapshot
from sidestep.store.snapshots.delta import is_delta, read_delta


@dataclass(frozen=True)
class GroupedTable:
    """What a table in column groups consists of at one moment."""

    root: Location
    groups: ColumnGroups
    snapshot: Snapshot
    """The files of the inner table."""
    live: tuple[int, ...]
    """The groups that this version has its columns in, by their numbers. Some may have copies of some rows alone."""

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

    @cached_property
    def complete(self) -> tuple[int, ...]:
        """The groups whose columns can be read in every row, with the help of a partner or without."""
        return self.groups.complete(self.live)

    def files_of(self, number: int) -> tuple[DataFile, ...]:
        """The files that have the columns of a group in all the rows that it stands for: its own, and its partner's."""
        parts = self.groups.parts(number)
        return tuple(file for file, of in zip(self.snapshot.files, self.group_of_file, strict=True) if of in parts)

    def only(self, files: Sequence[DataFile]) -> GroupedTable:
        """The table with these of its files alone: rows that lack a part in some group are not in it."""
        return replace(self, snapshot=replace(self.snapshot, files=tuple(files), whole=False))


def live_groups(groups: ColumnGroups, numbers: Collection[int]) -> tuple[int, ...]:
    """The groups that a version has its columns in: those of the division that these, which have files, are of.

    A group of the newest division may have no rows, and so no files. Of older ones it is not known how many groups they
    had: there it is the groups with files, and their partners. Without any files, it is the newest division.

    >>> schema = '{"fields": [{"name": "a"}, {"name": "b"}]}'
    >>> twice = ColumnGroups(schema, (("a",), ("b",), ("b", "a"), ("a",)), 4, first=2)
    >>> live_groups(twice, {0, 1}), live_groups(twice, {2, 3}), live_groups(twice, {})
    ((0, 1), (2, 3), (2, 3))
    """
    if not numbers or any(number >= groups.first for number in numbers):
        return groups.newest
    partners = {at for at, some in groups.rows.items() if some.rest_of in numbers}
    helped = {some.rest_of for at, some in groups.rows.items() if at in numbers and some.rest_of is not None}
    return tuple(sorted({*numbers, *partners, *helped}))


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
    numbers = {_number(dict(file.partition).get(GROUP)) for file in snapshot.files}
    return GroupedTable(root, groups, snapshot, live_groups(groups, numbers))
