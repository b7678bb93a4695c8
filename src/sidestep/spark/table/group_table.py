"""A table in column groups that rows come to, or are changed in: which groups it has, and how each is laid out.

A group may have some of the rows alone (partial replication): those for which at least one of some features is TRUE, or
those for which none is. Which these are is decided as bits of feature vectors are, by Spark, for each row that comes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from sidestep.advisor.layouts.choose import ChosenLayout
from sidestep.advisor.layouts.column_groups import ChosenGroups
from sidestep.errors import SidestepError, UnsupportedTable
from sidestep.layout.pages import PageOrder
from sidestep.predicate.columns import columns_of
from sidestep.spark.advise.source import Source, data_columns
from sidestep.spark.jvm.versions import arrow_schema
from sidestep.spark.organize.featurize import CheckedFeatures, check_feature_sets, no_features, warn_of, with_words
from sidestep.spark.organize.row_ids import NumberedFiles
from sidestep.spark.table.chosen import spec_of
from sidestep.spark.table.state import (
    TableState,
    added_synopses,
    open_table,
    stored_features,
)
from sidestep.store import DataFile, Location, Snapshot, TableIndex
from sidestep.store.block_column import BLOCK, block_name, with_block_column
from sidestep.store.commit.log_entry import has_version
from sidestep.store.index.grouped_table import GroupedTable, read_groups
from sidestep.store.index.index_file import FOLDER, index_folder
from sidestep.store.index.table_index import open_index
from sidestep.store.location import list_names
from sidestep.store.parquet.buckets import Bucketing
from sidestep.store.parquet.writer import BlockTarget
from sidestep.store.sidecars.column_groups import (
    COLUMN_GROUPS,
    GROUP,
    MARKER,
    ROW_ID,
    UNIT,
    ColumnGroups,
    GroupRows,
    inner_table,
)
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS
from sidestep.store.sidecars.layout import LayoutSpec, load_features
from sidestep.store.snapshots.delta import read_delta
from sidestep.store.snapshots.groups import has_groups
from sidestep.store.upkeep.group_ids import ids_of
from sidestep.synopsis.build import BuildPlan

MOST_BUCKETS = 512


@dataclass(frozen=True)
class PartRows:
    """Which rows a group has, where these are not all."""

    checked: CheckedFeatures
    """Those that satisfy at least one of these."""
    rest_of: int | None = None
    """Instead, those that satisfy none: the ones that the group of this number lacks."""

    def of(self, rows: DataFrame) -> DataFrame:
        """Those of some rows that are the group's."""
        words = self.checked.words
        some = f.lit(False)
        for name in words:
            some = some | (f.col(name) != 0)
        return with_words(rows, self.checked).where(some if self.rest_of is None else ~some).drop(*words)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that decide."""
        return frozenset(c.name for one in self.checked.features.features for c in columns_of(one.predicate))


@dataclass(frozen=True)
class GroupPlan:
    """What is to become of one group of columns."""

    columns: tuple[str, ...]
    checked: CheckedFeatures
    spec: LayoutSpec
    detail: str
    """How its rows are arranged, in words."""
    rows: PartRows | None = None
    """None: all rows."""
    beside: frozenset[str] | None = None
    """The columns of other groups that blocks are to know of rows that come now; None: all that queries filter."""


def check_group_names(source: Source) -> None:
    """Refuse a table with a column that has the name of one that groups are joined or told apart by."""
    for name in source.schema.names:
        if name.lower() in (GROUP, UNIT, ROW_ID):
            raise UnsupportedTable(
                f"{source.path} has a column {name}, a name that column groups need for themselves: rename it first, "
                "or load the table without layout='gsop'."
            )


def check_free(target: Location) -> None:
    """Refuse a folder with something in it, unless that is what a load left that never came to its commit."""
    inner = inner_table(target)
    if has_version(inner):
        raise SidestepError(
            f"There is a table in column groups at {target.uri} already, which cannot be laid out anew in its place: "
            "give a folder that is empty or not there."
        )
    if any(name not in (FOLDER, MARKER) for name in list_names(target)):
        raise SidestepError(f"There is something at {target.uri} already: give a folder that is empty or not there.")


def plan_groups(
    spark: SparkSession, schema: StructType, chosen: ChosenGroups, spec: LayoutSpec, first: int = 0
) -> list[GroupPlan]:
    """How each group is to be written, with the features that can be used here; they get numbers from ``first`` on."""
    plans: list[GroupPlan] = []
    # Most features are of several groups.
    partial = [group.rows for group in chosen.groups if group.rows is not None and group.rest_of is None]
    sets = check_feature_sets(spark, [*(group.layout.features for group in chosen.groups), *partial], schema)
    warn_of(one for checked in sets for one in checked.left_out)
    arranging, selecting = sets[: len(chosen.groups)], iter(sets[len(chosen.groups) :])
    for group, checked in zip(chosen.groups, arranging, strict=True):
        made = spec_of(ChosenLayout(replace(group.layout, by=UNIT), (), 0, ""), checked, spec)
        made = replace(made, expected=chosen.cost)
        rows = None
        if group.rows is not None:
            # Partners have the same features in common: those that one of them has, the other has not.
            other = None if group.rest_of is None else plans[group.rest_of].rows
            features = next(selecting) if other is None else other.checked
            rows = PartRows(features, None if group.rest_of is None else first + group.rest_of)
        detail = f"{group.layout.family}: {group.layout.detail}"
        plans.append(GroupPlan(group.columns, checked, made, detail, rows, group.beside))
    return plans


def column_groups(
    schema: str, plans: Sequence[GroupPlan], buckets: int, before: ColumnGroups | None = None
) -> ColumnGroups:
    """What is noted of groups that are about to be written, after those that there were before."""
    first = 0 if before is None else len(before.groups)
    rows = {} if before is None else dict(before.rows)
    for number, plan in enumerate(plans, first):
        if plan.rows is not None:
            rows[number] = GroupRows(plan.rows.checked.features.id, plan.rows.rest_of)
    groups = tuple(plan.columns for plan in plans)
    return ColumnGroups(schema, groups if before is None else (*before.groups, *groups), buckets, first, rows)


@dataclass(frozen=True)
class GroupsTarget:
    """A table in column groups that rows come to, or are changed in."""

    root: Location
    """The folder that users know."""
    snapshot: Snapshot
    """The inner table; without a version if it is about to be created."""
    index: TableIndex
    """That of the inner table."""
    schema: StructType
    """The columns as users see them."""
    plans: Mapping[int, GroupPlan]
    """The groups that rows come to, by their numbers."""
    groups: ColumnGroups
    """All groups that there are or have been."""
    layouts: tuple[LayoutSpec, ...]
    """How these are laid out."""
    filtered: tuple[str, ...]
    """Columns that blocks of every group may know, whether the group holds them or not."""
    making: BuildPlan
    unit_rows: int
    units: tuple[int, ...] = ()
    """Those that the table has."""
    next_id: int = 0
    """The first row id that no row has."""
    storage: float | None = None
    """How many times its cells may be stored; None: once, or nothing was noted."""
    noted: tuple[str, ...] = ()
    """The sidecars that said which columns its groups have when it was opened."""

    @property
    def table(self) -> GroupedTable:
        """The table as it is read."""
        return GroupedTable(self.root, self.groups, self.snapshot, tuple(self.plans))

    def files_of(self, group: int) -> tuple[DataFile, ...]:
        """The files of one group."""
        return tuple(file for file in self.snapshot.files if dict(file.partition).get(GROUP) == str(group))

    @property
    def complete(self) -> tuple[int, ...]:
        """The groups whose columns every row has, with the help of a partner or without."""
        return self.groups.complete(tuple(self.plans))

    @property
    def files_of_all_rows(self) -> tuple[DataFile, ...]:
        """Files that have a part of each row, once: those of a group of all rows, or of two partners."""
        return self.table.files_of(self.complete[0])


@dataclass(frozen=True)
class GroupsState(TableState):
    """A table in column groups that is about to be changed: as the files of its first group are written to it."""

    groups: GroupsTarget = field(kw_only=True)

    @property
    def table(self) -> Location:
        return self.groups.root


def new_groups(
    spark: SparkSession,
    source: Source,
    files: NumberedFiles,
    target: Location,
    plans: Sequence[GroupPlan],
    filtered: Sequence[str],
    making: BuildPlan,
    unit_rows: int,
    storage: float | None = None,
) -> GroupsTarget:
    """A table in column groups that is about to be created."""
    inner = inner_table(target)
    snapshot = Snapshot(inner, "delta", None, (), (GROUP,), inner_schema(source.schema))
    buckets = min(MOST_BUCKETS, max(units_for(files, unit_rows), spark.sparkContext.defaultParallelism))
    groups = column_groups(source.schema.json(), plans, buckets)
    return GroupsTarget(
        target,
        snapshot,
        open_index(inner),
        source.schema,
        dict(enumerate(plans)),
        groups,
        tuple(plan.spec for plan in plans),
        tuple(filtered),
        making,
        unit_rows,
        storage=storage,
        noted=COLUMN_GROUPS.names(index_folder(inner)),
    )


def open_groups(spark: SparkSession, root: Location) -> GroupsTarget:
    """The newest version of a table in column groups, with all that is needed to add rows to it."""
    noted = COLUMN_GROUPS.names(index_folder(inner_table(root)))
    table = read_groups(root)
    if table is None:
        raise SidestepError(f"{root.uri} is no longer in column groups: it was put into another layout. Try again.")
    inner = table.snapshot.root
    index = open_index(inner)
    groups, stored = table.groups, GROUP_LAYOUTS.load(index.folder)
    # Layouts are noted first: those of groups that never came, or are about to, may be among them.
    if stored is None or len(groups.groups) > len(stored.layouts):
        raise SidestepError(f"{inner.uri} is damaged: nothing there says how its column groups are laid out.")
    schema = StructType.fromJson(json.loads(groups.schema))
    arranging = {at: stored_features(index.folder, stored.layouts[at].features) for at in table.live}
    selecting = {at: load_features(index.folder, groups.rows[at].features) for at in table.live if at in groups.rows}
    sets = list({one.id: one for one in (*arranging.values(), *selecting.values()) if one is not None}.values())
    checked = dict(zip((one.id for one in sets), check_feature_sets(spark, sets, schema), strict=True))
    nothing = no_features(root.name)
    plans = {}
    for number in table.live:
        features, some = arranging[number], selecting.get(number)
        arranged = nothing if features is None else checked[features.id]
        warn_of(arranged.left_out)
        rows = _stored_rows(table, number, None if some is None else checked[some.id])
        plans[number] = GroupPlan(groups.groups[number], arranged, stored.layouts[number], "", rows)
    ids = ids_of(table)
    return GroupsTarget(
        root,
        table.snapshot,
        index,
        schema,
        plans,
        groups,
        stored.layouts[: len(groups.groups)],
        tuple(name for name in stored.filtered if name in schema.names),
        added_synopses(index, data_columns(schema, ()), None),
        stored.layouts[table.live[0]].unit_rows,
        ids.units,
        ids.greatest + 1,
        stored.storage,
        noted,
    )


def _stored_rows(table: GroupedTable, number: int, checked: CheckedFeatures | None) -> PartRows | None:
    """Which rows a group has, by features that were checked; an error if new rows cannot be told in this session."""
    some = table.groups.rows.get(number)
    if some is None:
        return None
    if checked is None or checked.left_out:
        why = "its features are gone" if checked is None else checked.left_out[0].reason
        raise SidestepError(
            f"Column group {number} of {table.root.uri} has copies of some rows, and which of other rows it is to have "
            f"cannot be told in this session ({why}): use the settings and functions that the table was loaded with."
        )
    return PartRows(checked, some.rest_of)


def open_any(spark: SparkSession, root: Location, index_dir: str | os.PathLike[str] | None = None) -> TableState:
    """The newest version of a table, to change rows of it: of one in column groups a :class:`GroupsState`."""
    if not has_groups(root):
        return open_table(spark, root, index_dir)
    refuse_index_dir(root, index_dir)
    return changed_state(spark, open_groups(spark, root))


def changed_state(spark: SparkSession, target: GroupsTarget) -> GroupsState:
    """A table in column groups as others know a table that is about to be changed."""
    first = group_state(spark, target, next(iter(target.plans)))
    return GroupsState(
        first.snapshot, first.index, first.schema, first.spec, first.checked, first.target, groups=target
    )


def refuse_index_dir(root: Location, index_dir: str | os.PathLike[str] | None) -> None:
    """Refuse an index in another place: the one of column groups is part of the table."""
    if index_dir is not None:
        raise SidestepError(f"{root.uri} is in column groups, which keep their index: leave index_dir out.")


def columns_of_table(root: Location) -> StructType:
    """The columns of the table at a place, in column groups or not, hidden ones included."""
    inner = inner_table(root) if has_groups(root) else root
    return StructType.fromJson(json.loads(read_delta(inner).schema or "{}"))


def units_for(files: NumberedFiles, unit_rows: int) -> int:
    """How many units the rows of files make."""
    return max(1, -(-files.end // unit_rows))


def inner_schema(schema: StructType) -> str:
    """The columns of the inner table: all may be NULL, as each file lacks those of other groups."""
    fields = [StructField(field.name, field.dataType, True, field.metadata) for field in schema.fields]
    joined = [
        StructField(UNIT, IntegerType(), False),
        StructField(ROW_ID, LongType(), False),
        StructField(GROUP, IntegerType(), False),
    ]
    return with_block_column(StructType([*fields, *joined]).json())


def group_state(
    spark: SparkSession, table: GroupsTarget, group: int, beside: frozenset[str] | None = None
) -> TableState:
    """The inner table as the files of one group are written to it.

    Of the columns of other groups, its blocks know those ``beside``, or else all that queries filter.
    """
    snapshot, plan = table.snapshot, table.plans[group]
    assert snapshot.schema is not None
    stored = StructType.fromJson(json.loads(snapshot.schema))
    held = StructType([stored[name] for name in (*plan.columns, UNIT, ROW_ID)])
    others = [name for name in table.filtered if name not in plan.columns and (beside is None or name in beside)]
    known = StructType([stored[name] for name in others])
    features = plan.checked.features
    target = BlockTarget(
        root=snapshot.root.uri,
        schema=arrow_schema(held),
        columns=data_columns(StructType([*held.fields, *known.fields]), ()),
        min_size=plan.spec.min_size,
        pages=PageOrder(plan.spec.page_order, plan.spec.page_share).restrict(plan.columns),
        features=len(features),
        features_id=features.id if len(features) else None,
        partition_columns=(GROUP,),
        making=table.making,
        block=block_name(snapshot.schema) or BLOCK,
        spark_version=spark.version,
        beside=arrow_schema(known),
        bucketing=Bucketing(UNIT, table.groups.buckets),
        counter=ROW_ID,
    )
    return TableState(snapshot, table.index, table.schema, plan.spec, plan.checked, target)
