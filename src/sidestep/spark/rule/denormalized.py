"""Denormalized tables in queries: found beside the fact tables that they were made of, and used where they read less.

A query is first planned as it is. Where a denormalized table can stand for a part of it (:mod:`sidestep.prune.denormal`
proves that), the query with the table in that place is planned as well, and what is left to be read of either after
pruning is compared. The table is used only if every base table has the very files that it was made of.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from sidestep.errors import SidestepWarning
from sidestep.predicate.columns import columns_of
from sidestep.prune import Query, Scan
from sidestep.prune.denormal.match import JoinMatch, find_matches, replaced
from sidestep.render import size_text
from sidestep.spark.jvm.wire import (
    DenormalizedScan,
    pack_coverage,
    pack_denormalized,
    pack_files,
    unpack_coverage,
)
from sidestep.spark.relation import path_of, relation_at
from sidestep.spark.rule.indexes import REMOTE_SECONDS
from sidestep.spark.rule.planner import AskComplete, PlannedQuery, Rewrites, roots_of
from sidestep.store import index_folder, locate
from sidestep.store.index.grouped_table import GroupedTable
from sidestep.store.index.table_index import warn_once
from sidestep.store.location import Location, stat
from sidestep.store.sidecars.column_groups import GROUP
from sidestep.store.sidecars.denormalized import DENORMALIZED, DenormalizedTable
from sidestep.store.snapshots.groups import inner_table

ROW_ID_BYTES = 4.0
"""What a row takes of each column group beyond its columns, if several are put together."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class OpenTable:
    """A denormalized table that the JVM knows."""

    id: str
    table: DenormalizedTable
    groups: GroupedTable | None
    next_version: Location
    """What is there once the table has changed."""

    def base_of(self, scan: Scan) -> str | None:
        """Which of the tables that it was made of a scan reads; whether that is as it was is another question."""
        if len(scan.roots) != 1:
            return None
        root = locate(scan.roots[0]).canonical
        return next((base.name for base in self.table.bases if locate(base.root).canonical == root), None)

    def keys_of(self, base: str) -> str:
        return f"{self.id}/{base}"

    def scan(self, match: JoinMatch, number: int) -> Scan:
        """The table in the place of a part of a query; its columns are the part's affair."""
        groups: tuple[int, ...] | None = None
        if self.groups is not None:
            names = set(_columns_read(match))
            held = self.groups.groups.groups
            groups = tuple(at for at in self.groups.complete if names & set(held[at])) or self.groups.complete[:1]
        return Scan(f"{self.id}#{number}", None, (self.table.root,), (), groups=groups)


@dataclass
class _Slot:
    names: tuple[str, ...] = ()
    tables: tuple[OpenTable, ...] = ()
    problems: tuple[str, ...] = ()
    looked: float = 0.0


