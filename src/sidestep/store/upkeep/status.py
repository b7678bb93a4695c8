"""How much of a table its index covers, for people."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.predicate.types import DataType
from sidestep.render import counted, size_text
from sidestep.render.document import Cell, Details, Facts, Grid, Paragraph, Part, Style, numbers
from sidestep.render.report import Report
from sidestep.store.index.grouped_table import GroupedTable, read_groups
from sidestep.store.index.synopsis_columns import HeldSynopsis
from sidestep.store.index.table_index import TableIndex, open_index
from sidestep.store.location import Location, locate
from sidestep.store.sidecars.column_groups import ROW_ID, UNIT, GroupRows
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS
from sidestep.store.sidecars.layout import load_layout
from sidestep.store.snapshot import Snapshot
from sidestep.store.snapshots.groups import is_inner
from sidestep.store.snapshots.read import read_snapshot
from sidestep.store.upkeep.drift import Drift
from sidestep.store.upkeep.false_positives import Estimates, TriedSynopsis, kept_shares, load_estimates
from sidestep.synopsis.recipe import Recipe, partitions_text, recipe_text
from sidestep.synopsis.values.forms import Mask


@dataclass(frozen=True, slots=True)
class SynopsesStatus:
    """The synopses of one column beside its zone map: what they are, what they take, and what they are good for.

    What is kept is estimated from the index alone: for a value that some block holds, the share of the other blocks
    that are read as well, whether they hold it too or not.
    """

    recipe: Recipe
    held: tuple[HeldSynopsis, ...]
    zone_map_kept: float | None = None
    """What is kept by the zone map alone; None where nothing can be told."""
    kept: float | None = None
    """What is kept by all of the column's synopses."""
    first_kept: float | None = None
    """The same when the synopses were chosen."""
    bound: float | None = None
    """What the rate of false positives was to stay below for queries like those that a budget or a log was spent by."""
    outgrown: bool = False
    """Whether twice as much is kept since: the blocks at hand would be served better by a new choice."""

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.held)

    @property
    def apart(self) -> tuple[str, ...]:
        """What some partitions have instead, and why, one text for each group."""
        others = recipe_text(self.recipe)
        return tuple(
            f"{partitions_text(group.partitions)}: {recipe_text(group.recipe)}; others: {others}"
            + (f" ({group.why})" if group.why else "")
            for group in self.recipe.groups
        )

    @property
    def saved(self) -> float:
        """The share of the blocks which the zone map keeps that these synopses spare."""
        if not self.zone_map_kept or self.kept is None:
            return 0.0
        return max(0.0, 1 - self.kept / self.zone_map_kept)

    @property
    def false_positives(self) -> float | None:
        """What the rate of false positives is at most, as far as can be told: never more than what is kept."""
        return min((rate for rate in (self.kept, self.bound) if rate is not None), default=None)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One column group of a table."""

    number: int
    columns: tuple[str, ...]
    files: int
    bytes: int
    rows: int
    blocks: int
    features: int
    """Blocks of it that have a union vector."""
    copies: str = ""
    """Which rows it has, if these are not all."""


@dataclass(frozen=True, slots=True)
class IndexStatus(Report):
    """What the index knows, against what the table has now."""

    root: str
    folder: str
    """Where the index files are."""
    format: str
    version: int | None
    files: int
    bytes: int
    indexed_files: int
    indexed_bytes: int
    indexed_rows: int
    blocks: int
    """Row groups in the indexed files."""
    columns: Mapping[str, DataType]
    column_files: Mapping[str, int]
    """For each column, how many of the table's files have it indexed."""
    partition_columns: tuple[str, ...]
    index_files: int
    index_bytes: int
    stale_files: int
    """Entries for files that the table no longer has (always 0 for a part of a table or an older version)."""
    problems: tuple[str, ...]
    """What is wrong with index files: each is left out in whole or in part, until the table is indexed again."""
    organized_files: int = 0
    """Files that were laid out, as a unit or part of one; the others were written by whoever wrote the table."""
    blocks_with_ids: int = 0
    """Row groups whose rows carry a block id."""
    feature_sets: Mapping[str, float] = field(default_factory=dict)
    """The share of the indexed files' row groups that have a union vector of each feature set, by its id."""
    synopses: Mapping[str, SynopsesStatus] = field(default_factory=dict)
    """The columns that have synopses beside their zone maps."""
    unchecked_files: int = 0
    """Index files of an older format, without digests by which damage is told."""
    tried: tuple[TriedSynopsis, ...] = ()
    """What was tried when synopses were chosen that no one named: what it would save, and why it was not built."""
    notes: tuple[str, ...] = ()
    """What is to be said of synopses that were just chosen."""
    drift: Drift | None = None
    """How far the queries of a log have moved from those that the table was laid out for, if one was given."""
    groups: tuple[GroupStatus, ...] = ()
    """The column groups of the table, if it is in such: then files, bytes and blocks are those of all of them."""
    storage: float | None = None
    """How many times the table's cells may be stored, if that is more than once."""
    log_name: str | None = None
    """What the log calls the table that it was laid out for: of a copy, the name of what it was made of."""

    @property
    def unorganized_files(self) -> int:
        """Files that no layout made."""
        return self.files - self.organized_files

    @property
    def complete(self) -> bool:
        """Whether every file of the table is indexed."""
        return self.indexed_files == self.files

    @property
    def advice(self) -> str:
        """What to do about old index files and synopses that have been outgrown; empty if there is nothing to do."""
        said: list[str] = []
        if self.unchecked_files:
            said.append(
                f"{self.unchecked_files:,} of {self.index_files:,} index files have no digests, so that damage to them "
                "would not be noticed: make them anew with sidestep index."
            )
        if outgrown := [name for name, each in self.synopses.items() if each.outgrown]:
            said.append(
                f"The synopses of {', '.join(outgrown)} let through twice as much as when they were chosen, or more: "
                "have them chosen and made anew with sidestep index --rebuild."
            )
        return " ".join(said)

    def _document(self) -> Iterator[Part]:
        yield from self.summary()
        yield from self.details()

    def summary(self) -> Iterator[Part]:
        """The table, its coverage, the index's size, what is wrong, what synopses there are, and what to do."""
        yield Facts([*self._facts()])
        if self.synopses:
            yield self._synopses_table()
            for name, one in self.synopses.items():
                yield from (Paragraph(f"{name} in {line}") for line in one.apart)
        yield from (Paragraph(note) for note in self.notes)

    def details(self) -> Iterator[Part]:
        """What was tried and not built, and each column."""
        tried: list[list[Cell | str]] = [
            [
                each.column,
                each.synopsis,
                size_text(each.bytes),
                Cell(f"{each.zone_map:.1%}", share=each.zone_map),
                Cell(f"{each.reads:.1%}", share=each.reads),
                each.why_not,
            ]
            for each in self.tried
            if each.why_not
        ]
        if tried:
            heads = ("tried", "synopsis", *numbers("bytes", "zone map reads", "it would read"), "why not")
            yield Details(f"{len(tried):,} synopses that were tried and not built", (Grid(heads, tried),))
        if self.columns:
            rows: list[list[Cell | str]] = [
                [
                    name,
                    str(kind),
                    Cell(
                        f"{self.column_files[name]:,} of {self.files:,}",
                        share=self.column_files[name] / max(1, self.files),
                    ),
                ]
                for name, kind in self.columns.items()
            ]
            grid = Grid(("column", "type", *numbers("files")), rows)
            yield Details(f"{counted(len(rows), 'column')} with what is indexed of each", (grid,))

    def _facts(self) -> Iterator[tuple[str, Cell | str]]:
        version = "" if self.version is None else f", version {self.version}"
        yield "table", f"{self.root} ({self.format}{version})"
        files, sizes = f"{self.indexed_files:,} of {counted(self.files, 'file')}", size_text(self.bytes)
        if self.indexed_files:
            sizes = f"{size_text(self.indexed_bytes)} of {sizes}"
            said = f"{files}, {sizes}: {self.indexed_rows:,} rows in {self.blocks:,} row groups"
            style: Style = "good" if self.complete else "warn"
            yield "indexed", Cell(said, style, self.indexed_bytes / max(1, self.bytes))
            share = f"{self.index_bytes / max(self.indexed_bytes, 1):.2%} of the data"
            many = f"{counted(self.index_files, 'file')}, {size_text(self.index_bytes)}, {share}"
            yield "index", f"{self.folder} ({many})"
        else:
            yield "indexed", Cell(f"{files}, {sizes}: index it with sidestep index", "warn", 0.0)
        if self.blocks_with_ids:
            waiting = self.unorganized_files
            also = f"; {waiting:,} of them wait for sidestep optimize" if waiting else ""
            told = f"{self.organized_files:,} of {self.files:,} files, {self.blocks_with_ids:,} blocks{also}"
            sets = ", ".join(f"{id[:12]} ({share:.0%} of blocks)" for id, share in self.feature_sets.items())
            yield "laid out", Cell(told, "warn" if waiting else "good", self.organized_files / max(1, self.files))
            yield "features", sets or "none"
        if self.log_name is not None:
            yield "in its log", f"called {self.log_name}"
        for group in self.groups:
            said = f"{group.blocks:,} blocks, {group.files:,} files, {size_text(group.bytes)}"
            some = f"; {group.rows:,} rows, {group.copies}" if group.copies else ""
            yield f"group {group.number}", f"{', '.join(group.columns)}: {said}{some}"
        if self.storage is not None:
            stored = sum(group.rows * len(group.columns) for group in self.groups)
            cells = stored / max(1, self.indexed_rows * len({name for one in self.groups for name in one.columns}))
            yield "storage", f"{cells:.2f} times the table's cells; {self.storage:g} times may be stored"
        if self.partition_columns:
            yield "partitioned", f"by {', '.join(self.partition_columns)}"
        if self.stale_files:
            entries = "1 entry" if self.stale_files == 1 else f"{self.stale_files:,} entries"
            yield "stale", f"{entries} of files that changed or are gone: harmless"
        yield from (("problem", Cell(problem, "bad")) for problem in self.problems)
        if self.drift is not None:
            yield "queries", Cell(str(self.drift), "warn" if self.drift.worthwhile else "good")
        if self.advice:
            yield "advice", Cell(self.advice, "warn")

    def _synopses_table(self) -> Grid:
        """What columns have beside zone maps: what it takes, and which share of blocks a value is looked for in."""
        rows: list[list[Cell | str]] = []
        for name, one in self.synopses.items():
            for number, each in enumerate(one.held):
                rates: list[Cell | str] = [""] * 4
                if number == 0 and one.kept is not None:
                    shares = (one.kept, one.zone_map_kept or 0.0, one.saved)
                    rates = [Cell(f"{share:.1%}", share=share) for share in shares]
                    rates.append(f"≤ {one.false_positives or 0.0:.1%}")
                rows.append([name if number == 0 else "", each.text, f"{each.blocks:,}", size_text(each.bytes), *rates])
        heads = numbers("blocks", "bytes", "keeps", "zone map alone", "spares", "false positives")
        return Grid(("column", "synopsis", *heads), rows)


