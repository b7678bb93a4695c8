"""Laid-out tables: skipping by features and blocks loses no row, even if what was skipped holds noise.

Each example lays a random table out by random features and asks it many questions, some of them made of the features.
Then, for each question, a copy of the table is made in which the data of the row groups that it skips is overwritten,
and the question is asked again, of that copy.
"""

from __future__ import annotations

import itertools
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import assume, given, note
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import sidestep
from sidestep import SidestepError, SidestepWarning
from sidestep.predicate.nodes import And, Not, Or, Predicate
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.branches import answers, union
from tests.spark.garbage import copy_with_garbage, skipped_blocks
from tests.spark.generated import Generated, questions, tables
from tests.spark.soundness.test_filters import asked_of, difference, trying
from tests.spark.tables import patient, switched_off

QUESTIONS = 10


@dataclass
class Tally:
    cases: int = 0
    blocks: int = 0
    skipped: int = 0
    cases_with_skips: int = 0


def asks(table: Generated, features: list[Predicate]) -> st.SearchStrategy[Predicate]:
    """A random question, or one that the features have something to say about."""
    plain = questions(table)
    feature = st.sampled_from(features)
    return st.one_of(
        plain,
        feature,
        st.tuples(feature, plain).map(And),
        st.tuples(feature, feature).map(Or),
        st.tuples(st.tuples(feature, plain).map(Or), feature).map(And),
        feature.map(Not),
    )


def laid_out(spark: SparkSession, table: Generated, target: Path, features: list[Predicate], **options) -> str | None:
    """The table laid out; None if a column is of a type that Delta cannot hold."""
    with warnings.catch_warnings():
        # Not every random predicate can be a feature.
        warnings.simplefilter("ignore", SidestepWarning)
        found = FeatureSet("t", tuple(Feature((predicate,)) for predicate in features))
        try:
            sidestep.load(spark, str(table.root), str(target), features=found, **options)
        except SidestepError as problem:
            if "cannot hold" in str(problem):
                return None
            raise
    return str(target)


def check(spark: SparkSession, table: Generated, root: str, asked: list[str], tally: Tally) -> None:
    numbered = list(range(len(asked)))
    source = spark.read.parquet(str(table.root))
    with switched_off(spark):
        expected = answers(union([(number, source) for number in numbered], asked))
        plain = answers(union([(number, sidestep.read(spark, root)) for number in numbered], asked))
    assert plain == expected, difference(plain, expected, asked)
    with sidestep.enable(spark) as state, patient(spark):
        found = answers(union([(number, sidestep.read(spark, root)) for number in numbered], asked))
        assert found == expected, difference(found, expected, asked)
        copies = []
        for number in numbered:
            skipped = skipped_blocks(spark, sidestep.read(spark, root).where(asked[number]))
            copy = copy_with_garbage(root, Path(f"{root}-{number}"), skipped)
            copies.append((number, sidestep.read(spark, copy)))
            tally.cases_with_skips += bool(skipped)
            tally.skipped += sum(map(len, skipped.values()))
        tally.blocks += sidestep.status(spark, root).blocks_with_ids * len(asked)
        tally.cases += len(asked)
        left = answers(union(copies, asked))
        assert left == expected, difference(left, expected, asked)
        assert state.last_problem == ""
    for number in numbered:
        shutil.rmtree(f"{root}-{number}")


def test_no_row_is_lost_whatever_the_features(spark, tmp_path):
    tally, numbers = Tally(), itertools.count()

    @trying(8)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        number = next(numbers)
        table = data.draw(tables(spark, tmp_path / f"t{number}"))
        features = data.draw(st.lists(questions(table), min_size=1, max_size=6))
        by = data.draw(st.sampled_from([None, None, *(f"`{column.name}`" for column in table.columns)]), label="by")
        note(f"table {table}")
        root = laid_out(
            spark,
            table,
            tmp_path / f"laid{number}",
            features,
            by=by,
            min_size=data.draw(st.integers(1, 6), label="min_size"),
        )
        assume(root is not None)
        assert root is not None
        asked = asked_of(data.draw(st.lists(asks(table, features), min_size=QUESTIONS, max_size=QUESTIONS)))
        check(spark, table, root, asked, tally)
        shutil.rmtree(root)
        shutil.rmtree(table.root)

    run()
    assert tally.cases >= 40
    assert tally.cases_with_skips > tally.cases / 6, tally
    assert tally.skipped > tally.blocks / 8, tally


def test_no_row_is_lost_whatever_the_family(spark, tmp_path):
    """Tables laid out for a log of random queries, by trees whose cuts may be anything that queries say."""
    tally, numbers = Tally(), itertools.count()

    @trying(8)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        number = next(numbers)
        table = data.draw(tables(spark, tmp_path / f"t{number}"))
        learned = asked_of(data.draw(st.lists(questions(table), min_size=4, max_size=12)))
        family = data.draw(st.sampled_from(["cuts", "cuts", "cuts and features", "sorted", "z-order", None]))
        note(f"table {table}, {family}")
        target, log = tmp_path / f"laid{number}", [f"SELECT 1 FROM t WHERE {condition}" for condition in learned]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SidestepWarning)
            try:
                options: dict[str, Any] = {
                    "name": "t",
                    "family": family,
                    "min_size": data.draw(st.integers(1, 6), label="min_size"),
                }
                sidestep.load(spark, str(table.root), str(target), log=log, **options)
            except SidestepError as problem:
                assume("cannot hold" not in str(problem) and "says nothing" not in str(problem))
                raise
        later = asked_of(data.draw(st.lists(questions(table), min_size=4, max_size=4)))
        check(spark, table, str(target), [*later, *learned[:4]], tally)
        shutil.rmtree(target)
        shutil.rmtree(table.root)

    run()
    assert tally.cases >= 40
    assert tally.cases_with_skips > tally.cases / 6, tally
