"""The index of a table, opened: what is known of which blocks, read column by column as queries need it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import DamagedContent, SidestepError, SidestepWarning, UnusableIndexFile
from sidestep.predicate.types import DataType
from sidestep.store.index.block_map import BlockMap, map_blocks
from sidestep.store.index.index_file import IndexFile, index_folder, index_names, open_index_file
from sidestep.store.index.layout_columns import Layout, askable, no_layout, read_layout, read_union_vectors
from sidestep.store.index.synopsis_columns import ColumnSynopses, HeldSynopsis, SynopsisReader, synopses_of
from sidestep.store.index.zone_columns import partition_texts, zone_arrays
from sidestep.store.location import Location, locate
from sidestep.store.parquet.blocks import zone_map_columns
from sidestep.store.parquet.footer import digest_column
from sidestep.store.snapshot import DataFile, field_id
from sidestep.synopsis.catalog import Catalog, Synopsis
from sidestep.synopsis.features.union_vectors import UnionVectors
from sidestep.synopsis.recipe import Recipe, Recipes
from sidestep.synopsis.zones.column_zones import ColumnZones, column_zones
from sidestep.synopsis.zones.partition_values import partition_values
from sidestep.synopsis.zones.zone_map import ZoneMaps

T = TypeVar("T")
_ATTEMPTS = 5
_warned: set[str] = set()
_warning = threading.Lock()


def warn_once(key: str, message: str) -> None:
    """Warn of one thing once in a process: an index is opened for every query."""
    with _warning:
        if key in _warned:
            return
        _warned.add(key)
    warnings.warn(message, SidestepWarning, stacklevel=3)


class TableIndex:
    """A view of a table's index at one moment. Files and blocks have positions that never change within a view.

    ``files`` holds the key of each indexed file: the caller keeps those whose path, size and modification time are
    exactly those that Spark lists, and treats every other file as unknown. ``catalog(columns)`` holds what is known of
    all blocks; mask position i of its ``files_kept`` is row i of ``files``.

    A view stays usable while others append and compact; :meth:`refreshed` gives a newer one if there is one. Columns
    are read when first asked for and kept. All methods may be called from several threads.
    """

    def __init__(
        self,
        folder: Location,
        names: tuple[str, ...],
        index_files: Sequence[IndexFile],
        blocks: BlockMap,
        problems: Sequence[str] = (),
        damaged: Sequence[Location] = (),
    ) -> None:
        self.folder = folder
        self.names = names
        self.index_files = tuple(index_files)
        self.map = blocks
        self.left_out = tuple(damaged)
        """Index files that are not what their names say: they will never be of use again."""
        self.unreadable = False
        """Whether an index file could not be read after it was opened."""
        self._problems = list(problems)
        self._damaged: set[str] = set()
        self._nonsense = False
        self._lock = threading.RLock()
        self._zones: dict[tuple[str, DataType], ColumnZones | None] = {}
        self._synopses: dict[tuple[str, DataType], ColumnSynopses] = {}
        self._texts: dict[str, pa.Array | None] = {}
        self._catalogs: dict[frozenset[tuple[str, DataType, str]], Catalog] = {}
        self._layout: Layout | None = None
        self._vectors: tuple[UnionVectors, ...] | None = None

    @property
    def files(self) -> pa.Table:
        """The keys of the indexed files as Arrow columns: path, size, modified."""
        return self.map.files

    @property
    def footers(self) -> pa.Array:
        """The digests of the files' footers (:mod:`sidestep.store.parquet.footer`); NULL where there is none."""
        return digest_column(self.map.footers)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with index files, in sentences: they were left out, or parts of them are."""
        return tuple(self._problems)

    @property
    def unchecked(self) -> frozenset[str]:
        """The names of index files of an older format, without digests to hold them against."""
        return frozenset(file.location.name for file in self.index_files if not file.checked)

    @property
    def suspects(self) -> frozenset[str]:
        """The names of index files that are not to be relied on: all that they say is to be found out anew."""
        if self._nonsense:
            return frozenset(file.location.name for file in self.index_files)
        return self.unchecked | self._damaged

    def verify(self) -> None:
        """Check every byte of the index, where queries check what they read."""
        for file in self.index_files:
            try:
                file.verify()
            except DamagedContent as error:
                self._note_damage(file, error)

    def bare(self, suspects: Collection[str]) -> TableIndex:
        """The same view, in which those index files say nothing of columns."""
        files = [file.bare() if file.location.name in suspects else file for file in self.index_files]
        return TableIndex(self.folder, self.names, files, self.map)

    def _note_damage(self, file: IndexFile, error: Exception) -> None:
        self._damaged.add(file.location.name)
        problem = f"The index file {file.location.uri} is used in part: {error}. Index the table again."
        if problem not in self._problems:
            self._problems.append(problem)
        warn_once(file.location.uri, problem)

    @property
    def columns(self) -> dict[str, DataType]:
        """The columns that some index file has zone maps of, with the newest type of each."""
        return {name: type for file in self.index_files for name, type in file.columns.items()}

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """The newest recipe of each column that has one: what it has beside its zone map, and what new files get."""
        return {name: recipe for name, recipe in self.decided.items() if recipe}

    @cached_property
    def decided(self) -> dict[str, Recipe]:
        """The newest recipe of each column that one was decided on, if only to have none."""
        return {name: recipe for file in self.index_files for name, recipe in file.recipes.items()}

    @cached_property
    def rates(self) -> dict[str, float]:
        """The rate of false positives that was last expected of each column's synopses, where that was worked out."""
        return {name: rate for file in self.index_files for name, rate in file.rates.items() if name in self.recipes}

    @cached_property
    def partition_columns(self) -> frozenset[str]:
        return frozenset().union(*(file.partition_columns for file in self.index_files))

    @property
    def nbytes(self) -> int:
        """The bytes of the index files on disk."""
        return sum(file.size for file in self.index_files)

    def positions(self, files: Sequence[DataFile]) -> npt.NDArray[np.int64]:
        """The position of each file in this view, or -1 where its key is not indexed."""
        positions = np.full(len(files), -1, dtype=np.int64)
        if len(files) == 0 or len(self.files) == 0:
            return positions
        keys = pa.table(
            {
                "path": pa.array([file.path for file in files], pa.string()),
                "size": pa.array([file.size for file in files], pa.int64()),
                "modified": pa.array([file.modified for file in files], pa.int64()),
                "asked": np.arange(len(files)),
            }
        )
        known = self.files.append_column("position", pa.array(np.arange(len(self.files))))
        joined = keys.join(known, ["path", "size", "modified"], join_type="inner")
        positions[joined["asked"].to_numpy()] = joined["position"].to_numpy()
        return positions

    def covered(self, columns: Mapping[str, DataType], recipes: Recipes | None = None) -> npt.NDArray[np.bool_]:
        """For each file, whether all these columns (partition columns and unordered types aside) are in the index.

        With ``recipes``, they also have the synopses that those name, in the size that those name.
        """
        return self.guarded(lambda: self._covered(columns, recipes), lambda: np.zeros(len(self.files), dtype=np.bool_))

    def _covered(self, columns: Mapping[str, DataType], recipes: Recipes | None) -> npt.NDArray[np.bool_]:
        reader = self.reader(recipes)
        every = np.ones(self.map.blocks, dtype=np.bool_)
        for name, type in columns.items():
            if name in self.partition_columns or not zone_map_columns(name, type):
                continue
            arrays = self.stored_arrays(name, type)
            every &= np.zeros_like(every) if arrays is None else arrays[f"nulls:{name}"].is_valid().to_numpy(False)
            if recipes is not None and every.any():
                every &= reader.covered(name, type)
        files = np.ones(len(self.files), dtype=np.bool_)
        files[self.map.file_of_block[~every]] = False
        return files

    @cached_property
    def columns_by_id(self) -> dict[int, str]:
        """What the columns of a table that has them by id are called here; a column has one key, whatever its name."""
        return {number: name for name in self.columns if (number := field_id(name)) is not None}

    def catalog(self, columns: Mapping[str, DataType], stored: Mapping[str, str] | None = None) -> Catalog:
        """What is known of all blocks about these columns, which have the types that the query gives them.

        Only the index columns needed are read. A column whose indexed type does not speak of the asked one is left
        out, with a warning; so is one that differs from a partition column in letter case alone. ``stored`` is what
        the index calls them, where that is something else.
        """
        called = {name: name for name in columns} if stored is None else stored
        wanted = frozenset((name, type, called[name]) for name, type in columns.items())
        with self._lock:
            if wanted not in self._catalogs:
                if len(self._catalogs) >= 64:
                    self._catalogs.clear()
                self._catalogs[wanted] = self.guarded(lambda: self._make_catalog(columns, called), self._no_catalog)
            return self._catalogs[wanted]

    def _no_catalog(self) -> Catalog:
        """A catalog in which nothing is known of any block."""
        return Catalog(self.map.file_of_block, self.map.rows, self.map.bytes, len(self.files), ())

    def guarded(self, make: Callable[[], T], unknown: Callable[[], T]) -> T:
        """What an index says; what is unknown, with a warning, if it says what no writer of sidestep's would.

        An index is one table's matter. Whatever is wrong with it, a query on several tables goes on with the others'.
        """
        try:
            return make()
        except SidestepWarning:
            raise  # where warnings are errors
        except Exception as error:
            self._nonsense = True
            problem = f"The index in {self.folder.uri} is damaged ({error!r}): it skips nothing. Index the table again."
            if problem not in self._problems:
                self._problems.append(problem)
            warn_once(f"{self.folder.uri}:content", problem)
            return unknown()

    def _make_catalog(self, columns: Mapping[str, DataType], stored: Mapping[str, str]) -> Catalog:
        folded = {name.lower() for name in self.partition_columns}
        zones = {
            name: of_column
            for name, type in columns.items()
            if name.lower() not in folded and (of_column := self._column(stored[name], type)) is not None
        }
        texts = {name: text.to_pylist() for name in columns if (text := self.file_values(name)) is not None}
        synopses: list[Synopsis] = []
        if texts:
            synopses.append(partition_values({name: columns[name] for name in texts}, texts, self.map.file_of_block))
        if zones:
            synopses.append(ZoneMaps(zones))
        with_recipe = [name for name in zones if stored[name] in self.recipes]
        synopses += synopses_of({name: self._gaps(stored[name], columns[name]) for name in with_recipe})
        if any("features" in file.layout_columns for file in self.index_files):
            about = askable(columns, self.partition_columns, self.columns)
            synopses += [vectors for each in self.union_vectors() if (vectors := each.about(about)) is not None]
        return Catalog(self.map.file_of_block, self.map.rows, self.map.bytes, len(self.files), tuple(synopses))

    @property
    def layout(self) -> Layout:
        """Ids, union vectors, features and units of blocks that were laid out."""
        with self._lock:
            if self._layout is None:
                self._layout = self.guarded(
                    lambda: read_layout(self.index_files, self.map, self._read), lambda: no_layout(self.map)
                )
            return self._layout

    @cached_property
    def block_ids(self) -> npt.NDArray[np.int32]:
        """The id that all rows of a block carry in the hidden column; -1 where there is none."""
        return self.layout.block_ids()

    @property
    def features_of_block(self) -> pa.Array:
        """The id of the feature set that each block's union vector is about; NULL where there is none."""
        return self.layout.features

    @cached_property
    def units(self) -> tuple[str | None, ...]:
        """What each file was organized as; None for a file that was not."""
        return self.layout.units(self.map.file_of_block)

    def union_vectors(self) -> tuple[UnionVectors, ...]:
        """The union vectors of each feature set that blocks name, but for sets that are gone or damaged."""
        with self._lock:
            if self._vectors is None:
                self._vectors = read_union_vectors(self.layout, self.folder, warn_once)
            return self._vectors

    def reader(self, recipes: Recipes | None = None) -> SynopsisReader:
        """Reads the synopses beside zone maps: those of the newest recipes, or for a change of recipes those of others.

        Only the former warns of a range table that is gone: whoever makes a change makes a new one.
        """
        if recipes is None:
            return SynopsisReader(self.folder, self.index_files, self.map, self.recipes, self._read, warn_once)
        return SynopsisReader(self.folder, self.index_files, self.map, recipes, self._read, lambda key, message: None)

    def held_synopses(self) -> tuple[HeldSynopsis, ...]:
        """What the synopses beside zone maps take on disk, and how many blocks have them."""
        return self.guarded(lambda: self.reader().held(self.columns), lambda: ())

    def _gaps(self, name: str, type: DataType) -> ColumnSynopses:
        if (name, type) not in self._synopses:
            self._synopses[name, type] = self.reader().column(name, type)
        return self._synopses[name, type]

    def _column(self, name: str, type: DataType) -> ColumnZones | None:
        if (name, type) not in self._zones:
            self._zones[name, type] = self._read_column(name, type)
        return self._zones[name, type]

    def _read_column(self, name: str, type: DataType) -> ColumnZones | None:
        arrays = self.stored_arrays(name, type)
        if arrays is None:
            return None
        nulls = arrays[f"nulls:{name}"]
        return column_zones(
            type,
            self.map.rows,
            arrays[f"lower:{name}"],
            arrays[f"upper:{name}"],
            pc.if_else(pc.less(nulls, 0), pa.scalar(None, pa.int64()), nulls),
            arrays.get(f"nan:{name}"),
        )

    def stored_arrays(self, name: str, type: DataType) -> dict[str, pa.Array] | None:
        """The index columns of one table column for all blocks, in the stored form of ``type``.

        NULL is unknown. In ``nulls`` alone, NULL says that the block was never looked at, and -1 that it was, in vain.
        """
        return zone_arrays(self.index_files, self.map, self._read, warn_once, name, type)

    def file_values(self, name: str) -> pa.Array | None:
        """The raw value of a partition column for each file, read once; None unless all files have one."""
        if name not in self._texts:
            self._texts[name] = self.partition_texts(name)
        return self._texts[name]

    def partition_texts(self, name: str, blocks: npt.NDArray[np.bool_] | None = None) -> pa.Array | None:
        """The raw value of a partition column for each file; None unless all files (those of ``blocks``) have one."""
        return partition_texts(self.index_files, self.map, self._read, name, blocks)

    def _read(self, file: IndexFile, names: Sequence[str]) -> dict[str, pa.Array] | None:
        try:
            with self._lock:
                table = file.read(names)
            return {name: _one_chunk(table[name]) for name in names}
        except DamagedContent as error:
            self._note_damage(file, error)
            return None
        except Exception as error:
            # A file that is gone or went bad after it was opened: its blocks stay, with nothing known of them.
            self.unreadable = True
            warn_once(file.location.uri, f"{file.location.uri} can no longer be read ({error}): it skips nothing.")
            return None

    def refreshed(self) -> TableIndex:
        """This view if the index has not changed since (one directory listing), else a new one."""
        names = index_names(self.folder)
        return self if names == self.names else open_folder(self.folder, names)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def open_index(
    root: str | os.PathLike[str] | Location, index_dir: str | os.PathLike[str] | Location | None = None
) -> TableIndex:
    """Open the index of the table at ``root``; a table that was never indexed has an empty one."""
    return open_folder(index_folder(locate(root), index_dir))


