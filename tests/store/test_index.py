from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.predicate.formula import Null, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    decimal_type,
)
from sidestep.store import (
    DataFile,
    Snapshot,
    TableIndex,
    append_blocks,
    block_summaries,
    compact,
    index_folder,
    locate,
    open_index,
    read_snapshot,
    status,
    update_index,
)
from sidestep.store import index as index_module
from sidestep.store.blocks import KEYS
from sidestep.store.indexfile import open_index_file
from sidestep.synopsis.skip import kept_blocks
from tests.store.tables import set_age, write_parquet


@pytest.fixture(autouse=True)
def fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_told", set())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three files of two blocks each: x is 0..9, 10..19, and so on."""
    root = tmp_path / "t"
    for number in range(3):
        first = number * 20
        data = {"x": range(first, first + 20), "s": [f"v{i:03d}" for i in range(first, first + 20)]}
        write_parquet(root / f"f{number}", data, row_group_size=10)
    return root


def index_rows(root: Path, columns: dict[str, DataType]) -> list[pa.Table]:
    snapshot = read_snapshot(root)
    found = [block_summaries(snapshot.root, file, columns) for file in snapshot.files]
    return [each for each in found if each is not None]


def kept(index: TableIndex, column: str, type: DataType, *values: Any) -> list[tuple[str, int]]:
    """The blocks that may hold one of the values, as (path, row group)."""
    ranges = IntervalSet.points(type, values)
    mask = kept_blocks(index.catalog({column: type}), Within(Column(column, type), ranges))
    paths = index.files["path"].to_pylist()
    files, groups = index.map.file_of_block[mask], index.map.row_group[mask]
    return sorted((paths[file], int(group)) for file, group in zip(files, groups, strict=True))


def test_indexed_blocks_are_skipped(table: Path) -> None:
    index = update_index(read_snapshot(table), {"x": LONG, "s": STRING})
    assert kept(index, "x", LONG, 25) == [("f1", 0)]
    assert kept(index, "s", STRING, "v019", "v050") == [("f0", 1), ("f2", 1)]
    assert kept(index, "x", LONG, 99) == []
    assert [tuple(row.values()) for row in index.files.to_pylist()] == [f.key for f in read_snapshot(table).files]


def test_a_table_that_was_never_indexed_has_an_empty_index(table: Path) -> None:
    index = open_index(table)
    assert (len(index.files), index.catalog({"x": LONG}).blocks, index.columns) == (0, 0, {})
    assert index.positions(read_snapshot(table).files).tolist() == [-1, -1, -1]
    assert status(table).indexed_files == 0


def test_index_files_are_hidden_from_spark_and_say_what_they_are(table: Path) -> None:
    update_index(read_snapshot(table), {"x": LONG})
    (path,) = (table / "_sidestep").iterdir()
    assert [file.path for file in read_snapshot(table).files] == ["f0", "f1", "f2"]
    metadata = pq.read_metadata(path).metadata
    assert metadata[b"sidestep.format"] == b"1"
    assert metadata[b"sidestep.schema"] == b'{"x": "bigint"}'
    assert b"sidestep.writer" in metadata


