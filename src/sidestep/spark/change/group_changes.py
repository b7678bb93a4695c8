"""Rows of a table in column groups, changed: what was found once is written to every group that it concerns.

A row is told by its unit and its id, which it keeps. In each group, only files with parts of such rows are written
anew, block by block, as those of other tables are (:mod:`sidestep.spark.change.replace`). A row that goes, goes from
every group. New values concern the groups that hold their columns, and those whose blocks know them: blocks of every
group say what their rows hold in all columns that queries filter, so the parts of these rows that lie in other groups
are read too.

All groups come in one commit. Before it, each must have exactly the rows that were looked for: as many of each action
as were found, and in each unit as many rows as before, less those that go.

Of a table that has copies of some rows, a group is looked through for those rows alone that it is to have by its
features; how many these are is worked out from the rows themselves. New values in a column that decides about that may
make a row one of other groups: such a row goes, and comes again with its new values, under a new id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from sidestep.errors import SidestepError
from sidestep.predicate.columns import columns_of
from sidestep.predicate.text import name_text
from sidestep.spark.change.replace import ACTION, MATCHES, POSITION, file_rows, new_name, write_files
from sidestep.spark.organize.row_ids import NumberedFiles
from sidestep.spark.progress import Watch
from sidestep.spark.relation import every_grouped_row, groups_session, in_session
from sidestep.spark.table.column_groups import (
    GroupWrite,
    check_units,
    commit_groups,
    dropped_on_error,
    new_rows,
    next_free,
    rows_by_unit,
    staged,
    write_groups,
)
from sidestep.spark.table.group_table import GroupsState, GroupsTarget, group_state
from sidestep.spark.table.matching import PATH, by_spelling, files_of_units
from sidestep.spark.table.state import TableState, check_rows
from sidestep.store import DataFile
from sidestep.store.block_column import block_name
from sidestep.store.index.grouped_table import GroupedTable
from sidestep.store.parquet.row_counts import count_rows
from sidestep.store.parquet.writer import RESERVED, WrittenFile
from sidestep.store.sidecars.column_groups import GROUP, ROW_ID, UNIT

OTHER_UNIT, OTHER_ID = (f"{RESERVED}{name}" for name in ("other_unit", "other_id"))


@dataclass(frozen=True)
class RowChanges:
    """Changes of rows, at most one for each."""

    rows: DataFrame | None
    """The unit and the id of each row, under the names PATH and POSITION, its ACTION, and the new values."""
    deletes: frozenset[int]
    assigned: tuple[str, ...]
    counts: Mapping[int, Mapping[int, int]]
    """By unit and action, how many."""
    broadcast: bool

    @property
    def by_action(self) -> Counter[int]:
        total: Counter[int] = Counter()
        for actions in self.counts.values():
            total.update(actions)
        return total

    @property
    def deleted(self) -> Counter[int]:
        """By unit, how many rows go."""
        gone: Counter[int] = Counter()
        for unit, actions in self.counts.items():
            gone[unit] += sum(count for action, count in actions.items() if action in self.deletes)
        return gone

    def concern(self, columns: Collection[str]) -> bool:
        """Whether they change what a group holds, or its blocks know: these columns."""
        return any(self.deleted.values()) or bool(self.counts and set(columns) & set(self.assigned))


def change_groups(
    spark: SparkSession,
    state: GroupsState,
    changes: RowChanges,
    watch: Watch,
    operation: str,
    *,
    inserts: DataFrame | None = None,
    inserted: int = 0,
) -> tuple[int | None, tuple[DataFile, ...], tuple[WrittenFile, ...]]:
    """Write what is concerned anew in every group, and new rows to all, as one version; that, what went and came."""
    session, target = groups_session(spark), state.groups
    writes: dict[int, GroupWrite] = {}
    block = state.reserve()
    inserts = None if inserts is None else in_session(session, inserts)
    if changes.counts and _deciding(target) & set(changes.assigned):
        moved = _moved(session, target, changes)
        inserts = moved if inserts is None or not inserted else inserts.select(moved.columns).unionAll(moved)
        inserted += sum(changes.by_action.values()) - sum(changes.deleted.values())
        changes = replace(changes, deletes=frozenset(changes.by_action), assigned=())
    if changes.counts:
        with dropped_on_error(writes), watch.stage("rewrite", sum(changes.by_action.values())):
            wanted = _rows_by_group(session, target, changes)
            for number in target.plans:
                write = _rewrite(session, target, number, changes, wanted[number], block)
                if write is not None:
                    writes[number] = write
                    block = next_free(write.written, block)
    if inserted and inserts is not None:
        with dropped_on_error(writes), watch.stage("insert", inserted):
            added = _insert(session, state, inserts, inserted, block, watch)
        for number, files in added.items():
            before = writes.get(number) or GroupWrite(group_state(session, target, number), (), ())
            new = sum(file.rows for file in files)
            writes[number] = replace(before, written=(*before.written, *files), inserted=new)
    if not writes:
        return state.snapshot.version, (), ()
    with dropped_on_error(writes):
        for write in writes.values():
            check_rows(write.state, state.only(write.removed), write.written, write.deleted, write.inserted)
    version = commit_groups(target, writes, operation=operation.upper(), data_change=True, watch=watch)
    removed = tuple(file for write in writes.values() for file in write.removed)
    return version, removed, tuple(file for write in writes.values() for file in write.written)


def _deciding(target: GroupsTarget) -> set[str]:
    """The columns by whose values rows are copied."""
    return {name for plan in target.plans.values() if plan.rows is not None for name in plan.rows.columns}


def _keyed(changes: RowChanges) -> DataFrame:
    """The changes, each with the unit and the id of its row."""
    assert changes.rows is not None
    names = {PATH: OTHER_UNIT, POSITION: OTHER_ID}
    keyed = changes.rows.withColumn(PATH, f.col(PATH).cast("int")).withColumnsRenamed(names)
    return f.broadcast(keyed) if changes.broadcast else keyed


def _changed_rows(session: SparkSession, target: GroupsTarget, changes: RowChanges) -> DataFrame:
    """The rows that change, as they were, each with its change."""
    there = files_of_units(group_state(session, target, next(iter(target.plans))), changes.counts)
    rows = every_grouped_row(session, target.table.only(there))
    same = (f.col(UNIT) == f.col(OTHER_UNIT)) & (f.col(ROW_ID) == f.col(OTHER_ID))
    return rows.join(_keyed(changes), same, "inner")


def _moved(session: SparkSession, target: GroupsTarget, changes: RowChanges) -> DataFrame:
    """The rows that get new values, with these."""
    rows = _changed_rows(session, target, changes)
    if changes.deletes:
        rows = rows.where(~f.col(ACTION).isin(sorted(changes.deletes)))
    new = {name: f.col(new_name(at)).alias(name) for at, name in enumerate(changes.assigned)}
    return rows.select(*(new.get(name, f.col(name_text(name))) for name in target.schema.names))


def _rows_by_group(session: SparkSession, target: GroupsTarget, changes: RowChanges) -> dict[int, Counter[int]]:
    """By group and action, how many of the rows that change it is to have."""
    wanted = dict.fromkeys(target.plans, changes.by_action)
    rows = _changed_rows(session, target, changes)
    for number, plan in target.plans.items():
        if plan.rows is None:
            continue
        if plan.rows.rest_of is not None:
            wanted[number] = changes.by_action - wanted[plan.rows.rest_of]
            continue
        found = plan.rows.of(rows).groupBy(ACTION).count().collect()
        wanted[number] = Counter({row[ACTION]: row["count"] for row in found})
    return wanted


def known_columns(target: GroupsTarget, group: int) -> tuple[str, ...]:
    """The columns that a group's files hold, and those that its blocks know something of."""
    plan = target.plans[group]
    asked = {column.name for one in plan.checked.features.features for column in columns_of(one.predicate)}
    wanted = {*plan.columns, *target.filtered, *asked}
    names = target.schema.names
    return tuple(name for name in names if name in wanted) if wanted <= set(names) else tuple(names)


