"""Complete-linkage clustering: a few groups of points, none with two that are far apart if that can be helped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

NEAR = 1.0
"""Points are alike if they differ by less than this in every dimension."""


def complete_linkage(
    points: Sequence[Sequence[float]], most: int, enough: Callable[[Sequence[int]], bool] | None = None
) -> list[int]:
    """The number of each point's group, counted from the group of the first point on.

    The two groups whose farthest points are nearest become one, as long as those are near, or there are more than
    ``most``. A group that is not ``enough`` joins the one nearest to it.

    >>> complete_linkage([(0.0, 1.0), (5.0, 1.0), (0.5, 1.2), (5.2, 0.9), (20.0, 0.0)], 8)
    [0, 1, 0, 1, 2]
    >>> complete_linkage([], 8)
    []
    >>> complete_linkage([(0.0,), (5.0,), (5.2,), (20.0,)], 8, lambda members: len(members) > 1)
    [0, 0, 0, 0]
    """
    if not points:
        return []
    places = np.array(points, dtype=np.float64).reshape(len(points), -1)
    apart = np.abs(places[:, np.newaxis] - places[np.newaxis]).max(axis=2, initial=0.0)
    np.fill_diagonal(apart, np.inf)
    groups = {number: [number] for number in range(len(points))}
    while len(groups) > 1:
        one, other = (int(at) for at in np.unravel_index(np.argmin(apart), apart.shape))
        if apart[one, other] >= NEAR and len(groups) <= most:
            small = [number for number, members in groups.items() if enough is not None and not enough(members)]
            if not small:
                break
            one = small[0]
            other = int(np.argmin(apart[one]))
        one, other = min(one, other), max(one, other)
        groups[one] += groups.pop(other)
        apart[one] = apart[:, one] = np.maximum(apart[one], apart[other])
        apart[other] = apart[:, other] = np.inf
        apart[one, one] = np.inf
    numbers = {member: number for number, members in enumerate(groups.values()) for member in members}
    return [numbers[at] for at in range(len(points))]