def test_an_index_elsewhere(table: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "indexes"
    index = update_index(read_snapshot(table), {"x": LONG}, index_dir=elsewhere)
    assert not (table / "_sidestep").exists()
    assert index.folder.path.startswith(str(elsewhere / "t-"))
    assert len(open_index(f"file://{table}", elsewhere).files) == 3, "should not depend on how the root is spelled"
    assert index_folder(locate("/a/t"), elsewhere) != index_folder(locate("/b/t"), elsewhere)


def test_positions_need_the_whole_key(table: Path) -> None:
    index = update_index(read_snapshot(table), {"x": LONG})
    f0, f1, f2 = read_snapshot(table).files
    other_size = DataFile(f0.path, f0.size + 1, f0.modified)
    other_time = DataFile(f1.path, f1.size, f1.modified + 1)
    assert index.positions([f2, other_size, other_time, f0]).tolist() == [2, -1, -1, 0]


def test_a_changed_file_is_indexed_again_and_the_old_entry_is_stale(table: Path) -> None:
    update_index(read_snapshot(table), {"x": LONG})
    write_parquet(table / "f1", {"x": [1000]}, age=3)
    assert (status(table).indexed_files, status(table).stale_files) == (2, 1)
    index = update_index(read_snapshot(table), {"x": LONG})
    found = status(table)
    assert (found.indexed_files, found.stale_files, found.index_files) == (3, 1, 2)
    assert index.positions(read_snapshot(table).files).min() >= 0
    assert kept(index, "x", LONG, 1000) == [("f1", 0)]


def test_nothing_is_written_when_nothing_is_missing(table: Path) -> None:
    update_index(read_snapshot(table), {"x": LONG})
    before = sorted(os.listdir(table / "_sidestep"))
    update_index(read_snapshot(table), {"x": LONG})
    assert sorted(os.listdir(table / "_sidestep")) == before


def test_a_later_run_adds_columns(table: Path) -> None:
    update_index(read_snapshot(table), {"x": LONG})
    index = update_index(read_snapshot(table), {"s": STRING})
    assert (len(index.index_files), index.map.blocks) == (2, 6)
    assert kept(index, "x", LONG, 25) == [("f1", 0)]
    assert kept(index, "s", STRING, "v025") == [("f1", 0)]


def test_the_newest_entry_wins(table: Path) -> None:
    folder = index_folder(locate(table))
    rows = index_rows(table, {"x": LONG})
    append_blocks(folder, rows, {"x": LONG})
    moved = [each.set_column(6, "lower:x", pa.array([-5, -5])) for each in rows[:1]]
    append_blocks(folder, moved, {"x": LONG})
    index = open_index(table)
    assert kept(index, "x", LONG, -5) == [("f0", 0), ("f0", 1)]
    assert kept(index, "x", LONG, 25) == [("f1", 0)]


def test_an_older_entry_with_other_row_groups_is_not_mixed_in(table: Path) -> None:
    folder = index_folder(locate(table))
    wrong = [each.slice(0, 1) for each in index_rows(table, {"x": LONG})]
    append_blocks(folder, wrong, {"x": LONG})
    append_blocks(folder, index_rows(table, {"s": STRING}), {"s": STRING})
    shuffled = [each.set_column(4, KEYS.field("rows"), pa.array([9, 11])) for each in index_rows(table, {"x": LONG})]
    append_blocks(folder, shuffled, {"x": LONG})
    append_blocks(folder, index_rows(table, {"s": STRING}), {"s": STRING})
    index = open_index(table)
    assert len(kept(index, "x", LONG, 25)) == 6, "should keep all: no entry describes these row groups"
    assert kept(index, "s", STRING, "v025") == [("f1", 0)]


def test_types_that_speak_of_each_other(tmp_path: Path) -> None:
    data = {
        "i": pa.array([1, 2], pa.int32()),
        "f": pa.array([0.5, 1.5], pa.float32()),
        "d": pa.array([Decimal("1.50"), Decimal("-2.25")], pa.decimal128(9, 2)),
        "w": pa.array([Decimal("1.50"), None], pa.decimal128(30, 2)),
    }
    write_parquet(tmp_path / "f", data)
    narrow, wide = decimal_type(9, 2), decimal_type(30, 2)
    index = update_index(read_snapshot(tmp_path), {"i": INTEGER, "f": FLOAT, "d": narrow, "w": wide})
    assert (kept(index, "i", LONG, 2), kept(index, "i", LONG, 3)) == ([("f", 0)], [])
    assert (kept(index, "f", DOUBLE, 1.0), kept(index, "f", DOUBLE, 2.0)) == ([("f", 0)], [])
    assert (kept(index, "d", wide, Decimal("-2.25")), kept(index, "d", wide, Decimal("-2.26"))) == ([("f", 0)], [])
    with pytest.warns(SidestepWarning, match=r"the query reads it as decimal\(9,2\)"):
        assert kept(index, "w", narrow, Decimal("1.51")) == [("f", 0)], "should keep: what does not fit is read as NULL"


@pytest.mark.parametrize("asked", [STRING, DATE, DOUBLE, TIMESTAMP])
def test_another_type_is_left_out_with_one_warning(table: Path, asked: DataType) -> None:
    index = update_index(read_snapshot(table), {"x": LONG})
    with pytest.warns(SidestepWarning, match="Column x is indexed as bigint") as caught:
        catalog = index.catalog({"x": asked})
    assert len(caught) == 1
    assert catalog.synopses == ()
    assert open_index(table).catalog({"x": asked}).synopses == (), "should not warn again"


def test_partition_columns(tmp_path: Path) -> None:
    for day in ("2024-01-01", "2024-01-02", "__HIVE_DEFAULT_PARTITION__"):
        write_parquet(tmp_path / f"day={day}" / "f", {"x": [1, 2], "day": ["file", "file"]}, row_group_size=1)
    index = update_index(read_snapshot(tmp_path), {"x": LONG, "day": DATE})
    second = 19_724
    assert kept(index, "day", DATE, second) == [("day=2024-01-02/f", 0), ("day=2024-01-02/f", 1)]
    catalog = index.catalog({"day": DATE})
    assert kept_blocks(catalog, Null(Column("day", DATE))).sum() == 2
    assert index.catalog({"DAY": DATE}).synopses == (), "should leave the case to Spark"
    assert status(tmp_path).partition_columns == ("day",)


def test_a_file_without_partition_values_silences_them(tmp_path: Path) -> None:
    write_parquet(tmp_path / "f", {"x": [1]})
    update_index(read_snapshot(tmp_path), {"x": LONG})
    write_parquet(tmp_path / "p=1" / "f", {"x": [2]})
    index = update_index(read_snapshot(tmp_path), {"x": LONG})
    assert kept(index, "p", INTEGER, 7) == ([("f", 0), ("p=1/f", 0)] if len(index.files) == 2 else [])


def test_different_partition_columns_in_one_run_are_kept_apart(tmp_path: Path) -> None:
    write_parquet(tmp_path / "p=1" / "f", {"x": [1]})
    write_parquet(tmp_path / "p=1" / "q=2" / "f", {"x": [2]})
    index = update_index(read_snapshot(tmp_path), {"x": LONG})
    assert len(index.index_files) == 2
    assert kept_blocks(index.catalog({"q": INTEGER}), Null(Column("q", INTEGER))).all(), (
        "should not take absent as NULL"
    )
    assert kept(index, "q", INTEGER, 7) == [("p=1/f", 0), ("p=1/q=2/f", 0)]
    assert kept(index, "p", INTEGER, 7) == []


def test_values_that_the_log_and_the_path_spell_differently_are_not_used(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"p": ["é"], "x": [1]}), partition_by=["p"])
    index = update_index(read_snapshot(tmp_path), {"x": LONG, "p": STRING})
    assert "%C3%A9" in index.files["path"].to_pylist()[0]
    assert len(kept(index, "p", STRING, "\u00c3\u00a9")) == 1, "should keep: that is what Spark reads from the path"
    assert kept(index, "x", LONG, 2) == []


