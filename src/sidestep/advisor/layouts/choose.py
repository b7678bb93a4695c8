"""The layout that suits a workload, chosen by what its queries would read of a sample of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sidestep.advisor.layouts.sample import SEED, DrawnSample, RowNumbers, Sample
from sidestep.advisor.layouts.select import demands_of, fewest_features, select, time_ranges
from sidestep.advisor.layouts.trial import by_group, group_sample, shares_read
from sidestep.layout.demand import Demand, Demands, is_time_type
from sidestep.layout.vectors import Bits, Words, pack
from sidestep.predicate import DataType, Formula, all_of
from sidestep.workload import AugmentedWorkload, FeatureSet, TableWorkload
from sidestep.workload.features.extract import PredicateSet, Weights, feature_set_of

SELECTION_ROWS = 20_000
"""Rows by which features are selected: enough to see a difference of half a percent."""
TRIAL_ROWS = 60_000
"""Rows on which whole layouts are tried for the choice of order and buckets."""
MOST_FILTERS = 200
"""Filters that a trial judges by, those of most queries."""
MOST_ORDERS = 3
LEAST_GAIN = 0.02
"""Buckets make the partitioner's work longer: they are used if a query reads less by at least this share."""
FEWEST_BLOCKS, MOST_BLOCKS = 3, 2_000
"""Blocks per unit: with fewer there is nothing to group, with more the unit is needlessly coarse."""
UNITS = ("DAY", "MONTH", "QUARTER", "YEAR")


@dataclass(frozen=True)
class LayoutChoice:
    """All that a load needs to know: what was given is kept, the rest is chosen from the workload and the sample."""

    features: FeatureSet
    demands: Demands
    """What the workload demands of units, in terms of these features."""
    by: str | None
    min_size: int
    order: tuple[str, ...]
    buckets: tuple[str, ...] = ()
    """Expressions of time that split rows of equal features, where queries ask for windows of it."""


@dataclass(frozen=True, eq=False)
class Study:
    """A workload and a sample, put together: from here layouts are chosen and judged."""

    table: TableWorkload
    augmented: AugmentedWorkload
    sets: Sequence[PredicateSet]
    """The candidates for features."""
    drawn: DrawnSample
    satisfied: Bits
    """Candidates by rows of the sample."""
    by: str | None
    min_size: int
    buckets: Mapping[str, str]
    """For columns of time that queries ask for, most often first, the expression of a bucket."""


@dataclass(frozen=True, eq=False)
class ChosenLayout:
    """A layout, and the feature vectors that it gives the sample's rows."""

    layout: LayoutChoice
    words: Words
    """The feature vector of each row."""


def choose_from_study(
    study: Study,
    *,
    num_features: int | None = None,
    order: Sequence[str] | None = None,
    weights: Weights | None = None,
    like: LayoutChoice | None = None,
) -> ChosenLayout:
    """The layout that suits a study's queries best.

    ``weights`` counts only some of the queries; order and buckets are those of ``like`` if that is given.
    """
    counts = study.table.weights if weights is None else weights
    picked = _select_features(study, counts, num_features)
    features = feature_set_of(study.augmented, [study.sets[at] for at in picked], counts)
    demands = demands_of(study.table, features.features, study.drawn.sample.times)
    words = pack(study.satisfied[list(picked)].T)
    if like is not None:
        best, buckets = like.order, like.buckets
    else:
        named: list[tuple[str, ...]] = [(name,) for name in study.buckets]
        orders = [tuple(order)] if order is not None else named or [()]
        best, buckets = _choose_order(study, counts, demands, feature_formulas(features), words, orders)
    return ChosenLayout(LayoutChoice(features, demands, study.by, study.min_size, best, buckets), words)


def feature_formulas(features: FeatureSet) -> list[Formula]:
    """When each feature holds."""
    return [feature.formula for feature in features.features]