def _rewrite(
    session: SparkSession, target: GroupsTarget, number: int, changes: RowChanges, wanted: Counter[int], block: int
) -> GroupWrite | None:
    """The files of one group that hold parts of changed rows, written anew; None if the group is not concerned.

    ``wanted`` is how many of the rows it must have, by action.
    """
    known = known_columns(target, number)
    if not changes.concern(known):
        return None
    state = group_state(session, target, number)
    there = files_of_units(state, changes.counts)
    mine = [file for file in target.files_of(number) if file in set(there)]
    keyed = _keyed(changes)
    same = (f.col(UNIT) == f.col(OTHER_UNIT)) & (f.col(ROW_ID) == f.col(OTHER_ID))
    read = file_rows(session, state, mine)
    found = read.join(keyed, same, "inner").groupBy(PATH, UNIT, ACTION).count().collect()
    seen: Counter[int] = Counter()
    for row in found:
        seen[row[ACTION]] += row["count"]
    if seen != wanted:
        raise SidestepError(
            f"{sum(wanted.values()):,} rows of {target.root.uri} are to change, and column group {number} "
            f"has {sum(seen.values()):,} of them: the table is damaged. Nothing was committed."
        )
    gone: Counter[str] = Counter()
    for row in found:
        gone[row[PATH]] += row["count"] if row[ACTION] in changes.deletes else 0
    unit_of = {row[PATH]: row[UNIT] for row in found}
    if not set(known) & set(changes.assigned):  # new values are no concern of this group
        unit_of = {path: unit for path, unit in unit_of.items() if gone[path]}
    if not unit_of:
        return None
    files = by_spelling(state.snapshot, unit_of)
    rows = _with_beside(session, target.table.only(there), state, number, files.values(), known)

    def mark(rows: DataFrame) -> DataFrame:
        return rows.join(keyed, same, "left").withColumn(MATCHES, f.col(ACTION).isNotNull())

    def change(rows: DataFrame) -> DataFrame:
        if changes.deletes:
            rows = rows.where(~f.coalesce(f.col(ACTION).isin(sorted(changes.deletes)), f.lit(False)))
        new = {
            name: f.when(f.col(MATCHES), f.col(new_name(at))).otherwise(f.col(name_text(name)))
            for at, name in enumerate(changes.assigned)
            if name in known
        }
        return rows.withColumns(new) if new else rows

    written = tuple(write_files(session, state, files, rows, mark, change, changes.assigned, block))
    write = GroupWrite(state, tuple(files.values()), written, deleted=sum(gone[path] for path in unit_of))
    with dropped_on_error({number: write}):
        before: Counter[int] = Counter()
        for path, file in files.items():
            before[unit_of[path]] += count_rows([state.root.child(file.path)]) - gone[path]
        if +before != rows_by_unit(written):
            raise SidestepError(
                f"Rows got lost, or came, while files of column group {number} of {target.root.uri} were written anew. "
                "Nothing was committed, and the new files are gone."
            )
    return write


