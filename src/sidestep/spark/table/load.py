"""The load job: a table laid out by its workload, committed as one new version of a Delta table."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sidestep.advisor.synopses.choose import RecipeChoice, choose_recipes
from sidestep.advisor.synopses.queries import popular_sets
from sidestep.errors import Conflict, SidestepError, SidestepWarning, UnsupportedTable
from sidestep.predicate import DataType
from sidestep.spark.advise.study import choose_layout
from sidestep.spark.jvm.sessions import leaves_session_active, quiet_session
from sidestep.spark.log.analyze import read_workload
from sidestep.spark.organize.featurize import CheckedFeatures, check_features, no_features
from sidestep.spark.organize.organize import Organized, organize, unit_expression
from sidestep.spark.organize.write import arrow_schema
from sidestep.spark.progress import Progress, Watch
from sidestep.spark.relation import from_snapshot, resolve
from sidestep.spark.table.reports import LoadReport
from sidestep.spark.table.state import new_blocks, zone_columns
from sidestep.store import Location, Snapshot, append_blocks, index_folder, locate, read_snapshot
from sidestep.store.block_column import BLOCK, has_block_column, with_block_column, without_block_column
from sidestep.store.commit.log_entry import foreign_types
from sidestep.store.commit.transaction import AddedFile, check_writable, commit, with_retries
from sidestep.store.index.table_index import open_folder
from sidestep.store.location import delete, list_names
from sidestep.store.parquet.writer import RESERVED, BlockTarget
from sidestep.store.sidecars.layout import LayoutSpec, load_features, load_layout, save_features, save_layout
from sidestep.store.snapshots.delta import is_delta
from sidestep.store.upkeep.false_positives import remember_keeping
from sidestep.synopsis.build import Making
from sidestep.synopsis.recipe import Recipes
from sidestep.workload.features.feature_set import FeatureSet
from sidestep.workload.query import Workload
from sidestep.workload.table import ColumnUsage, column_usage

OPERATION = "OPTIMIZE"
CREATION = "CREATE TABLE AS SELECT"


@dataclass(frozen=True)
class Source:
    """The table that is loaded, at one moment."""

    name: str
    """What a log calls it."""
    path: str
    snapshot: Snapshot
    schema: StructType
    """As users see it: without the ids of blocks."""
    rows: DataFrame

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Those of a Delta table; of a folder of Parquet files they become columns like any other."""
        return self.snapshot.partition_columns if self.snapshot.format == "delta" else ()

    @property
    def types(self) -> dict[str, DataType]:
        """The columns that get zone maps."""
        inside = [field for field in self.schema.fields if field.name not in self.partition_columns]
        return zone_columns(StructType(inside))


@leaves_session_active
def load(
    spark: SparkSession,
    source: str,
    target: str | None = None,
    *,
    name: str | None = None,
    features: FeatureSet | str | None = None,
    log: str | None = None,
    by: str | None = None,
    num_features: int | None = None,
    min_size: int | None = None,
    order: Sequence[str] | None = None,
    unit_rows: int | None = None,
    file_bytes: int | None = None,
    recipes: Recipes | None = None,
    index_dir: str | None = None,
    progress: Progress | None = None,
) -> LoadReport:
    """Lay a table out so that its queries need read little of it.

    ``source`` is the path, or the name in the catalog, of a folder of Parquet files or a Delta table; the result is a
    Delta table at ``target``, or without one the source itself, if that is a Delta table. Rows that satisfy the same
    features come to lie together in blocks of at least ``min_size`` rows. The features are given, as a set or as the
    path of one, or are worked out from a ``log``; without either, those of an earlier load are used again. ``name`` is
    what the log calls the table, if that is not the name of its folder.

    ``by`` cuts the table into units that are laid out one by one: a column or an expression, such as
    ``date_trunc('MONTH', o_orderdate)``. Without it, units are slices of ``unit_rows`` rows. ``order`` names columns
    that blocks are to be narrow in. With a log, what is not given is chosen by what its queries would read of a sample
    (:func:`sidestep.advise` tells what to expect). So are the synopses that columns get beside zone maps: for what the
    log filters and joins on, by a sample of the source. Without a log they are those that the table had before, and
    ``recipes`` takes the place of either. The old version of the table stays readable; what others append
    meanwhile stays in the table as it is.
    """
    if features is not None and log is not None:
        raise SidestepError("Give either features or a log to work them out from, not both.")
    path = resolve(spark, os.fspath(source))
    root = locate(path)
    destination = root if target is None else locate(resolve(spark, os.fspath(target)))
    _check_target(root, destination)
    folder = index_folder(destination, index_dir)
    watch = Watch(spark.sparkContext, progress)
    wishes = _Wishes(features, by, num_features, min_size, order, unit_rows, file_bytes)

    quiet = quiet_session(spark)

    def work() -> LoadReport:
        found = read_source(quiet, name or source, path)
        with watch.stage("analyze"):
            workload = None if log is None else read_workload(quiet, log, {found.name: found.schema})
            checked, spec = _decided(quiet, found, wishes, folder, workload)
        choice, asked = None if recipes is None else RecipeChoice(recipes), None
        if workload is not None:
            asked = column_usage(workload, found.name)
            if choice is None:
                with watch.stage("synopses"):
                    choice = _synopses(found, asked, spec.min_size)
        making = new_blocks(
            found.snapshot,
            found.types,
            folder,
            spec.min_size,
            None if choice is None else choice.recipes,
            None if asked is None else popular_sets(asked, found.types),
        )
        return _laid_out(found, destination, folder, checked, spec, making, choice, watch)

    return with_retries(work)


