"""Parts of a plan that are the same and run only once: what is skipped for one must be what is skipped for the other.

A common table expression that is used twice is in the plan twice, and so is a dimension that two joins filter alike.
Where both copies come to the same, Spark runs one and uses its result again (a reused exchange). Induced predicates may
differ from copy to copy, and then the copies would not come to the same any more: each would read less, but both
together more. So the copies keep what one of them needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
