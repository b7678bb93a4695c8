"""``sidestep.index``: chooses the synopses of a table's columns, and has the collect job make them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from sidestep.advisor.synopses.choose import RecipeChoice, choose_recipes
from sidestep.advisor.synopses.queries import popular_sets
from sidestep.predicate import DataType
from sidestep.spark import collect
from sidestep.spark.jvm.sessions import leaves_session_active
from sidestep.spark.log.analyze import read_workload
from sidestep.spark.log.statements import Table
from sidestep.spark.relation import read, resolve
from sidestep.store import IndexStatus, Snapshot, read_snapshot
from sidestep.store import status as store_status
from sidestep.store.block_column import BLOCK
from sidestep.store.index.table_index import TableIndex, open_index
from sidestep.store.upkeep.false_positives import remember_keeping
from sidestep.synopsis.recipe import Recipe, Wishes, bytes_of
from sidestep.workload.query import Workload
from sidestep.workload.table import Asked, asked_of

Log = str | os.PathLike[str] | Sequence[str]


@leaves_session_active
def index(
    spark: SparkSession,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    index_dir: str | None = None,
    footers: bool = True,
    synopses: Wishes | None = None,
    budget: int | str | None = None,
    log: Log | None = None,
    name: str | None = None,
    tables: Mapping[str, Table] | None = None,
    rebuild: bool = False,
    progress: collect.Progress | None = None,
) -> IndexStatus:
    """Index the table at a path (or of a name in the catalog): what each row group of its files holds.

    All columns of an ordered type get zone maps, or those named. Files whose entries are up to date are left alone, so
    after new files have come this is quick. ``footers=False`` reads all data instead of trusting the statistics that
    known writers leave in Parquet footers. The index goes to ``_sidestep`` in the table's folder, or to ``index_dir``.

    Some columns get more, where a sample of blocks shows that it is of use; with a ``log``, of use to its queries. In
    it, ``name`` is what the table is called, and ``tables`` has the paths of others that are named. ``budget`` is how
    many bytes synopses beside zone maps may take, as a number or a text like ``"8MB"``; it is spent where it saves
    most. ``synopses`` says what columns get: ``"id=range-set:20,code=bloom"``, or a mapping from column to the same.
    The choice is remembered: later calls give new files what the others have, unless one of these is given.
    ``rebuild`` makes everything anew, of all files.
    """
    size = None if budget is None else bytes_of(budget)
    path = resolve(spark, os.fspath(table))
    snapshot = read_snapshot(path)
    types = collect.column_types(spark, snapshot, path, columns)
    usable = {of: type for of, type in types.items() if of not in snapshot.partition_columns and of != BLOCK}
    workload, asked = None, None
    if log is not None:
        called = name or (snapshot.root.name if "/" in table or table.startswith(".") else table)
        workload = read_workload(spark, log, {**(tables or {}), called: read(spark, path).schema})
        asked = asked_of(workload, called)
    view = open_index(snapshot.root, index_dir)
    choice = _chosen(snapshot, usable, view, synopses, size, asked, rebuild)
    found = collect.index_snapshot(
        spark,
        snapshot,
        types,
        index_dir=index_dir,
        footers=footers,
        recipes=None if choice is None else choice.recipes,
        rates=None if choice is None else choice.bounds,
        asked=None if asked is None else popular_sets(asked, usable),
        rebuild=rebuild,
        progress=progress,
    )
    if choice is None:
        return found
    if snapshot.files:
        remember_keeping(open_index(snapshot.root, index_dir), snapshot.files)
    if found.synopses:
        found = store_status(snapshot, index_dir)
    return replace(found, notes=(*_about(workload, asked), *choice.notes))


def _chosen(
    snapshot: Snapshot,
    columns: Mapping[str, DataType],
    view: TableIndex,
    synopses: Wishes | None,
    budget: int | None,
    asked: Asked | None,
    rebuild: bool,
) -> RecipeChoice | None:
    """What columns are to have; None if that was chosen before and no one asks for anything else.

    Columns that are not spoken of keep what they have; only a budget, a log or a rebuild chooses for all anew.
    """
    decided = frozenset(view.decided.keys() & columns.keys())
    if budget is not None or asked is not None or rebuild:
        decided = frozenset()
    if synopses is None and decided >= columns.keys():
        return None
    kept = {of: view.recipes.get(of, Recipe()) for of in decided}
    found = choose_recipes(snapshot, columns, synopses=synopses, budget=budget, asked=asked, kept=kept)
    # What was expected of other synopses than these says nothing any more.
    same = {of for of, recipe in found.recipes.items() if recipe == view.recipes.get(of)}
    before = {of: rate if of in same else 1.0 for of, rate in view.rates.items()}
    return replace(found, bounds={**before, **found.bounds})


def _about(workload: Workload | None, asked: Asked | None) -> list[str]:
    """What is to be said of the log."""
    if workload is None or asked is None:
        return []
    found = []
    if workload.failures:
        many, first = sum(each.statement.count for each in workload.failures), workload.failures[0].reason
        found.append(f"{many:,} statement{'s' * (many != 1)} of the log could not be used, the first because: {first}.")
    if not asked.ranges and not asked.joins:
        found.append("No query of the log filters this table or joins on it: say what the log calls it.")
    return found
