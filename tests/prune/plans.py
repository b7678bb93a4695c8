"""Random plans and tables for the tests of pruning, what is decided about them, and what a plan means, row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq, gt, le
from random import Random

import numpy as np
import pyarrow as pa

from sidestep.predicate import And, Cast, Column, Comparison, DataType, Literal, Op, Or, Predicate
from sidestep.predicate.nodes import IsNull, Not
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import BOOLEAN, INTEGER, LONG
from sidestep.prune import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Operator,
    Other,
    Project,
    Query,
    Scan,
    Union,
    Window,
)
from sidestep.prune.analysis import Masks, Settings, StageReport, by_scan
from sidestep.prune.decide import decide
from sidestep.prune.dips.induced import Bound, Edge, Node
from sidestep.prune.dips.model import Dip, InducedOptions, TableView
from sidestep.prune.plan.algebra import Compared, DynamicScan, Sides, children
from sidestep.prune.plan.computed import Computed, Linear, arithmetic_step, cast_step, with_step
from sidestep.synopsis import Catalog, Mask, Synopsis, zone_maps
from sidestep.synopsis.global_ranges import GRT, GlobalRanges
from sidestep.synopsis.range_set import RANGE_SET, RangeSets
from tests.prune.joins import EXISTENCE, KINDS, Cell, Row, join_rows
from tests.synopsis.stored import held

Blocks = list[list[Row]]


def scan(key: str, *numbers: int, names: str = "xyzuvw", type: DataType = INTEGER) -> Scan:
    """A table whose columns x, y, … the query knows by these numbers."""
    columns = tuple((str(number), Column(name, type)) for number, name in zip(numbers, names, strict=False))
    return Scan(key=key, table=key, roots=(f"/{key}",), columns=columns)


def column(number: int | str, type: DataType = INTEGER) -> Column:
    return Column(str(number), type)


def equal(left: int | str, right: int | str, op: Op = Op.EQ) -> Comparison:
    return Comparison(op, column(left), column(right))


def between(number: int | str, low: int, high: int) -> Predicate:
    own = column(number)
    return And((Comparison(Op.GE, own, Literal(low, INTEGER)), Comparison(Op.LE, own, Literal(high, INTEGER))))


# ---- what a plan means


def outputs(operator: Operator) -> list[Column]:
    match operator:
        case Scan(columns=columns):
            return [Column(number, own.type) for number, own in columns]
        case Join(type=kind, left=left, right=right):
            if kind is EXISTENCE and operator.exists is not None:
                return [*outputs(left), Column(operator.exists, BOOLEAN)]
            sides = ((Sides.LEFT, left), (Sides.RIGHT, right))
            return [own for side, below in sides if side in kind.passes for own in outputs(below)]
        case Aggregate(groups=groups, child=child):
            return [found for found in outputs(child) if found.name in groups]
        case Union(columns=columns):
            return list(columns)
        case Other(children=below):
            return outputs(below[0])
        case DynamicScan(keys=keys, columns=columns):
            return [*keys, *columns]
    return outputs(children(operator)[-1])


def run(operator: Operator, data: Mapping[str, list[Row]]) -> list[Row]:
    """The rows of a plan, in an order that does not change when rows are removed that matter to no result."""
    match operator:
        case Scan(key=key, columns=columns):
            return [{number: row[own.name] for number, own in columns} for row in data[key]]
        case Filter(condition=condition, child=child):
            return [row for row in run(child, data) if evaluate(condition, row) is True]
        case Join():
            return _joined(operator, run(operator.left, data), run(operator.right, data))
        case Aggregate(groups=groups, child=child, grouped=grouped):
            counts = Counter(tuple((n, row[n]) for n in sorted(groups)) for row in run(child, data))
            if not grouped:
                counts = counts or Counter({(): 0})
            return [dict(group) | {f"count {id(operator)}": count} for group, count in counts.items()]
        case Window(partition=partition, child=child):
            rows = run(child, data)
            sizes = Counter(tuple(row[n] for n in sorted(partition)) for row in rows)
            return [row | {f"over {id(operator)}": sizes[tuple(row[n] for n in sorted(partition))]} for row in rows]
        case Limit(child=child):
            return run(child, data)[:2]
        case Union(children=below, columns=columns, outputs=puts):
            return [
                {own.name: 7 if what is None else _value(what, row) for own, what in zip(columns, put, strict=True)}
                for child, put in zip(below, puts, strict=True)
                for row in run(child, data)
            ]
        case Other(children=below):
            rows = run(below[0], data)
            return [row | {f"rank {id(operator)}": place} for place, row in enumerate(rows)]
        case Project(child=child, random=random):
            rows = run(child, data)
            return [row | {f"id {id(operator)}": place} for place, row in enumerate(rows)] if random else rows
    raise AssertionError(operator)


def _value(operand: Compared, row: Row) -> Cell:
    """What an operand is in a row of small integers, of which no sum leaves its type."""
    value = row[(operand if isinstance(operand, Column) else operand.column).name]
    for step in operand.steps if isinstance(operand, Computed) else ():
        if isinstance(step, Linear) and value is not None:
            value = step.times * value + step.plus
    return value


_COMPARES = {Op.EQ: eq, Op.LE: le, Op.GT: gt}


def _compares(op: Op, one: Cell, other: Cell) -> bool:
    if op is Op.NULL_SAFE:
        return one == other
    return one is not None and other is not None and bool(_COMPARES[op](one, other))


def _joined(join: Join, left: list[Row], right: list[Row]) -> list[Row]:
    def meets(a: Row, b: Row) -> bool:
        both = a | b
        if not all(_compares(op, _value(one, both), _value(other, both)) for op, one, other in join.computed):
            return False
        return join.condition is None or evaluate(join.condition, both) is True

    own, other = ([column.name for column in outputs(side)] for side in (join.left, join.right))
    return join_rows(join.type.name, left, right, meets, own, other, join.exists or "exists")


def result(plans: Sequence[Operator], data: Mapping[str, list[Row]]) -> list[Counter[tuple[tuple[str, Cell], ...]]]:
    return [Counter(tuple(sorted(row.items())) for row in run(plan, data)) for plan in plans]


# ---- tables in blocks


def view(
    blocks: Blocks,
    types: Mapping[str, DataType],
    ranges: int = 1,
    unknown: Sequence[bool] = (),
    complete: bool = True,
    bits: int = 0,
) -> TableView:
    """A table of one file per block, with zone maps, with range-sets if more than one range is wished for, and bits."""
    hidden = list(unknown) or [False] * len(blocks)
    rows = np.array([len(block) for block in blocks], dtype=np.int64)
    index: dict[str, pa.Array] = {}
    sets, tables = {}, {}
    for name in types:
        values = [[value for row in block if (value := row[name]) is not None] for block in blocks]
        ends: list[list[Cell]] = [[], []]
        for own, hide in zip(values, hidden, strict=True):
            for end, side in zip(ends, (min, max), strict=True):
                end.append(side(own) if own and not hide else None)
        nulls = [None if hide else len(b) - len(v) for b, v, hide in zip(blocks, values, hidden, strict=True)]
        index |= {
            f"lower:{name}": pa.array(ends[0], pa.int64()),
            f"upper:{name}": pa.array(ends[1], pa.int64()),
            f"nulls:{name}": pa.array(nulls, pa.int64()),
        }
        arrays = [
            pa.array([], pa.string()) if hide else pa.array(own, pa.int64())
            for own, hide in zip(values, hidden, strict=True)
        ]
        sets[name] = held(RANGE_SET, types[name], arrays, ranges)
        if bits and not all(hidden):
            tables[name] = held(GRT, types[name], arrays, bits)
    synopses: list[Synopsis] = [zone_maps(types, index, rows)]
    if ranges > 1:
        synopses.append(RangeSets(sets))
    if tables:
        synopses.append(GlobalRanges(tables))
    files = np.arange(len(blocks), dtype=np.int32)
    return TableView((Catalog(files, rows, rows * 100, len(blocks), tuple(synopses)),), complete)


def rows_of(blocks: Blocks, mask: Mask | Sequence[bool] | None = None) -> list[Row]:
    kept = [True] * len(blocks) if mask is None else mask
    return [row for block, keep in zip(blocks, kept, strict=True) if keep for row in block]


def random_blocks(random: Random, names: Sequence[str], most: int = 5) -> Blocks:
    """Blocks of a few rows whose values lie close together, so that there is something to skip."""
    blocks: Blocks = []
    for _ in range(random.randint(0, most)):
        bases = {name: random.randint(0, 9) for name in names}
        alone = random.random() < 0.1
        blocks.append(
            [
                {
                    name: None if alone or random.random() < 0.15 else bases[name] + random.choice((0, 0, 1, 3))
                    for name in names
                }
                for _ in range(random.randint(1, 3))
            ]
        )
    return blocks


# ---- what is decided


@dataclass(frozen=True)
class GivenTables:
    """Tables by the keys of their scans."""

    views: Mapping[str, TableView]
    small: Mapping[str, Catalog] = field(default_factory=dict)
    """Tables of which each row is known."""

    def rows(self, scan: Scan, columns: Mapping[str, DataType], most: int) -> Catalog | None:
        known = self.small.get(scan.key)
        return known if known is not None and known.blocks <= most else None

    def covers(self, scan: Scan) -> bool:
        return scan.key in self.views

    def catalogs(self, scan: Scan, columns: Mapping[str, DataType]) -> tuple[Catalog, ...]:
        return self.views[scan.key].catalogs

    def accesses(self, scan: Scan, columns: Mapping[str, DataType]) -> None:
        return None

    def complete(self, scans: Collection[Scan]) -> frozenset[str]:
        return frozenset(scan.key for scan in scans if self.views[scan.key].complete)


@dataclass(frozen=True)
class Pruned:
    """What is left of each scan, by key, and how that came to be."""

    static: Mapping[str, Masks]
    kept: Mapping[str, Masks]
    bounds: Mapping[str, tuple[Bound, ...]]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    dips: tuple[Dip, ...]
    stages: Mapping[str, StageReport]


def prune(
    query: Query,
    views: Mapping[str, TableView],
    options: InducedOptions | None = None,
    off: Collection[str] = (),
    in_full: bool = False,
    small: Mapping[str, Catalog] | None = None,
) -> Pruned:
    """All stages over a query whose tables are these."""
    settings = Settings(frozenset(off), options or InducedOptions(), in_full=in_full)
    analyzed, decision = decide(query, GivenTables(views, small or {}), settings)
    induced = decision.induced
    return Pruned(
        by_scan(analyzed, decision.static),
        by_scan(analyzed, decision.kept),
        decision.bounds,
        induced.nodes if induced else (),
        induced.edges if induced else (),
        induced.dips if induced else (),
        {stage.name: stage for stage in decision.stages},
    )


# ---- random plans


class RandomPlans:
    """Makes plans of all operators over tables of two columns; every number is used once."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.last = 0
        self.scans: list[Scan] = []

    def number(self) -> int:
        self.last += 1
        return self.last

    def table(self) -> Scan:
        made = scan(f"t{len(self.scans)}", self.number(), self.number(), type=self.random.choice((INTEGER, LONG)))
        self.scans.append(made)
        return made

    def plan(self, tables: int) -> Operator:
        parts: list[Operator] = [self.table() for _ in range(tables)]
        while len(parts) > 1:
            if self.random.random() < 0.5:
                place = self.random.randrange(len(parts))
                parts[place] = self.wrapped(parts[place])
            left = parts.pop(self.random.randrange(len(parts)))
            right = parts.pop(self.random.randrange(len(parts)))
            parts.append(self.united(left, right) if self.random.random() < 0.12 else self.joined(left, right))
        return self.wrapped(parts[0]) if self.random.random() < 0.5 else parts[0]

    def integers(self, operator: Operator) -> list[Column]:
        return [own for own in outputs(operator) if own.type != BOOLEAN]

    def compare(self, a: Column, b: Column, op: Op) -> Comparison:
        if a.type == b.type:
            return Comparison(op, a, b)
        wide = [own if own.type == LONG else Cast(own, LONG) for own in (a, b)]
        return Comparison(op, wide[0], wide[1])

    def joined(self, left: Operator, right: Operator) -> Operator:
        first, second = self.integers(left), self.integers(right)
        kind = self.random.choices(KINDS, [6, 1, 3, 2, 1, 3, 2, 3])[0]
        parts: list[Predicate] = []
        for _ in range(self.random.choices((0, 1, 2), (1, 6, 2))[0] if first and second else 0):
            op = self.random.choices((Op.EQ, Op.NULL_SAFE, Op.LE, Op.GT), (8, 2, 1, 1))[0]
            a, b = self.random.choice(first), self.random.choice(second)
            parts.append(self.compare(*((a, b) if self.random.random() < 0.7 else (b, a)), op))
        if self.random.random() < 0.15 and first + second:
            parts.append(self.condition(first + second))
        condition = None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))
        exists = f"e{self.number()}" if kind is EXISTENCE else None
        alike = [(a, b) for a in first for b in second if a.type == b.type]
        computed: list[tuple[Op, Compared, Compared]] = []
        if alike and self.random.random() < 0.2:
            a, b = self.random.choice(alike)
            op = self.random.choices((Op.EQ, Op.NULL_SAFE, Op.LE, Op.GT), (6, 2, 1, 1))[0]
            computed.append((op, self.computed(a), self.computed(b)))
        return Join(kind, left, right, condition, self.random.random() < 0.02, exists, tuple(computed))

    def computed(self, own: Column, most: int = 2) -> Compared:
        """A column, or what a step or two make of it."""
        made: Compared = own
        for _ in range(self.random.randint(0, most)):
            constant = Literal(self.random.choice((-4, -3, -2, -1, 1, 2, 3)), own.type)
            op = self.random.choice(("+", "-", "from", "*", "negate"))
            made = with_step(made, arithmetic_step(op, own.type, constant, own.type)) or made
        return made

    def united(self, left: Operator, right: Operator) -> Operator:
        first, second = self.integers(left), self.integers(right)
        width = min(len(first), len(second), 2)
        puts: list[list[Compared | None]] = [[], []]
        for put, own in zip(puts, (first, second), strict=True):
            for chosen in self.random.sample(own, width):
                some = self.computed(chosen, 1) if self.random.random() < 0.3 else chosen
                if isinstance(some, Computed):
                    put.append(some if some.type == LONG else with_step(some, cast_step(some.type, LONG)))
                    continue
                plain = chosen if chosen.type == LONG else Cast(chosen, LONG)
                put.append(None if self.random.random() < 0.1 else plain)
        columns = tuple(column(self.number(), LONG) for _ in range(width))
        return Union((left, right), columns, tuple(tuple(put) for put in puts))

    def wrapped(self, child: Operator) -> Operator:
        own = self.integers(child)
        some = frozenset(found.name for found in own if self.random.random() < 0.6)
        match self.random.randrange(12):
            case 0 | 1 | 2 | 3:
                return Filter(self.condition(own), child) if own else child
            case 4 | 5:
                return Aggregate(some, child, grouped=bool(some))
            case 6:
                return Window(some, child)
            case 7:
                return Limit(child)
            case 8:
                return Other("Anything", (child,))
            case 9:
                return Project(child, random=True)
            case 10 | 11 if flags := [found for found in outputs(child) if found.type == BOOLEAN]:
                parts: list[Predicate] = [*flags]
                if own and self.random.random() < 0.3:
                    parts.append(self.condition(own))
                return Filter(Or(tuple(parts)), child)
        return Project(child)

    def condition(self, columns: Sequence[Column]) -> Predicate:
        own = self.random.choice(columns)
        low = self.random.randint(0, 9)
        match self.random.randrange(8):
            case 0:
                return IsNull(own)
            case 1 if len(columns) > 1:
                other = self.random.choice(columns)
                return self.compare(own, other, self.random.choice((Op.EQ, Op.LT)))
            case 2:
                return Not(Comparison(Op.LE, own, Literal(low, own.type)))
            case 3:
                return Or((Comparison(Op.EQ, own, Literal(low, own.type)), IsNull(own)))
        return And(
            (
                Comparison(Op.GE, own, Literal(low, own.type)),
                Comparison(Op.LE, own, Literal(low + self.random.randint(0, 4), own.type)),
            )
        )


# ---- tables by their bounds


def spans(**columns: Sequence[tuple[int, int]]) -> Blocks:
    """Blocks of two rows each, which hold the least and the greatest values given for the block."""
    ends = [dict(zip(columns, pairs, strict=True)) for pairs in zip(*columns.values(), strict=True)]
    return [[{name: pair[side] for name, pair in block.items()} for side in (0, 1)] for block in ends]


def viewed(blocks: Blocks, ranges: int = 1, complete: bool = True, unknown: Sequence[bool] = ()) -> TableView:
    names = blocks[0][0] if blocks else {"x": 0, "y": 0}
    return view(blocks, dict.fromkeys(names, INTEGER), ranges, unknown, complete)
