"""A disk that fails: whatever the store does with files passes here, is counted, and fails at the point that is asked.

The points are found, not listed: a job runs once to count what it does, and then once for each of these. Two modules
touch files, ``store/location.py`` and ``store/commit/log_entry.py`` (``test_points.py`` sees to it that it stays so),
and ``deltalake`` reads logs and writes checkpoints; those are what is wrapped. What Spark's workers do is in other
processes: see ``jobs.py``.

A killed process does nothing any more, so from the point of a kill on everything fails, the clean-up of ``finally``
included: what is on the disk then is what a real kill leaves. A full disk stays full and a folder without permission
stays closed until the job is over; an I/O error and a file that vanishes come once.
"""

from __future__ import annotations

import builtins
import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import deltalake
from pyarrow import fs

from sidestep.store import location
from sidestep.store.commit import log_entry, transaction, writable
from sidestep.store.snapshots import delta

T = TypeVar("T")
WRITES = frozenset({"create folder", "create", "write", "close", "sync", "link", "rename", "checkpoint"})
"""What needs room on the disk."""
READS = frozenset({"open", "stat", "list", "read log"})
_COUNTED = frozenset({0, 1, 8})
"""Which writes to one file are points: Parquet's writer makes dozens, and half a file is half a file."""


class Fault(Enum):
    """What goes wrong at a point."""

    KILLED = "killed"
    FULL = "disk full"
    DENIED = "no permission"
    BROKEN = "I/O error"
    VANISHED = "file vanishes"

    def concerns(self, kind: str) -> bool:
        """Whether it can happen to an operation of this kind."""
        if self is Fault.FULL:
            return kind in WRITES
        if self is Fault.VANISHED:
            return kind in READS
        return True


class Killed(BaseException):
    """The end of a process; nothing may catch it."""


@dataclass(frozen=True, slots=True)
class Point:
    """One operation of the store on a file."""

    kind: str
    path: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"


class Disk:
    """Counts the operations on files below some folders, and fails at one of them."""

    def __init__(
        self, *folders: Path, fault: Fault | None = None, at: int | None = None, die: Callable[[], None] | None = None
    ) -> None:
        self.folders = tuple(str(folder) for folder in folders)
        self.fault, self.at = fault, at
        self.die = die
        """What a kill does instead of raising: in a process of its own, end it."""
        self.points: list[Point] = []
        self.fired: Point | None = None
        self._lock = threading.Lock()

    def reach(self, kind: str, path: str, act: Callable[[], T]) -> T:
        """Do something with a file, unless it is to fail."""
        if not path.startswith(self.folders):
            return act()
        with self._lock:
            number = len(self.points)
            self.points.append(Point(kind, path))
            if number == self.at:
                self.fired = self.points[-1]
            failing = self.fired is not None and self._fails(number, kind, path)
        if failing:
            self._fail(path)
        return act()

    def failing(self, kind: str) -> bool:
        """Whether operations of this kind fail from now on, wherever."""
        return self.fired is not None and (self.fault is Fault.KILLED or (self.fault is Fault.FULL and kind in WRITES))

    def _fails(self, number: int, kind: str, path: str) -> bool:
        assert self.fired is not None
        if number == self.at or self.failing(kind):
            return True
        same_folder = os.path.dirname(path) == os.path.dirname(self.fired.path)
        return self.fault is Fault.DENIED and kind == self.fired.kind and same_folder

    def _fail(self, path: str) -> None:
        if self.fault is Fault.KILLED:
            if self.die is not None:
                self.die()
            raise Killed
        number = {
            Fault.FULL: errno.ENOSPC,
            Fault.DENIED: errno.EACCES,
            Fault.BROKEN: errno.EIO,
            Fault.VANISHED: errno.ENOENT,
        }[self.fault]  # type: ignore[index]
        raise OSError(number, os.strerror(number), path)  # of the subclass that the number has


