"""Samples of blocks: whole ones, spread over the table, and nothing that Spark would read otherwise."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sidestep.advisor.synopses.sample import sample_blocks
from sidestep.predicate.types import DATE, DOUBLE, INTEGER, LONG, STRING, parse_type
from sidestep.store import read_snapshot
from sidestep.synopsis.values.codes import integer_values
from tests.store.tables import write_parquet


def test_blocks_are_spread_and_stand_for_all(tmp_path):
    for number in range(20):
        write_parquet(tmp_path / f"{number:02}.parquet", {"x": range(10 * number, 10 * number + 10)}, row_group_size=5)
    sample = sample_blocks(read_snapshot(tmp_path), most=8)
    assert sample.blocks[0].file.path < "03.parquet"
    assert sample.blocks[-1].file.path > "16.parquet"
    assert (len(sample.blocks), sample.of_blocks) == (8, 40)
    assert sample.rows.tolist() == [5] * 8
    assert len(sample.first(1).blocks) == 1
    everything = sample_blocks(read_snapshot(tmp_path), most=100)
    assert (len(everything.blocks), everything.of_blocks) == (40, 40)


def test_large_blocks_are_fewer(tmp_path):
    for number in range(40):
        write_parquet(tmp_path / f"{number:02}.parquet", {"x": range(100)})
    assert len(sample_blocks(read_snapshot(tmp_path), most_rows=100).blocks) == 8
    assert len(sample_blocks(read_snapshot(tmp_path), most_rows=2_000).blocks) == 20


def test_codes_are_of_whole_blocks(tmp_path):
    days = [datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 5)]
    write_parquet(
        tmp_path / "a.parquet",
        pa.table({"x": [5, 5, None], "day": days, "name": ["Customer#3", "Customer#1", None], "v": [0.5, None, 1e300]}),
    )
    found = sample_blocks(read_snapshot(tmp_path)).codes({"x": LONG, "day": DATE, "name": STRING, "v": DOUBLE})
    assert integer_values(found["x"][1][0]).tolist() == [5]
    assert np.diff(integer_values(found["day"][1][0])).tolist() == [4]
    assert found["name"][0].prefix == b"Customer#"
    assert [len(found[name][1][0]) for name in ("name", "v")] == [2, 2]


def test_what_spark_would_convert_or_not_find_is_left_out(tmp_path):
    write_parquet(tmp_path / "a.parquet", {"x": [1], "y": pa.array([2**40], pa.int64()), "z": [[1]]})
    write_parquet(tmp_path / "b.parquet", {"x": [2], "y": [3]})
    sample = sample_blocks(read_snapshot(tmp_path))
    asked = {"x": LONG, "Y": LONG, "z": parse_type("array<int>"), "absent": INTEGER}
    assert list(sample.codes(asked)) == ["x"]


def test_damaged_and_empty_files_are_passed_over(tmp_path):
    write_parquet(tmp_path / "a.parquet", {"x": [1, 2]})
    write_parquet(tmp_path / "b.parquet", {"x": pa.array([], pa.int64())})
    (tmp_path / "c.parquet").write_bytes(b"PAR1 no more")
    sample = sample_blocks(read_snapshot(tmp_path))
    assert [block.file.path for block in sample.blocks] == ["a.parquet"]
    (tmp_path / "a.parquet").unlink()
    assert sample.codes({"x": LONG}) == {}


def test_large_row_groups_are_cut_into_the_blocks_that_will_be(tmp_path):
    for number in range(3):
        write_parquet(tmp_path / f"{number}.parquet", {"x": range(1_000 * number, 1_000 * number + 1_000)})
    sample = sample_blocks(read_snapshot(tmp_path), most=10, block_rows=90)
    assert (len(sample.blocks), sample.of_blocks) == (10, 33)
    blocks = [integer_values(codes) for codes in sample.codes({"x": LONG})["x"][1]]
    assert [len(values) for values in blocks] == [90] * 10
    assert all(values[-1] - values[0] == 89 for values in blocks)
    assert len({int(values[0]) for values in blocks}) == 10
    assert len(sample_blocks(read_snapshot(tmp_path), block_rows=5_000).blocks) == 3


def test_blocks_that_are_far_wider_than_most_are_looked_at(tmp_path: Path) -> None:
    """One block of two hundred holds the end of one run and the begin of another."""
    keys = (np.arange(20_000) + 1_050) % 20_000
    write_parquet(tmp_path / "f.parquet", {"key": keys, "name": [f"n{key}" for key in keys]}, row_group_size=100)
    sample = sample_blocks(read_snapshot(tmp_path), columns=["key"], keys=["key"])
    wide, stands_for = sample.with_wide("key")
    assert set(wide.blocks) - set(sample.blocks) == {wide.blocks[-1]}
    assert wide.blocks[-1].row_group == 189
    assert stands_for[-1] == pytest.approx(1.0)
    assert stands_for.sum() == pytest.approx(sample.of_blocks)
    for column in ("name", "missing"):
        alike, stands_for = sample.with_wide(column)
        assert alike is sample
        assert set(stands_for) == {sample.of_blocks / len(sample.blocks)}


def test_the_first_values_of_columns(tmp_path: Path) -> None:
    write_parquet(tmp_path / "f.parquet", {"a": list(range(50)), "b": [f"{n}" for n in range(50)]})
    sample = sample_blocks(read_snapshot(tmp_path))
    first = sample.first_values(["a", "b", "missing"], 3)
    assert {name: values.to_pylist() for name, values in first.items()} == {"a": [0, 1, 2], "b": ["0", "1", "2"]}
    (tmp_path / "f.parquet").write_bytes(b"PAR1 no more")
    assert sample.first_values(["a"], 3) == {}
