"""From a workload to features: frequent predicate sets, freed of what others make redundant (thesis, 3.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf
from typing import get_args

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate import all_of, implies
from sidestep.workload.features.augment import FilterBits, subsumption_matrix
from sidestep.workload.features.eligible import Eligibility
from sidestep.workload.features.feature_set import Feature, FeatureSet
from sidestep.workload.features.mining import Miner, TooManySets, Transaction, closed_sets
from sidestep.workload.table import Item, TableWorkload

Weights = npt.NDArray[np.int64]
"""How often each filter occurred."""

Rank = OneOf["weight", "additional", "coverage"]
"""How features are ranked: by the weight of all queries they subsume; as in the thesis by those they subsume
additionally, I(F); or each by the queries it subsumes, of which one counts the less the more features ranked before it
subsume it too: a half after one, a third after two. The first is steadier than the second (a low T lets strict sets
drain I(F) from general ones), and the third spends no features on variants of one template while others have none."""

FULL_WORTH = 720_720
"""What a query counts before any feature subsumes it: a number that all small ones divide, so that sums are exact."""

THRESHOLD_SHARE = 1 / 80
"""The threshold where none is given, as a share of the scans: 10 of the thesis's 800 training queries."""


@dataclass(frozen=True, slots=True)
class ExtractOptions:
    """What decides which features come out of a workload."""

    num_features: int = 15
    threshold: int | None = None
    """T: the least number of queries that a feature must subsume beyond those that stricter features do."""
    rank: Rank = "coverage"
    """What comes first: see :data:`Rank`."""
    eligibility: Eligibility = field(default_factory=Eligibility)
    most_items: int = 150
    """Predicates that are mined at most; of more, those that hardly differ from another are left out."""

    def __post_init__(self) -> None:
        if self.num_features < 1:
            raise SidestepError(f"The number of features is at least 1, but {self.num_features} was asked for.")
        if self.threshold is not None and self.threshold < 1:
            raise SidestepError(f"The threshold T counts queries and is at least 1, but {self.threshold} was given.")
        if self.rank not in get_args(Rank):
            raise SidestepError(f"Features are ranked by {' or '.join(get_args(Rank))}, but not by {self.rank!r}.")

    def threshold_for(self, total: int) -> int:
        """T for a workload of ``total`` scans."""
        return self.threshold if self.threshold is not None else max(1, math.ceil(total * THRESHOLD_SHARE))


@dataclass(frozen=True, eq=False)
class AugmentedWorkload:
    """A table's workload with all its eligible predicates, and which filters each of them subsumes."""

    workload: TableWorkload
    items: tuple[Item, ...]
    numbers: tuple[int, ...]
    """The items' numbers in the workload."""
    subsumed: FilterBits
    """Items by filters."""
    refused: dict[str, int]
    """How many distinct predicates may not become features, by reason."""
    stated: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Items of sets without those that their others imply, as far as that was worked out: trials share sets."""


@dataclass(frozen=True, eq=False)
class PredicateSet:
    """A frequent predicate set that is not redundant: items that are always subsumed together."""

    items: tuple[int, ...]
    """Positions among the augmented workload's items."""
    subsumes: FilterBits
    """Which filters."""
    weight: int
    additional: int
    """I(F): the queries that no stricter set subsumes."""


def augment(workload: TableWorkload, options: ExtractOptions | None = None) -> AugmentedWorkload:
    """The workload after predicate augmentation."""
    eligibility = (options or ExtractOptions()).eligibility
    refused: dict[str, int] = {}
    numbers = []
    for number, item in enumerate(workload.items):
        reason = eligibility.refusal(item)
        if reason is None:
            numbers.append(number)
        else:
            refused[reason] = refused.get(reason, 0) + 1
    items = tuple(workload.items[number] for number in numbers)
    matrix = subsumption_matrix(workload, [item.formula for item in items])
    return AugmentedWorkload(workload, items, tuple(numbers), matrix, dict(sorted(refused.items())))


