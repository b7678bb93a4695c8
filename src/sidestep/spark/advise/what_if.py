"""``sidestep.what_if``: block sizes and layouts of columns compared on a sample, before anything is rewritten."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from sidestep.advisor.layouts.column_groups import try_groups
from sidestep.advisor.layouts.replica_trials import try_replicas
from sidestep.advisor.layouts.what_if import GSOP, GSOP_R, SOP, WhatIf, WhatIfPoint
from sidestep.errors import SidestepError
from sidestep.layout.replicas.search import check_budget
from sidestep.spark.advise.column_study import ColumnSource, study_columns
from sidestep.spark.advise.log_name import names_in_logs, read_log_of
from sidestep.spark.advise.source import read_source
from sidestep.spark.jvm.sessions import leaves_session_active
from sidestep.spark.log.analyze import LogSource
from sidestep.spark.log.statements import Table
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import resolve
from sidestep.store import index_folder, locate
from sidestep.store.sidecars.layout import LayoutSpec, load_layout

MOST_SIZES = 12
SECONDS, REPLICA_SECONDS = 20.0, 30.0
"""What the search for groups may take for each size, and that for replicas."""
BUDGET = 2.0


@leaves_session_active
def what_if(
    spark: SparkSession,
    log: LogSource,
    table: str | os.PathLike[str],
    *,
    name: str | None = None,
    tables: Mapping[str, Table] | None = None,
    dialect: str | None = None,
    min_sizes: Sequence[int] | None = None,
    storage: float = BUDGET,
    progress: Progress | None = None,
) -> WhatIf:
    """What queries of a log would read with blocks of these sizes: all columns together, in groups, or with replicas.

    With replicas some cells are stored more than once, up to ``storage`` times the table in all; with 1 none are tried.
    There are several points then for each size, from little storage to much.

    The same sample serves all sizes, and nothing is written. ``table``, ``name``, ``tables`` and ``dialect`` are as in
    :func:`sidestep.advise`, which compares families of row orders for one size. Without ``min_sizes``, five sizes are
    tried, around one that gives the table a few hundred blocks.
    """
    check_budget(storage)
    path = resolve(spark, table)
    spec = load_layout(index_folder(locate(path)))
    names = names_in_logs(name, table, locate(path), spec)
    source = read_source(spark, table, names[0])
    watch = Watch(spark.sparkContext, progress)
    with watch.stage("analyze"):
        called, workload = read_log_of(spark, log, names, source.schema, tables, dialect)
        source = replace(source, name=called)
    with watch.stage("sample"):
        total = source.rows.count()
        if not total:
            raise SidestepError(f"{path} has no rows to try layouts on.")
        sizes = sorted(set(min_sizes)) if min_sizes else usual_sizes(total)
        _check_sizes(sizes)
        spec = LayoutSpec(min_size=sizes[0])
        study, _ = study_columns(workload, ColumnSource.of(source, spec, total, unit_rows=total))
    points: list[WhatIfPoint] = []
    columns = study.workload.columns
    for size in sizes:
        # A stage of its own for each: after every stage a job can be stopped.
        with watch.stage(f"blocks of {size:,} rows"):
            watch.tell("column groups")
            sized = replace(study, min_size=size)
            trial = try_groups(sized, seconds=SECONDS)
            ids = len(trial.groups) if len(trial.groups) > 1 else 0
            points += [
                WhatIfPoint(SOP, size, trial.together, 1.0, (columns,)),
                WhatIfPoint(GSOP, size, trial.read, (len(columns) + ids) / max(1, len(columns)), trial.groups),
            ]
            if storage > 1:
                watch.tell("replicas")
                tried = try_replicas(sized, trial.groups, storage, seconds=REPLICA_SECONDS)
                points += [
                    WhatIfPoint(
                        GSOP_R, size, one.read, one.storage, tuple(each.columns for each in one.layouts), one.layouts
                    )
                    for one in tried
                ]
    queries = int(study.workload.weights.sum())
    return WhatIf(called, tuple(points), queries, len(study.sample), total)


def usual_sizes(total: int) -> list[int]:
    """Five sizes of blocks for a table of so many rows, each four times the one before.

    >>> usual_sizes(6_000_000)
    [1000, 4000, 16000, 64000, 256000]
    """
    middle = min(LayoutSpec().min_size, max(64, total // 200))
    first = max(10, round(middle / 16, 1 - len(str(middle // 16 or 1))))
    return [int(first) * 4**step for step in range(5)]


def _check_sizes(sizes: Sequence[int]) -> None:
    if len(sizes) > MOST_SIZES or any(size < 1 for size in sizes):
        raise SidestepError(f"Sizes of blocks are rows, 1 or more, and at most {MOST_SIZES} of them are tried at once.")
