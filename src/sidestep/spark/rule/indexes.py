"""The indexes that queries of a session can use: found by folder, kept open, and made known to the JVM."""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sidestep.errors import SidestepWarning
from sidestep.spark.jvm.wire import pack_files, pack_footers
from sidestep.store import Location, TableIndex, index_folder, locate
from sidestep.store.index.index_file import index_names
from sidestep.store.index.table_index import open_folder, warn_once

LEVELS_UP = 4
"""How far above a folder that is read an index is looked for: a query may read one partition of an indexed table."""
REMOTE_SECONDS = 30.0
"""How long a look at a remote folder holds; a local one is looked at for each query."""
_PATH = re.compile(r"(?:[A-Za-z][\w.+-]*:)?(?://[^/]*)?(/.*)")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class OpenIndex:
    """An index at one moment, with the name under which the JVM knows its keys."""

    id: str
    root: str
    """The table's path as Hadoop's ``Path.toUri().getPath()`` has it: the keys are relative to it."""
    index: TableIndex


@dataclass
class _Slot:
    opened: OpenIndex | None
    looked: float


class Indexes:
    """Finds the index of a folder and keeps it open; a newer one on disk replaces it before the next query."""

    def __init__(self, rule: Any, index_dir: str | os.PathLike[str] | None = None) -> None:
        self._rule = rule
        self._index_dir = index_dir
        self._slots: dict[str, _Slot] = {}
        self._lock = threading.RLock()

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
                    break
        return list(distinct.values())

    def _at(self, root: str) -> OpenIndex | None:
        with self._lock:
            location = locate(root)
            slot = self._slots.get(root)
            now = time.monotonic()
            if slot is not None and not location.local and now - slot.looked < REMOTE_SECONDS:
                return slot.opened
            try:
                opened = self._reopen(root, location, slot.opened if slot else None)
            except SidestepWarning:
                raise  # where warnings are errors
            except Exception as problem:
                # One table's index is that table's matter: a query on others goes on with theirs.
                warn_once(f"{root}:index", f"The index of {root} cannot be used ({problem!r}): it skips nothing.")
                opened = None
            if opened is not None or not location.local:
                self._slots[root] = _Slot(opened, now)
            elif slot is not None:
                del self._slots[root]
            return opened

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
        opened = OpenIndex(f"{next(_numbers)}", _path_of(root), view)
        self._send(opened)
        return opened

    def _send(self, opened: OpenIndex) -> None:
        files = opened.index.files
        paths, numbers = pack_files(files["path"].to_pylist(), files["size"].to_numpy(), files["modified"].to_numpy())
        self._rule.putKeys(opened.id, opened.root, paths, numbers, pack_footers(opened.index.map.footers))

    def close(self) -> None:
        with self._lock:
            for slot in self._slots.values():
                if slot.opened is not None:
                    self._rule.dropKeys(slot.opened.id)
            self._slots.clear()


def _upwards(root: str) -> Iterator[str]:
    yield root.rstrip("/") or root
    current = root.rstrip("/")
    for _ in range(LEVELS_UP):
        current, slash, _ = current.rpartition("/")
        if not slash or not _PATH.fullmatch(current + "/") or _path_of(current + "/") == "/":
            return
        yield current


def _path_of(root: str) -> str:
    """The path of a Hadoop path string, without scheme and authority."""
    match = _PATH.fullmatch(root)
    return match[1] if match else root