def extract_features(
    augmented: AugmentedWorkload, options: ExtractOptions | None = None, miner: Miner = closed_sets
) -> FeatureSet:
    """The features of a table: the predicate sets that subsume most of the workload's queries.

    Contract: the same queries give the same features, in whatever order they come. Queries without predicates count for
    nothing, nor do queries that no row can satisfy. A workload without a single predicate gives an empty feature set.

    The steps are the thesis's: a query is a set of predicates, augmented by all that subsume it (3.3.2); sets that
    occur at least T times are mined; from the strictest to the most general, a set stays if it subsumes at least T
    queries that no stricter one did (3.3.3); of those, the first ``num_features``.
    """
    chosen = options or ExtractOptions()
    weights = augmented.workload.weights
    threshold = chosen.threshold_for(augmented.workload.total)
    ranked = predicate_sets(augmented, weights, replace(chosen, threshold=threshold), miner)
    return feature_set_of(augmented, ranked[: chosen.num_features], weights, threshold)


def feature_set_of(
    augmented: AugmentedWorkload, sets: Sequence[PredicateSet], weights: Weights, threshold: int = 0
) -> FeatureSet:
    """The predicate sets as features, with the number of queries of these weights and how many of them are subsumed."""
    covered = np.any([one.subsumes for one in sets], axis=0) if sets else np.zeros(len(weights), np.bool_)
    features = tuple(_feature_of(augmented, one) for one in sets)
    return FeatureSet(augmented.workload.table, features, int(weights.sum()), int(weights[covered].sum()), threshold)


def predicate_sets(
    augmented: AugmentedWorkload, weights: Weights, options: ExtractOptions, miner: Miner = closed_sets
) -> list[PredicateSet]:
    """The non-redundant frequent predicate sets of the filters with these weights, best first.

    Filters of weight 0 are as if the log did not hold them: their predicates are not known.
    """
    threshold = options.threshold_for(int(weights.sum()))
    here = augmented.subsumed[:, weights > 0]
    known = [at for at in _items_in_log(augmented, weights) if int(here[at] @ weights[weights > 0]) >= threshold]
    if not known:
        return []
    rows, counts = _merge_equal_filters(here[known], weights[weights > 0])
    sets = _mine(rows, counts, threshold, options.most_items, miner)
    survivors = []
    for subsumes, weight, additional in _eliminate_redundant(sets, counts, threshold):
        # Of all sets with these filters the strictest, with every predicate that joins without loss, skips most.
        items = tuple(known[at] for at in np.flatnonzero(rows[:, subsumes].all(axis=1)))
        survivors.append(PredicateSet(items, np.all(augmented.subsumed[list(items)], axis=0), weight, additional))
    return _rank(survivors, weights, options.rank)


