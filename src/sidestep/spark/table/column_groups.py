"""Loading a table into column groups: each group of columns is laid out by its own means, and all come in one commit.

The source is read once or twice for each group, and only the columns that the group needs. What holds the parts of a
row together are row ids and units, which depend on nothing but where the row is in the source
(:mod:`sidestep.spark.organize.row_ids`). So the source must be the same each time: its files are listed again at the
end, rows are counted for every group and unit, and if anything differs nothing is committed.

Blocks of every group know what their rows hold in all columns that queries filter, whether the group has them or not.
Rows that come later are laid out like the others, in units of their own.

A group may have some of the rows alone (partial replication): those for which at least one of some features is TRUE, or
those for which none is. Which these are is decided as bits of feature vectors are, by Spark, for each row that comes.
"""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyarrow.fs import FileType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from sidestep.advisor.layouts.choose import ChosenLayout
from sidestep.advisor.layouts.column_groups import ChosenGroups
from sidestep.errors import Conflict, SidestepError, UnsupportedTable
from sidestep.layout.placement import GREATEST_ID
from sidestep.predicate.columns import columns_of
from sidestep.spark.advise.source import Source, data_columns
from sidestep.spark.jvm.versions import arrow_schema
from sidestep.spark.organize.featurize import CheckedFeatures, check_features, no_features, with_words
from sidestep.spark.organize.organize import Organized, organize
from sidestep.spark.organize.row_ids import NumberedFiles
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
    open_table,
    stored_features,
)
from sidestep.store import DataFile, Location, Snapshot, TableIndex, append_blocks, read_snapshot
from sidestep.store.block_column import BLOCK, block_name, with_block_column
from sidestep.store.commit.log_entry import begin_log, has_version
from sidestep.store.index.grouped_table import GroupedTable, read_groups
from sidestep.store.index.index_file import FOLDER
from sidestep.store.index.table_index import open_index
from sidestep.store.location import list_names, make_folder, open_file, write_addressed
from sidestep.store.parquet.buckets import Bucketing, balanced_units
from sidestep.store.parquet.writer import BlockTarget, WrittenFile
from sidestep.store.sidecars.column_groups import (
    COLUMN_GROUPS,
    GROUP,
    MARKER,
    ROW_ID,
    STAGED,
    UNIT,
    ColumnGroups,
    GroupRows,
    inner_table,
)
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS, GroupLayouts
from sidestep.store.sidecars.layout import LayoutSpec, load_features, save_features
from sidestep.store.snapshots.delta import read_delta
from sidestep.store.snapshots.groups import has_groups
from sidestep.store.upkeep.compact import compact
from sidestep.store.upkeep.group_ids import ids_of
from sidestep.synopsis.build import BuildPlan

MOST_BUCKETS = 512
MARKER_TEXT = """This is no Parquet file. The table in this folder is kept in column groups, under _sidestep/groups, and
its rows can be put together by sidestep alone:

    import sidestep
    sidestep.enable(spark)
    sidestep.read(spark, "path of the folder that has _sidestep in it")

Nothing in these folders is to be moved or deleted, this file included.
"""


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


@dataclass(frozen=True)
class LoadedGroup:
    """What became of it."""

    number: int
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


