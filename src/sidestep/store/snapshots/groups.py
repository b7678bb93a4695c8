"""Where a table in column groups keeps its parts, and how such a table is told from others."""

from __future__ import annotations

from sidestep.errors import UnsupportedTable
from sidestep.store.location import Location
from sidestep.store.snapshots.delta import is_delta

PLACE = ("_sidestep", "groups")
"""Where the inner table is, seen from the folder of the table."""


def inner_table(root: Location) -> Location:
    """Where the parts of a table in column groups are kept."""
    for name in PLACE:
        root = root.child(name)
    return root


def has_groups(root: Location) -> bool:
    """Whether the table at ``root`` is in column groups, or is about to be."""
    return is_delta(inner_table(root))


def refuse_groups(root: Location) -> None:
    """Raise :class:`UnsupportedTable` for a table in column groups, where its parts are not known how to be handled."""
    if has_groups(root):
        raise UnsupportedTable(
            f"{root.uri} is in column groups, which this does not work on: read it with sidestep.read, and write what "
            "is to change into a table of another place."
        )
