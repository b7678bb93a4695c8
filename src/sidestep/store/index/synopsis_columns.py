"""What an index knows of blocks beside their zone maps: the synopses of every kind that recipes name.

The newest recipe of a column says which of these there are. Each block has what the newest entry of its file has; a
block that was indexed before the recipe, or whose partition goes without, is unknown to that synopsis, and only to that
one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from sidestep.synopsis.build import has_codes
from sidestep.synopsis.catalog import Synopsis
from sidestep.synopsis.contract.answer import ColumnSynopsis
from sidestep.synopsis.descriptor import SynopsisKind
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.kinds import KINDS
from sidestep.synopsis.recipe import Recipe, Recipes
from sidestep.synopsis.values.forms import Mask, stored_form

ColumnSynopses = Mapping[str, Sequence[ColumnSynopsis]]
"""The synopses of one column, by the key of their kind: none, one, or one for each table blocks were encoded by."""


@dataclass(frozen=True, slots=True)
class HeldSynopsis:
    """How much of the index one kind of synopsis of one column is."""

    column: str
    kind: str
    """The key that recipes name it by."""
    size: int
    """What the recipe allows for a block, at most."""
    blocks: int
    """Blocks of which there is one."""
    bytes: int
    """On disk, tables included."""

    @property
    def text(self) -> str:
        """What it is, for people, as in "range-set of 8 ranges"."""
        kind = KINDS[self.kind]
        return f"{kind.title} of {self.size:,} {kind.sizes.unit}"


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
        held: dict[str, Sequence[ColumnSynopsis]] = {}
        for kind in KINDS.values():
            arrays = self.arrays(name, type, kind)
            if arrays is not None:
                held[kind.key] = kind.read(type, kind.parts_of(name, arrays), self.tables(name, kind, arrays))
        return held

    def arrays(
        self, name: str, type: DataType, kind: SynopsisKind[Any], *, exactly: bool = False
    ) -> dict[str, pa.Array] | None:
        """The index columns of one kind for all blocks, NULL where it was never built; None if the recipe names none.

        With ``exactly``, only what was built in the size that the recipe names for each partition counts.
        """
        if not self._named(name, type, kind):
            return None
        recipe = self.recipes[name].only(kind)
        wanted = kind.stored_columns(name, type)
        lead = next(iter(wanted))
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

    def _named(self, name: str, type: DataType, kind: SynopsisKind[Any]) -> bool:
        """Whether the recipe of a column names a kind that its type can have."""
        return bool(self.recipes.get(name, Recipe()).widest.size(kind)) and has_codes(type)

    def tables(self, name: str, kind: SynopsisKind[Any], arrays: Mapping[str, pa.Array]) -> list[GlobalRangeTable]:
        """The tables that blocks were encoded by; one that is gone or damaged is left out, with a warning."""
        by = None if kind.tables is None else arrays.get(f"{kind.tables.named_by}:{name}")
        identities = [] if by is None else by.unique().drop_null().to_pylist()
        tables = [self._table(name, identity) for identity in identities]
        return [table for table in tables if table is not None]

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
        arrays = self.arrays(name, type, GRT, exactly=True)
        if arrays is None:
            return None
        usable = {table.identity: table for table in self.tables(name, GRT, arrays) if table.coding.type == type}
        counts = pc.value_counts(arrays[f"grttable:{name}"].drop_null()).to_pylist()
        ranked = sorted(counts, key=lambda count: -count["counts"])
        return next((usable[count["values"]] for count in ranked if count["values"] in usable), None)

    def covered(self, name: str, type: DataType) -> npt.NDArray[np.bool_]:
        """For each block, whether all that the recipe names was built of it, if only in vain."""
        every = np.ones(self.blocks.blocks, dtype=np.bool_)
        for kind in KINDS.values():
            if not self._named(name, type, kind):
                continue
            arrays = self.arrays(name, type, kind, exactly=True)
            if arrays is None:
                return np.zeros_like(every)
            every &= next(iter(arrays.values())).is_valid().to_numpy(zero_copy_only=False)
            if kind.tables is not None:
                by = arrays[f"{kind.tables.named_by}:{name}"]
                tables = pa.array([table.identity for table in self.tables(name, kind, arrays)], pa.string())
                every &= pc.or_(pc.is_null(by), pc.is_in(by, tables)).to_numpy(zero_copy_only=False)
        return every

    def held(self, columns: Mapping[str, DataType]) -> tuple[HeldSynopsis, ...]:
        """How much there is of each synopsis of these columns."""
        held: list[HeldSynopsis] = []
        for name, recipe in self.recipes.items():
            for kind in KINDS.values():
                arrays = self.arrays(name, columns[name], kind) if name in columns else None
                if arrays is not None:
                    blocks = int(kind.known(next(iter(arrays.values()))).sum())
                    size = self._bytes(name, columns[name], kind, arrays)
                    held.append(HeldSynopsis(name, kind.key, recipe.widest.size(kind), blocks, size))
        return tuple(held)

    def _bytes(self, name: str, type: DataType, kind: SynopsisKind[Any], arrays: Mapping[str, pa.Array]) -> int:
        wanted = set(kind.stored_columns(name, type))
        total = 0
        for file in self.files:
            metadata = file.reader.metadata
            for group in range(metadata.num_row_groups):
                row_group = metadata.row_group(group)
                chunks = (row_group.column(number) for number in range(row_group.num_columns))
                total += sum(c.total_compressed_size for c in chunks if _top(c.path_in_schema) in wanted)
        return total + sum(len(table.to_json()) for table in self.tables(name, kind, arrays))


def synopses_of(columns: Mapping[str, ColumnSynopses]) -> list[Synopsis]:
    """The synopses of several columns as the catalog holds them."""
    synopses: list[Synopsis] = []
    for kind in KINDS.values():
        held = {name: each.get(kind.key, ()) for name, each in columns.items()}
        for number in range(max(map(len, held.values()), default=0)):
            synopses.append(kind.synopsis({name: each[number] for name, each in held.items() if len(each) > number}))
    return synopses


def _speaks(stored: DataType | None, asked: DataType) -> bool:
    """Whether codes made of one type are codes of the other."""
    return stored is not None and convertible(stored, asked) and stored_form(stored) is stored_form(asked)


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
