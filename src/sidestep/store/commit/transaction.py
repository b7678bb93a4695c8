"""Commits to a Delta table: files come and go in one atomic step, and nothing of others is lost or revived.

The contract. A writer reads a snapshot, writes new files beside the old ones, and calls :func:`commit` with what it
added and what that replaces. A version of the log is a file that only one writer can create, so the check and the
commit are one: the newest version is read, checked, and followed by exactly the next one; if someone else was first,
it all starts again.

====================================================  =============================================================
since the snapshot, others have                       the commit
====================================================  =============================================================
added files, or replaced files not to be removed      goes through: those files stay as they are
removed or replaced a file to be removed              :class:`Conflict`: its rows, if still there, would be there twice
changed the columns or the partitioning               :class:`Conflict`: the new files do not fit
created the table, or put another in its place        :class:`Conflict`
changed rows by what they read, if this one did too   :class:`Conflict`: of two that add what is missing, both would
turned on a feature that sidestep does not write      :class:`UnsupportedTable`, by name
====================================================  =============================================================

The caller of a commit that met a Conflict does its work again on the new snapshot (:func:`with_retries`). The check is
not left to ``deltalake``, which commits the removal of a file that is gone already, and goes on after a concurrent
compaction: the rows of its input would then be there twice.
"""

from __future__ import annotations

import json
import random
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError, SchemaMismatchError

from sidestep.errors import Conflict, SidestepError, SidestepWarning, Unanswered
from sidestep.store.commit.log_entry import (
    AddedFile,
    Change,
    adds_block_column,
    blind_append,
    create_entry,
    foreign_types,
    has_version,
    put_entry,
    remote_entry,
)
from sidestep.store.commit.writable import check_writable, refuse_unwritable
from sidestep.store.location import Location, list_files, locate, stat
from sidestep.store.snapshot import DataFile, Snapshot
from sidestep.store.snapshots.delta import open_delta, read_delta
from sidestep.store.snapshots.folder import is_hidden

__all__ = ["AddedFile", "Conflict", "check_writable", "commit", "open_table", "with_retries"]

ATTEMPTS = 100
"""How often a commit runs after other writers' commits that do not concern it."""
UNANSWERED = 5
"""How often a commit is tried again whose answer was lost, and which is not there."""
REDONE = 5
"""How often a whole piece of work is done again because others changed what it had read."""
CHECKPOINT_EVERY = 100
"""Versions between two checkpoints where the table does not say: what deltalake does."""
Result = TypeVar("Result")


def commit(
    location: Location | str,
    *,
    add: Sequence[AddedFile],
    remove: Sequence[DataFile] = (),
    read_version: int | None,
    schema: str | pa.Schema,
    partition_columns: Sequence[str] = (),
    operation: str,
    data_change: bool,
    depends: bool = False,
    alone: bool = False,
) -> int:
    """Make the new files part of the table, and take the old ones out, as one new version; its number is returned.

    ``read_version`` is the version that the work was based on; None creates the table. ``schema`` (Spark's JSON, or
    Arrow's) is that of the new files: the table's own, which may have gained the column ``_block``. ``data_change`` is
    False if the rows are the same as before, only lying elsewhere. ``operation`` is what ``history`` will show.
    ``depends`` says that what comes or goes was worked out from rows of the whole table, not of removed files alone.
    ``alone`` allows no other version since the one that was read, whatever it did.
    """
    root = locate(location)
    wanted = _delta_schema(root, schema)
    change = Change(
        add=tuple(add),
        remove={},
        schema=wanted.to_json(),
        partition_columns=tuple(partition_columns),
        operation=operation,
        data_change=data_change,
        read_version=read_version,
        depends=depends,
    )
    _check_change(root, add, remove)
    if read_version is None:
        if remove:
            raise SidestepError(f"{root.uri} is not a table yet, so there are no files to remove from it.")
        return _create(root, change)
    unanswered = 0
    for attempt in range(ATTEMPTS):
        snapshot = read_delta(root)
        table = open_table(root, snapshot.version)
        if attempt and add and {file.path for file in add} <= {file.path for file in snapshot.files}:
            return table.version()  # a store that failed to answer had committed after all
        _check_still_there(root, snapshot, remove, read_version)
        if alone and snapshot.version != read_version:
            raise Conflict(f"Another writer has changed {root.uri} since version {read_version}, which was read.")
        if depends:
            _check_no_rows_came(root, snapshot, read_version)
        _check_columns(root, snapshot, wanted, partition_columns)
        refuse_unwritable(root, table, removes_rows=bool(remove) and data_change)
        try:
            version = _put(root, table, change, remove, wanted)
        except Unanswered:
            unanswered += 1
            if unanswered > UNANSWERED:
                raise
            version = None
        if version is not None:
            _checkpoint(root, version, table.metadata().configuration)
            return version
        time.sleep(random.uniform(0, min(1.0, 0.005 * 2**attempt)))
    raise Conflict(f"{root.uri} has other writers: {ATTEMPTS} attempts to commit came too late. Try again.")


def with_retries(work: Callable[[], Result], *, attempts: int = REDONE) -> Result:
    """What ``work`` returns, which reads a snapshot and commits; it starts again after a :class:`Conflict`."""
    for _ in range(attempts - 1):
        try:
            return work()
        except Conflict:
            time.sleep(random.uniform(0.05, 0.5))
    try:
        return work()
    except Conflict as last:
        raise Conflict(
            f"Gave up after {attempts} attempts, each overtaken by another writer: {last} The table is as the others "
            "left it. Run this again when they are done."
        ) from last


