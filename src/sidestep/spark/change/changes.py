"""What is to become of single rows of a table, found once and kept; and the commit that makes it so.

A change is a row: the path of a file, a number in it, and whether that row goes or which values it gets. Changes are
found by one query and kept (:func:`keep`), so a condition is evaluated once, whatever it reads. Files that hold changed
rows are written anew, new rows are written beside them, and all of it is one commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from sidestep.layout.placement import FilePlan
from sidestep.predicate.text import name_text
from sidestep.spark.change.group_changes import RowChanges, change_groups
from sidestep.spark.change.replace import (
    ACTION,
    MATCHES,
    POSITION,
    file_rows,
    new_name,
    next_block,
    rows_of,
    write_files,
)
from sidestep.spark.organize.write import write_on_spark
from sidestep.spark.progress import Watch
from sidestep.spark.table.append import PLANS, SPAN, prepare_rows
from sidestep.spark.table.group_table import GroupsState
from sidestep.spark.table.matching import PATH, by_spelling
from sidestep.spark.table.state import TableState, commit_files
from sidestep.store import DataFile
from sidestep.store.parquet.writer import WrittenFile

MOST_BROADCAST = 200_000
"""Changes that every task may have."""
ROWS_PER_FILE = 1_000_000
"""New rows that go into one file."""


def keep(rows: DataFrame) -> DataFrame:
    """The rows, worked out now and for good: whoever reads them later gets these, or an error if they are lost."""
    return rows.localCheckpoint(eager=True)


@dataclass(frozen=True)
class Changes:
    """Changes of rows of one table, at most one for each row."""

    rows: DataFrame | None
    """PATH, POSITION, ACTION and the new values; None if there are none. Of a table in column groups, a row is told by
    its unit and its id instead, under the same names."""
    deletes: frozenset[int]
    """The actions by which a row goes; any other gives it new values."""
    assigned: tuple[str, ...]
    counts: Mapping[str, Mapping[int, int]]
    """By path, or unit, and action, how many."""

    @property
    def deleted(self) -> int:
        return sum(n for actions in self.counts.values() for action, n in actions.items() if action in self.deletes)

    @property
    def total(self) -> int:
        return sum(n for actions in self.counts.values() for n in actions.values())


def changes_of(frames: Sequence[DataFrame], deletes: Collection[int], assigned: Sequence[str]) -> Changes:
    """The changes in frames that are kept, counted."""
    if not frames:
        return Changes(None, frozenset(deletes), tuple(assigned), {})
    names = [PATH, POSITION, ACTION, *(new_name(number) for number in range(len(assigned)))]
    rows = reduce(DataFrame.unionAll, (frame.select(names) for frame in frames))
    counts: dict[str, dict[int, int]] = {}
    for row in rows.groupBy(PATH, ACTION).count().collect():
        counts.setdefault(row[PATH], {})[row[ACTION]] = row["count"]
    return Changes(rows, frozenset(deletes), tuple(assigned), counts)


@dataclass(frozen=True)
class Applied:
    """A commit of changes, or none if there was nothing to do."""

    version: int | None
    removed: tuple[DataFile, ...]
    written: tuple[WrittenFile, ...]


def apply_changes(
    spark: SparkSession,
    state: TableState,
    changes: Changes,
    watch: Watch,
    operation: str,
    *,
    inserts: DataFrame | None = None,
    inserted: int = 0,
) -> Applied:
    """Write the files anew that hold changed rows, and new rows that are kept, and commit both as one version."""
    if isinstance(state, GroupsState):
        by_unit = {int(unit): actions for unit, actions in changes.counts.items()}
        few = changes.total <= MOST_BROADCAST
        of_rows = RowChanges(changes.rows, changes.deletes, changes.assigned, by_unit, few)
        return Applied(*change_groups(spark, state, of_rows, watch, operation, inserts=inserts, inserted=inserted))
    files = by_spelling(state.snapshot, changes.counts)
    written: list[WrittenFile] = []
    if files:
        with watch.stage("rewrite", rows_of(state, files.values())):
            written += _rewrite(spark, state, files, changes)
    if inserted and inserts is not None:
        with watch.stage("insert", inserted):
            written += _insert(state, inserts, inserted, next_block(state, files))
    removed = tuple(files.values())
    if not removed and not written:
        return Applied(state.snapshot.version, (), ())
    done = commit_files(
        state,
        written,
        removed,
        source=state.only(removed),
        deleted=changes.deleted,
        inserted=inserted,
        operation=operation.upper(),
        data_change=True,
        depends=True,
        watch=watch,
    )
    return Applied(done.version, removed, tuple(written))


def _rewrite(
    spark: SparkSession, state: TableState, files: Mapping[str, DataFile], changes: Changes
) -> list[WrittenFile]:
    assert changes.rows is not None
    other_path, other_position = f"{PATH}_c", f"{POSITION}_c"
    found = changes.rows.withColumnsRenamed({PATH: other_path, POSITION: other_position})
    if changes.total <= MOST_BROADCAST:
        found = f.broadcast(found)

    def mark(rows: DataFrame) -> DataFrame:
        same = (f.col(PATH) == f.col(other_path)) & (f.col(POSITION) == f.col(other_position))
        return rows.join(found, same, "left").withColumn(MATCHES, f.col(ACTION).isNotNull())

    def change(rows: DataFrame) -> DataFrame:
        if changes.deletes:
            rows = rows.where(~f.coalesce(f.col(ACTION).isin(sorted(changes.deletes)), f.lit(False)))
        new = {name: _new_value(name, number) for number, name in enumerate(changes.assigned)}
        return rows.withColumns(new) if new else rows

    return write_files(spark, state, files, file_rows(spark, state, files.values()), mark, change, changes.assigned)


def _new_value(name: str, number: int) -> Column:
    return f.when(f.col(MATCHES), f.col(new_name(number))).otherwise(f.col(name_text(name)))


def _insert(state: TableState, rows: DataFrame, count: int, first: int) -> list[WrittenFile]:
    """New rows in files of their own, as an append writes them."""
    placed = rows.coalesce(max(1, -(-count // ROWS_PER_FILE)))
    plans = [FilePlan(first + SPAN * number) for number in range(PLANS)]
    return write_on_spark(prepare_rows(placed, state), state.target, plans, by_task=True)
