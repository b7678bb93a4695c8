"""What a workload costs on a scheme of layouts (thesis, 5.4.3): cells and row ids on each query's retrieval path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidestep.errors import SidestepError
from sidestep.layout.columns.queries import ColumnWorkload, Numbers
from sidestep.layout.replicas.paths import AS_RUN, PathCost
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.schemes import ReplicaLayout, ReplicaScheme
from sidestep.layout.vectors import Bits
from sidestep.layout.weights import Floats


@dataclass(frozen=True, eq=False)
class Retrieval:
    """What each query of a workload reads of a scheme, and from where."""

    cells: Floats
    row_ids: Floats
    layout: Numbers
    """Queries by columns: the layout that a column is read from, or -1 where a query doesn't read it."""

    def cost(self, model: PathCost = AS_RUN) -> Floats:
        """The cost of each query."""
        return np.asarray(self.cells + model.row_id * self.row_ids)


@dataclass(frozen=True, eq=False)
class LayoutReads:
    """What queries may read of one layout."""

    layout: ReplicaLayout
    rows: Floats
    """For each query the rows that it reads there."""
    eligible: Bits
    """The queries that may read columns other than masters."""


def layout_reads(workload: ColumnWorkload, layout: ReplicaLayout, rows: LayoutRows) -> LayoutReads:
    """What each query of a workload may read of a layout that is arranged by its features."""
    asked = workload.filter_of_query
    return LayoutReads(layout, rows.exact(layout.cells)[asked], rows.eligible(layout.features)[asked])


def retrieve(reads: Bits, layouts: Sequence[LayoutReads], cost: PathCost = AS_RUN) -> Retrieval:
    """The retrieval path of each query: the greedy one (5.6.3), or a single layout where one is cheaper.

    ``reads`` has queries by columns. All queries are worked out at once, as a search asks for thousands of schemes.
    """
    queries, columns = reads.shape
    rows = np.array([each.rows for each in layouts]).reshape(len(layouts), queries)
    chosen = np.full((queries, columns), -1, np.intp)
    asked = np.flatnonzero(reads.any(axis=0))
    serves = np.zeros((len(layouts), queries), np.int64)
    open_to = {}
    for column in asked.tolist():
        holding = [number for number, each in enumerate(layouts) if column in each.layout.columns]
        may = np.array([layouts[at].eligible | (column in layouts[at].layout.masters) for at in holding])
        if not holding or not np.logical_or.reduce(may)[reads[:, column]].all():
            raise SidestepError(f"Some query finds column {column} in no layout: the scheme is not complete.")
        open_to[column] = np.array(holding, np.intp), may
        serves[holding] += may & reads[:, column]
    # Of layouts with equal rows the one that serves most: a fraction of a row decides.
    ranked = rows - serves / (2.0 * (columns + 1))
    for column, (at, may) in open_to.items():
        mine = np.flatnonzero(reads[:, column])
        best = np.where(may[:, mine], ranked[at][:, mine], np.inf).argmin(axis=0)
        chosen[mine, column] = at[best]
    cells, ids = _read(chosen, rows, cost)
    number = reads.sum(axis=1)
    alone = np.where(serves == number, rows, np.inf)
    single = alone.argmin(axis=0) if len(layouts) else np.zeros(queries, np.intp)
    least = number * alone.min(axis=0, initial=np.inf)
    if cost.always:
        least = least + cost.row_id * alone.min(axis=0, initial=np.inf)
    better = np.flatnonzero(least < cells + cost.row_id * ids)
    chosen[better] = np.where(reads[better], single[better, None], -1)
    cells, ids = _read(chosen, rows, cost)
    return Retrieval(cells, ids, chosen)


def _read(chosen: Numbers, rows: Floats, cost: PathCost) -> tuple[Floats, Floats]:
    queries = len(chosen)
    cells, ids, used = np.zeros(queries), np.zeros(queries), np.zeros(queries, np.int64)
    for number, of_layout in enumerate(rows):
        columns = (chosen == number).sum(axis=1)
        cells += columns * of_layout
        ids += np.where(columns > 0, of_layout, 0)
        used += columns > 0
    return cells, ids if cost.always else np.where(used > 1, ids, 0)


def scheme_cost(workload: ColumnWorkload, scheme: ReplicaScheme, rows: LayoutRows, cost: PathCost = AS_RUN) -> float:
    """The cost of the whole workload: the sum over its queries."""
    layouts = [layout_reads(workload, layout, rows) for layout in scheme.layouts]
    return float(retrieve(workload.reads, layouts, cost).cost(cost) @ workload.weights)
