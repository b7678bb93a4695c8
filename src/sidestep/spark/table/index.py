"""``sidestep.index``: chooses the synopses of a table's columns, and has the collect job make them.

The collect job: builds the synopses of a table's blocks on Spark, one pass over what is not indexed yet.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sidestep.advisor.synopses.choose import RecipeChoice, choose_recipes
from sidestep.advisor.synopses.queries import popular_sets
from sidestep.errors import DamagedFile, SidestepError
from sidestep.predicate import DataType, parse_type
from sidestep.spark.jvm.sessions import leaves_session_active, same_interpreter
from sidestep.spark.log.analyze import read_workload
from sidestep.spark.log.statements import Table
from sidestep.spark.relation import read, resolve
from sidestep.store import DataFile, IndexStatus, Snapshot, Sources, block_summaries, locate, read_snapshot
from sidestep.store import status as store_status
from sidestep.store.block_column import BLOCK
from sidestep.store.index.table_index import TableIndex, open_index
from sidestep.store.upkeep.false_positives import remember_keeping
from sidestep.store.upkeep.update import update_index
from sidestep.synopsis.build import AskedRanges, BuildPlan
from sidestep.synopsis.recipe import Recipe, Recipes, RecipeText, bytes_of
from sidestep.workload.query import Workload
from sidestep.workload.table import ColumnUsage, column_usage

Log = str | os.PathLike[str] | Sequence[str]


@leaves_session_active
def index(
    spark: SparkSession,
    table: str,
    *,
    columns: Sequence[str] | None = None,
    index_dir: str | None = None,
    footers: bool = True,
    synopses: RecipeText | None = None,
    budget: int | str | None = None,
    log: Log | None = None,
    name: str | None = None,
    tables: Mapping[str, Table] | None = None,
    rebuild: bool = False,
    progress: Progress | None = None,
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
    types = column_types(spark, snapshot, path, columns)
    usable = {of: type for of, type in types.items() if of not in snapshot.partition_columns and of != BLOCK}
    workload, asked = None, None
    if log is not None:
        called = name or (snapshot.root.name if "/" in table or table.startswith(".") else table)
        workload = read_workload(spark, log, {**(tables or {}), called: read(spark, path).schema})
        asked = column_usage(workload, called)
    view = open_index(snapshot.root, index_dir)
    choice = _chosen(snapshot, usable, view, synopses, size, asked, rebuild)
    found = index_snapshot(
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
    synopses: RecipeText | None,
    budget: int | None,
    asked: ColumnUsage | None,
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


def _about(workload: Workload | None, asked: ColumnUsage | None) -> list[str]:
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


Progress = Callable[[int, int], None]
"""Told (files done, files in all) while the job runs."""
TASKS_PER_CORE = 8


def index_snapshot(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: Mapping[str, DataType],
    *,
    index_dir: str | None = None,
    footers: bool = True,
    recipes: Recipes | None = None,
    rates: Mapping[str, float] | None = None,
    asked: AskedRanges | None = None,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> IndexStatus:
    """The collect job: index the files of a snapshot that are not indexed yet, with zone maps and by recipes.

    ``recipes`` are all that columns get beside zone maps; without, new files get what the others have. ``rates`` are
    the false positives expected of that, to be remembered; ``asked`` is what the workload asks of columns.
    """
    sources = Sources(footers=footers)

    def run(files: Sequence[DataFile], making: BuildPlan) -> Iterable[pa.Table | DamagedFile | None]:
        return summarize_on_spark(spark, snapshot, files, columns, sources, progress, making)

    update_index(snapshot, columns, index_dir, run, recipes=recipes, rates=rates, asked=asked, rebuild=rebuild)
    return store_status(snapshot, index_dir)


def status(spark: SparkSession | None, table: str, *, index_dir: str | None = None) -> IndexStatus:
    """What of the table at a path (or of a name in the catalog) is indexed, and how big its index is.

    A path needs no Spark: ``spark`` may be None then.
    """
    return store_status(table if spark is None else resolve(spark, table), index_dir)


def column_types(
    spark: SparkSession, snapshot: Snapshot, path: str, columns: Sequence[str] | None
) -> dict[str, DataType]:
    """The columns to index with their types: as Spark sees the table."""
    if snapshot.schema is not None:
        schema = StructType.fromJson(json.loads(snapshot.schema))
    else:
        schema = spark.read.parquet(path).schema
    types = {field.name: parse_type(field.dataType.simpleString()) for field in schema.fields}
    if columns is None:
        return {name: kind for name, kind in types.items() if kind.ordered}
    unknown = [name for name in columns if name not in types]
    if unknown:
        raise SidestepError(
            f"{snapshot.root.uri} has no column {', '.join(unknown)}; it has {', '.join(types)}. "
            "Names are case-sensitive."
        )
    return {name: types[name] for name in columns}


def summarize_on_spark(
    spark: SparkSession,
    snapshot: Snapshot,
    files: Sequence[DataFile],
    columns: Mapping[str, DataType],
    sources: Sources,
    progress: Progress | None,
    making: BuildPlan | None = None,
) -> list[pa.Table | DamagedFile | None]:
    """The index rows of each file, read by Spark's executors; large files first, so that no core waits at the end."""
    if not files:
        return []
    context = spark.sparkContext
    tasks = min(len(files), context.defaultParallelism * TASKS_PER_CORE)
    by_size = sorted(files, key=lambda file: file.size, reverse=True)
    shares = [by_size[start::tasks] for start in range(tasks)]
    root, log_times, wanted = snapshot.root.uri, snapshot.format == "delta", dict(columns)

    def work(parts: Iterable[list[DataFile]]) -> Iterable[bytes | str]:
        for share in parts:
            yield from _summarize_share(root, share, wanted, sources, log_times, making)

    with same_interpreter(context):
        done = context.parallelize(shares, tasks).mapPartitions(work)
        collected = _collected(context, done, tasks, len(files), progress)
    return [DamagedFile(one) if isinstance(one, str) else pa.ipc.open_stream(one).read_all() for one in collected]


