"""The one way every write begins and ends: :func:`open_table`, then files, then :func:`commit_files`.

Load, append, delete, update and optimize all read one snapshot, write block files beside the old ones, put the entries
of those into the index, and commit. Entries come first: a file that is committed is skippable at once, and an entry of
a file that never gets committed describes nothing and harms no one. Files of a commit that was refused are deleted,
and so are their entries; what a killed process leaves is for ``vacuum``.

Before anything is committed, rows are counted: what the footers of the files say that were read, less the rows that
were deleted, must be what the footers of the new files say (:func:`check_rows`). A row that got lost on the way, for
whatever reason, is an error, and the table is as it was.

Block ids are given out here alone (:meth:`TableState.reserve`), above all that the table's index knows.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from sidestep.errors import Conflict, SidestepError, SidestepWarning, UnsupportedTable
from sidestep.layout.pages import PageOrder
from sidestep.layout.placement import GREATEST_ID
from sidestep.predicate import DataType
from sidestep.spark.advise.source import check_names, data_columns
from sidestep.spark.jvm.versions import arrow_schema
from sidestep.spark.organize.featurize import CheckedFeatures, check_features, no_features
from sidestep.spark.organize.organize import Organized, organize
from sidestep.spark.progress import Watch
from sidestep.spark.relation import resolve
from sidestep.store import DataFile, Location, Snapshot, TableIndex, append_blocks, compact, locate
from sidestep.store.block_column import BLOCK, block_name, with_block_column, without_block_column
from sidestep.store.commit.log_entry import begin_log
from sidestep.store.commit.transaction import AddedFile, commit
from sidestep.store.commit.writable import check_writable
from sidestep.store.index.table_index import open_index
from sidestep.store.location import delete
from sidestep.store.parquet.row_counts import count_rows
from sidestep.store.parquet.writer import BlockTarget, WrittenFile
from sidestep.store.sidecars.layout import LayoutSpec, load_features, load_layout, save_features, save_layout
from sidestep.store.snapshots.delta import is_delta, read_delta
from sidestep.store.snapshots.groups import has_groups, inner_table, refuse_groups
from sidestep.store.upkeep.update import check_recipes, plan_synopses
from sidestep.synopsis.build import AskedRanges, BuildPlan
from sidestep.synopsis.recipe import Recipes, RecipeText, parse_recipes
from sidestep.workload.features.feature_set import FeatureSet

ROW_BYTES = 200
"""About what a row takes on disk, to estimate how many blocks there will be."""


@dataclass(frozen=True)
class TableState:
    """A Delta table at one version, or one that is about to be created, and what its new files get."""

    snapshot: Snapshot
    """The version that the write is based on; version None, without files, for a table that is not there yet."""
    index: TableIndex
    schema: StructType
    """The columns as users see them: without the hidden one."""
    spec: LayoutSpec
    checked: CheckedFeatures
    target: BlockTarget
    synopses: RecipeText | None = None
    """What columns of new files are to have beside zone maps, if that is not what the table has."""

    @property
    def root(self) -> Location:
        return self.snapshot.root

    @property
    def table(self) -> Location:
        """The folder that users know the table by."""
        return self.snapshot.root

    @property
    def features_id(self) -> str | None:
        """The feature set that union vectors of new files are about."""
        return self.checked.features.id if len(self.checked.features) else None

    def reserve(self, count: int = 0) -> int:
        """The first of ``count`` block ids that no block of the table has had, as far as its index knows.

        They are fresh so that blocks can be told apart. Nothing wrong is skipped where two blocks share an id: both are
        read if one has to be.
        """
        first = int(self.index.block_ids.max(initial=-1)) + 1
        if first + count > GREATEST_ID:
            raise SidestepError(
                f"{self.root.uri} has used up its block ids, the last of which is {GREATEST_ID:,}: load it into a new "
                "table, with a larger min_size."
            )
        return first

    def only(self, files: Sequence[DataFile]) -> Snapshot:
        """The snapshot with these of its files alone."""
        return replace(self.snapshot, files=tuple(files), whole=False)


def find_table(spark: SparkSession, table: str | os.PathLike[str], *, removes_rows: bool = False) -> Location:
    """The Delta table at a path or of a name in the catalog, refused in a sentence if it cannot be written to.

    Of a table in column groups too it is the folder that users know.
    """
    root = locate(resolve(spark, table))
    if has_groups(root):
        check_writable(inner_table(root), removes_rows=removes_rows)
        return root
    refuse_groups(root)
    if not is_delta(root):
        raise SidestepError(
            f"{root.uri} is not a Delta table, so it cannot be changed safely. Make one of it first: "
            f"sidestep.load(spark, {os.fspath(table)!r}, target)."
        )
    check_writable(root, removes_rows=removes_rows)
    return root


def open_table(
    spark: SparkSession,
    root: Location,
    index_dir: str | os.PathLike[str] | None = None,
    *,
    spec: LayoutSpec | None = None,
    features: FeatureSet | None = None,
    checked: CheckedFeatures | None = None,
    synopses: RecipeText | None = None,
) -> TableState:
    """The newest version of a table with its index and layout.

    ``spec`` and ``features`` are taken instead of the stored ones, ``checked`` where features were checked before. New
    files get the synopses that the table has, but for columns that ``synopses`` names.
    """
    snapshot, index = read_delta(root), open_index(root, index_dir)
    assert snapshot.schema is not None
    schema = StructType.fromJson(json.loads(without_block_column(snapshot.schema)))
    check_names(root, schema.names)
    spec = spec or load_layout(index.folder) or LayoutSpec()
    if checked is None:
        features = stored_features(index.folder, spec.features) if features is None else features
        checked = no_features(root.name) if features is None else check_features(spark, features, schema)
    columns = data_columns(schema, snapshot.partition_columns)
    making = added_synopses(index, columns, synopses)
    return replace(table_state(spark, snapshot, index, schema, spec, checked, making), synopses=synopses)


def table_state(
    spark: SparkSession,
    snapshot: Snapshot,
    index: TableIndex,
    schema: StructType,
    spec: LayoutSpec,
    checked: CheckedFeatures,
    making: BuildPlan,
) -> TableState:
    """A table of which all is known that a write needs; its snapshot has no version where it is about to be created."""
    stored = StructType([field for field in schema.fields if field.name not in snapshot.partition_columns])
    count = len(checked.features)
    target = BlockTarget(
        root=snapshot.root.uri,
        schema=arrow_schema(stored),
        columns=data_columns(schema, snapshot.partition_columns),
        min_size=spec.min_size,
        pages=PageOrder(spec.page_order, spec.page_share).restrict(tuple(stored.names)),
        features=count,
        features_id=checked.features.id if count else None,
        partition_columns=snapshot.partition_columns,
        making=making,
        block=block_name(with_block_column(snapshot.schema or schema.json())) or BLOCK,
        spark_version=spark.version,
    )
    return TableState(snapshot, index, schema, spec, checked, target)


def stored_features(folder: Location, id: str | None) -> FeatureSet | None:
    """The feature set that a layout names; None, with a warning, if it cannot be used."""
    if id is None:
        return None
    try:
        features, why = load_features(folder, id), "it is not there"
    except SidestepError as problem:
        features, why = None, str(problem)
    if features is None:
        warnings.warn(
            f"The feature set {id[:12]} of {folder.uri} cannot be used ({why}): new blocks get zone maps alone. Give "
            "the set to optimize to lay them out.",
            SidestepWarning,
            stacklevel=4,
        )
    return features


def added_synopses(index: TableIndex, columns: Mapping[str, DataType], synopses: RecipeText | None) -> BuildPlan:
    """What blocks get that come to a table: as the others have it, but for columns that ``synopses`` names."""
    recipes: Recipes | None = None
    if synopses is not None:
        kept = {name: recipe for name, recipe in index.decided.items() if name in columns}
        recipes = {**kept, **parse_recipes(synopses, columns)}
    return replace(plan_synopses(index, columns, recipes), partitions=max(1, index.map.blocks))


def rebuilt_synopses(
    source: Snapshot,
    index: TableIndex,
    columns: Mapping[str, DataType],
    min_size: int,
    recipes: Recipes | None,
    asked: AskedRanges | None = None,
) -> BuildPlan:
    """What the blocks get that a whole table is written anew in: by recipes, else as ``index`` has it.

    Global range tables are made anew, as rows come to lie elsewhere; the ranges that queries asked for stay apart.
    """
    check_recipes(recipes or {}, columns)
    partitions = source.bytes // (min_size * ROW_BYTES)
    making = replace(plan_synopses(index, columns, recipes, asked, rebuild=True), partitions=max(1, partitions))
    if source.format == "delta":
        return making
    # Partitions of a folder become columns like any other: what some of them had, all blocks get.
    return replace(making, recipes={name: recipe.widest for name, recipe in making.recipes.items()})


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a write."""

    version: int
    index: TableIndex
    """The index with the entries of the new files."""


