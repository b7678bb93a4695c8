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


def is_inner(root: Location) -> bool:
    """Whether a folder is where the parts of a table in column groups are kept."""
    return (root.parent.name, root.name) == PLACE


def refuse_groups(root: Location) -> None:
    """Raise :class:`UnsupportedTable` for a table in column groups, and for the parts of one.

    Each file of the parts lacks most columns. Who takes it for a file of rows, and a missing column for one of NULLs,
    would index what is not so.
    """
    if is_inner(root):
        raise UnsupportedTable(f"{root.uri} has the parts of a table in column groups: name the table's own folder.")
    if has_groups(root):
        raise UnsupportedTable(
            f"{root.uri} is in column groups, which this does not work on. Its blocks were indexed as they were "
            "written; sidestep.read reads it, status(…, log=…) tells what queries read of it and what another "
            "arrangement would save, optimize(…, log=…) makes that, and load(…) lays it out anew in another place."
        )
