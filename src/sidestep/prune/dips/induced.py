"""Data-induced predicates: what a filter on one table lets the tables skip that it is joined with.

**What one is.** A filter on ``part`` leaves some of its blocks. The values that these hold in ``p_partkey``, by their
synopses alone, are a few ranges; rows of ``lineitem`` with another ``l_partkey`` find no partner. So the ranges are a
predicate on ``l_partkey``, implied by the data as it lies, and lineitem skips blocks by it before the query runs (diPs,
Figure 1). In the paper's words::

    q_i     = Satisfy(p_i)                    blocks that the query's own predicates leave   (equation 1)
    d_i→j   = DataPred(q_i, columns of i-j)   their ranges on the join columns, merged       (equation 2)
    q_j     = q_j and Satisfy(d_i→j)          blocks of the partner that meet them           (equation 3)

**Contract.** :func:`induce` returns, for each place where a table is read, masks of the
blocks that may matter. A block is left out only if
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sidestep.predicate import All, Column, Formula, Interval, IntervalSet, Within
from sidestep.prune.dips.carry import compact
from sidestep.prune.dips.column_ranges import EVERYTHING
from sidestep.prune.dips.emptiness import irrelevant_scans
from sidestep.prune.dips.exchange import OWN, Exchange
from sidestep.prune.dips.join_graph import JoinGraph
from sidestep.prune.dips.model import Dip, InducedOptions, TableView, Values
from sidestep.prune.dips.schedule import graph_of, schedule
from sidestep.prune.plan.algebra import Scan
from sidestep.synopsis import Catalog, Mask, kept_blocks
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges, value_ranges
from sidestep.synopsis.values.codes import Coding

ANY_VALUE = (Interval(None, None),)
"""The intervals of a predicate that only asks for a value to be there, as Spark does of every join column."""


@dataclass(frozen=True, eq=False)
class Bound:
    """What a scan's rows must hold in a column to matter: a filter that may be added without changing the result."""

    column: Column
    """By the table's own name."""
    codes: CodeRanges
    coding: Coding
    nulls: bool
    """Whether NULL may matter too."""

    def within(self, limit: int) -> IntervalSet:
        """The values that may matter, or a few more, in at most ``limit`` ranges."""
        return value_ranges(compact(self.coding, self.codes, limit), self.coding)


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
    """What joins let a query skip, and how that was found out. Masks are by place, in the order of ``graph.scans``."""

    graph: JoinGraph
    static: Sequence[Sequence[Mask]]
    """The blocks that were kept before."""
    kept: tuple[tuple[Mask, ...], ...]
    """The blocks that may matter."""
    bounds: Mapping[str, tuple[Bound, ...]] = field(default_factory=dict)
    """By key, for scans that are read at one place only, on columns by which blocks went."""
    dips: tuple[Dip, ...] = ()
    """In the order they were derived."""
    stopped: bool = False
    """Whether the time budget ended the derivation."""
    emptied: bool = False
    """Whether blocks went because an input elsewhere is empty."""

    @cached_property
    def relied_on(self) -> frozenset[str]:
        """The keys of the scans that the result rests on: had one of them other rows than is known, it might not hold.

        They are the origins of predicates on columns by which blocks went, and of those that had a part in these.
        """
        scans = dict(self.graph.scans_by_node())
        if self.emptied:
            return frozenset(scan.key for scan in scans.values())
        losing, reads = _losing(self.dips), _Reads(self.graph)
        for dip in reversed(self.dips):
            if (dip.target, dip.number.name) in losing or reads.depend_on(dip):
                reads.add(dip.origin, dip.source.name, dip.target)
        return frozenset(scans[node].key for node in reads.by_node if node in scans)

    @cached_property
    def removed(self) -> int:
        """Blocks that were kept before and are no longer."""
        return sum(_count(before) - _count(after) for before, after in zip(self.static, self.kept, strict=True))

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        place_of = {node: place for place, node in enumerate(self.graph.scans)}
        return tuple(self._node(number, place_of.get(number)) for number in range(len(self.graph.nodes)))

    def _node(self, number: int, place: int | None) -> Node:
        scan = self.graph.nodes[number].scan
        if scan is None or place is None:
            return Node(number, "union", None)
        before, after = self.static[place], self.kept[place]
        return Node(number, scan.name, scan, sum(map(len, before)), _count(before), _count(after))

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(_edges(self.graph))