def _rank(sets: list[PredicateSet], weights: Weights, rank: Rank) -> list[PredicateSet]:
    by_weight = rank != "additional"
    left = sorted(sets, key=lambda s: (-(s.weight if by_weight else s.additional), -s.weight, -s.additional, s.items))
    if rank != "coverage":
        return left
    ranked: list[PredicateSet] = []
    times = np.ones_like(weights)
    while left:
        worth = weights * (FULL_WORTH // times)
        best = max(left, key=lambda s: int(worth[s.subsumes].sum()))  # the first of equals, by weight
        ranked.append(best)
        left.remove(best)
        times[best.subsumes] += 1
    return ranked


def _feature_of(augmented: AugmentedWorkload, predicate_set: PredicateSet) -> Feature:
    """The predicate set as a feature, without the predicates that its others imply."""
    items = predicate_set.items
    if items not in augmented.stated:
        augmented.stated[items] = _without_implied(augmented, items)
    predicates = tuple(augmented.items[at].predicate for at in augmented.stated[items])
    return Feature(predicates, predicate_set.weight, predicate_set.additional)


def _without_implied(augmented: AugmentedWorkload, items: Sequence[int]) -> tuple[int, ...]:
    """The items that say all that these say.

    The most general go first: of ``product = 'shoes'`` and ``product IN ('shoes', 'shirts')`` the former stays.
    """
    width = augmented.subsumed.sum(axis=1)
    kept: list[int] = []
    # What is implied is as wide or wider, so from the strictest on most of a long chain of ranges is passed at once.
    for at in sorted(items, key=lambda at: (int(width[at]), augmented.items[at].key)):
        if not _is_implied(augmented, kept, at):
            kept.append(at)
    for at in sorted(kept, key=lambda at: (-int(width[at]), augmented.items[at].key)):
        if _is_implied(augmented, [other for other in kept if other != at], at):
            kept.remove(at)
    return tuple(kept)


def _is_implied(augmented: AugmentedWorkload, others: list[int], at: int) -> bool:
    return bool(others) and implies(
        all_of(augmented.items[other].formula for other in others), augmented.items[at].formula
    )


def _items_in_log(augmented: AugmentedWorkload, weights: Weights) -> list[int]:
    """The items that some filter of positive weight holds as it was written."""
    filters = augmented.workload.filters
    occurring = {number for at in np.flatnonzero(weights) for number in filters[at]}
    return [at for at, number in enumerate(augmented.numbers) if number in occurring]


def _merge_equal_filters(rows: FilterBits, weights: Weights) -> tuple[FilterBits, Weights]:
    """Filters that the same predicates subsume become one, weights added; those that none subsumes are left out."""
    forms: dict[bytes, int] = {}
    packed = np.packbits(rows, axis=0).T
    places = np.array([forms.setdefault(form.tobytes(), len(forms)) for form in packed], np.intp)
    _, first = np.unique(places, return_index=True)
    counts = np.zeros(len(forms), np.int64)
    np.add.at(counts, places, weights)
    used = rows[:, first].any(axis=0)
    return rows[:, first[used]], counts[used]


def _representatives(rows: FilterBits) -> list[int]:
    """One predicate of each group that subsumes the same filters: for the miner, a group is one item."""
    groups: dict[bytes, int] = {}
    for at, form in enumerate(np.packbits(rows, axis=1)):
        groups.setdefault(form.tobytes(), at)
    return list(groups.values())


def _thin(items: list[int], rows: FilterBits, weights: Weights, most: int) -> list[int]:
    """At most ``most`` items: those that subsume hardly more than a stricter one that is kept go first.

    A log with a new constant in every query has a chain of as many ranges, each frequent as it subsumes all that are
    stricter. Every subset of two such chains would be frequent too, and nearly all of them redundant.
    """
    if len(items) <= most:
        return items
    held = rows[items].astype(np.float32)
    support = rows[items] @ weights
    order = [int(at) for at in np.lexsort((np.arange(len(items)), support))]
    inside = (held @ held.T) >= held.sum(axis=1)[:, None]  # [i, j]: i subsumes nothing that j does not
    step = 1
    while len(order) > most and step <= support.sum():
        kept = np.zeros(len(items), np.bool_)
        for at in order:
            stricter = support[kept & inside[:, at]]
            kept[at] = support[at] - (stricter.max() if len(stricter) else 0) >= step
        order = [at for at in order if kept[at]]
        step *= 2
    return sorted(items[at] for at in order[-most:])


def _mine(rows: FilterBits, weights: Weights, threshold: int, most: int, miner: Miner) -> dict[bytes, FilterBits]:
    """The filters that each frequent set subsumes, one of the sets with the same filters being enough."""
    groups = _representatives(rows)
    items = _thin(groups, rows, weights, most)
    while True:
        held, counts = _merge_equal_filters(rows[items], weights)
        transactions: list[Transaction] = [
            (frozenset(map(int, np.flatnonzero(one))), int(count)) for one, count in zip(held.T, counts, strict=True)
        ]
        try:
            sets = {frozenset(items[at] for at in members) for members, _ in miner(transactions, threshold) if members}
            break
        except TooManySets:
            items = _thin(items, rows, weights, len(items) // 2)
    # Single predicates count whatever was left out of the mining.
    sets.update(frozenset({at}) for at in groups)
    by_filters: dict[bytes, FilterBits] = {}
    for members in sets:
        common: FilterBits = np.all(rows[list(members)], axis=0)
        by_filters.setdefault(np.packbits(common).tobytes(), common)
    return by_filters


def _eliminate_redundant(
    sets: dict[bytes, FilterBits], weights: Weights, threshold: int
) -> list[tuple[FilterBits, int, int]]:
    """Redundant predicate set elimination (3.3.3): what stays, with its weight and I(F).

    Sets are met from the strictest to the most general: one that subsumes all that another does and has not the same
    filters has a larger weight, so the order of weights agrees with that of generality.
    """
    order = sorted((int(subsumes @ weights), form) for form, subsumes in sets.items())
    covered = np.zeros(len(weights), np.bool_)
    kept = []
    for weight, form in order:
        additional = int(weights[sets[form] & ~covered].sum())
        if weight >= threshold and additional >= threshold:
            kept.append((sets[form], weight, additional))
            covered |= sets[form]
    return kept