def _with_beside(
    session: SparkSession,
    table: GroupedTable,
    state: TableState,
    number: int,
    files: Collection[DataFile],
    known: Collection[str],
) -> DataFrame:
    """The rows of a group's files with all that its blocks know of them: columns of other groups come by a join."""
    held = table.groups.groups[number]
    hidden = block_name(state.snapshot.schema)
    own = [*held, UNIT, ROW_ID, GROUP, *([] if hidden is None else [hidden]), PATH, POSITION]
    rows = file_rows(session, state, files).select(*map(name_text, own))
    beside = [name for name in known if name not in held]
    if not beside:
        return rows
    others = every_grouped_row(session, table).select(
        *map(name_text, beside), f.col(UNIT).alias(OTHER_UNIT), f.col(ROW_ID).alias(OTHER_ID)
    )
    same = (f.col(UNIT) == f.col(OTHER_UNIT)) & (f.col(ROW_ID) == f.col(OTHER_ID))
    return rows.join(others, same, "inner").drop(OTHER_UNIT, OTHER_ID)


def _insert(
    session: SparkSession, state: GroupsState, rows: DataFrame, count: int, block: int, watch: Watch
) -> dict[int, tuple[WrittenFile, ...]]:
    """New rows in all groups, as an append writes them."""
    target = state.groups
    with staged(session, target.root, rows, watch) as (kept, snapshot):
        files = NumberedFiles(kept)
        made = write_groups(
            session, new_rows(files, target), target, source_bytes=snapshot.bytes, first=block, watch=watch
        )
    writes = {
        number: GroupWrite(group_state(session, target, number), (), loaded.organized.files)
        for number, loaded in made.items()
    }
    with dropped_on_error(writes):
        for write in writes.values():
            check_rows(write.state, None, write.written)
        if sum(check_units(target, writes).values()) != count:
            raise SidestepError(f"{count:,} rows were to be inserted, and others were written. Nothing was committed.")
    return {number: write.written for number, write in writes.items()}
