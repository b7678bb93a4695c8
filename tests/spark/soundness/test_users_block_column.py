"""A user's own column called as sidestep calls the hidden one: it is the user's, with its values, and it skips."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import sidestep
from sidestep.predicate import LONG, column, compare
from sidestep.store import read_snapshot
from sidestep.store.block_column import block_name
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.tables import checked_read, files_read, rows_of, switched_off, write_file

VALUES: dict[str, tuple[pa.DataType, Any, str]] = {
    "int": (pa.int32(), lambda n: n, "{}"),
    "bigint": (pa.int64(), lambda n: n - 2**40, "{} - 1099511627776"),
    "string": (pa.string(), lambda n: f"b{n:04d}", "'b{:04d}'"),
    "double": (pa.float64(), lambda n: n / 4, "{} / 4D"),
    "date": (pa.date32(), lambda n: datetime.date(2024, 1, 1) + datetime.timedelta(n), "date_add('2024-01-01', {})"),
}


def rows(kind: str, numbers: range, name: str = "_block") -> pa.Table:
    """Five rows for each number."""
    type, make, _ = VALUES[kind]
    ids = [5 * number + at for number in numbers for at in range(5)]
    values = [make(number) for number in numbers for _ in range(5)]
    return pa.table({"id": pa.array(ids, pa.int64()), name: pa.array(values, type)})


def literal(kind: str, number: int) -> str:
    return VALUES[kind][2].format(number)


@pytest.mark.parametrize("kind", VALUES)
def test_in_a_folder_of_files_it_skips(spark, enabled, tmp_path: Path, kind: str) -> None:
    root = tmp_path / "t"
    for number in range(6):
        write_file(root / f"f{number}.parquet", rows(kind, range(number, number + 1)))
    status = sidestep.index(spark, root)
    assert status.column_files["_block"] == 6
    for condition, files in (
        (f"_block = {literal(kind, 3)}", ["f3"]),
        (f"_block >= {literal(kind, 4)} AND id > 0", ["f4", "f5"]),
        (f"_BLOCK < {literal(kind, 1)} OR `_block` = {literal(kind, 2)}", ["f0", "f2"]),
    ):
        df = spark.read.parquet(str(root)).where(condition)
        found = rows_of(df)
        with switched_off(spark):
            assert rows_of(spark.read.parquet(str(root)).where(condition)) == found
        assert files_read(df) == [files]


@pytest.mark.parametrize("kind", VALUES)
def test_in_a_delta_table_it_skips_and_is_kept_by_all_writes(spark, enabled, tmp_path: Path, kind: str) -> None:
    root = str(tmp_path / "t")
    for number in range(4):
        write_deltalake(root, rows(kind, range(number, number + 1)), mode="append")
    sidestep.index(spark, root)
    matching, read = checked_read(spark, root, f"_block = {literal(kind, 3)}")
    assert (matching, read.files) == (5, 1)
    sidestep.delete(spark, root, where="id = 0")
    sidestep.update(spark, root, set={"id": "id + 1000"}, where=f"_block = {literal(kind, 1)}")
    sidestep.optimize(spark, root)
    make = VALUES[kind][1]
    expected = sorted((5 * n + at + 1_000 * (n == 1), make(n)) for n in range(4) for at in range(5))[1:]
    found = sidestep.read(spark, root)
    assert found.columns == ["id", "_block"]
    assert sorted(tuple(row) for row in found.collect()) == expected


@pytest.mark.parametrize("name", ["_block", "_BLOCK"])
@pytest.mark.parametrize("kind", ["int", "string"])
def test_a_table_that_is_laid_out_keeps_it_and_has_ids_of_another_name(
    spark, enabled, tmp_path: Path, kind: str, name: str
) -> None:
    source = tmp_path / "source"
    for number in range(4):
        numbers = range(5 * number, 5 * number + 5)
        write_file(source / f"f{number}.parquet", rows(kind, numbers, name))
    features = FeatureSet("source", (Feature((compare(column("id", LONG), "<", 50),)),))
    target = str(tmp_path / "t")
    sidestep.load(spark, source, target, features=features, order=[name], min_size=10)
    assert block_name(read_snapshot(target).schema) == "_block_2"
    assert sidestep.read(spark, target).columns == ["id", name]
    matching, read = checked_read(spark, target, f"{name} = {literal(kind, 3)}")
    assert matching == 5
    assert read.rows < 100, "should pass over row groups"
    assert sidestep.explain(sidestep.read(spark, target).where(f"{name} = {literal(kind, 3)}")).scans[0].by_block
    more = spark.createDataFrame(rows(kind, range(20, 22), name).to_pandas(), sidestep.read(spark, target).schema)
    sidestep.append(spark, target, more)
    sidestep.delete(spark, target, where=f"{name} = {literal(kind, 2)}")
    sidestep.optimize(spark, target)
    make = VALUES[kind][1]
    expected = sorted((5 * n + at, make(n)) for n in range(22) if n != 2 for at in range(5))
    assert sorted(tuple(row) for row in sidestep.read(spark, target).collect()) == expected
    for number in (0, 7, 21):
        assert checked_read(spark, target, f"{name} = {literal(kind, number)}")[0] == 5
    # The ids are those of the blocks, in the column with the mark.
    for path in DeltaTable(target).file_uris():
        parquet = pq.ParquetFile(path.removeprefix("file://"))
        for group in range(parquet.num_row_groups):
            assert len(set(parquet.read_row_group(group)["_block_2"].to_pylist())) == 1


def test_a_partition_column_of_that_name(spark, enabled, tmp_path: Path) -> None:
    root = tmp_path / "t"
    for number in range(4):
        write_file(root / f"_block={number}" / "f.parquet", {"id": [number]})
    sidestep.index(spark, root)
    df = spark.read.parquet(str(root)).where("_block = 2 AND id >= 0")
    assert rows_of(df) == ["Row(id=2, _block=2)"]
    assert sidestep.metrics(df).files == 1
    delta = str(tmp_path / "d")
    write_deltalake(delta, rows("int", range(3)), partition_by=["_block"])
    sidestep.load(spark, delta, min_size=2)
    assert sidestep.read(spark, delta).columns == ["id", "_block"]
    matching, read = checked_read(spark, delta, "_block = 1")
    assert (matching, read.files) == (5, 1)


def test_hidden_columns_of_old_tables_are_told_by_their_mark(spark, enabled, tmp_path: Path) -> None:
    """A laid-out table without such a column has ids of the name that they always had."""
    source = tmp_path / "source"
    write_file(source / "f.parquet", {"id": [*range(40)]})
    target = str(tmp_path / "t")
    sidestep.load(spark, source, target, order=["id"], min_size=10)
    assert block_name(read_snapshot(target).schema) == "_block"
    assert checked_read(spark, target, "id = 25")[1].rows <= 20
    copy = str(tmp_path / "copy")
    spark.read.parquet(target).write.parquet(copy)
    sidestep.load(spark, copy, str(tmp_path / "again"), order=["id"], min_size=10)
    assert sorted(row.id for row in sidestep.read(spark, str(tmp_path / "again")).collect()) == [*range(40)]