def plan_groups(
    spark: SparkSession, schema: StructType, chosen: ChosenGroups, spec: LayoutSpec, first: int = 0
) -> list[GroupPlan]:
    """How each group is to be written, with the features that can be used here; they get numbers from ``first`` on."""
    plans: list[GroupPlan] = []
    for group in chosen.groups:
        checked = check_features(spark, group.layout.features, schema)
        made = spec_of(ChosenLayout(replace(group.layout, by=UNIT), (), 0, ""), checked, spec)
        rows = None
        if group.rows is not None:
            # Partners have the same features in common: those that one of them has, the other has not.
            other = None if group.rest_of is None else plans[group.rest_of].rows
            features = check_features(spark, group.rows, schema) if other is None else other.checked
            rows = PartRows(features, None if group.rest_of is None else first + group.rest_of)
        plans.append(GroupPlan(group.columns, checked, made, f"{group.layout.family}: {group.layout.detail}", rows))
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
    making: BuildPlan
    unit_rows: int
    units: tuple[int, ...] = ()
    """Those that the table has."""
    next_id: int = 0
    """The first row id that no row has."""

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
) -> GroupsTarget:
    """A table in column groups that is about to be created."""
    inner = inner_table(target)
    snapshot = Snapshot(inner, "delta", None, (), (GROUP,), inner_schema(source.schema))
    buckets = min(MOST_BUCKETS, max(_units(files, unit_rows), spark.sparkContext.defaultParallelism))
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
    )


def open_groups(spark: SparkSession, root: Location) -> GroupsTarget:
    """The newest version of a table in column groups, with all that is needed to add rows to it."""
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
    plans = {}
    for number in table.live:
        spec = stored.layouts[number]
        features = stored_features(index.folder, spec.features)
        checked = no_features(root.name) if features is None else check_features(spark, features, schema)
        rows = _stored_rows(spark, table, index, number, schema)
        plans[number] = GroupPlan(groups.groups[number], checked, spec, "", rows)
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
    )


def _stored_rows(
    spark: SparkSession, table: GroupedTable, index: TableIndex, number: int, schema: StructType
) -> PartRows | None:
    """Which rows a group has; an error if that cannot be told of new rows in this session."""
    some = table.groups.rows.get(number)
    if some is None:
        return None
    features = load_features(index.folder, some.features)
    checked = None if features is None else check_features(spark, features, schema, warn=False)
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


@dataclass(frozen=True)
class GroupWrite:
    """What becomes of one group in one commit."""

    state: TableState
    removed: tuple[DataFile, ...]
    written: tuple[WrittenFile, ...]
    deleted: int = 0
    """How many of the rows of the files that are removed go."""
    inserted: int = 0
    """How many rows of those that are written are new."""


def write_groups(
    spark: SparkSession,
    rows: DataFrame,
    target: GroupsTarget,
    *,
    source_bytes: int,
    widths: Mapping[str, float] | None = None,
    first: int | None = None,
    watch: Watch,
) -> dict[int, LoadedGroup]:
    """Write rows, each with its unit and its id, to all groups of a table; nothing is committed.

    Block ids begin with ``first``, or with the first that is free.
    """
    made: dict[int, LoadedGroup] = {}
    states = {number: group_state(spark, target, number) for number in target.plans}
    block = next(iter(states.values())).reserve() if first is None else first
    try:
        for at, (number, state) in enumerate(states.items()):
            watch.tell(f"group {at + 1} of {len(states)}")
            plan = target.plans[number]
            mine = rows if plan.rows is None else plan.rows.of(rows)
            organized = organize(
                mine.withColumn(GROUP, f.lit(number)),
                plan.checked,
                plan.spec,
                state.target,
                first_block=block,
                source_bytes=_share(source_bytes, plan.columns, target.schema.names, widths or {}),
                watch=watch,
            )
            made[number] = LoadedGroup(number, plan, organized)
            block = next_free(organized.files, block)
    except (SidestepError, OSError):
        for number, loaded in made.items():
            delete_files(states[number], loaded.organized.files)
        raise
    return made


def commit_groups(
    target: GroupsTarget,
    writes: Mapping[int, GroupWrite],
    *,
    operation: str,
    data_change: bool,
    rates: Mapping[str, float] | None = None,
    sidecars: bool = False,
    replaced: Sequence[DataFile] = (),
    watch: Watch,
) -> int:
    """Make what was written to all groups part of the table as one version, in place of what is removed.

    Rows are counted before, by the caller. Nothing else may have been committed since the table was read: ids and units
    are chosen by it, and which groups it has. With ``sidecars`` it is noted first what the groups are. ``replaced`` are
    files of groups that are no longer part of the table.
    """
    state = next(iter(writes.values())).state
    written = [file for write in writes.values() for file in write.written]
    removed = [*(file for write in writes.values() for file in write.removed), *replaced]
    with watch.stage("index"), dropped_on_error(writes):
        if sidecars:
            _save_sidecars(target)
        entries = _append_entries(target, written, rates)
    with watch.stage("commit"):
        version = commit_version(state, written, removed, entries, operation, data_change, depends=True, alone=True)
        with committed(state, version, "its index could not be tidied up"):
            compact(state.index.refreshed(), replace(target.snapshot, whole=False))
    return version


