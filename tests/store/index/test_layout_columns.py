"""Block ids, union vectors, features and units: from the file or its writer, through the index, to skipped blocks."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.layout import pack, to_bytes
from sidestep.predicate import BOOLEAN, INTEGER, LONG, STRING, Predicate, column, compare, conjunction, normalize
from sidestep.predicate.types import DataType
from sidestep.store import (
    Location,
    TableIndex,
    append_blocks,
    block_summaries,
    compact,
    index_folder,
    load_features,
    locate,
    open_index,
    read_snapshot,
    save_features,
    status,
    update_index,
    with_layout,
)
from sidestep.store.index import table_index as index_module
from sidestep.store.parquet.blocks import LAYOUT
from sidestep.store.parquet.scan import Sources
from sidestep.store.sidecars.layout import FEATURES as FEATURE_FILES
from sidestep.synopsis import UnionVectors, kept_blocks
from sidestep.workload import Feature, FeatureSet
from tests.store.tables import write_parquet

x, s = column("x", LONG), column("s", STRING)
FEATURES = FeatureSet(
    "t",
    (
        Feature((compare(x, "=", 5),)),
        Feature((compare(s, "=", "v"),)),
        Feature((compare(x, "=", 6), compare(s, "=", "w"))),
    ),
)
ONE = FeatureSet("t", (Feature((compare(x, "=", 7),)),))
TYPES: dict[str, DataType] = {"x": LONG, "s": STRING}


@pytest.fixture(autouse=True)
def fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_warned", set())


@pytest.fixture
def folder(table: Path) -> Location:
    return index_folder(locate(table))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two files of three blocks each; x is 0 to 9 in every block, so that zone maps of x say nothing."""
    root = tmp_path / "t"
    for number in range(2):
        ids = [number * 3 + block for block in range(3) for _ in range(10)]
        data = {"x": [*range(10)] * 3, "s": ["v", "w"] * 15, "_block": pa.array(ids, pa.int32())}
        write_parquet(root / f"f{number}", data, row_group_size=10)
    return root


def summaries(root: Path, columns: dict[str, DataType] | None = None, sources: Sources | None = None) -> list[pa.Table]:
    snapshot = read_snapshot(root)
    found = [
        block_summaries(snapshot.root, file, TYPES if columns is None else columns, sources, block="_block")
        for file in snapshot.files
    ]
    return [each for each in found if each is not None]


def vectors(*blocks: Sequence[int], features: int = 3) -> list[bytes]:
    """The stored union vectors of blocks that satisfy these features."""
    bits = np.zeros((len(blocks), features), dtype=np.bool_)
    for block, found in enumerate(blocks):
        bits[block, list(found)] = True
    return to_bytes(pack(bits), features)


def lay_out(root: Path, folder: Location) -> None:
    """Index the first file as laid out, and the second with its zone maps alone."""
    save_features(folder, FEATURES)
    first, second = summaries(root)
    append_blocks(
        folder,
        [with_layout(first, vectors([0, 1], [1], [2]), FEATURES.id, "1994-01"), second],
        {"x": LONG, "s": STRING},
    )


def kept(index: TableIndex, query: Predicate, columns: dict[str, DataType] | None = None) -> list[int]:
    """The blocks of both files that are kept, numbered from 0 to 5."""
    mask = kept_blocks(index.catalog(columns or {"x": LONG, "s": STRING}), normalize(query))
    return np.flatnonzero(mask).tolist()


