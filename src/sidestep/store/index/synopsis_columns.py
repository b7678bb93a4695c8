"""What an index knows of blocks beside their zone maps: range-sets, gap histograms, Bloom filters, global range bits.

The newest recipe of a column says which of these there are. Each block has what the newest entry of its file has; a
block that was indexed before the recipe, or whose partition goes without, is unknown to that synopsis, and only to that
one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.predicate.types import DataType
from sidestep.store.index.block_map import BlockMap, Gather
from sidestep.store.index.index_file import IndexFile
from sidestep.store.index.layout_columns import Read
from sidestep.store.index.zone_columns import convertible
from sidestep.store.location import Location
from sidestep.store.sidecars.range_tables import load_range_table
from sidestep.synopsis.bloom import BlockFilters, BloomFilters, bloom_filters_of
from sidestep.synopsis.build import NO_FILTER, NO_RANGES, stored_columns
from sidestep.synopsis.catalog import Synopsis
from sidestep.synopsis.gap_histogram import BlockHistograms, GapHistograms, gap_histograms_of
from sidestep.synopsis.grt.encoding import NO_BITS, BlockBits, GlobalRanges, global_ranges_of
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.range_set import RangeSets, range_sets_of
from sidestep.synopsis.recipe import KINDS, Recipe, Recipes
from sidestep.synopsis.values.block_ranges import BlockRanges
from sidestep.synopsis.values.forms import Mask, stored_form


@dataclass(frozen=True, eq=False)
class ColumnSynopses:
    """The synopses of one column; None where the index has none of a kind."""

    ranges: BlockRanges | None = None
    histograms: BlockHistograms | None = None
    filters: BlockFilters | None = None
    bits: tuple[BlockBits, ...] = ()
    """One for each table that blocks were encoded by; to each, the blocks of the others are unknown."""


@dataclass(frozen=True, slots=True)
class HeldSynopsis:
    """How much of the index one kind of synopsis of one column is."""

    column: str
    kind: str
    """As a recipe names it."""
    size: int
    """What the recipe allows for a block, at most."""
    blocks: int
    """Blocks of which there is one."""
    bytes: int
    """On disk, tables included."""


@dataclass(frozen=True, eq=False)
class SynopsisReader:
    """Reads the synopses of a view's columns."""

    folder: Location
    files: Sequence[IndexFile]
    blocks: BlockMap
    recipes: Recipes
    read: Read
    warn: Callable[[str, str], None]

    def column(self, name: str, type: DataType) -> ColumnSynopses:
        """The synopses of one column, for queries that read it as ``type``."""
        types = {name: type}
        found: dict[str, pa.Array] = {}
        for kind in KINDS:
            found |= self.arrays(name, type, kind) or {}
        return ColumnSynopses(
            range_sets_of(types, found).columns.get(name),
            gap_histograms_of(types, found).columns.get(name),
            bloom_filters_of(types, found).columns.get(name),
            tuple(
                bits
                for table in self.tables(name, found)
                if (bits := global_ranges_of(types, found, {name: table}).columns.get(name)) is not None
            ),
        )

    def arrays(self, name: str, type: DataType, kind: str, *, exactly: bool = False) -> dict[str, pa.Array] | None:
        """The index columns of one kind for all blocks, NULL where it was never made; None if the recipe names none.

        With ``exactly``, only what was made in the size that the recipe names for each partition counts.
        """
        recipe = self.recipes.get(name, Recipe()).only(kind)
        wanted = stored_columns(name, type, recipe.widest)
        lead = next(iter(wanted), None)
        if lead is None:
            return None
        holders: list[int] = []
        parts: dict[str, list[pa.Array]] = {column: [] for column in wanted}
        says: list[Mask] = []
        for number, file in enumerate(self.files):
            other = exactly and file.recipes.get(name, Recipe()).only(kind) != recipe
            if lead not in file.names or not _speaks(file.columns.get(name), type) or other:
                continue
            holders.append(number)
            read = self.read(file, [column for column in wanted if column in file.names])
            for column, arrow in wanted.items():
                parts[column].append(_as(None if read is None else read.get(column), arrow, file.rows))
            says.append(parts[lead][-1].is_valid().to_numpy(zero_copy_only=False))
        if not holders:
            return None
        gather = Gather(self.blocks.sources(holders, says))
        return {column: gather(pa.concat_arrays(arrays)) for column, arrays in parts.items()}

    def tables(self, name: str, arrays: Mapping[str, pa.Array]) -> list[GlobalRangeTable]:
        """The tables that blocks were encoded by; one that is gone or damaged is left out, with a warning."""
        by = arrays.get(f"grttable:{name}")
        found = [] if by is None else [self._table(name, identity) for identity in by.unique().drop_null().to_pylist()]
        return [table for table in found if table is not None]

    def _table(self, name: str, identity: str) -> GlobalRangeTable | None:
        try:
            found, why = load_range_table(self.folder, identity), "it is not there"
        except SidestepError as problem:
            found, why = None, str(problem)
        if found is None:
            self.warn(
                f"{self.folder.uri}:{identity}",
                f"The global range table {identity} of column {name} in {self.folder.uri} cannot be used ({why}): it "
                "skips nothing. Index the table again to make a new one.",
            )
        return found

    def newest_table(self, name: str, type: DataType) -> GlobalRangeTable | None:
        """The table by which new blocks of a column are encoded: of those that blocks name, the one most do."""
        arrays = self.arrays(name, type, "grt", exactly=True)
        if arrays is None:
            return None
        usable = {table.identity: table for table in self.tables(name, arrays) if table.coding.type == type}
        counts = pc.value_counts(arrays[f"grttable:{name}"].drop_null()).to_pylist()
        ranked = sorted(counts, key=lambda count: -count["counts"])
        return next((usable[count["values"]] for count in ranked if count["values"] in usable), None)

    def covered(self, name: str, type: DataType) -> npt.NDArray[np.bool_]:
        """For each block, whether all that the recipe names was made of it, if only in vain."""
        every = np.ones(self.blocks.blocks, dtype=np.bool_)
        for kind in KINDS:
            if not stored_columns(name, type, self.recipes.get(name, Recipe()).only(kind).widest):
                continue
            arrays = self.arrays(name, type, kind, exactly=True)
            if arrays is None:
                return np.zeros_like(every)
            every &= next(iter(arrays.values())).is_valid().to_numpy(zero_copy_only=False)
            if kind == "grt":
                by = arrays[f"grttable:{name}"]
                tables = pa.array([table.identity for table in self.tables(name, arrays)], pa.string())
                every &= pc.or_(pc.is_null(by), pc.is_in(by, tables)).to_numpy(zero_copy_only=False)
        return every

    def held(self, columns: Mapping[str, DataType]) -> tuple[HeldSynopsis, ...]:
        """How much there is of each synopsis of these columns."""
        found: list[HeldSynopsis] = []
        for name, recipe in self.recipes.items():
            for kind in KINDS:
                size = getattr(recipe.widest, kind)
                arrays = self.arrays(name, columns[name], kind) if size and name in columns else None
                if arrays is None:
                    continue
                blocks = _told(kind, next(iter(arrays.values())))
                found.append(HeldSynopsis(name, kind, size, blocks, self._bytes(name, columns[name], kind, arrays)))
        return tuple(found)

    def _bytes(self, name: str, type: DataType, kind: str, arrays: Mapping[str, pa.Array]) -> int:
        wanted = set(stored_columns(name, type, self.recipes[name].only(kind).widest))
        total = 0
        for file in self.files:
            metadata = file.reader.metadata
            for group in range(metadata.num_row_groups):
                row_group = metadata.row_group(group)
                chunks = (row_group.column(number) for number in range(row_group.num_columns))
                total += sum(c.total_compressed_size for c in chunks if _top(c.path_in_schema) in wanted)
        tables = self.tables(name, arrays) if kind == "grt" else []
        return total + sum(len(table.to_json()) for table in tables)