def open_folder(folder: Location, names: Sequence[str] | None = None) -> TableIndex:
    """Open all usable index files of a folder, which has those ``names`` if it was just listed.

    Unusable ones are left out with one warning each.
    """
    listed = None if names is None else tuple(names)
    for _ in range(_ATTEMPTS):
        names = index_names(folder) if listed is None else listed
        try:
            return _open_files(folder, names)
        except FileNotFoundError:
            listed = None  # compacted away since it was listed: list again
    raise SidestepError(f"The index in {folder.uri} keeps changing while it is being opened: try again.")


def _open_files(folder: Location, names: tuple[str, ...]) -> TableIndex:
    opened: list[IndexFile] = []
    keys: list[pa.Table] = []
    problems: list[str] = []
    damaged: list[Location] = []
    for name in names:
        location = folder.child(name)
        try:
            file, file_keys = open_index_file(location)
        except FileNotFoundError:
            raise
        except DamagedContent as error:
            damaged.append(location)
            problems.append(f"The index file {location.uri} is left out: {error}. Index the table again.")
            warn_once(location.uri, problems[-1])
        except UnusableIndexFile as error:
            problems.append(f"The index file {location.uri} is left out: {error}. Delete it and index the table again.")
            warn_once(location.uri, problems[-1])
        else:
            opened.append(file)
            keys.append(file_keys)
            if not file.checked:
                warn_once(
                    location.uri,
                    f"The index file {location.uri} is of an older format, without digests: if it were damaged, no one "
                    "would notice. Index the table again.",
                )
    return TableIndex(folder, names, opened, map_blocks(keys), problems, damaged)
