"""What is noted of column groups when two writers divide the same table at once: a number is one group's for good."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sidestep.errors import Conflict
from sidestep.spark.table import column_groups as module
from sidestep.spark.table.group_table import GroupsTarget
from sidestep.store import locate
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, ColumnGroups
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS

SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "a"}, {"name": "b"}]})
BEFORE = ColumnGroups(SCHEMA, (("a",), ("b",)), 4)
FIRST = ColumnGroups(SCHEMA, (("a",), ("b",), ("a",), ("b",)), 4, first=2)
OTHER = ColumnGroups(SCHEMA, (("a",), ("b",), ("b",), ("a",)), 4, first=2)


@pytest.fixture
def divide(tmp_path):
    """Notes a division, as of a writer that opened the table when nothing but the one before was noted."""
    folder = locate(str(tmp_path))
    COLUMN_GROUPS.save(folder, BEFORE)
    noted, at, here = COLUMN_GROUPS.names(folder), SimpleNamespace(folder=folder), SimpleNamespace(root=folder)

    def save(groups: ColumnGroups) -> None:
        opened = {"index": at, "noted": noted, "root": folder, "snapshot": here, "groups": groups}
        unused: dict[str, Any] = {"plans": {}, "layouts": (), "filtered": (), "storage": None}
        module._save_sidecars(cast(GroupsTarget, SimpleNamespace(**opened, **unused)))

    return folder, save


def test_the_later_of_two_notes_nothing(divide):
    folder, save = divide
    save(FIRST)
    with pytest.raises(Conflict, match="in other column groups meanwhile"):
        save(OTHER)
    assert COLUMN_GROUPS.load(folder) == FIRST


def test_of_two_at_the_same_moment_one_takes_its_note_back(divide, monkeypatch):
    folder, save = divide
    layouts = GROUP_LAYOUTS

    def overtaken(*arguments):
        COLUMN_GROUPS.save(folder, FIRST)
        return layouts.save(*arguments)

    monkeypatch.setattr(module, "GROUP_LAYOUTS", SimpleNamespace(save=overtaken))
    with pytest.raises(Conflict):
        save(OTHER)
    assert COLUMN_GROUPS.load(folder) == FIRST
    assert not layouts.names(folder)
