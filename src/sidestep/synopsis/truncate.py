"""Shortening a byte string outwards, so that what is left still bounds it."""

from __future__ import annotations


def round_down(value: bytes, width: int) -> bytes:
    """A byte string of at most ``width`` bytes that is not above ``value``."""
    return value[:width]


def round_up(value: bytes, width: int) -> bytes | None:
    """A byte string of at most ``width`` bytes that is not below ``value``; None if there is none (all 0xFF).

    A bare prefix would be *below* the value it was cut from, and a block could lose the rows between the two.

    >>> round_up(b"abcdef", 3), round_up(b"a\\xff\\xff!", 3), round_up(b"\\xff\\xff", 1), round_up(b"ab", 3)
    (b'abd', b'b', None, b'ab')
    """
    if len(value) <= width:
        return value
    prefix = value[:width].rstrip(b"\xff")
    if not prefix:
        return None
    return prefix[:-1] + bytes([prefix[-1] + 1])
