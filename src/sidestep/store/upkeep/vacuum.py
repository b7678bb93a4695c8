"""Deleting what no one needs any more: files of versions long gone, leftovers of writers that crashed, dead entries.

The contract. A data file is deleted only if all of this holds: it is named ``*.parquet`` and lies where the table's
own writers put files (the table's folder, or folders of its partition columns); no version that was current within the
retention has it; and it is itself older than the retention, so that a load which is still running loses nothing. The
versions within the retention stay readable, all others may not be. What is in the index folder goes if it describes
nothing that is still there.

The order of looking matters: index, then folder, then log. A writer writes its files, then their entries, then commits,
so a file that is seen in one of these and is in use is seen in the next.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from sidestep.errors import SidestepError, TableNotFound
from sidestep.render import counted, size_text
from sidestep.render.document import Details, Facts, Grid, Part
from sidestep.render.report import Report
from sidestep.store.commit.log_entry import LOG
from sidestep.store.commit.transaction import open_table
from sidestep.store.index.table_index import TableIndex, open_index
from sidestep.store.location import FileStatus, Location, delete, list_files, list_names, locate, open_file
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, MARKER, STAGED
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS
from sidestep.store.sidecars.layout import FEATURES, LAYOUTS
from sidestep.store.sidecars.range_tables import RANGE_TABLES, names_range_table
from sidestep.store.snapshot import DataFile, Snapshot
from sidestep.store.snapshots.delta import is_delta, read_delta
from sidestep.store.snapshots.folder import is_hidden, unescape
from sidestep.store.snapshots.groups import has_groups, inner_table
from sidestep.store.upkeep.compact import compact
from sidestep.store.upkeep.false_positives import ESTIMATES

MOST_NAMES = 100
"""Files that a report lists by name."""
SAFE_HOURS = 168.0
"""What a table keeps if it does not say otherwise: a week, as Delta itself does."""
_VERSION = re.compile(r"\d{20}\.json")
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{32}\.partial")
_INTERVAL = re.compile(r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)
_HOURS = {"second": 1 / 3600, "minute": 1 / 60, "hour": 1.0, "day": 24.0, "week": 168.0}


@dataclass(frozen=True, slots=True)
class VacuumReport(Report):
    """What was deleted, or would be in a dry run."""

    root: str
    files: tuple[str, ...]
    """Data files, relative to the table's root."""
    bytes: int
    entries: int
    """Data files whose entries left the index."""
    leftovers: tuple[str, ...]
    """Sidecars that nothing names any more and half-written files, of the index folder and the log, by name."""
    dry_run: bool

    def _document(self) -> Iterator[Part]:
        yield Facts(
            [
                ("table", self.root),
                ("would go" if self.dry_run else "deleted", counted(len(self.files), "data file")),
                ("bytes", size_text(self.bytes)),
                ("index entries", f"of {counted(self.entries, 'file')}"),
                ("other files", f"{len(self.leftovers):,}"),
            ]
        )
        if names := [*self.files, *self.leftovers]:
            listed = Grid(("file",), [[name] for name in names[:MOST_NAMES]])
            first = f", the first {MOST_NAMES:,}" if len(names) > MOST_NAMES else ""
            yield Details(f"which{first}", (listed,), in_text=False)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        verb = "would go" if self.dry_run else "deleted"
        return (
            f"{self.root}: {len(self.files):,} data files ({self.bytes:,} bytes), index entries of {self.entries:,} "
            f"files and {len(self.leftovers):,} other files {verb}."
        )


def vacuum(
    table: str | os.PathLike[str],
    *,
    hours: float = SAFE_HOURS,
    dry_run: bool = False,
    force: bool = False,
    index_dir: str | os.PathLike[str] | None = None,
) -> VacuumReport:
    """Delete the files of the Delta table at a path that no version of the last ``hours`` needs.

    Less than the table's own retention (a week, if it does not say) is refused unless ``force=True``: a query that is
    running on an older version would fail, and a load that is running would lose the files that it has not committed.
    ``dry_run=True`` only tells what would go.
    """
    root = locate(table)
    if has_groups(root):
        root = inner_table(root)
    if not is_delta(root):
        raise SidestepError(f"{root.uri} is not a Delta table: its folder is all there is, and nothing in it is old.")
    if not hours >= 0:
        raise SidestepError(f"The retention is {hours} hours, but it must be 0 or more.")
    _check_retention(root, hours, dry_run=dry_run, force=force)
    cutoff = int((time.time() - hours * 3600) * 1_000)
    index = open_index(root, index_dir)
    try:
        listed = list_files(root, is_hidden)
    except FileNotFoundError as error:
        raise TableNotFound(f"There is nothing at {root.uri} any more, so nothing was deleted: {error}.") from error
    snapshot = read_delta(root)
    needed = {file.path for file in snapshot.files} | set(_touched_since(root, cutoff))
    doomed = [
        file
        for file in listed
        if file.path not in needed and file.modified <= cutoff and _by_the_table(file.path, snapshot)
    ]
    paths = tuple(file.path for file in doomed)
    remaining = {file.path for file in listed} - set(paths)
    leftovers = [*_index_leftovers(index, remaining, cutoff), *_partials(root.child(LOG), cutoff)]
    if not dry_run:
        for location in map(root.child, paths):
            delete(location)
    entries = _forget(index, remaining, dry_run=dry_run)
    if not dry_run:
        # After the entries that name them: whoever reads those between would miss what they name.
        for location in leftovers:
            delete(location)
    names = tuple(leftover.name for leftover in leftovers)
    return VacuumReport(root.uri, paths, sum(file.size for file in doomed), entries, names, dry_run)