def create_groups(
    spark: SparkSession,
    files: NumberedFiles,
    source: Snapshot,
    target: GroupsTarget,
    *,
    widths: Mapping[str, float] | None = None,
    operation: str,
    rates: Mapping[str, float] | None = None,
    watch: Watch,
) -> tuple[list[LoadedGroup], int]:
    """Write rows of files to all groups of a table and commit them at once; what became of each, and the version."""
    created = target.snapshot.version is None
    if created:
        begin_log(target.snapshot.root)
    made = write_groups(spark, new_rows(files, target), target, source_bytes=source.bytes, widths=widths, watch=watch)
    writes = {
        number: GroupWrite(group_state(spark, target, number), (), loaded.organized.files)
        for number, loaded in made.items()
    }
    with dropped_on_error(writes):
        for number, write in writes.items():
            check_rows(write.state, source if target.plans[number].rows is None else None, write.written)
        check_units(target, writes, files.total)
        check_same(source)
    version = commit_groups(
        target, writes, operation=operation, data_change=True, rates=rates, sidecars=created, watch=watch
    )
    return list(made.values()), version


def new_rows(files: NumberedFiles, target: GroupsTarget) -> DataFrame:
    """The rows of files, in units and with ids that the table does not have."""
    fresh = balanced_units(_units(files, target.unit_rows), target.groups.buckets, target.units)
    return files.with_ids(target.unit_rows, fresh, target.next_id)


def append_to_groups(
    spark: SparkSession, root: Location, rows: DataFrame, source: Snapshot | None, watch: Watch
) -> tuple[GroupsState, int, list[WrittenFile]]:
    """Add rows to a table in column groups, in new units that are laid out as the others are.

    Without a ``source``, because rows do not come from files as they are, they are put into files first: each group
    reads them anew, and has to read the same.
    """
    if source is None:
        with staged(spark, root, rows, watch) as (kept, snapshot):
            return append_to_groups(spark, root, kept, snapshot, watch)
    target = open_groups(spark, root)
    state = changed_state(spark, target)
    with watch.stage("count"):
        files = NumberedFiles(rows)
    if not files.total:
        assert target.snapshot.version is not None
        return state, target.snapshot.version, []
    made, version = create_groups(spark, files, source, target, operation="WRITE", watch=watch)
    return state, version, [file for loaded in made for file in loaded.organized.files]


@contextmanager
def staged(spark: SparkSession, root: Location, rows: DataFrame, watch: Watch) -> Iterator[tuple[DataFrame, Snapshot]]:
    """Rows in files, where each group can read the same; they are gone afterwards."""
    place = inner_table(root).child(FOLDER).child(f"{STAGED}{uuid.uuid4().hex}")
    try:
        with watch.stage("stage"):
            rows.write.parquet(place.uri)
        yield read_every_row(spark, place.uri)
    finally:
        if place.filesystem.get_file_info(place.path).type != FileType.NotFound:
            place.filesystem.delete_dir(place.path)


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


def group_state(spark: SparkSession, table: GroupsTarget, group: int) -> TableState:
    """The inner table as the files of one group are written to it."""
    snapshot, plan = table.snapshot, table.plans[group]
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
        bucketing=Bucketing(UNIT, table.groups.buckets),
        counter=ROW_ID,
    )
    return TableState(snapshot, table.index, table.schema, plan.spec, plan.checked, target)