def test_awkward_column_names(tmp_path: Path) -> None:
    names = ["a", "a.b", "lower:a", "nulls:a", "part:a", "é ü", "path", "A"]
    write_parquet(tmp_path / "f", {name: [number] for number, name in enumerate(names)})
    columns: dict[str, DataType] = dict.fromkeys(names, LONG)
    index = update_index(read_snapshot(tmp_path), columns)
    again = compact(index, read_snapshot(tmp_path), always=True)
    for view in (index, again):
        for number, name in enumerate(names):
            assert kept(view, name, LONG, number) == [("f", 0)]
            assert (kept(view, name, LONG, 99) == []) is (name not in ("a", "A"))


def test_delta_partition_values_come_from_the_log(tmp_path: Path) -> None:
    values = ["a b", "x%y", "k=v", None]
    write_deltalake(str(tmp_path), pa.table({"p": values, "x": range(4)}), partition_by=["p"])
    index = update_index(read_snapshot(tmp_path), {"x": LONG, "p": STRING})
    assert index.positions(read_snapshot(tmp_path).files).tolist() != [-1] * 4
    for number, value in enumerate(values):
        found = kept(index, "p", STRING, value) if value is not None else None
        assert found is None or found == kept(index, "x", LONG, number)


def test_refreshed_is_the_same_view_until_something_changes(table: Path) -> None:
    index = update_index(read_snapshot(table), {"x": LONG})
    assert index.refreshed() is index
    started = time.perf_counter()
    for _ in range(100):
        index.refreshed()
    print(f"refresh: {(time.perf_counter() - started) * 10_000:.0f} us")
    append_blocks(index.folder, index_rows(table, {"s": STRING}), {"s": STRING})
    newer = index.refreshed()
    assert newer is not index
    assert set(newer.columns) == {"x", "s"}
    assert set(index.columns) == {"x"}