class JoinRewriter:
    """The denormalized tables that queries of a session may use."""

    def __init__(self, spark: SparkSession, rule: Any, index_dir: Any = None) -> None:
        self._spark = spark
        self._rule = rule
        self._index_dir = index_dir
        self._slots: dict[str, _Slot] = {}
        self._lock = threading.Lock()

    def exist_for(self, roots: Iterable[str]) -> bool:
        """Whether there is one of any of these tables."""
        return any(slot.tables or slot.problems for slot in map(self._at, roots))

    def rewrites(
        self,
        query: Query,
        planned: PlannedQuery,
        ask_complete: AskComplete | None,
        plan: Callable[[Query], PlannedQuery],
        least_gain: float,
    ) -> Rewrites:
        """The parts of a query that denormalized tables are to stand for. ``plan`` plans a query that has them."""
        result = Rewrites()
        taken: set[int] = set()
        for root in roots_of(query):
            slot = self._at(root)
            result.notes += slot.problems
            for opened in slot.tables:
                if opened.base_of(Scan("", None, (root,), ())) != opened.table.tree.fact:
                    continue
                if stat(opened.next_version) is not None:
                    result.notes.append(
                        f"{opened.table.root} is not used: it has changed since it was made of its tables. "
                        "Run sidestep.denormalize again."
                    )
                    continue
                self._consider(opened, query, planned, ask_complete, plan, least_gain, result, taken)
        return result

    def _consider(
        self,
        opened: OpenTable,
        query: Query,
        planned: PlannedQuery,
        ask_complete: AskComplete | None,
        plan: Callable[[Query], PlannedQuery],
        least_gain: float,
        result: Rewrites,
        taken: set[int],
    ) -> None:
        table = opened.table
        matches, mismatches = find_matches(query, table.tree, opened.base_of)
        result.notes += [f"{table.root} is not used for {_joined(each.tables)}: {each.reason}." for each in mismatches]
        stale = _stale(opened, matches, ask_complete)
        for number, match in enumerate(matches):
            tables = _joined(match.tables)
            changed = sorted({stale[scan.key] for _, scan, _ in match.scans if scan.key in stale})
            if changed:
                result.notes.append(
                    f"{table.root} is not used for {tables}: {', '.join(changed)} changed since it was made, or is "
                    "read by other settings. Run sidestep.denormalize again."
                )
                continue
            if match.place in taken:
                continue
            scan = opened.scan(match, number)
            instead = plan(replaced(query, {match.place: (match, scan)}))
            before, after = _bytes_of_part(opened, match, planned), _bytes_of_table(opened, match, scan, instead)
            if after * least_gain >= before:
                result.notes.append(
                    f"{table.root} is not used for {tables}: about {size_text(int(after))} would be read of it, "
                    f"and {size_text(int(before))} without."
                )
                continue
            note = (
                f"{table.root} is read in place of {tables}: about {size_text(int(after))}, "
                f"instead of {size_text(int(before))}."
            )
            scans = [
                DenormalizedScan(
                    place,
                    opened.keys_of(table.tree.roles[role].table),
                    {column.name: table.tree.held[role, column.name].stored for _, column in own.columns},
                )
                for place, own, role in match.scans
            ]
            line = pack_denormalized(opened.id, match.place, note, table.tree.never_null, scans)
            if line:
                result.lines.append(line)
                taken.add(match.place)

    # ---- opening

    def _at(self, root: str) -> _Slot:
        """What there is beside a table. What goes wrong with one table costs that table alone."""
        try:
            return self._look(root)
        except SidestepWarning:
            raise  # where warnings are errors
        except Exception as problem:
            warn_once(f"{root}:denormalized", f"No denormalized table of {root} is used: {problem!r}.")
            return _Slot()

    def _look(self, root: str) -> _Slot:
        location = locate(root)
        now = time.monotonic()
        with self._lock:
            slot = self._slots.get(root)
        if slot is not None and not location.local and now - slot.looked < REMOTE_SECONDS:
            return slot
        folder = index_folder(location, self._index_dir)
        names = DENORMALIZED.names(folder)
        # Most tables have none: nothing is kept of those that can be looked at quickly.
        if slot is None and location.local and not names:
            return _Slot()
        with self._lock:
            slot = self._slots.setdefault(root, _Slot())
            slot.looked = now
            if names != slot.names:
                self._forget(slot)
                slot.tables, slot.problems = self._open_all(folder)
                slot.names = names
            return slot

    def _open_all(self, folder: Location) -> tuple[tuple[OpenTable, ...], tuple[str, ...]]:
        tables, problems = [], []
        stored = DENORMALIZED.load(folder)
        for table in () if stored is None else stored.tables:
            try:
                tables.append(self._open(table))
            except Exception as problem:
                said = f"{table.root} is not used: it cannot be opened ({problem})."
                warn_once(f"{table.root}:denormalized", said)
                problems.append(said)
        return tuple(tables), tuple(problems)

    def _open(self, table: DenormalizedTable) -> OpenTable:
        location = locate(table.root)
        relation, snapshot, groups = relation_at(self._spark, location, table.version)
        if snapshot.table_id != table.table_id:
            raise ValueError("another table is at its place")
        opened = OpenTable(f"d{next(_numbers)}", table, groups, _version_file(location, groups, table.version + 1))
        self._rule.putRelation(opened.id, relation)
        for base in table.bases:
            files = base.files
            paths, numbers = pack_files([f.path for f in files], [f.size for f in files], [f.modified for f in files])
            self._rule.putTable(opened.keys_of(base.name), path_of(base.root), paths, numbers, table.reading)
        return opened

    def _forget(self, slot: _Slot) -> None:
        for opened in slot.tables:
            self._rule.dropRelation(opened.id)
            for base in opened.table.bases:
                self._rule.dropKeys(opened.keys_of(base.name))

    def close(self) -> None:
        with self._lock:
            for slot in self._slots.values():
                self._forget(slot)
            self._slots.clear()


