"""A short run of the fuzzer, every case that it ever found, and that it is able to find anything."""

from __future__ import annotations

import math
import re

import pytest

from sidestep.spark.jvm.bridge import java_sources, new_loader
from tests.faults.kills import in_long_runs
from tests.fuzz.choices import Choices, shrink
from tests.fuzz.grammar import Grammar
from tests.fuzz.run import CASES, Case, draw_case, fuzz, replay
from tests.fuzz.undo import UNDO
from tests.fuzz.world import THEMES, TableSpec, WorldSpec, draw_world

SEED = 20_261_116


@pytest.mark.parametrize("theme", sorted(set(THEMES)))
def test_the_same_numbers_make_the_same_world_and_case(theme):
    first = draw_world(Choices(7), theme)
    assert draw_world(Choices(7), theme) == first == WorldSpec.from_json(first.to_json())
    chance = Choices(8)
    case = draw_case(chance, first)[1]
    assert draw_case(Choices(taken=chance.taken), first)[1] == case


def test_names_are_written_as_sql_wants_them():
    assert TableSpec({"a b": "int", "c`d": "date"}, []).schema() == "`a b` int, `c``d` date"


def test_a_case_is_kept_whole(tmp_path):
    case = draw_case(Choices(3), draw_world(Choices(4), "moments"))[1]
    assert Case.load(case.save(tmp_path)) == case


def test_shrinking_keeps_what_fails():
    assert shrink([4, 8, 15, 16, 23, 42], lambda found: sum(found) > 20, 5) == [21]


@pytest.mark.parametrize("theme", sorted(set(THEMES)))
def test_a_short_run_finds_nothing(spark, enabled, tmp_path, theme):
    # So many cases, however long they take: time decides nothing.
    queries = 2 if theme == "flips" else 5  # each of these is asked with many bits flipped
    tally = fuzz(spark, tmp_path, seed=SEED, seconds=math.inf, worlds=1, queries=queries, keep=None, themes=(theme,))
    assert tally.differences == []
    assert tally.cases, "only refusals"


def test_a_short_run_skips_and_is_held_against_every_oracle(spark, enabled, tmp_path):
    tally = fuzz(spark, tmp_path, seed=SEED, seconds=math.inf, worlds=1, queries=12, keep=None, themes=("correlated",))
    assert tally.differences == []
    assert tally.skipping > tally.cases / 4, "a fuzzer that never skips proves nothing"
    assert all(tally.oracles[oracle] for oracle in ("off", "deleted", "garbage", "duckdb")), tally.oracles


@pytest.mark.parametrize("name", sorted(UNDO))
def test_every_mistake_can_be_made_again(spark, name):
    with UNDO[name].made():  # each says so if the code that it changes is no longer there
        loader = new_loader(spark.sparkContext._jvm)
        for source in java_sources() if UNDO[name].java else ():
            loader.loadClass(f"sidestep.{source.removesuffix('.java')}")


@in_long_runs
@pytest.mark.parametrize("name", sorted(name for name, undo in UNDO.items() if not undo.java))
def test_a_mistake_made_again_is_found(spark, enabled, tmp_path, name):
    with UNDO[name].made():
        tally = fuzz(
            spark,
            tmp_path,
            seed=2,
            seconds=math.inf,
            worlds=4,
            queries=12,
            keep=None,
            most=1,
            themes=(UNDO[name].theme,),
            shrinking=0,
        )
    assert tally.differences


def test_limited_subqueries_are_tied_as_spark_gets_it_right():
    for seed in range(200):
        grammar = Grammar(Choices(seed), draw_world(Choices(seed), "correlated"))
        on = grammar.on_limited({"a": "int", "b": "int"}, {"c": "int", "d": "int"})
        assert on is not None
        tied = re.findall(r"\b([ab]) (?:=|<=>) [cd]\b", on)
        assert tied
        assert len(set(tied)) == len(tied), on


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_no_case_that_was_found_comes_back(spark, enabled, tmp_path, path):
    assert replay(spark, Case.load(path), tmp_path).difference == ""
