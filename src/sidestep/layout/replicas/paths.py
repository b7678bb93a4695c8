"""Retrieval paths (thesis, 5.6): from which layout a query reads each of its columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RetrievalPath = dict[int, int]
"""The layout that each column is read from."""
MOST_PATHS = 4_096
"""Paths of a query that are all tried: of more, one is found greedily."""


@dataclass(frozen=True, slots=True)
class PathCost:
    """What a path costs: the cells of each column in the rows read of its layout, and row ids of each layout.

    By equation 5.1 row ids are always read; a plan that reads one layout has nothing to join, and reads none.
    """

    row_id: float = 1.0
    always: bool = False
    """Count row ids of a single layout too, as the equation does."""

    def of(self, path: Mapping[int, int], rows: Sequence[float]) -> float:
        """The cost of a path, given the rows that the query reads of each layout: q-cost."""
        used = set(path.values())
        ids = sum(rows[at] for at in used) if self.always or len(used) > 1 else 0.0
        return sum(rows[at] for at in path.values()) + self.row_id * ids


AS_RUN = PathCost()
"""Row ids are counted where a plan reads them."""


def greedy_path(eligible: Mapping[int, Sequence[int]], rows: Sequence[float]) -> RetrievalPath:
    """For each column the eligible layout of fewest rows; of equals the one that serves most of the columns.

    No path reads fewer cells, and no path reads more row ids than cells: so it costs at most twice the optimum, if a
    row id costs no more than a cell.
    """
    serves: dict[int, int] = {}
    for layouts in eligible.values():
        for layout in layouts:
            serves[layout] = serves.get(layout, 0) + 1
    return {
        column: min(layouts, key=lambda layout: (rows[layout], -serves[layout], layout))
        for column, layouts in eligible.items()
    }


def optimal_path(
    eligible: Mapping[int, Sequence[int]], rows: Sequence[float], cost: PathCost = AS_RUN
) -> RetrievalPath:
    """The cheapest of all paths, each tried: their number is the product of the columns' choices."""
    columns = list(eligible)
    paths = (dict(zip(columns, chosen, strict=True)) for chosen in itertools.product(*(eligible[c] for c in columns)))
    return min(paths, key=lambda path: cost.of(path, rows))


def find_path(eligible: Mapping[int, Sequence[int]], rows: Sequence[float], cost: PathCost = AS_RUN) -> RetrievalPath:
    """The path that a query takes: the cheapest where there are few, else the greedy one or a single layout.

    That a single layout needs no row ids is what the greedy choice overlooks most.
    """
    if math.prod(len(layouts) for layouts in eligible.values()) <= MOST_PATHS:
        return optimal_path(eligible, rows, cost)
    shared = set.intersection(*(set(layouts) for layouts in eligible.values())) if eligible else set()
    single = [dict.fromkeys(eligible, layout) for layout in sorted(shared)]
    return min([greedy_path(eligible, rows), *single], key=lambda path: cost.of(path, rows))
