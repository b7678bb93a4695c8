"""Bottom-up: units, groups of like feature vectors in them (SOP), and an order within groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from sidestep.advisor.families.family import Arrangement, Material, Plans
from sidestep.advisor.trials.sample import RowNumbers, Sample
from sidestep.advisor.trials.sides import Describer
from sidestep.advisor.trials.trial import by_group, group_sample
from sidestep.layout.demand import Demands
from sidestep.layout.vectors import unpack

MOST_ORDERS = 3
LEAST_GAIN = 0.02
"""Buckets make the partitioner's work longer: they are used if a query reads less by at least this share."""
ORDER_ROWS = 3_000
"""Rows by which an order is chosen."""
MOST_FILTERS = 80
"""Filters that orders are judged by, those of most queries."""


def features(material: Material) -> Plans:
    """Groups by features, with the order that serves their queries best; without features there is no such layout."""
    if material.demands.features:
        yield partial(by_features, None)


def by_features(order: Sequence[str] | None, material: Material) -> Arrangement:
    """The layout by features, along the order if one is given."""
    orders = [tuple(order)] if order is not None else _orders(material)
    best, buckets = _choose_order(material, orders)
    units = material.by or "slices of the table"
    detail = f"{material.demands.features} features, by {units}" + (f", along {', '.join(best)}" if best else "")
    return Arrangement("features", detail, by=material.by, order=best, buckets=buckets)


def _orders(material: Material) -> list[tuple[str, ...]]:
    """Columns to try as an order within groups: those of time, and others that queries ask for ranges of."""
    ranged = [name for name in material.columns if name in material.needs.ranges]
    named = list(dict.fromkeys([*material.buckets, *ranged]))[:MOST_ORDERS]
    return [(name,) for name in named] or [()]


def _choose_order(material: Material, orders: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The order with which queries read least of the sample, and the columns of buckets if they save enough besides.

    Layouts are compared by the geometric mean over queries: to read half as much counts the same for a query that reads
    much and for one that reads little. By the plain mean, those that read most anyway would decide alone, and a
    template of small queries could be made to read half as much again for nothing.
    """
    few = np.arange(0, len(material.sample), max(1, len(material.sample) // ORDER_ROWS))
    sample, vectors, demands = material.sample.take(few), material.words[few], material.demands
    block = sample.rows_for(material.min_size)
    counts = material.needs.weights
    asked = np.argsort(-counts, kind="stable")[:MOST_FILTERS]
    asked = asked[counts[asked] > 0]
    if not len(sample) or not len(asked):
        return orders[0], ()
    needs = material.needs.take(asked)
    describer = Describer(sample, needs, np.ascontiguousarray(unpack(vectors, demands.features).T))
    conditions = describer.conditions(needs)

    def reads(group: RowNumbers, order: tuple[str, ...]) -> float:
        blocks = by_group(sample, group, order, block)
        block_of_row = np.repeat(np.arange(len(blocks)), blocks.sizes)
        sides = describer.describe(blocks.order, block_of_row, len(blocks))
        shares = ~conditions.skipped(sides) @ blocks.sizes / len(sample)
        # A query that reads nothing of the sample still reads something; no layout wins by the luck of a draw.
        least = block / max(1, len(sample))
        return float(np.exp(np.average(np.log(np.maximum(shares, least)), weights=counts[asked])))

    group = group_sample(sample, vectors, demands, block)
    tried = {order: reads(group, order) for order in orders}
    best = min(tried, key=lambda order: tried[order])
    limit = (1 - LEAST_GAIN) * tried[best]
    buckets: tuple[str, ...] = ()
    # Those that no feature serves have nothing but their window: their columns come first.
    by_unserved = sorted(orders, key=lambda order: -sum(_unserved_queries(demands, name) for name in order))
    for order in dict.fromkeys([*by_unserved[:1], best]):
        names = tuple(name for name in order if name in material.buckets)
        if names and _has_several_buckets(sample, names):
            share = reads(group_sample(sample, vectors, demands, block, names), order)
            if share < limit:
                limit = (1 - LEAST_GAIN) * share
                best, buckets = order, names
    return best, buckets


def _unserved_queries(demands: Demands, column: str) -> float:
    """How many queries that no feature serves ask for a window of a column."""
    return sum(
        demand.weight
        for demand in demands.demands
        if not demand.features and any(name == column for name, _, _ in demand.ranges)
    )


def _has_several_buckets(sample: Sample, names: Sequence[str]) -> bool:
    """Whether some unit has rows of several buckets."""
    pairs = np.column_stack([sample.unit, *(sample.buckets[name] for name in names)])
    return len(np.unique(pairs, axis=0)) > len(np.unique(sample.unit))
