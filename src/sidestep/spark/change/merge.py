"""``sidestep.merge``: rows of a source update, delete and insert rows of a table, in one commit.

A row of the source and a row of the table *match* if the condition is TRUE for the two. The first clause of its kind
whose condition is TRUE applies: to each pair that matches, to each row of the source without a match, and to each row
of the table without one. As in Delta and in SQL,

- a row of the table that clauses apply to in pairs with two rows of the source is an error, and nothing is committed;
  unless the only clause for matches deletes without a condition: a row can only go once;
- only the last clause of a kind may be without a condition, since no later one could ever apply;
- NULL keys match nothing (``=`` is not TRUE for them), and rows for which no clause applies stay.

The source is run once, and its rows kept. Matches are found by one query over the files that can have some
(:mod:`sidestep.spark.change.target`), and kept; what becomes of the table goes by what was found
(:mod:`sidestep.spark.change.changes`). If no clause is about rows that match, a row of the table is read only to know
whether it matches; without clauses for rows of the table that have no match, no file is read that cannot have one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from sidestep.errors import SidestepError
from sidestep.predicate.text import name_text
from sidestep.render import counted
from sidestep.spark.change.changes import MOST_BROADCAST, apply_changes, changes_of, keep
from sidestep.spark.change.replace import ACTION, POSITION, assigned_values, new_name, own_name
from sidestep.spark.change.target import Narrowed, change_session, narrow, row_at, target_rows
from sidestep.spark.expressions import settle
from sidestep.spark.jvm.bridge import check_session
from sidestep.spark.jvm.sessions import leaves_session_active
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import in_session, read
from sidestep.spark.table.group_table import columns_of_table, open_any
from sidestep.spark.table.matching import PATH, check_condition
from sidestep.spark.table.reports import MergeReport
from sidestep.spark.table.state import TableState, find_table
from sidestep.store import DataFile, Location
from sidestep.store.commit.transaction import with_retries
from sidestep.store.parquet.writer import RESERVED

Rows = DataFrame | str | os.PathLike[str]
"""Rows to take: a DataFrame, the name of a table, or a path."""
Kind = Literal["matched", "not matched", "not matched by source"]
Action = Literal["update", "delete", "insert"]
SOURCE_ROW = f"{RESERVED}source_row"
SHOWN = 4
"""Columns of a row that an error shows."""


@dataclass(frozen=True, eq=False)
class Clause:
    """What becomes of rows of one kind, if a condition is TRUE."""

    kind: Kind
    action: Action
    values: Mapping[str, str] | None = None
    """Columns and their new values; None for all columns of the source by name."""
    condition: str | None = None

    def __str__(self) -> str:
        when = f" AND {self.condition}" if self.condition is not None else ""
        return f"WHEN {self.kind.upper()}{when} THEN {self.action.upper()}"


@dataclass(frozen=True)
class Merge:
    """A merge that is being put together: every method returns it with one clause more, and ``run`` does it."""

    spark: SparkSession
    table: str | os.PathLike[str]
    source: Rows
    on: str
    target_alias: str = "target"
    source_alias: str = "source"
    index_dir: str | os.PathLike[str] | None = None
    clauses: tuple[Clause, ...] = field(default=())

    def when_matched_update(self, set: Mapping[str, str] | None = None, condition: str | None = None) -> Merge:
        """Set columns of rows that match; without ``set``, all columns to those of the source by name."""
        return self.with_clause(Clause("matched", "update", set, condition))

    def when_matched_delete(self, condition: str | None = None) -> Merge:
        """Delete rows that match."""
        return self.with_clause(Clause("matched", "delete", None, condition))

    def when_not_matched_insert(self, values: Mapping[str, str] | None = None, condition: str | None = None) -> Merge:
        """Insert rows of the source without a match; without ``values``, all columns by name. Others become NULL."""
        return self.with_clause(Clause("not matched", "insert", values, condition))

    def when_not_matched_by_source_update(self, set: Mapping[str, str], condition: str | None = None) -> Merge:
        """Set columns of rows of the table that no row of the source matches."""
        return self.with_clause(Clause("not matched by source", "update", set, condition))

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> Merge:
        """Delete rows of the table that no row of the source matches."""
        return self.with_clause(Clause("not matched by source", "delete", None, condition))

    def with_clause(self, clause: Clause) -> Merge:
        """The merge with one clause more; SidestepError if it could never apply or says nothing."""
        for earlier in self.clauses:
            if earlier.kind == clause.kind and earlier.condition is None:
                raise SidestepError(
                    f"'{clause}' could never apply: '{earlier}' comes first and takes every row. Only the last clause "
                    "of a kind may be without a condition."
                )
        if clause.condition is not None and not clause.condition.strip():
            raise SidestepError(f"'{clause}' has an empty condition. Leave it out to take every row.")
        if clause.action != "delete" and clause.values is not None and not clause.values:
            raise SidestepError(f"'{clause}' has nothing to set: give columns with their values.")
        if clause.kind == "not matched by source" and clause.action == "update" and clause.values is None:
            raise SidestepError(f"'{clause}' has no row of the source to take values from: say what to set.")
        return replace(self, clauses=(*self.clauses, clause))

    def run(self, progress: Progress | None = None) -> MergeReport:
        """Do it, in one atomic commit; tried again from the start if other writers changed the table meanwhile."""
        return self.run_watched(Watch(self.spark.sparkContext, progress), "merge")

    def run_watched(self, watch: Watch, operation: str) -> MergeReport:
        """The same as part of another job, under the name that ``history`` is to show."""
        return _run(self.spark, self, watch, operation)

    def of_kind(self, kind: Kind) -> tuple[Clause, ...]:
        return tuple(clause for clause in self.clauses if clause.kind == kind)


def merge(
    spark: SparkSession,
    table: str | os.PathLike[str],
    source: Rows,
    on: str,
    *,
    target_alias: str = "target",
    source_alias: str = "source",
    index_dir: str | os.PathLike[str] | None = None,
) -> Merge:
    """Begin to merge a source (a DataFrame, a table's name or path) into a Delta table, given by path or name.

    ``on`` is the condition, in SQL, by which a row of the one and a row of the other match; in it and in all clauses
    columns are ``target.x`` and ``source.x``, or by the aliases given. Nothing is done before ``run``::

        sidestep.merge(spark, "/data/sales", batch, "target.id = source.id")
            .when_matched_update({"price": "source.price"}, condition="source.price > 0")
            .when_matched_delete()
            .when_not_matched_insert()
            .run()
    """
    check_session(spark)
    if target_alias.lower() == source_alias.lower():
        raise SidestepError(f"Both are called {target_alias}: give them different aliases.")
    return Merge(spark, table, source, on, target_alias, source_alias, index_dir)


@leaves_session_active
def _run(spark: SparkSession, merge: Merge, watch: Watch, operation: str) -> MergeReport:
    if not merge.clauses:
        raise SidestepError("The merge has no clause, so it would do nothing: add one, such as .when_matched_update().")
    removes = any(clause.action != "insert" for clause in merge.clauses)
    root = find_table(spark, merge.table, removes_rows=removes)
    rows = _source_rows(spark, merge.source)
    taken = [name for name in rows.columns if name.startswith(RESERVED)]
    if taken:
        raise SidestepError(f"The source has a column {taken[0]}; names that begin with {RESERVED} are taken.")
    settled = _settled(spark, merge, StructType([*rows.schema.fields, *columns_of_table(root).fields]))
    return with_retries(lambda: _Run(spark, settled, root, rows, watch).run(operation))


def _source_rows(spark: SparkSession, source: Rows) -> DataFrame:
    if isinstance(source, DataFrame):
        return source
    text = os.fspath(source)
    if "/" not in text and spark.catalog.tableExists(text):
        try:
            return spark.table(text)
        except PySparkException:  # a Delta table: Spark alone cannot read it
            return read(spark, text)
    return read(spark, text)


def _settled(spark: SparkSession, merge: Merge, columns: StructType) -> Merge:
    """The merge with texts of one moment, and no subqueries."""
    texts = [merge.on]
    for clause in merge.clauses:
        texts += [*(() if clause.condition is None else (clause.condition,)), *(clause.values or {}).values()]
    settled = iter(settle(change_session(spark), texts, columns))
    on, clauses = next(settled), []
    for clause in merge.clauses:
        condition = None if clause.condition is None else next(settled)
        values = None if clause.values is None else {name: next(settled) for name in clause.values}
        clauses.append(replace(clause, condition=condition, values=values))
    return replace(merge, on=on, clauses=tuple(clauses))


class _Run:
    """One attempt at a merge, from the newest version of the table to a commit."""

    def __init__(self, spark: SparkSession, merge: Merge, root: Location, rows: DataFrame, watch: Watch) -> None:
        self.merge, self.watch = merge, watch
        self.session = change_session(spark)
        # Before the source is run: what it reads of this table is not older than what is changed.
        self.state: TableState = open_any(self.session, root, merge.index_dir)
        self.target = target_rows(self.session, self.state, merge.target_alias)
        self.given = rows
        self.numbers = {clause: number for number, clause in enumerate(merge.clauses, 1)}
        self.assigned = tuple(
            name
            for name in self.state.schema.names
            if any(clause.action == "update" and name in self._values(clause) for clause in merge.clauses)
        )
        self.looked_at: dict[str, DataFile] = {}
        self.reasons: list[str] = []

    def run(self, operation: str) -> MergeReport:
        self._check()
        with self.watch.stage("run source"):
            numbered = keep(self.given.withColumn(SOURCE_ROW, f.monotonically_increasing_id()))
            source_rows = numbered.count()
        self.source = self._alias_source(in_session(self.session, numbered))
        if source_rows <= MOST_BROADCAST:
            self.source = f.broadcast(self.source)
        with self.watch.stage("find files"):
            pairs = self._pairs() if source_rows else None
            frames = self._changed(pairs)
            changes = changes_of(frames, self._deletes(), self.assigned)
            inserts = self._inserts(pairs) if source_rows else None
            inserted = 0 if inserts is None else inserts.count()
        done = apply_changes(
            self.session, self.state, changes, self.watch, operation, inserts=inserts, inserted=inserted
        )
        return MergeReport.of(
            self.state,
            done.version,
            done.removed,
            done.written,
            self.watch.stages,
            source_rows=source_rows,
            updated=changes.total - changes.deleted,
            deleted=changes.deleted,
            inserted=inserted,
            looked_at=tuple(self.looked_at.values()),
            reasons=tuple(dict.fromkeys(self.reasons)) if source_rows else ("the source is empty", *self.reasons),
        )

    def _alias_source(self, rows: DataFrame) -> DataFrame:
        return rows.alias(self.merge.source_alias)

    def _deletes(self) -> list[int]:
        return [number for clause, number in self.numbers.items() if clause.action == "delete"]

    def _values(self, clause: Clause) -> Mapping[str, str]:
        """What a clause sets, in the table's own names."""
        if clause.action == "delete":
            return {}
        if clause.values is None:
            return self._by_name(clause)
        values: dict[str, str] = {}
        for name, text in clause.values.items():
            own = own_name(self.session, name, self.state.schema)
            if own in values:
                raise SidestepError(f"'{clause}' sets {own} twice.")
            values[own] = text
        return values

    def _by_name(self, clause: Clause) -> Mapping[str, str]:
        sensitive = self.session.conf.get("spark.sql.caseSensitive") == "true"
        fold: Callable[[str], str] = (lambda name: name) if sensitive else str.lower
        given = {fold(name): name for name in self.given.columns}
        missing = [name for name in self.state.schema.names if fold(name) not in given]
        if missing:
            raise SidestepError(
                f"'{clause}' takes all columns by name, and the source has no {', '.join(missing)}: say what to set."
            )
        alias = name_text(self.merge.source_alias)
        return {name: f"{alias}.{name_text(given[fold(name)])}" for name in self.state.schema.names}

    def _check(self) -> None:
        """Refuse bad texts before any work."""
        empty = self._alias_source(self.session.createDataFrame([], self.given.schema))
        both = self.target.join(empty, how="cross")
        check_condition(self.session, self.state, self.merge.on, both)
        over = {"matched": both, "not matched": empty, "not matched by source": self.target}
        for clause in self.merge.clauses:
            if clause.condition is not None:
                check_condition(self.session, self.state, clause.condition, over[clause.kind])
            if clause.action == "insert":
                list(self._new_row(empty, clause))
            else:
                assigned_values(over[clause.kind], self._values(clause), self.state.schema, self.state.table.uri)

    def _narrow(self, query: DataFrame) -> DataFrame | None:
        """What a query over the target finds, kept; None if there is nothing to read for it."""
        narrowed: Narrowed = narrow(self.session, self.state, self.target, query)
        self.looked_at |= {file.path: file for file in narrowed.files}
        self.reasons += narrowed.reasons
        return keep(narrowed.rows) if narrowed.files else None

    def _apply(self, rows: DataFrame, clauses: Sequence[Clause]) -> DataFrame:
        """The rows with the number of the clause that applies, and what that sets."""
        number: Column = f.lit(0)
        for clause in reversed(clauses):
            holds = f.lit(True) if clause.condition is None else f.expr(clause.condition)
            number = f.when(holds, f.lit(self.numbers[clause])).otherwise(number)
        chosen = rows.withColumn(ACTION, number)
        new: dict[str, Column] = {}
        values = {
            clause: assigned_values(chosen, self._values(clause), self.state.schema, self.state.table.uri)
            for clause in clauses
            if clause.action == "update"
        }
        alias = name_text(self.merge.target_alias)
        for at, name in enumerate(self.assigned):
            value = f.col(f"{alias}.{name_text(name)}")
            for clause, sets in values.items():
                if name in sets:
                    value = f.when(f.col(ACTION) == self.numbers[clause], sets[name]).otherwise(value)
            new[new_name(at)] = value
        kept = [SOURCE_ROW] if SOURCE_ROW in rows.columns else []
        return chosen.select(PATH, POSITION, *kept, ACTION, *(value.alias(name) for name, value in new.items()))

    def _pairs(self) -> DataFrame | None:
        """The pairs that match, with what becomes of them; only of pairs that matter for something."""
        matched = self.merge.of_kind("matched")
        joined = self.target.join(self.source, f.expr(self.merge.on), "inner")
        if not matched and not self.merge.of_kind("not matched by source"):
            return self._narrow(joined.select(SOURCE_ROW).distinct())
        pairs = self._apply(joined, matched)
        if len(matched) == len(self.merge.clauses):
            pairs = pairs.where(f.col(ACTION) > 0)
        found = self._narrow(pairs)
        if found is not None:
            self._refuse_ambiguous(found, matched)
        return found

    def _refuse_ambiguous(self, pairs: DataFrame, matched: Sequence[Clause]) -> None:
        if not matched or (len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None):
            return
        twice = pairs.where(f.col(ACTION) > 0).groupBy(PATH, POSITION).count().where("count > 1")
        first = twice.orderBy(PATH, POSITION).limit(1).collect()
        if not first:
            return
        shown = row_at(self.session, self.state, first[0][PATH], first[0][POSITION])
        values = shown.select(*map(name_text, self.state.schema.names[:SHOWN])).collect()[0].asDict()
        which = ", ".join(f"{name} = {value}" for name, value in values.items())
        raise SidestepError(
            f"{counted(twice.count(), 'row')} of {self.state.table.uri} would be changed by more than one row of the "
            f"source, such as the row with {which}: {first[0]['count']} rows of the source match it. "
            "Nothing was committed. Leave one row for each in the source, or tell them apart in the condition."
        )

    def _changed(self, pairs: DataFrame | None) -> list[DataFrame]:
        frames = []
        matched, unmatched = self.merge.of_kind("matched"), self.merge.of_kind("not matched by source")
        if matched and pairs is not None:
            taken = pairs.where(f.col(ACTION) > 0)
            if len(matched) == 1 and matched[0].action == "delete":
                taken = taken.dropDuplicates([PATH, POSITION])
            frames.append(taken)
        if unmatched:
            rows = self.target
            if all(clause.condition is not None for clause in unmatched):
                rows = rows.where(" OR ".join(f"({clause.condition})" for clause in unmatched))
            if pairs is not None:
                hit = pairs.select(f.col(PATH).alias(f"{PATH}_m"), f.col(POSITION).alias(f"{POSITION}_m"))
                same = (f.col(PATH) == f.col(f"{PATH}_m")) & (f.col(POSITION) == f.col(f"{POSITION}_m"))
                rows = rows.join(hit, same, "left_anti")
            found = self._narrow(self._apply(rows, unmatched))
            if found is not None:
                frames.append(found.where(f.col(ACTION) > 0))
        return frames

    def _inserts(self, pairs: DataFrame | None) -> DataFrame | None:
        """The rows to insert, kept."""
        clauses = self.merge.of_kind("not matched")
        if not clauses:
            return None
        rows = self.source
        if pairs is not None:
            hit = pairs.select(f.col(SOURCE_ROW).alias(f"{SOURCE_ROW}_m")).distinct()
            rows = rows.join(hit, f.col(SOURCE_ROW) == f.col(f"{SOURCE_ROW}_m"), "left_anti")
        number: Column = f.lit(0)
        for clause in reversed(clauses):
            holds = f.lit(True) if clause.condition is None else f.expr(clause.condition)
            number = f.when(holds, f.lit(self.numbers[clause])).otherwise(number)
        chosen = rows.withColumn(ACTION, number).where(f.col(ACTION) > 0)
        new = {clause: dict(self._new_row(chosen, clause)) for clause in clauses}
        columns = []
        for schema in self.state.schema.fields:
            value = f.lit(None).cast(schema.dataType)
            for clause in clauses:
                value = f.when(f.col(ACTION) == self.numbers[clause], new[clause][schema.name]).otherwise(value)
            columns.append(value.alias(schema.name))
        return keep(chosen.select(columns))

    def _new_row(self, rows: DataFrame, clause: Clause) -> Iterator[tuple[str, Column]]:
        values = self._values(clause)
        given = assigned_values(rows, values, self.state.schema, self.state.table.uri)
        for schema in self.state.schema.fields:
            if schema.name in given:
                yield schema.name, given[schema.name]
            elif schema.nullable:
                yield schema.name, f.lit(None).cast(schema.dataType)
            else:
                raise SidestepError(
                    f"Column {schema.name} of {self.state.table.uri} must not be NULL, and '{clause}' does not set it."
                )
