"""An Iceberg table: the files of its snapshot, as Iceberg itself lists them in a Spark session.

Its metadata names files and columns. A catalog says which metadata is the newest, so a folder alone does not tell.
"""

from __future__ import annotations

import json

from sidestep.errors import UnsupportedTable
from sidestep.store.location import Location, is_folder, list_names, locate
from sidestep.store.snapshot import DataFile, Field, Snapshot

METADATA = "metadata"
"""The folder in a table's own where Iceberg keeps what it knows of it."""


def is_iceberg(location: Location) -> bool:
    folder = location.child(METADATA)
    return is_folder(folder) and any(name.endswith(".metadata.json") for name in list_names(folder))


def refuse_iceberg(location: Location) -> None:
    """Raise :class:`UnsupportedTable` for an Iceberg table that is given by its folder alone."""
    if is_iceberg(location):
        raise UnsupportedTable(
            f"{location.uri} is an Iceberg table, whose files a catalog knows: give sidestep.index, sidestep.status or "
            "sidestep.read its name, as in catalog.database.table. Other calls of sidestep do not take Iceberg tables."
        )


def iceberg_snapshot(text: str) -> Snapshot:
    """The snapshot of which Iceberg gives an account, in JSON as ``IcebergTable.java`` writes it.

    The time of a file is the sequence number with which it came to the table. Files that are not Parquet, or that lie
    outside the table's folder, are not among its files here: they stay unknown, and are always read.
    """
    told = json.loads(text)
    root = locate(told["location"])
    if told["metadata"]:
        raise UnsupportedTable(f"This is a metadata table of the Iceberg table {root.uri}: index the table itself.")
    below = (root.path if root.local else _path(root.uri)).rstrip("/") + "/"
    files = tuple(
        DataFile(path.removeprefix(below), size, sequence)
        for path, size, sequence in told["files"]
        if sequence >= 0 and path.startswith(below)
    )
    return Snapshot(
        root,
        "iceberg",
        None if told["snapshot"] is None else int(told["snapshot"]),
        tuple(sorted(files, key=lambda file: file.path)),
        whole=len(files) == len(told["files"]),
        fields=tuple(Field(*field) for field in told["fields"]),
    )


def _path(uri: str) -> str:
    """The path of a URI, as Hadoop has it: without scheme and authority.

    >>> _path("s3://bucket/db/t")
    '/db/t'
    """
    return "/" + uri.split("://", 1)[-1].partition("/")[2]
