"""Laying out tables in column groups anew: small units become larger ones, and columns come into other groups.

Rows that are appended come in units of their own, laid out as the others are, and a delete leaves fewer rows in a unit.
What lies in one block can only be chosen within a unit, so units of less than half the size that units have are put
together: the rows keep their ids, and each group of them is laid out as one unit.

With a log, the columns may come to lie in other groups, or the same ones be arranged otherwise. All of the table is
written anew for that, to groups with new numbers: older versions keep theirs, and can be read as before. Rows keep
their units and their ids. A table with copies of some cells is searched again within its storage budget, and all copies
come in the same commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sidestep.advisor.layouts.column_groups import ChosenGroups
from sidestep.advisor.layouts.replicas import noted_budget
from sidestep.errors import SidestepError
from sidestep.spark.advise.column_study import ColumnSource, choose_column_groups
from sidestep.spark.advise.group_drift import measure_group_drift
from sidestep.spark.advise.group_today import GroupsToday
from sidestep.spark.advise.log_name import names_in_logs, read_log_of
from sidestep.spark.advise.source import data_columns
from sidestep.spark.log.analyze import LogSource
from sidestep.spark.log.statements import Table
from sidestep.spark.progress import Watch
from sidestep.spark.relation import every_grouped_row, groups_session
from sidestep.spark.table.chosen import with_value_sets
from sidestep.spark.table.column_groups import (
    GroupWrite,
    LoadedGroup,
    check_units,
    commit_groups,
    dropped_on_error,
    write_groups,
)
from sidestep.spark.table.group_table import GroupsTarget, column_groups, group_state, open_groups, plan_groups
from sidestep.spark.table.state import check_rows
from sidestep.store import DataFile, Location
from sidestep.store.commit.transaction import with_retries
from sidestep.store.parquet.buckets import balanced_units
from sidestep.store.sidecars.column_groups import ROW_ID, UNIT
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.store.upkeep.drift import Drift
from sidestep.store.upkeep.group_ids import units_of
from sidestep.synopsis.recipe import Recipe

SMALL = 0.5
"""The share of a unit's size below which a unit is put together with others."""


@dataclass(frozen=True)
class Units:
    """The files of a table in column groups by their units."""

    target: GroupsTarget

    @cached_property
    def of_file(self) -> Mapping[str, tuple[int, int]]:
        """By path, the unit and the number of rows."""
        return units_of(self.target.snapshot.root, self.target.snapshot.files)

    @cached_property
    def rows(self) -> Counter[int]:
        """How many rows each unit has."""
        return self.rows_in(self.target.files_of_all_rows)

    def rows_in(self, files: Iterable[DataFile]) -> Counter[int]:
        """How many rows of each unit some files have."""
        rows: Counter[int] = Counter()
        for file in files:
            unit, count = self.of_file[file.path]
            rows[unit] += count
        return rows

    def files(self, units: Iterable[int], group: int | None = None) -> tuple[DataFile, ...]:
        """The files of some units, of one group or of all."""
        wanted = set(units)
        among = self.target.snapshot.files if group is None else self.target.files_of(group)
        return tuple(file for file in among if self.of_file[file.path][0] in wanted)


def put_together(rows: Mapping[int, int], unit_rows: int) -> list[tuple[int, ...]]:
    """Small units that fit into one, by their numbers: those that came first with each other.

    >>> put_together({1: 100, 2: 30, 3: 40, 4: 20, 5: 60, 6: 49}, 100)
    [(2, 3, 4)]
    """
    small = [unit for unit in sorted(rows) if rows[unit] < SMALL * unit_rows]
    packed: list[list[int]] = []
    filled = 0
    for unit in small:
        if not packed or filled + rows[unit] > unit_rows:
            packed.append([])
            filled = 0
        packed[-1].append(unit)
        filled += rows[unit]
    return [tuple(units) for units in packed if len(units) > 1]


@dataclass(frozen=True, slots=True)
class Merged:
    """Units that were put together in one commit."""

    version: int
    rows: int
    units: int
    blocks: int
    removed: int
    written: int
    last: bool
    """Whether nothing is left to be put together."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Units that are small, and whose rows are still too few."""

    rows: int
    files: int


def merge_units(
    spark: SparkSession, root: Location, watch: Watch, *, enough: int | None, every: bool, batch_bytes: int
) -> Iterator[Merged | Waiting]:
    """Put small units together, batch by batch, each a commit of its own; what waits comes last."""
    while True:
        done = with_retries(lambda: _merge_batch(spark, root, watch, enough, every, batch_bytes))
        if done is not None:
            yield done
        # A look at what was just committed could fail, and say of it that it was not done.
        if not isinstance(done, Merged) or done.last:
            return


