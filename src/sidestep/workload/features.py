"""From a workload to features: frequent predicate sets, freed of what others make redundant (thesis, 3.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate import all_of, implies
from sidestep.workload.eligible import Eligibility
from sidestep.workload.featureset import Feature, FeatureSet
from sidestep.workload.folded import Item, TableWorkload, of_table
from sidestep.workload.mining import Miner, Transaction, closed_sets
from sidestep.workload.query import Workload
from sidestep.workload.subsumption import Bits, subsumed

THRESHOLD_SHARE = 1 / 80
"""The threshold where none is given, as a share of the scans: 10 of the thesis's 800 training queries."""


@dataclass(frozen=True, slots=True)
class Options:
    """What decides which features come out of a workload."""

    num_features: int = 15
    threshold: int | None = None
    """T: the least number of queries that a feature must subsume beyond those that stricter features do."""
    rank: OneOf["weight", "additional"] = "weight"
    """Features are ranked by all queries they subsume, or as in the thesis by those they subsume additionally, I(F).
    The former is steadier: a low T lets strict sets drain I(F) from general ones."""
    eligibility: Eligibility = field(default_factory=Eligibility)
    most_items: int = 250
    """Predicates that are mined at most; of more, those that hardly differ from another are left out."""

    def __post_init__(self) -> None:
        if self.num_features < 1:
            raise SidestepError(f"The number of features is at least 1, but {self.num_features} was asked for.")
        if self.threshold is not None and self.threshold < 1:
            raise SidestepError(f"The threshold T counts queries and is at least 1, but {self.threshold} was given.")
        if self.rank not in ("weight", "additional"):
            raise SidestepError(f"Features are ranked by 'weight' or by 'additional', but not by {self.rank!r}.")

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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    augmented: Augmented, weights: npt.NDArray[np.int64], options: Options, miner: Miner = closed_sets
) -> list[PredicateSet]:
    """The non-redundant frequent predicate sets of the filters with these weights, best first.

    Filters of weight 0 are as if the log did not hold them: their predicates are not known.
    """
    threshold = options.threshold_for(int(weights.sum()))
    rows = augmented.subsumed[:, weights > 0]
    present = weights[weights > 0]
    frequent = [at for at in _occurring(augmented, weights) if int(rows[at] @ present) >= threshold]
    if not frequent:
        return []
    together = _always_together(rows, frequent)
    together = _thinned(together, rows, present, options.most_items)
    closed = _closures(_mined(together, rows, present, threshold, miner), rows, frequent)
    kept = _eliminated(closed, augmented, rows, present, threshold)
    widened = [replace(found, subsumes=augmented.subsumed[list(found.items)].all(axis=0)) for found in kept]
    first = (lambda found: found.weight) if options.rank == "weight" else (lambda found: found.additional)
    return sorted(widened, key=lambda found: (-first(found), -found.weight, -found.additional, found.items))


def feature_of(augmented: Augmented, found: PredicateSet) -> Feature:
    """The predicate set as a feature, without the predicates that its others imply.

    The most general go first: of ``product = 'shoes'`` and ``product IN ('shoes', 'shirts')`` the former stays.
    """
    width = augmented.subsumed.sum(axis=1)
    kept = sorted(found.items, key=lambda at: (-int(width[at]), augmented.items[at].key))
    for at in tuple(kept):
        others = [augmented.items[other].formula for other in kept if other != at]
        if others and implies(all_of(others), augmented.items[at].formula):
            kept.remove(at)
    return Feature(tuple(augmented.items[at].predicate for at in kept), found.weight, found.additional)


def _occurring(augmented: Augmented, weights: npt.NDArray[np.int64]) -> list[int]:
    """The items that some filter of the log has in its own words."""
    filters = augmented.workload.filters
    occurring = {number for at in np.flatnonzero(weights) for number in filters[at]}
    return [at for at, number in enumerate(augmented.numbers) if number in occurring]