def _version_file(location: Location, groups: GroupedTable | None, version: int) -> Location:
    root = location if groups is None else inner_table(location)
    return root.child("_delta_log").child(f"{version:020d}.json")


def _joined(tables: Iterable[str]) -> str:
    listed = list(tables)
    return listed[0] if len(listed) == 1 else f"the join of {', '.join(listed[:-1])} and {listed[-1]}"


def _stale(opened: OpenTable, matches: Iterable[JoinMatch], ask_complete: AskComplete | None) -> dict[str, str]:
    """By key, the scans whose tables are not as they were, with the names of these."""
    scans = {scan.key: opened.table.tree.roles[role].table for match in matches for _, scan, role in match.scans}
    if not scans:
        return {}
    question = {key: [opened.keys_of(base)] for key, base in scans.items()}
    reply = "" if ask_complete is None else ask_complete(pack_coverage(question))
    fresh = unpack_coverage(question, reply)
    return {key: base for key, base in scans.items() if key not in fresh}


# ---- what is read


def _columns_read(match: JoinMatch) -> Iterator[str]:
    """The stored columns that are read, as far as can be told: keys only where they are compared with others."""
    tree, stored = match.tree, match.stored
    keys: set[str] = set()
    for _, _, position in match.scans:
        role = tree.roles[position]
        for ours, key in role.on:
            keys |= {tree.held[at].stored for at in ((role.parent, ours), (position, key)) if at in tree.held}
    yield from dict.fromkeys(name for name in stored.values() if name not in keys)
    asked = {column.name for each in match.remaining() for column in columns_of(each)}
    yield from sorted(asked & keys)


def _bytes_of_part(opened: OpenTable, match: JoinMatch, planned: PlannedQuery) -> float:
    """What the tables of a part take that blocks are read of, in the columns in use."""
    total = 0.0
    for _, scan, role in match.scans:
        base = opened.table.base(opened.table.tree.roles[role].table)
        skipped = sum(
            int(each.index.index.map.rows[~each.kept].sum()) for each in planned.scans if each.scan.key == scan.key
        )
        width = sum(base.widths.get(column.name, 0.0) for _, column in scan.columns)
        total += max(base.rows - skipped, 0) * width
    return total


def _bytes_of_table(opened: OpenTable, match: JoinMatch, scan: Scan, planned: PlannedQuery) -> float:
    """The same of a denormalized table in its place, group by group if it has column groups."""
    table = opened.table
    names = set(_columns_read(match))
    decision = next((each for each in planned.scans if each.scan.key == scan.key), None)
    if opened.groups is None:
        rows = table.rows if decision is None else int(decision.index.index.map.rows[decision.kept].sum())
        return rows * sum(table.widths.get(name, 0.0) for name in names)
    total = 0.0
    for group in scan.groups or ():
        rows = table.rows
        if decision is not None:
            rows = _rows_of_group(decision.index.index, decision.kept, group)
        held = names & set(opened.groups.groups.groups[group])
        width = sum(table.widths.get(name, 0.0) for name in held)
        total += rows * (width + (ROW_ID_BYTES if len(scan.groups or ()) > 1 else 0.0))
    return total


def _rows_of_group(index: Any, kept: Any, group: int) -> int:
    values = index.file_values(GROUP)
    mine: Any = np.ones(len(kept), np.bool_)
    if values is not None:
        mine = (values.to_numpy(zero_copy_only=False) == str(group))[index.map.file_of_block]
    return int(index.map.rows[kept & mine].sum())