def _check_retention(root: Location, hours: float, *, dry_run: bool, force: bool) -> None:
    stated = open_table(root).metadata().configuration.get("delta.deletedFileRetentionDuration")
    safe = SAFE_HOURS
    if stated is not None:
        match = _INTERVAL.fullmatch(stated.strip())
        safe = int(match[1]) * _HOURS[match[2].lower()] if match else float("inf")
    if hours >= safe or dry_run or force:
        return
    whose = "" if stated is None else f" (delta.deletedFileRetentionDuration is {stated!r})"
    raise SidestepError(
        f"A retention of {hours:g} hours is below what {root.uri} keeps, {safe:g} hours{whose}: queries and loads that "
        "are running now could lose their files. If there are none, say force=True."
    )


def _touched_since(root: Location, cutoff: int) -> Iterator[str]:
    """The files that any version since the cutoff added or removed: with the newest version's, all that those need.

    Times of versions need not ascend; all after the first that is young count, and one without a time is young.
    """
    log = root.child(LOG)
    try:
        times = {status.path: status.modified for status in list_files(log)}
    except FileNotFoundError as error:
        raise TableNotFound(f"The Delta log of {root.uri} is gone, so nothing was deleted: {error}.") from error
    entries = sorted(name for name in list_names(log) if _VERSION.fullmatch(name))
    young = next((at for at, name in enumerate(entries) if times.get(name, cutoff + 1) > cutoff), len(entries))
    for name in entries[young:]:
        location = log.child(name)
        try:
            with open_file(location) as stream:
                actions = [json.loads(line) for line in stream.read().decode().splitlines() if line.strip()]
        except (pa.ArrowException, OSError, ValueError) as error:
            raise SidestepError(f"{location.uri} cannot be read, so nothing was deleted: {error}.") from error
        for action in actions:
            for verb in ("add", "remove"):
                if verb in action:
                    yield unquote(action[verb]["path"], errors="strict")


def _by_the_table(path: str, snapshot: Snapshot) -> bool:
    """Whether a file has the name and place of a data file; another table in a subfolder is not this one's to clean."""
    *folders, name = path.split("/")
    columns = set(snapshot.partition_columns)
    return (
        name.endswith(".parquet")
        and name != MARKER
        and all("=" in folder and unescape(folder.partition("=")[0]) in columns for folder in folders)
    )


def _forget(index: TableIndex, remaining: set[str], *, dry_run: bool) -> int:
    """Drop the entries of files that are not there, and tell of how many. Old versions keep theirs as long as files."""
    keys = index.files.to_pylist()
    live = tuple(DataFile(key["path"], key["size"], key["modified"]) for key in keys if key["path"] in remaining)
    if index.suspects:
        return 0
    if len(live) < len(keys) and not dry_run:
        compact(index, Snapshot(index.folder, "delta", None, live), always=True)
    return len(keys) - len(live)


def _index_leftovers(index: TableIndex, remaining: set[str], cutoff: int) -> list[Location]:
    """The old files of an index folder that nothing refers to."""
    folder = index.folder
    try:
        times = {status.path: status.modified for status in list_files(folder)}
    except FileNotFoundError:
        return []
    old: Callable[[str], bool] = lambda name: times.get(name, cutoff + 1) <= cutoff  # noqa: E731
    # A layout of a newer sidestep counts: it may be the one in force, and what it names is in use.
    readable = LAYOUTS.objects(folder)
    current = next(reversed(readable), None)
    layouts = LAYOUTS.names(folder)  # others may have come or gone meanwhile
    stale = [name for name in layouts[: layouts.index(current) if current in layouts else 0] if old(name)]
    leftovers = [folder.child(name) for name in stale]
    leftovers += [folder.child(path) for path in times if path.startswith(STAGED) and old(path)]
    used = {str(layout.get("features")) for name, layout in readable.items() if name not in stale}
    for written in GROUP_LAYOUTS.objects(folder).values():
        used |= {str(layout.get("features")) for layout in written.get("layouts", ())}
    for written in COLUMN_GROUPS.objects(folder).values():
        used |= {str(some.get("features")) for some in written.get("rows", ())}
    named = _named(index, remaining, lambda name: name == "features")
    if named is not None:
        leftovers += FEATURES.unused(folder, named | used, cutoff)
    tables = _named(index, remaining, names_range_table)
    if tables is not None:
        leftovers += RANGE_TABLES.unused(folder, tables, cutoff)
    leftovers += [folder.child(name) for name in ESTIMATES.names(folder)[:-1] if old(name)]
    return leftovers + _partials(folder, cutoff)


def _named(index: TableIndex, remaining: set[str], names_one: Callable[[str], bool]) -> set[str] | None:
    """The sidecars that entries of remaining files name in such columns; None if some entries cannot be read."""
    if index.problems:
        return None
    alive_files = np.array([path in remaining for path in index.files["path"].to_pylist()], dtype=np.bool_)
    named: set[str] = set()
    for file, blocks in zip(index.index_files, index.map.block_of_row, strict=True):
        columns = [name for name in file.names if names_one(name)]
        if not columns:
            continue
        try:
            table = file.read(columns)
        except Exception:
            return None
        alive = alive_files[index.map.file_of_block[np.maximum(blocks, 0)]] & (blocks >= 0)
        for column in columns:
            named |= {id for id, keep in zip(table[column].to_pylist(), alive, strict=True) if id is not None and keep}
    return named


def _partials(folder: Location, cutoff: int) -> list[Location]:
    """Half-written files that a writer left when it was killed."""
    try:
        statuses: list[FileStatus] = list_files(folder)
    except FileNotFoundError:
        return []
    return [
        folder.child(status.path)
        for status in statuses
        if _PARTIAL.fullmatch(status.path) and status.modified <= cutoff
    ]
