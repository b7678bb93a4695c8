"""The collect job: builds the synopses of a table's blocks on Spark, one pass over what is not indexed yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import InheritableThread
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from sidestep.errors import DamagedFile, SidestepError
from sidestep.predicate import DataType, parse_type
from sidestep.spark.jvm.sessions import same_interpreter
from sidestep.spark.relation import resolve
from sidestep.store import DataFile, IndexStatus, Snapshot, Sources, block_summaries, locate
from sidestep.store import status as store_status
from sidestep.store.upkeep.update import update_index
from sidestep.synopsis.build import Asked, Making
from sidestep.synopsis.recipe import Recipes

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
    asked: Asked | None = None,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> IndexStatus:
    """The collect job: index the files of a snapshot that are not indexed yet, with zone maps and by recipes.

    ``recipes`` are all that columns get beside zone maps; without, new files get what the others have. ``rates`` are
    the false positives expected of that, to be remembered; ``asked`` is what the workload asks of columns.
    """
    sources = Sources(footers=footers)

    def run(files: Sequence[DataFile], making: Making) -> Iterable[pa.Table | DamagedFile | None]:
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
    making: Making | None = None,
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
    making: Making | None,
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
