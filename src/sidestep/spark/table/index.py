"""``sidestep.index``: chooses the synopses of a table's columns, and has the collect job make them.

The collect job builds the synopses of a table's blocks on Spark, in one pass over what is not indexed yet. The index is
opened once before the job, and once after it if it wrote something; every layer is given the open one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from sidestep.advisor.synopses.choose import RecipeChoice, choose_recipes
from sidestep.advisor.synopses.queries import popular_sets
from sidestep.errors import DamagedFile, SidestepError
from sidestep.predicate import DataType, parse_type
from sidestep.spark.advise.drift import measure_drift
from sidestep.spark.advise.log_name import names_in_logs, read_log_of
from sidestep.spark.advise.source import read_source
from sidestep.spark.jvm.sessions import leaves_session_active, quiet_session, same_interpreter
from sidestep.spark.log.analyze import LogSource
from sidestep.spark.log.statements import Table
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import iceberg_of, resolve
from sidestep.spark.rule.settings import wants_footer_keys
from sidestep.spark.table.group_optimize import group_drift
from sidestep.store import DataFile, IndexStatus, Snapshot, Sources, block_summaries, locate, read_snapshot
from sidestep.store import status as table_status
from sidestep.store.access import store_settings, use_settings
from sidestep.store.block_column import block_name, without_block_column
from sidestep.store.index.index_file import index_folder
from sidestep.store.index.table_index import TableIndex, open_index
from sidestep.store.sidecars.layout import LayoutSpec, load_layout
from sidestep.store.snapshot import Field
from sidestep.store.upkeep.false_positives import load_estimates, remember_keeping
from sidestep.store.upkeep.status import index_status
from sidestep.store.upkeep.update import update_index
from sidestep.synopsis.build import AskedRanges, BuildPlan
from sidestep.synopsis.recipe import Recipe, Recipes, RecipeText, bytes_of, rename_recipes
from sidestep.workload.query import Workload
from sidestep.workload.table import ColumnUsage, column_usage

TASKS_PER_CORE = 8
T = TypeVar("T")


@leaves_session_active
def index(
    spark: SparkSession,
    table: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    footers: bool = True,
    synopses: RecipeText | None = None,
    budget: int | str | None = None,
    limit: int | str | None = None,
    log: LogSource | None = None,
    name: str | None = None,
    tables: Mapping[str, Table] | None = None,
    dialect: str | None = None,
    rebuild: bool = False,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> IndexStatus:
    """Index the table at a path (or of a name in the catalog): what each row group of its files holds.

    All columns of an ordered type get zone maps, or those named. Of a folder of Parquet files they are the columns that
    Spark finds there; one that only some files have is to be named once, and is known from then on. Files whose entries
    are up to date are left alone, so after new files have come this is quick. ``footers=False`` reads all data instead
    of trusting the statistics that known writers leave in Parquet footers. The index goes to ``_sidestep`` in the
    table's folder, or to ``index_dir``. An Iceberg table is given by its name: its files are those of the snapshot that
    queries of this session read.

    Some columns get more, where a sample of blocks shows that it is of use; with a ``log``, of use to its queries. All
    of that takes at most ``limit``: a share of the table's bytes, 1% if nothing is said, or bytes; 0 is for zone maps
    alone. In the log, ``name`` is what the table is called, ``tables`` has the paths of others that are named, and
    ``dialect`` is its SQL, if that is not Spark's. ``budget`` is how many bytes synopses beside zone maps may take
    instead, as a number or a text like ``"8MB"``; it is spent where it saves most. ``synopses`` says what columns get:
    ``"id=range-set:20,code=bloom"``, or a mapping from column to the same. The choice is remembered: later calls give
    new files what the others have, unless one of these is given. ``rebuild`` makes everything anew, of all files.

    A file whose path, size and modification time are those of an entry is up to date. With the session's setting
    ``spark.sidestep.fileKeys=footer`` its footer, too, has to be the one that the entry was made from.
    """
    size = None if budget is None else bytes_of(budget)
    lake = iceberg_of(spark, table)
    path = resolve(spark, table) if lake is None else os.fspath(table)
    snapshot = read_snapshot(path, to_index=True) if lake is None else lake
    stored = dict(snapshot.stored_names)
    opened = open_index(snapshot.root, index_dir)
    types = column_types(spark, snapshot, path, columns)
    if columns is None and snapshot.format == "parquet":
        # Of a folder, Spark looks at one file; columns that others have were named before.
        types = {**opened.columns, **types}
    usable = {of: type for of, type in types.items() if of not in snapshot.partition_columns}
    watch = Watch(spark.sparkContext, progress)
    workload, usage = None, None
    if log is not None:
        names = names_in_logs(name, table, snapshot.root, load_layout(index_folder(snapshot.root, index_dir)))
        with watch.stage("analyze"):
            called, workload = read_log_of(spark, log, names, _schema(spark, snapshot, path), tables, dialect)
            usage = column_usage(workload, called, stored)
    keys = _ColumnKeys.of(snapshot, opened)
    with watch.stage("synopses"):
        recipes = None if synopses is None else rename_recipes(synopses, stored)
        choice = _choose_synopses(snapshot, usable, opened, keys, recipes, size, limit, usage, rebuild)
    updated = index_snapshot(
        spark,
        snapshot,
        keys.stored(types),
        opened,
        footers=footers,
        recipes=None if choice is None else keys.stored(choice.recipes),
        rates=None if choice is None else keys.stored(choice.bounds),
        asked=None if usage is None else keys.stored(popular_sets(usage, usable)),
        rebuild=rebuild,
        by_footer=wants_footer_keys(spark),
        watch=watch,
    )
    if choice is None:
        return index_status(snapshot, updated)
    tried = tuple(replace(each, column=keys.key(each.column)) for each in choice.tried)
    estimates = remember_keeping(updated, snapshot.files, tried) if snapshot.files else None
    return replace(index_status(snapshot, updated, estimates), notes=(*_log_notes(workload, usage), *choice.notes))


@dataclass(frozen=True)
class _ColumnKeys:
    """What an index calls the columns of a table: their names, or where files have them by id, keys with those."""

    of_name: Mapping[str, str]

    @classmethod
    def of(cls, snapshot: Snapshot, index: TableIndex) -> _ColumnKeys:
        """A column that has got another name keeps the key that it has."""
        return cls({field.name: index.columns_by_id.get(field.id, field.key) for field in snapshot.fields})

    def key(self, name: str) -> str:
        return self.of_name.get(name, name)

    def stored(self, by_name: Mapping[str, T]) -> dict[str, T]:
        """By key what is given by name."""
        return {self.key(name): value for name, value in by_name.items()}

    def named(self, by_key: Mapping[str, T]) -> dict[str, T]:
        """By name what is given by key."""
        names = {key: name for name, key in self.of_name.items()}
        return {names.get(key, key): value for key, value in by_key.items()}


def _choose_synopses(
    snapshot: Snapshot,
    columns: Mapping[str, DataType],
    index: TableIndex,
    keys: _ColumnKeys,
    synopses: RecipeText | None,
    budget: int | None,
    limit: int | str | None,
    usage: ColumnUsage | None,
    rebuild: bool,
) -> RecipeChoice | None:
    """What columns are to have; None if that was chosen before and no one asks for anything else.

    Columns that are not named keep what they have; only a budget, a limit, a log or a rebuild chooses for all anew.
    """
    held, rates = keys.named(index.recipes), keys.named(index.rates)
    decided = frozenset(keys.named(index.decided).keys() & columns.keys())
    if budget is not None or limit is not None or usage is not None or rebuild:
        decided = frozenset()
    if synopses is None and decided >= columns.keys():
        return None
    kept = {name: held.get(name, Recipe()) for name in decided}
    choice = choose_recipes(
        snapshot,
        columns,
        synopses=synopses,
        budget=budget,
        limit=limit,
        asked=usage,
        kept=kept,
    )
    # What was expected of other synopses than these says nothing any more.
    same = {name for name, recipe in choice.recipes.items() if recipe == held.get(name)}
    before = {name: rate if name in same else 1.0 for name, rate in rates.items()}
    noted = load_estimates(index.folder).tried if decided else ()
    earlier = (each for name in decided & same for each in noted if each.column == keys.key(name))
    tried = (*(replace(each, column=keys.named({each.column: ""}).popitem()[0]) for each in earlier), *choice.tried)
    return replace(choice, bounds={**before, **choice.bounds}, tried=tried)


def _log_notes(workload: Workload | None, usage: ColumnUsage | None) -> list[str]:
    """What a person should know of the log: statements that could not be used, and whether it names the table."""
    if workload is None or usage is None:
        return []
    notes = list(workload.notes)
    if not usage.ranges and not usage.joins:
        notes.append("No query of the log filters this table or joins on it: say what the log calls it.")
    return notes


def index_snapshot(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: Mapping[str, DataType],
    index: TableIndex,
    *,
    footers: bool = True,
    recipes: Recipes | None = None,
    rates: Mapping[str, float] | None = None,
    asked: AskedRanges | None = None,
    rebuild: bool = False,
    by_footer: bool = False,
    watch: Watch | None = None,
) -> TableIndex:
    """The collect job: index the files of a snapshot that are not indexed yet, with zone maps and by recipes.

    ``recipes`` are all that columns get beside zone maps; without, new files get what the others have. ``rates`` are
    the false positives expected of that, to be remembered; ``asked`` is what the workload asks of columns.
    """
    sources = Sources(footers=footers)
    watched = watch or Watch(spark.sparkContext)

    def run(files: Sequence[DataFile], making: BuildPlan) -> Iterable[pa.Table | DamagedFile | None]:
        if not files:
            return []
        with watched.stage("collect", len(files), "files"):
            return summarize_on_spark(spark, snapshot, files, columns, sources, making)

    return update_index(
        snapshot,
        columns,
        index,
        run,
        recipes=recipes,
        rates=rates,
        asked=asked,
        rebuild=rebuild,
        by_footer=by_footer,
    )


def status(
    spark: SparkSession | None,
    table: str | os.PathLike[str],
    *,
    log: LogSource | None = None,
    name: str | None = None,
    tables: Mapping[str, Table] | None = None,
    dialect: str | None = None,
    index_dir: str | os.PathLike[str] | None = None,
) -> IndexStatus:
    """What of the table at a path (or of a name in the catalog) is indexed, and how big its index is.

    With a ``log`` of today's queries, in which the table is called ``name``, also how far they have moved from those
    that it was laid out for, and what laying it out anew would save (``drift``); ``tables`` has the paths of others
    that the log names, and ``dialect`` is its SQL, if that is not Spark's. Without a log, a path needs no Spark:
    ``spark`` may be None then.
    """
    lake = None if spark is None else iceberg_of(spark, table)
    if lake is not None:
        if log is not None:
            raise SidestepError(
                f"{lake.root.uri} is an Iceberg table, which has no layout to drift from: leave log out."
            )
        index = open_index(lake.root, index_dir)
        index.verify()
        return index_status(lake, index)
    if log is None:
        return table_status(table if spark is None else resolve(spark, table), index_dir)
    if spark is None:
        raise SidestepError("A log is read by Spark: give a session as well.")
    path = resolve(spark, table)
    found = table_status(path, index_dir)
    quiet = quiet_session(spark)
    if found.groups and found.files:
        drift, *_ = group_drift(quiet, locate(path), name, log, tables, dialect, Watch(spark.sparkContext))
        return replace(found, drift=drift)
    source, index = read_source(quiet, table, ""), open_index(path, index_dir)
    spec = load_layout(index.folder) or LayoutSpec()
    names = names_in_logs(name, table, locate(path), spec)
    called, workload = read_log_of(quiet, log, names, source.schema, tables, dialect)
    drift, _ = measure_drift(workload, replace(source, name=called), index, spec)
    return replace(found, drift=drift)


def column_types(
    spark: SparkSession, snapshot: Snapshot, path: str, columns: Sequence[str] | None
) -> dict[str, DataType]:
    """The columns to index, as the files call them, with their types as Spark sees the table."""
    stored = dict(snapshot.stored_names)
    schema = _schema(spark, snapshot, path)
    if snapshot.format == "parquet" and columns is not None and not set(columns) <= set(schema.names):
        schema = _merged_schema(spark, path) or schema
    types = {field.name: parse_type(field.dataType.simpleString()) for field in schema.fields}
    # What a file says of an identity partition is not what Iceberg reads there, and Iceberg prunes by it in any case.
    apart = {field.name for field in snapshot.fields if not field.in_files}
    if columns is None:
        return {stored.get(name, name): kind for name, kind in types.items() if kind.ordered and name not in apart}
    unknown = [name for name in columns if name not in types]
    if unknown:
        raise SidestepError(
            f"{snapshot.root.uri} has no column {', '.join(unknown)}; it has {', '.join(types)}. "
            "Names are case-sensitive."
        )
    return {stored.get(name, name): types[name] for name in columns}


def _schema(spark: SparkSession, snapshot: Snapshot, path: str) -> StructType:
    """The columns of a table, by the names that users know."""
    if snapshot.fields:
        return spark.table(path).schema
    if snapshot.schema is None:
        return spark.read.parquet(path).schema
    names = {stored: name for name, stored in snapshot.stored_names}
    fields = StructType.fromJson(json.loads(without_block_column(snapshot.schema))).fields
    return StructType([StructField(names.get(each.name, each.name), each.dataType, each.nullable) for each in fields])


def _merged_schema(spark: SparkSession, path: str) -> StructType | None:
    """The columns of all files of a folder; None if they do not go together."""
    try:
        return spark.read.option("mergeSchema", "true").parquet(path).schema
    except PySparkException:
        return None


def summarize_on_spark(
    spark: SparkSession,
    snapshot: Snapshot,
    files: Sequence[DataFile],
    columns: Mapping[str, DataType],
    sources: Sources,
    making: BuildPlan,
) -> list[pa.Table | DamagedFile | None]:
    """The index rows of each file, read by Spark's executors; large files first, so that no core waits at the end."""
    context = spark.sparkContext
    tasks = min(len(files), context.defaultParallelism * TASKS_PER_CORE)
    by_size = sorted(files, key=lambda file: file.size, reverse=True)
    shares = [by_size[start::tasks] for start in range(tasks)]
    root, log_times, wanted = snapshot.root.uri, snapshot.fixed, dict(columns)
    block, ids, fields = block_name(snapshot.schema), dict(snapshot.field_ids), snapshot.fields
    settings = store_settings()

    def work(parts: Iterable[list[DataFile]]) -> Iterable[bytes | str]:
        use_settings(settings)
        for share in parts:
            yield from _summarize_share(root, share, wanted, sources, log_times, making, block, ids, fields)

    with same_interpreter(context):
        summaries = context.parallelize(shares, tasks).mapPartitions(work).collect()
    return [DamagedFile(one) if isinstance(one, str) else pa.ipc.open_stream(one).read_all() for one in summaries]


def _summarize_share(
    root: str,
    files: Sequence[DataFile],
    columns: Mapping[str, DataType],
    sources: Sources,
    log_times: bool,
    making: BuildPlan,
    block: str | None,
    ids: Mapping[str, int],
    fields: Sequence[Field],
) -> Iterator[bytes | str]:
    """On an executor: the index rows of some files as one Arrow stream per schema, and a sentence per damaged file."""
    location = locate(root)
    for file in files:
        try:
            table = block_summaries(
                location,
                file,
                columns,
                sources,
                making=making,
                log_times=log_times,
                block=block,
                ids=ids,
                fields=fields,
            )
        except DamagedFile as problem:
            yield str(problem)
            continue
        if table is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            yield sink.getvalue().to_pybytes()