def check_rows(
    state: TableState, source: Snapshot | None, written: Sequence[WrittenFile], deleted: int = 0, inserted: int = 0
) -> None:
    """Raise an error, and delete the new files, unless they hold every row of the source but those deleted.

    ``inserted`` is how many they hold beside those, from elsewhere.
    Without a source, because the rows came from a DataFrame, they must hold what their writers say.
    """
    try:
        now, said = count_rows([state.root.child(file.path) for file in written]), sum(file.rows for file in written)
        if now != said:
            raise SidestepError(f"{said:,} rows were written to {state.root.uri}, and its new files hold {now:,}.")
        if source is None:
            return
        before = count_rows([source.root.child(file.path) for file in source.files])
        if before - deleted + inserted != now:
            less = f", less {deleted:,} deleted ones" if deleted else ""
            less += f", with {inserted:,} new ones" if inserted else ""
            raise SidestepError(
                f"{len(source.files):,} files of {source.root.uri} hold {before:,} rows by their footers{less}, and "
                f"{now:,} were written: rows got lost, or came, while they were read. Nothing was committed, and the "
                "new files are gone. If no other program writes there, a file is damaged."
            )
    except SidestepError:
        delete_files(state, written)
        raise


def delete_files(state: TableState, written: Sequence[WrittenFile]) -> None:
    """Delete files that were never committed."""
    for file in written:
        delete(state.root.child(file.path))


