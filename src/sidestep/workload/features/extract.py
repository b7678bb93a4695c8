"""From a workload to features: frequent predicate sets, freed of what others make redundant (thesis, 3.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf
from typing import get_args

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate import all_of, implies
from sidestep.workload.features.augment import Bits, subsumed
from sidestep.workload.features.eligible import Eligibility
from sidestep.workload.features.feature_set import Feature, FeatureSet
from sidestep.workload.features.mining import Miner, TooManySets, Transaction, closed_sets
from sidestep.workload.query import Workload
from sidestep.workload.table import Item, TableWorkload, of_table

Weights = npt.NDArray[np.int64]
"""How often each filter occurred."""

Rank = OneOf["weight", "additional", "coverage"]
"""How features are ranked: by the weight of all queries they subsume; as in the thesis by those they subsume
additionally, I(F); or each by the queries it subsumes, of which one counts the less the more features ranked before it
subsume it too: a half after one, a third after two. The first is steadier than the second (a low T lets strict sets
drain I(F) from general ones), and the third spends no features on variants of one template while others have none."""

SHARES = 720_720
"""What a query counts before any feature subsumes it: a number that all small ones divide, so that sums are exact."""

THRESHOLD_SHARE = 1 / 80
"""The threshold where none is given, as a share of the scans: 10 of the thesis's 800 training queries."""


@dataclass(frozen=True, slots=True)
class Options:
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
        """T for a workload of so many scans."""
        return self.threshold if self.threshold is not None else max(1, math.ceil(total * THRESHOLD_SHARE))


def extract(workload: Workload, table: str, options: Options | None = None, miner: Miner = closed_sets) -> FeatureSet:
    """The features of a table: the predicate sets that subsume most of the workload's queries.

    Contract: the same queries give the same features, in whatever order they come. Queries without predicates count for
    nothing, nor do queries that no row can satisfy. A workload without a single predicate gives an empty feature set.

    The steps are the thesis's: a query is a set of predicates, augmented by all that subsume it (3.3.2); sets that
    occur at least T times are mined; from the strictest to the most general, a set stays if it subsumes at least T
    queries that no stricter one did (3.3.3); of those, the first ``num_features``.
    """
    return extract_from(augment(of_table(workload, table), options), options, miner)


@dataclass(frozen=True, eq=False)
class Augmented:
    """A table's workload with all its eligible predicates, and which filters each of them subsumes."""

    workload: TableWorkload
    items: tuple[Item, ...]
    numbers: tuple[int, ...]
    """The items' numbers in the workload."""
    subsumed: Bits
    """Items by filters."""
    refused: dict[str, int]
    """How many distinct predicates may not become features, by reason."""


@dataclass(frozen=True, eq=False)
class PredicateSet:
    """A frequent predicate set that is not redundant: items that are always subsumed together."""

    items: tuple[int, ...]
    """Positions among the augmented workload's items."""
    subsumes: Bits
    """Which filters."""
    weight: int
    additional: int
    """I(F): the queries that no stricter set subsumes."""


def augment(workload: TableWorkload, options: Options | None = None) -> Augmented:
    """The workload after predicate augmentation."""
    eligibility = (options or Options()).eligibility
    refused: dict[str, int] = {}
    numbers = []
    for number, item in enumerate(workload.items):
        reason = eligibility.refusal(item)
        if reason is None:
            numbers.append(number)
        else:
            refused[reason] = refused.get(reason, 0) + 1
    items = tuple(workload.items[number] for number in numbers)
    matrix = subsumed(workload, [item.formula for item in items])
    return Augmented(workload, items, tuple(numbers), matrix, dict(sorted(refused.items())))


def extract_from(augmented: Augmented, options: Options | None = None, miner: Miner = closed_sets) -> FeatureSet:
    """The features of a workload that is augmented already."""
    chosen = options or Options()
    workload = augmented.workload
    threshold = chosen.threshold_for(workload.total)
    ranked = predicate_sets(augmented, workload.weights, replace(chosen, threshold=threshold), miner)
    kept = ranked[: chosen.num_features]
    features = tuple(feature_of(augmented, found) for found in kept)
    covered = np.any([found.subsumes for found in kept], axis=0) if kept else np.zeros(len(workload.filters), np.bool_)
    return FeatureSet(workload.table, features, workload.total, int(workload.weights[covered].sum()), threshold)


