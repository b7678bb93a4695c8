"""What an index says of a table: entries, columns, partition values, and what it leaves unsaid."""

from __future__ import annotations

import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.predicate.formula import Null
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
    append_blocks,
    compact,
    index_folder,
    locate,
    open_index,
    read_snapshot,
    status,
    update_index,
)
from sidestep.store.index import table_index as index_module
from sidestep.store.index.index_file import open_index_file
from sidestep.store.parquet.blocks import KEYS
from sidestep.synopsis.skip import kept_blocks
from tests.store.sealed import rewrite
from tests.store.tables import index_rows, kept, set_age, write_parquet


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
    assert metadata[b"sidestep.format"] == b"2"
    assert metadata[b"sidestep.schema"] == b'{"x": "bigint"}'
    assert b"sidestep.writer" in metadata


def test_an_index_elsewhere(table: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "indexes"
    index = update_index(read_snapshot(table), {"x": LONG}, open_index(table, elsewhere))
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


def newer_format(path: Path) -> Path:
    return rewrite(path, metadata={"sidestep.format": "3"})


def without_rows(path: Path) -> Path:
    return rewrite(path, pq.read_table(path).drop_columns(["rows"]))


@pytest.mark.parametrize("damage", [damage_tail, damage_pages, empty, not_an_index, newer_format, without_rows])
def test_an_unusable_index_file_is_left_out_with_one_warning(table: Path, damage: Any) -> None:
    rows = index_rows(table, {"x": LONG})
    (first,) = append_blocks(index_folder(locate(table)), rows[:2], {"x": LONG})
    append_blocks(index_folder(locate(table)), rows[2:], {"x": LONG})
    sealed = damage(Path(first.path))
    unusable = sealed or Path(first.path)
    with pytest.warns(SidestepWarning, match=unusable.name) as caught:
        index = open_index(table)
    assert len(caught) == 1
    open_index(table)  # a second warning would be an error
    assert index.files["path"].to_pylist() == ["f2"], "should use the rest"
    assert kept(index, "x", LONG, 45) == [("f2", 0)]
    assert len(index.problems) == 1
    again = update_index(read_snapshot(table), {"x": LONG})
    assert sorted(again.files["path"].to_pylist()) == ["f0", "f1", "f2"]
    assert unusable.exists() == (sealed is not None), "should delete what is damaged, not what it does not understand"
    assert len(again.problems) == (sealed is not None)


def test_a_column_missing_from_an_index_file_is_unknown(table: Path) -> None:
    (location,) = append_blocks(index_folder(locate(table)), index_rows(table, {"x": LONG}), {"x": LONG})
    rewrite(Path(location.path), pq.read_table(location.path).drop_columns(["upper:x"]))
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

    monkeypatch.setattr("sidestep.store.index.index_file.IndexFile.read", lost)
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
