"""One write cut short at one point: what must hold then, whatever the point and the fault."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sidestep.errors import SidestepError
from sidestep.predicate import LONG, Column, IntervalSet, Within, column, compare, normalize
from sidestep.store import locate, open_index, read_snapshot
from sidestep.store.sidecars.column_groups import COLUMN_GROUPS, MARKER, ROW_ID
from sidestep.store.sidecars.group_layouts import GROUP_LAYOUTS
from sidestep.store.sidecars.layout import LAYOUTS
from sidestep.store.sidecars.range_tables import named_range_tables
from sidestep.store.snapshots.delta import read_delta
from sidestep.store.snapshots.groups import inner_table
from sidestep.store.upkeep.false_positives import ESTIMATES
from sidestep.store.upkeep.vacuum import vacuum
from sidestep.synopsis import kept_blocks
from tests.faults.disk import Disk, Fault, Killed, Point, mounted
from tests.faults.writes import COLUMNS, Rows, Write, contents, in_groups, version
from tests.spark.grouped import files_of, whole_rows

_LOG = re.compile(r"_delta_log/(\d{20}\.(json|checkpoint\.parquet)|_last_checkpoint)")


@dataclass
class Tally:
    """How often each fault was tried on each write, and what went wrong."""

    tried: dict[tuple[str, str], int] = field(default_factory=dict)
    survived: dict[tuple[str, str], int] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def count(self, write: str, fault: str, problem: str | None) -> None:
        key = (write, fault)
        self.tried[key] = self.tried.get(key, 0) + 1
        self.survived[key] = self.survived.get(key, 0) + (problem is None)
        if problem is not None:
            self.wrong.append(problem)

    def to_dict(self) -> dict[str, object]:
        """All of it as plain data."""
        cells = [
            {"write": write, "fault": fault, "tried": tried, "survived": self.survived[write, fault]}
            for (write, fault), tried in self.tried.items()
        ]
        return {
            "tried": sum(self.tried.values()),
            "survived": sum(self.survived.values()),
            "points": self.points,
            "cells": cells,
            "wrong": self.wrong,
        }

    def __str__(self) -> str:
        faults = list(dict.fromkeys(fault for _, fault in self.tried))
        lines = ["| write | " + " | ".join(faults) + " |", "|---" * (len(faults) + 1) + "|"]
        for write in dict.fromkeys(write for write, _ in self.tried):
            cells = [
                f"{self.survived[write, fault]} / {self.tried[write, fault]}" if (write, fault) in self.tried else "–"
                for fault in faults
            ]
            lines.append(f"| {write} | " + " | ".join(cells) + " |")
        return "\n".join(lines)


@dataclass(frozen=True)
class Prepared:
    """A write with the table that it begins with, and what it makes of it."""

    write: Write
    template: Path
    version: int | None
    before: Rows | None
    after: Rows | None
    twice: Rows | None
    points: tuple[Point, ...]


class Broken(AssertionError):
    """Something that must hold does not."""


def prepare(write: Write, folder: Path) -> Prepared:
    """Make the table, and run the write undisturbed: once to see what it does, and once more after itself."""
    template = folder / "template"
    write.prepare(template)
    copy = _copy(template, folder / "undisturbed")
    with mounted(Disk(copy)) as disk:
        write(copy)
    after = contents(copy)
    found = version(template)
    if not write.creates:
        write(copy)
    return Prepared(write, template, found, contents(template), after, contents(copy), tuple(disk.points))


def sweep(
    prepared: Prepared,
    folder: Path,
    tally: Tally,
    faults: Sequence[Fault] = tuple(Fault),
    chosen: Callable[[int], bool] = lambda number: True,
) -> None:
    """Every fault that can happen at every point."""
    tally.points[prepared.write.name] = len(prepared.points)
    for number, point in enumerate(prepared.points):
        for fault in faults:
            if not fault.concerns(point.kind) or not chosen(number):
                continue
            problem = _try(prepared, folder, fault, number)
            if problem is not None:
                kind, path = point.kind, Path(point.path).name
                problem = f"{prepared.write.name}, {fault.value} at {number} ({kind} {path}): {problem}"
            tally.count(prepared.write.name, fault.value, problem)


def _try(prepared: Prepared, folder: Path, fault: Fault, number: int) -> str | None:
    root = _copy(prepared.template, folder / "tried")
    try:
        cut_short(prepared, root, fault, number)
    except Broken as problem:
        return str(problem)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    finally:
        shutil.rmtree(root)
    return None


def cut_short(prepared: Prepared, root: Path, fault: Fault, number: int) -> None:
    """Run the write on a copy with a fault at one point, and then see that all is well."""
    with mounted(Disk(root, fault=fault, at=number)):
        outcome: BaseException | None = None
        try:
            prepared.write(root)
        except (Killed, Exception) as problem:
            outcome = problem
    check_after(prepared, root, outcome)


def check_after(prepared: Prepared, root: Path, outcome: BaseException | None) -> None:
    """The old version or the new; an error means the old; a rerun does it; and vacuum leaves nothing else."""
    if outcome is not None and not isinstance(outcome, Killed | SidestepError):
        raise Broken(f"the error is none of sidestep's own: {outcome!r}")
    found = contents(root)
    committed = version(root) != prepared.version
    if found != (prepared.after if committed else prepared.before):
        raise Broken(f"rows are neither as before nor as after (version {version(root)})")
    if isinstance(outcome, SidestepError) and committed:
        raise Broken(f"it says that it failed, and it is committed: {outcome}")
    if outcome is None and found != prepared.after:
        raise Broken("it says that it succeeded, and it did not")
    check_index(root)
    if not (prepared.write.creates and committed):
        prepared.write(root)
        expected = prepared.twice if committed else prepared.after
        if contents(root) != expected:
            raise Broken("after a second run, rows are not as they should be")
    check_index(root)
    if (root / "_delta_log").exists() or in_groups(root):
        expected = contents(root)
        vacuum(root, hours=0, force=True)
        left = sorted(set(leftovers(root)))
        if left:
            raise Broken(f"vacuum left {left}")
        if contents(root) != expected:
            raise Broken("vacuum changed the rows")
        check_index(root)


def check_index(root: Path) -> None:
    """Whatever the index says of the files of the table is so, those of column groups that lack the column included."""
    grouped = in_groups(root)
    try:
        snapshot = read_delta(inner_table(locate(root))) if grouped else read_snapshot(root)
    except SidestepError:
        return  # no table yet
    index = open_index(snapshot.root)
    positions = index.positions(snapshot.files).tolist()
    catalog = index.catalog(COLUMNS)
    if grouped:
        rows = whole_rows(root)
        values = {path: [rows[part[ROW_ID]]["x"] for part in parts] for path, (_, parts) in files_of(root).items()}
    else:
        values = {
            path: pq.read_table(root / path, columns=["x"])["x"].to_pylist()
            for path in {file.path for file in snapshot.files}
        }
    for value in sorted({x for each in values.values() for x in each})[::3]:
        wanted = Within(Column("x", LONG), IntervalSet.points(LONG, [value]))
        kept = catalog.files_kept(kept_blocks(catalog, wanted))
        for file, position in zip(snapshot.files, positions, strict=True):
            if value in values[file.path] and position >= 0 and not kept[position]:
                raise Broken(f"the index skips {file.path}, which holds x = {value}")
    late = catalog.files_kept(kept_blocks(catalog, normalize(compare(column("x", LONG), ">=", 20))))
    for file, position in zip(snapshot.files, positions, strict=True):
        if position >= 0 and max(values[file.path], default=0) >= 20 and not late[position]:
            raise Broken(f"the index skips {file.path}, which has rows of the feature")
        blocks = np.flatnonzero(catalog.file_of_block == position)
        if position >= 0 and int(catalog.rows[blocks].sum()) != len(values[file.path]):
            raise Broken(f"the index has other rows than {file.path}")


def leftovers(root: Path) -> Iterator[str]:
    """Files that neither the newest version of a Delta table nor its index needs."""
    grouped = in_groups(root)
    snapshot = read_delta(inner_table(locate(root))) if grouped else read_snapshot(root)
    root, index = Path(snapshot.root.path), open_index(snapshot.root)
    live = {file.path for file in snapshot.files}
    used = {f"_sidestep/{file.location.name}" for file in index.index_files}
    used |= {f"_sidestep/{name}" for kind in (LAYOUTS, ESTIMATES) for name in kind.names(index.folder)[-1:]}
    named = {id for id in index.features_of_block.to_pylist() if id is not None}
    named |= {spec.features for spec in [LAYOUTS.load(index.folder)] if spec is not None and spec.features}
    if grouped:
        used |= {f"_sidestep/{name}" for kind in (COLUMN_GROUPS, GROUP_LAYOUTS) for name in kind.names(index.folder)}
        layouts = GROUP_LAYOUTS.load(index.folder)
        named |= {spec.features for spec in ([] if layouts is None else layouts.layouts) if spec.features}
    used |= {f"_sidestep/_features-{id}.json" for id in named}
    for file in index.index_files:
        columns = [name for name in file.names if name.startswith("grttable:")]
        used |= {f"_sidestep/_grt-{one}.json" for one in named_range_tables(file.read(columns))}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and name not in live | used and not _LOG.fullmatch(name) and path.name != MARKER:
            yield name
    yield from (f"the entry of {path}" for path in index.files["path"].to_pylist() if path not in live)


def _copy(template: Path, target: Path) -> Path:
    if target.exists():
        shutil.rmtree(target)
    return shutil.copytree(template, target)
