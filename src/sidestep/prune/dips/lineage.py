"""Where columns come from, and which conditions let a predicate move from one table to another.

**Movement.** A data-induced predicate is a filter on one column, so it may go wherever such a filter may go. The rules
(diPs, section 3.3) ask two things of every operator between a table and a join condition:

* *up*: are the values that leave it for a column among those that came in? Then ranges of the table's blocks are
  ranges at the condition.
* *down*: does a row of its input with a value outside a set matter only to rows of its output with that value? Then
  what the condition asks for, the table's rows must fulfil, or they do not matter.

=====================  ==========================  ==============================================================
operator               up                          down
=====================  ==========================  ==============================================================
filter, projection     yes                         yes (rules 1 and 2); what is computed is undone
group-by               columns it groups by        columns it groups by (rule 3)
window                 yes                         columns it partitions by
limit                  yes                         no: other rows would take the place of those that go
union                  the union of its inputs     to each input (rule 4)
inner join             yes                         to the input that has the column (rule 6)
outer join             yes; NULL joins the         to the preserved input (rule 6)
                       null-supplying columns
semi, anti join        the left input's columns    to the left input (rule 4)
anything else          no                          no
=====================  ==========================  ==============================================================

**Crossing a join** (rule 5): along ``a = b`` a predicate goes from left to right in inner, semi, left outer, anti and
existence joins, and from right to left in inner, semi and right outer joins. From the null-supplying side, or out of
the right side of an anti join, it would remove rows that have no match, and these are in the result.

An existence join decides nothing by itself; a filter ``e1 OR e2`` on its columns does, and then what the right sides
hold together goes to the left (TPC-DS query 35: the union of Figure 7).

All movement is worked out once, from the plan alone: what comes out is a graph of tables (and unions) with the
directed links along which predicates may be sent, however many operators lie between
(:mod:`~sidestep.prune.dips.join_graph`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sidestep.predicate import Cast, Column, Comparison, DataType, Op, Or, Predicate, conjuncts
from sidestep.predicate.nodes import flatten
from sidestep.prune.dips.carry import BANDS, Comparand, carries
from sidestep.prune.dips.join_graph import GraphNode, JoinGraph, Link, without_redundant
from sidestep.prune.plan.algebra import (
    Aggregate,
    Compared,
    Filter,
    Join,
    Limit,
    Operator,
    Other,
    Project,
    Query,
    Scan,
    Sides,
    Window,
    children,
    walk,
)
from sidestep.prune.plan.algebra import Union as UnionAll
from sidestep.prune.plan.computed import Computed

_USED = frozenset({Op.EQ, Op.NULL_SAFE}) | BANDS


class ColumnSource(NamedTuple):
    """A column as some operator passes it on: of which node it is, and what happened to it on the way."""

    node: int
    column: Column
    """Named by its number."""
    null_added: bool = False
    """Rows with NULL instead may have joined on the way (an outer join)."""
    down: bool = True
    """Whether what is asked of the column here may be asked of the node."""


def join_graph(query: Query, movement: bool = True) -> JoinGraph:
    """The join graph of a query; without ``movement``, of its maximal parts of selections and joins alone."""
    conditions = {
        id(operator): tuple(_conditions(operator))
        for plan in query.plans
        for operator in walk(plan)
        if isinstance(operator, Join | Filter)
    }
    builder = _Builder(movement, conditions, set(_compared_columns(query, conditions)))
    for plan in query.plans:
        builder.visit(plan, blocked=False)
    links = dict.fromkeys(link for link in builder.links if not builder.nodes[link.target].blocked)
    return JoinGraph(tuple(builder.nodes), tuple(without_redundant(list(links))), query.plans, tuple(builder.scans))


class Condition(NamedTuple):
    """A comparison of two columns, each as it is, cast, or computed from."""

    op: Op
    left: Compared
    right: Compared

    @property
    def flipped(self) -> Condition:
        return Condition(self.op.flipped, self.right, self.left)


def _compared_columns(query: Query, conditions: Mapping[int, Iterable[Condition]]) -> Iterator[str]:
    """The numbers of the columns that may matter: compared with each other, or put into a union."""
    for each in conditions.values():
        for condition in each:
            yield from (_base(condition.left).name, _base(condition.right).name)
    for plan in query.plans:
        for operator in walk(plan):
            if isinstance(operator, UnionAll):
                yield from (_base(put).name for outputs in operator.outputs for put in outputs if put is not None)


def _conditions(operator: Join | Filter) -> Iterator[Condition]:
    """The conjuncts of a condition that compare two columns."""
    for part in conjuncts(operator.condition) if operator.condition is not None else ():
        if not isinstance(part, Comparison) or part.op not in _USED:
            continue
        if isinstance(part.left, Column | Cast) and isinstance(part.right, Column | Cast):
            yield Condition(part.op, part.left, part.right)
    if isinstance(operator, Join):
        yield from (Condition(*each) for each in operator.computed if each[0] in _USED)


def _base(operand: Compared) -> Column:
    return operand if isinstance(operand, Column) else operand.column


Columns = dict[str, ColumnSource]
"""The columns that an operator passes on, by number."""


class _Builder:
    def __init__(self, movement: bool, conditions: Mapping[int, tuple[Condition, ...]], used: set[str]) -> None:
        self.movement = movement
        self.conditions = conditions
        """Those of each join and filter, by its identity."""
        self.used = used
        self.nodes: list[GraphNode] = []
        self.scans: list[int] = []
        self.links: list[Link] = []
        self.existence: dict[str, list[tuple[Condition, ColumnSource]]] = {}
        """For the column of an existence join: its conditions, left side first, and where the right side is from."""

    def visit(self, operator: Operator, blocked: bool) -> Columns:
        """The columns that an operator passes on; on the way, nodes and links of all below it are noted."""
        if isinstance(operator, Scan):
            columns = {number: own for number, own in operator.columns if number in self.used}
            node = self.add(GraphNode(operator, blocked, columns))
            self.scans.append(node)
            return {number: ColumnSource(node, Column(number, own.type)) for number, own in columns.items()}
        blocked = blocked or operator.random or (isinstance(operator, Other) and operator.name == "Sample")
        below = [self.visit(child, blocked) for child in children(operator)]
        match operator:
            case Filter():
                self.visit_filter(operator, below[0])
                return below[0]
            case Project():
                return below[0]
            case Join():
                return self.visit_join(operator, below[0], below[1])
        if not self.movement:
            return {}
        match operator:
            case Aggregate(groups=groups):
                return {number: source for number, source in below[0].items() if number in groups}
            case Window(partition=partition):
                return {
                    number: source if number in partition else source._replace(down=False)
                    for number, source in below[0].items()
                }
            case Limit():
                return {number: source._replace(down=False) for number, source in below[0].items()}
            case UnionAll():
                return self.visit_union(operator, below, blocked)
        return {}

    def add(self, node: GraphNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    # ---- conditions

    def visit_join(self, join: Join, left: Columns, right: Columns) -> Columns:
        for condition in self.conditions[id(join)]:
            if _base(condition.left).name not in left:
                condition = condition.flipped
            a, b = left.get(_base(condition.left).name), right.get(_base(condition.right).name)
            if a is None or b is None:
                continue
            if Sides.RIGHT in join.type.condition_holds:
                self.link(condition, a, b)
            if Sides.LEFT in join.type.condition_holds:
                self.link(condition.flipped, b, a)
            if join.exists is not None:
                self.existence.setdefault(join.exists, []).append((condition, b))
        passed: Columns = {}
        for side, columns in ((Sides.LEFT, left), (Sides.RIGHT, right)) if join.type.made_of_inputs else ():
            if side in join.type.passes:
                passed |= _pass_on(columns, preserved=side in join.type.above_holds)
        return passed

    def visit_filter(self, operator: Filter, columns: Columns) -> None:
        for condition in self.conditions[id(operator)]:
            a, b = columns.get(_base(condition.left).name), columns.get(_base(condition.right).name)
            if a is not None and b is not None and a.node != b.node:
                self.link(condition, a, b)
                self.link(condition.flipped, b, a)
        if self.existence and self.movement:
            for part in conjuncts(operator.condition):
                self.link_existence(list(flatten(Or, part)), columns)

    def link_existence(self, flags: list[Predicate], columns: Columns) -> None:
        """A condition that one of some existence joins found a match: their right sides together bound the left."""
        joins = [self.existence.get(flag.name) for flag in flags if isinstance(flag, Column)]
        if len(joins) < len(flags) or not all(joins):
            return
        known = [{(one.left, one.op): (one, right) for one, right in conditions or ()} for conditions in joins]
        for left, op in known[0]:
            source = columns.get(_base(left).name)
            if source is None or op in BANDS or not all((left, op) in one for one in known[1:]):
                continue
            node = len(self.nodes)
            number = Column(f"exists {node}", left.type)
            rights = [one[left, op] for one in known]
            members = tuple(self.member(right, one.right, node, number) for one, right in rights)
            self.add(GraphNode(None, members={number.name: members}))
            self.link(Condition(op, number, left), ColumnSource(node, number), source)

    def visit_union(self, union: UnionAll, below: list[Columns], blocked: bool) -> Columns:
        node = len(self.nodes)
        self.add(GraphNode(None, blocked))
        members: dict[str, tuple[Link | None, ...]] = {}
        for place, column in enumerate(union.columns):
            if column.name not in self.used:
                continue
            inputs: list[Link | None] = []
            for columns, outputs in zip(below, union.outputs, strict=True):
                put = outputs[place]
                source = None if put is None else columns.get(_base(put).name)
                member = None if put is None or source is None else self.member(source, put, node, column)
                inputs.append(member)
                if member is not None and source is not None and source.down:
                    self.links.append(Link(node, member.comparand, Op.NULL_SAFE, source.node, member.source, down=True))
            members[column.name] = tuple(inputs)
        self.nodes[node] = GraphNode(None, blocked, members=members)
        return {number: ColumnSource(node, Column(number, _type_of(union, number))) for number in members}

    def member(self, source: ColumnSource, put: Compared, node: int, column: Column) -> Link | None:
        """What an input puts into a union's column, as a link that carries it there."""
        origin, target = _comparand(put, source.column), Comparand(column, column.type)
        if not carries(origin, Op.NULL_SAFE, target):
            return None
        link = Link(source.node, origin, Op.NULL_SAFE, node, target, source.null_added, down=False)
        self.links.append(link)
        return link

    def link(self, condition: Condition, origin: ColumnSource, target: ColumnSource) -> None:
        if origin.node == target.node or not target.down:
            return
        a, b = _comparand(condition.left, origin.column), _comparand(condition.right, target.column)
        if carries(a, condition.op, b):
            self.links.append(Link(origin.node, a, condition.op, target.node, b, origin.null_added))


def _pass_on(columns: Columns, preserved: bool) -> Columns:
    """Columns as a join passes them on: those of an input that is not preserved may be NULL beyond it."""
    if preserved:
        return columns
    return {number: source._replace(null_added=True, down=False) for number, source in columns.items()}


def _comparand(operand: Compared, column: Column) -> Comparand:
    return Comparand(column, operand.type, operand.steps if isinstance(operand, Computed) else ())


def _type_of(union: UnionAll, number: str) -> DataType:
    return next(column.type for column in union.columns if column.name == number)