def commit_files(
    state: TableState,
    written: Sequence[WrittenFile],
    remove: Sequence[DataFile],
    *,
    source: Snapshot | None,
    deleted: int = 0,
    inserted: int = 0,
    operation: str,
    data_change: bool,
    depends: bool = False,
    watch: Watch,
    layout: LayoutSpec | None = None,
    rates: Mapping[str, float] | None = None,
) -> Commit:
    """Make files part of the table and take others out, as one version; a table that is not there yet is created.

    ``source`` are the files that the rows were read from, None if they came from elsewhere, and ``deleted`` is how many
    of those rows are not to be in the new files, ``inserted`` how many others are. With ``depends``, they depend on
    rows of the whole table. ``layout`` is noted as the table's from now on. ``rates`` are the false positives expected
    of newly chosen synopses.
    """
    folder = state.index.folder
    with watch.stage("index"):
        check_rows(state, source, written, deleted, inserted)
        if state.features_id is not None:
            save_features(folder, state.checked.features)
        if layout is not None:
            save_layout(folder, layout)
        blocks = [file.index for file in written]
        entries = append_blocks(folder, blocks, state.target.columns, state.target.making, rates) if blocks else ()
    with watch.stage("commit"):
        version = commit_version(state, written, remove, entries, operation, data_change, depends)
    with watch.stage("commit"), committed(state, version, "its index could not be tidied up"):
        # Not whole: an entry of a file that another writer is about to commit must stay.
        return Commit(version, compact(state.index.refreshed(), replace(state.snapshot, whole=False)))
    return Commit(version, state.index)


@contextmanager
def committed(state: TableState, version: int, problem: str) -> Iterator[None]:
    """Let what comes after a commit fail with a warning: who is told that a write failed does it again."""
    try:
        yield
    except (SidestepError, OSError, pa.ArrowException) as error:
        warnings.warn(
            f"Version {version} of {state.root.uri} is committed, but {problem}: {error} Nothing is lost.",
            SidestepWarning,
            stacklevel=4,
        )


def commit_version(
    state: TableState,
    written: Sequence[WrittenFile],
    remove: Sequence[DataFile],
    entries: Sequence[Location],
    operation: str,
    data_change: bool,
    depends: bool = False,
    alone: bool = False,
) -> int:
    """The version that has the files, all else being in place; files and ``entries`` are deleted if it is refused."""
    assert state.snapshot.schema is not None
    try:
        return commit(
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
            depends=depends,
            alone=alone,
        )
    except (Conflict, UnsupportedTable):
        # Nothing was committed, so no one can know of these files. After any other error that is not certain.
        for location in [*entries, *(state.root.child(file.path) for file in written)]:
            delete(location)
        raise


def organize_files(
    state: TableState,
    rows: DataFrame,
    remove: Sequence[DataFile],
    *,
    source: Snapshot,
    operation: str,
    data_change: bool,
    watch: Watch,
    layout: LayoutSpec | None = None,
    rates: Mapping[str, float] | None = None,
) -> tuple[Organized, Commit]:
    """Lay the rows of a source out as the state says, and commit their files in place of others."""
    if state.snapshot.version is None:
        begin_log(state.root)
    organized = organize(
        rows,
        state.checked,
        state.spec,
        state.target,
        first_block=state.reserve(),
        source_bytes=source.bytes,
        watch=watch,
    )
    done = commit_files(
        state,
        organized.files,
        remove,
        source=source,
        operation=operation,
        data_change=data_change,
        watch=watch,
        layout=layout,
        rates=rates,
    )
    return organized, done
