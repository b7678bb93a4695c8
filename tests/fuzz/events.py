"""What happens around a query: files change before it is planned or while it waits, an index has a wrong bit, a table
is made anew, a delete cannot read everything. Each is a list that a case keeps, and each is undone afterwards."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame

import sidestep
from sidestep.errors import SidestepError
from sidestep.prune import Query
from sidestep.spark.rule.planner import Planner
from tests.fuzz.build import (
    arrow_table,
    frame_of,
    keep_time,
    plain_path,
    register_table,
    touch,
    truth_of,
    write_plain,
)
from tests.fuzz.choices import Choices
from tests.fuzz.copies import read_files
from tests.fuzz.functions import write_number
from tests.fuzz.oracle import NOTHING, REFUSALS, Asked, Outcome, compare, difference, enabled, planned, rows_of, watched
from tests.fuzz.values import GREATEST, literal, ticked, value
from tests.fuzz.world import WorldSpec
from tests.spark.garbage import copy_with_garbage
from tests.spark.tables import changed_settings, data_files, switched_off

Event = list[Any]
Oracles = Sequence[Callable[..., Outcome]]
FRAMES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "union": lambda frame: frame.union(frame),
    "self-join": lambda frame: frame.join(frame, frame.columns[:2], "left_semi"),
    "distinct": lambda frame: frame.distinct(),
    "cached": lambda frame: frame.cache(),
    "repartitioned": lambda frame: frame.repartition(2),
}
"""What a program does with the result of a query before it takes its rows."""
FLIPS = 100
"""Bits that are flipped, one by one, for one query."""
POINTS = 16


def draw_event(choices: Choices, world: WorldSpec) -> Event:
    """What happens around the next query; mostly nothing."""
    plain = [name for name, table in world.tables.items() if table.form == "plain" and table.partition is None]
    plain = [name for name in plain if world.tables[name].files and not world.tables[name].history]
    delta = [name for name, table in world.tables.items() if table.form == "delta"]
    laid = [name for name, table in world.tables.items() if table.form == "laid"]
    functions = world.functions.items()
    match world.theme:
        case "moments" if plain and choices.happens(0.9):
            name = choices.among(
                [plain[-1], *plain]
            )  # the last table is filtered: the others are read by what it holds
            return [
                "change",
                choices.among(("between", "between", "between", "between", "before")),
                name,
                _draw_change(choices, world, name),
            ]
        case "again" | "moments" | "queries" if delta and choices.happens(0.05 if world.theme == "queries" else 0.6):
            return ["again", choices.among(delta), 1 + choices.below(GREATEST)]
        case "flips":
            return ["flips", choices.below(1_000_000), FLIPS]
        case "writes" if laid and choices.happens(0.8):
            name = choices.among(laid)
            first = [number for file in world.tables[name].files for number in file[f"{name}_0"] if number is not None]
            where = f"{name}_0 = {choices.among(first or [0])}"
            verb = choices.among(("delete", "update", "delete", "update", "optimize"))
            return ["damaged", verb, name, where, choices.among(("noise", "noise", "gone")), choices.below(100)]
        case "names" if choices.happens(0.7):
            name = choices.among(list(world.tables))
            usable = [c for c, kind in world.tables[name].columns.items() if kind in ("int", "bigint", "date")]
            return ["must skip", name, choices.among([usable[-1], *usable]), choices.below(GREATEST)]
        case "functions" if choices.happens(0.9):
            # Mostly a lower number than before: more rows meet the condition than when the table was laid out.
            limits = {name: 1 + (number if choices.happens(0.8) else GREATEST) for name, (_, number) in functions}
            return ["functions", {name: choices.below(limit) for name, limit in limits.items()}]
    if choices.happens(0.05):
        return ["frame", choices.among(list(FRAMES))]
    return []


def _draw_change(choices: Choices, world: WorldSpec, name: str) -> list[Any]:
    """A file that is removed, added, or made of other rows of its table: filters and joins may now be true of it."""
    table = world.tables[name]
    number = choices.below(len(table.files))
    if choices.happens(0.1):
        return ["remove", number]
    pool = [dict(zip(file, row, strict=True)) for file in table.files for row in zip(*file.values(), strict=True)]
    rows = [choices.among(pool) for _ in range(choices.between(8, 16))] if pool else []
    # What was true of a row stays so, but for one column, which may be what is joined by: it gets values that the other
    # tables have. So a filter holds as before, and other rows have partners.
    new = _numbers_of_others(world, name)
    key = choices.among([column for column, kind in table.columns.items() if new.get(kind)] or list(table.columns))
    numbers = new.get(table.columns[key]) or list(range(GREATEST + 1))
    changed = {column: [row[column] for row in rows] for column in table.columns}
    changed[key] = [choices.among(numbers) if choices.happens(0.8) else number for number in changed[key]]
    return ["add", changed] if choices.happens(0.1) else ["rewrite", number, changed]


def _numbers_of_others(world: WorldSpec, name: str) -> dict[str, list[int]]:
    """What the columns of the other tables hold, by type."""
    held: dict[str, set[int]] = {}
    for other, table in world.tables.items():
        for column, kind in table.columns.items() if other != name else ():
            held.setdefault(kind, set()).update(n for file in table.files for n in file[column] if n is not None)
    return {kind: sorted(numbers) for kind, numbers in held.items()}


def run_event(asked: Asked, event: Event, settings: Mapping[str, str], more: Oracles) -> Outcome:
    """Ask a query with something happening around it."""
    match event:
        case ["change", when, name, step]:
            return _with_change(asked, when, name, step, settings)
        case ["flips", seed, count]:
            return _with_flips(asked, seed, count, settings)
        case ["again", name, shift]:
            return _with_table_made_again(asked, name, shift, settings)
        case ["damaged", verb, name, where, damage, place]:
            return _damaged_write(asked, verb, name, where, damage, place)
        case ["must skip", name, column, number]:
            return _must_skip(asked, name, column, number)
        case ["functions", numbers]:
            return _with_functions(asked, numbers, settings)
        case ["frame", form]:
            return _with_form(asked, form, settings)
        case _:
            return compare(asked, settings, more, meanwhile=NOTHING)


# ---- files that change


def _with_change(asked: Asked, when: str, name: str, step: Sequence[Any], settings: Mapping[str, str]) -> Outcome:
    table, root = asked.world.tables[name], asked.root / name
    saved: list[tuple[Path, Path]] = []
    added: list[Path] = []
    shutil.rmtree(asked.copy, ignore_errors=True)
    asked.copy.mkdir(parents=True)

    def change() -> None:
        match step:
            case ["add", file]:
                added.append(write_plain(table, root, len(table.files), file))
            case [verb, number, *rest]:
                path = plain_path(table, root, number, arrow_table(table.columns, table.files[number]))
                status = path.stat()
                saved.append((path, Path(shutil.copy2(path, asked.copy / path.name))))
                path.unlink()
                if verb == "rewrite":
                    write_plain(table, root, number, rest[0], size=status.st_size)
                    keep_time(path, status)
                    touch(path, 5)

    try:
        if when == "before":
            change()
            return compare(asked, settings)
        return compare(asked, settings, meanwhile=change)
    finally:
        for path in added:
            path.unlink()
        for path, copy in saved:
            shutil.copy2(copy, path)


# ---- an index with a wrong bit


def index_files(root: Path) -> list[Path]:
    """What queries read of an index."""
    return sorted(path for path in root.rglob("*") if path.is_file() and "_sidestep" in path.parts)


def _with_flips(asked: Asked, seed: int, count: int, settings: Mapping[str, str]) -> Outcome:
    """Many bits, each flipped by itself. What is decided is worked out without Spark, for this query and for plain ones
    that ask for values of the tables; where more is skipped than before, the query is run."""
    spark = asked.spark
    state, files = enabled(spark), index_files(asked.root)
    indexes = state.planner.indexes
    assert indexes is not None
    before = compare(asked, settings)
    if before.invalid or before.difference or not files:
        return before
    chance = random.Random(seed)
    plans: list[tuple[str, Query, set[tuple[str, str]]]] = []
    for text in [asked.query, *_point_queries(asked.world, chance)]:
        with watched(spark) as spy:
            planned(spark.sql(text))
        plans += [(text, query, _files_skipped(state.planner, query)) for query in spy.queries]
    for path in chance.choices(files, [path.stat().st_size for path in files], k=count):
        content = path.read_bytes()
        place, bit = chance.randrange(max(1, len(content))), chance.randrange(8)
        with _flipped(path, content, place, bit):
            indexes.close()
            found = before
            try:
                # Of an index that is found to be damaged nothing is skipped, and Spark need not be asked.
                text = next((text for text, query, old in plans if _files_skipped(state.planner, query) - old), "")
                if text:
                    found = compare(Asked(spark, asked.world, asked.root, text, asked.copy), {})
            except (ArithmeticError, LookupError, OSError, ValueError, TypeError, pa.ArrowException, SidestepError):
                continue  # the rule leaves such a query as it was
            finally:
                indexes.close()
                state.planner.last_problem = ""
        if found.difference and not found.difference.startswith("sidestep gave up"):
            return replace(found, difference=f"bit {bit} at {place} of {path.name}: {found.difference} ({text})")
    return before


def _point_queries(world: WorldSpec, chance: random.Random) -> list[str]:
    """Queries for values that tables hold."""
    queries = []
    for name, table in world.tables.items():
        for column, kind in table.columns.items():
            present = sorted({number for file in table.files for number in file[column] if number is not None})
            if kind in ("int", "bigint", "smallint", "date", "string", "decimal(9,2)") and present:
                queries += [
                    f"SELECT * FROM {name} WHERE {ticked(column)} = {literal(kind, number)}"
                    for number in chance.sample(present, min(4, len(present)))
                ]
    return chance.sample(queries, min(POINTS, len(queries)))


def _files_skipped(planner: Planner, query: Query) -> set[tuple[str, str]]:
    """The files that are skipped, each with the scan that would have read it."""
    return {
        (scan.scan.key, path)
        for scan in planner.decide(query).scans
        for path, skipped in zip(scan.index.index.files["path"].to_pylist(), scan.skipped_files, strict=True)
        if skipped
    }


@contextmanager
def _flipped(path: Path, content: bytes, place: int, bit: int) -> Iterator[None]:
    status = path.stat()
    try:
        changed = bytearray(content)
        if changed:
            changed[place] ^= 1 << bit
        path.write_bytes(changed)
        keep_time(path, status)
        yield
    finally:
        path.write_bytes(content)
        keep_time(path, status)


# ---- a table that is dropped and made again


def _with_table_made_again(asked: Asked, name: str, shift: int, settings: Mapping[str, str]) -> Outcome:
    """A Delta table of other rows at the same path and of the same version, while a plan of the old one is cached."""
    spark, table = asked.spark, asked.world.tables[name]
    path = asked.copy / name
    shutil.rmtree(asked.copy, ignore_errors=True)
    shutil.copytree(asked.root / name, path)
    versions = DeltaTable(str(path)).version() + 1
    old = frame_of(spark, table, path).cache()
    try:
        old.count()
        shutil.rmtree(path)
        for number in range(versions):
            file = table.files[number % len(table.files)] if table.files else {c: [] for c in table.columns}
            moved = {c: [None if n is None else (n + shift) % (GREATEST + 1) for n in ns] for c, ns in file.items()}
            write_deltalake(str(path), arrow_table(table.columns, moved), mode="append")
        with changed_settings(spark, settings):
            try:
                truth_of(spark, table, path).createOrReplaceTempView(name)
                with switched_off(spark):
                    expected = rows_of(spark.sql(asked.query))
            except REFUSALS:
                return Outcome(invalid=True)
            frame_of(spark, table, path).createOrReplaceTempView(name)
            with watched(spark) as spy:
                actual = rows_of(spark.sql(asked.query))
        if actual != expected:
            return Outcome(difference(expected, actual, "on, after the table was made again"), rows=len(expected))
        return spy.outcome(len(expected), "off", "made again")
    finally:
        old.unpersist()
        register_table(spark, name, table, asked.root)


# ---- writes that cannot read everything


def _damaged_write(asked: Asked, verb: str, name: str, where: str, damage: str, place: int) -> Outcome:
    """A write to a table of which something cannot be read: it fails, or no row is lost."""
    spark, table = asked.spark, asked.world.tables[name]
    shutil.rmtree(asked.copy, ignore_errors=True)
    path = asked.copy / name
    before = _rows_by_file(asked.root / name)
    if not before:
        return Outcome(invalid=True)
    victims = _behind_matches(asked.root / name, sorted(before), where) or [(each, 0) for each in sorted(before)]
    victim, group = victims[place % len(victims)]
    copy_with_garbage(str(asked.root / name), path, {victim: {group}} if damage == "noise" else {})
    if damage == "gone":
        (path / victim).unlink()
    setting = "ignoreCorruptFiles" if damage == "noise" else "ignoreMissingFiles"
    deleted = 0
    with changed_settings(spark, {f"spark.sql.files.{setting}": "true"}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            match verb:
                case "delete":
                    deleted = sidestep.delete(spark, str(path), where).rows
                case "update":
                    column = next(iter(table.columns))
                    sidestep.update(spark, str(path), {column: f"{column} + 1"}, where)
                case _:
                    sidestep.optimize(spark, str(path))
        except (*REFUSALS, SidestepError, OSError, ValueError):
            deleted = 0
    rows, left = sum(before.values()), sum(_rows_by_file(path).values())
    if left != rows - deleted:
        return Outcome(f"{verb} under {setting}: {rows} rows before, {deleted} deleted, {left} left", rows=rows)
    return Outcome(rows=rows, oracles=("rows counted",))


def _behind_matches(root: Path, files: Sequence[str], where: str) -> list[tuple[str, int]]:
    """Row groups that come after a row which is sought: who passes over damage has met that row, and loses these."""
    column, _, number = where.partition(" = ")
    behind = []
    for name in files:
        file = pq.ParquetFile(root / name)
        values = [file.read_row_group(at, [column])[0].to_pylist() for at in range(file.num_row_groups)]
        first = next((at for at, group in enumerate(values) if int(number) in group), len(values))
        behind += [(name, at) for at in range(first + 1, len(values))]
    return behind


def _rows_by_file(path: Path) -> dict[str, int]:
    """The rows of each file of a Delta table as its log has them."""
    actions = pa.table(DeltaTable(str(path)).get_add_actions(flatten=True))
    return dict(zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True))


# ---- files that have to be skipped


def _must_skip(asked: Asked, name: str, column: str, number: int) -> Outcome:
    """A plain condition must skip each file whose values lie beside it: an index that does nothing is wrong too."""
    spark, table = asked.spark, asked.world.tables[name]
    query = f"SELECT * FROM {name} WHERE {ticked(column)} = {literal(table.columns[column], number)}"
    outcome = compare(Asked(spark, asked.world, asked.root, query, asked.copy), {})
    if outcome.difference or outcome.invalid or table.form != "plain" or table.history or table.indexed is not None:
        return outcome
    sought = value(table.columns[column], number)
    needed = 0
    for path in data_files(asked.root / name):
        values = [each for each in pq.ParquetFile(path).read()[column].to_pylist() if each is not None]
        needed += bool(values) and min(values) <= sought <= max(values)
    frame = spark.sql(query)
    frame.collect()
    read = len(read_files(frame))
    if read > needed:
        return Outcome(f"reads {read} files of {len(table.files)}, of which {needed} can hold the value: {query}")
    return outcome


# ---- functions whose files change


def _with_functions(asked: Asked, numbers: Mapping[str, int], settings: Mapping[str, str]) -> Outcome:
    for name, number in numbers.items():
        write_number(asked.root / "functions" / name, number)
    try:
        return compare(asked, settings)
    finally:
        for name, (_, number) in asked.world.functions.items():
            write_number(asked.root / "functions" / name, number)


# ---- DataFrames made of a query


def _with_form(asked: Asked, form: str, settings: Mapping[str, str]) -> Outcome:
    try:
        return compare(asked, settings, form=FRAMES[form])
    finally:
        asked.spark.catalog.clearCache()
