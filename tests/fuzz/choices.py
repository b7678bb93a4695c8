"""Random decisions as a list of numbers, so that what they led to can be made again, and made smaller."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Decisions drawn by chance, or taken from a list; beyond its end every decision is 0, the simplest there is."""

    def __init__(self, seed: int = 0, taken: Sequence[int] | None = None) -> None:
        self._random = random.Random(seed)
        self._given = None if taken is None else list(taken)
        self.taken: list[int] = []

    def below(self, limit: int) -> int:
        """A number from 0 up to ``limit``, which is not among them."""
        if self._given is None:
            value = self._random.randrange(limit)
        else:
            at = len(self.taken)
            value = self._given[at] % limit if at < len(self._given) else 0
        self.taken.append(value)
        return value

    def among(self, values: Sequence[T]) -> T:
        """One of the values; the first is the simplest."""
        return values[self.below(len(values))]

    def happens(self, share: float) -> bool:
        """True in that share of the cases; False is the simpler one."""
        return self.below(1000) >= 1000 - round(1000 * share)

    def between(self, least: int, most: int) -> int:
        return least + self.below(most - least + 1)


def shrink(taken: Sequence[int], fails: Callable[[list[int]], bool], seconds: float) -> list[int]:
    """A shorter, simpler list that still fails, as far as that is found in the time given.

    >>> shrink([5, 9, 3, 7, 8], lambda found: 7 in found, 1)
    [7]
    """
    best = list(taken)
    end = time.monotonic() + seconds

    def better(candidate: list[int]) -> bool:
        nonlocal best
        if (len(candidate), candidate) >= (len(best), best) or time.monotonic() > end or not fails(candidate):
            return False
        best = candidate
        return True

    progress = True
    while progress and time.monotonic() < end:
        progress = False
        size = max(1, len(best) // 2)
        while size >= 1:
            start = 0
            while start < len(best) and time.monotonic() < end:
                if better(best[:start] + best[start + size :]):
                    progress = True
                else:
                    start += size
            size //= 2
        for at in range(len(best)):
            if at >= len(best):
                break
            for value in (0, best[at] // 2, best[at] - 1):
                if 0 <= value < best[at] and better([*best[:at], value, *best[at + 1 :]]):
                    progress = True
                    break
    return best
