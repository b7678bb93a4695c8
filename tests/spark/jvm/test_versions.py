"""What differs between versions of Spark, on whichever one the tests run: the short suite of ``make test-spark``."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f
from pyspark.sql.types import StructType, TimestampType

import sidestep
from sidestep.errors import SidestepError, SidestepWarning
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.versions import arrow_schema, repartition_by_id
from sidestep.spark.rule import self_check
from tests.spark.tables import rows_of, switched_off, write_file


@pytest.mark.parametrize("by_hash", [False, True])
def test_rows_go_to_the_tasks_that_they_name(spark, by_hash):
    rows = spark.range(40).select((f.col("id") % 5).cast("int").alias("task"))
    # What 4.0 has: no way to name a task.
    given: Any = SimpleNamespace(repartition=rows.repartition) if by_hash else rows
    placed = repartition_by_id(given, 5, f.col("task")).withColumn("ran_in", f.spark_partition_id())
    assert placed.select("task", "ran_in").distinct().where("task != ran_in").count() == 0
    assert placed.rdd.getNumPartitions() == 5


def test_instants_are_in_utc():
    assert arrow_schema(StructType().add("t", TimestampType())).field("t").type == pa.timestamp("us", "UTC")


def test_functions_are_built_in_or_added_or_hidden(spark):
    reader, other = Bridge(spark).new("ExpressionReader"), spark.newSession()
    other.udf.register("sidestep_own", lambda x: x, "int")
    other.udf.register("ascii", lambda x: 1, "int")

    def source(text, session=other):
        return json.loads(reader.parsed(session._jsparkSession, text))[0][6]

    assert source("abs(1)") == "builtin"
    assert source("ascii('a')") == "shadow"
    assert source("sidestep_own(1)") not in ("builtin", "shadow", "")
    assert source("no_such_function(1)") == ""
    assert source("ascii('a')", spark) == "builtin"


def test_a_table_lives_and_is_skipped(spark, enabled, tmp_path):
    rows = spark.range(400).selectExpr("id", "id % 7 AS k", "date_add(DATE'2024-01-01', CAST(id AS INT)) AS day")
    rows.write.parquet(str(tmp_path / "t"))
    table = str(tmp_path / "t")
    sidestep.load(spark, table, str(tmp_path / "laid"), by="trunc(day, 'MONTH')", min_size=20)
    laid = str(tmp_path / "laid")
    sidestep.append(spark, laid, spark.range(400, 420).selectExpr("id", "0L AS k", "DATE'2026-01-01' AS day"))
    sidestep.delete(spark, laid, "day < DATE'2024-01-03'")
    df = sidestep.read(spark, laid).where("day < DATE'2024-02-01'")
    with switched_off(spark):
        expected = rows_of(sidestep.read(spark, laid).where("day < DATE'2024-02-01'"))
    assert rows_of(df) == expected
    assert len(expected) == 29
    assert sidestep.metrics(df).files < sidestep.metrics(_ran(sidestep.read(spark, laid))).files


def test_row_groups_and_joins_that_choose_when_they_run(spark, enabled, tmp_path):
    for number in range(8):
        ids = pa.array(range(100 * number, 100 * number + 100), pa.int64())
        write_file(tmp_path / "f" / f"f{number}.parquet", {"id": ids}, row_group_size=10)
    write_file(tmp_path / "d" / "d.parquet", {"k": pa.array([5, 105], pa.int64()), "x": ["a", "b"]})
    sidestep.index(spark, str(tmp_path / "f"))
    facts, keys = spark.read.parquet(str(tmp_path / "f")), spark.read.parquet(str(tmp_path / "d"))
    some = facts.where("id BETWEEN 33 AND 44")
    assert len(some.collect()) == 12
    assert sidestep.metrics(some).rows <= 20, "two row groups of one file"
    joined = facts.join(f.broadcast(keys.where("upper(x) = 'A'")), facts.id == keys.k)
    assert [row.id for row in joined.collect()] == [5]
    assert sidestep.metrics(joined).files == 2, "a file of each"


def _ran(df):
    df.collect()
    return df


def test_a_newer_spark_is_tried_with_a_warning(spark, enabled, monkeypatch):
    newer: Any = SimpleNamespace(version="4.9.0", read=spark.read, sparkContext=spark.sparkContext)
    with pytest.warns(SidestepWarning, match=r"this session runs Spark 4\.9\.0: a short trial went well"):
        self_check.self_check(newer, enabled.bridge, enabled.inspector)
    with switched_off(spark), pytest.raises(SidestepError, match="1 of 2 files would read 2"):
        self_check.self_check(newer, enabled.bridge, enabled.inspector)