def status(
    table: str | os.PathLike[str] | Location, index_dir: str | os.PathLike[str] | Location | None = None
) -> IndexStatus:
    """The state of a table's index. A table that was never indexed has zeros, not an error.

    All of the index is held against its digests.
    """
    grouped = None if is_inner(locate(table)) else read_groups(table)
    if grouped is not None:
        return _grouped_status(grouped, index_dir)
    snapshot = read_snapshot(table, to_index=True)
    index = open_index(snapshot.root, index_dir)
    index.verify()
    return index_status(snapshot, index)


def _copies(some: GroupRows | None) -> str:
    if some is None:
        return ""
    return "copies of those of some features" if some.rest_of is None else f"those that group {some.rest_of} lacks"


def _grouped_status(table: GroupedTable, index_dir: object) -> IndexStatus:
    """The state of a table in column groups: of its inner table, seen as users see it."""
    if index_dir is not None:
        raise SidestepError(f"{table.root.uri} is in column groups, which keep their index: leave index_dir out.")
    index = open_index(table.snapshot.root)
    index.verify()
    found = index_status(table.snapshot, index)
    positions = index.positions(table.snapshot.files)
    vectors = index.features_of_block.is_valid().to_numpy(zero_copy_only=False)
    groups = []
    for number in table.live:
        mine = [at for at, of in enumerate(table.group_of_file) if of == number]
        blocks = np.isin(index.map.file_of_block, positions[mine]) if mine else np.zeros(index.map.blocks, np.bool_)
        groups.append(
            GroupStatus(
                number,
                table.groups.groups[number],
                len(mine),
                sum(table.snapshot.files[at].size for at in mine),
                int(index.map.rows[blocks].sum()),
                int(blocks.sum()),
                int(vectors[blocks].sum()),
                _copies(table.groups.rows.get(number)),
            )
        )
    own = (UNIT, ROW_ID)
    layouts = GROUP_LAYOUTS.load(index.folder)
    rows = {group.number: group.rows for group in groups}
    return replace(
        found,
        root=table.root.uri,
        format="column groups",
        indexed_rows=max((sum(rows[at] for at in table.groups.parts(number)) for number in table.complete), default=0),
        columns={name: type for name, type in found.columns.items() if name not in own},
        column_files={name: files for name, files in found.column_files.items() if name not in own},
        partition_columns=(),
        groups=tuple(groups),
        storage=None if layouts is None else layouts.storage,
        log_name=None if layouts is None or not layouts.layouts else layouts.layouts[-1].log_name,
    )


