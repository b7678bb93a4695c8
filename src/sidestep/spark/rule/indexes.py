"""The indexes that queries of a session can use: found by folder, kept open, and made known to the JVM."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sidestep.errors import SidestepWarning
from sidestep.spark.jvm.wire import pack_files, pack_footers
from sidestep.spark.relation import has_path, path_of
from sidestep.spark.rule.refresh import Refresher
from sidestep.store import Location, TableIndex, index_folder, locate
from sidestep.store.index.index_file import index_names
from sidestep.store.index.partial_groups import PartialGroups
from sidestep.store.index.small_table import SmallTable
from sidestep.store.index.table_index import open_folder, warn_once
from sidestep.store.snapshots.groups import is_inner

log = logging.getLogger("sidestep")

LEVELS_UP = 4
"""How far above a folder that is read an index is looked for: a query may read one partition of an indexed table."""
REMOTE_SECONDS = 30.0
"""How long a look at a remote folder holds; a local one is looked at for each query."""
PATIENCE = 5.0
"""Seconds that a query waits for another one to look at a folder."""
MOST_FOLDERS = 1_000
"""Folders that are remembered, with their indexes if they have one."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class OpenIndex:
    """An index at one moment, with the name under which the JVM knows its keys."""

    id: str
    root: str
    """The table's path as Hadoop's ``Path.toUri().getPath()`` has it: the keys are relative to it."""
    index: TableIndex
    small: SmallTable
    """Its rows, if they are few."""
    partial: PartialGroups
    """Of a table in column groups, which rows these have."""


class _Slot:
    """What is known of one folder; who looks at it, and perhaps opens its index, holds the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.busy_since: float | None = None
        self.opened: OpenIndex | None = None
        self.looked = 0.0


class Indexes:
    """Finds the index of a folder and keeps it open; a newer one on disk replaces it before the next query.

    A store that hangs costs the queries that read it, and those only for a while: each folder has a lock of its own,
    and who has waited ``PATIENCE`` seconds for another to look at a folder goes on without its index. Folders that were
    not asked for lately are forgotten, or a session that reads ever new tables would hold them all.
    """

    def __init__(
        self, rule: Any, index_dir: str | os.PathLike[str] | None = None, refresher: Refresher | None = None
    ) -> None:
        self._rule = rule
        self._index_dir = index_dir
        self._refresher = refresher
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        """The one asked for last is last."""
        self._lock = threading.Lock()
        """Held for a moment at a time, and never while something is read or called."""

    def find(self, roots: Iterable[str]) -> list[OpenIndex]:
        """The distinct indexes that cover these folders or files: for each its own, or the nearest one above it."""
        looked: dict[str, OpenIndex | None] = {}
        distinct: dict[str, OpenIndex] = {}
        for root in roots:
            for candidate in _upwards(root):
                if candidate not in looked:
                    looked[candidate] = self._at(candidate)
                opened = looked[candidate]
                if opened is not None:
                    distinct[opened.id] = opened
                    if self._refresher is not None and not is_inner(locate(candidate)):
                        self._refresher.met(candidate)
                    break
        return list(distinct.values())

    def opened(self, id: str) -> OpenIndex | None:
        """The index of that id, if it is the newest of its folder still."""
        with self._lock:
            slots = list(self._slots.values())
        return next((slot.opened for slot in slots if slot.opened is not None and slot.opened.id == id), None)

    def _at(self, root: str) -> OpenIndex | None:
        while True:
            slot, forgotten = self._slot(root)
            self._drop(forgotten)
            busy = slot.busy_since
            stuck = busy is not None and time.monotonic() - busy > PATIENCE
            if stuck or not slot.lock.acquire(timeout=PATIENCE):
                log.warning(
                    "sidestep goes on without the index of %s, which takes more than %g s to open", root, PATIENCE
                )
                return None
            try:
                if self._is_current(root, slot):
                    slot.busy_since = time.monotonic()
                    return self._look(root, slot)
            finally:
                slot.busy_since = None
                slot.lock.release()

    def _slot(self, root: str) -> tuple[_Slot, list[_Slot]]:
        """The slot of a folder, and those that had to go for it."""
        with self._lock:
            slot = self._slots.setdefault(root, _Slot())
            self._slots.move_to_end(root)
            forgotten = []
            while len(self._slots) > MOST_FOLDERS:
                forgotten.append(self._slots.popitem(last=False)[1])
            return slot, forgotten

    def _look(self, root: str, slot: _Slot) -> OpenIndex | None:
        location = locate(root)
        now = time.monotonic()
        if not location.local and slot.looked and now - slot.looked < REMOTE_SECONDS:
            return slot.opened
        try:
            slot.opened, slot.looked = self._reopen(root, location, slot.opened), now
        except SidestepWarning:
            raise  # where warnings are errors
        except Exception as problem:
            # One table's index is that table's matter: a query on others goes on with theirs.
            warn_once(f"{root}:index", f"The index of {root} cannot be used ({problem!r}): it skips nothing.")
            self._drop([slot])
            slot.opened, slot.looked = None, now
        if not self._is_current(root, slot):  # forgotten, or all was closed, while it was being opened
            self._drop([slot])
        elif slot.opened is None and location.local:
            with self._lock:
                self._slots.pop(root, None)
        return slot.opened

    def _is_current(self, root: str, slot: _Slot) -> bool:
        with self._lock:
            return self._slots.get(root) is slot

    def _reopen(self, root: str, location: Location, before: OpenIndex | None) -> OpenIndex | None:
        folder = index_folder(location, self._index_dir)
        names = index_names(folder)
        if before is not None and before.index.folder == folder and names == before.index.names:
            return before
        view = open_folder(folder) if names else None
        if before is not None:
            self._rule.dropKeys(before.id)
        if view is None or len(view.files) == 0:
            return None
        opened = OpenIndex(f"{next(_numbers)}", path_of(root), view, SmallTable(location, view), PartialGroups(view))
        self._send(opened)
        return opened

    def _send(self, opened: OpenIndex) -> None:
        files = opened.index.files
        paths, numbers = pack_files(files["path"].to_pylist(), files["size"].to_numpy(), files["modified"].to_numpy())
        self._rule.putKeys(opened.id, opened.root, paths, numbers, pack_footers(opened.index.map.footers))

    def _drop(self, slots: Iterable[_Slot]) -> None:
        """Queries that are being planned may still name these; the JVM leaves their files alone."""
        for slot in slots:
            if slot.opened is not None:
                self._rule.dropKeys(slot.opened.id)

    def close(self) -> None:
        if self._refresher is not None:
            self._refresher.stop()
        with self._lock:
            slots = list(self._slots.values())
            self._slots.clear()
        self._drop(slots)


def _upwards(root: str) -> Iterator[str]:
    yield root.rstrip("/") or root
    current = root.rstrip("/")
    for _ in range(LEVELS_UP):
        current, slash, _ = current.rpartition("/")
        if not slash or not has_path(current + "/") or path_of(current + "/") == "/":
            return
        yield current