@dataclass(frozen=True)
class _Wishes:
    features: FeatureSet | str | None
    by: str | None
    num_features: int | None
    min_size: int | None
    order: Sequence[str] | None
    unit_rows: int | None
    file_bytes: int | None


def _check_target(source: Location, target: Location) -> None:
    if target.uri == source.uri:
        if not is_delta(source):
            raise SidestepError(
                f"{source.uri} is not a Delta table, so it can't be replaced in one step: say where the laid-out "
                "table is to be, with target=…."
            )
        check_writable(source)
    elif any(not name.startswith("_sidestep") for name in list_names(target)):
        raise SidestepError(f"There is something at {target.uri} already: give a folder that is empty or not there.")


def read_source(spark: SparkSession, name: str, path: str) -> Source:
    """The table to load, with its rows as users see them; refused if a column could not be kept as it is."""
    snapshot = read_snapshot(path)
    rows = from_snapshot(spark, snapshot) if snapshot.format == "delta" else spark.read.parquet(path)
    schema = snapshot.schema or rows.schema.json()
    if has_block_column(schema):
        schema, rows = without_block_column(schema), rows.drop(BLOCK)
    fields = json.loads(schema)["fields"]
    for field in fields:
        column = field["name"]
        if column.lower() == BLOCK or column.lower().startswith(RESERVED):
            raise UnsupportedTable(
                f"{snapshot.root.uri} has a column {column}, a name that sidestep needs for itself: rename it first."
            )
        if foreign := next(foreign_types(field["type"]), None):
            raise UnsupportedTable(
                f"Column {column} of {snapshot.root.uri} is of type {foreign}, which a Delta table cannot hold: "
                "cast it to another type first."
            )
    called = name if "/" not in name and not name.startswith(".") else snapshot.root.name
    return Source(called, path, snapshot, StructType.fromJson({"type": "struct", "fields": fields}), rows)


def _synopses(source: Source, asked: ColumnUsage, min_size: int) -> RecipeChoice:
    """What columns get beside zone maps, as the log has it: by the rows as they come, in blocks of the size to be.

    Where they come to lie is not known yet. Partitions that the new table does not have are not told apart.
    """
    snapshot = source.snapshot
    if not source.partition_columns:
        files = tuple(replace(file, partition=()) for file in snapshot.files)
        snapshot = replace(snapshot, files=files, partition_columns=())
    return choose_recipes(snapshot, source.types, asked=asked, block_rows=min_size)


def _decided(
    spark: SparkSession, source: Source, wishes: _Wishes, folder: Location, workload: Workload | None
) -> tuple[CheckedFeatures, LayoutSpec]:
    """The features that can be used, and the layout: as wished, else as the log has it, else as it was before."""
    before = load_layout(folder) or LayoutSpec()
    spec = LayoutSpec(
        by=before.by if wishes.by is None else wishes.by,
        min_size=before.min_size if wishes.min_size is None else wishes.min_size,
        order=before.order if wishes.order is None else tuple(wishes.order),
        unit_rows=before.unit_rows if wishes.unit_rows is None else wishes.unit_rows,
        file_bytes=before.file_bytes if wishes.file_bytes is None else wishes.file_bytes,
        buckets=before.buckets,
        demands=before.demands,
        demands_of=before.demands_of,
    )
    for column in spec.order:
        _check_order(source, column)
    if spec.by is not None:
        unit_expression(source.rows, spec.by)
    if workload is not None:
        return _decided_by_log(spark, source, wishes, spec, workload)
    features = _features(wishes, folder, before)
    if features is None:
        return no_features(source.name), spec
    checked = check_features(spark, features, source.schema)
    return checked, replace(spec, features=_id_of(checked))


