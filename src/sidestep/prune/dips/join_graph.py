"""The join graph of a query: its tables, and the links along which predicates may be sent between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sidestep.predicate import Column, DataType, Op
from sidestep.prune.dips.carry import Comparand
from sidestep.prune.plan.algebra import Operator, Scan


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a condition ``origin op target``: along it, ranges of one node's column go to another's."""

    origin: int
    source: Comparand
    op: Op
    target: int
    comparand: Comparand
    null_added: bool = False
    down: bool = True
    """Whether the target may be pruned by it; otherwise the link only tells a union what its inputs hold."""

    def __hash__(self) -> int:
        return hash((self.origin, self.source, self.target, self.comparand))


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A table of the join graph, or a union of columns."""

    scan: Scan | None
    """None for a union."""
    blocked: bool = False
    """Whether nothing may be pruned here, since the result depends on how rows lie in files."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """For a table, the compared columns by their numbers."""
    members: Mapping[str, tuple[Link | None, ...]] = field(default_factory=dict)
    """For each column of a union, what each input puts there; None is unknown."""


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """The nodes (scans in the order of the plan among them) and the links between them."""

    nodes: tuple[GraphNode, ...]
    links: tuple[Link, ...]
    plans: tuple[Operator, ...]
    scans: tuple[int, ...]
    """The nodes that are scans, in the order of :func:`~sidestep.prune.plan.static.scan_filters`."""

    def table_column(self, node: int, column: Column) -> Column:
        """A node's column by the name that its table has for it."""
        return self.nodes[node].columns.get(column.name, column)

    def scans_by_node(self) -> Iterator[tuple[int, Scan]]:
        for node in self.scans:
            scan = self.nodes[node].scan
            if scan is not None:
                yield node, scan


def join_columns(graph: JoinGraph) -> dict[str, dict[str, DataType]]:
    """For each scan, by key, the columns along which predicates may come or go: what a catalog should hold of it."""
    columns: dict[str, dict[str, DataType]] = {}
    for link in graph.links:
        for node, column in ((link.origin, link.source.column), (link.target, link.comparand.column)):
            scan = graph.nodes[node].scan
            if scan is not None:
                own = graph.table_column(node, column)
                columns.setdefault(scan.key, {})[own.name] = own.type
    return columns


def without_redundant(links: Sequence[Link]) -> Iterator[Link]:
    """The links without equalities that follow from others.

    If ``a = b`` and ``b = c`` then ``a = c``, and what a says reaches c by way of b, narrowed by what b says. Queries
    often state all three (the Join Order Benchmark does), and so make a cycle out of a tree. Only equalities that let
    values through unchanged and predicates in both directions follow from each other.
    """
    both = {(link.origin, link.source, link.target, link.comparand) for link in links if _is_plain(link)}
    group: dict[tuple[int, str], tuple[int, str]] = {}

    def first(member: tuple[int, str]) -> tuple[int, str]:
        while (above := group.get(member, member)) != member:
            member = above
        return member

    decided: dict[tuple[int, Comparand, int, Comparand], bool] = {}
    for link in links:
        key = (link.origin, link.source, link.target, link.comparand)
        back = (link.target, link.comparand, link.origin, link.source)
        if key not in both or back not in both or not _is_plain(link):
            yield link
            continue
        if back not in decided:
            one, other = first((link.origin, link.source.column.name)), first((link.target, link.comparand.column.name))
            decided[key] = decided[back] = one != other
            group[one] = other
        if decided[key]:
            yield link


def _is_plain(link: Link) -> bool:
    return link.op is Op.EQ and link.source.keeps_values and link.comparand.keeps_values
