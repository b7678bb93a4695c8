"""Files that came to a table after it was indexed: indexed in the background, so that it goes on inducing predicates.

A file that the index does not know is read by every query, and its table says nothing to those it is joined with. With
``refresh="auto"`` a thread looks, now and then, at the tables that queries have met, and indexes what is new there just
as ``sidestep.index`` would: with the synopses that the other files have. Nothing waits for it. What it may read at a
time is limited, so that a table of which a thousand files were written anew is not read whole beside the queries; the
rest comes when the table is met again.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sidestep.errors import DamagedFile
from sidestep.render import counted
from sidestep.store import DataFile, Snapshot, locate, read_snapshot
from sidestep.store.index.table_index import TableIndex, open_index
from sidestep.store.snapshots.iceberg import is_iceberg
from sidestep.store.upkeep.update import missing_files, summarize_here, update_index
from sidestep.synopsis.build import BuildPlan

log = logging.getLogger("sidestep")

MOST_FILES = 64
MOST_BYTES = 2**30
"""What is indexed of one table at a time: so many files, and so many bytes of them, at most."""
PAUSE = 10.0
"""Seconds in which a table is looked at once, at most."""
MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What was done for one table."""

    root: str
    files: int
    """Files that were indexed."""
    left: int
    """New files that are still without an entry: too many at once, or damaged."""

    def __str__(self) -> str:
        rest = f"; {counted(self.left, 'file')} left" if self.left else ""
        return f"{counted(self.files, 'new file')} of {self.root} indexed in the background{rest}"


class Refresher:
    """A thread that indexes new files of the tables it is told of."""

    def __init__(
        self,
        index_dir: str | os.PathLike[str] | None = None,
        files: int = MOST_FILES,
        bytes: int = MOST_BYTES,
        pause: float = PAUSE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index_dir = index_dir
        self._files, self._bytes, self._pause, self._now = files, bytes, pause, now
        self._looked: dict[str, float] = {}
        self._damaged: set[tuple[str, int, int]] = set()
        """Keys of files that cannot be read: they are not tried again."""
        self._tables: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._stopped = False
        self.notes: list[Refreshed] = []
        """What was done lately, the latest last."""

    def met(self, root: str) -> None:
        """A query reads this table: have it looked at, unless that was done just now."""
        with self._lock:
            last = self._looked.get(root)
            if self._stopped or (last is not None and self._now() - last < self._pause):
                return
            self._looked[root] = self._now()
            self._waiting += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sidestep-refresh", daemon=True)
                self._thread.start()
        self._tables.put(root)

    def stop(self) -> None:
        """End the thread after the table it is at; what it has indexed stays."""
        with self._lock:
            self._stopped = True
        self._tables.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait until all tables that were met have been looked at; whether that was in time."""
        with self._idle:
            return self._idle.wait_for(lambda: self._waiting == 0, seconds)

    def _run(self) -> None:
        while (root := self._tables.get()) is not None and not self._stopped:
            try:
                self._look(root)
            except Exception as problem:
                # The queries do without, as they would have in any case.
                log.warning("sidestep could not index new files of %s: %r", root, problem)
            with self._idle:
                self._waiting -= 1
                self._idle.notify_all()

    def _look(self, root: str) -> None:
        location = locate(root)
        if is_iceberg(location):
            return  # a folder alone does not tell which files are the table's
        snapshot = read_snapshot(location, to_index=True)
        index = open_index(snapshot.root, self._index_dir)
        if not len(index.files):
            return
        missing = [file for file in missing_files(snapshot, index, index.columns) if file.key not in self._damaged]
        todo = tuple(self._within_limits(missing))
        if not todo:
            return
        done = self._index(replace(snapshot, files=todo, whole=False), index)
        note = Refreshed(root, done, len(missing) - done)
        with self._lock:
            self.notes = [*self.notes[1 - MOST_NOTES :], note]
        log.info("sidestep: %s", note)

    def _within_limits(self, files: Iterable[DataFile]) -> Iterator[DataFile]:
        count = size = 0
        for file in files:
            count, size = count + 1, size + file.size
            if count > self._files or (size > self._bytes and count > 1):
                return
            yield file

    def _index(self, part: Snapshot, index: TableIndex) -> int:
        """Index the files of a part of a table; how many there were that could be."""
        done = 0

        def summarize(files: Sequence[DataFile], plan: BuildPlan) -> Iterator[pa.Table | None]:
            nonlocal done
            for file, rows in zip(files, summarize_here(part, index.columns, files, plan), strict=True):
                if isinstance(rows, DamagedFile):
                    self._damaged.add(file.key)
                    log.warning("sidestep does not index %s: %s", file.path, rows)
                elif rows is not None:
                    done += 1
                    yield rows

        update_index(part, index.columns, index, summarize)
        return done
