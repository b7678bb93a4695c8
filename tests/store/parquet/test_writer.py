"""Rows become block files as they arrive: no session is needed to see that."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from sidestep.errors import SidestepError
from sidestep.layout import block_sizes
from sidestep.layout.placement import FilePlan
from sidestep.predicate import parse_type
from sidestep.spark.jvm.versions import arrow_schema
from sidestep.store.parquet.buckets import Bucketing, balanced_units, bucket_of
from sidestep.store.parquet.encodings import choose_encodings
from sidestep.store.parquet.writer import FILE, GROUP, BlockTarget, WrittenFile, is_block_file, write_blocks
from sidestep.synopsis.build import BuildPlan
from sidestep.synopsis.recipe import parse_recipes

SCHEMA = "a integer, s string"


def target(root: Path, min_size: int, schema: str = SCHEMA, features: int = 3, **more: Any) -> BlockTarget:
    parts = [part.split(" ", 1) for part in schema.split(", ")]
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in parts]
    columns = {name: parse_type({"integer": "int"}.get(kind, kind)) for name, kind in parts}
    arrow = arrow_schema(StructType.fromJson({"type": "struct", "fields": fields}))
    return BlockTarget(
        str(root), arrow, columns, min_size, features, "f" if features else None, spark_version="4.3.0", **more
    )


def rows(runs: Sequence[tuple[int, int, int, int]], batch: int) -> list[pa.RecordBatch]:
    """Runs of (file, group, rows, word), as batches of a size."""
    files, groups, words = (np.repeat([run[at] for run in runs], [run[2] for run in runs]) for at in (0, 1, 3))
    table = pa.table(
        {
            "a": pa.array(np.arange(len(files)), pa.int32()),
            "s": [f"s{number % 7}" for number in range(len(files))],
            FILE: pa.array(files, pa.int32()),
            GROUP: pa.array(groups, pa.int32()),
            "_sidestep_v0": pa.array(words, pa.int64()),
        }
    )
    batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=batch)
    return batches


def sizes_of(root: Path, file: WrittenFile) -> list[int]:
    footer = pq.read_metadata(root / file.path)
    return [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]


def test_each_block_is_a_row_group_with_its_id_and_its_union(tmp_path: Path) -> None:
    runs = [(0, 0, 3, 0b001), (0, 1, 7, 0b110), (1, 0, 2, 0b000)]
    plans = [FilePlan(10, '["x"]', (3, 7)), FilePlan(20, '["y"]', (2,))]
    first, second = write_blocks(rows(runs, 4), target(tmp_path, 3), plans)
    assert sizes_of(tmp_path, first) == [3, 4, 3]
    assert pq.read_table(tmp_path / first.path)["_block"].to_pylist() == [10] * 3 + [11] * 4 + [12] * 3
    assert first.index["block"].to_pylist() == [10, 11, 12]
    assert first.index["union"].to_pylist() == [b"\x01", b"\x06", b"\x06"]
    assert (second.rows, second.blocks, second.index["unit"].to_pylist()) == (2, 1, ['["y"]'])
    assert first.size == (tmp_path / first.path).stat().st_size
    assert json.loads(first.stats)["numRecords"] == 10
    assert (json.loads(first.stats)["minValues"]["a"], json.loads(first.stats)["maxValues"]["a"]) == (0, 9)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 7)), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(1, 30),
    st.booleans(),
)
def test_every_row_is_written_once_and_blocks_have_their_size(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[tuple[int, int]],
    min_size: int,
    batch: int,
    planned: bool,
) -> None:
    root = tmp_path_factory.mktemp("blocks")
    runs = [(0, number, size, word) for number, (size, word) in enumerate(groups)]
    plan = FilePlan(0, None, tuple(size for size, _ in groups) if planned else None)
    (file,) = write_blocks(rows(runs, batch), target(root, min_size), [plan])
    sizes = sizes_of(root, file)
    written = pq.read_table(root / file.path)["a"].to_pylist()
    ends = np.cumsum(sizes).tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        assert sorted(written[start:end]) == list(range(start, end)), "within a block the order is the writer's"
    if planned:
        assert sizes == [part for size, _ in groups for part in block_sizes(size, min_size)]
    at = 0
    for size, word in groups:
        held = 0
        while held < size:
            assert sizes[at] < 2 * min_size
            assert sizes[at] >= min_size or size < min_size
            assert file.index["union"][at].as_py() == bytes([word])
            held += sizes[at]
            at += 1
        assert held == size, "a block never spans two groups"


@pytest.mark.parametrize("groups", [(3,), (3, 7, 1), (2, 8), (4, 7)])
def test_rows_that_are_not_as_planned_are_an_error(tmp_path: Path, groups: tuple[int, ...]) -> None:
    with pytest.raises(SidestepError, match="it was changed"):
        list(write_blocks(rows([(0, 0, 3, 0), (0, 1, 7, 0)], 4), target(tmp_path, 3), [FilePlan(0, None, groups)]))


def test_rows_without_a_group_are_an_error(tmp_path: Path) -> None:
    (batch,) = rows([(0, 0, 3, 0)], 4)
    lost = batch.set_column(batch.schema.get_field_index(GROUP), GROUP, pa.array([0, None, 0], pa.int32()))
    with pytest.raises(SidestepError, match="changed while it was read"):
        list(write_blocks([lost], target(tmp_path, 3), [FilePlan(0)]))


def test_no_rows_are_no_files(tmp_path: Path) -> None:
    assert list(write_blocks([], target(tmp_path, 3), [FilePlan(0)])) == []
    assert list(write_blocks(rows([], 4), target(tmp_path, 3), [FilePlan(0)])) == []


def test_partition_values_part_files_and_name_their_folders(tmp_path: Path) -> None:
    batch = rows([(0, 0, 6, 0)], 10)[0].append_column("_sidestep_p0", pa.array(["x/1", "x/1", "y", "y", None, None]))
    plan = FilePlan(5, "u")
    files = list(write_blocks([batch], target(tmp_path, 1, partition_columns=("p",)), [plan]))
    assert [file.partition for file in files] == [(("p", "x/1"),), (("p", "y"),), (("p", None),)]
    assert [file.path.partition("/")[0] for file in files] == ["p=x%2F1", "p=y", "p=__HIVE_DEFAULT_PARTITION__"]
    assert [file.index["block"].to_pylist() for file in files] == [[5, 6], [7, 8], [9, 10]]
    assert "p" not in pq.read_schema(tmp_path / files[0].path).names


def test_more_than_a_word_of_features(tmp_path: Path) -> None:
    batch = rows([(0, 0, 2, -1)], 4)[0].append_column("_sidestep_v1", pa.array([1, 4], pa.int64()))
    (file,) = write_blocks([batch], target(tmp_path, 5, features=67), [FilePlan(0)])
    assert file.index["union"].to_pylist() == [b"\xff" * 8 + b"\x05"]


def test_types_are_written_as_spark_reads_them(tmp_path: Path) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=5))
    moment = datetime.datetime(2020, 1, 1, 3, 4, 5, 678901)
    schema = (
        "b byte, n short, d decimal(9,2), w decimal(30,3), t timestamp, z timestamp_ntz, x double, k binary"
        + ", y date"
    )
    data = pa.table(
        {
            "b": pa.array([1], pa.int8()),
            "n": pa.array([None], pa.int16()),
            "d": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            "w": pa.array([Decimal("-7.125")], pa.decimal128(30, 3)),
            "t": pa.array([moment.replace(tzinfo=zone)], pa.timestamp("us", "+05:00")),
            "z": pa.array([moment], pa.timestamp("us")),
            "x": pa.array([float("nan")]),
            "k": pa.array([b"\x00\xff"]),
            "y": pa.array([datetime.date(1500, 1, 1)]),
            FILE: pa.array([0], pa.int32()),
            GROUP: pa.array([0], pa.int32()),
        }
    )
    (file,) = write_blocks(data.to_batches(), target(tmp_path, 5, schema, 0), [FilePlan(0)])
    written = pq.read_table(tmp_path / file.path)
    assert written.drop_columns(["_block", "x"]).to_pylist() == data.drop_columns([FILE, GROUP, "x"]).to_pylist()
    footer = pq.ParquetFile(tmp_path / file.path)
    assert footer.schema.column(2).physical_type == "INT32"
    stamp = json.loads(footer.schema.column(4).logical_type.to_json())
    assert (stamp["isAdjustedToUTC"], stamp["timeUnit"]) == (True, "microseconds")
    assert b"org.apache.spark.version" in footer.metadata.metadata
    assert file.index["lower:y"].to_pylist() == [-171664], "the calendar is Spark's own, so the bound is the value"
    assert file.index["union"].to_pylist() == [None]


ANY = {
    "i": (pa.int64(), "bigint", st.integers(-(2**63), 2**63 - 1)),
    "x": (pa.float64(), "double", st.floats()),
    "s": (pa.string(), "string", st.text(max_size=40)),
    "d": (pa.date32(), "date", st.dates()),
    "n": (pa.decimal128(7, 2), "decimal(7,2)", st.decimals(-99999, 99999, places=2)),
    "t": (pa.timestamp("us", "UTC"), "timestamp", st.datetimes().map(lambda at: at.replace(tzinfo=datetime.UTC))),
    "b": (pa.bool_(), "boolean", st.booleans()),
}


@settings(max_examples=30)
@given(st.data(), st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_of_columns_that_are_not_written_blocks_know_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, sizes: list[int]
) -> None:
    """One file holds all columns and another one of them: what the index says of the others is no different."""
    root, count = tmp_path_factory.mktemp("beside"), sum(sizes)
    columns = {
        name: pa.array(data.draw(st.lists(st.none() | values, min_size=count, max_size=count)), arrow)
        for name, (arrow, _, values) in ANY.items()
    }
    places = {
        FILE: pa.array([0] * count, pa.int32()),
        GROUP: pa.array(np.repeat(np.arange(len(sizes)), sizes), pa.int32()),
    }
    (batch,) = pa.table({"a": pa.array(range(count), pa.int32()), **columns, **places}).to_batches()
    schema = pa.schema([("a", pa.int32()), *((name, arrow) for name, (arrow, _, _) in ANY.items())])
    types = {"a": parse_type("int"), **{name: parse_type(text) for name, (_, text, _) in ANY.items()}}
    making = BuildPlan(parse_recipes(dict.fromkeys(("i", "s", "d"), "values"), types))
    common: dict[str, Any] = {"root": str(root), "columns": types, "min_size": 1_000, "making": making}
    plans = [FilePlan(0, None, tuple(sizes))]
    held = BlockTarget(schema=schema, spark_version="4.3.0", **common)
    beside = BlockTarget(
        schema=pa.schema([schema.field("a")]),
        beside=schema.remove(0),
        spark_version="4.3.0",
        **common,
    )
    (whole,) = write_blocks([batch], held, plans)
    (part,) = write_blocks([batch], beside, plans)
    assert pq.read_schema(root / part.path).names == ["a", "_block"]
    told = [name for name in whole.index.column_names if ":" in name]
    assert sorted(told) == sorted(name for name in part.index.column_names if ":" in name)
    for name in told:
        assert part.index[name].to_pylist() == whole.index[name].to_pylist(), name
    assert set(json.loads(part.stats)["nullCount"]) == {"a"}, "other readers find no such column in the file"


def test_a_file_of_a_unit_is_named_by_its_bucket(tmp_path: Path) -> None:
    runs = [(0, 0, 5, 0), (1, 0, 4, 0)]
    unit = pa.array([7] * 5 + [8] * 4, pa.int32())
    batches = pa.Table.from_batches(rows(runs, 20)).set_column(0, "a", unit).to_batches()
    made = target(tmp_path, 10, bucketing=Bucketing("a", 5))
    first, second = write_blocks(batches, made, [FilePlan(0), FilePlan(1)])
    for file, number in ((first, 7), (second, 8)):
        assert file.path.endswith(f"_{bucket_of(number, 5):05d}.c000.zstd.parquet")
        assert is_block_file(file.path)
    mixed = pa.Table.from_batches(rows([(0, 0, 9, 0)], 20)).set_column(0, "a", unit).to_batches()
    with pytest.raises(SidestepError, match="several units"):
        list(write_blocks(mixed, made, [FilePlan(0)]))


@given(st.integers(1, 40), st.integers(1, 12), st.sets(st.integers(0, 60), max_size=10))
def test_new_units_fill_the_buckets_evenly(count: int, buckets: int, taken: set[int]) -> None:
    units = balanced_units(count, buckets, sorted(taken))
    assert len({*units, *taken}) == count + len(taken), "no number is given twice"
    before = [sum(bucket_of(unit, buckets) == at for unit in taken) for at in range(buckets)]
    after = [sum(bucket_of(unit, buckets) == at for unit in (*taken, *units)) for at in range(buckets)]
    assert max(after) <= max(*before, -(-(count + sum(before)) // buckets), min(before) + 1)


def test_row_ids_are_sorted_in_blocks_where_that_makes_them_smaller() -> None:
    draw = np.random.default_rng(0)
    ids = draw.permutation(2_000_000)[:4_000]
    sample = pa.table({"v": draw.random(4_000), "_rid": ids, "_block": pa.array([1] * 4_000, pa.int32())})
    assert choose_encodings(sample, "_block").sort_by == ()
    assert choose_encodings(sample, "_block", "_rid").sort_by == ("_rid",)
