"""How much a piece of code does, counted rather than timed: the same on every machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Work:
    """The calls of functions, in Python and of its built-in ones, on the thread that counts."""

    calls: int = 0


@contextmanager
def counted_work() -> Iterator[Work]:
    """Count the calls made in the block: an algorithm that takes each value with each other makes far more of them.

    >>> with counted_work() as work:
    ...     _ = [abs(number) for number in range(1_000)]
    >>> 1_000 <= work.calls < 1_010
    True
    """
    work, before = Work(), sys.getprofile()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            work.calls += 1

    sys.setprofile(count)
    try:
        yield work
    finally:
        sys.setprofile(before)