def test_block_ids_come_from_the_file(table: Path) -> None:
    first, second = summaries(table)
    assert (first["block"].to_pylist(), second["block"].to_pylist()) == ([0, 1, 2], [3, 4, 5])
    assert "lower:_block" not in first.column_names
    snapshot = read_snapshot(table)
    users = block_summaries(snapshot.root, snapshot.files[0], {"_block": INTEGER})
    assert users is not None
    assert "block" not in users.column_names, "a column of that name is a user's, unless the schema marks it"
    assert users["lower:_block"].to_pylist() == [0, 1, 2]
    assert [each["block"].to_pylist() for each in summaries(table, sources=Sources(footers=False))] == [
        [0, 1, 2],
        [3, 4, 5],
    ]
    assert "block" in summaries(table, {})[0].column_names, "should not need to be asked for"


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([1, 1, 2, 2], pa.int32()),
        pa.array([1, None, 1, 1], pa.int32()),
        pa.array([None] * 4, pa.int32()),
        pa.array([-1] * 4, pa.int32()),
        pa.array([7] * 4, pa.int64()),
        pa.array([7] * 4, pa.uint32()),
        pa.array([7] * 4, pa.int16()),
        pa.array([7] * 4, pa.date32()),
        pa.array(["7"] * 4),
        pa.array([[7]] * 4, pa.list_(pa.int32())),
    ],
    ids=str,
)
@pytest.mark.parametrize("statistics", [True, False])
def test_what_is_not_one_id_is_none(tmp_path: Path, ids: pa.Array, statistics: bool) -> None:
    write_parquet(tmp_path / "f", {"_block": ids}, write_statistics=statistics)
    assert summaries(tmp_path)[0]["block"].to_pylist() == [None]


def test_other_columns_that_are_not_the_block_column(tmp_path: Path) -> None:
    seven = pa.array([7, 7], pa.int32())
    write_parquet(tmp_path / "a", {"_BLOCK": seven})
    write_parquet(tmp_path / "b", {"_block": seven, "_Block": seven})
    write_parquet(tmp_path / "c", {"_block": seven}, write_statistics=False)
    write_parquet(tmp_path / "d", {"_block": seven.slice(0, 0)})
    a, b, c, d = summaries(tmp_path)
    assert "block" not in a.column_names
    assert b["block"].to_pylist() == [None], "should leave the case to Spark"
    assert c["block"].to_pylist() == [7], "should read the data where there are no statistics"
    assert d["block"].to_pylist() == [None], "no row has an id"
    write_parquet(tmp_path / "p" / "_block=3" / "f", {"_block": seven})
    (partitioned,) = summaries(tmp_path / "p")
    assert "block" not in partitioned.column_names, "Spark would read the folder's value"


def test_an_index_knows_ids_features_and_units(table: Path, folder: Location) -> None:
    lay_out(table, folder)
    index = open_index(table)
    assert index.block_ids.tolist() == [0, 1, 2, 3, 4, 5]
    assert index.block_ids.dtype == np.int32
    assert index.features_of_block.to_pylist() == [FEATURES.id] * 3 + [None] * 3
    assert index.units == ("1994-01", None)
    assert index.layout.union.to_pylist()[:3] == vectors([0, 1], [1], [2])


def test_an_index_without_a_layout_has_none(tmp_path: Path) -> None:
    write_parquet(tmp_path / "f", {"x": [1, 2]}, row_group_size=1)
    index = update_index(read_snapshot(tmp_path), {"x": LONG})
    assert index.block_ids.tolist() == [-1, -1]
    assert (index.units, index.features_of_block.null_count, index.union_vectors()) == ((None,), 2, ())
    assert LAYOUT.names[0] not in pq.read_schema(next((tmp_path / "_sidestep").iterdir())).names
    assert open_index(tmp_path / "nothing").block_ids.tolist() == []


def test_blocks_are_skipped_by_features(table: Path, folder: Location) -> None:
    lay_out(table, folder)
    index = open_index(table)
    assert kept(index, compare(x, "=", 5)) == [0, 3, 4, 5], "should keep blocks without a vector"
    assert kept(index, compare(s, "=", "v")) == [0, 1, 3, 4, 5]
    assert kept(index, conjunction(compare(x, "=", 6), compare(s, "=", "w"))) == [2, 3, 4, 5]
    assert kept(index, compare(x, "=", 6), {"x": LONG}) == [0, 1, 2, 3, 4, 5]
    assert kept(index, compare(x, "=", 99)) == [], "zone maps work as before"
    assert [type(each) for each in index.catalog({"z": LONG}).synopses] == []


