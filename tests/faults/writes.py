"""The writes of sidestep without Spark: the same steps from the newest version to the commit, on rows at hand.

``write_blocks`` is what Spark's workers run; with ``open_table`` and ``commit_files`` every write on Spark begins and
ends. Only what Spark itself does in between, reading and sorting rows, is done by pyarrow here. So a write takes a few
milliseconds, and can be cut short at every point that it has.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sidestep.errors import SidestepWarning, TableNotFound
from sidestep.layout.placement import FilePlan
from sidestep.predicate import LONG, STRING, DataType, column, compare
from sidestep.spark.organize.featurize import CheckedFeatures
from sidestep.spark.progress import Watch
from sidestep.spark.table.load import _check_target
from sidestep.spark.table.state import TableState, commit_files, committed, open_table, table_state
from sidestep.store import Snapshot, locate, open_index, read_snapshot, update_index
from sidestep.store.commit.log_entry import begin_log
from sidestep.store.commit.transaction import AddedFile
from sidestep.store.parquet.writer import FILE, GROUP, WrittenFile, write_blocks
from sidestep.store.sidecars.layout import LayoutSpec
from sidestep.store.snapshot import DataFile
from sidestep.store.snapshots.delta import read_delta
from sidestep.store.snapshots.groups import has_groups, inner_table
from sidestep.store.upkeep import compact
from sidestep.store.upkeep.false_positives import remember_keeping
from sidestep.store.upkeep.update import plan_synopses
from sidestep.store.upkeep.vacuum import vacuum
from sidestep.synopsis.recipe import parse_recipes
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.grouped import parts_of

Rows = tuple[tuple[Any, ...], ...]
COLUMNS: dict[str, DataType] = {"x": LONG, "v": LONG, "s": STRING}
SCHEMA = StructType([StructField("x", LongType()), StructField("v", LongType()), StructField("s", StringType())])
ARROW = pa.schema([("x", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
LATE = Feature((compare(column("x", LONG), ">=", 20),))
CHECKED = CheckedFeatures(FeatureSet("t", (LATE,)), ("x >= 20",))
SPEC = LayoutSpec(min_size=4, features=CHECKED.features.id)
RECIPES = parse_recipes("x=range-set:4+values:64,v=grt:8,s=bloom:64", COLUMNS)
RATES = {"x": 0.5, "v": 0.5, "s": 0.5}
_NO_SPARK = cast(SparkSession, SimpleNamespace(version="4.3.0"))


class _Untimed:
    @contextmanager
    def stage(self, *_: object, **__: object):
        yield


WATCH = cast(Watch, _Untimed())


def rows_from(first: int, count: int) -> pa.Table:
    """Rows with ids of their own."""
    ids = range(first, first + count)
    return pa.table({"x": [*ids], "v": [i * 7 % 5 for i in ids], "s": [f"s{i * 3 % 7}" for i in ids]}, ARROW)


def contents(root: Path) -> Rows | None:
    """All rows of a table as another reader of Delta sees them, or of a folder of files; None if there is no table."""
    if in_groups(root):
        if version(root) is None:
            return None
        table = pa.Table.from_pylist(parts_of(root), schema=ARROW)
    elif (root / "_delta_log").exists():
        if version(root) is None:
            return None
        table = DeltaTable(str(root)).to_pyarrow_table(columns=ARROW.names)
    elif files := sorted(root.glob("*.parquet")):
        table = pa.concat_tables([pq.read_table(path, columns=ARROW.names) for path in files])
    else:
        return None
    return tuple(sorted(zip(*(table[name].to_pylist() for name in ARROW.names), strict=True)))


def version(root: Path) -> int | None:
    """The newest version of a Delta table."""
    try:
        if in_groups(root):
            return read_delta(inner_table(locate(root))).version
        return read_snapshot(root).version
    except TableNotFound:
        return None


def in_groups(root: Path) -> bool:
    """Whether a table is in column groups."""
    return has_groups(locate(root))


def write_files(state: TableState, *tables: pa.Table, unit: str | None = None) -> list[WrittenFile]:
    """Block files of some rows, one for each table."""
    plans = [FilePlan(state.reserve(256) + 64 * number, unit) for number in range(len(tables))]
    batches = []
    for number, table in enumerate(tables):
        late = np.asarray(table["x"].to_numpy() >= 20, np.int64)
        whole = table.append_column(FILE, pa.array([number] * len(table), pa.int32()))
        whole = whole.append_column(GROUP, pa.array([0] * len(table), pa.int32()))
        whole = whole.append_column(state.target.words[0], pa.array(late))
        batches += whole.combine_chunks().to_batches()
    return list(write_blocks(batches, state.target, plans))


def added(file: WrittenFile) -> AddedFile:
    """A file as a commit is told of it."""
    return AddedFile(file.path, file.size, file.modified, file.partition, file.stats, file.rows)


def rows_of(root: Path, files: Sequence[DataFile]) -> list[pa.Table]:
    return [pq.read_table(root / file.path, columns=ARROW.names) for file in files]


def create(root: Path, *tables: pa.Table) -> None:
    """A table laid out where there is none."""
    location = locate(root)
    _check_target(location.parent, location)
    index = open_index(location)
    begin_log(location)
    snapshot = Snapshot(location, "delta", None, (), (), SCHEMA.json())
    making = plan_synopses(index, COLUMNS, RECIPES)
    state = table_state(_NO_SPARK, snapshot, index, SCHEMA, SPEC, CHECKED, making)
    _commit(state, write_files(state, *tables, unit="all"), (), "CREATE TABLE AS SELECT", True, laid_out=True)


def _open(root: Path) -> TableState:
    return open_table(_NO_SPARK, locate(root), checked=CHECKED)


def _commit(
    state: TableState,
    written: Sequence[WrittenFile],
    remove: Sequence[DataFile],
    operation: str,
    data_change: bool,
    laid_out: bool = False,
    deleted: int = 0,
) -> None:
    done = commit_files(
        state,
        written,
        remove,
        source=state.only(remove) if remove else None,
        deleted=deleted,
        operation=operation,
        data_change=data_change,
        watch=WATCH,
        layout=state.spec if laid_out else None,
        rates=RATES if laid_out else None,
    )
    if laid_out:
        with committed(state, done.version, "what its synopses keep could not be noted"):
            remember_keeping(done.index, [file.data_file for file in written])


def append(root: Path, table: pa.Table, operation: str = "WRITE") -> None:
    state = _open(root)
    _commit(state, write_files(state, table), (), operation, True)


def delete(root: Path, doomed: Callable[[int], bool], operation: str = "DELETE") -> None:
    """Write the files anew that hold rows with such ids, without those."""
    state = _open(root)
    touched = [
        (file, table)
        for file, table in zip(state.snapshot.files, rows_of(root, state.snapshot.files), strict=True)
        if any(map(doomed, table["x"].to_pylist()))
    ]
    kept = [table.filter(pa.array([not doomed(x) for x in table["x"].to_pylist()])) for _, table in touched]
    written = write_files(state, *(table for table in kept if len(table)))
    if touched:
        deleted = sum(len(table) for _, table in touched) - sum(map(len, kept))
        _commit(state, written, [file for file, _ in touched], operation, True, deleted=deleted)


def update(root: Path, value: int, chosen: Callable[[int], bool], operation: str = "UPDATE") -> None:
    """Set ``v`` in the rows with such ids."""
    state = _open(root)
    removed, changed = [], []
    for file, table in zip(state.snapshot.files, rows_of(root, state.snapshot.files), strict=True):
        ids, values = table["x"].to_pylist(), table["v"].to_pylist()
        if any(map(chosen, ids)):
            new = [value if chosen(x) else v for x, v in zip(ids, values, strict=True)]
            removed.append(file)
            changed.append(table.set_column(1, "v", pa.array(new, pa.int64())))
    if removed:
        _commit(state, write_files(state, *changed), removed, operation, True)


def optimize(root: Path, operation: str = "OPTIMIZE") -> None:
    """All rows into one file, in order."""
    state = _open(root)
    if not state.snapshot.files:
        return
    together = pa.concat_tables(rows_of(root, state.snapshot.files)).sort_by("x")
    written = write_files(state, together, unit="all")
    _commit(state, written, state.snapshot.files, operation, False, laid_out=True)


def index(root: Path, recipes: str | None = None) -> None:
    """What is not indexed yet; with recipes, all files anew where they lack them."""
    snapshot = read_snapshot(root)
    update_index(snapshot, COLUMNS, recipes=None if recipes is None else parse_recipes(recipes, COLUMNS))


def clean(root: Path) -> None:
    vacuum(root, hours=0, force=True)


# ---- what the sweep runs


@dataclass(frozen=True)
class Write:
    """A write, and the table that it begins with."""

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Path], None]
    merges: bool = False
    """Whether index files are merged at once, not only when there are many."""
    creates: bool = False
    """Whether there must be no table before."""

    def __call__(self, root: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SidestepWarning)
            if not self.merges:
                self.run(root)
                return
            with patch.object(compact, "MOST_FILES", 0):
                self.run(root)


def _nothing(root: Path) -> None:
    root.mkdir()


def _laid_out(root: Path) -> None:
    create(root, rows_from(0, 10), rows_from(10, 10))
    append(root, rows_from(20, 10))


def _lived(root: Path) -> None:
    _laid_out(root)
    delete(root, lambda x: x in (3, 25))
    append(root, rows_from(40, 5))


def _foreign(root: Path) -> None:
    for first in (0, 10):
        write_deltalake(str(root), rows_from(first, 10), mode="append")


def _with_checkpoints(root: Path) -> None:
    write_deltalake(str(root), rows_from(0, 10), configuration={"delta.checkpointInterval": "1"})
    append(root, rows_from(20, 10))


def _partly_foreign(root: Path) -> None:
    _laid_out(root)
    write_deltalake(str(root), rows_from(60, 8), mode="append", schema_mode="merge")


def _folder(root: Path) -> None:
    root.mkdir()
    for number in range(3):
        path = root / f"f{number}.parquet"
        pq.write_table(rows_from(number * 10, 10), path, row_group_size=4)
        _settle(path)


def _partly_indexed(root: Path) -> None:
    _folder(root)
    index(root)
    path = root / "f3.parquet"
    pq.write_table(rows_from(30, 10), path)
    _settle(path)


def _settle(path: Path) -> None:
    moment = path.stat().st_mtime_ns // 10**9 * 10**9 - 10 * 10**9 + 123_456_789
    os.utime(path, ns=(moment, moment))


def _littered(root: Path) -> None:
    """Dead files, dead entries, a second layout and a killed writer's leavings."""
    _lived(root)
    optimize(root)
    state = _open(root)
    write_files(state, rows_from(90, 5))
    (root / "_delta_log" / f".{9:020d}.json.{'0' * 32}.partial").write_text("{}")
    (root / "_sidestep" / f"._index-{9:08d}-{'1' * 32}.sidestep.{'0' * 32}.partial").write_bytes(b"PAR1")


