"""Column groups tried on a sample: no row that a query wants is denied, and cuts are taken where they serve."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.advisor.families.columns import ColumnTrials
from sidestep.advisor.trials.column_queries import column_workload
from sidestep.advisor.trials.needs import needs_of, skipped_by_values
from sidestep.advisor.trials.sample import sample_of
from sidestep.advisor.trials.trial import Blocks
from sidestep.layout import pack
from sidestep.layout.columns.costs import check_groups
from sidestep.layout.columns.search import search
from sidestep.predicate import INTEGER, Formula, between, column, compare, normalize, one_of
from sidestep.predicate.oracle import holds
from sidestep.workload import LoggedQuery, TableUse, Workload

NAMES = ("a", "b", "c", "d")
A, B = (column(name, INTEGER) for name in "ab")


def trials(queries, rows: int = 600, block: int = 30, rough: int | None = None) -> ColumnTrials:
    """Queries as (predicates, columns) on a table of random numbers; features are a < 10 and b = 3."""
    draw = np.random.default_rng(0)
    table = pa.table({name: draw.integers(0, 300 if name == "a" else 20, rows) for name in NAMES})
    features = [normalize(compare(A, "<", 10)), normalize(compare(B, "=", 3))]
    bits = np.column_stack([table["a"].to_numpy() < 10, table["b"].to_numpy() == 3])
    log = Workload(
        tuple(LoggedQuery((TableUse("t", frozenset(made), frozenset(read)),)) for made, read in queries for _ in (0, 1))
    )
    workload = column_workload(log, "t", NAMES, features)
    return ColumnTrials(workload, sample_of(table, dict.fromkeys(NAMES, INTEGER), rows), pack(bits), block, rough=rough)


conditions = st.one_of(
    st.builds(lambda low, size: between(A, low, low + size), st.integers(0, 299), st.integers(0, 40)),
    st.builds(lambda values: one_of(B, values), st.lists(st.integers(0, 19), min_size=1, max_size=3)),
)
queries = st.lists(
    st.tuples(st.lists(conditions, max_size=2), st.frozensets(st.sampled_from(NAMES), min_size=1)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25)
@given(queries, st.frozensets(st.integers(0, 3), min_size=1))
def test_no_group_denies_a_row_that_a_query_wants(made, group):
    tried = trials(made, rows=120, block=8)
    blocks = tried.arrange(group).blocks(tried.sample, tried.words, tried.workload.features, tried.block)
    assert sorted(blocks.order.tolist()) == list(range(120))
    assert blocks.sizes.sum() == 120
    read = tried.exact(group)
    assert (tried.least() <= read).all()
    filters = cast("tuple[Formula, ...]", tried.workload.keys)
    needs = needs_of(tried.sample, filters, np.ones(len(read)), np.zeros((0, len(read)), bool))
    skipped = skipped_by_values(tried.sample, needs, blocks)
    table = {name: tried.sample.values[name].take(pa.array(tried.sample.codes[name])).to_pylist() for name in NAMES}
    for number, formula in enumerate(filters):
        wanted = np.array([holds(formula, {name: table[name][at] for name in NAMES}) for at in range(120)])
        assert read[number] >= wanted.sum()
        assert not (wanted[blocks.order] & np.repeat(skipped[number], blocks.sizes)).any()


def test_a_group_that_ranges_are_asked_of_is_cut_and_skips():
    ranges = [([between(A, low, low + 9)], "ac") for low in range(0, 300, 30)]
    tried = trials(ranges)
    group = frozenset({2})
    assert tried.arrange(group).arrangement.family == "cuts", "c is arranged by a, which it does not hold"
    assert (tried.exact(group) <= 120).all(), "a thirtieth of the values are in a few of twenty blocks"


def test_queries_in_conflict_get_groups_of_their_own():
    ranges = [([between(A, low, low + 9)], "ac") for low in range(0, 300, 30)]
    lists = [([one_of(B, [value, value + 1])], "bd") for value in range(0, 19, 2)]
    tried = trials([*ranges, *lists], rough=300)
    found = search(tried.workload, tried)
    check_groups(found.best.groups, 4)
    assert set(found.best.names(tried.workload)) == {("a", "c"), ("b", "d")}
    assert found.best.cost < found.together.cost


def test_a_group_that_no_query_reads_is_left_in_one_piece():
    tried = trials([([compare(B, "=", 3)], "b")])
    assert (tried.exact(frozenset({0})) == 600).all()


@pytest.mark.parametrize("values", [[5, None, 7, 9], [None, None, 1, 2]])
def test_nulls_are_in_no_range(values):
    sample = sample_of(pa.table({"a": pa.array(values, pa.int32())}), {"a": INTEGER}, 4)
    needs = needs_of(sample, [normalize(compare(A, ">", 4))], np.ones(1), np.zeros((0, 1), bool))
    skipped = skipped_by_values(sample, needs, Blocks(np.arange(4), np.array([2, 2])))
    kept = [any(value is not None and value > 4 for value in part) for part in (values[:2], values[2:])]
    assert (~skipped[0]).tolist() == kept
