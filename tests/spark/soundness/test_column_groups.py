"""Tables in column groups give the rows that were written to them: random tables, groups, orders and predicates.

The same rows in a Parquet folder say what is right. Each example asks many questions in one query, and each for some of
the columns, so that rows are put together of one group or of several.
"""

from __future__ import annotations

import itertools
import random
import shutil

from hypothesis import given, note
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

import sidestep
from tests.spark.generated import Generated, questions, tables
from tests.spark.grouped import Group, write_groups
from tests.spark.soundness.test_filters import Tally, asked_of, trying
from tests.spark.tables import rows_of, settings, switched_off

QUESTIONS = 8


def random_groups(columns: list[str], chance: random.Random) -> list[Group]:
    """Each column in a group of at most four, rows sorted by any column, and blocks that know some of the others."""
    group_of = {name: chance.randrange(min(4, len(columns))) for name in columns}
    groups = []
    for number in sorted(set(group_of.values())):
        held = [name for name in columns if group_of[name] == number]
        known = [name for name in columns if group_of[name] != number and chance.random() < 0.4]
        order = chance.choice([*columns, None])
        groups.append(Group(held, order, known, rows=chance.choice([1, 3, 8])))
    return groups


def union(frame: DataFrame, asked: list[str], chosen: list[list[str]]) -> DataFrame:
    """One query that asks each question, and for what it leaves of some columns, as text."""
    parts = []
    for number, (condition, columns) in enumerate(zip(asked, chosen, strict=True)):
        texts = ", ".join(["rid", *(f"coalesce(hex(CAST(`{name}` AS STRING)), '-')" for name in columns)])
        parts.append(frame.where(condition).selectExpr(f"{number} AS branch", f"concat_ws(' ', {texts}) AS row"))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def check(spark: SparkSession, table: Generated, asked: list[str], chance: random.Random, tally: Tally) -> None:
    frame = spark.read.parquet(str(table.root))
    names = [column.name for column in table.columns]
    chosen = [chance.sample(names, chance.randint(0, len(names))) for _ in asked]
    expected = rows_of(union(frame, asked, chosen))
    groups = random_groups(frame.columns, chance)
    note(f"groups {groups}")
    root, _ = write_groups(
        table.root.with_name(f"{table.root.name}-groups"),
        frame.toArrow(),
        groups,
        units=chance.choice([1, 2, 5]),
        buckets=chance.choice([1, 3]),
        schema=frame.schema.json(),
    )
    grouped = sidestep.read(spark, root)
    with sidestep.enable(spark) as state:
        with switched_off(spark):
            off = union(grouped, asked, chosen)
            assert rows_of(off) == expected
        on = union(grouped, asked, chosen)
        assert rows_of(on) == expected
        assert state.last_problem == ""
        read, whole = sidestep.metrics(on).rows, sidestep.metrics(off).rows
    tally.cases += len(asked)
    tally.matching += len(expected)
    tally.listed += whole
    tally.skipped += whole - read
    shutil.rmtree(root)


def test_no_row_is_lost_whatever_the_groups(spark, tmp_path):
    tally, numbers = Tally(), itertools.count()

    @trying(8)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        table = data.draw(tables(spark, tmp_path / f"t{next(numbers)}"))
        asked = asked_of(data.draw(st.lists(questions(table), min_size=QUESTIONS, max_size=QUESTIONS)))
        adaptive = data.draw(st.sampled_from(["true", "false"]), label="adaptive")
        note(f"table {table}")
        with settings(spark, spark__sql__adaptive__enabled=adaptive):
            check(spark, table, asked, random.Random(data.draw(st.integers(0, 10**6))), tally)
        shutil.rmtree(table.root)

    run()
    assert tally.cases >= 40
    assert tally.matching > tally.cases / 2, tally
    assert tally.skipped > tally.listed / 20, tally
