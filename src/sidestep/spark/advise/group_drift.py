"""How far a log's queries have moved from those that a table in column groups was laid out for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sidestep.advisor.layouts.column_groups import RATED_ROWS, ChosenGroups, choose_groups
from sidestep.layout.columns.costs import reading
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.weights import Floats
from sidestep.predicate import DataType, Formula
from sidestep.spark.advise.column_study import ColumnSource, study_columns
from sidestep.store.index.grouped_table import GroupedTable
from sidestep.store.index.table_index import TableIndex
from sidestep.store.upkeep.drift import Drift, UnitDrift
from sidestep.synopsis import kept_blocks
from sidestep.workload import Workload

WHOLE = "all column groups"


def measure_group_drift(
    workload: Workload,
    source: ColumnSource,
    table: GroupedTable,
    index: TableIndex,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Drift, ChosenGroups, Mapping[str, float]]:
    """What the workload's queries read of a table in column groups, and the groups that would suit them best.

    Both are costs of the same model, as shares of what all cells of the table would cost for each query: what is read
    now goes by the index, what would be read then by a sample.
    """
    tell("a sample")
    study, widths = study_columns(workload, source)
    asked = study.workload
    chosen = choose_groups(study, tell=tell)
    all_cells = float(asked.weights.sum()) * len(asked.columns)
    sampled = min(RATED_ROWS, len(study.sample))
    anew = chosen.cost / max(1.0, all_cells * sampled)
    now = cost_now(asked, table, index, source.types) / max(1.0, all_cells)
    unit = UnitDrift(WHOLE, 1.0, now, anew)
    family = f"{len(chosen.groups)} column groups" if len(chosen.groups) > 1 else "one group of all columns"
    drift = Drift(int(asked.weights.sum()), "those of the log", family, None, now, anew, (unit,), "cells")
    return drift, chosen, widths


def cost_now(asked: ColumnWorkload, table: GroupedTable, index: TableIndex, types: Mapping[str, DataType]) -> float:
    """What queries read of the table's groups by its index, each group having as many rows as 1."""
    place = {name: at for at, name in enumerate(asked.columns)}
    catalog = index.catalog(types)
    positions = index.positions(table.snapshot.files)
    shares: dict[frozenset[int], Floats] = {}
    kept = [None if not isinstance(key, Formula) else kept_blocks(catalog, key) for key in asked.keys]
    taken: set[str] = set()
    for number in table.live:
        files = [at for at, of in zip(positions, table.group_of_file, strict=True) if of == number and at >= 0]
        mine = np.isin(catalog.file_of_block, np.array(files, np.int64))
        count = max(1, int(catalog.rows[mine].sum()))
        # A column that several groups hold counts once.
        group = frozenset(place[name] for name in table.groups.groups[number] if name not in taken and name in place)
        taken |= set(table.groups.groups[number])
        read = [1.0 if one is None else float(catalog.rows[mine & one].sum()) / count for one in kept]
        if group:
            shares[group] = np.array(read)
    return reading(asked, list(shares), lambda group: shares[group]).total(asked.weights)
