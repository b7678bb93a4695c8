"""``enable(everywhere=True)``: the sessions that are made later skip as well, each by its own settings."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import sidestep
from sidestep.prune.explain.explanation import Amounts
from sidestep.spark.jvm.sessions import quiet_session
from sidestep.spark.rule.session import state_of
from tests.spark.grouped import Group, write_groups
from tests.spark.load.test_leaks import wait_for
from tests.spark.tables import files_read, names, with_only, write_file

BOTH = names([0, 1])


@pytest.fixture(scope="module")
def t(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("everywhere") / "t"
    for file in range(2):
        write_file(root / f"f{file}.parquet", {"id": pa.array(range(10 * file, 10 * file + 10))})
    sidestep.index(spark, str(root))
    return root


@pytest.fixture
def everywhere(spark):
    with sidestep.enable(spark, everywhere=True) as state:
        yield state
        assert state.last_problem == ""


def few(spark, t):
    return spark.read.parquet(str(t)).where("id < 5")


def copied(spark):
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())


def rules(spark) -> list[str]:
    found = spark._jsparkSession.experimental().extraOptimizations()
    return [found.apply(number).toString() for number in range(found.size())]


def test_the_first_query_of_a_later_session_skips(spark, everywhere, t, tmp_path):
    other = spark.newSession()
    df = few(other, t)
    assert files_read(df) == [["f0"]]
    assert sidestep.explain(few(other, t)).scans[0].files == Amounts(2, 1)
    left = with_only(t, [str(t / "f0.parquet")], tmp_path / "left")
    assert few(other, left).collect() == df.collect(), "with the skipped file deleted"
    assert "made after it" in repr(everywhere)


def test_sql_of_a_later_session_skips_by_its_own_settings(spark, everywhere, t):
    one, other = spark.newSession(), spark.newSession()
    one.sql("SET spark.sidestep.enabled=false")
    text = f"SELECT * FROM parquet.`{t}` WHERE id < 5"
    assert files_read(one.sql(text)) == [BOTH]
    assert files_read(other.sql(text)) == [["f0"]]
    assert "spark.sidestep.enabled" in " ".join(sidestep.explain(few(one, t)).notes)
    one.sql("SET spark.sidestep.enabled=true")
    assert files_read(one.sql(text)) == [["f0"]]


def test_it_is_brought_once_and_copies_have_it(spark, everywhere, t):
    other = spark.newSession()
    for _ in range(3):
        assert files_read(few(other, t)) == [["f0"]]
        assert sidestep.enable(spark, everywhere=True) is everywhere
    assert len(rules(other)) == 1
    for copy in (copied(other), copied(spark), copied(spark.newSession())):
        assert files_read(few(copy, t)) == [["f0"]]
        assert len(rules(copy)) == 1
        assert state_of(copy) is everywhere
    assert files_read(few(quiet_session(other), t)) == [BOTH]


def test_disable_where_it_was_enabled_takes_it_from_all(spark, t):
    sidestep.enable(spark, everywhere=True)
    other = spark.newSession()
    planned = few(other, t)
    assert files_read(planned) == [["f0"]]
    sidestep.disable(spark)
    assert rules(other) == []
    assert files_read(few(other, t)) == files_read(few(spark.newSession(), t)) == [BOTH]
    assert state_of(other) is None
    assert planned.count() == 5, "a query planned before still runs"
    with sidestep.enable(spark, everywhere=True):
        assert files_read(few(other, t)) == files_read(few(spark.newSession(), t)) == [["f0"]]


def test_disable_in_a_later_session_is_for_that_one(spark, everywhere, t):
    one, other = spark.newSession(), spark.newSession()
    assert files_read(few(one, t)) == [["f0"]]
    sidestep.disable(one)
    sidestep.disable(one)
    assert files_read(few(one, t)) == [BOTH]
    assert rules(one) == []
    assert files_read(few(other, t)) == files_read(few(spark, t)) == [["f0"]]
    sidestep.enable(one)
    assert files_read(few(one, t)) == [["f0"]]
    sidestep.disable(other, everywhere=True)
    assert files_read(few(other, t)) == files_read(few(spark, t)) == [BOTH]
    assert files_read(few(one, t)) == [["f0"]], "it was enabled on its own"
    sidestep.disable(one)


def test_a_later_session_can_have_its_own(spark, everywhere, t, tmp_path):
    other = spark.newSession()
    assert files_read(few(other, t)) == [["f0"]]
    with sidestep.enable(other, index_dir=str(tmp_path)) as own:
        assert files_read(few(other, t)) == [BOTH], "there is no index in that folder"
        assert len(rules(other)) == 1
        assert state_of(other) is own
        assert files_read(few(spark.newSession(), t)) == [["f0"]]
    assert files_read(few(other, t)) == [["f0"]]


def test_enabled_everywhere_from_another_session_the_latest_counts(spark, everywhere, t, tmp_path):
    other = spark.newSession()
    with sidestep.enable(other, everywhere=True, index_dir=str(tmp_path)) as latest:
        later = spark.newSession()
        assert files_read(few(later, t)) == [BOTH]
        assert state_of(later) is latest
        assert files_read(few(spark, t)) == [["f0"]]
    assert files_read(few(spark, t)) == [["f0"]]


def test_many_threads_begin_a_session_at_once(spark, everywhere, t):
    other = spark.newSession()
    read: list[object] = []
    threads = [threading.Thread(target=lambda: read.append(files_read(few(other, t)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [[["f0"]]] * 8
    assert len(rules(other)) == 1


def test_queries_of_all_sessions_are_recorded_once(spark, t, tmp_path):
    log = tmp_path / "log.jsonl"
    with sidestep.enable(spark, everywhere=True, record=str(log)):
        other = spark.newSession()
        few(spark, t).collect()
        few(other, t).collect()
        few(copied(other), t).collect()
    few(other, t).collect()
    assert len(log.read_text().splitlines()) == 3


def test_a_table_in_column_groups_is_read_in_a_later_session(spark, everywhere, tmp_path):
    table = pa.table({"a": pa.array(range(60), pa.int32()), "b": pa.array(range(60, 0, -1), pa.int32())})
    root, _ = write_groups(tmp_path / "t", table, [Group(["a"], "a"), Group(["b"], "b")], units=3)
    there = sidestep.read(spark.newSession(), root).where("a < 5")
    assert sorted((row.a, row.b) for row in there.collect()) == [(each, 60 - each) for each in range(5)]


def test_a_session_that_is_gone_leaves_nothing_behind(spark, everywhere, t):
    jvm = spark.sparkContext._jvm

    def use():
        other = spark.newSession()
        assert files_read(few(other, t)) == [["f0"]]
        return jvm.java.lang.ref.WeakReference(other._jsparkSession)

    used = [use() for _ in range(4)]
    # Without sidestep, too, Spark and pyspark hold on to the one that was used last.
    wait_for(spark, lambda: sum(each.get() is not None for each in used) <= 1)