def test_catalogs_and_columns_are_kept(table: Path) -> None:
    index = update_index(read_snapshot(table), {"x": LONG, "s": STRING})
    assert index.catalog({"x": LONG}) is index.catalog({"x": LONG})
    both = index.catalog({"x": LONG, "s": STRING})
    assert both.synopses[0].columns["x"] is index.catalog({"x": LONG}).synopses[0].columns["x"]  # type: ignore[attr-defined]


def damage_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def damage_pages(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 60 + content[64:])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def not_an_index(path: Path) -> None:
    pq.write_table(pa.table({"path": ["f0"]}), path)


def with_format(path: Path, version: str, drop: str = "") -> None:
    blocks = pq.read_table(path)
    if drop:
        blocks = blocks.drop_columns([drop])
    with pq.ParquetWriter(path, blocks.schema, store_schema=False) as writer:
        writer.write_table(blocks)
        writer.add_key_value_metadata({"sidestep.format": version, "sidestep.schema": '{"x": "bigint"}'})


def newer_format(path: Path) -> None:
    with_format(path, "2")


def without_rows(path: Path) -> None:
    with_format(path, "1", "rows")


@pytest.mark.parametrize("damage", [damage_tail, damage_pages, empty, not_an_index, newer_format, without_rows])
def test_an_unusable_index_file_is_left_out_with_one_warning(table: Path, damage: Any) -> None:
    rows = index_rows(table, {"x": LONG})
    (first,) = append_blocks(index_folder(locate(table)), rows[:2], {"x": LONG})
    append_blocks(index_folder(locate(table)), rows[2:], {"x": LONG})
    damage(Path(first.path))
    with pytest.warns(SidestepWarning, match=first.name) as caught:
        index = open_index(table)
    assert len(caught) == 1
    open_index(table)  # a second warning would be an error
    assert index.files["path"].to_pylist() == ["f2"], "should use the rest"
    assert kept(index, "x", LONG, 45) == [("f2", 0)]
    assert len(index.problems) == 1
    again = update_index(read_snapshot(table), {"x": LONG})
    assert sorted(again.files["path"].to_pylist()) == ["f0", "f1", "f2"]
    assert Path(first.path).exists(), "should not delete what it does not understand"


def test_a_column_missing_from_an_index_file_is_unknown(table: Path) -> None:
    (location,) = append_blocks(index_folder(locate(table)), index_rows(table, {"x": LONG}), {"x": LONG})
    with_format(Path(location.path), "1", "upper:x")
    index = open_index(table)
    assert index.catalog({"x": LONG}).synopses == ()
    assert not index.covered({"x": LONG}).any()


def test_a_view_outlives_its_files(table: Path) -> None:
    index = update_index(read_snapshot(table), {"x": LONG, "s": STRING})
    for path in (table / "_sidestep").iterdir():
        path.unlink()
    assert kept(index, "x", LONG, 25) == [("f1", 0)], "should read through the open file"
    assert len(index.refreshed().files) == 0


