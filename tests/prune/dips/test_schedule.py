"""The order of exchanges: Figures 8, 9 and 10 of the diPs paper, and where its text is off."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.prune.dips.schedule import (
    Graph,
    clique_tree,
    components,
    graph_of,
    is_tree,
    schedule,
    tree_root,
    tree_steps,
)

FIGURE_10 = graph_of([(1, 2), (2, 3), (3, 4), (4, 5), (5, 2), (4, 6), (5, 6), (6, 7)])
STAR = graph_of([(1, 2), (2, 3), (2, 4)])


def height(tree: Graph, root: int) -> int:
    whole = nx.Graph({node: list(others) for node, others in tree.items()})
    return int(nx.eccentricity(whole, root))


@st.composite
def trees(draw: st.DrawFn) -> dict[int, frozenset[int]]:
    size = draw(st.integers(2, 12))
    return graph_of([(node, draw(st.integers(0, node - 1))) for node in range(1, size)])


def test_two_tables_exchange_once_each_way():
    assert [(step.origins, step.targets) for step in schedule(graph_of([(1, 2)]))] == [
        (frozenset({2}), frozenset({1})),
        (frozenset({1}), frozenset({2})),
    ]


def test_a_star_takes_two_epochs_and_six_predicates():
    steps = schedule(STAR)
    assert len(steps) == 6
    assert [step.epoch for step in steps] == [1, 1, 1, 2, 2, 2]
    assert {step.targets for step in steps[:3]} == {frozenset({2})}
    assert {step.origins for step in steps[3:]} == {frozenset({2})}


def test_the_root_of_a_path_of_five_is_its_middle_where_the_papers_single_pass_stops_one_short():
    path = graph_of([(1, 2), (2, 3), (3, 4), (4, 5)])
    assert tree_root(path) == 3
    assert height(path, tree_root(path)) == 2


@given(trees())
def test_no_root_makes_a_tree_lower(tree):
    assert height(tree, tree_root(tree)) == min(height(tree, node) for node in tree)


@given(trees())
def test_a_tree_takes_two_predicates_per_edge_in_twice_its_height_epochs(tree):
    steps = tree_steps(tree)
    assert len(steps) == 2 * (len(tree) - 1)
    assert len({(step.origins, step.targets) for step in steps}) == len(steps)
    assert {step.epoch for step in steps} == set(range(1, 2 * height(tree, tree_root(tree)) + 1))
    heard: dict[int, set[int]] = {node: set() for node in tree}
    for step in steps:
        (origin,), (target,) = step.origins, step.targets
        if target not in heard[origin]:
            # On the way up, whoever sends has heard from all others.
            assert heard[origin] == tree[origin] - {target}
        heard[target].add(origin)


def test_figure_10_becomes_the_papers_tree_of_sets():
    assert not is_tree(FIGURE_10)
    sets, tree = clique_tree(FIGURE_10)
    edges = {frozenset({sets[a], sets[b]}) for a, others in tree.items() for b in others}
    path = [frozenset(tables) for tables in ({1}, {2, 3, 5}, {3, 4, 5}, {4, 5, 6}, {7})]
    assert edges == {frozenset(pair) for pair in pairwise(path)}


def test_sets_settle_before_they_send():
    steps = schedule(FIGURE_10)
    settled: set[frozenset[int]] = set()
    for step in steps:
        if step.settles:
            settled.add(step.origins)
        elif len(step.origins) > 1:
            assert step.origins in settled


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda e: e[0] != e[1]), min_size=1))
def test_every_edge_of_any_graph_is_used_in_both_directions(edges):
    graph = graph_of(edges)
    used = {(a, b) for step in schedule(graph) for a in step.origins for b in step.targets if b in graph[a]}
    assert used == {(a, b) for a in graph for b in graph[a]}


def test_parts_that_are_not_connected_are_scheduled_apart():
    assert len(list(components(graph_of([(1, 2), (3, 4)], [9])))) == 3
    assert len(schedule(graph_of([(1, 2), (3, 4)], [9]))) == 4


@pytest.mark.parametrize("chords", [0, 1, 20])
def test_thirty_tables_are_scheduled_quickly(chords):
    graph = graph_of([(n, n + 1) for n in range(29)] + [(n, n + 9) for n in range(chords)])
    began = process_time()
    assert schedule(graph)
    assert process_time() - began < 0.5
