"""What a workload costs on a scheme of column groups (thesis, 4.4.2): cells, row ids, and the join of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sidestep.errors import SidestepError
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.weights import Floats

Group = frozenset[int]
"""Columns by position that share an arrangement of the table's rows."""
RowsRead = Callable[[Group], Floats]
"""For each filter of a workload, how many rows it reads of a group: r_i^q of the thesis."""


def linear(rows: Floats) -> Floats:
    """The cost of sorting that the thesis leaves open.

    With x · log2 x the joining of two groups of a thousand rows would cost as much as ten further columns, and a search
    would rather have one group.
    """
    return rows


@dataclass(frozen=True, eq=False)
class CostModel:
    """What a cell, a row id and the sorting of rows cost."""

    cells: Floats | None = None
    """For each column what a value of it costs; without, each costs 1. Bytes over their mean are real widths."""
    row_id: float = 1.0
    sort: Callable[[Floats], Floats] = linear

    def widths(self, columns: int) -> Floats:
        """What a value of each of so many columns costs."""
        if self.cells is None:
            return np.ones(columns)
        if self.cells.shape != (columns,) or not np.isfinite(self.cells).all() or (self.cells < 0).any():
            raise SidestepError(f"Costs of cells are one for each of {columns} columns, finite and at least 0.")
        return self.cells

    def overhead(self, rows: Floats) -> Floats:
        """What it costs to join a group of which so many rows were read with others (4.2)."""
        return np.asarray(self.row_id * rows + self.sort(rows))


@dataclass(frozen=True, eq=False)
class Reading:
    """What each query of a workload reads of a scheme."""

    cells: Floats
    """Cells, each counted as 1."""
    row_ids: Floats
    cost: Floats
    """By the model, the join included (4.3)."""

    def total(self, weights: Floats) -> float:
        """The cost of the whole workload (4.4)."""
        return float(self.cost @ weights)


def reading(
    workload: ColumnWorkload, groups: Sequence[Group], rows: RowsRead, model: CostModel | None = None
) -> Reading:
    """What each query reads: cells of the columns it asks for in the rows of each group that it can't skip.

    Row ids are read only by queries that read several groups, and then in each of them; one group needs no join.
    """
    check_groups(groups, len(workload.columns))
    model = model or CostModel()
    widths = model.widths(len(workload.columns))
    queries = len(workload.weights)
    cells, row_ids, scan, join = (np.zeros(queries) for _ in range(4))
    touched = np.zeros(queries, np.int64)
    for group in groups:
        members = sorted(group)
        among = workload.reads[:, members]
        mine = np.flatnonzero(among.any(axis=1))
        if not len(mine):
            continue
        read = rows(group)[workload.filter_of_query[mine]]
        cells[mine] += among[mine].sum(axis=1) * read
        scan[mine] += (among[mine] @ widths[members]) * read
        row_ids[mine] += read
        join[mine] += model.overhead(read)
        touched[mine] += 1
    several = touched > 1
    return Reading(cells, np.where(several, row_ids, 0), scan + np.where(several, join, 0))


def cost_within(
    workload: ColumnWorkload, groups: Sequence[Group], rows: RowsRead, least: Floats, model: CostModel, limit: float
) -> float | None:
    """The cost of the workload, or None as soon as it is certain that it is above the limit.

    ``least`` has the rows that each filter reads of any group, however it is arranged. Groups that cost much even so
    come first, so a scheme that is no good is known by a few of its groups: of a wide table with a group for each
    column, hardly any has to be arranged.
    """
    check_groups(groups, len(workload.columns))
    widths = model.widths(len(workload.columns))
    members = [sorted(group) for group in groups]
    touched = np.array([workload.reads[:, among].any(axis=1) for among in members]).reshape(len(groups), -1)
    several = touched.sum(axis=0) > 1

    def cost(at: int, read: Floats) -> float:
        each = (workload.reads[:, members[at]] @ widths[members[at]]) * read + several * model.overhead(read)
        return float(np.where(touched[at], each, 0) @ workload.weights)

    known = np.array([cost(at, least[workload.filter_of_query]) for at in range(len(groups))])
    for at in np.argsort(-known, kind="stable").tolist():
        if known.sum() > limit * (1 + 1e-9):
            return None
        if touched[at].any():
            known[at] = cost(at, rows(groups[at])[workload.filter_of_query])
    total = float(known.sum())
    return total if total <= limit * (1 + 1e-9) else None


def check_groups(groups: Iterable[Group], columns: int) -> None:
    """Refuse what is no partitioning of the columns: each is in one group, and no group is empty."""
    members = sorted(at for group in groups for at in group)
    if members != list(range(columns)) or not all(groups):
        raise SidestepError(f"Each of {columns} columns must be in one group, and no group may be empty.")
