"""What a write to a laid-out table starts from, and how it ends: a snapshot and its layout; entries, then a commit.

Every write goes the same way. It reads one snapshot, writes block files beside the old ones, puts their entries into
the index, and commits. Entries come first: a file that is committed is skippable at once, and an entry of a file that
never gets committed describes nothing and harms no one.

Which synopses the blocks get that a write makes: as someone wishes, else as the table has them.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructType

from sidestep.errors import Conflict, SidestepError, SidestepWarning, UnsupportedTable
from sidestep.predicate import DataType, parse_type
from sidestep.spark.organize.featurize import CheckedFeatures, check_features, no_features
from sidestep.spark.organize.write import arrow_schema
from sidestep.spark.relation import resolve
from sidestep.store import DataFile, Location, Snapshot, TableIndex, append_blocks, compact, locate
from sidestep.store.block_column import BLOCK, with_block_column, without_block_column
from sidestep.store.commit.transaction import AddedFile, commit
from sidestep.store.commit.writable import check_writable
from sidestep.store.index.table_index import open_folder, open_index
from sidestep.store.location import delete
from sidestep.store.parquet.writer import RESERVED, BlockTarget, WrittenFile
from sidestep.store.sidecars.layout import LayoutSpec, load_features, load_layout, save_features
from sidestep.store.snapshots.delta import is_delta, read_delta
from sidestep.store.upkeep.update import check_recipes, planned
from sidestep.synopsis.build import AskedRanges, BuildPlan
from sidestep.synopsis.recipe import Recipes
from sidestep.workload.features.feature_set import FeatureSet


@dataclass(frozen=True)
class TableState:
    """A Delta table at one version, with the layout that its new files get."""

    snapshot: Snapshot
    index: TableIndex
    schema: StructType
    """The columns as users see them: without the hidden one."""
    spec: LayoutSpec
    checked: CheckedFeatures
    target: BlockTarget
    recipes: Recipes | None = None
    """What columns of new files are to have beside zone maps, if that is not what the table has."""

    @property
    def root(self) -> Location:
        return self.snapshot.root

    @property
    def features_id(self) -> str | None:
        """The feature set that union vectors of new files are about."""
        return self.checked.features.id if len(self.checked.features) else None

    @property
    def first_block(self) -> int:
        """An id above all that the index knows. Ids are fresh so that blocks can be told apart, not for soundness."""
        return int(self.index.block_ids.max(initial=-1)) + 1

    def columns_of(self, names: Sequence[str]) -> dict[str, SparkType]:
        return {name: self.schema[name].dataType for name in names}

    def limited(self, files: Sequence[DataFile]) -> Snapshot:
        """The snapshot with these of its files alone."""
        return replace(self.snapshot, files=tuple(files), whole=False)


def find_table(spark: SparkSession, table: str, *, removes_rows: bool = False) -> Location:
    """The Delta table at a path or of a name in the catalog, refused in a sentence if it cannot be written to."""
    root = locate(resolve(spark, table))
    if not is_delta(root):
        raise SidestepError(
            f"{root.uri} is not a Delta table, so it cannot be changed safely. Make one of it first: "
            f"sidestep.load(spark, {table!r}, target)."
        )
    check_writable(root, removes_rows=removes_rows)
    return root


def read_state(
    spark: SparkSession,
    root: Location,
    index_dir: str | os.PathLike[str] | None = None,
    *,
    spec: LayoutSpec | None = None,
    features: FeatureSet | None = None,
    checked: CheckedFeatures | None = None,
    recipes: Recipes | None = None,
) -> TableState:
    """The newest version of a table and its layout.

    ``spec``, ``features`` and ``recipes`` are taken instead of the stored ones, ``checked`` if that was done before.
    """
    snapshot = read_delta(root)
    index = open_index(root, index_dir)
    assert snapshot.schema is not None
    schema = StructType.fromJson(json.loads(without_block_column(snapshot.schema)))
    _check_names(root, schema)
    spec = spec or load_layout(index.folder) or LayoutSpec()
    if checked is None:
        features = _stored_features(index.folder, spec.features) if features is None else features
        checked = no_features(root.name) if features is None else check_features(spark, features, schema)
    count = len(checked.features)
    inside = StructType([field for field in schema.fields if field.name not in snapshot.partition_columns])
    target = BlockTarget(
        root=root.uri,
        schema=arrow_schema(inside),
        columns=zone_columns(inside),
        min_size=spec.min_size,
        features=count,
        features_id=checked.features.id if count else None,
        partition_columns=snapshot.partition_columns,
        making=more_blocks(index, zone_columns(inside), recipes),
        spark_version=spark.version,
    )
    return TableState(snapshot, index, schema, spec, checked, target, recipes)


def _check_names(root: Location, schema: StructType) -> None:
    for name in schema.names:
        if name == BLOCK or name.startswith(RESERVED):
            raise UnsupportedTable(
                f"{root.uri} has a column of its own called {name}, a name that sidestep needs: rename it."
            )


def _stored_features(folder: Location, id: str | None) -> FeatureSet | None:
    if id is None:
        return None
    try:
        found, why = load_features(folder, id), "it is not there"
    except SidestepError as problem:
        found, why = None, str(problem)
    if found is None:
        warnings.warn(
            f"The feature set {id[:12]} of {folder.uri} cannot be used ({why}): new blocks get zone maps alone. Give "
            "the set to optimize to lay them out.",
            SidestepWarning,
            stacklevel=4,
        )
    return found


def zone_columns(schema: StructType) -> dict[str, DataType]:
    """The columns that get zone maps."""
    types = {field.name: parse_type(field.dataType.simpleString()) for field in schema.fields}
    return {name: kind for name, kind in types.items() if kind.ordered}


def finish(
    state: TableState,
    written: Sequence[WrittenFile],
    remove: Sequence[DataFile],
    *,
    operation: str,
    data_change: bool,
) -> int:
    """Make files part of the table and take others out, as one version, whose number is returned."""
    folder = state.index.folder
    if state.features_id is not None:
        save_features(folder, state.checked.features)
    append_blocks(folder, [file.index for file in written], state.target.columns, state.target.making)
    assert state.snapshot.schema is not None
    try:
        version = commit(
            state.root,
            add=[
                AddedFile(file.path, file.size, file.modified, file.partition, file.stats, file.rows)
                for file in written
            ],
            remove=remove,
            read_version=state.snapshot.version,
            schema=with_block_column(state.snapshot.schema),
            partition_columns=state.snapshot.partition_columns,
            operation=operation,
            data_change=data_change,
        )
    except (Conflict, UnsupportedTable):
        for file in written:  # nothing was committed, so no one can know of them
            delete(state.root.child(file.path))
        raise
    # Not whole: an entry of a file that another writer is about to commit must stay.
    compact(state.index.refreshed(), replace(state.snapshot, whole=False))
    return version


ROW_BYTES = 200
"""About what a row takes on disk, to tell how many blocks there will be."""


def more_blocks(index: TableIndex, columns: Mapping[str, DataType], recipes: Recipes | None) -> BuildPlan:
    """For blocks that come to a table: global ranges are those that it has."""
    check_recipes(recipes or {}, columns)
    return replace(planned(index, columns, recipes), partitions=max(1, index.map.blocks))


def new_blocks(
    source: Snapshot,
    columns: Mapping[str, DataType],
    folder: Location,
    min_size: int,
    recipes: Recipes | None,
    asked: AskedRanges | None = None,
) -> BuildPlan:
    """For blocks that a whole table is made of: like those of its index before, or of its source's.

    Global ranges are found anew, as rows come to lie elsewhere; what is ``asked`` for they keep apart.
    """
    check_recipes(recipes or {}, columns)
    before = open_folder(folder)
    if recipes is None and not before.index_files:
        before = open_index(source.root)
    partitions = source.bytes // (min_size * ROW_BYTES)
    making = replace(planned(before, columns, recipes, asked, rebuild=True), partitions=max(1, partitions))
    if source.format == "delta":
        return making
    # Partitions of a folder become columns like any other: what some of them had, all blocks get.
    return replace(making, recipes={name: recipe.widest for name, recipe in making.recipes.items()})