def index_status(snapshot: Snapshot, index: TableIndex, estimates: Estimates | None = None) -> IndexStatus:
    """The state of an index that is open; ``estimates`` are what was just noted of synopses, if they were chosen."""
    positions = index.positions(snapshot.files)
    known = positions >= 0
    live = np.zeros(len(index.files), dtype=np.bool_)
    live[positions[known]] = True
    blocks = live[index.map.file_of_block]
    columns = index.columns
    noted = load_estimates(index.folder) if estimates is None else estimates
    layout = load_layout(index.folder)
    features = Counter(index.features_of_block.filter(pa.array(blocks)).drop_null().to_pylist())
    found = IndexStatus(
        root=snapshot.root.uri,
        folder=index.folder.uri,
        format=snapshot.format,
        version=snapshot.version,
        files=len(snapshot.files),
        bytes=snapshot.bytes,
        indexed_files=int(known.sum()),
        indexed_bytes=sum(file.size for file, hit in zip(snapshot.files, known, strict=True) if hit),
        indexed_rows=int(index.map.rows[blocks].sum()),
        blocks=int(blocks.sum()),
        columns=columns,
        column_files={name: int((index.covered({name: type}) & live).sum()) for name, type in columns.items()},
        partition_columns=snapshot.partition_columns,
        index_files=len(index.index_files),
        index_bytes=index.nbytes,
        stale_files=int((~live).sum()) if snapshot.whole else 0,
        problems=(),
        unchecked_files=len(index.unchecked),
        organized_files=sum(index.units[position] is not None for position in positions[known]),
        blocks_with_ids=int((index.block_ids[blocks] >= 0).sum()),
        feature_sets={id: count / int(blocks.sum()) for id, count in features.most_common()},
        synopses=_synopses(index, blocks, noted, chosen_now=estimates is not None),
        tried=noted.tried,
        log_name=None if layout is None else layout.log_name,
    )
    found = replace(found, problems=index.problems)  # some come up while it is looked through
    names = {stored: name for name, stored in snapshot.stored_names}
    by_id = {field.id: field.name for field in snapshot.fields}
    names |= {key: by_id[number] for number, key in index.columns_by_id.items() if number in by_id}
    return _under_names(found, names)


