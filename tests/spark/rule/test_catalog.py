"""Laid-out tables by names of the catalog: the rows that they have now, in every session with sidestep, or none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import AnalysisException

import sidestep
from tests.spark.grouped import Group, write_groups
from tests.spark.tables import rows_of, switched_off


@pytest.fixture(autouse=True)
def database(spark):
    spark.sql("CREATE DATABASE IF NOT EXISTS registered")
    yield
    spark.sql("DROP DATABASE registered CASCADE")


@pytest.fixture
def delta(spark, tmp_path) -> str:
    """A Delta table of two files, indexed."""
    path = str(tmp_path / "it's a table")
    for start in (0, 10):
        write_deltalake(path, pa.table({"id": range(start, start + 10), "odd.name": ["x"] * 10}), mode="append")
    sidestep.index(spark, path)
    return path


def test_a_delta_table_by_name_skips_and_is_always_new(spark, enabled, delta):
    sidestep.register(spark, "registered.t", delta)
    few = "SELECT id, `odd.name` FROM registered.t WHERE id < 5"
    assert sidestep.metrics(spark.sql(few)).files == 1
    found = rows_of(spark.sql(few))
    with switched_off(spark):
        assert sidestep.metrics(spark.sql(few)).files == 2
        assert rows_of(spark.sql(few)) == found
    assert len(found) == 5
    DeltaTable(delta).delete("id = 3")
    read = spark.sql("SELECT id FROM registered.t WHERE id < 5")
    assert sorted(row.id for row in read.collect()) == [0, 1, 2, 4], "the file of before is still there"
    assert sidestep.read(spark, "registered.t").where("id < 5").count() == 4
    sidestep.index(spark, "registered.t")
    many = "SELECT id FROM registered.t WHERE id >= 10"
    (kept,) = sidestep.metrics(spark.sql(many)).scans[0].paths
    for path in Path(delta).glob("*.parquet"):
        if str(path) != kept:
            path.unlink()
    assert len(spark.sql(many).collect()) == 10, "with the files that are skipped deleted"


def forget_function(spark) -> None:
    """Make the session as if it had been made before sidestep was enabled anywhere."""
    registry = spark._jsparkSession.sessionState().tableFunctionRegistry()
    known = registry.listFunction()
    for identifier in [known.apply(number) for number in range(known.size())]:
        if identifier.funcName() == "sidestep_table":
            registry.dropFunction(identifier)


def test_new_sessions_know_it_where_sidestep_is_enabled_and_fail_elsewhere(spark, delta):
    sidestep.register(spark, "registered.t", delta)
    few = "SELECT count(*) FROM registered.t WHERE id < 5"
    with sidestep.enable(spark, everywhere=True):
        later = spark.newSession()
        assert later.sql(few).first()[0] == 5
        assert sidestep.metrics(later.table("registered.t").where("id < 5")).files == 1
        assert later.sql("SELECT a.id FROM registered.t a JOIN registered.t b ON a.id = b.id").count() == 20
    without = spark.newSession()
    forget_function(without)
    with pytest.raises(AnalysisException, match="sidestep_table"):
        without.sql(few)
    with sidestep.enable(without):
        assert without.sql(few).first()[0] == 5


def test_what_is_cached_is_not_taken_for_a_newer_version(spark, enabled, delta):
    sidestep.register(spark, "registered.t", delta)
    cached = spark.table("registered.t").cache()
    try:
        assert cached.count() == 20
        write_deltalake(delta, pa.table({"id": [100], "odd.name": ["y"]}), mode="append")
        assert spark.table("registered.t").count() == 21
    finally:
        cached.unpersist()


def test_a_table_in_column_groups_by_name(spark, delta, tmp_path):
    rows = pa.table({"a": pa.array(range(60), pa.int32()), "b": pa.array(range(60, 0, -1), pa.int32())})
    root, _ = write_groups(tmp_path / "g", rows, [Group(["a"], "a"), Group(["b"], "b")], units=3)
    sidestep.register(spark, "registered.g", root)
    query = "SELECT a, b FROM registered.g WHERE a < 5 ORDER BY a"
    with sidestep.enable(spark):
        assert [tuple(row) for row in spark.sql(query).collect()] == [(each, 60 - each) for each in range(5)]
    with pytest.raises(Exception, match=r"sidestep\.enable\(spark\)"):
        spark.sql(query).collect()


def test_names_are_taken_once_and_given_back(spark, enabled, delta):
    spark.sql("CREATE VIEW registered.mine AS SELECT 1 AS one")
    with pytest.raises(sidestep.SidestepError, match="another table or view"):
        sidestep.register(spark, "registered.mine", delta)
    for _ in range(2):
        sidestep.register(spark, "registered.t", delta)
    spark.sql("USE registered")
    try:
        assert spark.table("t").count() == 20
        spark.sql("CREATE VIEW over AS SELECT id FROM t WHERE id >= 15")
        assert spark.sql("SELECT count(*) FROM over").first()[0] == 5
    finally:
        spark.sql("USE default")
    spark.sql("DROP VIEW registered.t")
    assert DeltaTable(delta).version() == 1


def test_the_function_takes_a_path_and_nothing_else(spark, enabled, delta, tmp_path):
    for call in ("sidestep_table()", "sidestep_table(NULL)"):
        with pytest.raises(Exception, match="takes the path of a table"):
            spark.sql(f"SELECT * FROM {call}").collect()
    with pytest.raises(sidestep.SidestepError, match="function sidestep_table"):
        sidestep.query(spark, "SELECT * FROM sidestep_table('/elsewhere')")
    with pytest.raises(Exception, match="nothing at"):
        spark.sql(f"SELECT * FROM sidestep_table('{tmp_path}/none')").collect()
