"""Tables that sidestep laid out are ordinary Delta tables: in the catalog, by Delta's own reader, with skipping."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import sidestep
from tests.lakes.delta_tables import check_deadly, load, make_table
from tests.spark.laidout import lay_out
from tests.spark.tables import rows_of, settings, switched_off

ROWS = 10


def block(number: int) -> pa.Table:
    ids = range(ROWS * number, ROWS * number + ROWS)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "k": pa.array([number] * ROWS, pa.int32()),
            "name": [f"n{number:04d}"] * ROWS,
            "five": pa.array([5] * ROWS, pa.int32()),
        }
    )


@pytest.fixture
def table(spark, tmp_path):
    """Three files of four blocks each, in the catalog."""
    root = lay_out(tmp_path / "t", [[block(4 * file + at) for at in range(4)] for file in range(3)])
    sidestep.index(spark, root)
    spark.sql(f"CREATE TABLE laid_out USING delta LOCATION '{root}'")
    yield "laid_out"
    spark.sql("DROP TABLE laid_out")


def read(spark, sql: str) -> tuple[int, int, int]:
    """How many rows match, the same with sidestep on and off, and the files and rows that the scan read."""
    with switched_off(spark):
        expected = rows_of(spark.sql(sql))
    query = spark.sql(sql)
    assert rows_of(query) == expected
    (scan,) = sidestep.metrics(query).scans
    return len(expected), scan.files, scan.rows


def test_row_groups_are_left_out_of_files_that_delta_reads(spark, enabled, table):
    # Parquet's own filters cannot compare two columns.
    by_columns = f"SELECT id FROM {table} WHERE k = five"
    assert read(spark, by_columns) == (10, 1, 10)
    (scan,) = sidestep.explain(spark.sql(by_columns)).scans
    assert (scan.row_groups.total, scan.row_groups.kept) == (12, 1)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 55)")
    assert read(spark, by_columns) == (9, 1, 10)
    # Who asks for places in a file must be told those of whole files.
    told = f"SELECT id, _metadata.row_index, _metadata.file_block_length FROM {table} WHERE k = five"
    assert read(spark, told)[0] == 9
    with settings(spark, spark__databricks__delta__deletionVectors__useMetadataRowIndex="false"):
        assert read(spark, by_columns) == (9, 1, 40)
    # An update writes old block ids into a new file, which no entry speaks of.
    spark.sql(f"UPDATE {table} SET name = 'other' WHERE id = 57")
    assert read(spark, by_columns)[0] == 9
    assert read(spark, f"SELECT id FROM {table} WHERE name = 'other'")[0] == 1


def test_a_loaded_table_is_read_by_name(spark, enabled, tmp_path):
    source = make_table(spark, tmp_path / "source")
    target = tmp_path / "laid"
    sidestep.load(spark, str(source), str(target), order=["k"], min_size=50)
    spark.sql(f"CREATE TABLE loaded USING delta LOCATION '{target}'")
    try:
        expected, _, rows = read(spark, "SELECT id FROM loaded WHERE k = 3")
        assert expected == 114
        assert rows < 400
    finally:
        spark.sql("DROP TABLE loaded")


def test_awkward_partitions(spark, enabled, tmp_path):
    path = tmp_path / "t"
    values = ["a b", "x%y", "k=v", "né", "a/b", "10%25", None]
    write_deltalake(str(path), pa.table({"p": values, "x": range(len(values))}), partition_by=["p"])
    sidestep.index(spark, str(path))
    for number, value in enumerate(values):
        ask = lambda number=number: load(spark, path).where(f"x = {number}")  # noqa: E731
        assert len(check_deadly(spark, ask, path, most=1)) == 1, value
    times = tmp_path / "times"
    spark.sql(f"CREATE TABLE delta.`{times}` (id bigint, at timestamp) USING delta PARTITIONED BY (at)")
    spark.sql(f"INSERT INTO delta.`{times}` VALUES (1, timestamp'2024-01-01'), (2, timestamp'2024-01-02')")
    sidestep.index(spark, str(times))
    assert len(check_deadly(spark, lambda: load(spark, times).where("id = 2"), times, most=1)) == 1
    by_time = lambda: load(spark, times).where("at = timestamp'2024-01-02'")  # noqa: E731
    assert len(check_deadly(spark, by_time, times, most=1)) == 1
