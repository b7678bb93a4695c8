"""Cut trees: leaves in order, kept as data, and small leaves merged with their neighbours."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.layout.demand import Demand, Demands, group_leaves, least_leaf
from sidestep.layout.tree import MOST_DEPTH, Cut, merge_leaves
from sidestep.predicate import INTEGER, STRING, Comparison, In
from sidestep.predicate.nodes import Column, Literal, Op

A, KIND = Column("a", INTEGER), Column("kind", STRING)
AT_LEAST_5 = Comparison(Op.GE, A, Literal(5, INTEGER))
SOME = In(KIND, (Literal("x", STRING), Literal("y", STRING)))
TREE = Cut(AT_LEAST_5, Cut(0, None, None), Cut(SOME, None, Cut(2, None, None)))


def test_a_tree_is_kept_as_data():
    assert Cut.from_json(json.loads(json.dumps(TREE.to_json()))) == TREE
    assert (TREE.leaves, TREE.depth, TREE.columns) == (5, 3, ("a", "kind"))
    assert TREE.id != Cut(AT_LEAST_5, None, None).id


def test_features_get_other_numbers_and_those_that_are_gone_cut_nothing():
    assert TREE.renumber({0: 1, 2: 0}) == Cut(AT_LEAST_5, Cut(1, None, None), Cut(SOME, None, Cut(0, None, None)))
    assert TREE.renumber({2: 2}) == Cut(AT_LEAST_5, None, Cut(SOME, None, Cut(2, None, None)))
    assert Cut(0, None, None).renumber({}) is None


def test_a_tree_that_is_too_deep_is_refused():
    deep = Cut(0, None, None)
    for _ in range(MOST_DEPTH + 1):
        deep = Cut(0, deep, None)
    with pytest.raises(ValueError, match="levels"):
        Cut.from_json(deep.to_json())


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 25))
def test_merged_leaves_are_neighbours_and_large_enough(rows, least):
    runs = merge_leaves(rows, least)
    assert len(runs) == len(rows)
    assert runs == sorted(runs)
    assert set(np.diff(runs).tolist()) <= {0, 1}
    sizes = np.bincount(runs, rows) if rows else np.zeros(0)
    assert len(sizes) <= 1 or sizes.min() >= least
    # Nothing is merged that need not be.
    assert all(rows[at] < least or rows[at + 1] < least for at in range(len(rows) - 1) if runs[at] == runs[at + 1])


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 7), st.integers(1, 40)), min_size=1, max_size=60),
    st.integers(2, 40),
)
def test_groups_lie_within_runs_of_leaves(sets, min_size):
    leaf, bits, counts = (np.array(each, np.int64) for each in zip(*sets, strict=True))
    words = bits.astype(np.uint64)[:, None]
    demands = Demands(3, tuple(Demand((at,), ()) for at in range(3)))
    group, run = group_leaves(words, counts, leaf, {}, demands, min_size)
    for number in np.unique(group):
        mine = group == number
        assert len(np.unique(run[mine])) == 1
    sizes = np.bincount(run, counts)
    assert len(sizes) == 1 or sizes.min() >= least_leaf(min_size)
    order = np.argsort(leaf, kind="stable")
    assert (np.diff(run[order]) >= 0).all()
    assert sorted(np.unique(group).tolist()) == list(range(group.max() + 1))
