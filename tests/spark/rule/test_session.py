"""Turning sidestep on and off in sessions, and what explain says where it does nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sidestep
from sidestep.prune.explain.explanation import Amounts
from tests.spark.tables import files_read, names, settings, switched_off, write_file

BOTH = names([0, 1])


@pytest.fixture(scope="module")
def t(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("session") / "t"
    for file in range(2):
        write_file(root / f"f{file}.parquet", {"id": pa.array(range(10 * file, 10 * file + 10))})
    sidestep.index(spark, str(root))
    return root


def few(spark, t):
    return spark.read.parquet(str(t)).where("id < 5")


def test_nothing_is_skipped_before_it_is_enabled_and_explain_says_so(spark, t):
    df = few(spark, t)
    assert files_read(df) == [BOTH]
    assert "not enabled" in " ".join(sidestep.explain(df).notes)


def test_a_with_block_enables_for_its_length(spark, t):
    with sidestep.enable(spark) as state:
        assert "enabled" in repr(state)
        assert files_read(few(spark, t)) == [["f0"]]
    assert files_read(few(spark, t)) == [BOTH]


def test_disable_leaves_later_queries_alone_and_may_be_called_twice(spark, t):
    sidestep.enable(spark)
    df = few(spark, t)
    assert files_read(df) == [["f0"]]
    sidestep.disable(spark)
    sidestep.disable(spark)
    assert files_read(few(spark, t)) == [BOTH]
    assert df.count() == 5, "a query planned before still runs"


def test_enabling_twice_is_enabling_once(spark, t):
    before = rules(spark)
    with sidestep.enable(spark) as state:
        assert sidestep.enable(spark) is state
        assert len(rules(spark)) == len(before) + 1
        assert files_read(few(spark, t)) == [["f0"]]
    assert len(rules(spark)) == len(before)


def rules(spark) -> list[str]:
    found = spark._jsparkSession.experimental().extraOptimizations()
    return [found.apply(number).toString() for number in range(found.size())]


def test_enabling_with_another_index_folder_takes_its_place(spark, t, tmp_path):
    with sidestep.enable(spark):
        assert files_read(few(spark, t)) == [["f0"]]
        with sidestep.enable(spark, index_dir=str(tmp_path)):
            assert files_read(few(spark, t)) == [BOTH]
            sidestep.index(spark, str(t), index_dir=str(tmp_path))
            assert files_read(few(spark, t)) == [["f0"]]
    sidestep.disable(spark)


def test_another_rule_in_the_session_survives(spark, t):
    jvm = spark.sparkContext._jvm
    experimental = spark._jsparkSession.experimental()
    rule = getattr(getattr(jvm, "org.apache.spark.sql.catalyst.optimizer.CollapseProject$"), "MODULE$")
    before = experimental.extraOptimizations()
    one = jvm.java.util.ArrayList()
    one.add(rule)
    getattr(experimental, "extraOptimizations_$eq")(jvm.scala.jdk.javaapi.CollectionConverters.asScala(one).toSeq())
    try:
        with sidestep.enable(spark):
            assert len(rules(spark)) == 2
            assert files_read(few(spark, t)) == [["f0"]]
        assert rules(spark) == [rule.toString()]
    finally:
        getattr(experimental, "extraOptimizations_$eq")(before)


def test_sql_can_switch_it_off_and_on(spark, enabled, t):
    spark.sql("SET spark.sidestep.enabled=false")
    try:
        df = few(spark, t)
        assert files_read(df) == [BOTH]
        assert "spark.sidestep.enabled" in " ".join(sidestep.explain(df).notes)
    finally:
        spark.sql("RESET spark.sidestep.enabled")
    assert files_read(few(spark, t)) == [["f0"]]


@pytest.mark.parametrize("value", ["FALSE", "False"])
def test_any_way_of_saying_no_switches_it_off(spark, enabled, t, value):
    with settings(spark, spark__sidestep__enabled=value):
        assert files_read(few(spark, t)) == [BOTH]


def test_any_case_of_true_is_true(spark, enabled, t):
    with settings(spark, spark__sidestep__enabled="TRUE"):
        df = few(spark, t)
        assert files_read(df) == [["f0"]]
        assert sidestep.explain(df).notes == ()


def test_a_new_session_is_not_enabled_and_explain_says_so(spark, enabled, t):
    other = spark.newSession()
    df = few(other, t)
    assert files_read(df) == [BOTH]
    assert "not enabled in this session" in " ".join(sidestep.explain(df).notes)
    with sidestep.enable(other):
        assert files_read(few(other, t)) == [["f0"]]
    assert files_read(few(spark, t)) == [["f0"]]


def test_explain_runs_nothing_and_adds_up(spark, enabled, t):
    explanation = sidestep.explain(f"SELECT * FROM parquet.`{t}` WHERE id < 5 AND reverse(cast(id AS STRING)) = '3'")
    (scan,) = explanation.scans
    assert scan.reason is None
    assert (scan.files, scan.rows) == (Amounts(2, 1), Amounts(20, 10))
    assert sum(reason.files for reason in scan.reasons) == 1
    assert "zone map" in str(explanation)
    with switched_off(spark):
        assert sidestep.explain(few(spark, t)).scans[0].files == Amounts(2, 2)


def test_explain_does_not_run_commands(spark, enabled, tmp_path):
    sidestep.explain(f"CREATE TABLE never USING parquet LOCATION '{tmp_path / 'x'}' AS SELECT 1 AS one")
    assert not spark.catalog.tableExists("never")
    assert not (tmp_path / "x").exists()


def test_what_is_written_is_pruned_too(spark, enabled, t, tmp_path):
    few(spark, t).write.parquet(str(tmp_path / "out"))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 5


def test_an_index_replaced_while_a_query_is_planned_costs_the_skips_and_no_more(spark, enabled, t, monkeypatch):
    answer = enabled.planner.apply

    def answer_too_late(message):
        reply = answer(message)
        for line in reply.splitlines():
            enabled.rule.dropKeys(line.split("\t")[1])
        return reply

    monkeypatch.setattr(enabled.planner, "apply", answer_too_late)
    df = spark.read.parquet(str(t)).where("id < 5")
    assert sorted(row.id for row in df.collect()) == list(range(5))
    assert enabled.last_problem == ""
