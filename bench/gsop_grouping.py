"""Column grouping as others do it: by which columns queries read together, whatever rows they skip.

HillClimb and Hyrise are what the thesis compares with (4.7.5), as Jindal et al. (VLDB 2013) describe them. Both were
made for groups that are stored row by row: a query reads every column of each group it touches, and pays for each
further group that has to be joined.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from sidestep.layout.columns.costs import Group
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.columns.search import alike

MOST_TOGETHER = 6
"""Primary partitions of which Hyrise tries all combinations: a part of the graph has no more."""


def row_store_cost(workload: ColumnWorkload, groups: Sequence[Group]) -> float:
    """What the workload reads of a row: all columns of each group touched, and an id in each if there are several."""
    touched = np.array([workload.reads[:, sorted(group)].any(axis=1) for group in groups], np.float64)
    widths = np.array([len(group) for group in groups], np.float64)
    number = touched.sum(axis=0)
    return float((widths @ touched + np.where(number > 1, number, 0)) @ workload.weights)


def hill_climb(workload: ColumnWorkload) -> list[Group]:
    """From single columns up: merge the two groups that save most, until no merge saves anything."""
    return _merge_while_cheaper(workload, [frozenset({at}) for at in range(len(workload.columns))])


def hyrise(workload: ColumnWorkload) -> list[Group]:
    """Primary partitions, cut into parts of strong affinity; the best layout of each part; and parts merged last.

    Primary partitions are columns that the same queries read. The thesis's source cuts the graph of their affinities by
    METIS; here parts grow from the heaviest edges, as long as they are small enough to try all layouts of them.
    """
    primary = alike(workload)
    groups = [group for part in _parts(workload, primary) for group in _best_layout(workload, part)]
    return _merge_while_cheaper(workload, groups)


def _merge_while_cheaper(workload: ColumnWorkload, groups: list[Group]) -> list[Group]:
    cost = row_store_cost(workload, groups)
    while len(groups) > 1:
        merged = [_merge(groups, pair) for pair in itertools.combinations(range(len(groups)), 2)]
        costs = [row_store_cost(workload, each) for each in merged]
        best = int(np.argmin(costs))
        if costs[best] >= cost:
            break
        groups, cost = merged[best], costs[best]
    return groups


def _merge(groups: Sequence[Group], pair: tuple[int, int]) -> list[Group]:
    rest = [group for at, group in enumerate(groups) if at not in pair]
    return [*rest, groups[pair[0]] | groups[pair[1]]]


def _parts(workload: ColumnWorkload, primary: Sequence[Group]) -> list[list[Group]]:
    """Primary partitions that many queries read together, at most :data:`MOST_TOGETHER` of them in a part."""
    touched = np.array([workload.reads[:, min(group)] for group in primary], np.float64)
    affinity = (touched * workload.weights) @ touched.T
    part = list(range(len(primary)))
    pairs = itertools.combinations(range(len(primary)), 2)
    for one, other in sorted(pairs, key=lambda pair: -affinity[pair]):
        mine, theirs = part[one], part[other]
        if affinity[one, other] > 0 and mine != theirs and part.count(mine) + part.count(theirs) <= MOST_TOGETHER:
            part = [mine if number == theirs else number for number in part]
    return [
        [group for group, mine in zip(primary, part, strict=True) if mine == number] for number in sorted(set(part))
    ]


def _best_layout(workload: ColumnWorkload, part: Sequence[Group]) -> list[Group]:
    inside = frozenset().union(*part)
    others = [frozenset({at}) for at in range(len(workload.columns)) if at not in inside]
    return min(_layouts(list(part)), key=lambda layout: row_store_cost(workload, [*layout, *others]))


def _layouts(part: list[Group]) -> Iterator[list[Group]]:
    """All ways to merge primary partitions."""
    if not part:
        yield []
        return
    first, *rest = part
    for layout in _layouts(rest):
        yield [first, *layout]
        for at in range(len(layout)):
            yield [*layout[:at], layout[at] | first, *layout[at + 1 :]]
