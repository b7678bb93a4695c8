"""The order of rows within blocks: by the columns that queries filter, where they then pass over pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sidestep.advisor.trials.needs import Needs, needs_of
from sidestep.advisor.trials.page_order import best_page_order
from sidestep.advisor.trials.sample import Sample, sample_of
from sidestep.advisor.trials.trial import Blocks
from sidestep.layout.pages import ANY_ORDER, PAGE_ROWS, PageOrder
from sidestep.predicate import DOUBLE, INTEGER, STRING, Formula, Predicate, between, column, compare, normalize

TYPES = {"x": INTEGER, "y": INTEGER, "z": DOUBLE, "kind": STRING}
X, Y, Z, KIND = (column(name, type) for name, type in TYPES.items())
ROWS, SCALE = 4_000, 100
"""Rows of the sample, and of the table for each: a block of a thousand is one of 100,000, and a page is twenty."""
NO_FEATURES = np.zeros((0, ROWS), np.bool_)


def sample() -> Sample:
    draw = np.random.default_rng(3)
    kinds = np.array(["red", "green", "blue", "black", "white"])[draw.integers(0, 5, ROWS)]
    columns = {name: draw.permutation(ROWS).astype(np.int32) for name in "xy"}
    table = pa.table({**columns, "z": draw.random(ROWS), "kind": pa.array(kinds.tolist())})
    return sample_of(table, TYPES, ROWS * SCALE)


def four_blocks() -> Blocks:
    return Blocks(np.arange(ROWS), np.full(4, ROWS // 4))


def needs(of: Sample, queries: list[Formula]) -> Needs:
    return needs_of(of, queries, np.ones(len(queries)), np.zeros((0, len(queries)), np.bool_))


def order_for(*queries: Predicate) -> PageOrder:
    of = sample()
    return best_page_order(of, four_blocks(), needs(of, [normalize(each) for each in queries]), NO_FEATURES)


def test_rows_are_sorted_by_what_queries_ask_ranges_of() -> None:
    found = order_for(between(X, 100, 500), between(X, 2_000, 2_300))
    assert found.columns == ("x",)
    assert 0.05 < found.share < 0.25, "a tenth and a thirteenth of the values, and the ends of two pages"


def test_a_column_of_few_values_comes_before_one_of_many() -> None:
    found = order_for(
        *(between(Y, low, low + 400) for low in (0, 1_500, 3_000)), *(compare(KIND, "=", k) for k in ("red", "blue"))
    )
    assert found.columns == ("kind", "y")
    assert found.share < order_for(between(Y, 0, 400), compare(KIND, "=", "red"), between(X, 0, 400)).share


def test_what_pages_say_nothing_of_is_no_order() -> None:
    assert order_for(compare(Z, ">", 0.9)) == ANY_ORDER, "bounds of floats leave NaN out"
    assert order_for() == ANY_ORDER
    assert order_for(compare(X, ">=", 0)) == ANY_ORDER, "whoever wants all rows reads all pages"
    of = sample()
    asked = needs(of, [normalize(between(X, 100, 500))])
    pages = Blocks(np.arange(ROWS), np.full(ROWS * SCALE // PAGE_ROWS, PAGE_ROWS // SCALE))
    assert best_page_order(of, pages, asked, NO_FEATURES) == ANY_ORDER, "a block is a page"


@given(st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 3_900), st.integers(0, 1_500)), max_size=5))
def test_no_order_is_thought_better_than_the_rows_that_match(asked: list[tuple[str, int, int]]) -> None:
    of = sample()
    queries = [normalize(between(column(name, INTEGER), low, low + more)) for name, low, more in asked]
    found = best_page_order(of, four_blocks(), needs(of, queries), NO_FEATURES)
    matching = sum(min(ROWS, low + more + 1) - low for _, low, more in asked)
    assert found.share >= matching / max(1, len(asked) * ROWS)
