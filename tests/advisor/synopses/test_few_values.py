"""Value sets are chosen where columns have few values and blocks differ in them, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sidestep.advisor.synopses.candidates import MOST_DISTINCT, Profile, candidates
from sidestep.advisor.synopses.choose import choose_recipes
from sidestep.advisor.synopses.defaults import column_options, share_out
from sidestep.advisor.synopses.queries import usual_queries
from sidestep.predicate import (
    Predicate,
    between,
    column,
    compare,
    conjunction,
    disjunction,
    is_like,
    negation,
    normalize,
)
from sidestep.predicate.types import LONG, STRING
from sidestep.store import read_snapshot, update_index
from sidestep.synopsis import ZoneMaps, kept_blocks
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.value_set import VALUES
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.workload.query import LoggedQuery, TableUse, Workload
from sidestep.workload.table import ColumnUsage, column_usage
from tests.store.tables import write_parquet

BLOCKS, ROWS = 24, 400
CITIES = [f"{letter}{letter}-{number:02d}" for number, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")]
COLUMNS = {"city": STRING, "mode": STRING, "day": LONG, "code": LONG, "note": STRING}
CITY, MODE, CODE = column("city", STRING), column("mode", STRING), column("code", LONG)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Blocks of a few cities each from the whole alphabet, all modes everywhere, days in order, some codes of few."""
    rng = np.random.default_rng(3)
    some = [rng.choice(len(CITIES), 5, replace=False) for _ in range(BLOCKS)]
    codes = [1000 * rng.choice(60, 20, replace=False) for _ in range(BLOCKS)]
    rows = {
        "city": [CITIES[at] for each in some for at in rng.choice(each, ROWS)],
        "mode": [("AIR", "RAIL", "SHIP", "TRUCK")[at] for at in rng.integers(0, 4, BLOCKS * ROWS)],
        "day": np.repeat(np.arange(BLOCKS), ROWS),
        "code": np.concatenate([rng.choice(each, ROWS) for each in codes]),
        "note": [f"{number:040d}" for number in rng.permutation(BLOCKS * ROWS)],
    }
    write_parquet(tmp_path / "t" / "f.parquet", rows, row_group_size=ROWS)
    return tmp_path / "t"


def usage(*predicates: Predicate, count: int = 5) -> ColumnUsage:
    queries = [LoggedQuery((TableUse("t", frozenset({each})),), count=count) for each in predicates]
    return column_usage(Workload(tuple(queries)), "t")


def test_without_a_log_columns_whose_blocks_differ_get_them(table: Path):
    choice = choose_recipes(read_snapshot(table), COLUMNS)
    assert {name for name, recipe in choice.recipes.items() if recipe.size(VALUES)} == {"city", "code"}
    assert choice.recipes["city"] == Recipe(values=MOST_DISTINCT)
    assert not choice.recipes["mode"], "its blocks all hold the same"
    assert not choice.recipes["day"], "zone maps tell its blocks apart"
    assert not choice.recipes["note"].size(VALUES), "too many values"
    index = update_index(read_snapshot(table), COLUMNS, recipes=choice.recipes)
    catalog, wanted = index.catalog({"city": STRING}), normalize(compare(CITY, "=", "MM-12"))
    zones = replace(catalog, synopses=tuple(each for each in catalog.synopses if isinstance(each, ZoneMaps)))
    assert int(kept_blocks(catalog, wanted).sum()) < BLOCKS / 2 < int(kept_blocks(zones, wanted).sum())


def test_a_budget_is_spent_on_them_by_what_is_asked(table: Path):
    asked = usage(*(between(CITY, city, f"{city}x") for city in CITIES), compare(MODE, "=", "RAIL"))
    choice = choose_recipes(read_snapshot(table), COLUMNS, budget=4_000, asked=asked)
    assert choice.recipes["city"] == Recipe(values=8), "which holds the five of each block"
    assert not choice.recipes["mode"]
    assert 0 < choice.spent <= 4_000
    assert not choose_recipes(read_snapshot(table), COLUMNS, budget=100, asked=asked).recipes["city"]


@pytest.mark.parametrize(
    "predicate",
    [
        is_like(CITY, "%M-1%"),
        disjunction(is_like(CITY, "%M-1%"), is_like(CITY, "%X-%"), compare(CITY, "=", "AA-00")),
        conjunction(is_like(CITY, "%-1_"), negation(is_like(CITY, "%5")), is_like(CITY, "M%")),
    ],
    ids=["like", "or", "and"],
)
def test_patterns_are_served(table: Path, predicate: Predicate):
    asked = usage(conjunction(predicate, compare(column("day", LONG), ">", 3)), is_like(MODE, "%A%"))
    assert {each.name for each in asked.patterns} == {"city", "mode"}
    choice = choose_recipes(read_snapshot(table), COLUMNS, budget=8_000, asked=asked)
    assert choice.recipes["city"].size(VALUES) >= 5
    assert not choice.recipes["mode"], "every block holds what matches"
    assert not choose_recipes(read_snapshot(table), COLUMNS, budget=100, asked=asked).recipes["city"]


def test_blocks_yet_to_be_made_get_them_for_what_is_filtered(table: Path):
    asked = usage(compare(MODE, "=", "RAIL"), compare(column("day", LONG), ">", 3))
    for block_rows, size in ((None, 0), (100, 4)):
        choice = choose_recipes(read_snapshot(table), COLUMNS, budget=50_000, asked=asked, block_rows=block_rows)
        assert choice.recipes["mode"].size(VALUES) == size
        assert not choice.recipes["city"], "no one asks for it"
    assert not choose_recipes(read_snapshot(table), COLUMNS, budget=20, asked=asked, block_rows=100).recipes["mode"], (
        "what it would take is not there"
    )


def profile(make: Callable[[np.random.Generator], list[int]], blocks: int = 20) -> Profile:
    rng = np.random.default_rng(1)
    held: list[Codes] = [np.unique(np.asarray(make(rng), dtype=np.uint64)) for _ in range(blocks)]
    queries = usual_queries(held)
    return Profile("x", Coding(LONG), held, np.full(blocks, 100), queries, np.ones(len(queries)))


def default_recipe(of: Profile, *, key: bool = True) -> Recipe:
    chosen = share_out([column_options(of, key=key)], 1 << 40)
    return chosen["x"].recipe if chosen else Recipe()


def test_few_values_far_apart_are_a_set():
    more = profile(lambda rng: [int(value) << 40 for value in rng.choice(60, 20, replace=False)])
    assert default_recipe(more) == Recipe(values=MOST_DISTINCT)
    assert default_recipe(more, key=False) == Recipe(values=MOST_DISTINCT)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda rng: range(10), id="the same values everywhere"),
        pytest.param(lambda rng: rng.integers(0, 10_000, 50).tolist(), id="too many values"),
        pytest.param(lambda rng: [int(rng.integers(0, 2))], id="two values, which a zone map tells"),
        pytest.param(lambda rng: [], id="none"),
    ],
)
def test_where_nothing_is_gained_there_are_none(make: Callable[[np.random.Generator], list[int]]):
    assert not default_recipe(profile(make), key=False)


def test_a_set_is_tried_in_sizes_up_to_the_largest_block():
    tried = candidates(profile(lambda rng: rng.choice(60, 20, replace=False).tolist()))
    sets = [each for each in tried if each.kind is VALUES]
    assert [each.per_block for each in sets] == [16, 32, 64], "eight, sixteen and 32 values"
    assert sets[0].kept.sum() > sets[-1].kept.sum()
    assert sets[-1].shared > 0
