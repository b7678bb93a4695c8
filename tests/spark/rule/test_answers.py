"""A query that is planned again gets the answer that it had, unless something has changed that it rests on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sidestep
from sidestep.prune.analysis import Settings
from sidestep.spark.rule.answers import Answers, KnownAnswer
from tests.spark.tables import files_read, names, rows_of, set_age, settings, switched_off, write_file

JOIN = "SELECT fact.k, v FROM fact JOIN dim ON fact.k = dim.k WHERE colour = 'green'"


@pytest.fixture(autouse=True)
def nothing_is_chosen_later(spark):
    """As by default: tables this small are not worth it."""
    with settings(spark, spark__sidestep__selectors__leastBytes="8388608"):
        yield


@pytest.fixture
def star(spark, tmp_path):
    """fact: six files of a hundred keys each; dim: three files of a colour each, of the keys of two files of fact."""
    for number in range(6):
        keys = np.arange(100 * number, 100 * number + 100)
        write_file(tmp_path / "fact" / f"f{number}.parquet", {"k": keys, "v": keys % 7, "@0": keys % 50})
    for number, colour in enumerate(["red", "green", "blue"]):
        write_file(tmp_path / "dim" / f"d{number}.parquet", dimension(200 * number, colour))
    for name in ("fact", "dim"):
        sidestep.index(spark, str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    yield tmp_path
    for name in ("fact", "dim"):
        spark.catalog.dropTempView(name)


def dimension(start: int, colour: str) -> pa.Table:
    keys = np.arange(start, start + 200, 10)
    return pa.table({"k": keys, "colour": [colour] * len(keys)})


@pytest.fixture
def decided(enabled, monkeypatch) -> list[int]:
    """Grows by one whenever an answer is worked out."""
    times: list[int] = []
    decide = enabled.planner.decide

    def counted(*arguments, **named):
        times.append(1)
        return decide(*arguments, **named)

    monkeypatch.setattr(enabled.planner, "decide", counted)
    return times


def read_and_compare(spark, query: str = JOIN) -> list[list[str]]:
    """The files that a query reads, its rows being those without skipping."""
    df = spark.sql(query)
    rows, read = rows_of(df), files_read(df)
    with switched_off(spark):
        assert rows == rows_of(spark.sql(query))
    return read


def test_the_same_query_is_answered_once(spark, star, decided):
    for query in (JOIN, JOIN.replace("green", "blue"), "SELECT count(*) FROM fact a JOIN fact b ON a.k = b.v + 1"):
        before = len(decided)
        first = read_and_compare(spark, query)
        assert read_and_compare(spark, query) == read_and_compare(spark, query) == first
        assert len(decided) == before + 1


def test_two_scans_of_a_table_keep_their_own_answers(spark, star, decided):
    query = "SELECT * FROM fact a JOIN fact b ON a.v = b.v WHERE a.k < 100 AND b.k >= 500"
    assert read_and_compare(spark, query) == read_and_compare(spark, query) == [["f0"], ["f5"]]
    turned = "SELECT * FROM fact a JOIN fact b ON a.v = b.v WHERE a.k >= 500 AND b.k < 100"
    assert read_and_compare(spark, turned) == [["f0"], ["f5"]]
    assert len(decided) == 2


def test_another_constant_or_setting_is_another_question(spark, star, decided):
    assert read_and_compare(spark) == [["d1"], names([2, 3])]
    assert read_and_compare(spark, JOIN.replace("green", "red")) == [["d0"], names([0, 1])]
    with settings(spark, spark__sidestep__induced="false"):
        assert read_and_compare(spark) == [["d1"], names(range(6))]
    assert len(decided) == 3


def test_a_newer_index_is_asked_anew(spark, star, decided):
    assert read_and_compare(spark) == [["d1"], names([2, 3])]
    write_file(star / "dim" / "d3.parquet", dimension(500, "green"))
    sidestep.index(spark, str(star / "dim"))
    spark.read.parquet(str(star / "dim")).createOrReplaceTempView("dim")
    assert read_and_compare(spark) == [["d1", "d3"], names([2, 3, 5])]
    assert len(decided) == 2


def test_a_file_that_no_entry_speaks_of_takes_the_answer_back(spark, star, decided):
    assert read_and_compare(spark) == [["d1"], names([2, 3])]
    write_file(star / "dim" / "d4.parquet", dimension(400, "green"))
    spark.read.parquet(str(star / "dim")).createOrReplaceTempView("dim")
    assert read_and_compare(spark) == [["d1", "d4"], names(range(6))]
    (star / "dim" / "d4.parquet").unlink()
    spark.read.parquet(str(star / "dim")).createOrReplaceTempView("dim")
    assert read_and_compare(spark) == [["d1"], names([2, 3])]
    assert len(decided) == 2, "all is as it was the first time"


def test_a_file_rewritten_in_place_takes_the_answer_back(spark, star, decided):
    assert read_and_compare(spark) == [["d1"], names([2, 3])]
    set_age(write_file(star / "dim" / "d1.parquet", dimension(300, "green")), 3_600)
    assert read_and_compare(spark)[1] == names(range(6)), "seen when its files are listed"
    assert read_and_compare(spark)[1] == names(range(6))
    assert len(decided) == 2, "a file that was seen to be another speaks for nothing any more"


def test_a_column_may_have_the_name_of_what_stands_for_a_scan(spark, star, decided):
    query = "SELECT * FROM fact JOIN dim ON fact.`@0` = dim.k WHERE colour = 'red' AND fact.k >= 500"
    assert read_and_compare(spark, query) == read_and_compare(spark, query) == [["d0"], ["f5"]]
    assert len(decided) == 1


def test_an_answer_that_time_ran_out_on_is_not_given_again(spark, star, decided):
    with settings(spark, spark__sidestep__induced__seconds="0"):
        for times in (1, 2):
            read_and_compare(spark)
            assert len(decided) == times


def test_answers_take_no_more_than_they_may():
    answers = Answers(most=100)
    for number in range(20):
        answers.put((f"plan {number:02}", Settings()), KnownAnswer("reply" * 2, {}, (("asked", "1"),)))
    known = [number for number in range(20) if answers.get((f"plan {number:02}", Settings())) is not None]
    assert known == [17, 18, 19] or known == [16, 17, 18, 19]
    answers.put(("plan", Settings()), KnownAnswer("r" * 200, {}, ()))
    assert answers.get(("plan", Settings())) is None
    answers.clear()
    assert answers.get(("plan 19", Settings())) is None