def test_only_features_about_the_querys_columns_and_types_answer(table: Path, folder: Location) -> None:
    lay_out(table, folder)
    index = open_index(table)
    (found,) = (each for each in index.catalog({"x": LONG}).synopses if isinstance(each, UnionVectors))
    assert list(found.may_answer) == [0]
    as_int = compare(column("x", INTEGER), "=", 5)
    with pytest.warns(SidestepWarning, match="indexed as bigint"):
        assert kept(index, as_int, {"x": INTEGER}) == [0, 1, 2, 3, 4, 5]
    other_case = FeatureSet("t", (Feature((compare(column("X", LONG), "=", 5),)),))
    save_features(folder, other_case)
    rows = with_layout(summaries(table)[0], vectors([], [], [], features=1), other_case.id, None)
    append_blocks(folder, [rows], {"x": LONG})
    assert kept(open_index(table), compare(column("X", LONG), "=", 5), {"X": LONG}) == [0, 1, 2, 3, 4, 5]


def test_features_about_partition_columns_do_not_answer(tmp_path: Path) -> None:
    p, b = column("p", STRING), column("b", BOOLEAN)
    features = FeatureSet(
        "t", (Feature((compare(p, "=", "a"), compare(b, "=", True))), Feature((compare(b, "=", True),)))
    )
    write_parquet(tmp_path / "p=a" / "f", {"b": [False]})
    folder = index_folder(locate(tmp_path))
    save_features(folder, features)
    rows = [with_layout(each, [b"\2"], features.id, "u") for each in summaries(tmp_path, {"b": BOOLEAN})]
    append_blocks(folder, rows, {"b": BOOLEAN})
    catalog = open_index(tmp_path).catalog({"p": STRING, "b": BOOLEAN})
    (found,) = (each for each in catalog.synopses if isinstance(each, UnionVectors))
    assert list(found.may_answer) == [1]


def test_indexing_again_keeps_the_layout(table: Path, folder: Location) -> None:
    save_features(folder, FEATURES)
    first = summaries(table, {"x": LONG})[0]
    append_blocks(folder, [with_layout(first, vectors([0], [1], [2]), FEATURES.id, "u")], {"x": LONG})
    index = update_index(read_snapshot(table), TYPES)
    assert set(index.columns) == {"x", "s"}
    assert kept(index, compare(x, "=", 5)) == [0, 3, 4, 5]
    assert index.units == ("u", None)
    before = sorted(os.listdir(table / "_sidestep"))
    update_index(read_snapshot(table), TYPES)
    assert sorted(os.listdir(table / "_sidestep")) == before, "the block column is never missing"


def test_the_newest_layout_wins_and_keeps_vectors_and_features_together(table: Path, folder: Location) -> None:
    lay_out(table, folder)
    save_features(folder, ONE)
    first, _ = summaries(table)
    append_blocks(folder, [with_layout(first, [b"\1", None, b"\0"], ONE.id, "1994-02")], {"x": LONG})
    for index in (open_index(table), compact(open_index(table), read_snapshot(table), always=True)):
        assert index.features_of_block.to_pylist() == [ONE.id] * 3 + [None] * 3
        assert kept(index, compare(x, "=", 5)) == [0, 1, 2, 3, 4, 5], "the old vectors are not about these features"
        assert kept(index, compare(x, "=", 7)) == [0, 1, 3, 4, 5], "an unknown vector keeps its block"
        assert index.units == ("1994-02", None)


def test_an_entry_with_other_row_groups_has_no_say(table: Path, folder: Location) -> None:
    save_features(folder, FEATURES)
    first = with_layout(summaries(table)[0], vectors([], [], []), FEATURES.id, "u")
    append_blocks(folder, [first.slice(0, 2)], {"x": LONG})
    append_blocks(folder, [summaries(table)[0]], {"x": LONG})
    assert kept(open_index(table), compare(x, "=", 5)) == [0, 1, 2]
    assert open_index(table).units == (None,)


def test_compaction_carries_all_of_it(table: Path, folder: Location) -> None:
    lay_out(table, folder)
    old = open_index(table)
    index = compact(old, read_snapshot(table), always=True)
    assert len(index.index_files) == 1
    assert index.layout.block.equals(old.layout.block)
    assert index.layout.union.equals(old.layout.union)
    assert index.layout.features.equals(old.layout.features)
    assert index.units == old.units
    assert kept(index, compare(x, "=", 5)) == [0, 3, 4, 5]
    assert load_features(folder, FEATURES.id) == FEATURES


