"""Organizing what has come since a table was loaded, and laying units out anew for new features, step by step.

**What is organized.** Files of no unit: those that ``append`` or other writers added. And files of units whose union
vectors are of other features than the layout has now, as after ``optimize(features=…)``; not so where a feature of the
layout cannot be computed in this session, which is no reason to lay anything out anew. All else is untouched.

**When.** Blocks of a unit's rows are only as good as the unit has rows to choose from. New rows wait until at least
half of them lie in units that have gathered ``enough`` of them, by default four times ``min_size``: then most get full
blocks of their own kind. ``all=True`` does not wait. Units with other features do not wait either.

**How.** Batch by batch, each an atomic commit of its own that only rearranges rows (``dataChange`` is false, so readers
of the table's changes see none). Killed in the middle, it has done the batches before; run again, it goes on. New
features and the like are noted in the layout first, so that what is appended meanwhile has them as well. Only a new
``by`` is noted last: a file does not say what its unit was told apart by, so such a run begins again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from sidestep.advisor.layouts.choose import ChosenLayout
from sidestep.errors import SidestepError
from sidestep.predicate.text import name_text
from sidestep.render import counted
from sidestep.render.document import Cell, Facts, Paragraph, Part
from sidestep.render.report import Report
from sidestep.spark.advise.drift import UNORGANIZED, measure_drift
from sidestep.spark.advise.log_name import names_in_logs, read_log_of
from sidestep.spark.advise.source import read_source
from sidestep.spark.expressions import settle
from sidestep.spark.jvm.sessions import leaves_session_active, quiet_session
from sidestep.spark.log.analyze import LogSource
from sidestep.spark.log.statements import Table
from sidestep.spark.organize.organize import Organized, unit_expression
from sidestep.spark.progress import Progress, Stage, Watch, stage_seconds, stages_table
from sidestep.spark.relation import every_row, without_block_ids
from sidestep.spark.table.chosen import spec_of, with_value_sets
from sidestep.spark.table.group_optimize import Merged, Waiting, group_drift, merge_units, regroup
from sidestep.spark.table.group_table import open_groups
from sidestep.spark.table.matching import check_condition, files_that_may_match
from sidestep.spark.table.state import TableState, find_table, open_table, organize_files
from sidestep.store import DataFile, Location
from sidestep.store.commit.transaction import with_retries
from sidestep.store.index.table_index import open_index
from sidestep.store.sidecars.layout import LayoutSpec, load_layout, save_features, save_layout
from sidestep.store.snapshots.groups import has_groups
from sidestep.store.upkeep.drift import Drift
from sidestep.synopsis.recipe import Recipe, RecipeText, parse_recipes, recipe_text
from sidestep.workload.features.feature_set import FeatureSet

ENOUGH_BLOCKS = 4
"""New rows of a unit make a good layout once they fill so many blocks."""
BATCH_BYTES = 4 << 30
"""About what one commit rearranges; a unit is never parted."""


@dataclass(frozen=True, slots=True)
class OptimizeReport(Report):
    """What was organized, and what waits."""

    root: str
    version: int | None
    batches: int
    """Commits."""
    rows: int
    units: int
    blocks: int
    files_removed: int
    files_written: int
    files_untouched: int
    waiting_files: int
    """Files of no unit whose rows are still too few."""
    waiting_rows: int
    stages: tuple[Stage, ...]
    drift: Drift | None = None
    """How far the queries of a log have moved, if one was given."""

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    def _document(self) -> Iterator[Part]:
        files = self.files_removed + self.files_untouched
        version = "" if self.version is None else f", version {self.version}"
        yield Facts(
            [
                ("table", f"{self.root}{version}"),
                ("organized", f"{counted(self.rows, 'row')} as {counted(self.units, 'unit')}"),
                (
                    "files replaced",
                    Cell(f"{self.files_removed:,} of {files:,}", share=self.files_removed / max(1, files)),
                ),
                ("files written", f"{self.files_written:,}, with {counted(self.blocks, 'block')}"),
                ("commits", f"{self.batches:,}"),
            ]
        )
        if self.waiting_files:
            yield Paragraph(
                f"{counted(self.waiting_rows, 'row')} in {counted(self.waiting_files, 'file')} wait until enough of "
                "their units have come; all=True organizes them now.",
                "warn",
            )
        if self.drift is not None:
            yield from self.drift._document()
        yield stages_table(self.stages)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self) | {
            "stages": stage_seconds(self.stages),
            "seconds": round(self.seconds, 3),
            "drift": None if self.drift is None else self.drift.to_dict(),
        }

    def __str__(self) -> str:
        text = (
            f"{self.root}: {self.rows:,} rows of {self.files_removed:,} files organized as {self.units:,} units in "
            f"{self.files_written:,} files and {self.blocks:,} blocks, {self.files_untouched:,} files untouched "
            f"({self.batches:,} commits, {self.seconds:.1f} s)."
        )
        if self.waiting_files:
            text += (
                f" {self.waiting_rows:,} rows in {self.waiting_files:,} files wait until enough of their units have "
                "come; all=True organizes them now."
            )
        return text if self.drift is None else f"{text}\n{self.drift}"


@leaves_session_active
def optimize(
    spark: SparkSession,
    table: str | os.PathLike[str],
    *,
    features: FeatureSet | str | os.PathLike[str] | None = None,
    log: LogSource | None = None,
    name: str | None = None,
    tables: Mapping[str, Table] | None = None,
    dialect: str | None = None,
    by: str | None = None,
    where: str | None = None,
    all: bool = False,
    enough: int | None = None,
    synopses: RecipeText | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> OptimizeReport:
    """Organize the rows that have come to a Delta table since it was loaded; with ``features``, also lay out its units
    for those.

    With a ``log`` of today's queries, in which the table is called ``name``, it is looked at how far they have moved
    from those that the layout was made for (the report's ``drift``), and the units that are worth it are laid out anew
    for them; ``tables`` has the paths of others that the log names, and ``dialect`` is its SQL, if that is not Spark's.

    ``where`` limits it to files that may hold rows for which a condition is TRUE, such as one partition's; ``enough``
    is how many new rows of a unit are worth a layout. See this module for what is organized when. What is written gets
    the synopses that the table has, but for columns that ``synopses`` names: those get what it says.

    Of a table in column groups, units of few rows are put together; with a log, its columns come into the groups that
    suit those queries, if that is worth it (:mod:`sidestep.spark.table.group_optimize`).
    """
    root = find_table(spark, table)
    quiet = quiet_session(spark)
    watch = Watch(spark.sparkContext, progress)
    if has_groups(root):
        given_anyway = {"features": features, "by": by, "where": where, "synopses": synopses, "index_dir": index_dir}
        _refuse_for_groups(root, **given_anyway)
        log_options = (name, log, tables, dialect)
        return _optimize_groups(quiet, root, log_options, watch, enough=enough, every=all)
    if log is not None and (features is not None or by is not None):
        raise SidestepError("Give either a log to lay the table out for, or features and units, not both.")
    given = features if isinstance(features, FeatureSet | None) else FeatureSet.load(features)
    drift, moved = None, None
    if log is not None:
        moved = _look_at_drift(quiet, root, (name, table), index_dir, log, tables, dialect, synopses, watch)
        drift = moved.drift
        if moved.units:
            given, synopses = moved.chosen.layout.features, moved.synopses
    state = open_table(quiet, root, index_dir, features=given, synopses=synopses)
    anew = by is not None and by != state.spec.by
    spec = replace(state.spec, by=by, source="") if anew else state.spec
    if spec.by is not None:
        unit_expression(every_row(quiet, state.only(())), spec)
    if where is not None:
        (where,) = settle(quiet, [where], state.schema)
        check_condition(quiet, state, where)
    spec = replace(spec, features=state.features_id) if given is not None else spec
    if moved is not None and moved.units:
        spec = replace(spec_of(moved.chosen, state.checked, spec), log_name=moved.log_name)
    stored = replace(spec, by=state.spec.by if anew else spec.by)
    if given is not None and stored != load_layout(state.index.folder):
        if state.features_id is not None:
            save_features(state.index.folder, state.checked.features)
        save_layout(state.index.folder, stored)
    state = replace(state, spec=spec)
    chosen = state.snapshot.files if where is None else files_that_may_match(quiet, state, where)
    todo = plan_batches(state, chosen, anew=anew)
    if moved is not None:
        todo = _only_units(state, chosen, moved.units, todo)
    waiting = 0
    if todo.unorganized and not all:
        with watch.stage("count new rows"):
            counts = _rows_by_unit(quiet, state, todo.unorganized)
        wanted = ENOUGH_BLOCKS * spec.min_size if enough is None else enough
        if not worthwhile(counts, wanted):
            waiting = sum(counts)
            todo = replace(todo, unorganized=(), waiting=todo.unorganized)
    work = [partial(_organize_batch, quiet, root, index_dir, state, files, watch) for files in todo.batches()]
    done = [batch for batch in map(with_retries, work) if batch is not None]
    if anew and where is None:
        save_layout(state.index.folder, spec)
    removed = sum(batch.removed for batch in done)
    return OptimizeReport(
        root=root.uri,
        version=done[-1].version if done else state.snapshot.version,
        batches=len(done),
        rows=sum(batch.organized.rows for batch in done),
        units=sum(batch.organized.units for batch in done),
        blocks=sum(batch.organized.blocks for batch in done),
        files_removed=removed,
        files_written=sum(len(batch.organized.files) for batch in done),
        files_untouched=len(state.snapshot.files) - removed,
        waiting_files=len(todo.waiting),
        waiting_rows=waiting,
        stages=watch.stages,
        drift=drift,
    )


def _refuse_for_groups(root: Location, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise SidestepError(
                f"{root.uri} is in column groups, each of which is arranged by a log of queries: leave {name}=… out."
            )


def _optimize_groups(
    spark: SparkSession,
    root: Location,
    by_log: tuple[str | None, LogSource | None, Mapping[str, Table] | None, str | None],
    watch: Watch,
    *,
    enough: int | None,
    every: bool,
) -> OptimizeReport:
    """Lay a table in column groups out anew, for a log if there is one and it is worth it; else put units together."""
    name, log, tables, dialect = by_log
    before = open_groups(spark, root)
    drift, regrouped = None, None
    if log is not None and before.snapshot.files:
        drift, chosen, widths, storage = group_drift(spark, root, name, log, tables, dialect, watch)
        if drift.worthwhile:
            regrouped = regroup(spark, root, chosen, widths, storage, watch)
    found = list(merge_units(spark, root, watch, enough=enough, every=every, batch_bytes=BATCH_BYTES))
    merged = [each for each in found if isinstance(each, Merged)]
    waiting = next((each for each in found if isinstance(each, Waiting)), Waiting(0, 0))
    anew = () if regrouped is None else tuple(loaded.organized for loaded in regrouped.made)
    removed = sum(each.removed for each in merged) + (0 if regrouped is None else regrouped.removed)
    versions = [*([] if regrouped is None else [regrouped.version]), *(each.version for each in merged)]
    return OptimizeReport(
        root=root.uri,
        version=versions[-1] if versions else before.snapshot.version,
        batches=len(versions),
        rows=sum(each.rows for each in merged) + (0 if regrouped is None else regrouped.rows),
        units=sum(each.units for each in merged) + (0 if regrouped is None else regrouped.units),
        blocks=sum(each.blocks for each in merged) + sum(one.blocks for one in anew),
        files_removed=removed,
        files_written=sum(each.written for each in merged) + sum(len(one.files) for one in anew),
        files_untouched=max(0, len(before.snapshot.files) - removed),
        waiting_files=waiting.files,
        waiting_rows=waiting.rows,
        stages=watch.stages,
        drift=drift,
    )


@dataclass(frozen=True)
class _Moved:
    drift: Drift
    chosen: ChosenLayout
    units: tuple[str, ...]
    """Those to lay out anew."""
    synopses: RecipeText | None
    log_name: str
    """What the log calls the table."""


def _look_at_drift(
    spark: SparkSession,
    root: Location,
    called: tuple[str | None, str | os.PathLike[str]],
    index_dir: str | os.PathLike[str] | None,
    log: LogSource,
    tables: Mapping[str, Table] | None,
    dialect: str | None,
    synopses: RecipeText | None,
    watch: Watch,
) -> _Moved:
    """How far a log's queries have moved; ``called`` has what it calls the table, if that was said, and the table."""
    index = open_index(root, index_dir)
    spec = load_layout(index.folder) or LayoutSpec()
    source = read_source(spark, root.uri, "")
    with watch.stage("analyze"):
        name, workload = read_log_of(spark, log, names_in_logs(*called, root, spec), source.schema, tables, dialect)
    source = replace(source, name=name)
    with watch.stage("choose"):
        drift, chosen = measure_drift(workload, source, index, spec, watch.tell)
    kept = {column: index.recipes.get(column, Recipe()) for column in source.types}
    named = {} if synopses is None else parse_recipes(synopses, source.types)
    recipes = with_value_sets({**kept, **named}, chosen.layout.few_valued, named)
    changed = {
        column: recipe_text(recipe)
        for column, recipe in recipes.items()
        if recipe != kept[column] and not recipe.groups
    }
    return _Moved(drift, chosen, drift.worthwhile, changed or None, name)


def _only_units(state: TableState, files: Sequence[DataFile], units: Collection[str], todo: Todo) -> Todo:
    """What there is to do when some units are laid out anew: those, and no others that have other features."""
    index = state.index
    of_file = zip(files, index.positions(files).tolist(), strict=True)
    mine = [file for file, position in of_file if position >= 0 and index.units[position] in units]
    if not units:
        return replace(todo, units=())
    unorganized = todo.unorganized if UNORGANIZED in units else ()
    waiting = todo.unorganized if UNORGANIZED not in units else ()
    return Todo((), tuple(_by_bytes([[*mine, *unorganized]])), waiting)


@dataclass(frozen=True, slots=True)
class Todo:
    """The files to organize: those of no unit, and batches of whole units that were laid out otherwise."""

    unorganized: tuple[DataFile, ...]
    units: tuple[tuple[DataFile, ...], ...]
    waiting: tuple[DataFile, ...] = ()

    def batches(self) -> Iterator[tuple[DataFile, ...]]:
        yield from self.units
        yield from _by_bytes([[file] for file in self.unorganized])


def plan_batches(state: TableState, files: Sequence[DataFile], *, anew: bool = False) -> Todo:
    """What there is to organize among these files; with ``anew``, all of them."""
    index = state.index
    positions = index.positions(files).tolist()
    units = index.units
    differs = np.zeros(len(index.files), dtype=np.bool_)
    if state.features_id == state.spec.features:
        other = np.array([id != state.features_id for id in index.features_of_block.to_pylist()], dtype=np.bool_)
        differs[index.map.file_of_block[other]] = True
    unorganized: list[DataFile] = []
    by_unit: dict[str, list[DataFile]] = {}
    for file, position in zip(files, positions, strict=True):
        unit = units[position] if position >= 0 else None
        if unit is None:
            unorganized.append(file)
        elif anew or differs[position]:
            by_unit.setdefault(unit, []).append(file)
    if anew:  # units are others now: nothing is gained by keeping old and new rows apart
        return Todo(
            (), tuple(_by_bytes([*([file] for unit in sorted(by_unit) for file in by_unit[unit]), unorganized]))
        )
    return Todo(tuple(unorganized), tuple(_by_bytes([by_unit[unit] for unit in sorted(by_unit)])))


def _by_bytes(pieces: Sequence[Sequence[DataFile]]) -> Iterator[tuple[DataFile, ...]]:
    """Neighbouring pieces together, up to about the size of a batch."""
    batch: list[DataFile] = []
    for piece in pieces:
        if batch and sum(file.size for file in (*batch, *piece)) > BATCH_BYTES:
            yield tuple(batch)
            batch = []
        batch += piece
    if batch:
        yield tuple(batch)


def worthwhile(counts: Sequence[int], enough: int) -> bool:
    """Whether at least half of the rows, counted by unit, lie in units with ``enough`` of them.

    >>> worthwhile([100, 20, 20, 20], enough=100), worthwhile([100, 60, 60], enough=100)
    (True, False)
    """
    return 2 * sum(count for count in counts if count >= enough) >= max(1, sum(counts))


def _rows_by_unit(spark: SparkSession, state: TableState, files: Sequence[DataFile]) -> list[int]:
    rows = every_row(spark, state.only(files))
    keys = [f.col(name_text(name)) for name in state.snapshot.partition_columns]
    keys += [unit_expression(rows, state.spec)] if state.spec.by is not None else []
    return [int(row["count"]) for row in rows.groupBy(*keys).count().collect()]


@dataclass(frozen=True, slots=True)
class _Batch:
    organized: Organized
    removed: int
    version: int


def _organize_batch(
    spark: SparkSession,
    root: Location,
    index_dir: str | os.PathLike[str] | None,
    decided: TableState,
    files: Sequence[DataFile],
    watch: Watch,
) -> _Batch | None:
    """One batch, on the newest version: of its files, those that are still part of the table."""
    state = open_table(spark, root, index_dir, spec=decided.spec, checked=decided.checked, synopses=decided.synopses)
    live = {file.key for file in state.snapshot.files}
    held = [file for file in files if file.key in live]
    if not held:
        return None
    organized, commit = organize_files(
        state,
        without_block_ids(every_row(spark, state.only(held)), state.snapshot),
        held,
        source=state.only(held),
        operation="OPTIMIZE",
        data_change=False,
        watch=watch,
    )
    return _Batch(organized, len(held), commit.version)
