"""A short run of the fuzzer, every case that it ever found, and that it is able to find anything."""

from __future__ import annotations

import math

import pytest

from tests.fuzz.choices import Choices, shrink
from tests.fuzz.grammar import Grammar
from tests.fuzz.run import CASES, Case, fuzz, replay
from tests.fuzz.world import WorldSpec, draw_world


def test_the_same_numbers_make_the_same_world_and_query():
    first = draw_world(Choices(7))
    assert draw_world(Choices(7)) == first == WorldSpec.from_json(first.to_json())
    chance = Choices(8)
    query = Grammar(chance, first).query()
    assert Grammar(Choices(taken=chance.taken), first).query() == query


def test_shrinking_keeps_what_fails():
    assert shrink([4, 8, 15, 16, 23, 42], lambda found: sum(found) > 20, 5) == [21]


def test_a_short_run_finds_nothing(spark, enabled, tmp_path):
    # So many cases, however long they take: time decides nothing.
    tally = fuzz(spark, tmp_path, seed=20_261_116, seconds=math.inf, worlds=3, queries=8, keep=None)
    assert tally.differences == []
    assert tally.skipping > tally.cases / 20, "a fuzzer that never skips proves nothing"


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_no_case_that_was_found_comes_back(spark, enabled, tmp_path, path):
    assert replay(spark, Case.load(path), tmp_path).difference == ""