def test_a_column_that_can_no_longer_be_read_is_unknown(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = update_index(read_snapshot(table), {"x": LONG})

    def lost(self: object, names: object) -> pa.Table:
        raise FileNotFoundError("gone")

    monkeypatch.setattr("sidestep.store.indexfile.IndexFile.read", lost)
    with pytest.warns(SidestepWarning, match="can no longer be read"):
        assert len(kept(index, "x", LONG, 25)) == 6
    assert compact(index, read_snapshot(table), always=True) is index
    assert len(os.listdir(table / "_sidestep")) == 1, "should not delete what it could not read"


def test_a_reader_that_loses_a_file_lists_again(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = index_folder(locate(table))
    rows = index_rows(table, {"x": LONG})
    for each in rows:
        append_blocks(folder, [each], {"x": LONG})
    original = open_index_file
    snapshot = read_snapshot(table)
    done: list[bool] = []

    def racing(location: Any) -> Any:
        if not done:
            done.append(True)
            compact(index_module.open_folder(folder), snapshot, always=True)
        return original(location)

    monkeypatch.setattr(index_module, "open_index_file", racing)
    index = open_index(table)
    assert len(index.files) == 3

    def gone(location: Any) -> Any:
        raise FileNotFoundError(location.uri)

    monkeypatch.setattr(index_module, "open_index_file", gone)
    with pytest.raises(SidestepError, match="keeps changing"):
        open_index(table)


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


def test_status(table: Path) -> None:
    write_parquet(table / "extra", {"x": [1]}, age=1)
    snapshot = read_snapshot(table)
    part = Snapshot(snapshot.root, "parquet", None, snapshot.files[1:])
    update_index(part, {"x": LONG, "s": STRING})
    found = status(table)
    assert (found.files, found.indexed_files, found.complete) == (4, 3, False)
    assert (found.indexed_rows, found.blocks, found.stale_files) == (60, 6, 0)
    assert found.columns == {"x": LONG, "s": STRING}
    assert found.column_files == {"x": 3, "s": 3}
    assert found.bytes == sum(os.stat(table / name).st_size for name in ("f0", "f1", "f2", "extra"))
    assert found.indexed_bytes == found.bytes - os.stat(table / "extra").st_size
    assert found.index_bytes == sum(path.stat().st_size for path in (table / "_sidestep").iterdir())
    assert found.problems == ()


def test_a_damaged_data_file_is_left_out_with_a_warning(table: Path) -> None:
    (table / "f1").write_bytes((table / "f1").read_bytes()[:-30])
    set_age(table / "f1", 10)
    with pytest.warns(SidestepWarning, match="f1 cannot be read as Parquet"):
        index = update_index(read_snapshot(table), {"x": LONG})
    assert index.files["path"].to_pylist() == ["f0", "f2"]


def test_a_file_only_just_written_is_waited_for(table: Path) -> None:
    write_parquet(table / "new", {"x": [1]}, age=0)
    now = time.time_ns() // 1_000_000 * 1_000_000
    os.utime(table / "new", ns=(now, now))
    index = update_index(read_snapshot(table), {"x": LONG})
    assert "new" in index.files["path"].to_pylist()
    assert time.time_ns() - now >= 100_000_000


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


def test_a_hundred_thousand_files_open_in_less_than_a_second(tmp_path: Path) -> None:
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
    started = time.perf_counter()
    index = open_index(tmp_path)
    opened = time.perf_counter()
    index.catalog({"x": LONG})
    print(f"open: {opened - started:.3f} s, catalog: {time.perf_counter() - opened:.3f} s")
    assert len(index.files) == files
    assert opened - started < 1


def test_many_small_files_are_indexed_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidestep.store.update._BATCH", 3)
    for number in range(8):
        write_parquet(tmp_path / f"f{number}", {"x": [number]} if number % 5 else {"y": ["s"]})
    index = update_index(read_snapshot(tmp_path), {"x": LONG, "y": STRING})
    assert len(index.files) == 8
    assert len(index.index_files) == 1
    assert kept(index, "x", LONG, 6) == [("f6", 0)]
    assert kept(index, "y", STRING, "s") == [("f0", 0), ("f5", 0)]
