"""The miner finds every closed set that is frequent, each once, with its support."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.workload import closed_sets
from sidestep.workload.features.mining import TooManySets

TRANSACTIONS = st.lists(st.tuples(st.frozensets(st.integers(0, 6)), st.integers(1, 4)), max_size=8)


def brute_force(transactions, least):
    items = sorted(frozenset().union(*(held for held, _ in transactions)))
    support = {
        frozenset(chosen): sum(weight for held, weight in transactions if held >= set(chosen))
        for size in range(1, len(items) + 1)
        for chosen in combinations(items, size)
    }
    return {
        (chosen, count)
        for chosen, count in support.items()
        if count >= least and all(support[chosen | {item}] < count for item in items if item not in chosen)
    }


@given(TRANSACTIONS, st.integers(1, 6))
def test_closed_sets_are_those_of_brute_force(transactions, least):
    found = closed_sets(transactions, least)
    assert len(found) == len(set(found))
    assert set(found) == (brute_force(transactions, least) if transactions else set())


@given(TRANSACTIONS)
def test_too_many_sets_are_said(transactions):
    every = closed_sets(transactions, 1)
    assert closed_sets(transactions, 1, most=len(every)) == every
    if len(every) > 1:
        with pytest.raises(TooManySets):
            closed_sets(transactions, 1, most=len(every) - 1)


def test_nothing_is_nothing():
    assert closed_sets([], 1) == []
    assert closed_sets([(frozenset(), 5)], 1) == []
