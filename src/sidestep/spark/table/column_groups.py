"""Writing column groups: each group of columns is laid out by its own means, and all come in one commit.

The source is read once or twice for each group, and only the columns that the group needs. What holds the parts of a
row together are row ids and units, which depend on nothing but where the row is in the source
(:mod:`sidestep.spark.organize.row_ids`). So the source must be the same each time: its files are listed again at the
end, rows are counted for every group and unit, and if anything differs nothing is committed.

Blocks of a group know what their rows hold in columns that queries filter, whether the group has them or not. Where a
whole table is laid out, these are the columns that the group's arrangement narrows, or that the units do: of others
every block holds about all values. Rows that come later are laid out like the others, in units of their own, and are
few: their blocks know all columns that queries filter.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyarrow.fs import FileType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from sidestep.errors import Conflict, SidestepError
from sidestep.layout.placement import GREATEST_ID
from sidestep.spark.advise.source import data_columns
from sidestep.spark.organize.organize import Organized, organize
from sidestep.spark.organize.row_ids import NumberedFiles
from sidestep.spark.progress import Watch
from sidestep.spark.relation import read_every_row
from sidestep.spark.table.group_table import (
    GroupPlan,
    GroupsState,
    GroupsTarget,
    changed_state,
    group_state,
    open_groups,
    units_for,
)
from sidestep.spark.table.state import (
    TableState,
    check_rows,
    commit_version,
    committed,
    delete_files,
)
from sidestep.store import DataFile, Location, Snapshot, append_blocks, read_snapshot
from sidestep.store.commit.log_entry import begin_log
from sidestep.store.index.index_file import FOLDER
from sidestep.store.location import delete, make_folder, open_file, write_addressed
from sidestep.store.parquet.buckets import balanced_units
from sidestep.store.parquet.writer import WrittenFile
from sidestep.store.sidecars.column_groups import (
    COLUMN_GROUPS,
    GROUP,
    MARKER,
    STAGED,
    UNIT,
    inner_table,
)
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS, GroupLayouts
from sidestep.store.sidecars.layout import save_features
from sidestep.store.upkeep.compact import compact

MARKER_TEXT = """This is no Parquet file. The table in this folder is kept in column groups, under _sidestep/groups, and
its rows can be put together by sidestep alone:

    import sidestep
    sidestep.enable(spark)
    sidestep.read(spark, "path of the folder that has _sidestep in it")

Nothing in these folders is to be moved or deleted, this file included.
"""


@dataclass(frozen=True)
class LoadedGroup:
    """What became of it."""

    number: int
    plan: GroupPlan
    organized: Organized


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
    states = {number: group_state(spark, target, number, plan.beside) for number, plan in target.plans.items()}
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
    fresh = balanced_units(units_for(files, target.unit_rows), target.groups.buckets, target.units)
    return files.with_ids(target.unit_rows, fresh, target.next_id)


def append_to_groups(
    spark: SparkSession, root: Location, rows: DataFrame, source: Snapshot | None, watch: Watch
) -> tuple[GroupsState, int, list[WrittenFile], int]:
    """Add rows to a table in column groups, in new units that are laid out as the others are; how many comes last.

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
        return state, target.snapshot.version, [], 0
    made, version = create_groups(spark, files, source, target, operation="WRITE", watch=watch)
    return state, version, [file for loaded in made for file in loaded.organized.files], files.total


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
    """Note what the table's groups are, for all who read it and add to it.

    A number stands for one group for good. Two who lay a table out at once have given the same numbers to groups of
    their own, and only one can commit: what the other notes would say of the files of the first that they hold other
    columns. So nothing is noted where others have noted something since the table was opened, and it is taken back if
    they did at the same moment.
    """
    folder = table.index.folder
    if not set(COLUMN_GROUPS.names(folder)) <= set(table.noted):
        raise _laid_out_by_others(table)
    for plan in table.plans.values():
        if len(plan.checked.features):
            save_features(folder, plan.checked.features)
        if plan.rows is not None:
            save_features(folder, plan.rows.checked.features)
    layouts = GROUP_LAYOUTS.save(folder, GroupLayouts(table.layouts, table.filtered, table.storage))
    groups = COLUMN_GROUPS.save(folder, table.groups)
    if not set(COLUMN_GROUPS.names(folder)) <= {*table.noted, groups.name}:
        delete(groups)
        delete(layouts)
        raise _laid_out_by_others(table)
    inner = table.snapshot.root
    for place in (table.root, inner, *(inner.child(f"{GROUP}={number}") for number in table.plans)):
        write_marker(place)


def _laid_out_by_others(table: GroupsTarget) -> Conflict:
    return Conflict(
        f"{table.root.uri} was laid out in other column groups meanwhile. Nothing was committed: try again."
    )


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