def _even(x: int) -> bool:
    return x % 2 == 0


WRITES = (
    Write(
        "load into a new table", _nothing, lambda root: create(root, rows_from(0, 10), rows_from(10, 10)), creates=True
    ),
    Write("load in place", _lived, optimize),
    Write("append", _laid_out, lambda root: append(root, rows_from(30, 10))),
    Write("append, merging the index", _lived, lambda root: append(root, rows_from(70, 10)), merges=True),
    Write("append, with a checkpoint", _with_checkpoints, lambda root: append(root, rows_from(30, 10))),
    Write("append to a foreign table", _foreign, lambda root: append(root, rows_from(30, 10))),
    Write("delete", _laid_out, lambda root: delete(root, _even)),
    Write("delete, merging the index", _lived, lambda root: delete(root, lambda x: x < 15), merges=True),
    Write("update", _laid_out, lambda root: update(root, 99, _even)),
    Write("optimize", _partly_foreign, optimize, merges=True),
    Write("index a Delta table", _partly_foreign, index),
    Write("index with other synopses", _partly_foreign, lambda root: index(root, "x=grt:8,v=range-set:2"), merges=True),
    Write("index a folder", _folder, index),
    Write("index a folder again", _partly_indexed, lambda root: index(root, "x=bloom:64"), merges=True),
    Write("vacuum", _littered, clean),
)
