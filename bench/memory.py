"""How much memory Spark's Python workers take: their peaks, as the kernel counts them, looked at while a job runs."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


class WorkerMemory:
    """The peak memory of each Python process that was started, directly or not, by this one."""

    def __init__(self) -> None:
        self.peaks: dict[int, int] = {}
        """Bytes, by process."""

    @property
    def peak_mb(self) -> float:
        """The largest process at its largest."""
        return max(self.peaks.values(), default=0) / 2**20

    def look(self) -> None:
        """Note the peaks so far; the kernel keeps them, so what lies between two looks is not missed."""
        for process in python_descendants(os.getpid()):
            try:
                found = _PEAK.search(Path(f"/proc/{process}/status").read_text())
            except OSError:
                continue  # it ended meanwhile
            if found:
                self.peaks[process] = max(self.peaks.get(process, 0), 1024 * int(found[1]))


def python_descendants(ancestor: int) -> list[int]:
    """The processes below one that run Python; nothing where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold anything; the parent is the second word after it.
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    found, waiting = [], [ancestor]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            waiting.append(child)
            if _runs_python(child):
                found.append(child)
    return found


def _runs_python(process: int) -> bool:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return False
    return b"python" in command.rpartition(b"/")[2]


@contextmanager
def watched(seconds: float = 0.1) -> Iterator[WorkerMemory]:
    """Look again and again while the block runs."""
    memory, done = WorkerMemory(), threading.Event()

    def watch() -> None:
        while not done.wait(seconds):
            memory.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        done.set()
        thread.join()
        memory.look()
