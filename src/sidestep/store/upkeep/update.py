"""Bringing an index up to date: see what is missing, read it, append, compact.

A file is read for the index only once its modification time can tell it from a later version of itself
(:func:`settle`). Two versions that are written within one tick of the file system's clock have the same time, and may
have the same size: the key of the first would match the second. Once the clock has moved on, a later change has a later
time.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa

from sidestep.errors import DamagedFile, SidestepError, SidestepWarning
from sidestep.predicate.types import DataType
from sidestep.store.block_column import block_name
from sidestep.store.index.index_file import index_names
from sidestep.store.index.table_index import TableIndex, open_folder, open_index
from sidestep.store.location import Location, delete
from sidestep.store.parquet.blocks import block_summaries
from sidestep.store.parquet.footer import file_digest
from sidestep.store.parquet.scan import Sources
from sidestep.store.snapshot import DataFile, Snapshot
from sidestep.store.snapshots.groups import refuse_groups
from sidestep.store.upkeep.compact import append_blocks, compact
from sidestep.synopsis.build import AskedRanges, BuildPlan
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.recipe import Recipe, Recipes
from sidestep.synopsis.values.forms import stored_form

_BATCH = 256
"""The rows of so many files are joined at a time."""


def missing_files(
    snapshot: Snapshot, index: TableIndex, columns: Mapping[str, DataType], recipes: Recipes | None = None
) -> tuple[DataFile, ...]:
    """The files of the snapshot that the index does not know, or not all these columns (or synopses) of."""
    positions = index.positions(snapshot.files)
    covered = np.append(index.covered(columns, recipes), False)  # position -1 is the last: not covered
    return tuple(file for file, known in zip(snapshot.files, covered[positions], strict=True) if not known)


def replaced_files(
    snapshot: Snapshot, index: TableIndex, missing: Sequence[DataFile], read: int = 16
) -> tuple[DataFile, ...]:
    """The files that have an entry for their path, size and time which was made from another footer, or from none.

    ``missing`` are those that are read in any case; ``read`` is how many footers are read at a time. No file that a
    log names is ever replaced.
    """
    if snapshot.fixed:
        return ()
    positions, digests = index.positions(snapshot.files), index.footers.to_pylist()
    todo = {file.path for file in missing}
    known = [(file, digests[at]) for file, at in zip(snapshot.files, positions, strict=True) if file.path not in todo]
    with ThreadPoolExecutor(read) as pool:
        now = pool.map(lambda each: file_digest(snapshot.root.child(each[0].path)), known)
        return tuple(
            file for (file, digest), found in zip(known, now, strict=True) if digest is None or digest != found
        )


def trusted_files(snapshot: Snapshot, files: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    """The files whose keys identify them, waiting for those only just written (a log never reuses a name)."""
    return files if snapshot.fixed else settle(snapshot.root, files)


Summaries = Iterable[pa.Table | DamagedFile | None]
"""The index rows of files, in any order: a table each, an error for a damaged one, None for one that changed."""
Summarize = Callable[[Sequence[DataFile], BuildPlan], Summaries]
"""Reads files, and makes of their blocks what it is told to."""


def update_index(
    snapshot: Snapshot,
    columns: Mapping[str, DataType],
    index: TableIndex | None = None,
    summarize: Summarize | None = None,
    *,
    recipes: Recipes | None = None,
    rates: Mapping[str, float] | None = None,
    asked: AskedRanges | None = None,
    rebuild: bool = False,
    by_footer: bool = False,
) -> TableIndex:
    """Index what is missing and return the new view. Damaged files are left out, with a warning each.

    ``index`` is the table's, already open, by default the one in its own folder. It is listed and opened once more if
    something was written, and again if its files were merged. ``summarize`` reads the files; by default threads of this
    process do, on Spark the collect job does. ``recipes`` are all that columns are to have beside their zone maps, in
    old files as well as new; without, new files get what the old ones have. ``rates`` are the false positives that are
    expected of them, and ``asked`` is what the workload asks for: global range tables keep what is asked for apart.
    ``rebuild`` makes everything anew, of all files. Without it, so is what damaged index files said, and those of an
    older format without digests; and by footer, what was made of a file with another footer than it has now, though
    size and time are the same.
    """
    refuse_groups(snapshot.root)
    index = open_index(snapshot.root) if index is None else index
    check_recipes(recipes or {}, columns)
    making = plan_synopses(index, columns, recipes, asked, rebuild=rebuild)
    index.verify()
    # Of a part of a table, only that part could be made anew.
    suspects, left_out = (index.suspects, index.left_out) if snapshot.whole else (frozenset(), ())
    missing = snapshot.files if rebuild else missing_files(snapshot, index, columns, making.recipes)
    if suspects and not rebuild:
        missing = _files_in_order(snapshot, {*missing, *_described_by(index, suspects, snapshot)})
    if by_footer and not rebuild:
        missing = (*missing, *replaced_files(snapshot, index, missing))
    todo = trusted_files(snapshot, missing)
    making = replace(making, partitions=max(1, len(todo)))
    joined: list[pa.Table] = []
    tables: list[pa.Table] = []
    for result in (summarize or partial(summarize_here, snapshot, columns))(todo, making):
        if isinstance(result, DamagedFile):
            warnings.warn(str(result), SidestepWarning, stacklevel=2)
        elif result is not None:
            tables.append(result)
        if len(tables) == _BATCH:
            joined += _join_alike(tables)
            tables = []
    again = bool((index.positions(todo) >= 0).any())
    if blocks := joined + tables:
        names = index_names(index.folder)
        added = append_blocks(index.folder, blocks, columns, making, rates, names)
        gone = _delete(left_out)
        remaining = [name for name in names if name not in gone]
        index = open_folder(index.folder, [*remaining, *(location.name for location in added)])
    elif recipes is not None or rebuild or suspects or left_out:
        _delete(left_out)
        index = index.refreshed()  # files that others have merged meanwhile must not be merged again
    kept = {**index.decided, **making.recipes}
    if suspects:
        return compact(
            index, snapshot, recipes=kept, rates=index.rates if recipes is None else rates, suspects=suspects
        )
    if (recipes is None and not rebuild) or (kept == index.decided and not again):
        return compact(index, snapshot)
    # What older recipes and tables left would only take up space from now on.
    return compact(index, snapshot, recipes=kept, rates=index.rates if recipes is None else rates)


def _described_by(index: TableIndex, names: Collection[str], snapshot: Snapshot) -> Iterator[DataFile]:
    """The files of a snapshot that some index files have entries of."""
    described = np.zeros(len(index.files) + 1, dtype=np.bool_)  # position -1 is the last: not described
    for file, blocks in zip(index.index_files, index.map.block_of_row, strict=True):
        if file.location.name in names:
            described[index.map.file_of_block[blocks[blocks >= 0]]] = True
    positions = index.positions(snapshot.files)
    return (file for file, known in zip(snapshot.files, described[positions], strict=True) if known)


def _delete(left_out: Sequence[Location]) -> set[str]:
    """Delete index files that are of no use any more, now that what they held has been made anew; their names."""
    for location in left_out:
        delete(location)
    return {location.name for location in left_out}


def _files_in_order(snapshot: Snapshot, chosen: Collection[DataFile]) -> tuple[DataFile, ...]:
    return tuple(file for file in snapshot.files if file in chosen)


def plan_synopses(
    index: TableIndex,
    columns: Mapping[str, DataType],
    recipes: Recipes | None = None,
    asked: AskedRanges | None = None,
    *,
    rebuild: bool = False,
) -> BuildPlan:
    """What new blocks of a table get: by the recipes given, or those that it has; with the range tables that it has."""
    wanted = {name: recipe for name, recipe in index.recipes.items() if name in columns}
    if recipes is not None:
        wanted = {name: recipes.get(name, Recipe()) for name in columns}
    reader = index.reader(wanted)
    tables: dict[str, GlobalRangeTable] = {}
    for name, recipe in wanted.items():
        if not recipe.widest.size(GRT) or rebuild:
            continue
        table = index.guarded(partial(reader.newest_table, name, columns[name]), lambda: None)
        if table is not None:
            tables[name] = table
    return BuildPlan(wanted, tables, asked or {})


def check_recipes(recipes: Recipes, columns: Mapping[str, DataType]) -> None:
    """Refuse recipes that cannot be followed."""
    for name, recipe in recipes.items():
        if recipe and name not in columns:
            raise SidestepError(
                f"Column {name} cannot have synopses, as it is not indexed; those that are: {', '.join(columns)}."
            )
        if recipe and stored_form(columns[name]) is None:
            raise SidestepError(f"Column {name} cannot have synopses: values of type {columns[name]} have no order.")


def _join_alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Neighbours with the same columns as one table: tables of a row or two are mostly overhead."""
    alike = [list(group) for _, group in groupby(tables, key=lambda table: table.schema)]
    return [pa.concat_tables(group).combine_chunks() for group in alike]


