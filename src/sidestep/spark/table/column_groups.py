"""Loading a table into column groups: each group of columns is laid out by its own means, and all come in one commit.

The source is read once or twice for each group, and only the columns that the group needs. What holds the parts of a
row together are row ids and units, which depend on nothing but where the row is in the source
(:mod:`sidestep.spark.organize.row_ids`). So the source must be the same each time: its files are listed again at the
end, rows are counted for every group and unit, and if anything differs nothing is committed.

Blocks of every group know what their rows hold in all columns that queries filter, whether the group has them or not.
Rows that come later are laid out like the others, in units of their own.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyarrow.fs import FileType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from sidestep.advisor.layouts.choose import ChosenLayout
from sidestep.advisor.layouts.column_groups import ChosenGroups
from sidestep.errors import Conflict, SidestepError, UnsupportedTable
from sidestep.layout.placement import GREATEST_ID
from sidestep.spark.advise.source import Source, data_columns
from sidestep.spark.organize.featurize import CheckedFeatures, check_features, no_features
from sidestep.spark.organize.organize import Organized, organize
from sidestep.spark.organize.row_ids import NumberedFiles
from sidestep.spark.organize.write import arrow_schema
from sidestep.spark.progress import Watch
from sidestep.spark.relation import read_every_row
from sidestep.spark.table.chosen import spec_of
from sidestep.spark.table.state import (
    TableState,
    added_synopses,
    check_rows,
    commit_version,
    committed,
    delete_files,
    stored_features,
)
from sidestep.store import Location, Snapshot, append_blocks, read_snapshot
from sidestep.store.block_column import BLOCK, block_name, with_block_column
from sidestep.store.commit.log_entry import begin_log, has_version
from sidestep.store.index.index_file import FOLDER
from sidestep.store.index.table_index import open_index
from sidestep.store.location import list_names, open_file, write_addressed
from sidestep.store.parquet.buckets import Bucketing, balanced_units
from sidestep.store.parquet.writer import BlockTarget, WrittenFile
from sidestep.store.sidecars.column_groups import (
    COLUMN_GROUPS,
    GROUP,
    MARKER,
    ROW_ID,
    UNIT,
    ColumnGroups,
    inner_table,
)
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS, GroupLayouts
from sidestep.store.sidecars.layout import LayoutSpec, save_features
from sidestep.store.snapshots.delta import read_delta
from sidestep.store.upkeep.compact import compact
from sidestep.store.upkeep.group_ids import ids_of
from sidestep.synopsis.build import BuildPlan

MOST_BUCKETS = 512
MARKER_TEXT = """This is no Parquet file. The table in this folder is kept in column groups, under _sidestep/groups, and
its rows can be put together by sidestep alone:

    import sidestep
    sidestep.enable(spark)
    sidestep.read(spark, "path of this folder")