def induce(
    graph: JoinGraph,
    views: Sequence[TableView | None],
    formulas: Sequence[Formula],
    kept: Sequence[Sequence[Mask]],
    options: InducedOptions,
    rows: Sequence[Catalog | None] = (),
) -> Induced:
    """Prune the scans of a join graph by the predicates that its joins induce.

    For each place (of ``graph.scans``) there is what is known of its table, the query's own predicates, and the blocks
    that are kept up to now. A table that nothing is known of is read whole, but passes on what it is asked for. Of a
    small one, ``rows`` has every row as a block: then what it sends is what the rows hold that its predicates leave.
    """
    known = {node: view for node, view in zip(graph.scans, views, strict=True) if view is not None}
    masks = {node: own for node, own in zip(graph.scans, kept, strict=True) if node in known}
    exchange = Exchange(graph, known, masks, options)
    for node, own, formula in zip(graph.scans, rows or [None] * len(graph.scans), formulas, strict=True):
        if own is not None:
            exchange.limit_by_rows(node, own, kept_blocks(own, formula))
    _run(exchange, dict(zip(graph.scans, formulas, strict=True)))
    return Induced(
        graph=graph,
        static=kept,
        kept=tuple(tuple(exchange.kept.get(node, ())) for node in graph.scans),
        bounds=_bounds(exchange),
        dips=tuple(exchange.dips),
        stopped=exchange.stopped,
        emptied=exchange.emptied,
    )


def _losing(dips: Iterable[Dip]) -> set[tuple[int, str]]:
    """The nodes that lost blocks by a predicate, with the number of the column that it was on."""
    return {(dip.target, dip.number.name) for dip in dips if dip.removed}


class _Reads:
    """What predicates were derived from: columns of nodes, and the node that each was read for."""

    def __init__(self, graph: JoinGraph) -> None:
        self.graph = graph
        self.by_node: dict[int, set[tuple[str, int]]] = {}

    def add(self, node: int, column: str, reader: int) -> None:
        self.by_node.setdefault(node, set()).add((column, reader))
        for member in self.graph.nodes[node].members.get(column, ()):
            if member is not None:
                self.add(member.origin, member.source.column.name, OWN)

    def depend_on(self, dip: Dip) -> bool:
        """Whether one that was derived later may be as it is because of this one."""
        reads = self.by_node.get(dip.target, ())
        if dip.removed or not dip.count:
            return bool(reads)
        # What a node has asked for itself is not told back to it.
        return any(column == dip.number.name and reader != dip.origin for column, reader in reads)


def _count(masks: Sequence[Mask]) -> int:
    return sum(int(np.count_nonzero(mask)) for mask in masks)


def _run(exchange: Exchange, formulas: Mapping[int, Formula]) -> None:
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
            present = atom.ranges.intervals == ANY_VALUE
            codes = EVERYTHING if present else code_ranges(atom.ranges, exchange.coding(node, column))
            if codes is not None:
                exchange.receive(node, column, Values(codes, False))


def _drop_irrelevant(exchange: Exchange) -> bool:
    """Remove the blocks of scans that an empty input elsewhere makes irrelevant; whether there were any."""
    graph, before = exchange.graph, exchange.removed
    void = {node for node in graph.scans if exchange.is_void(node)}
    if void:
        for place in irrelevant_scans(graph.plans, lambda place: graph.scans[place] in void):
            if not graph.nodes[graph.scans[place]].blocked:
                exchange.drop(graph.scans[place])
    return exchange.removed > before


def _bounds(exchange: Exchange) -> dict[str, tuple[Bound, ...]]:
    keys = {node: scan.key for node, scan in exchange.graph.scans_by_node()}
    times, bounds = Counter(keys.values()), dict[str, list[Bound]]()
    losing = _losing(exchange.dips)
    for node, column in dict.fromkeys((dip.target, dip.number) for dip in exchange.dips):
        if (node, column.name) in losing and node in keys and times[keys[node]] == 1:
            values = exchange.bounds[node, column.name]
            own, coding = exchange.graph.table_column(node, column), exchange.coding(node, column)
            bounds.setdefault(keys[node], []).append(Bound(own, values.ranges, coding, values.nulls))
    return {key: tuple(own) for key, own in bounds.items()}


def _edges(graph: JoinGraph) -> Iterator[Edge]:
    """Each condition once, whichever ways it may be used."""
    ways: dict[tuple[int, int, str], set[bool]] = {}
    for link in graph.links:
        a = link.source.text(graph.table_column(link.origin, link.source.column).name), link.origin
        b = link.comparand.text(graph.table_column(link.target, link.comparand.column).name), link.target
        onward = link.origin < link.target
        (left, first), (right, second) = (a, b) if onward else (b, a)
        op = link.op if onward else link.op.flipped
        ways.setdefault((first, second, f"{left} {op.value} {right}"), set()).add(onward)
    for (first, second, text), directions in ways.items():
        yield Edge(first, second, text, to_left=False in directions, to_right=True in directions)