def _decided_by_log(
    spark: SparkSession, source: Source, wishes: _Wishes, spec: LayoutSpec, workload: Workload
) -> tuple[CheckedFeatures, LayoutSpec]:
    choice = choose_layout(
        spark,
        workload,
        source.name,
        source.rows,
        source.types,
        by=spec.by,
        num_features=wishes.num_features,
        min_size=spec.min_size,
        order=wishes.order,
        unit_rows=spec.unit_rows,
        partition_columns=source.partition_columns,
    )
    checked = check_features(spark, choice.features, source.schema)
    place = {feature: number for number, feature in enumerate(choice.features.features)}
    demands = choice.demands.restrict([place[feature] for feature in checked.features.features])
    return checked, replace(
        spec,
        by=choice.by,
        order=choice.order,
        buckets=choice.buckets,
        features=_id_of(checked),
        demands=json.dumps(demands.to_json()),
        demands_of=checked.features.id,
    )


def _id_of(checked: CheckedFeatures) -> str | None:
    return checked.features.id if len(checked.features) else None


def _features(wishes: _Wishes, folder: Location, before: LayoutSpec) -> FeatureSet | None:
    """The features as given, else those of the layout before."""
    if isinstance(wishes.features, FeatureSet):
        features: FeatureSet | None = wishes.features
    elif wishes.features is not None:
        features = FeatureSet.load(wishes.features)
    else:
        features = load_features(folder, before.features) if before.features is not None else None
    if features is not None and wishes.num_features is not None:
        features = replace(features, features=features.features[: wishes.num_features])
    return features


def _check_order(source: Source, column: str) -> None:
    if column not in source.schema.names:
        raise SidestepError(
            f"There is no column {column} to order by in {source.path}; it has {', '.join(source.schema.names)}."
        )
    kind = source.schema[column].dataType.typeName()
    if kind in ("map", "variant"):
        raise SidestepError(f"Column {column} of {source.path} is a {kind}, which has no order: leave it out of order.")


def _laid_out(
    source: Source,
    root: Location,
    folder: Location,
    checked: CheckedFeatures,
    spec: LayoutSpec,
    making: Making,
    choice: RecipeChoice | None,
    watch: Watch,
) -> LoadReport:
    partitions = source.partition_columns
    data = [field for field in source.schema.fields if field.name not in partitions]
    target = BlockTarget(
        root=root.uri,
        schema=arrow_schema(StructType(data)),
        columns=source.types,
        min_size=spec.min_size,
        features=len(checked.features),
        features_id=spec.features,
        partition_columns=partitions,
        making=making,
        spark_version=source.rows.sparkSession.version,
    )
    done = organize(
        source.rows,
        checked,
        spec,
        target,
        first_block=next_block(folder),
        source_bytes=source.snapshot.bytes,
        watch=watch,
    )
    if done.rows and done.rows < spec.min_size:
        warnings.warn(
            f"{root.uri} has {done.rows:,} rows, fewer than one block of min_size={spec.min_size:,}: queries can skip "
            "units, but nothing within one. A smaller min_size would change that.",
            SidestepWarning,
            stacklevel=4,
        )
    with watch.stage("index"):
        # Before the commit: entries of files that never get into the table harm no one.
        if spec.features is not None:
            save_features(folder, checked.features)
        save_layout(folder, spec)
        if done.files:
            rates = None if choice is None else choice.bounds
            append_blocks(folder, [file.index for file in done.files], source.types, making, rates)
    with watch.stage("commit"):
        try:
            version = _committed(source, root, done)
        except (Conflict, UnsupportedTable):
            for file in done.files:  # nothing was committed, so no one can know of them
                delete(root.child(file.path))
            raise
    if choice is not None:
        remember_keeping(open_folder(folder), [file.data_file for file in done.files])
    notes = () if choice is None else choice.notes
    return LoadReport.of(root.uri, version, source.snapshot, spec, checked, done, watch.stages, making.recipes, notes)


def _committed(source: Source, root: Location, done: Organized) -> int:
    in_place = root.uri == source.snapshot.root.uri
    added = [
        AddedFile(file.path, file.size, file.modified, file.partition, file.stats, file.rows) for file in done.files
    ]
    return commit(
        root,
        add=added,
        remove=source.snapshot.files if in_place else (),
        read_version=source.snapshot.version if in_place else None,
        schema=with_block_column((source.snapshot.schema if in_place else None) or source.schema.json()),
        partition_columns=source.partition_columns,
        operation=OPERATION if in_place else CREATION,
        data_change=not in_place,
    )


def next_block(folder: Location) -> int:
    """The first block id that the table has not used yet, as far as its index knows."""
    return int(open_folder(folder).block_ids.max(initial=-1)) + 1
