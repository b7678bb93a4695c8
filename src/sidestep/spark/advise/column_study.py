"""The study of a table for column groups: its rows by the features of a log, and the columns that queries read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import DataFrame

from sidestep.advisor.layouts.choose import Judges, Trial
from sidestep.advisor.layouts.column_groups import ChosenGroups, ColumnStudy, choose_groups, judge_groups
from sidestep.advisor.layouts.replicas import StoragePoint, choose_replicas, judge_replicas, storage_curve
from sidestep.advisor.trials.column_queries import column_features, column_workload
from sidestep.layout.vectors import pack
from sidestep.predicate import DataType
from sidestep.spark.advise.source import Source, data_columns
from sidestep.spark.advise.study import check_reads, draw
from sidestep.spark.organize.organize import DEFAULT_WIDTH, file_rows
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.workload import Workload, table_workload

MOST_QUERIES = 600
"""Queries that groups are chosen by: of more, so many from all over the log."""
SAMPLE_ROWS = 40_000
WEIGHED_SECONDS = 30.0
"""How long schemes are rated where nothing is to be loaded yet."""
FEWEST_BLOCKS = 25
"""Blocks of a unit at least, before a table is cut into more units so that more cores read it."""


def default_unit_rows(spec: LayoutSpec, rows: int, cores: int) -> int:
    """How many rows a unit has: so few that all cores can read the table, but no fewer than some blocks.

    >>> default_unit_rows(LayoutSpec(min_size=1_000), 200_000, 4), default_unit_rows(LayoutSpec(), 10**9, 4)
    (50000, 4000000)
    """
    return max(1, min(spec.unit_rows, max(FEWEST_BLOCKS * spec.min_size, -(-rows // cores))))


@dataclass(frozen=True)
class ColumnSource:
    """A table that could be put into column groups, and how its files would be."""

    rows: DataFrame
    table: str
    types: Mapping[str, DataType]
    """The columns that get zone maps."""
    total: int
    min_size: int
    unit_rows: int
    file_rows: float
    """Rows of a file that holds all columns."""

    @classmethod
    def of(cls, source: Source, spec: LayoutSpec, total: int, unit_rows: int | None = None) -> ColumnSource:
        """A table as a load would put it into column groups."""
        cores = source.rows.sparkSession.sparkContext.defaultParallelism
        width = source.snapshot.bytes / total if total and source.snapshot.bytes else DEFAULT_WIDTH
        columns = len(source.rows.columns)
        return cls(
            source.rows,
            source.name,
            data_columns(source.schema, ()),
            total,
            spec.min_size,
            default_unit_rows(spec, total, cores) if unit_rows is None else unit_rows,
            file_rows(total, width, spec.file_bytes, cores, min_size=spec.min_size, columns=columns),
        )


def study_columns(workload: Workload, source: ColumnSource) -> tuple[ColumnStudy, Mapping[str, float]]:
    """Draw the sample that column groups are chosen by; also about how many bytes of a row each column has."""
    check_reads(workload, source.table)
    of_log = table_workload(workload, source.table)
    features = column_features(workload, source.table)
    filtered = {column.name for item in of_log.items for column in item.columns}
    drawn = draw(
        source.rows,
        {name: type for name, type in source.types.items() if name in filtered},
        features,
        total=source.total,
        spec=LayoutSpec(unit_rows=source.unit_rows),
        sample_rows=SAMPLE_ROWS,
    )
    used = tuple(features[number] for number in drawn.satisfied)
    bits = np.array(list(drawn.satisfied.values()), np.bool_).reshape(len(used), len(drawn.sample)).T
    some = _some_queries(workload, source.table)
    asked = column_workload(some, source.table, source.rows.columns, [one.formula for one in used])
    # One unit: each that is written will be much like the whole.
    sample = replace(drawn.sample, unit=np.zeros(len(drawn.sample), np.int64))
    # Rows that do not come from files are dealt out, and are put into units by other means.
    slices = drawn.sample.unit if any(drawn.files) else None
    unit_rows = min(source.unit_rows, max(1, source.total))
    words = pack(np.ascontiguousarray(bits))
    return ColumnStudy(source.table, asked, used, sample, words, source.min_size, unit_rows, slices), drawn.widths


def choose_column_groups(
    workload: Workload,
    source: ColumnSource,
    given: Sequence[Sequence[str]] | None = None,
    tell: Callable[[str], None] = lambda _: None,
    storage: float | None = None,
) -> tuple[ChosenGroups, Mapping[str, float]]:
    """The column groups of a table, and about how many bytes of a row each column has.

    With ``storage``, so many times the table's cells may be stored, and groups may have copies of some rows.
    """
    tell("a sample")
    study, widths = study_columns(workload, source)
    return choose_by_study(study, storage, given, tell), widths


def choose_by_study(
    study: ColumnStudy,
    storage: float | None = None,
    given: Sequence[Sequence[str]] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> ChosenGroups:
    """The column groups of a table that has been studied."""
    if storage is None or given is not None:
        return choose_groups(study, given=given, tell=tell)
    return choose_replicas(study, storage, tell=tell)


def weigh_column_groups(
    early: Workload,
    judges: Judges,
    source: ColumnSource,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[ChosenGroups, Trial | None]:
    """The column groups that the early queries of a log would give, and what its later ones would read of them.

    There is no trial where one group is best: then the layouts of rows are what there is to choose from.
    """
    tell("column groups")
    study, widths = study_columns(early, source)
    chosen = choose_groups(study, seconds=WEIGHED_SECONDS, tell=tell)
    if len(chosen.groups) == 1 or not len(study.sample):
        return chosen, None
    return chosen, judge_groups(study, chosen, judges, widths, source.file_rows)


def weigh_replicas(
    early: Workload,
    judges: Judges,
    source: ColumnSource,
    storage: float,
    tell: Callable[[str], None] = lambda _: None,
    *,
    curve: Sequence[float] = (),
) -> tuple[ChosenGroups, Trial | None, tuple[StoragePoint, ...]]:
    """The same with copies of some cells within a storage budget, and what queries would cost at other budgets.

    There is no trial where no copy is worth its place.
    """
    tell("copies of cells")
    study, widths = study_columns(early, source)
    points = storage_curve(study, curve) if len(study.sample) else ()
    chosen = choose_replicas(study, storage, tell=tell)
    if not chosen.replicated or not len(study.sample):
        return chosen, None, points
    return chosen, judge_replicas(study, chosen, judges, widths, source.file_rows), points


def _some_queries(workload: Workload, table: str) -> Workload:
    """The queries on the table, or a part of them that is spread over the log."""
    mine: list[int] = [at for at, query in enumerate(workload.queries) if any(u.table == table for u in query.uses)]
    chosen = mine if len(mine) <= MOST_QUERIES else [mine[len(mine) * at // MOST_QUERIES] for at in range(MOST_QUERIES)]
    return replace(workload, queries=tuple(workload.queries[at] for at in chosen))
