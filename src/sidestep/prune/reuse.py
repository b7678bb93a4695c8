"""Parts of a plan that are the same and run only once: what is skipped for one must be what is skipped for the other.

A common table expression that is used twice is in the plan twice, and so is a dimension that two joins filter alike.
Where both copies come to the same, Spark runs one and uses its result again (a reused exchange). Induced predicates may
differ from copy to copy, and then the copies would not come to the same any more: each would read less, but both
together more. So the copies keep what one of them needs.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidestep.prune.plan.algebra import Query
from sidestep.synopsis import Mask

Masks = Mapping[str, tuple[Mask, ...]]
"""For each scan, by key, and each of its catalogs, the blocks that are kept."""


def alike(query: Query) -> list[tuple[str, ...]]:
    """Groups of scans, by key, that stand at the same place of equal parts; none is in two groups.

    >>> alike(Query((), ((7, ("a", "b")), (7, ("c", "d")), (8, ("b",)), (8, ("e",)), (9, ("f",)))))
    [('a', 'c'), ('b', 'd', 'e')]
    """
    copies: dict[int, list[tuple[str, ...]]] = {}
    for same, keys in query.parts:
        copies.setdefault(same, []).append(keys)
    group_of: dict[str, list[str]] = {}
    for parts in copies.values():
        if len({len(keys) for keys in parts}) > 1:
            continue
        for place in zip(*parts, strict=True):
            together = list(dict.fromkeys(key for each in place for key in group_of.get(each, [each])))
            group_of.update(dict.fromkeys(together, together))
    groups = {id(group): tuple(group) for group in group_of.values() if len(group) > 1}
    return list(groups.values())


def kept_alike(kept: Masks, groups: list[tuple[str, ...]]) -> dict[str, tuple[Mask, ...]]:
    """What is kept, with each group keeping what one of its scans does."""
    found = dict(kept)
    for group in groups:
        known = [found[key] for key in group if key in found]
        if len(known) < len(group) or len({tuple(map(len, masks)) for masks in known}) > 1:
            continue  # of a copy that is not covered nothing is skipped, and nothing can be made alike
        together = known[0]
        for masks in known[1:]:
            together = tuple(one | other for one, other in zip(together, masks, strict=True))
        found.update(dict.fromkeys(group, together))
    return found