def _merge_batch(
    spark: SparkSession, root: Location, watch: Watch, enough: int | None, every: bool, batch_bytes: int
) -> Merged | Waiting | None:
    session = groups_session(spark)
    target = open_groups(session, root)
    units = Units(target)
    packed = put_together(units.rows, target.unit_rows)
    if not packed:
        return None
    total = sum(units.rows[unit] for units_of_one in packed for unit in units_of_one)
    least = next(iter(target.plans.values())).spec.min_size * ENOUGH_BLOCKS if enough is None else enough
    if not every and total < least:
        return Waiting(total, len(units.files(unit for some in packed for unit in some)))
    chosen = _first_batch(packed, units, batch_bytes)
    fresh = balanced_units(len(chosen), target.groups.buckets, target.units)
    new_unit = {old: new for new, some in zip(fresh, chosen, strict=True) for old in some}
    files = units.files(new_unit)
    numbered = f.create_map(*(f.lit(number) for pair in new_unit.items() for number in pair))
    rows = every_grouped_row(session, target.table.only(files))
    rows = rows.withColumn(UNIT, numbered[f.col(UNIT)].cast("int"))
    made = write_groups(session, rows, target, source_bytes=sum(file.size for file in files), watch=watch)
    writes = {
        number: GroupWrite(group_state(session, target, number), units.files(new_unit, number), loaded.organized.files)
        for number, loaded in made.items()
    }
    expected: Counter[int] = Counter()
    for old, new in new_unit.items():
        expected[new] += units.rows[old]
    with dropped_on_error(writes):
        for write in writes.values():
            check_rows(write.state, write.state.only(write.removed), write.written)
        _check_units(target, writes, expected)
    version = commit_groups(target, writes, operation="OPTIMIZE", data_change=False, watch=watch)
    organized = [loaded.organized for loaded in made.values()]
    return Merged(
        version,
        sum(expected.values()),
        len(chosen),
        sum(one.blocks for one in organized),
        len(files),
        sum(len(one.files) for one in organized),
        len(chosen) == len(packed),
    )


ENOUGH_BLOCKS = 4
"""New rows are put together once they fill so many blocks."""


def _first_batch(packed: Sequence[tuple[int, ...]], units: Units, batch_bytes: int) -> list[tuple[int, ...]]:
    chosen: list[tuple[int, ...]] = []
    size = 0
    for some in packed:
        size += sum(file.size for file in units.files(some))
        if chosen and size > batch_bytes:
            break
        chosen.append(some)
    return chosen


def _check_units(target: GroupsTarget, writes: Mapping[int, GroupWrite], expected: Counter[int]) -> None:
    if check_units(target, writes) != expected:
        raise SidestepError(
            f"Rows of {target.root.uri} got lost, or came, while they were laid out anew. Nothing was committed, and "
            "the new files are gone."
        )


@dataclass(frozen=True)
class Regrouped:
    """A table in column groups that was laid out anew."""

    version: int
    target: GroupsTarget
    made: tuple[LoadedGroup, ...]
    removed: int
    chosen: ChosenGroups
    rows: int
    """Those of the table: a group may have some of them alone."""
    units: int


def group_drift(
    spark: SparkSession,
    root: Location,
    name: str | None,
    log: LogSource,
    tables: Mapping[str, Table] | None,
    dialect: str | None,
    watch: Watch,
) -> tuple[Drift, ChosenGroups, Mapping[str, float], float | None]:
    """How far the queries of a log have moved from those that a table in column groups was laid out for.

    Also the groups that would suit them, the widths of columns, and how many times cells may be stored.
    """
    target = open_groups(groups_session(spark), root)
    with watch.stage("analyze"):
        called, workload = read_log_of(spark, log, _names(name, target), target.schema, tables, dialect)
    with watch.stage("choose"):
        source = _source(spark, target, called)
        today = GroupsToday(target.table, target.index, source.types)
        expected = target.layouts[next(iter(target.plans))].expected
        storage = storage_budget(target)
        return *measure_group_drift(workload, source, today, storage, expected, watch.tell), storage