def synopses_of(columns: Mapping[str, ColumnSynopses]) -> list[Synopsis]:
    """The synopses of several columns as the catalog holds them."""
    found: list[Synopsis] = []
    ranges = {name: each.ranges for name, each in columns.items() if each.ranges is not None}
    if ranges:
        found.append(RangeSets(ranges))
    histograms = {name: each.histograms for name, each in columns.items() if each.histograms is not None}
    if histograms:
        found.append(GapHistograms(histograms))
    for number in range(max((len(each.bits) for each in columns.values()), default=0)):
        found.append(GlobalRanges({n: each.bits[number] for n, each in columns.items() if len(each.bits) > number}))
    filters = {name: each.filters for name, each in columns.items() if each.filters is not None}
    if filters:
        found.append(BloomFilters(filters))
    return found


def _speaks(stored: DataType | None, asked: DataType) -> bool:
    """Whether codes made of one type are codes of the other."""
    return stored is not None and convertible(stored, asked) and stored_form(stored) is stored_form(asked)


def _told(kind: str, stored: pa.Array) -> int:
    """How many blocks have a synopsis, and not a mere note that they have none."""
    match kind:
        case "bloom":
            known = pc.not_equal(pc.binary_length(stored), len(NO_FILTER))
        case "grt":
            known = pc.not_equal(pc.binary_length(stored), len(NO_BITS))
        case _:
            known = pc.not_equal(pc.list_value_length(stored), len(NO_RANGES))
    return int(pc.sum(known).as_py() or 0)


def _as(array: pa.Array | None, arrow: pa.DataType, rows: int) -> pa.Array:
    """An index column in the type it was made in; NULLs if it is of another."""
    try:
        return pa.nulls(rows, arrow) if array is None else array.cast(arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(rows, arrow)


def _top(path: str) -> str:
    """The index column that a Parquet column path belongs to.

    >>> _top("ranges:a.b.list.element"), _top("bloom:a.b")
    ('ranges:a.b', 'bloom:a.b')
    """
    return path.removesuffix(".list.element")
