"""Buckets of units, as Spark numbers them: files of one bucket meet in one task, and joins of them need no shuffle."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

_SEED = 42
_WORD = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Bucketing:
    """Files that each hold one value of a column, and say in their names which bucket it is in."""

    column: str
    """A column of 32-bit integers without NULL."""
    buckets: int


def bucket_of(unit: int, buckets: int) -> int:
    """What Spark calls ``pmod(hash(unit), buckets)`` for a 32-bit integer: Murmur3, seed 42.

    >>> [bucket_of(unit, 8) for unit in (0, 1, 2, -1)]
    [7, 3, 6, 5]
    """
    mixed = _rotate(unit * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
    hashed = (_rotate(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _WORD) ^ 4  # four bytes
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    hashed ^= hashed >> 16
    return (hashed - (hashed >> 31 << 32)) % buckets


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD


def balanced_units(count: int, buckets: int, taken: Sequence[int] = ()) -> tuple[int, ...]:
    """Numbers for so many new units, one after the other in the bucket that has fewest.

    A hash puts a few units into few of the buckets, and a task reads a bucket: so the numbers are chosen by their hash.
    ``taken`` are those that other units have.

    >>> [bucket_of(unit, 3) for unit in balanced_units(4, 3)]
    [0, 1, 2, 0]
    """
    held = [0] * buckets
    for unit in taken:
        held[bucket_of(unit, buckets)] += 1
    waiting: list[list[int]] = [[] for _ in range(buckets)]
    fresh = iter(itertools.count(max(taken, default=-1) + 1))
    chosen = []
    for _ in range(count):
        bucket = held.index(min(held))
        while not waiting[bucket]:
            unit = next(fresh)
            waiting[bucket_of(unit, buckets)].append(unit)
        chosen.append(waiting[bucket].pop(0))
        held[bucket] += 1
    return tuple(chosen)
