"""Tables given by their names in the catalog: their columns, partitions and files are what the catalog says."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sidestep
from sidestep.errors import UnsupportedTable
from tests.spark.tables import rows_of, write_file

pytestmark = pytest.mark.spark


@pytest.fixture
def named(spark):
    spark.sql("CREATE DATABASE named")
    yield
    spark.sql("DROP DATABASE named CASCADE")


@pytest.fixture
def parts(spark, named, tmp_path):
    """A table of two partitions in its folder, and rows elsewhere."""
    spark.sql(
        f"CREATE TABLE named.parts (x INT, p INT) USING parquet PARTITIONED BY (p) LOCATION '{tmp_path / 'parts'}'"
    )
    spark.sql("INSERT INTO named.parts VALUES (1, 1), (2, 2)")
    write_file(tmp_path / "elsewhere" / "f.parquet", {"x": pa.array([3], pa.int32())})
    return tmp_path


def test_a_column_may_be_called_location(spark, named):
    spark.sql("CREATE TABLE named.places (id INT, Location STRING) USING parquet")
    spark.sql("INSERT INTO named.places VALUES (1, 'here')")
    assert sidestep.index(spark, "named.places").indexed_files == 1
    assert sidestep.read(spark, "named.places").collect() == [(1, "here")]


def test_partitions_elsewhere_are_read_and_no_table_is_made_without_them(spark, parts):
    spark.sql(f"ALTER TABLE named.parts ADD PARTITION (p = 3) LOCATION '{parts / 'elsewhere'}'")
    assert sorted(sidestep.read(spark, "named.parts").collect()) == [(1, 1), (2, 2), (3, 3)]
    with pytest.raises(UnsupportedTable, match="1 file elsewhere, and the folder 0 files"):
        sidestep.load(spark, "named.parts", str(parts / "laid"))
    assert not (parts / "laid").exists()


def test_partitions_that_were_dropped_do_not_come_back(spark, parts):
    spark.sql("ALTER TABLE named.parts DROP PARTITION (p = 1)")
    assert sidestep.read(spark, "named.parts").collect() == [(2, 2)]
    with pytest.raises(UnsupportedTable, match="0 files elsewhere, and the folder 1 file of no"):
        sidestep.load(spark, "named.parts", str(parts / "laid"))
    sidestep.load(spark, str(parts / "parts"), str(parts / "laid"), min_size=1)
    assert sidestep.read(spark, str(parts / "laid")).count() == 2, "by its path, it is what the folder holds"


def test_columns_and_partition_values_are_the_catalogs(spark, parts):
    """A column that files have not got yet, and a folder that is another partition's than its name says."""
    spark.sql("ALTER TABLE named.parts DROP PARTITION (p = 2)")
    spark.sql(f"ALTER TABLE named.parts ADD PARTITION (p = 7) LOCATION '{parts / 'parts' / 'p=2'}'")
    spark.sql("ALTER TABLE named.parts ADD COLUMNS (added STRING DEFAULT 'new', other INT)")
    expected = rows_of(spark.table("named.parts"))
    assert sorted((row.p, row.added) for row in spark.table("named.parts").collect()) == [(1, "new"), (7, "new")]
    assert rows_of(sidestep.read(spark, "named.parts")) == expected
    sidestep.load(spark, "named.parts", str(parts / "laid"), min_size=1)
    laid = sidestep.read(spark, str(parts / "laid"))
    assert rows_of(laid.select(spark.table("named.parts").columns)) == expected
    batch = sidestep.append(spark, str(parts / "laid"), "named.parts")
    assert (batch.rows, laid.columns) == (2, spark.table("named.parts").columns)