def _under_names(found: IndexStatus, names: Mapping[str, str]) -> IndexStatus:
    """The same with columns by the names that the table has for them; one that it has no longer by its stored one."""
    if not names:
        return found
    return replace(
        found,
        columns={names.get(name, name): type for name, type in found.columns.items()},
        column_files={names.get(name, name): files for name, files in found.column_files.items()},
        partition_columns=tuple(names.get(name, name) for name in found.partition_columns),
        synopses={
            names.get(name, name): replace(
                each, held=tuple(replace(one, column=names.get(one.column, one.column)) for one in each.held)
            )
            for name, each in found.synopses.items()
        },
        tried=tuple(replace(each, column=names.get(each.column, each.column)) for each in found.tried),
    )


def _synopses(index: TableIndex, live: Mask, noted: Estimates, *, chosen_now: bool) -> dict[str, SynopsesStatus]:
    if not index.recipes:
        return {}
    held = index.held_synopses()
    before = noted.shares
    now = before if chosen_now else index.guarded(lambda: kept_shares(index, live), lambda: {})
    found: dict[str, SynopsesStatus] = {}
    for name, recipe in index.recipes.items():
        of_column = tuple(each for each in held if each.column == name)
        found[name] = SynopsesStatus(recipe, of_column, bound=index.rates.get(name))
        if name in now:
            first = before.get(name)
            found[name] = replace(
                found[name],
                zone_map_kept=now[name].zone_map,
                kept=now[name].kept,
                first_kept=None if first is None else first.kept,
                outgrown=first is not None and now[name].outgrown(first),
            )
    return found