def storage_budget(target: GroupsTarget) -> float | None:
    """How many times the cells of a table may be stored; None: once.

    Of a table with copies of which that was not noted, it is as many times as they are stored.
    """
    if target.storage is not None or not any(plan.rows for plan in target.plans.values()):
        return target.storage
    units = Units(target)
    cells = sum(
        len(plan.columns) * sum(units.rows_in(target.files_of(number)).values())
        for number, plan in target.plans.items()
    )
    return noted_budget(cells / max(1, len(target.schema) * sum(units.rows.values())))


def choose_anew(
    spark: SparkSession,
    root: Location,
    name: str | None,
    log: LogSource,
    tables: Mapping[str, Table] | None,
    dialect: str | None,
    watch: Watch,
    storage: float | None,
) -> tuple[ChosenGroups, Mapping[str, float]]:
    """The groups that suit a log, for a table that is in column groups already; with copies within ``storage``."""
    target = open_groups(groups_session(spark), root)
    with watch.stage("analyze"):
        called, workload = read_log_of(spark, log, _names(name, target), target.schema, tables, dialect)
    with watch.stage("choose"):
        return choose_column_groups(workload, _source(spark, target, called), None, watch.tell, storage)


def _names(name: str | None, target: GroupsTarget) -> tuple[str, ...]:
    """What a log may call a table in column groups."""
    return names_in_logs(name, target.root.uri, target.root, next(iter(target.plans.values())).spec)


def _source(spark: SparkSession, target: GroupsTarget, name: str) -> ColumnSource:
    spec = next(iter(target.plans.values())).spec
    total = sum(Units(target).rows.values())
    rows = every_grouped_row(groups_session(spark), target.table).drop(UNIT, ROW_ID)
    types = data_columns(target.schema, ())
    return ColumnSource(rows, name, types, total, spec.min_size, target.unit_rows, float(max(1, total)))


def regroup(
    spark: SparkSession,
    root: Location,
    chosen: ChosenGroups,
    widths: Mapping[str, float],
    storage: float | None,
    watch: Watch,
) -> Regrouped:
    """Lay a table in column groups out in the groups that were chosen; one atomic commit.

    From now on its cells may be stored ``storage`` times.
    """
    return with_retries(lambda: _regroup(spark, root, chosen, widths, storage, watch))


def _regroup(
    spark: SparkSession,
    root: Location,
    chosen: ChosenGroups,
    widths: Mapping[str, float],
    storage: float | None,
    watch: Watch,
) -> Regrouped:
    session = groups_session(spark)
    old = open_groups(session, root)
    units = Units(old)
    target = replace(new_division(session, old, chosen), storage=storage)
    rows = every_grouped_row(session, old.table)
    made = write_groups(session, rows, target, source_bytes=old.snapshot.bytes, widths=widths, watch=watch)
    writes = {
        number: GroupWrite(group_state(session, target, number), (), loaded.organized.files)
        for number, loaded in made.items()
    }
    with dropped_on_error(writes):
        for number, write in writes.items():
            all_rows = write.state.only(old.files_of_all_rows) if target.plans[number].rows is None else None
            check_rows(write.state, all_rows, write.written)
        _check_units(target, writes, units.rows)
    version = commit_groups(
        target,
        writes,
        operation="OPTIMIZE",
        data_change=False,
        sidecars=True,
        replaced=old.snapshot.files,
        watch=watch,
    )
    removed, total = len(old.snapshot.files), sum(units.rows.values())
    return Regrouped(version, target, tuple(made.values()), removed, chosen, total, len(units.rows))


def new_division(spark: SparkSession, old: GroupsTarget, chosen: ChosenGroups) -> GroupsTarget:
    """The table with its columns in other groups, whose numbers come after all that there have been."""
    before = next(iter(old.plans.values())).spec
    spec = LayoutSpec(
        min_size=before.min_size,
        file_bytes=before.file_bytes,
        unit_rows=before.unit_rows,
        log_name=before.log_name,
    )
    first = len(old.groups.groups)
    plans = plan_groups(spark, old.schema, chosen, spec, first)
    groups = column_groups(old.groups.schema, plans, old.groups.buckets, old.groups)
    kept = {name: old.making.recipes.get(name, Recipe()) for name in data_columns(old.schema, ())}
    recipes = with_value_sets(kept, chosen.groups[0].layout.few_valued, ())
    return replace(
        old,
        plans=dict(enumerate(plans, first)),
        groups=groups,
        layouts=(*old.layouts, *(plan.spec for plan in plans)),
        filtered=chosen.filtered,
        making=replace(old.making, recipes=recipes),
    )
