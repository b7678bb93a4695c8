"""Parts of a plan that are the same and run only once: what is skipped for one must be what is skipped for the other.

A common table expression that is used twice is in the plan twice, and so is a dimension that two joins filter alike.
Where both copies come to the same, Spark runs one and uses its result again (a reused exchange). Induced predicates may
differ from copy to copy, and then the copies would not come to the same any more: each would read less, but both
together more. So the copies keep what one of them needs. Where they need nothing in common (two months of one table,
joined with each other), both together read no more than one for both, and whether Spark would run one is not certain:
they go their own ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sidestep.synopsis import Mask


def reused_groups(parts: Iterable[tuple[int, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """Groups of scans, by key, that stand at the same place of equal parts of a plan; none is in two groups.

    >>> reused_groups([(7, ("a", "b")), (7, ("c", "d")), (8, ("b",)), (8, ("e",)), (9, ("f",))])
    [('a', 'c'), ('b', 'd', 'e')]
    """
    copies: dict[int, list[tuple[str, ...]]] = {}
    for same, keys in parts:
        copies.setdefault(same, []).append(keys)
    group_of: dict[str, list[str]] = {}
    for equal in copies.values():
        if len({len(keys) for keys in equal}) > 1:
            continue
        for place in zip(*equal, strict=True):
            if all(group_of.get(key) is group_of.get(place[0], place) for key in place):
                continue  # in one group already
            together = list(dict.fromkeys(key for each in place for key in group_of.get(each, [each])))
            group_of.update(dict.fromkeys(together, together))
    groups = {id(group): tuple(group) for group in group_of.values() if len(group) > 1}
    return list(groups.values())


def worth_sharing(kept: Mapping[str, tuple[Mask, ...]], groups: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The groups whose scans, given what is kept of each, need some of the same blocks.

    >>> first, second, all_blocks = (np.array(bits, np.bool_) for bits in ([1, 0], [0, 1], [1, 1]))
    >>> worth_sharing({"a": (first,), "b": (second,), "c": (all_blocks,)}, [("a", "b"), ("a", "c")])
    [('a', 'c')]
    """
    return [group for group in groups if not _apart([kept[key] for key in group if key in kept], len(group))]


def _apart(masks: Sequence[tuple[Mask, ...]], copies: int) -> bool:
    """Whether all copies are known, each keeps something, and no block is kept for two."""
    if len(masks) < copies or len({tuple(map(len, own)) for own in masks}) > 1:
        return False
    needed = [sum(mask.astype(np.int64) for mask in at_once) for at_once in zip(*masks, strict=True)]
    some = all(any(mask.any() for mask in own) for own in masks)
    return some and all(int(np.max(counts, initial=0)) <= 1 for counts in needed)


def share_kept(kept: Mapping[str, tuple[Mask, ...]], groups: Sequence[tuple[str, ...]]) -> dict[str, tuple[Mask, ...]]:
    """What is kept of each scan, by key, with each group keeping what one of its scans does."""
    shared = dict(kept)
    for group in groups:
        known = [shared[key] for key in group if key in shared]
        if len(known) < len(group) or len({tuple(map(len, masks)) for masks in known}) > 1:
            continue  # of a copy that is not covered nothing is skipped, and nothing can be shared
        together = known[0]
        for masks in known[1:]:
            together = tuple(one | other for one, other in zip(together, masks, strict=True))
        shared.update(dict.fromkeys(group, together))
    return shared
