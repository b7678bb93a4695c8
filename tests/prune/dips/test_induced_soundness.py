"""Data-induced predicates never change a result: random plans over random tables, run with and without the blocks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from sidestep.prune import Operator, Query
from sidestep.prune.dips.induced import Bound
from sidestep.prune.dips.model import InducedOptions, TableView
from sidestep.synopsis import Catalog, Mask
from tests.prune.plans import Blocks, RandomPlans, prune, random_blocks, result, rows_of, view

ANY_TIME = 60.0
SEEDS = int(os.environ.get("SIDESTEP_PLANS", "200"))
"""Random plans per test; many more are tried by hand."""


@dataclass
class Case:
    query: Query
    blocks: dict[str, Blocks]
    unindexed: dict[str, Blocks]
    """Blocks that no catalog knows of, and that are therefore always read."""
    views: dict[str, TableView]
    small: dict[str, Catalog] = field(default_factory=dict)
    """Of some tables, a block for each row that the catalogs know of."""

    def result(self, kept: Mapping[str, Sequence[bool] | Mask], bounds: Mapping[str, Sequence[Bound]]) -> object:
        """What the query gives on these blocks only, and on rows within the bounds only."""
        data = {key: rows_of(own, kept.get(key)) + rows_of(self.unindexed[key]) for key, own in self.blocks.items()}
        for key, asked in bounds.items():
            data[key] = [row for row in data[key] if all(within(bound, row[bound.column.name]) for bound in asked)]
        return result(self.query.plans, data)


def within(bound: Bound, value: int | bool | None) -> bool:
    return bound.nulls if value is None else bound.within(20).contains(value)


def random_case(random: Random, silent: float = 0.1) -> Case:
    made = RandomPlans(random)
    plans: list[Operator] = [made.plan(random.randint(2, 5))]
    if random.random() < 0.2:
        # A subquery that reads a copy of one of the scans: Spark makes such copies for its runtime filters.
        plans.append(made.wrapped(random.choice(made.scans)))
    case = Case(Query(tuple(plans)), {}, {}, {})
    for table in made.scans:
        types = {own.name: own.type for _, own in table.columns}
        blocks = case.blocks[table.key] = random_blocks(random, list(types))
        case.unindexed[table.key] = random_blocks(random, list(types), 2) if random.random() < silent else []
        if random.random() < 0.95:
            unknown = [random.random() < 0.07 for _ in blocks]
            complete = not case.unindexed[table.key]
            case.views[table.key] = view(blocks, types, random.choice((1, 2)), unknown, complete, random.choice((0, 4)))
            if random.random() < 0.3:
                each = [[row] for row in rows_of(blocks)]
                hidden = [random.random() < 0.05 for _ in each]
                (case.small[table.key],) = view(each, types, 1, hidden).catalogs
    return case


def check(seed: int, options: InducedOptions, silent: float = 0.1) -> tuple[int, int]:
    random = Random(seed)
    case = random_case(random, silent)
    found = prune(case.query, case.views, options, small=case.small)
    kept = {key: masks[0].tolist() for key, masks in found.kept.items()}
    expected = case.result({}, {})
    assert case.result(kept, {}) == expected, (seed, case, found.dips)
    # Files are read whole, and other places may need a block: any of those left out may be read after all.
    for _ in range(2):
        more = {key: [keep or random.random() < 0.4 for keep in mask] for key, mask in kept.items()}
        assert case.result(more, {}) == expected, (seed, case, found.dips)
    assert case.result(kept, found.bounds) == expected, (seed, case, found.bounds)
    static = sum(int(mask.sum()) for masks in found.static.values() for mask in masks)
    return static, static - sum(map(sum, kept.values()))


@pytest.mark.parametrize(
    "options",
    [
        InducedOptions(seconds=ANY_TIME),
        InducedOptions(seconds=ANY_TIME, max_ranges=1, kappa=1, rounds=2),
        InducedOptions(seconds=ANY_TIME, movement=False),
        InducedOptions(seconds=ANY_TIME, naive=True),
        InducedOptions(seconds=0.0005),
    ],
    ids=["all", "few ranges", "no movement", "naive", "in a hurry"],
)
def test_results_are_the_same_without_the_blocks_that_are_skipped(options):
    counts = [check(seed, options) for seed in range(SEEDS)]
    kept, removed = (sum(side) for side in zip(*counts, strict=True))
    if options.seconds == ANY_TIME:
        assert removed > 0.05 * kept, "an index that never skips proves nothing"


def test_results_are_the_same_where_many_tables_have_files_that_are_not_indexed():
    """What was supposed of a table that turns out not to be covered whole must leave no trace."""
    counts = [check(seed, InducedOptions(seconds=ANY_TIME), silent=0.5) for seed in range(1_000, 1_000 + SEEDS)]
    assert sum(removed for _, removed in counts) > 0
