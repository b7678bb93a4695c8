"""Data-induced predicates: what a filter on one table lets the tables skip that it is joined with.

**What one is.** A filter on ``part`` leaves some of its blocks. The values that these hold in ``p_partkey``, by their
synopses alone, are a few ranges; rows of ``lineitem`` with another ``l_partkey`` find no partner. So the ranges are a
predicate on ``l_partkey``, implied by the data as it lies, and lineitem skips blocks by it before the query runs (diPs,
Figure 1). In the paper's words::

    q_i     = Satisfy(p_i)                    blocks that the query's own predicates leave   (equation 1)
    d_i→j   = DataPred(q_i, columns of i-j)   their ranges on the join columns, merged       (equation 2)
    q_j     = q_j and Satisfy(d_i→j)          blocks of the partner that meet them           (equation 3)

**Contract.** :func:`induced` returns, for each scan, masks of the blocks that may matter. A block is left out only if
it is proven that the query's result is the same without it, *whichever* of the other blocks that were left out are
read after all (files are read whole, and one scan may be read at several places): each proof is of the form "this row
has no partner among rows that matter", and fewer partners do not break it. Blocks of which nothing is known hold
everything, so a table that keeps one says nothing of that column (the taint rule of section 4.1, block by block and
column by column); a table of which not all files are known (:attr:`TableView.complete`) says nothing at all. Both
still receive.

**How.** The plan becomes a join graph (:mod:`.lineage`, the movement rules), the graph a schedule
(:mod:`.schedule`). What a table receives on a column is intersected with what it received before, and
blocks are held against that intersection: several predicates on one column together prune more than one by one. It
also goes on to the next table along the same column, through tables that have no synopsis at all.

A predicate is compacted to a bounded number of ranges. If that lost something, or a join has several columns, one pass
of the schedule need not be the end, and it is repeated until nothing more is pruned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sidestep.predicate import HOLDS_ALWAYS, All, And, Column, DataType, Formula, IntervalSet, Within, normalize
from sidestep.prune.dips.carry import compacted
from sidestep.prune.dips.emptiness import irrelevant_scans
from sidestep.prune.dips.exchange import Exchange
from sidestep.prune.dips.join_graph import JoinGraph
from sidestep.prune.dips.lineage import join_graph
from sidestep.prune.dips.model import Dip, Options, TableView, Values
from sidestep.prune.dips.schedule import graph_of, schedule
from sidestep.prune.plan.algebra import Query, Scan
from sidestep.prune.plan.static import scan_filters
from sidestep.synopsis import Catalog, Mask, kept_blocks
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges, value_ranges
from sidestep.synopsis.values.codes import Coding

__all__ = ["Bound", "Dip", "Edge", "Induced", "Node", "Options", "TableView", "induced", "join_columns"]


@dataclass(frozen=True, eq=False)
class Bound:
    """What a scan's rows must hold in a column to matter: a filter that may be added without changing the result."""

    column: Column
    """By the table's own name."""
    codes: CodeRanges
    coding: Coding
    nulls: bool
    """Whether NULL may matter too."""

    @property
    def ranges(self) -> IntervalSet:
        """The values that may matter, in at most twenty ranges: a condition is worked out for every row."""
        return self.within(20)

    def within(self, most: int) -> IntervalSet:
        """The same, or a little more, in at most so many ranges."""
        return value_ranges(compacted(self.coding, self.codes, most), self.coding)


@dataclass(frozen=True, slots=True)
class Node:
    """A scan or a union in the join graph."""

    id: int
    label: str
    scan: Scan | None
    blocks: int = 0
    static: int = 0
    """Blocks that the query's own predicates leave."""
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """A condition between two nodes, and which ways predicates may go along it."""

    left: int
    right: int
    text: str
    to_left: bool
    to_right: bool


@dataclass(frozen=True, eq=False)
class Induced:
    """What a query need not read, and how that was found out."""

    static: Mapping[str, tuple[Mask, ...]]
    """For each scan, by key, and each of its catalogs: the blocks that the query's own predicates leave."""
    kept: Mapping[str, tuple[Mask, ...]]
    """The blocks that may matter; those of a scan that is read at several places are those that matter at one."""
    bounds: Mapping[str, tuple[Bound, ...]]
    """By key, for scans read at one place only."""
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    dips: tuple[Dip, ...]
    """In the order they were derived."""
    stopped: bool
    """Whether the time budget ended the derivation."""


def join_columns(query: Query, options: Options | None = None) -> dict[str, dict[str, DataType]]:
    """For each scan, by key, the columns along which predicates may come or go: what a catalog should hold of it."""
    options = options or Options()
    graph = join_graph(query, options.movement)
    wanted: dict[str, dict[str, DataType]] = {}
    for link in graph.links if options.derive else ():
        for node, column in ((link.origin, link.source.column), (link.target, link.comparand.column)):
            scan = graph.nodes[node].scan
            if scan is not None:
                found = graph.table_column(node, column)
                wanted.setdefault(scan.key, {})[found.name] = found.type
    return wanted


