"""Delta tables, read through their log without a jar: the files of a version, skipped where they are known."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import sidestep
from tests.spark.tables import checked_read, rows_of, switched_off


def decade(number: int) -> pa.Table:
    ids = range(10 * number, 10 * number + 10)
    return pa.table({"id": pa.array(ids, pa.int64()), "s": [f"k{i:03d}" for i in ids], "p": ["even", "odd"] * 5})


@pytest.fixture
def table(tmp_path):
    """Five commits of one file each."""
    root = str(tmp_path / "delta")
    for number in range(5):
        write_deltalake(root, decade(number), mode="append")
    return root


def read(spark, root, condition, **options):
    """How many rows match, and the number of files that were read."""
    matching, scanned = checked_read(spark, root, condition, **options)
    return matching, scanned.files


def test_files_of_a_delta_table_are_skipped(spark, enabled, table):
    assert read(spark, table, "id < 15") == (15, 5), "without an index"
    sidestep.index(spark, table)
    assert read(spark, table, "id < 15") == (15, 2)
    assert read(spark, table, "s LIKE 'k04%' OR id = 5") == (11, 2)
    assert read(spark, table, "id < 0") == (0, 0)


def test_time_travel_reads_the_files_of_that_version(spark, enabled, table):
    sidestep.index(spark, table)
    assert read(spark, table, "id >= 15", version=2) == (15, 2)
    assert read(spark, table, "id >= 15", version=0) == (0, 0)


def test_a_file_appended_after_indexing_is_read_until_it_is_indexed(spark, enabled, table):
    sidestep.index(spark, table)
    write_deltalake(table, decade(9), mode="append")
    assert read(spark, table, "id < 5") == (5, 2)
    assert sidestep.explain(sidestep.read(spark, table).where("id < 5")).scans[0].unknown_files == 1
    sidestep.index(spark, table)
    assert read(spark, table, "id < 5") == (5, 1)
    assert read(spark, table, "id > 92") == (7, 1)


def test_after_an_overwrite_nothing_old_is_believed(spark, enabled, table):
    sidestep.index(spark, table)
    write_deltalake(table, decade(1), mode="overwrite")
    assert read(spark, table, "id < 15") == (5, 1)
    assert read(spark, table, "id < 5") == (0, 1)
    assert read(spark, table, "id < 5", version=4) == (5, 1)
    sidestep.index(spark, table)
    assert read(spark, table, "id < 5") == (0, 0)


def test_after_a_delete_the_rewritten_file_is_unknown(spark, enabled, table):
    sidestep.index(spark, table)
    DeltaTable(table).delete("id IN (3, 4)")
    assert read(spark, table, "id < 5") == (3, 1)
    assert read(spark, table, "id > 45") == (4, 2), "the rewritten file is not known"
    sidestep.index(spark, table)
    assert read(spark, table, "id > 45") == (4, 1)


def test_partition_values_come_from_the_log(spark, enabled, tmp_path):
    root = str(tmp_path / "delta")
    for number in range(3):
        write_deltalake(root, decade(number), mode="append", partition_by=["p"])
    sidestep.index(spark, root)
    assert read(spark, root, "p = 'odd'") == (15, 3)
    assert read(spark, root, "p = 'odd' AND id < 10") == (5, 1)
    assert read(spark, root, "p = 'odd' OR id < 10") == (20, 4)
    assert read(spark, root, "reverse(p) = 'ddo' AND id > 22") == (4, 1)
    assert read(spark, root, "p IS NULL") == (0, 0)
    assert read(spark, root, "p <> 'odd' AND id IN (0, 20)") == (2, 2)


def test_a_null_partition_value_is_null(spark, enabled, tmp_path):
    root = str(tmp_path / "delta")
    data = pa.table({"id": [1, 2, 3], "p": pa.array([None, 7, 8], pa.int32())})
    write_deltalake(root, data, partition_by=["p"])
    sidestep.index(spark, root)
    assert read(spark, root, "p IS NULL") == (1, 1)
    assert read(spark, root, "p <=> NULL OR p = 8") == (2, 2)
    assert read(spark, root, "p > 7 OR id = 1") == (2, 2)
    assert read(spark, root, "NOT (p = 7)") == (1, 1)


def test_two_versions_in_one_query_are_two_tables(spark, enabled, table):
    sidestep.index(spark, table)
    old, new = sidestep.read(spark, table, version=1), sidestep.read(spark, table)
    df = old.where("id < 5").unionAll(new.where("id < 5"))
    assert df.count() == 10
    assert new.join(old, "id", "left_anti").count() == 30


def test_the_plain_parquet_files_below_a_delta_table_are_not_mistaken_for_it(spark, enabled, table):
    sidestep.index(spark, table)
    DeltaTable(table).delete("id < 10")
    assert read(spark, table, "id < 10")[0] == 0
    with switched_off(spark):
        expected = rows_of(spark.read.parquet(table).where("id < 15"))
    assert rows_of(spark.read.parquet(table).where("id < 15")) == expected
