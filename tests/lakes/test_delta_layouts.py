"""Tables that sidestep laid out are ordinary Delta tables: in the catalog, by Delta's own reader, with skipping."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import sidestep
from sidestep.prune.explain.explanation import Amounts
from sidestep.spark.jvm.bridge import Bridge
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
    assert scan.row_groups == Amounts(12, 1)
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


def test_a_denormalized_table_never_stands_for_tables_that_delta_reads(spark, tmp_path):
    """The same files may have fewer rows by now than when they were joined."""
    root = {"facts": tmp_path / "facts", "items": tmp_path / "items"}
    write_deltalake(str(root["items"]), pa.table({"k": range(7), "name": [f"n{number}" for number in range(7)]}))
    write_deltalake(str(root["facts"]), pa.table({"id": range(200), "of": [number % 7 for number in range(200)]}))
    ask = "SELECT f.id, i.name FROM facts f JOIN items i ON f.of = i.k WHERE i.name = 'n3'"
    tables = {name: str(path) for name, path in root.items()}
    sidestep.denormalize(spark, [ask] * 4, tables, tmp_path / "joined", fact="facts", layout="sop", min_size=10)
    spark.sql(f"ALTER TABLE delta.`{root['facts']}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for name, path in root.items():
        load(spark, path).createOrReplaceTempView(name)
    with sidestep.enable(spark), settings(spark, spark__sidestep__denormalized__leastGain="0"):
        for _ in range(2):
            with switched_off(spark):
                expected = rows_of(spark.sql(ask))
            query = spark.sql(ask)
            assert rows_of(query) == expected
            assert not any("joined" in scan.table for scan in sidestep.metrics(query).scans)
            spark.sql(f"DELETE FROM delta.`{root['facts']}` WHERE id = 3")
    assert len(expected) == 28


def test_a_delta_that_sidestep_does_not_know_is_read_as_ever(spark, enabled, tmp_path):
    path = make_table(spark, tmp_path / "t")
    sidestep.index(spark, str(path))
    reader = Bridge(spark).load("DeltaReader")
    fields = {name: reader.getDeclaredField(name) for name in ("access", "problem")}
    for each in fields.values():
        each.setAccessible(True)
    known = fields["access"].get(None)
    fields["access"].set(None, None)
    fields["problem"].set(None, "no such class")
    try:
        query = load(spark, path).where("code = 'c00417'")
        (scan,) = sidestep.explain(query).scans
        assert scan.reason == "this version of delta-spark is not one that sidestep knows: no such class"
        assert len(query.collect()) == 1
        assert sidestep.metrics(query).files == 8
    finally:
        fields["problem"].set(None, None)
        fields["access"].set(None, known)
