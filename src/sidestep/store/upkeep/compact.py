"""KeptShare the index small: one file per run, and now and then all files into one.

Files are only ever added and deleted, never changed. The merged file exists before the old ones go, and a reader that
loses a file while opening lists again, so every reader sees all entries at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.predicate.types import DataType
from sidestep.store.index.index_file import index_names, next_number, number_of, write_index_file
from sidestep.store.index.table_index import TableIndex, open_folder
from sidestep.store.location import Location, delete
from sidestep.store.parquet.blocks import KEYS, LAYOUT
from sidestep.store.parquet.footer import FOOTER
from sidestep.store.sidecars.range_tables import RANGE_TABLES, named_range_tables, with_range_tables
from sidestep.store.snapshot import Snapshot
from sidestep.synopsis.build import BuildPlan
from sidestep.synopsis.kinds import KINDS
from sidestep.synopsis.recipe import Recipes

YOUNG_SECONDS = 24 * 3600.0
MOST_FILES = 8
"""More index files than this are merged into one."""


def append_blocks(
    folder: Location,
    blocks: Sequence[pa.Table],
    columns: Mapping[str, DataType],
    making: BuildPlan | None = None,
    rates: Mapping[str, float] | None = None,
    names: Sequence[str] | None = None,
) -> tuple[Location, ...]:
    """Add the index rows of one run as one new index file (one for each set of partition columns, should they differ).

    ``making`` is what their synopses were made by: the file remembers its recipes, and what blocks left for a global
    range table becomes one. ``rates`` are the false positives expected of columns, to be remembered with them.
    ``names`` are the index files that are there, if they were just listed: what is written sorts after them.
    Index rows with and without a partition column must not share a file: there, NULL would be its value.
    """
    if making is not None:
        blocks = with_range_tables(folder, blocks, columns, making.recipes, making.asked)
    recipes = None if making is None else making.recipes
    groups: dict[frozenset[str], list[pa.Table]] = {}
    for table in blocks:
        parts = frozenset(name for name in table.column_names if name.startswith("part:"))
        groups.setdefault(parts, []).append(_looked_at(table))
    written: list[Location] = []
    before = tuple(index_names(folder) if names is None and groups else names or ())
    for tables in groups.values():
        number = next_number([*before, *(each.name for each in written)])
        together = pa.concat_tables(tables, promote_options="default")
        written.append(write_index_file(folder, number, together, columns, recipes, rates))
    return tuple(written)


def _looked_at(table: pa.Table) -> pa.Table:
    """-1 for an unknown NULL count: after a merge, NULL is left for columns that were never indexed for a file."""
    for position, name in enumerate(table.column_names):
        if name.startswith("nulls:"):
            table = table.set_column(position, table.field(position), table[name].fill_null(-1))
    return table


def live_files(index: TableIndex, snapshot: Snapshot, *, young: bool = True) -> npt.NDArray[np.bool_]:
    """For each indexed file, whether the table has it or may get it; all of them if the snapshot is only a part.

    A job that writes a Delta table enters its files before it commits them, so ``young`` ones are not dead yet.
    """
    if not snapshot.whole:
        return np.ones(len(index.files), dtype=np.bool_)
    live = np.zeros(len(index.files), dtype=np.bool_)
    if young and snapshot.format == "delta":
        live = index.files["modified"].to_numpy() > (time.time() - YOUNG_SECONDS) * 1_000
    positions = index.positions(snapshot.files)
    live[positions[positions >= 0]] = True
    return live


def compact(
    index: TableIndex,
    snapshot: Snapshot,
    *,
    always: bool = False,
    recipes: Recipes | None = None,
    rates: Mapping[str, float] | None = None,
    suspects: Collection[str] = (),
) -> TableIndex:
    """Merge the index into one file, without dead entries, if it has more than eight files or half of it is dead.

    Entries that others append meanwhile are in files of their own, which are left alone. ``always`` merges regardless,
    and takes the snapshot at its word. With new ``recipes`` it is merged as well, and holds only what those name; the
    ``rates`` expected of them take the place of the old ones.

    What the index files say that are named as ``suspects`` is left behind, but for the layouts of blocks that others
    describe as well: who passes them has made it anew. Without that, an index with such files is left as it is: a
    merged file has digests, and those would vouch for what was never checked.
    """
    if not index.suspects <= set(suspects):
        return index
    live = live_files(index, snapshot, young=not always)
    kept = live[index.map.file_of_block]
    if suspects:
        others = [at for at, file in enumerate(index.index_files) if file.location.name not in suspects]
        kept &= index.map.sources(others) >= 0
    entries = sum(len(blocks) for blocks in index.map.block_of_row)
    alive = sum(int(kept[blocks[blocks >= 0]].sum()) for blocks in index.map.block_of_row)
    wasteful = recipes is not None or len(index.index_files) > MOST_FILES or (entries > 0 and 2 * alive <= entries)
    if not index.index_files or not (wasteful or always or suspects):
        return index
    if recipes is None:
        recipes, rates = index.decided, index.rates
    believed = index.bare(suspects) if suspects else index
    table, columns = merge(believed, kept, recipes)
    if believed.unreadable or not believed.suspects <= set(suspects):
        return index  # what cannot be read now must not be deleted, and what is damaged is to be made anew
    names = [file.location.name for file in index.index_files]
    if len(table):
        write_index_file(index.folder, number_of(names[-1]), table, columns, recipes, rates)
    unused = RANGE_TABLES.unused(index.folder, named_range_tables(table), (time.time() - YOUNG_SECONDS) * 1_000)
    for location in [*(index.folder.child(name) for name in names), *unused]:
        delete(location)
    return open_folder(index.folder)


def merge(
    index: TableIndex, kept: npt.NDArray[np.bool_], recipes: Recipes | None = None
) -> tuple[pa.Table, dict[str, DataType]]:
    """All that a view knows of the kept blocks, as the rows of one index file; synopses as the recipes name them."""
    blocks = index.map
    where = pa.array(np.flatnonzero(kept))
    key_columns = index.files.take(pa.array(blocks.file_of_block[kept]))
    arrays = {name: key_columns[name] for name in ("path", "size", "modified")}
    arrays |= {"row_group": pa.array(blocks.row_group[kept]), "rows": pa.array(blocks.rows[kept])}
    arrays["bytes"] = pa.array(blocks.bytes[kept])
    table = pa.table(arrays).cast(KEYS)
    footers = index.footers.take(pa.array(blocks.file_of_block[kept]))
    if footers.null_count < len(footers):
        table = table.append_column(FOOTER, footers)
    for name in sorted(index.partition_columns):
        texts = index.partition_texts(name, kept)
        if texts is not None:
            table = table.append_column(f"part:{name}", texts.take(pa.array(blocks.file_of_block[kept])))
    columns = index.columns
    for name, type in columns.items():
        for column, array in (index.stored_arrays(name, type) or {}).items():
            table = table.append_column(column, array.take(where))
    reader = index.reader(recipes)
    for name in (name for name in columns if name in reader.recipes):
        for kind in KINDS.values():
            for column, array in (reader.arrays(name, columns[name], kind) or {}).items():
                table = table.append_column(column, array.take(where))
    for field in LAYOUT:
        array = getattr(index.layout, field.name).take(where)
        if array.null_count < len(array):
            table = table.append_column(field, array)
    return table, columns
