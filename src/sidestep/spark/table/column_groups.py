"""Loading a table into column groups: each group of columns is laid out by its own means, and all come in one commit.

The source is read once or twice for each group, and only the columns that the group needs. What holds the parts of a
row together are row ids and units, which depend on nothing but where the row is in the source
(:mod:`sidestep.spark.organize.row_ids`). So the source must be the same each time: its files are listed again at the
end, rows are counted for every group and unit, and if anything differs nothing is committed.

Blocks of every group know what their rows hold in all columns that queries filter, whether the group has them or not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from sidestep.advisor.layouts.choose import ChosenLayout
from sidestep.advisor.layouts.column_groups import ChosenGroups
from sidestep.errors import Conflict, SidestepError, UnsupportedTable
from sidestep.layout.placement import GREATEST_ID
from sidestep.spark.advise.source import Source, data_columns
from sidestep.spark.organize.featurize import CheckedFeatures, check_features
from sidestep.spark.organize.organize import Organized, organize
from sidestep.spark.organize.row_ids import NumberedFiles
from sidestep.spark.organize.write import arrow_schema
from sidestep.spark.progress import Watch
from sidestep.spark.table.chosen import spec_of
from sidestep.spark.table.state import TableState, check_rows, commit_version, delete_files
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
from sidestep.synopsis.build import BuildPlan

MOST_BUCKETS = 512
FEWEST_BLOCKS = 25
"""Blocks of a unit at least, before a table is cut into more units so that more cores read it."""
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


def default_unit_rows(spec: LayoutSpec, rows: int, cores: int) -> int:
    """How many rows a unit has: so few that all cores can read the table, but no fewer than some blocks.

    >>> default_unit_rows(LayoutSpec(min_size=1_000), 200_000, 4), default_unit_rows(LayoutSpec(), 10**9, 4)
    (50000, 4000000)
    """
    return max(1, min(spec.unit_rows, max(FEWEST_BLOCKS * spec.min_size, -(-rows // cores))))


def plan_groups(spark: SparkSession, source: Source, chosen: ChosenGroups, spec: LayoutSpec) -> list[GroupPlan]:
    """How each group is to be written, with the features that can be used here."""
    plans = []
    for group in chosen.groups:
        checked = check_features(spark, group.layout.features, source.schema)
        made = spec_of(ChosenLayout(replace(group.layout, by=UNIT), (), 0, ""), checked, spec)
        plans.append(GroupPlan(group.columns, checked, made, f"{group.layout.family}: {group.layout.detail}"))
    return plans


def write_groups(
    spark: SparkSession,
    source: Source,
    files: NumberedFiles,
    target: Location,
    plans: Sequence[GroupPlan],
    filtered: Sequence[str],
    making: BuildPlan,
    *,
    widths: Mapping[str, float],
    unit_rows: int,
    operation: str,
    rates: Mapping[str, float] | None,
    watch: Watch,
) -> tuple[list[LoadedGroup], int]:
    """Write the groups of a new table and commit them all at once; what became of each, and the version."""
    count = max(1, -(-files.end // unit_rows))
    buckets = min(MOST_BUCKETS, max(count, spark.sparkContext.defaultParallelism))
    rows = files.with_ids(unit_rows, balanced_units(count, buckets))
    groups = ColumnGroups(source.schema.json(), tuple(plan.columns for plan in plans), buckets)
    snapshot = Snapshot(inner_table(target), "delta", None, (), (GROUP,), inner_schema(source.schema))
    begin_log(snapshot.root)
    made: list[LoadedGroup] = []
    states: list[TableState] = []
    try:
        for number, plan in enumerate(plans):
            states.append(group_state(spark, snapshot, source.schema, plan, filtered, making, buckets))
            watch.tell(f"group {number + 1} of {len(plans)}")
            organized = organize(
                rows.withColumn(GROUP, f.lit(number)),
                plan.checked,
                plan.spec,
                states[-1].target,
                first_block=_next_block([file for one in made for file in one.organized.files]),
                source_bytes=_share(source, plan.columns, widths),
                watch=watch,
            )
            made.append(LoadedGroup(plan, organized))
        with watch.stage("index"):
            check_groups(source, states, made)
            entries = _save(states[0], groups, made, making, rates)
            write_marker(target)
    except (SidestepError, OSError):
        for loaded in made:
            delete_files(states[0], loaded.organized.files)
        raise
    written = [file for loaded in made for file in loaded.organized.files]
    with watch.stage("commit"):
        return made, commit_version(states[0], written, (), entries, operation, True)


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
    spark: SparkSession,
    snapshot: Snapshot,
    schema: StructType,
    plan: GroupPlan,
    filtered: Sequence[str],
    making: BuildPlan,
    buckets: int,
) -> TableState:
    """The inner table as the files of one group are written to it."""
    assert snapshot.schema is not None
    stored = StructType.fromJson(json.loads(snapshot.schema))
    held = StructType([stored[name] for name in (*plan.columns, UNIT, ROW_ID)])
    beside = StructType([stored[name] for name in filtered if name not in plan.columns])
    features = plan.checked.features
    target = BlockTarget(
        root=snapshot.root.uri,
        schema=arrow_schema(held),
        columns=data_columns(StructType([*held.fields, *beside.fields]), ()),
        min_size=plan.spec.min_size,
        features=len(features),
        features_id=features.id if len(features) else None,
        partition_columns=(GROUP,),
        making=making,
        block=block_name(snapshot.schema) or BLOCK,
        spark_version=spark.version,
        beside=arrow_schema(beside),
        bucketing=Bucketing(UNIT, buckets),
        counter=ROW_ID,
    )
    return TableState(snapshot, open_index(snapshot.root), schema, plan.spec, plan.checked, target)


def _share(source: Source, columns: Sequence[str], widths: Mapping[str, float]) -> int:
    """About how many bytes of the source are of some columns."""
    total = sum(widths.values())
    return round(source.snapshot.bytes * sum(widths.get(name, 0.0) for name in columns) / total) if total else 0


def _next_block(written: Sequence[WrittenFile]) -> int:
    """The first block id after those of some files: ids are unique over all groups."""
    last = max((id for file in written for id in file.index["block"].to_pylist() if id is not None), default=-1)
    if last >= GREATEST_ID:
        raise SidestepError(f"The table would need block ids above {GREATEST_ID:,}: choose a larger min_size.")
    return last + 1


def check_groups(source: Source, states: Sequence[TableState], made: Sequence[LoadedGroup]) -> None:
    """Raise an error unless every group has all rows of the source, in the same units, and the source is as it was."""
    units = []
    for state, loaded in zip(states, made, strict=True):
        check_rows(state, source.snapshot, loaded.organized.files)
        rows: Counter[int] = Counter()
        for file in loaded.organized.files:
            bounds = zip(file.index[f"lower:{UNIT}"].to_pylist(), file.index["rows"].to_pylist(), strict=True)
            for unit, count in bounds:
                rows[unit] += count
        units.append(rows)
    if any(rows != units[0] for rows in units):
        raise Conflict(f"The column groups of {source.path} have different rows: it was changed. Try again.")
    if source.snapshot.format == "parquet" and read_snapshot(source.path).files != source.snapshot.files:
        raise Conflict(f"{source.path} was changed while it was read once for each column group. Try again.")


def _save(
    state: TableState,
    groups: ColumnGroups,
    made: Sequence[LoadedGroup],
    making: BuildPlan,
    rates: Mapping[str, float] | None,
) -> tuple[Location, ...]:
    """All that belongs to the files but themselves; where the entries of the index are."""
    folder = state.index.folder
    for loaded in made:
        if len(loaded.plan.checked.features):
            save_features(folder, loaded.plan.checked.features)
    COLUMN_GROUPS.save(folder, groups)
    GROUP_LAYOUTS.save(folder, GroupLayouts(tuple(loaded.plan.spec for loaded in made)))
    schema = StructType.fromJson(json.loads(state.snapshot.schema or "{}"))
    blocks = [file.index for loaded in made for file in loaded.organized.files]
    return append_blocks(folder, blocks, data_columns(schema, (GROUP,)), making, rates)


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
