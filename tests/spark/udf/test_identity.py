"""A UDF is the same predicate wherever it is met: in a log, in a recording, in a plan, in another session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as f
from pyspark.sql.pandas import functions as vectorized

import sidestep
from sidestep.predicate import And, Comparison, Not, Opaque, Or, from_dict, implies, to_dict
from sidestep.prune import scan_filters
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan
from tests.spark.tables import settings, write_file

_udf: Any = vectorized.pandas_udf
"""Its annotations know no functions of the types that it takes."""
IS_BOT = "def is_bot(agent): return agent is not None and agent.startswith('bot')"
OTHER_BOT = "def is_bot(agent): return agent is not None and agent.startswith('bo')"


def function(source: str):
    """The function of a source text, made anew as in a new notebook."""
    space: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), space)
    return space[source.split()[1].partition("(")[0]]


@pytest.fixture
def table(spark, tmp_path):
    root = tmp_path / "visits"
    agents = ["bot one", "browser", "bot two", None]
    for number in range(2):
        data = pa.table(
            {"agent": agents, "n": [4 * number + at for at in range(4)], "_block": pa.array([7] * 4, pa.int32())}
        )
        write_file(root / f"f{number}.parquet", data)
    spark.udf.register("is_bot", function(IS_BOT), "boolean")
    spark.udf.register("letters", function("def letters(x): return 0 if x is None else len(x)"), "int")
    yield str(root)
    for name in ("is_bot", "letters"):
        spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")


def conjuncts(session, path, condition, stage="optimizedPlan"):
    """What a filter says of the table, of the analyzed plan or the optimized one."""
    frame = session.read.parquet(path).filter(condition)
    execution = frame._jdf.queryExecution()
    (found,) = scan_filters(read_plan(Bridge(session).factory().describe(getattr(execution, stage)())))
    return list(found.conjuncts)


def only(session, path, condition, stage="optimizedPlan") -> Opaque:
    (found,) = [part for part in conjuncts(session, path, condition, stage) if isinstance(part, Opaque)]
    return found


CALLS = [
    ("is_bot(agent)", "is_bot(agent)", ["agent"]),
    ("letters(agent) > 2", "(letters(agent) > 2)", ["agent"]),
    ("letters(upper(agent)) + n > 5L", "((CAST(letters(upper(agent)) AS BIGINT) + n) > 5L)", ["agent", "n"]),
    ("is_bot(concat(agent, cast(letters(agent) as string)))",
     "is_bot(concat(agent, CAST(letters(agent) AS STRING)))", ["agent"]),
    ("letters(cast(letters(agent) as string)) = 1", "(letters(CAST(letters(agent) AS STRING)) = 1)", ["agent"]),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "text", "columns"), CALLS)
def test_a_call_is_one_opaque_predicate_before_and_after_spark_takes_it_out(spark, table, condition, text, columns):
    found = only(spark, table, condition)
    assert found.identified
    assert found.text == text
    assert [column.name for column in found.columns] == columns
    assert only(spark, table, condition, "analyzed") == found
    assert only(spark, table, found.text) == found  # the text is SQL that says it again
    assert from_dict(to_dict(found)) == found


def test_the_parts_beside_a_call_are_read_as_ever(spark, table):
    found = conjuncts(
        spark, table, "letters(agent) > 3 AND n > 1 AND NOT is_bot(agent) AND (is_bot(upper(agent)) OR n > 5)"
    )
    texts = {part.text for part in found if isinstance(part, Opaque)}
    assert texts == {"(letters(agent) > 3)"}
    assert any(isinstance(part, Comparison) for part in found)
    (negated,) = [part for part in found if isinstance(part, Not) and isinstance(part.child, Opaque)]
    (either,) = [part for part in found if isinstance(part, Or)]
    assert negated.child == only(spark, table, "is_bot(agent)")
    assert only(spark, table, "is_bot(upper(agent))") in either.children
    assert any(isinstance(child, Comparison) for child in either.children)


def test_a_call_under_a_name_is_the_call(spark, table):
    frame = spark.read.parquet(table).withColumn("bot", f.expr("is_bot(agent)")).filter("bot AND n > 3")
    plan = frame._jdf.queryExecution().optimizedPlan()
    (found,) = scan_filters(read_plan(Bridge(spark).factory().describe(plan)))
    assert only(spark, table, "is_bot(agent)") in found.conjuncts


def test_other_code_another_type_or_setting_is_another_predicate(spark, table):
    first = only(spark, table, "is_bot(agent)")
    with settings(spark, spark__sql__session__timeZone="Asia/Tokyo"):
        assert only(spark, table, "is_bot(agent)") != first
    spark.udf.register("is_bot", function(OTHER_BOT), "boolean")
    other = only(spark, table, "is_bot(agent)")
    assert other.identified
    assert not implies(other, first)
    spark.udf.register("is_bot", f.udf(function(IS_BOT), "boolean", useArrow=True))
    assert only(spark, table, "is_bot(agent)") != first
    spark.udf.register("is_bot", function(IS_BOT), "boolean")
    assert only(spark, table, "is_bot(agent)") == first
    spark.udf.register("letters", function("def letters(x): return 0 if x is None else len(x)"), "bigint")
    assert (
        only(spark, table, "letters(agent) > 2").depends
        != only(spark, table, "cast(letters(agent) as int) > 2").depends
    )


def test_vectorized_functions_have_an_identity_if_one_is_declared(spark, table):
    def long_names(names: pd.Series) -> pd.Series:
        return names.str.len() > 3

    def above_mean(numbers: pd.Series) -> pd.Series:
        return numbers > numbers.mean()

    def batches(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for part in parts:
            yield part.str.len() > 3

    for function, column in ((long_names, "agent"), (above_mean, "n"), (batches, "agent")):
        found = only(spark, table, _udf(function, "boolean")(column))
        assert not found.identified
        assert "the others in its batch (sidestep.stable" in found.reason
        declared = sidestep.stable(function, version="1")
        once, again = (only(spark, table, _udf(declared, "boolean")(column)) for _ in range(2))
        assert once.identified
        assert once == again


def test_a_row_s_function_counts_whether_it_comes_through_arrow_or_not(spark, table):
    for arrow in (False, True):
        call = f.udf(function(IS_BOT), "boolean", useArrow=arrow)("agent")
        by_pandas = arrow and spark.version < "4.1"  # which knows no other way
        assert only(spark, table, call).identified != by_pandas
    with settings(spark, spark__sql__legacy__execution__pythonUDF__pandas__conversion__enabled="true"):
        assert not only(spark, table, f.udf(function(IS_BOT), "boolean", useArrow=True)("agent")).identified


def test_what_has_no_identity_matches_nothing_and_says_why(spark, table):
    known = ["bot one"]
    of_a_list = f.udf(lambda agent: agent in known, "boolean")
    found = only(spark, table, of_a_list("agent"))
    assert not found.identified
    assert "known is a list" in found.reason
    assert not implies(found, found)
    number = spark.sparkContext.broadcast(3)

    def above(n):
        return n > number.value

    assert "Broadcast" in only(spark, table, f.udf(above, "boolean")("n")).reason
    declared = f.udf(sidestep.stable(above, version="1"), "boolean")
    assert only(spark, table, declared("n")).identified
    with pytest.raises(sidestep.SidestepError, match="UDF already"):
        sidestep.stable(declared, version="1")
    random = f.udf(function(IS_BOT), "boolean").asNondeterministic()
    plan = spark.read.parquet(table).filter(random("agent"))._jdf.queryExecution().optimizedPlan()
    (blocked,) = scan_filters(read_plan(Bridge(spark).factory().describe(plan)))
    assert blocked.blocked is not None
    assert not blocked.conjuncts


def test_a_feature_from_a_log_or_a_recording_is_the_query_s_predicate_later(spark, table, tmp_path):
    spark.read.parquet(table).createOrReplaceTempView("visits")
    queries = [f"SELECT count(*) FROM visits WHERE is_bot(agent) AND n = {n}" for n in range(6)]
    with sidestep.record(spark, tmp_path / "log.jsonl") as recorder:
        for query in queries:
            spark.sql(query).collect()
    assert recorder.last_problem == ""
    recorded, analyzed = (
        sidestep.analyze(spark, log, tables={"visits": table}, num_features=3, threshold=3, miner="numpy").features()
        for log in (tmp_path / "log.jsonl", queries)
    )
    spark.catalog.dropTempView("visits")
    assert recorded.id == analyzed.id
    (feature,) = [one for one in analyzed.features if str(one) == "is_bot(agent)"]

    def asked(session):
        return And(tuple(conjuncts(session, table, "n = 3 AND is_bot(agent)")))

    assert feature.subsumes(asked(spark))
    later = spark.newSession()
    later.udf.register("is_bot", function(OTHER_BOT), "boolean")
    assert not feature.subsumes(asked(later))
    later.udf.register("is_bot", function(IS_BOT), "boolean")
    assert feature.subsumes(asked(later))


def test_skipping_is_the_same_with_functions_in_the_query(spark, table, enabled):
    sidestep.index(spark, table)
    frame = spark.read.parquet(table)
    asked = frame.filter("is_bot(agent) AND n < 3 AND letters(agent) = 7").withColumn("s", f.expr("letters(agent)"))
    files = sidestep.explain(asked).scans[0].files
    assert files is not None
    assert files.kept == 1
    assert sorted(row.n for row in asked.collect()) == [0, 2]


def test_conditions_on_a_column_that_is_only_called_like_block_ids_are_what_a_query_asks(spark, table):
    assert len(conjuncts(spark, table, "_block = 3")) == 2, "and that it is not NULL"
    assert only(spark, table, "is_bot(agent)") in conjuncts(spark, table, "_block = 3 AND is_bot(agent)")
    with_column = conjuncts(spark, table, "_block = n")
    assert any(isinstance(part, Comparison) for part in with_column)