def _share(source_bytes: int, columns: Sequence[str], all_columns: Sequence[str], widths: Mapping[str, float]) -> int:
    """About how many bytes of the source are of some columns."""
    total = sum(widths.get(name, 1.0) for name in all_columns)
    return round(source_bytes * sum(widths.get(name, 1.0) for name in columns) / total) if total else 0


def next_free(written: Sequence[WrittenFile], first: int) -> int:
    """The first block id after those of some files: ids are unique over all groups."""
    last = max((id for file in written for id in file.index["block"].to_pylist() if id is not None), default=first - 1)
    if last >= GREATEST_ID:
        raise SidestepError(f"The table would need block ids above {GREATEST_ID:,}: choose a larger min_size.")
    return last + 1


def rows_by_unit(written: Sequence[WrittenFile]) -> Counter[int]:
    """How many rows of each unit files hold, by what their own statistics say."""
    rows: Counter[int] = Counter()
    for file in written:
        for unit, count in zip(file.index[f"lower:{UNIT}"].to_pylist(), file.index["rows"].to_pylist(), strict=True):
            rows[unit] += count
    return rows


def check_units(target: GroupsTarget, writes: Mapping[int, GroupWrite], total: int | None = None) -> Counter[int]:
    """How many rows of each unit were written, to every group of all rows the same number of each; ``total`` in all.

    Partners have them together, and groups of some rows no more than that. Else it is an error.
    """
    rows = {number: rows_by_unit(write.written) for number, write in writes.items()}
    complete = [sum((rows[part] for part in target.groups.parts(number)), Counter()) for number in target.complete]
    fit = all(units == complete[0] for units in complete) and all(units <= complete[0] for units in rows.values())
    if not fit or total not in (None, sum(complete[0].values())):
        raise Conflict(f"The column groups of {target.root.uri} would have different rows: they changed. Try again.")
    return complete[0]


def check_same(source: Snapshot) -> None:
    """Raise an error unless a folder that rows were read from several times is as it was."""
    if source.format == "parquet" and read_snapshot(source.root).files != source.files:
        raise Conflict(f"{source.root.uri} was changed while it was read once for each column group. Try again.")


@contextmanager
def dropped_on_error(writes: Mapping[int, GroupWrite]) -> Iterator[None]:
    """What is done before a commit: if it fails, the files that were written for that go."""
    try:
        yield
    except (SidestepError, OSError):
        for write in writes.values():
            delete_files(write.state, write.written)
        raise


def _save_sidecars(table: GroupsTarget) -> None:
    """Note what the table's groups are, for all who read it and add to it."""
    folder = table.index.folder
    for plan in table.plans.values():
        if len(plan.checked.features):
            save_features(folder, plan.checked.features)
        if plan.rows is not None:
            save_features(folder, plan.rows.checked.features)
    GROUP_LAYOUTS.save(folder, GroupLayouts(table.layouts, table.filtered))
    COLUMN_GROUPS.save(folder, table.groups)
    inner = table.snapshot.root
    for place in (table.root, inner, *(inner.child(f"{GROUP}={number}") for number in table.plans)):
        write_marker(place)


def _append_entries(
    target: GroupsTarget, written: Sequence[WrittenFile], rates: Mapping[str, float] | None
) -> tuple[Location, ...]:
    schema = StructType.fromJson(json.loads(target.snapshot.schema or "{}"))
    blocks = [file.index for file in written]
    if not blocks:
        return ()
    return append_blocks(target.index.folder, blocks, data_columns(schema, (GROUP,)), target.making, rates)


def write_marker(place: Location) -> None:
    """Put the file there that tells readers without sidestep what they have before them."""
    location, text = place.child(MARKER), MARKER_TEXT.encode()
    make_folder(place)
    write_addressed(location, text, lambda: _read_bytes(location) == text)


def _read_bytes(location: Location) -> bytes | None:
    try:
        with open_file(location) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return None
