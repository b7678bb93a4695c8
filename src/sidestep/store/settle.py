"""Waiting until a file's modification time can tell it from a later one.

Two versions of a file that are written within one tick of the file system's clock have the same time, and may have the
same size: the key of the first would match the second. Once the clock has moved on, a later change has a later time. So
a file is read for the index only when it is older than that tick.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sidestep.store.location import Location
from sidestep.store.snapshot import DataFile

LOCAL_TICK = 100
"""Milliseconds. Kernels stamp files once per timer interrupt (up to 10 ms); the rest is margin."""
COARSE_TICK = 2_000
"""Milliseconds: remote stores, and file systems that keep whole (FAT: even) seconds."""


def tick_of(root: Location, file: DataFile) -> int:
    """The granularity to assume for a file's time, in milliseconds; a time in whole seconds may be a rounded one."""
    return LOCAL_TICK if root.local and file.modified % 1_000 else COARSE_TICK


def settle(
    root: Location,
    files: Sequence[DataFile],
    *,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[DataFile, ...]:
    """The files that can be trusted, after waiting (two seconds at most) for those that were only just written.

    A file from the future cannot be told from its next version for an unknown time: it is left out, so it stays
    unknown until its time has passed.

    >>> from sidestep.store.location import locate
    >>> slept = []
    >>> fresh, future = DataFile("a", 1, 999_950), DataFile("b", 1, 2_000_000)
    >>> [file.path for file in settle(locate("/t"), [fresh, future], now=lambda: 1000.0, sleep=slept.append)], slept
    (['a'], [0.051])
    """
    moment = int(now() * 1_000)
    trusted = tuple(file for file in files if file.modified <= moment)
    wait = max((file.modified + tick_of(root, file) + 1 - moment for file in trusted), default=0)
    if wait > 0:
        sleep(wait / 1_000)
    return trusted