def open_table(root: Location, version: int | None = None) -> DeltaTable:
    """The table as ``deltalake`` sees it."""
    try:
        return open_delta(root, version)
    except (DeltaError, OSError) as error:
        raise SidestepError(f"Cannot read the Delta log of {root.uri}: {error}") from error


def _delta_schema(root: Location, schema: str | pa.Schema) -> DeltaSchema:
    try:
        made = DeltaSchema.from_json(schema) if isinstance(schema, str) else DeltaSchema.from_arrow(schema)
        for column in json.loads(made.to_json())["fields"]:
            for name in foreign_types(column["type"]):  # deltalake takes any name for a type
                raise ValueError(f"column {column['name']} has the type {name}")
        return made
    except (DeltaError, SchemaMismatchError, ValueError, TypeError, pa.ArrowException) as error:
        raise SidestepError(
            f"A Delta table cannot have these columns, so {root.uri} was not written: {error}. Cast or leave out "
            "what Delta has no type for."
        ) from error


def _check_change(root: Location, add: Sequence[AddedFile], remove: Sequence[DataFile]) -> None:
    added, removed = [file.path for file in add], [file.path for file in remove]
    twice = {path for path in added if added.count(path) > 1} if len(set(added)) < len(added) else set()
    mixed = twice | (set(added) & set(removed))
    if mixed:
        raise SidestepError(f"{min(mixed)} would be added to {root.uri} more than once, or added and removed at once.")
    if root.local:
        found = {file.path: stat(root.child(file.path)) for file in add}
    else:  # one by one would take as many requests
        found = {status.path: status for status in (list_files(root, is_hidden) if add else ())}
        # A listing may lag behind what was written.
        found |= {
            file.path: status for file in add if file.path not in found and (status := stat(root.child(file.path)))
        }
    lost = [file.path for file in add if (status := found.get(file.path)) is None or status.size != file.size]
    if lost:
        # A version that names a file which is not there could not be read by anyone.
        raise SidestepError(
            f"{len(lost)} of the {len(add)} files written for {root.uri} are gone or changed ({lost[0]}), so nothing "
            "was committed. Does something clean up that folder, such as a vacuum with a short retention? Try again."
        )


def _create(root: Location, change: Change) -> int:
    if unquote(root.path) != root.path:
        raise SidestepError(
            f"There can be no Delta table at {root.uri}: its readers take the percent sign in the folder's name for an "
            "escape and look elsewhere. Choose another name."
        )
    for attempt in range(UNANSWERED + 1):
        try:
            if has_version(root) or not create_entry(root, change):
                break
            return 0
        except Unanswered:
            if attempt == UNANSWERED:
                raise
            time.sleep(random.uniform(0, 0.005 * 2**attempt))
    raise Conflict(f"Another writer has created a table at {root.uri}.")


def _check_still_there(root: Location, snapshot: Snapshot, remove: Sequence[DataFile], read_version: int) -> None:
    if snapshot.version is None or snapshot.version < read_version:
        raise Conflict(f"The table at {root.uri} was replaced: it was at version {read_version}.")
    live = {file.key for file in snapshot.files}
    gone = [file.path for file in remove if file.key not in live]
    if gone:
        raise Conflict(
            f"Another writer has changed {root.uri} since version {read_version}: {len(gone)} of the {len(remove)} "
            f"files to be replaced are no longer part of it ({gone[0]})."
        )


def _check_no_rows_came(root: Location, snapshot: Snapshot, read_version: int) -> None:
    """Rows that came blindly are as if they came later; any others might have been read, or have read this."""
    assert snapshot.version is not None
    for version in range(read_version + 1, snapshot.version + 1):
        if not blind_append(root, version):
            raise Conflict(
                f"Another writer has changed {root.uri} in version {version}, after version {read_version} was read."
            )


def _check_columns(root: Location, snapshot: Snapshot, wanted: DeltaSchema, partitions: Sequence[str]) -> None:
    if tuple(partitions) != snapshot.partition_columns:
        raise Conflict(
            f"{root.uri} is partitioned by {snapshot.partition_columns}, and the new files by {tuple(partitions)}."
        )
    assert snapshot.schema is not None
    current = DeltaSchema.from_json(snapshot.schema)
    if current.to_json() != wanted.to_json() and not adds_block_column(current, wanted):
        raise Conflict(f"The columns of {root.uri} have changed: the new files were written for others.")


def _put(
    root: Location, table: DeltaTable, change: Change, remove: Sequence[DataFile], wanted: DeltaSchema
) -> int | None:
    """The next version if it could be written, None if someone else was first."""
    # Log replay compares paths as they are spelled in the log, and writers escape differently: a removal spelled
    # another way than its file was added removes nothing.
    spelled = {unquote(raw, errors="strict"): raw for raw in pa.table(table.get_add_actions())["path"].to_pylist()}
    full = change.with_removals({spelled[file.path]: file for file in remove})
    grows = table.schema().to_json() != wanted.to_json()
    if root.local:
        return put_entry(root, table, full, grows)
    return remote_entry(root, table, full, grows)


def _checkpoint(root: Location, version: int, configuration: Mapping[str, str | None]) -> None:
    """A checkpoint now and then, as other writers do: readers need not replay the whole log."""
    stated = configuration.get("delta.checkpointInterval")
    every = int(stated) if stated and stated.isdigit() and int(stated) > 0 else CHECKPOINT_EVERY
    if version % every:
        return
    try:
        open_table(root, version).create_checkpoint()
    except (DeltaError, SidestepError, OSError) as error:
        warnings.warn(
            f"Version {version} of {root.uri} is committed, but a checkpoint could not be written: {error}. Reading "
            "the log takes longer until the next one.",
            SidestepWarning,
            stacklevel=3,
        )
