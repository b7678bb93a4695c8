"""The list of files of any supported table, by one call."""

from __future__ import annotations

import os

from sidestep.errors import SidestepError
from sidestep.store.location import Location, locate
from sidestep.store.snapshot import Snapshot
from sidestep.store.snapshots.delta import is_delta, read_delta
from sidestep.store.snapshots.folder import read_folder
from sidestep.store.snapshots.groups import refuse_groups
from sidestep.store.snapshots.iceberg import refuse_iceberg


def read_snapshot(
    path: str | os.PathLike[str] | Location, version: int | None = None, *, to_index: bool = False
) -> Snapshot:
    """The files of the table at ``path``: a Delta table if it has a ``_delta_log``, else a folder of Parquet files.

    ``version`` is for Delta tables alone. Errors are sentences: nothing there, not Parquet, in column groups, of
    Iceberg, or with a Delta feature that sidestep does not support; ``to_index`` is for those who only bound what files
    hold.
    """
    location = locate(path)
    refuse_groups(location)
    if is_delta(location):
        return read_delta(location, version, to_index=to_index)
    refuse_iceberg(location)
    if version is not None:
        raise SidestepError(f"{location.uri} is not a Delta table, so it has no version {version}: leave version out.")
    return read_folder(location)
