"""What goes to Java in a form that it takes quickly: packed keys of files, packed bits of blocks."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from sidestep.prune.conditions import BlockFilter
from sidestep.synopsis import Mask


def packed_keys(paths: list[str], sizes: Any, times: Any) -> tuple[str, str]:
    """Keys in the form in which Java takes them: paths joined by NUL; sizes and times in turn, big-endian, base64."""
    numbers = np.stack([np.asarray(sizes, np.int64), np.asarray(times, np.int64)], axis=1).astype(">i8")
    return "\0".join(paths), base64.b64encode(numbers.tobytes()).decode("ascii")


def packed_bits(mask: Mask) -> str:
    """A mask as base64 of its bits, the first one lowest."""
    return base64.b64encode(np.packbits(mask, bitorder="little").tobytes()).decode("ascii")


def packed_filter(blocks: BlockFilter) -> str:
    """Which blocks to read: the bits of the files, the ranges of ids, the exact ids, and the bytes to be read."""
    numbers = (base64.b64encode(ids.astype("<i4").tobytes()).decode("ascii") for ids in (blocks.ranges, blocks.ids))
    return ":".join([packed_bits(blocks.files), *numbers, str(blocks.bytes)])