def predicate_sets(
    augmented: Augmented, weights: Weights, options: Options, miner: Miner = closed_sets
) -> list[PredicateSet]:
    """The non-redundant frequent predicate sets of the filters with these weights, best first.

    Filters of weight 0 are as if the log did not hold them: their predicates are not known.
    """
    threshold = options.threshold_for(int(weights.sum()))
    here = augmented.subsumed[:, weights > 0]
    known = [at for at in _occurring(augmented, weights) if int(here[at] @ weights[weights > 0]) >= threshold]
    if not known:
        return []
    rows, counts = _folded(here[known], weights[weights > 0])
    sets = _mined(rows, counts, threshold, options.most_items, miner)
    found = []
    for subsumes, weight, additional in _eliminated(sets, counts, threshold):
        # Of all sets with these filters the strictest, with every predicate that joins without loss, skips most.
        items = tuple(known[at] for at in np.flatnonzero(rows[:, subsumes].all(axis=1)))
        found.append(PredicateSet(items, np.all(augmented.subsumed[list(items)], axis=0), weight, additional))
    return _ranked(found, weights, options.rank)


def _ranked(found: list[PredicateSet], weights: Weights, rank: Rank) -> list[PredicateSet]:
    by_weight = rank != "additional"
    found = sorted(found, key=lambda s: (-(s.weight if by_weight else s.additional), -s.weight, -s.additional, s.items))
    if rank != "coverage":
        return found
    chosen: list[PredicateSet] = []
    times = np.ones_like(weights)
    while found:
        worth = weights * (SHARES // times)
        best = max(found, key=lambda s: int(worth[s.subsumes].sum()))  # the first of equals, by weight
        chosen.append(best)
        found.remove(best)
        times[best.subsumes] += 1
    return chosen


def feature_of(augmented: Augmented, found: PredicateSet) -> Feature:
    """The predicate set as a feature, without the predicates that its others imply.

    The most general go first: of ``product = 'shoes'`` and ``product IN ('shoes', 'shirts')`` the former stays.
    """
    width = augmented.subsumed.sum(axis=1)
    kept: list[int] = []
    # What is implied is as wide or wider, so from the strictest on most of a long chain of ranges is passed at once.
    for at in sorted(found.items, key=lambda at: (int(width[at]), augmented.items[at].key)):
        if not _implied(augmented, kept, at):
            kept.append(at)
    for at in sorted(kept, key=lambda at: (-int(width[at]), augmented.items[at].key)):
        if _implied(augmented, [other for other in kept if other != at], at):
            kept.remove(at)
    return Feature(tuple(augmented.items[at].predicate for at in kept), found.weight, found.additional)


def _implied(augmented: Augmented, others: list[int], at: int) -> bool:
    return bool(others) and implies(
        all_of(augmented.items[other].formula for other in others), augmented.items[at].formula
    )


def _occurring(augmented: Augmented, weights: Weights) -> list[int]:
    """The items that some filter of the log has in its own words."""
    filters = augmented.workload.filters
    occurring = {number for at in np.flatnonzero(weights) for number in filters[at]}
    return [at for at, number in enumerate(augmented.numbers) if number in occurring]


def _folded(rows: Bits, weights: Weights) -> tuple[Bits, Weights]:
    """The filters that the same predicates subsume as one, weights added; those that none subsumes left out."""
    forms: dict[bytes, int] = {}
    packed = np.packbits(rows, axis=0).T
    places = np.array([forms.setdefault(form.tobytes(), len(forms)) for form in packed], np.intp)
    _, first = np.unique(places, return_index=True)
    counts = np.zeros(len(forms), np.int64)
    np.add.at(counts, places, weights)
    used = rows[:, first].any(axis=0)
    return rows[:, first[used]], counts[used]


def _always_together(rows: Bits) -> list[int]:
    """One predicate of each group that subsumes the same filters: for the mining, a group is one item."""
    groups: dict[bytes, int] = {}
    for at, form in enumerate(np.packbits(rows, axis=1)):
        groups.setdefault(form.tobytes(), at)
    return list(groups.values())


def _thinned(items: list[int], rows: Bits, weights: Weights, most: int) -> list[int]:
    """At most so many items: those that subsume hardly more than a stricter one that is kept go first.

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


def _mined(rows: Bits, weights: Weights, threshold: int, most: int, miner: Miner) -> dict[bytes, Bits]:
    """The filters that each frequent set subsumes, one of the sets with the same filters being enough."""
    groups = _always_together(rows)
    items = _thinned(groups, rows, weights, most)
    while True:
        held, counts = _folded(rows[items], weights)
        transactions: list[Transaction] = [
            (frozenset(map(int, np.flatnonzero(one))), int(count)) for one, count in zip(held.T, counts, strict=True)
        ]
        try:
            sets = {frozenset(items[at] for at in members) for members, _ in miner(transactions, threshold) if members}
            break
        except TooManySets:
            items = _thinned(items, rows, weights, len(items) // 2)
    # Single predicates count whatever was left out of the mining.
    sets.update(frozenset({at}) for at in groups)
    found: dict[bytes, Bits] = {}
    for members in sets:
        common: Bits = np.all(rows[list(members)], axis=0)
        found.setdefault(np.packbits(common).tobytes(), common)
    return found


def _eliminated(sets: dict[bytes, Bits], weights: Weights, threshold: int) -> list[tuple[Bits, int, int]]:
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