def _always_together(rows: Bits, frequent: Sequence[int]) -> list[list[int]]:
    """The items in groups that subsume the same filters: for the mining, each group is one item."""
    groups: dict[bytes, list[int]] = {}
    for at in frequent:
        groups.setdefault(np.packbits(rows[at]).tobytes(), []).append(at)
    return list(groups.values())


def _thinned(groups: list[list[int]], rows: Bits, weights: npt.NDArray[np.int64], most: int) -> list[list[int]]:
    """At most so many groups: of those that differ least from a stricter one that is kept, the more general go.

    A log with a new constant in every query has a chain of as many ranges, each frequent as it subsumes all that are
    stricter. Every subset of two such chains would be frequent too, and nearly all of them redundant.
    """
    support = [int(rows[group[0]] @ weights) for group in groups]
    order = sorted(range(len(groups)), key=lambda at: (support[at], groups[at]))
    step = 1
    while len(order) > most:
        kept: list[int] = []
        for at in order:
            row = rows[groups[at][0]]
            inner = [rows[groups[other][0]] for other in kept]
            nearest = max((int(r @ weights) for r in inner if not (r & ~row).any()), default=0)
            if support[at] - nearest >= step:
                kept.append(at)
        # The most frequent stay even if nothing else can be told from them.
        order = kept if len(kept) < len(order) or step <= sum(support) else kept[-most:]
        step *= 2
    return [groups[at] for at in order]


def _mined(
    groups: list[list[int]], rows: Bits, weights: npt.NDArray[np.int64], threshold: int, miner: Miner
) -> list[list[int]]:
    """The frequent sets, as items; the groups alone are among them whatever the miner leaves out."""
    held = rows[[group[0] for group in groups]].T
    folded: dict[bytes, tuple[frozenset[int], int]] = {}
    for at, row in enumerate(held):
        form = np.packbits(row).tobytes()
        members, weight = folded.get(form) or (frozenset(map(int, np.flatnonzero(row))), 0)
        folded[form] = (members, weight + int(weights[at]))
    transactions: list[Transaction] = sorted((t for t in folded.values() if t[0]), key=lambda t: (sorted(t[0]), t[1]))
    sets = {members for members, _ in miner(transactions, threshold) if members}
    sets.update(frozenset({at}) for at in range(len(groups)))
    return [[groups[at][0] for at in sorted(members)] for members in sorted(sets, key=sorted)]


def _closures(sets: list[list[int]], rows: Bits, frequent: Sequence[int]) -> dict[tuple[int, ...], Bits]:
    """Each set with all items that join it without loss, and the filters it subsumes; equal ones once.

    The strictest of the sets with the same filters is the one that skips most, and comes first in the order of
    generality: against it, the others subsume nothing more.
    """
    found: dict[bytes, tuple[tuple[int, ...], Bits]] = {}
    known = rows[list(frequent)]
    for members in sets:
        common = rows[members].all(axis=0)
        form = np.packbits(common).tobytes()
        if form not in found:
            joined = known[:, common].all(axis=1)
            found[form] = (tuple(frequent[at] for at in np.flatnonzero(joined)), common)
    return dict(found.values())


def _eliminated(
    closed: dict[tuple[int, ...], Bits],
    augmented: Augmented,
    rows: Bits,
    weights: npt.NDArray[np.int64],
    threshold: int,
) -> list[PredicateSet]:
    """Redundant predicate set elimination (3.3.3).

    Sets are met from the strictest to the most general. A set that subsumes all that another does, and is not the same
    set closed, subsumes strictly more: so the number of filters, not of queries (some may be of equal weight), is an
    order that agrees with generality.
    """
    order = sorted(closed, key=lambda items: (int(closed[items] @ weights), int(closed[items].sum()), items))
    covered = np.zeros(rows.shape[1], np.bool_)
    kept = []
    for items in order:
        subsumes = closed[items]
        additional = int(weights[subsumes & ~covered].sum())
        weight = int(subsumes @ weights)
        if weight >= threshold and additional >= threshold:
            kept.append(PredicateSet(items, subsumes, weight, additional))
            covered |= subsumes
    return kept
