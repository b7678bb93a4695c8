"""What others do with a table that has an index, and what a query may do to its columns' types on the way."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import sidestep
from tests.spark.tables import files_read, set_age, settings, switched_off, write_file


@pytest.mark.parametrize("partitioned", [False, True])
def test_the_index_is_not_read_as_data_by_a_glob(spark, enabled, tmp_path, partitioned):
    for file in range(2):
        folder = tmp_path / "t" / f"p={file}" if partitioned else tmp_path / "t"
        write_file(folder / f"f{file}.parquet", {"id": list(range(10 * file, 10 * file + 10))})
    sidestep.index(spark, str(tmp_path / "t"))
    df = spark.read.parquet(f"{tmp_path}/t/*")
    assert df.columns == ["id"]
    assert df.count() == 20
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/t/**/*.parquet'").fetchall() == [(20,)]


@pytest.mark.parametrize(
    "condition",
    [
        "CAST(ym AS INTERVAL YEAR) = INTERVAL '1' YEAR",
        "CAST(dt AS INTERVAL DAY) = INTERVAL '1' DAY",
        "CAST(dt AS INTERVAL DAY TO HOUR) IN (INTERVAL '1 12' DAY TO HOUR)",
        "NOT CAST(ym AS INTERVAL YEAR) > INTERVAL '1' YEAR",
    ],
)
def test_a_cast_that_cuts_an_interval_is_no_identity(spark, enabled, tmp_path, condition):
    for number, (ym, dt) in enumerate([("1-6", "1 12:00:00.5"), ("2-0", "2 00:00:00")]):
        rows = spark.sql(
            f"SELECT INTERVAL '{ym}' YEAR TO MONTH ym, INTERVAL '{dt}' DAY TO SECOND dt, {number} AS i"
        ).coalesce(1)
        rows.write.mode("append").parquet(str(tmp_path / "t"))
    sidestep.index(spark, str(tmp_path / "t"))
    assert _ids(spark, tmp_path, None, condition, "i") == [0]


@pytest.mark.parametrize(
    ("stored", "values", "schema", "condition", "expected"),
    [
        (pa.uint8(), [200, 5], "x TINYINT", "x < 0", [-56]),
        (pa.uint16(), [60_000, 5], "x SMALLINT", "x < 0", [-5536]),
        (pa.int32(), [5, 70_000], "x BIGINT", "x > 60000", [70_000]),
    ],
)
@pytest.mark.filterwarnings("ignore:Column x is indexed as")
def test_a_schema_may_cut_integers(spark, enabled, tmp_path, stored, values, schema, condition, expected):
    for number, value in enumerate(values):
        write_file(tmp_path / "t" / f"f{number}.parquet", {"x": pa.array([value], stored)})
    sidestep.index(spark, str(tmp_path / "t"))
    assert _ids(spark, tmp_path, schema, condition, "x") == expected


def test_a_table_rewritten_in_place_is_read_anew_by_a_derived_query(spark, enabled, tmp_path):
    for number in range(2):
        write_file(tmp_path / "t" / f"f{number}.parquet", {"x": [100 * number + 1, 100 * number + 2]})
    sidestep.index(spark, str(tmp_path / "t"))
    df = spark.read.parquet(str(tmp_path / "t"))
    assert sorted(row.x for row in df.where("x > 100").collect()) == [101, 102]
    pq.write_table(pa.table({"x": [501, 502]}), tmp_path / "t" / "f0.parquet")
    set_age(tmp_path / "t" / "f0.parquet", 5)
    assert sorted(row.x for row in df.where("x > 100").collect()) == [101, 102, 501, 502]


@pytest.mark.parametrize(("ids", "read"), [(False, ["f1"]), (True, ["f0", "f1"])])
def test_field_ids_are_in_the_way_only_of_a_schema_that_has_them(spark, enabled, tmp_path, ids, read):
    """Delta's connector switches the setting on for the whole session when it first writes."""
    for number in range(2):
        x = pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "7"})
        schema = pa.schema([x, pa.field("y", pa.int64(), metadata={"PARQUET:field_id": "8"})])
        write_file(tmp_path / f"f{number}.parquet", pa.table({"x": [100 * number], "y": [0]}, schema=schema))
    sidestep.index(spark, str(tmp_path))
    named = StructField("x", LongType(), metadata={"parquet.field.id": 8} if ids else {})
    # Spark itself looks for the name in what files say of their values.
    by_id = {"spark__sql__parquet__fieldId__read__enabled": "true", "spark__sql__parquet__filterPushdown": "false"}
    with settings(spark, **by_id):
        df = spark.read.schema(StructType([named])).parquet(str(tmp_path)).where("x < 50" if ids else "x >= 100")
        assert [row.x for row in df.collect()] == ([0, 0] if ids else [100])
        assert files_read(df) == [read]


def _ids(spark, tmp_path, schema, condition, column):
    reader = spark.read if schema is None else spark.read.schema(schema)
    query = reader.parquet(str(tmp_path / "t")).where(condition).select(column)
    on = sorted(row[0] for row in query.collect())
    with switched_off(spark):
        off = reader.parquet(str(tmp_path / "t")).where(condition).select(column)
        assert sorted(row[0] for row in off.collect()) == on
    return on
