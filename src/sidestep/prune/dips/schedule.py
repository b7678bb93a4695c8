"""In which order data-induced predicates are exchanged over a join graph (diPs, section 3.4 and Figure 9).

**Trees.** Predicates go from the leaves up to the root and then down again: 2 (n - 1) of them, and no other order needs
fewer. When the root has heard from all its children, its blocks are final; going down, so are everyone's. The root is
the one that makes the tree lowest, since exchanges at one height are independent of each other (an *epoch*).

**Cycles.** The graph is triangulated; the maximal cliques of what results, with the number of tables that two have in
common as weight, have a maximum spanning tree, which is a tree over sets of tables. Over it predicates go up and down
as before, and inside a set they go round until nothing changes, at most κ times. A table in no clique of three is a set
of its own, so that a tree hanging from a cycle stays a tree (Figure 10). No schedule is quick on all cyclic graphs
(section 9.2, Table 8); κ bounds the price.

>>> path = graph_of([(1, 2), (2, 3), (3, 4), (4, 5)])
>>> tree_root(path)
3
>>> [(sorted(step.origins), sorted(step.targets)) for step in schedule(graph_of([(1, 2), (2, 3)]))]
[([1], [2]), ([3], [2]), ([2], [1]), ([2], [3])]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import networkx as nx

Graph = Mapping[int, frozenset[int]]
"""The neighbours of each table."""

NodeSet = frozenset[int]


@dataclass(frozen=True, slots=True)
class ExchangeStep:
    """Tables that send to those of another set they are joined with; a set that sends to itself settles within."""

    origins: NodeSet
    targets: NodeSet
    epoch: int
    """Steps of one epoch do not depend on each other."""

    @property
    def settles(self) -> bool:
        return self.origins == self.targets


def graph_of(edges: Iterable[tuple[int, int]], nodes: Iterable[int] = ()) -> dict[int, frozenset[int]]:
    """The graph with these edges, and these nodes besides."""
    around: dict[int, set[int]] = {node: set() for node in nodes}
    for a, b in edges:
        around.setdefault(a, set()).add(b)
        around.setdefault(b, set()).add(a)
    return {node: frozenset(neighbours) for node, neighbours in around.items()}


def components(graph: Graph) -> Iterator[dict[int, frozenset[int]]]:
    """The connected parts, in the order of their first nodes."""
    seen: set[int] = set()
    for start in graph:
        if start in seen:
            continue
        part, waiting = {start}, [start]
        while waiting:
            for neighbour in graph[waiting.pop()] - part:
                part.add(neighbour)
                waiting.append(neighbour)
        seen |= part
        yield {node: graph[node] for node in graph if node in part}


def is_tree(graph: Graph) -> bool:
    """Whether a connected graph has no cycle."""
    return sum(map(len, graph.values())) == 2 * (len(graph) - 1)


def tree_root(tree: Graph) -> int:
    """The node from which a tree is lowest: leaves are taken off, layer by layer, until one or two are left.

    The single pass of section 9.1 compares heights that are one apart and stops early: on a path of five it returns a
    tree of height 3.
    """
    degree = {node: len(neighbours) for node, neighbours in tree.items()}
    layer, left = [node for node, count in degree.items() if count <= 1], len(tree)
    while left > 2:
        left -= len(layer)
        inner: list[int] = []
        for leaf in layer:
            for neighbour in tree[leaf]:
                degree[neighbour] -= 1
                if degree[neighbour] == 1:
                    inner.append(neighbour)
        layer = inner
    return min(layer)


def schedule(graph: Graph) -> tuple[ExchangeStep, ...]:
    """The steps for a whole graph, one connected part after the other.

    Many queries join as many tables in the same way, and triangulating takes milliseconds: schedules are remembered.
    """
    return _schedule(tuple(graph.items()))


@lru_cache(maxsize=256)
def _schedule(nodes: tuple[tuple[int, NodeSet], ...]) -> tuple[ExchangeStep, ...]:
    steps: list[ExchangeStep] = []
    for part in components(dict(nodes)):
        if len(part) > 1:
            steps += tree_steps(part) if is_tree(part) else clique_steps(part)
    return tuple(steps)


def tree_steps(tree: Graph) -> list[ExchangeStep]:
    """Leaves up, then root down (TreeScheduler)."""
    single = {node: frozenset({node}) for node in tree}
    return list(_up_and_down(single, tree, settle=False))


def clique_steps(graph: Graph) -> list[ExchangeStep]:
    """The same over sets of tables, which settle before they send (TreeSchedulerExt)."""
    sets, tree = clique_tree(graph)
    return list(_up_and_down(sets, tree, settle=True))


def clique_tree(graph: Graph) -> tuple[dict[int, NodeSet], Graph]:
    """Sets of tables, numbered, and a tree over the numbers (MaxWtSpanTree of CliqueGraph of Triangulate).

    >>> figure_10 = graph_of([(1, 2), (2, 3), (3, 4), (4, 5), (5, 2), (4, 6), (5, 6), (6, 7)])
    >>> sets, tree = clique_tree(figure_10)
    >>> sorted(sorted(tables) for tables in sets.values() if len(tables) == 1)
    [[1], [7]]
    """
    whole = nx.Graph([(a, b) for a, neighbours in graph.items() for b in neighbours])
    triangulated, _ = nx.complete_to_chordal_graph(whole)
    cliques = [frozenset(clique) for clique in nx.chordal_graph_cliques(triangulated) if len(clique) > 2]
    covered = frozenset().union(*cliques)
    cliques += [frozenset({node}) for node in graph if node not in covered]
    sets = dict(enumerate(sorted(cliques, key=sorted)))
    weighted = nx.Graph()
    weighted.add_nodes_from(sets)
    for a, one in sets.items():
        around = one.union(*(graph[node] for node in one))
        for b in range(a):
            if around & sets[b]:
                weighted.add_edge(a, b, weight=len(one & sets[b]))
    spanning = nx.maximum_spanning_tree(weighted)
    return sets, {node: frozenset(spanning[node]) for node in sets}


def _up_and_down(sets: Mapping[int, NodeSet], tree: Graph, settle: bool) -> Iterator[ExchangeStep]:
    root = tree_root(tree)
    parent: dict[int, int] = {}
    order = [root]
    for node in order:
        for child in sorted(tree[node]):
            if child != parent.get(node):
                parent[child] = node
                order.append(child)
    height = dict.fromkeys(order, 0)
    for node in reversed(order[1:]):
        height[parent[node]] = max(height[parent[node]], height[node] + 1)
    rising = sorted(order, key=lambda node: height[node])
    top = height[root]
    for node in rising:
        if settle and len(sets[node]) > 1:
            yield ExchangeStep(sets[node], sets[node], height[node] + 1)
        if node != root:
            yield ExchangeStep(sets[node], sets[parent[node]], height[node] + 1)
    for node in rising[::-1]:
        if settle and len(sets[node]) > 1 and node != root:
            yield ExchangeStep(sets[node], sets[node], 2 * top - height[node] + 1)
        for child in order:
            if parent.get(child) == node:
                yield ExchangeStep(sets[node], sets[child], 2 * top - height[node] + 1)
