from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError, TableNotFound
from sidestep.store import read_snapshot
from sidestep.store.snapshots.folder import NULL_PARTITION, partition_of, unescape
from tests.store.tables import write_parquet


def paths_of(root: Path) -> list[str]:
    return [file.path for file in read_snapshot(root).files]


def test_a_plain_folder_is_what_spark_would_list(tmp_path: Path) -> None:
    for name in ["b.parquet", "a", "c.snappy.parquet", "_SUCCESS.parquet", ".hidden", "d._COPYING_", "_metadata"]:
        write_parquet(tmp_path / name, {"x": [1]})
    write_parquet(tmp_path / "sub" / "ignored.parquet", {"x": [1]})
    (tmp_path / "empty.parquet").write_bytes(b"")
    snapshot = read_snapshot(tmp_path)
    assert [file.path for file in snapshot.files] == ["a", "b.parquet", "c.snappy.parquet"]
    assert (snapshot.format, snapshot.version, snapshot.whole, snapshot.partition_columns) == (
        "parquet",
        None,
        True,
        (),
    )
    found = os.stat(tmp_path / "a")
    assert snapshot.files[0].key == ("a", found.st_size, found.st_mtime_ns // 1_000_000)
    assert snapshot.bytes == sum(file.size for file in snapshot.files)


def test_partition_folders(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a=1" / "b=x%2Fy z" / "f", {"x": [1]})
    write_parquet(tmp_path / "a=2" / f"b={NULL_PARTITION}" / "f", {"x": [1]})
    write_parquet(tmp_path / "a=3" / "b=é" / "_temporary" / "g", {"x": [1]})
    write_parquet(tmp_path / "_a=4" / "b=v=w" / "f", {"x": [1]})
    write_parquet(tmp_path / "in_the_root", {"x": [1]})
    snapshot = read_snapshot(tmp_path)
    assert {file.path: file.partition for file in snapshot.files} == {
        "a=1/b=x%2Fy z/f": (("a", "1"), ("b", "x/y z")),
        f"a=2/b={NULL_PARTITION}/f": (("a", "2"), ("b", None)),
        "_a=4/b=v=w/f": (("_a", "4"), ("b", "v=w")),
    }
    assert set(snapshot.partition_columns) == {"a", "b", "_a"}


def test_partition_values_are_looked_for_upwards() -> None:
    assert partition_of("a=1/sub/f") == (("a", "1"),)
    assert partition_of("x/a=1/b=2/f") == (("a", "1"), ("b", "2"))
    assert partition_of("a=1/x/b=2/f") == (("b", "2"),)
    assert partition_of("a=1") == ()


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")))
def test_unescape_undoes_what_spark_escapes(text: str) -> None:
    special = set("\"#%'*/:=?\\{[]^\x7f") | {chr(i) for i in range(1, 32)}
    escaped = "".join(f"%{ord(char):02X}" if char in special else char for char in text)
    assert unescape(escaped) == text


def test_a_single_file_is_a_part_of_its_folder(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a=1" / "f.parquet", {"x": [1]})
    snapshot = read_snapshot(file)
    assert (snapshot.root.path, snapshot.whole) == (str(file.parent), False)
    assert [(each.path, each.partition) for each in snapshot.files] == [("f.parquet", ())]


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match=r"nothing at .*check the path"):
        read_snapshot(tmp_path / "nowhere")
    with pytest.raises(TableNotFound, match=r"pattern.*one table at a time"):
        read_snapshot(tmp_path / "year=*")
    with pytest.raises(TableNotFound, match=r"holds no data files\. Write the table first"):
        read_snapshot(tmp_path)
    (tmp_path / "sub").mkdir()
    write_parquet(tmp_path / "sub" / "f", {"x": [1]})
    with pytest.raises(TableNotFound, match="1 files in its subfolders"):
        read_snapshot(tmp_path)
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    for path in (tmp_path, tmp_path / "a.csv"):
        with pytest.raises(TableNotFound, match="not a Parquet file"):
            read_snapshot(path)
    (tmp_path / "empty").write_text("")
    with pytest.raises(TableNotFound, match="empty file"):
        read_snapshot(tmp_path / "empty")
    with pytest.raises(SidestepError, match="not a Delta table"):
        read_snapshot(tmp_path / "sub", version=3)


def test_a_folder_whose_name_looks_like_a_pattern_is_a_folder(tmp_path: Path) -> None:
    write_parquet(tmp_path / "t[1]" / "f", {"x": [1]})
    assert paths_of(tmp_path / "t[1]") == ["f"]
