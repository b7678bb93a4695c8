"""The study of a table for column groups: its rows by the features of a log, and the columns that queries read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from pyspark.sql import DataFrame

from sidestep.advisor.layouts.column_groups import ChosenGroups, ColumnStudy, choose_groups
from sidestep.advisor.trials.column_queries import column_workload, list_features
from sidestep.advisor.trials.sample import DrawnSample
from sidestep.layout.vectors import pack
from sidestep.predicate import DataType
from sidestep.spark.advise.study import check_reads, draw
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.workload import Workload, augment, table_workload
from sidestep.workload.features.extract import feature_set_of
from sidestep.workload.features.selection import candidate_sets, threshold_at

MOST_MINED, MOST_LISTED = 100, 100
"""Features that groups choose theirs from: of those that the log has in common, and of values of lists."""
LISTED_SHARE = 0.01
"""The least share of queries that ask for a value of a list, if it is to be a feature."""
MOST_QUERIES = 600
"""Queries that groups are chosen by: of more, so many from all over the log."""
SAMPLE_ROWS = 40_000


def study_columns(
    workload: Workload,
    rows: DataFrame,
    table: str,
    types: Mapping[str, DataType],
    *,
    total: int,
    min_size: int,
    unit_rows: int,
) -> tuple[ColumnStudy, DrawnSample]:
    """Draw the sample that column groups are chosen by; ``types`` names the columns that get zone maps."""
    check_reads(workload, table)
    of_log = table_workload(workload, table)
    sets = candidate_sets(augment(of_log)) if of_log.total else []
    mined = feature_set_of(augment(of_log), sets, of_log.weights).features if sets else ()
    heaviest = sorted(mined, key=lambda feature: -feature.weight)[:MOST_MINED]
    listed = list_features(of_log, threshold_at(LISTED_SHARE, of_log.total)) if of_log.total else []
    listed = sorted(listed, key=lambda feature: -feature.weight)[:MOST_LISTED]
    features = list({feature.formula: feature for feature in (*heaviest, *listed)}.values())
    filtered = {column.name for item in of_log.items for column in item.columns}
    drawn = draw(
        rows,
        {name: type for name, type in types.items() if name in filtered},
        features,
        total=total,
        # One unit: each that is written will be much like the whole.
        spec=LayoutSpec(unit_rows=max(1, 2 * total)),
        sample_rows=SAMPLE_ROWS,
    )
    used = tuple(features[number] for number in drawn.satisfied)
    bits = np.array(list(drawn.satisfied.values()), np.bool_).reshape(len(used), len(drawn.sample)).T
    asked = column_workload(_some_queries(workload, table), table, rows.columns, [one.formula for one in used])
    sample = replace(drawn.sample, unit=np.zeros(len(drawn.sample), np.int64))
    study = ColumnStudy(table, asked, used, sample, pack(np.ascontiguousarray(bits)), min_size, unit_rows)
    return study, drawn


def choose_column_groups(
    workload: Workload,
    rows: DataFrame,
    table: str,
    types: Mapping[str, DataType],
    *,
    total: int,
    min_size: int,
    unit_rows: int,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[ChosenGroups, Mapping[str, float]]:
    """The column groups of a table, and about how many bytes of a row each column has."""
    tell("a sample")
    study, drawn = study_columns(
        workload, rows, table, types, total=total, min_size=min_size, unit_rows=min(unit_rows, max(1, total))
    )
    return choose_groups(study, tell=tell), drawn.widths


def _some_queries(workload: Workload, table: str) -> Workload:
    """The queries on the table, or a part of them that is spread over the log."""
    mine: list[int] = [at for at, query in enumerate(workload.queries) if any(u.table == table for u in query.uses)]
    chosen = mine if len(mine) <= MOST_QUERIES else [mine[len(mine) * at // MOST_QUERIES] for at in range(MOST_QUERIES)]
    return replace(workload, queries=tuple(workload.queries[at] for at in chosen))
