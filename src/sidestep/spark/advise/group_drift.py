"""How far a log's queries have moved from those that a table in column groups was laid out for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sidestep.advisor.layouts.column_groups import ChosenGroups
from sidestep.layout.columns.costs import CostModel
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.predicate import Formula
from sidestep.spark.advise.column_study import ColumnSource, choose_by_study, study_columns
from sidestep.spark.advise.group_today import GroupsToday
from sidestep.store.upkeep.drift import Drift, UnitDrift
from sidestep.workload import Workload

WHOLE = "all column groups"


def measure_group_drift(
    workload: Workload,
    source: ColumnSource,
    today: GroupsToday,
    storage: float | None,
    expected: float | None,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Drift, ChosenGroups, Mapping[str, float]]:
    """What the workload's queries read of a table in column groups, and the groups that would suit them best.

    Both are costs of the same model, as shares of what all cells of the table would cost for each query: what is read
    now goes by the index, along the retrieval path of each query; what would be read then by a sample. Cells may be
    stored ``storage`` times; ``expected`` is what queries were to read when the table was laid out.
    """
    tell("a sample")
    study, widths = study_columns(workload, source)
    chosen = choose_by_study(study, storage, tell=tell)
    now, anew = cost_now(study.workload, today) / study.all_cells, chosen.cost
    queries = int(study.workload.weights.sum())
    unit = UnitDrift(WHOLE, 1.0, now, anew)
    drift = Drift(queries, "those of the log", _family(chosen), expected, now, anew, (unit,), "cells")
    return drift, chosen, widths


def cost_now(asked: ColumnWorkload, today: GroupsToday) -> float:
    """What queries read of a table's groups by its index, if the table has one row: cells, and row ids to join by."""
    cells, joined = np.zeros((2, len(asked.weights)))
    for at, (filter, reads) in enumerate(zip(asked.filter_of_query, asked.reads, strict=True)):
        formula = asked.keys[filter]
        assert isinstance(formula, Formula)
        read = today.read(formula, [name for name, mine in zip(asked.columns, reads, strict=True) if mine])
        cells[at] = sum(len(each.columns) * each.rows for each in read)
        joined[at] = sum(each.rows for each in read) if len(read) > 1 else 0
    return float((cells + CostModel().overhead(joined)) @ asked.weights)


def _family(chosen: ChosenGroups) -> str:
    if len(chosen.groups) == 1:
        return "one group of all columns"
    return f"{len(chosen.groups)} column groups" + (", with copies of some cells" if chosen.replicated else "")