def summarize_here(
    snapshot: Snapshot,
    columns: Mapping[str, DataType],
    files: Sequence[DataFile],
    making: BuildPlan | None = None,
    sources: Sources | None = None,
) -> Summaries:
    """The index rows of the files, read by threads of this process."""
    block = block_name(snapshot.schema)

    def one(file: DataFile) -> pa.Table | DamagedFile | None:
        try:
            return block_summaries(
                snapshot.root,
                file,
                columns,
                sources,
                making=making,
                log_times=snapshot.fixed,
                block=block,
                ids=dict(snapshot.field_ids),
                fields=snapshot.fields,
            )
        except DamagedFile as error:
            return error

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(files), _BATCH):
            yield from pool.map(one, files[start : start + _BATCH])


LOCAL_TICK = 100
"""Milliseconds. Kernels stamp files once per timer interrupt (up to 10 ms); the rest is margin."""
COARSE_TICK = 2_000
"""Milliseconds: remote stores, and file systems that keep whole (FAT: even) seconds."""


def tick_of(root: Location, file: DataFile) -> int:
    """The granularity to assume for a file's time, in milliseconds; a time in whole seconds may be a rounded one."""
    return LOCAL_TICK if root.local and file.modified % 1_000 else COARSE_TICK


def settle(
    root: Location,
    files: Sequence[DataFile],
    *,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[DataFile, ...]:
    """The files that can be trusted, after waiting (two seconds at most) for those that were only just written.

    A file from the future cannot be told from its next version for an unknown time: it is left out, so it stays
    unknown until its time has passed.

    >>> from sidestep.store.location import locate
    >>> slept = []
    >>> fresh, future = DataFile("a", 1, 999_950), DataFile("b", 1, 2_000_000)
    >>> [file.path for file in settle(locate("/t"), [fresh, future], now=lambda: 1000.0, sleep=slept.append)], slept
    (['a'], [0.051])
    """
    moment = int(now() * 1_000)
    trusted = tuple(file for file in files if file.modified <= moment)
    wait = max((file.modified + tick_of(root, file) + 1 - moment for file in trusted), default=0)
    if wait > 0:
        sleep(wait / 1_000)
    return trusted