Nothing in this folder is to be moved or deleted, this file included.
"""


@dataclass(frozen=True)
class GroupPlan:
    """What is to become of one group of columns."""

    columns: tuple[str, ...]
    checked: CheckedFeatures
    spec: LayoutSpec
    detail: str
    """How its rows are arranged, in words."""


@dataclass(frozen=True)
class LoadedGroup:
    """What became of it."""

    plan: GroupPlan
    organized: Organized


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


def plan_groups(spark: SparkSession, source: Source, chosen: ChosenGroups, spec: LayoutSpec) -> list[GroupPlan]:
    """How each group is to be written, with the features that can be used here."""
    plans = []
    for group in chosen.groups:
        checked = check_features(spark, group.layout.features, source.schema)
        made = spec_of(ChosenLayout(replace(group.layout, by=UNIT), (), 0, ""), checked, spec)
        plans.append(GroupPlan(group.columns, checked, made, f"{group.layout.family}: {group.layout.detail}"))
    return plans


@dataclass(frozen=True)
class GroupsTarget:
    """A table in column groups that rows come to."""

    snapshot: Snapshot
    """The inner table; without a version if it is about to be created."""
    schema: StructType
    """The columns as users see them."""
    plans: tuple[GroupPlan, ...]
    filtered: tuple[str, ...]
    making: BuildPlan
    unit_rows: int
    buckets: int
    units: tuple[int, ...] = ()
    """Those that the table has."""
    next_id: int = 0
    """The first row id that no row has."""


def new_groups(
    spark: SparkSession,
    source: Source,
    files: NumberedFiles,
    target: Location,
    plans: Sequence[GroupPlan],
    filtered: Sequence[str],
    making: BuildPlan,
    unit_rows: int,
) -> GroupsTarget:
    """A table in column groups that is about to be created."""
    snapshot = Snapshot(inner_table(target), "delta", None, (), (GROUP,), inner_schema(source.schema))
    buckets = min(MOST_BUCKETS, max(_units(files, unit_rows), spark.sparkContext.defaultParallelism))
    return GroupsTarget(snapshot, source.schema, tuple(plans), tuple(filtered), making, unit_rows, buckets)


def open_groups(spark: SparkSession, root: Location) -> GroupsTarget:
    """The newest version of a table in column groups, with all that is needed to add rows to it."""
    inner = inner_table(root)
    snapshot, index = read_delta(inner), open_index(inner)
    groups, stored = COLUMN_GROUPS.load(index.folder), GROUP_LAYOUTS.load(index.folder)
    if groups is None or stored is None or len(groups.groups) != len(stored.layouts):
        raise SidestepError(f"{inner.uri} is damaged: nothing there says which columns lie in which group, and how.")
    schema = StructType.fromJson(json.loads(groups.schema))
    plans = []
    for columns, spec in zip(groups.groups, stored.layouts, strict=True):
        features = stored_features(index.folder, spec.features)
        checked = no_features(root.name) if features is None else check_features(spark, features, schema)
        plans.append(GroupPlan(columns, checked, spec, ""))
    ids = ids_of(inner, snapshot.files)
    return GroupsTarget(
        snapshot,
        schema,
        tuple(plans),
        tuple(name for name in stored.filtered if name in schema.names),
        added_synopses(index, data_columns(schema, ()), None),
        stored.layouts[0].unit_rows,
        groups.buckets,
        ids.units,
        ids.greatest + 1,
    )


def write_groups(
    spark: SparkSession,
    files: NumberedFiles,
    source: Snapshot,
    target: GroupsTarget,
    *,
    widths: Mapping[str, float] | None = None,
    operation: str,
    rates: Mapping[str, float] | None = None,
    watch: Watch,
) -> tuple[list[LoadedGroup], TableState, int]:
    """Write rows to the groups of a table and commit them all at once; what became of each group, and the version.

    The rows are in new units with new ids. Two writers could choose the same, so the commit depends on the version that
    was read.
    """
    fresh = balanced_units(_units(files, target.unit_rows), target.buckets, target.units)
    rows = files.with_ids(target.unit_rows, fresh, target.next_id)
    created = target.snapshot.version is None
    if created:
        begin_log(target.snapshot.root)
    made: list[LoadedGroup] = []
    states = [group_state(spark, target, plan) for plan in target.plans]
    first = states[0].reserve()
    try:
        for number, (plan, state) in enumerate(zip(target.plans, states, strict=True)):
            watch.tell(f"group {number + 1} of {len(states)}")
            organized = organize(
                rows.withColumn(GROUP, f.lit(number)),
                plan.checked,
                plan.spec,
                state.target,
                first_block=first,
                source_bytes=_share(source, plan.columns, target.schema.names, widths or {}),
                watch=watch,
            )
            made.append(LoadedGroup(plan, organized))
            first = _next_block(organized.files, first)
        with watch.stage("index"):
            check_groups(source, states, made)
            if created:
                _save_sidecars(states[0], target)
            entries = _append_entries(states[0], made, target.making, rates)
    except (SidestepError, OSError):
        for loaded in made:
            delete_files(states[0], loaded.organized.files)
        raise
    written = [file for loaded in made for file in loaded.organized.files]
    with watch.stage("commit"):
        version = commit_version(states[0], written, (), entries, operation, True, depends=not created)
        with committed(states[0], version, "its index could not be tidied up"):
            compact(states[0].index.refreshed(), replace(target.snapshot, whole=False))
    return made, states[0], version


def append_to_groups(
    spark: SparkSession, root: Location, rows: DataFrame, source: Snapshot | None, watch: Watch
) -> tuple[TableState, int, list[WrittenFile]]:
    """Add rows to a table in column groups, in new units that are laid out as the others are.

    Without a ``source``, because rows do not come from files as they are, they are put into files first: each group
    reads them anew, and has to read the same.
    """
    target = open_groups(spark, root)
    if source is None:
        place = inner_table(root).child(FOLDER).child(f"_staged-{uuid.uuid4().hex}")
        try:
            with watch.stage("stage"):
                rows.write.parquet(place.uri)
            staged, snapshot = read_every_row(spark, place.uri)
            return append_to_groups(spark, root, staged, snapshot, watch)
        finally:
            if place.filesystem.get_file_info(place.path).type != FileType.NotFound:
                place.filesystem.delete_dir(place.path)
    with watch.stage("count"):
        files = NumberedFiles(rows)
    if not files.total:
        assert target.snapshot.version is not None
        return group_state(spark, target, target.plans[0]), target.snapshot.version, []
    made, state, version = write_groups(spark, files, source, target, operation="WRITE", watch=watch)
    return state, version, [file for loaded in made for file in loaded.organized.files]


def _units(files: NumberedFiles, unit_rows: int) -> int:
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


def group_state(spark: SparkSession, table: GroupsTarget, plan: GroupPlan) -> TableState:
    """The inner table as the files of one group are written to it."""
    snapshot = table.snapshot
    assert snapshot.schema is not None
    stored = StructType.fromJson(json.loads(snapshot.schema))
    held = StructType([stored[name] for name in (*plan.columns, UNIT, ROW_ID)])
    beside = StructType([stored[name] for name in table.filtered if name not in plan.columns])
    features = plan.checked.features
    target = BlockTarget(
        root=snapshot.root.uri,
        schema=arrow_schema(held),
        columns=data_columns(StructType([*held.fields, *beside.fields]), ()),
        min_size=plan.spec.min_size,
        features=len(features),
        features_id=features.id if len(features) else None,
        partition_columns=(GROUP,),
        making=table.making,
        block=block_name(snapshot.schema) or BLOCK,
        spark_version=spark.version,
        beside=arrow_schema(beside),
        bucketing=Bucketing(UNIT, table.buckets),
        counter=ROW_ID,
    )
    return TableState(snapshot, open_index(snapshot.root), table.schema, plan.spec, plan.checked, target)


def _share(source: Snapshot, columns: Sequence[str], all_columns: Sequence[str], widths: Mapping[str, float]) -> int:
    """About how many bytes of the source are of some columns."""
    total = sum(widths.get(name, 1.0) for name in all_columns)
    return round(source.bytes * sum(widths.get(name, 1.0) for name in columns) / total) if total else 0


def _next_block(written: Sequence[WrittenFile], first: int) -> int:
    """The first block id after those of some files: ids are unique over all groups."""
    last = max((id for file in written for id in file.index["block"].to_pylist() if id is not None), default=first - 1)
    if last >= GREATEST_ID:
        raise SidestepError(f"The table would need block ids above {GREATEST_ID:,}: choose a larger min_size.")
    return last + 1


def check_groups(source: Snapshot, states: Sequence[TableState], made: Sequence[LoadedGroup]) -> None:
    """Raise an error unless every group has all rows of the source, in the same units, and the source is as it was."""
    units = []
    for state, loaded in zip(states, made, strict=True):
        check_rows(state, source, loaded.organized.files)
        rows: Counter[int] = Counter()
        for file in loaded.organized.files:
            bounds = zip(file.index[f"lower:{UNIT}"].to_pylist(), file.index["rows"].to_pylist(), strict=True)
            for unit, count in bounds:
                rows[unit] += count
        units.append(rows)
    if any(rows != units[0] for rows in units):
        raise Conflict(f"The column groups of {source.root.uri} have different rows: it was changed. Try again.")
    if source.format == "parquet" and read_snapshot(source.root).files != source.files:
        raise Conflict(f"{source.root.uri} was changed while it was read once for each column group. Try again.")


def _save_sidecars(state: TableState, table: GroupsTarget) -> None:
    """Note what the table's groups are, for all who read it and add to it."""
    folder = state.index.folder
    for plan in table.plans:
        if len(plan.checked.features):
            save_features(folder, plan.checked.features)
    columns = tuple(plan.columns for plan in table.plans)
    COLUMN_GROUPS.save(folder, ColumnGroups(table.schema.json(), columns, table.buckets))
    GROUP_LAYOUTS.save(folder, GroupLayouts(tuple(plan.spec for plan in table.plans), table.filtered))
    write_marker(state.root.parent.parent)


def _append_entries(
    state: TableState, made: Sequence[LoadedGroup], making: BuildPlan, rates: Mapping[str, float] | None
) -> tuple[Location, ...]:
    schema = StructType.fromJson(json.loads(state.snapshot.schema or "{}"))
    blocks = [file.index for loaded in made for file in loaded.organized.files]
    return append_blocks(state.index.folder, blocks, data_columns(schema, (GROUP,)), making, rates) if blocks else ()


def write_marker(root: Location) -> None:
    """Put the file there that tells readers without sidestep what they have before them."""
    location, text = root.child(MARKER), MARKER_TEXT.encode()
    write_addressed(location, text, lambda: _read_bytes(location) == text)


def _read_bytes(location: Location) -> bytes | None:
    try:
        with open_file(location) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return None
