"""What becomes of an index: files merged into one, entries dropped, many writers at once, and how large it grows."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.predicate.formula import Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import (
    LONG,
    STRING,
    DataType,
)
from sidestep.store import (
    append_blocks,
    compact,
    index_folder,
    locate,
    open_index,
    read_snapshot,
    status,
    update_index,
)
from sidestep.store.parquet.blocks import KEYS
from sidestep.synopsis.skip import kept_blocks
from tests.store.tables import index_rows, kept, write_parquet
from tests.work import counted_work


def test_many_files_are_compacted_into_one(table: Path) -> None:
    folder = index_folder(locate(table))
    rows = index_rows(table, {"x": LONG})
    for _ in range(9):
        append_blocks(folder, rows, {"x": LONG})
    append_blocks(folder, index_rows(table, {"s": STRING}), {"s": STRING})
    old = open_index(table)
    assert len(old.index_files) == 10
    index = compact(old, read_snapshot(table))
    assert (len(index.index_files), index.map.blocks, len(os.listdir(table / "_sidestep"))) == (1, 6, 1)
    assert kept(index, "x", LONG, 25) == [("f1", 0)]
    assert kept(index, "s", STRING, "v025") == [("f1", 0)]
    assert kept(old, "x", LONG, 25) == [("f1", 0)], "an old view still answers"


def test_dead_entries_are_dropped_when_they_are_half(table: Path) -> None:
    update_index(read_snapshot(table), {"x": LONG})
    for number in (0, 1):
        (table / f"f{number}").unlink()
    index = update_index(read_snapshot(table), {"x": LONG})
    assert index.files["path"].to_pylist() == ["f2"]
    (table / "f2").unlink()
    write_parquet(table / "f3", {"x": [7]})
    index = update_index(read_snapshot(table), {"x": LONG})
    assert "f3" in index.files["path"].to_pylist()


def test_an_older_version_or_a_single_file_drops_nothing(table: Path) -> None:
    update_index(read_snapshot(table), {"x": LONG})
    index = update_index(read_snapshot(table / "f1"), {"x": LONG})
    assert len(index.files) == 3
    assert status(table / "f1").stale_files == 0
    assert compact(index, read_snapshot(table / "f1"), always=True).map.blocks == 6


def test_columns_that_were_never_indexed_for_a_file_are_missing_after_a_merge(table: Path) -> None:
    update_index(read_snapshot(table), {"x": LONG})
    write_parquet(table / "f9", {"x": [5], "s": ["w"], "odd": [[1]]})
    columns: dict[str, DataType] = {"s": STRING, "odd": LONG}
    update_index(read_snapshot(table), columns)
    index = compact(open_index(table), read_snapshot(table), always=True)
    assert index.covered({"x": LONG}).tolist() == [True, True, True, False]
    assert index.covered(columns).all(), "should not look again at what cannot be known"
    again = update_index(read_snapshot(table), {"x": LONG} | columns)
    assert again.covered({"x": LONG} | columns).all()
    assert kept(again, "x", LONG, 5) == [("f0", 0), ("f9", 0)]


def test_an_append_during_a_compaction_survives(table: Path) -> None:
    folder = index_folder(locate(table))
    rows = index_rows(table, {"x": LONG})
    append_blocks(folder, rows[:1], {"x": LONG})
    append_blocks(folder, rows[1:2], {"x": LONG})
    old = open_index(table)
    append_blocks(folder, rows[2:], {"x": LONG})
    index = compact(old, read_snapshot(table), always=True)
    assert sorted(index.files["path"].to_pylist()) == ["f0", "f1", "f2"]
    assert len(index.index_files) == 2


def test_threads_share_a_view(table: Path) -> None:
    index = update_index(read_snapshot(table), {"x": LONG, "s": STRING})
    wrong: list[object] = []

    def ask() -> None:
        for _ in range(20):
            if kept(index, "x", LONG, 25) != [("f1", 0)] or kept(index.refreshed(), "s", STRING, "v025") != [("f1", 0)]:
                wrong.append(index)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_concurrent_writers_never_lose_an_entry(table: Path) -> None:
    rows = index_rows(table, {"x": LONG})
    folder = index_folder(locate(table))
    snapshot = read_snapshot(table)
    failed: list[BaseException] = []

    def write(each: pa.Table) -> None:
        try:
            for _ in range(10):
                append_blocks(folder, [each], {"x": LONG})
                compact(open_index(table), snapshot, always=True)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(each,)) for each in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert sorted(open_index(table).files["path"].to_pylist()) == ["f0", "f1", "f2"]


def random_files(draw: st.DrawFn) -> Iterator[list[int | None]]:
    for _ in range(draw(st.integers(1, 4))):
        yield draw(st.lists(st.none() | st.integers(-5, 5), max_size=6))


@st.composite
def histories(draw: st.DrawFn) -> list[list[list[int | None]]]:
    """Runs of files; each run rewrites files by position."""
    return [list(random_files(draw)) for _ in range(draw(st.integers(1, 4)))]


@settings(max_examples=60)
@given(histories(), st.integers(-6, 6), st.booleans())
def test_whatever_the_history_no_block_with_the_value_is_skipped(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[list[int | None]]], value: int, merge: bool
) -> None:
    root = tmp_path_factory.mktemp("t")
    for age, run in enumerate(history):
        for number, column in enumerate(run):
            data = {"x": pa.array(column, pa.int64())}
            write_parquet(root / f"f{number}", data, row_group_size=2, age=100 - age)
        index = update_index(read_snapshot(root), {"x": LONG})
    if merge:
        index = compact(index, read_snapshot(root), always=True)
    snapshot = read_snapshot(root)
    positions = index.positions(snapshot.files)
    assert positions.min() >= 0
    catalog = index.catalog({"x": LONG})
    mask = kept_blocks(catalog, Within(Column("x", LONG), IntervalSet.points(LONG, [value])))
    for file, position in zip(snapshot.files, positions, strict=True):
        column = pq.read_table(root / file.path)["x"].to_pylist()
        blocks = np.flatnonzero(catalog.file_of_block == position)
        assert catalog.rows[blocks].sum() == len(column)
        for group, block in enumerate(blocks):
            if value in column[group * 2 : group * 2 + 2]:
                assert mask[block], "should keep: the value is in the block"


def test_an_index_is_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    blocks, columns = 1_000, 16
    table = pa.table(
        {
            "path": [f"part-{i // 4:05d}-9f1c2b7e-c000.snappy.parquet" for i in range(blocks)],
            "size": pa.array(np.repeat(rng.integers(10**8, 2 * 10**8, blocks // 4), 4)),
            "modified": pa.array(np.repeat(1_700_000_000_000 + np.arange(blocks // 4) * 977, 4)),
            "row_group": pa.array(np.tile(np.arange(4), blocks // 4), pa.int32()),
            "rows": pa.array(np.full(blocks, 1_000_000)),
            "bytes": pa.array(rng.integers(10**7, 4 * 10**7, blocks)),
        }
    ).cast(KEYS)
    types: dict[str, DataType] = {}
    for number in range(columns):
        name = f"c{number}"
        low = rng.integers(0, 10**12, blocks)
        if number % 4 == 3:
            types[name] = STRING
            ends = [pa.array([f"{value:020x}".encode() for value in each], pa.binary()) for each in (low, low + 10**9)]
        else:
            types[name] = LONG
            ends = [pa.array(low), pa.array(low + rng.integers(0, 10**9, blocks))]
        table = table.append_column(f"lower:{name}", ends[0]).append_column(f"upper:{name}", ends[1])
        table = table.append_column(f"nulls:{name}", pa.array(np.zeros(blocks, dtype=np.int64)))
    (location,) = append_blocks(index_folder(locate(tmp_path)), [table], types)
    size = os.stat(location.path).st_size
    print(f"{columns} columns × {blocks} blocks: {size} bytes")
    assert size < 300_000


def test_a_hundred_thousand_files_are_not_opened_one_by_one(tmp_path: Path) -> None:
    files = 100_000
    numbers = np.arange(files)
    table = pa.table(
        {
            "path": [f"day={i % 365:03d}/part-{i:06d}-c000.parquet" for i in range(files)],
            "size": pa.array(numbers + 10**6),
            "modified": pa.array(numbers + 1_700_000_000_000),
            "row_group": pa.array(np.zeros(files), pa.int32()),
            "rows": pa.array(np.full(files, 1_000)),
            "bytes": pa.array(np.full(files, 10**6)),
            "lower:x": pa.array(numbers),
            "upper:x": pa.array(numbers),
            "nulls:x": pa.array(np.zeros(files, dtype=np.int64)),
        }
    )
    table = table.cast(pa.schema([*KEYS, *list(table.schema)[6:]]))
    for part in (table.slice(0, 60_000), table.slice(40_000)):
        append_blocks(index_folder(locate(tmp_path)), [part], {"x": LONG})
    with counted_work() as work:
        index = open_index(tmp_path)
        index.catalog({"x": LONG})
    assert len(index.files) == files
    assert work.calls < files // 10


def test_many_small_files_are_indexed_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidestep.store.upkeep.update._BATCH", 3)
    for number in range(8):
        write_parquet(tmp_path / f"f{number}", {"x": [number]} if number % 5 else {"y": ["s"]})
    index = update_index(read_snapshot(tmp_path), {"x": LONG, "y": STRING})
    assert len(index.files) == 8
    assert len(index.index_files) == 1
    assert kept(index, "x", LONG, 6) == [("f6", 0)]
    assert kept(index, "y", STRING, "s") == [("f0", 0), ("f5", 0)]