def _summarize_share(
    root: str,
    files: Sequence[DataFile],
    columns: Mapping[str, DataType],
    sources: Sources,
    log_times: bool,
    making: BuildPlan | None,
) -> Iterator[bytes | str]:
    """On an executor: the index rows of some files as one Arrow stream per schema, and a sentence per damaged file."""
    location = locate(root)
    for file in files:
        try:
            table = block_summaries(location, file, columns, sources, making=making, log_times=log_times)
        except DamagedFile as problem:
            yield str(problem)
            continue
        if table is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            yield sink.getvalue().to_pybytes()


def _collected(context: Any, rdd: Any, tasks: int, files: int, progress: Progress | None) -> list[bytes | str]:
    """``rdd.collect()``, telling how far it is while it runs."""
    if progress is None:
        collected: list[bytes | str] = rdd.collect()
        return collected
    outcome: dict[str, Any] = {}
    group = f"sidestep-index-{id(rdd)}"

    def run() -> None:
        try:
            context.setJobGroup(group, "sidestep: collect synopses")
            outcome["rows"] = rdd.collect()
        except BaseException as problem:
            outcome["problem"] = problem

    thread = InheritableThread(target=run)
    thread.start()
    tracker = context.statusTracker()
    while thread.is_alive():
        finished = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                stage_info = tracker.getStageInfo(stage)
                finished += stage_info.numCompletedTasks if stage_info else 0
        progress(min(files, round(files * finished / tasks)), files)
        thread.join(timeout=0.1)
    if "problem" in outcome:
        raise outcome["problem"]
    progress(files, files)
    rows: list[bytes | str] = outcome["rows"]
    return rows