def _select_features(study: Study, counts: Weights, num_features: int | None) -> list[int]:
    if not study.sets or not len(study.drawn.sample):
        return []
    rng = np.random.default_rng(SEED)
    sample = study.drawn.sample
    few = np.sort(rng.choice(len(sample), min(SELECTION_ROWS, len(sample)), replace=False))
    met = units_of_filters(sample, study.table)
    asked = met[:, sample.unit[few]]
    floor = met.sum(axis=1) * study.min_size * len(few) / max(1, sample.rows)
    subsumes = np.array([one.subsumes for one in study.sets])
    satisfied = study.satisfied[:, few]
    if num_features is None:
        num_features = fewest_features(study.table, satisfied, subsumes, asked, floor)
    return list(select(satisfied, subsumes, counts, asked, floor, num_features).chosen)


def _choose_order(
    study: Study,
    counts: Weights,
    demands: Demands,
    features: Sequence[Formula],
    words: Words,
    orders: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The order with which queries read least of the sample, and the buckets if they save enough besides.

    Layouts are compared by the geometric mean over queries: to read half as much counts the same for a query that reads
    much and for one that reads little. By the plain mean, those that read most anyway would decide alone, and a
    template of small queries could be made to read half as much again for nothing.
    """
    whole = study.drawn.sample
    few = np.sort(np.random.default_rng(SEED).choice(len(whole), min(TRIAL_ROWS, len(whole)), replace=False))
    sample, vectors = whole.take(few), words[few]
    asked = np.argsort(-counts, kind="stable")[:MOST_FILTERS]
    filters = [filter_formula(study.table, int(at)) for at in asked]
    if not len(sample) or not filters:
        return orders[0], ()
    block = sample.rows_for(study.min_size)

    def reads(group: RowNumbers, order: tuple[str, ...]) -> float:
        shares = shares_read(sample, by_group(sample, group, order, block), filters, features, vectors)
        # A query that reads nothing of the sample still reads something; no layout wins by the luck of a draw.
        least = block / max(1, len(sample))
        return float(np.exp(np.average(np.log(np.maximum(shares, least)), weights=counts[asked])))

    group = group_sample(sample, vectors, demands, block)
    tried = {order: reads(group, order) for order in orders}
    best = min(tried, key=lambda order: tried[order])
    limit = (1 - LEAST_GAIN) * tried[best]
    buckets: tuple[str, ...] = ()
    # Those that no feature serves have nothing but their window: their columns come first, others must do better still.
    for order in sorted(orders, key=lambda order: -sum(_unserved_queries(demands, name) for name in order)):
        names = tuple(name for name in order if name in study.buckets)
        if names and _has_several_buckets(sample, names):
            share = reads(group_sample(sample, vectors, demands, block, names), order)
            if share < limit:
                limit = (1 - LEAST_GAIN) * share
                best, buckets = order, tuple(study.buckets[name] for name in names)
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


def filter_formula(table: TableWorkload, at: int) -> Formula:
    """A filter of the workload as queries have it."""
    return all_of(table.items[number].formula for number in table.filters[at])


def units_of_filters(sample: Sample, table: TableWorkload) -> Bits:
    """Which units (columns) each filter (rows) may ask for rows of, by the times in them."""
    limits = {}
    for name in sample.times:
        least, greatest = sample.bounds(name)
        low, high = np.full(sample.units, 2**63 - 1), np.full(sample.units, -(2**63))
        np.minimum.at(low, sample.unit, least)
        np.maximum.at(high, sample.unit, greatest)
        limits[name] = low, high
    met = [np.broadcast_to(Demand((), ranges).meets(limits), (sample.units,)) for ranges in time_ranges(table)]
    return np.array(met, np.bool_).reshape(len(met), sample.units)


def time_columns(table: TableWorkload, types: Mapping[str, DataType]) -> list[str]:
    """The columns of time that filters compare with constants, those of most queries first."""
    counted: Counter[str] = Counter()
    for at, ranges in enumerate(time_ranges(table)):
        for name, _, _ in ranges:
            if name in types and is_time_type(types[name]):
                counted[name] += int(table.weights[at])
    return [name for name, _ in sorted(counted.items(), key=lambda one: (-one[1], one[0]))]