class _Os:
    """The module ``os`` as the store uses it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        kind = {
            "stat": "stat",
            "listdir": "list",
            "scandir": "list",
            "unlink": "delete",
            "makedirs": "create folder",
        }.get(name)
        if kind is None:
            return real
        return lambda path, *args, **options: self._disk.reach(kind, str(path), lambda: real(path, *args, **options))

    def link(self, source: str, target: str) -> None:
        self._disk.reach("link", target, lambda: os.link(source, target))

    def fsync(self, number: int) -> None:
        self._disk.reach("sync", os.readlink(f"/proc/self/fd/{number}"), lambda: os.fsync(number))


class _Output:
    """A file that is being written; where a write fails, half of it is there."""

    def __init__(self, disk: Disk, path: str, stream: Any) -> None:
        self._disk, self._path, self._stream = disk, path, stream
        self.closed = False
        self._writes = 0

    def write(self, content: Any) -> int:
        self._writes += 1
        if self._writes - 1 not in _COUNTED and not self._disk.failing("write"):
            return int(self._stream.write(content) or len(content))
        try:
            return int(self._disk.reach("write", self._path, lambda: self._stream.write(content)) or len(content))
        except (OSError, Killed):
            self._stream.write(content[: len(content) // 2] if isinstance(content, str) else bytes(content)[:9])
            raise

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def tell(self) -> int:
        return int(self._stream.tell())

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()
            self._disk.reach("close", self._path, lambda: None)

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    readable = seekable = lambda self: False
    writable = lambda self: True  # noqa: E731


def _file_system(disk: Disk) -> type[fs.LocalFileSystem]:
    real = fs.LocalFileSystem

    class AnyLocal(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class FailingFileSystem(real, metaclass=AnyLocal):  # type: ignore[misc, valid-type]
        def open_input_file(self, path: str) -> Any:
            return disk.reach("open", path, lambda: real.open_input_file(self, path))

        def open_output_stream(self, path: str) -> Any:
            stream = disk.reach("create", path, lambda: real.open_output_stream(self, path))
            return _Output(disk, path, stream)

        def create_dir(self, path: str, *, recursive: bool = True) -> None:
            disk.reach("create folder", path, lambda: real.create_dir(self, path, recursive=recursive))

        def move(self, source: str, target: str) -> None:
            disk.reach("rename", target, lambda: real.move(self, source, target))

    return FailingFileSystem


class _Fs:
    """The module ``pyarrow.fs`` with another local file system."""

    def __init__(self, disk: Disk) -> None:
        self.LocalFileSystem = _file_system(disk)

    def __getattr__(self, name: str) -> Any:
        return getattr(fs, name)


def _delta_table(disk: Disk) -> type[deltalake.DeltaTable]:
    class FailingDeltaTable(deltalake.DeltaTable):
        def __init__(self, table_uri: str, *args: Any, **options: Any) -> None:
            disk.reach("read log", table_uri, lambda: None)
            super().__init__(table_uri, *args, **options)
            self.where = table_uri

        def create_checkpoint(self) -> None:
            disk.reach("checkpoint", self.where, super().create_checkpoint)

    return FailingDeltaTable


@contextmanager
def mounted(disk: Disk) -> Iterator[Disk]:
    """Let everything that the store does with files pass through a disk, in this process."""

    def open_text(path: str, mode: str = "r", **options: Any) -> Any:
        return _Output(disk, path, disk.reach("create", path, lambda: builtins.open(path, mode, **options)))

    table = _delta_table(disk)
    with ExitStack() as stack:
        for module, name, replacement in (
            (location, "os", _Os(disk)),
            (location, "fs", _Fs(disk)),
            (log_entry, "os", _Os(disk)),
            (log_entry, "open", open_text),
            (delta, "DeltaTable", table),
            (transaction, "DeltaTable", table),
            (writable, "DeltaTable", table),
        ):
            stack.enter_context(patch.object(module, name, replacement, create=True))
        yield disk
