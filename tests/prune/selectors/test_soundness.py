"""Selectors never change a result: random plans over random partitioned tables, read whole and read by choice."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import pytest

from sidestep.predicate import Column, Interval, IntervalSet
from sidestep.prune import Join, Operator, Scan
from sidestep.prune.plan.algebra import DynamicScan, Sides, children, walk, with_children
from sidestep.prune.selectors.partitions import DEFAULT, Constraint, Level, PartitionedTable
from sidestep.prune.selectors.placement import Order, place_selectors
from tests.prune.joins import Row
from tests.prune.plans import RandomPlans, random_blocks, rows_of
from tests.prune.selectors.execution import Execution

SEEDS = int(os.environ.get("SIDESTEP_PLANS", "200"))


@dataclass
class Case:
    plan: Operator
    tables: dict[str, PartitionedTable]
    rows: dict[str, dict[str, list[Row]]]
    data: dict[str, list[Row]]

    def run(self, plan: Operator, order: Order, chosen: Mapping[str, frozenset[str]] | None = None) -> Execution:
        execution = Execution(self.tables, self.rows, self.data, order)
        execution.chosen.update(chosen or {})
        self.last = execution.result(plan)
        return execution


def random_level(random: Random, key: Column) -> Level:
    """Categories, ranges with gaps, open ends, NULL here or there, a default partition or none."""
    cuts = sorted(random.sample(range(-1, 14), random.randint(1, 4)))
    parts: dict[str, Constraint | None] = {}
    for i, (low, high) in enumerate(zip([None, *cuts], [*cuts, None], strict=True)):
        if random.random() < 0.85:
            interval = Interval(low, high, low_closed=True, high_closed=False)
            parts[f"p{i}"] = Constraint(IntervalSet(key.type, (interval,)))
    match random.randrange(4):
        case 0 | 1:
            parts["default"] = DEFAULT
        case 2:
            parts["null"] = Constraint(IntervalSet.empty(key.type), nulls=True)
    return Level(key, parts)


def random_case(random: Random) -> Case:
    made = RandomPlans(random)
    case = Case(made.plan(random.randint(2, 5)), {}, {}, {})
    dynamic: dict[str, DynamicScan] = {}
    for table in made.scans:
        names = [own.name for _, own in table.columns]
        rows = rows_of(random_blocks(random, names))
        if random.random() < 0.25:
            case.data[table.key] = rows
            continue
        columns = [Column(number, own.type) for number, own in table.columns]
        keys = random.sample(columns, random.randint(1, len(columns)))
        others = tuple(column for column in columns if column not in keys)
        partitioned = PartitionedTable.by_levels(table.key, [random_level(random, key) for key in keys])
        own_rows: dict[str, list[Row]] = {part.oid: [] for part in partitioned.partitions}
        for row in rows:
            numbered = {number: row[own.name] for number, own in table.columns}
            if (oid := partitioned.partition_of([numbered[key.name] for key in keys])) is not None:
                own_rows[oid].append(numbered)
        case.tables[table.key], case.rows[table.key] = partitioned, own_rows
        dynamic[table.key] = DynamicScan(table.key, table.key, tuple(keys), others)
    case.plan = _with_dynamic(case.plan, dynamic)
    return case


def _with_dynamic(operator: Operator, dynamic: Mapping[str, DynamicScan]) -> Operator:
    if isinstance(operator, Scan):
        return dynamic.get(operator.key, operator)
    return with_children(operator, tuple(_with_dynamic(child, dynamic) for child in children(operator)))


def random_order(random: Random, plan: Operator) -> Order:
    """Joins run their inputs in any order; an operator is known by its condition and type, before and after placing."""
    first = {_sign(each): random.choice((Sides.LEFT, Sides.RIGHT)) for each in walk(plan) if isinstance(each, Join)}
    return lambda join: first.get(_sign(join), Sides.LEFT)


def _sign(join: Join) -> tuple[object, ...]:
    return join.type.name, join.condition, join.exists, join.computed


def check(seed: int) -> tuple[int, int]:
    random = Random(seed)
    case = random_case(random)
    order = random_order(random, case.plan)
    everything = {scan: table.oids for scan, table in case.tables.items()}
    case.run(case.plan, order, everything)
    expected = case.last
    placed = place_selectors(case.plan, order)
    execution = case.run(placed, order)
    assert case.last == expected, (seed, placed)
    # What was not selected is gone, and scans read all that is left: no selector was needed to get it right.
    left = {scan: execution.read.get(scan, frozenset()) for scan in case.tables}
    case.run(case.plan, order, left)
    assert case.last == expected, (seed, placed, left)
    return sum(map(len, everything.values())), sum(map(len, left.values()))


@pytest.mark.parametrize("start", [0, 10_000])
def test_results_are_the_same_without_the_partitions_that_were_not_selected(start):
    counts = [check(seed) for seed in range(start, start + SEEDS)]
    there, read = (sum(side) for side in zip(*counts, strict=True))
    assert read < 0.9 * there, "selectors that choose everything prove nothing"