def test_feature_sets_are_written_once_and_mended(folder: Location) -> None:
    assert load_features(folder, FEATURES.id) is None
    assert load_features(folder, "../secret") is None
    save_features(folder, FEATURES)
    path = Path(FEATURE_FILES.file(folder, FEATURES.id).path)
    written = path.stat().st_mtime_ns
    save_features(folder, FEATURES)
    assert path.stat().st_mtime_ns == written
    assert load_features(folder, FEATURES.id) == FEATURES
    path.write_text("{")
    with pytest.raises(SidestepError, match="cannot be read"):
        load_features(folder, FEATURES.id)
    save_features(folder, FEATURES)
    assert load_features(folder, FEATURES.id) == FEATURES


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def change(path: Path) -> None:
    written = json.loads(path.read_text())
    written["features"][0]["weight"] = 99
    path.write_text(json.dumps(written))


def exchange(path: Path) -> None:
    path.write_text(json.dumps(ONE.to_json()))


@pytest.mark.parametrize("damage", [remove, cut, change, exchange])
def test_missing_or_damaged_features_skip_nothing_and_are_told_once(table: Path, folder: Location, damage: Any) -> None:
    lay_out(table, folder)
    damage(Path(FEATURE_FILES.file(folder, FEATURES.id).path))
    with pytest.warns(SidestepWarning, match="cannot be used") as caught:
        assert kept(open_index(table), compare(x, "=", 5)) == [0, 1, 2, 3, 4, 5]
    assert len(caught) == 1
    assert kept(open_index(table), compare(x, "=", 99)) == [], "a second warning would be an error"
    assert compact(open_index(table), read_snapshot(table), always=True).units == ("1994-01", None)


def test_vectors_of_the_wrong_length_say_nothing(table: Path, folder: Location) -> None:
    save_features(folder, FEATURES)
    rows = with_layout(summaries(table)[0], [b"\0\0", b"", b"\0"], FEATURES.id, "u")
    append_blocks(folder, [rows], {"x": LONG})
    assert kept(open_index(table), compare(x, "=", 5)) == [0, 1]


def test_columns_of_another_type_say_nothing(table: Path, folder: Location) -> None:
    rows = summaries(table)[0].append_column("unit", pa.array([1, 2, 3])).append_column("features", pa.array([1, 2, 3]))
    append_blocks(folder, [rows], {"x": LONG})
    assert open_index(table).units == (None,)
    assert kept(open_index(table), compare(x, "=", 5)) == [0, 1, 2]


def test_layouts_that_do_not_fit_are_refused(table: Path) -> None:
    first, _ = summaries(table)
    with pytest.raises(SidestepError, match="3 blocks need a union vector each"):
        with_layout(first, [b"\0"], FEATURES.id, "u")
    with pytest.raises(SidestepError, match="without its features"):
        with_layout(first, [b"\0"] * 3, None, "u")
    again = with_layout(with_layout(first, [b"\0"] * 3, FEATURES.id, "u"), [b"\1"] * 3, ONE.id, "v")
    assert again["unit"].to_pylist() == ["v"] * 3
    assert again.column_names.count("union") == 1


def test_status_tells_what_was_organized(table: Path, folder: Location) -> None:
    lay_out(table, folder)
    write_parquet(table / "f9", {"x": [1]}, age=3)
    update_index(read_snapshot(table), {"x": LONG})
    found = status(table)
    assert (found.files, found.organized_files, found.unorganized_files) == (3, 1, 2)
    assert (found.blocks, found.blocks_with_ids) == (7, 6)
    assert found.feature_sets == {FEATURES.id: 3 / 7}


def test_a_column_of_layouts_that_can_no_longer_be_read(
    table: Path, folder: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(table, folder)
    index = open_index(table)

    def lost(self: object, names: object) -> pa.Table:
        raise FileNotFoundError("gone")

    monkeypatch.setattr("sidestep.store.index.index_file.IndexFile.read", lost)
    with pytest.warns(SidestepWarning, match="can no longer be read"):
        assert kept(index, compare(x, "=", 5)) == [0, 1, 2, 3, 4, 5]
    assert index.block_ids.tolist() == [-1] * 6
    assert compact(index, read_snapshot(table), always=True) is index
