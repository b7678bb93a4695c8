"""Skipping on equals skipping off, whatever the table and the predicate, even if what was skipped is gone.

Each example makes one table and asks it many questions in one query: a UNION ALL whose branches are the WHERE clauses,
each pruned as a scan of its own. The rows of a table are numbered, so their numbers tell results apart.
"""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import sidestep
from sidestep.predicate.nodes import Predicate
from tests.spark.branches import answers, paths_by_branch, union
from tests.spark.generated import Generated, questions, tables
from tests.spark.rendering import spark_sql
from tests.spark.tables import data_files, switched_off, with_only
from tests.spark.tables import settings as spark_settings

QUESTIONS = 14


def trying(examples: int) -> settings:
    """So many examples in a hundred of the profile's; not shrunk, since the message says it all and Spark is slow."""
    profile = settings.default
    assert profile is not None
    return settings(
        max_examples=profile.max_examples * examples // 100,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
        database=None,
    )


@dataclass
class Tally:
    """What a run amounted to: a soundness test that never skips anything proves nothing."""

    cases: int = 0
    listed: int = 0
    skipped: int = 0
    cases_with_skips: int = 0
    matching: int = 0


def check(spark: SparkSession, table: Generated, asked: list[str], tally: Tally) -> None:
    root = str(table.root)
    numbered = list(range(len(asked)))
    frame = spark.read.parquet(root)
    with switched_off(spark):
        expected = answers(union([(number, frame) for number in numbered], asked))
    with sidestep.enable(spark) as state:
        query = union([(number, frame) for number in numbered], asked)
        found = answers(query)
        assert state.last_problem == ""
    assert found == expected, difference(found, expected, asked)
    read = paths_by_branch(query)
    every = [str(path) for path in data_files(table.root)]
    left: list[tuple[int, DataFrame]] = []
    for number, paths in read.items():
        folder = with_only(table.root, paths, table.root.with_name(f"{table.root.name}-left-{number}"))
        left.append((number, spark.read.schema(frame.schema).parquet(str(folder))))
        tally.listed += len(every)
        tally.skipped += len(every) - len(paths)
        tally.cases_with_skips += len(paths) < len(every)
    tally.cases += len(asked)
    tally.matching += len({branch for branch, _ in expected})
    if left:
        remaining = answers(union(left, asked))
        still = Counter({key: count for key, count in expected.items() if key[0] in read})
        assert remaining == still, difference(remaining, still, asked)
    for number, _ in left:
        shutil.rmtree(table.root.with_name(f"{table.root.name}-left-{number}"))


def difference(found: Counter[tuple[int, int]], expected: Counter[tuple[int, int]], asked: list[str]) -> str:
    wrong = sorted({branch for branch, _ in (found - expected) + (expected - found)})
    return "\n".join(
        f"WHERE {asked[number]}: rows {sorted(rid for branch, rid in expected - found if branch == number)} lost, "
        f"{sorted(rid for branch, rid in found - expected if branch == number)} too many"
        for number in wrong
    )


def asked_of(predicates: list[Predicate]) -> list[str]:
    return [spark_sql(predicate) for predicate in predicates]


def test_no_row_is_lost_whatever_the_table_and_the_predicate(spark, tmp_path):
    tally, numbers = Tally(), itertools.count()

    @trying(22)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        zone = data.draw(st.sampled_from(ZONES), label="zone")
        ansi = data.draw(st.sampled_from(["true", "true", "false"]), label="ANSI mode")
        with spark_settings(spark, spark__sql__session__timeZone=zone, spark__sql__ansi__enabled=ansi):
            table = data.draw(tables(spark, tmp_path / f"t{next(numbers)}"))
            asked = asked_of(data.draw(st.lists(questions(table), min_size=QUESTIONS, max_size=QUESTIONS)))
            note(f"table {table}")
            sidestep.index(spark, str(table.root), footers=data.draw(st.booleans(), label="footers"))
            check(spark, table, asked, tally)
            shutil.rmtree(table.root)

    run()
    assert tally.cases >= 200
    assert tally.matching > tally.cases / 8, tally
    assert tally.cases_with_skips > tally.cases / 8, tally
    assert tally.skipped > tally.listed / 8, tally


ZONES = ("UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia")
