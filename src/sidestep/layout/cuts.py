"""A group of rows becomes blocks of one size, or nearly so."""

from __future__ import annotations

from sidestep.errors import SidestepError


def cut(size: int, min_size: int) -> tuple[int, ...]:
    """The sizes of the blocks that a group is cut into: as many as ``min_size`` allows, and as even as possible.

    Contract: they sum to ``size``; each is in ``[min_size, 2 * min_size)`` unless the group itself is smaller than
    ``min_size``, and then it is one block. No rows, no blocks. Small blocks skip more, which is why there are as many
    as the bound allows; even ones leave no straggler (thesis, 3.4.1 and 3.4.4). A group that the partitioner merged is
    below ``2 * min_size`` and stays one block: only a vector that is frequent on its own is cut.

    >>> cut(1_750, 500)
    (584, 583, 583)
    >>> cut(999, 500), cut(120, 500)
    ((999,), (120,))
    """
    if min_size < 1:
        raise SidestepError(f"The least number of rows per block is {min_size}: it must be at least 1.")
    if size < 0:
        raise SidestepError(f"A group of {size} rows can't be cut: a size is never negative.")
    if size == 0:
        return ()
    blocks = max(size // min_size, 1)
    each, over = divmod(size, blocks)
    return (each + 1,) * over + (each,) * (blocks - over)