def induced(query: Query, tables: Mapping[str, TableView], options: Options | None = None) -> Induced:
    """Prune the scans of a query by its own predicates and by those that its joins induce.

    ``tables`` has what is known of each scan, by its key. A scan that is missing there is read whole, but passes on
    what it is asked for.
    """
    options = options or Options()
    graph = join_graph(query, options.movement)
    places = [(node, scan_of(graph, node)) for node in graph.scans]
    formulas = {
        node: normalize(And(found.conjuncts)) for node, found in zip(graph.scans, scan_filters(query), strict=True)
    }
    views = {node: tables[scan.key] for node, scan in places if scan.key in tables}
    static = {
        node: tuple(_satisfying(catalog, formulas[node]) for catalog in view.catalogs) for node, view in views.items()
    }
    exchange = Exchange(graph, views, static, options)
    if options.derive:
        _exchange(exchange, formulas)
    keys = {node: scan.key for node, scan in places}
    return Induced(
        static=_by_key(keys, static),
        kept=_by_key(keys, exchange.kept),
        bounds=_bounds(exchange, keys),
        nodes=tuple(_nodes(exchange, static)),
        edges=tuple(_edges(graph)),
        dips=tuple(exchange.dips),
        stopped=exchange.stopped,
    )


def scan_of(graph: JoinGraph, node: int) -> Scan:
    scan = graph.nodes[node].scan
    assert scan is not None
    return scan


def _satisfying(catalog: Catalog, formula: Formula) -> Mask:
    return np.ones(catalog.blocks, np.bool_) if formula == HOLDS_ALWAYS else kept_blocks(catalog, formula)


def _exchange(exchange: Exchange, formulas: Mapping[int, Formula]) -> None:
    """The query's own ranges first, then rounds of the schedule for as long as a further one may prune more."""
    graph, options = exchange.graph, exchange.options
    for column, node in dict.fromkeys((link.source.column, link.origin) for link in graph.links):
        if graph.nodes[node].scan is not None:
            _start(exchange, node, column, formulas[node])
    _drop_irrelevant(exchange)
    if options.naive:
        exchange.run_naively()
        _drop_irrelevant(exchange)
        return
    steps = schedule(graph_of((link.origin, link.target) for link in graph.links))
    pairs = Counter((link.origin, link.target) for link in graph.links)
    several_columns = any(times > 1 for times in pairs.values())
    for number in range(1, options.rounds + 1):
        before = exchange.progress
        exchange.run(steps, number)
        emptied = _drop_irrelevant(exchange)
        may_go_on = (exchange.lossy or several_columns) and exchange.progress > before
        if exchange.stopped or not (may_go_on or emptied):
            return


def _start(exchange: Exchange, node: int, column: Column, formula: Formula) -> None:
    """What the query's own predicates ask of a column that is joined on: ranges to be narrowed from there."""
    own = exchange.graph.table_column(node, column)
    for atom in formula.children if isinstance(formula, All) else (formula,):
        if isinstance(atom, Within) and atom.column == own:
            codes = code_ranges(atom.ranges, exchange.coding(node, column))
            if codes is not None:
                exchange.receive(node, column, Values(codes, False))


def _drop_irrelevant(exchange: Exchange) -> bool:
    """Remove the blocks of scans that an empty input elsewhere makes irrelevant; whether there were any."""
    graph, before = exchange.graph, exchange.removed
    void = {node for node in graph.scans if exchange.void(node)}
    if void:
        for place in irrelevant_scans(graph.plans, lambda place: graph.scans[place] in void):
            if not graph.nodes[graph.scans[place]].blocked:
                exchange.drop(graph.scans[place])
    return exchange.removed > before


def _by_key(keys: Mapping[int, str], masks: Mapping[int, Sequence[Mask]]) -> dict[str, tuple[Mask, ...]]:
    """The masks of all places of each scan, put together: a block matters if it does at one of them."""
    found: dict[str, tuple[Mask, ...]] = {}
    for node, own in masks.items():
        known = found.get(keys[node])
        found[keys[node]] = tuple(own) if known is None else tuple(a | b for a, b in zip(known, own, strict=True))
    return found


def _bounds(exchange: Exchange, keys: Mapping[int, str]) -> dict[str, tuple[Bound, ...]]:
    times, found = Counter(keys.values()), dict[str, list[Bound]]()
    for node, column in dict.fromkeys((dip.target, dip.number) for dip in exchange.dips):
        if node in keys and times[keys[node]] == 1:
            values = exchange.bounds[node, column.name]
            own, coding = exchange.graph.table_column(node, column), exchange.coding(node, column)
            found.setdefault(keys[node], []).append(Bound(own, values.ranges, coding, values.nulls))
    return {key: tuple(bounds) for key, bounds in found.items()}


def _nodes(exchange: Exchange, static: Mapping[int, Sequence[Mask]]) -> Iterator[Node]:
    for number, node in enumerate(exchange.graph.nodes):
        if node.scan is None:
            yield Node(number, "union", None)
        else:
            before, after = static.get(number, ()), exchange.kept.get(number, ())
            counts = [sum(int(np.count_nonzero(mask)) for mask in masks) for masks in (before, after)]
            yield Node(number, node.scan.name, node.scan, sum(map(len, before)), counts[0], counts[1])


def _edges(graph: JoinGraph) -> Iterator[Edge]:
    """Each condition once, whichever ways it may be used."""
    ways: dict[tuple[int, int, str], set[bool]] = {}
    for link in graph.links:
        a, b = (
            (graph.table_column(link.origin, link.source.column).name, link.origin),
            (
                graph.table_column(link.target, link.comparand.column).name,
                link.target,
            ),
        )
        onward = link.origin < link.target
        (left, first), (right, second) = (a, b) if onward else (b, a)
        op = link.op if onward else link.op.flipped
        ways.setdefault((first, second, f"{left} {op.value} {right}"), set()).add(onward)
    for (first, second, text), directions in ways.items():
        yield Edge(first, second, text, to_left=False in directions, to_right=True in directions)
