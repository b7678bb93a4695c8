"""The layout that suits a workload, chosen among families by what later queries would read of a sample of the table.

Each family makes its arrangements from the earlier queries of a log and the rows of one part of a sample; the queries
that came later judge them, on rows of another part, by what reading would cost. So a family that only remembers, or
that fits the sample and not the table, gains nothing by it. The best is made once more from all queries. If nothing is
better than the table as it is, that is the answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sidestep.advisor.families.cuts import cuts, cuts_and_features
from sidestep.advisor.families.family import Arrangement, Family, Material, Plan, Plans
from sidestep.advisor.families.features import by_features, features
from sidestep.advisor.families.simple import as_is, sorted_by_column, z_order
from sidestep.advisor.layouts.select import demands_of, fewest_features, select, time_ranges
from sidestep.advisor.trials.cost import files_by_size, reading
from sidestep.advisor.trials.needs import needs_of
from sidestep.advisor.trials.page_order import best_page_order
from sidestep.advisor.trials.sample import SEED, DrawnSample, RowNumbers, Sample
from sidestep.advisor.trials.trial import Blocks, Shares, catalog_of
from sidestep.errors import SidestepError
from sidestep.layout.demand import Demand, Demands, is_time_type
from sidestep.layout.maxskip import block_sizes
from sidestep.layout.pages import ANY_ORDER, PAGE_ROWS, PageOrder
from sidestep.layout.tree import Cut
from sidestep.layout.vectors import Bits, pack
from sidestep.predicate import DataType, Formula, all_of
from sidestep.synopsis import kept_blocks
from sidestep.workload import AugmentedWorkload, FeatureSet, TableWorkload, subsumed_filters
from sidestep.workload.features.extract import PredicateSet, Weights, feature_set_of

FAMILIES: Mapping[str, Family] = {
    "as is": as_is,
    "sorted": sorted_by_column,
    "z-order": z_order,
    "features": features,
    "cuts": cuts,
    "cuts and features": cuts_and_features,
}
"""By name, the simpler ones first: of layouts that are as good, the first is chosen."""
LEAST_GAIN = 0.05
"""What is not cheaper by this share is not worth a rewrite."""
NEAR = 0.02
"""A simpler layout is chosen if it costs at most this share more."""

SELECTION_ROWS = 10_000
"""Rows by which features are selected: enough to see a difference of half a percent."""
TRIAL_ROWS, TRIAL_BLOCKS, ROWS_OF_BLOCK = 10_000, 320, 100
"""Rows of a trial at least, its blocks at most, and rows for each of them."""
FINAL_ROWS, MOST_FINAL_ROWS = 400, 120_000
"""Rows by which the layout that was chosen is made: for each block, and in all."""
PAGED_ROWS, MOST_PAGED_ROWS = 6_000, 40_000
"""Rows by which the order within blocks is chosen, at least and at most."""
MOST_QUERIES = 250
"""Distinct filters that layouts are made from, and that judge them: those of most queries. The last has twice these."""
HELD_OUT = 0.4
"""The last part of a log, by which layouts are judged that were made from what came before."""
FEWEST_HELD_OUT = 20
FEWEST_BLOCKS, MOST_BLOCKS = 3, 2_000
"""Blocks per unit: with fewer there is nothing to group, with more the unit is needlessly coarse."""
UNITS = ("DAY", "MONTH", "QUARTER", "YEAR")


@dataclass(frozen=True, eq=False)
class Trial:
    """What the judging queries would read under one arrangement, as shares of reading everything."""

    family: str
    detail: str
    rows: float
    bytes: float
    """Of the columns that each query reads."""
    files: float
    seconds: float
    """What reading costs by the model, for one query."""
    by_part: Shares
    """What is read of each part of the table, as a share of all rows; the parts are told when a layout is chosen."""


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
    tree: Cut | None = None
    tree_units: tuple[int, ...] = (0,)
    family: str = "features"
    detail: str = ""
    few_valued: tuple[str, ...] = ()
    """Columns of few values that queries filter: blocks should know the set of each."""
    pages: PageOrder = ANY_ORDER
    """How rows are sorted within their block."""

    @property
    def arranged(self) -> frozenset[str]:
        """The columns by whose values rows are arranged."""
        return frozenset((*self.order, *(() if self.tree is None else self.tree.columns)))


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
    columns: frozenset[str] = frozenset()
    """Those that queries read."""
    file_rows: float = 1e6
    """Rows of the table in a file."""
    unit_rows: int = 4_000_000
    given_by: bool = False
    """Whether the units were asked for."""


@dataclass(frozen=True, eq=False)
class ChosenLayout:
    """A layout, and what it was chosen by."""

    layout: LayoutChoice
    trials: tuple[Trial, ...]
    """The best of each family, for the judging queries."""
    judging: int
    """How many queries judged."""
    judged_by: str

    @property
    def trial(self) -> Trial | None:
        """That of the layout; None if nothing was tried, as of a table without rows."""
        return next((trial for trial in self.trials if trial.family == self.layout.family), None)

    @property
    def summary(self) -> str:
        """What was chosen and why, in a sentence."""
        mine = self.trial
        others = ", ".join(f"{one.family} {one.rows:.1%}" for one in self.trials if one is not mine)
        said = f"Laid out by {self.layout.family} ({self.layout.detail})"
        if self.layout.family == "as is":
            said = "No layout that was tried would serve the queries better than the table's own order"
        if mine is None:
            return f"{said}."
        return f"{said}: {self.judging:,} queries, {self.judged_by}, would read {mine.rows:.1%} of the rows ({others})."


@dataclass(frozen=True, eq=False)
class Judges:
    """Queries by which layouts are judged."""

    formulas: Sequence[Formula]
    weights: npt.NDArray[np.float64]
    text: str
    """Which they are, in words."""
    columns: Sequence[frozenset[str]] | None = None
    """Those that each reads; without, each reads all that any query reads."""


def choose_from_study(
    study: Study,
    *,
    num_features: int | None = None,
    order: Sequence[str] | None = None,
    family: str | None = None,
    judges: Judges,
    past: Weights,
    parts: RowNumbers | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> ChosenLayout:
    """The layout that suits a study's queries best.

    Units or an order that were asked for make it a layout by features. ``judges`` are the queries to judge by, ``past``
    has the weights of those to make layouts from (:mod:`~sidestep.advisor.layouts.hold_out`). ``parts`` has the part of
    the table that each row of the sample is in, if what is read is to be told for each; ``tell`` is told what is being
    tried.
    """
    if family is not None and family not in FAMILIES:
        raise SidestepError(f"There is no family of layouts called {family!r}: there are {', '.join(FAMILIES)}.")
    held = judges
    tell("features")
    picked = _select_features(study, past, num_features)
    making, judging = _parts(study.drawn.sample, study.min_size)
    material = _material(study, past, picked, making, trial=True)
    bench = _Bench(study, material, picked, held, judging, parts)
    asked_for = order is not None or study.given_by
    trials: dict[str, Trial] = {}
    plans: dict[str, Plan] = {}
    for name, of_family in FAMILIES.items() if family is None else [(family, FAMILIES[family])]:
        tell(name)
        best_of = bench.best(_along(order) if name == "features" and asked_for else of_family(material))
        if best_of is not None:
            plans[name], trials[name] = best_of
    allowed = [name for name in trials if not asked_for or family is not None or name == "features"]
    best = _cheapest({name: trials[name].seconds for name in allowed})
    tell("the layout")
    everything = study.table.weights
    if past is not everything:
        picked = _select_features(study, everything, len(picked) if num_features is None else num_features)
    final = _material(study, everything, picked, _final_rows(study.drawn.sample, study.min_size), trial=False)
    arrangement = plans[best](final) if best in plans else None
    layout = _layout(study, final, everything, picked, arrangement or Arrangement("as is", "", featured=False))
    return ChosenLayout(layout, tuple(trials.values()), int(held.weights.sum()), held.text)


OWN, LAST = "the log's own", "the last two fifths of the log"


def _heaviest(weights: Weights, most: int) -> npt.NDArray[np.intp]:
    """Filters of most queries, ascending; of those with as many, any: their numbers follow what they say."""
    mixed = np.random.default_rng(SEED).permutation(len(weights))
    heaviest = mixed[np.argsort(-weights[mixed], kind="stable")[:most]]
    return np.sort(heaviest[weights[heaviest] > 0])


def widths_of(study: Study, judges: Judges) -> Shares:
    """The bytes of a row that each query reads, in memory."""
    columns = judges.columns or [study.columns] * len(judges.formulas)
    widths = study.drawn.widths
    return np.array([max(1.0, sum(widths.get(name, 0.0) for name in names)) for names in columns], np.float64)


def feature_formulas(features: FeatureSet) -> list[Formula]:
    """When each feature holds."""
    return [feature.formula for feature in features.features]


def _parts(sample: Sample, min_size: int) -> tuple[RowNumbers, RowNumbers]:
    """Rows to make layouts by, and others to judge them by, unless there are too few to share."""
    mixed = np.random.default_rng(SEED).permutation(len(sample))
    rows = max(TRIAL_ROWS, ROWS_OF_BLOCK * min(TRIAL_BLOCKS, sample.rows // min_size))
    if len(sample) < 2 * rows:
        return np.sort(mixed[:rows]), np.sort(mixed[:rows])
    return np.sort(mixed[:rows]), np.sort(mixed[rows : 2 * rows])


def _final_rows(sample: Sample, min_size: int) -> RowNumbers:
    mixed = np.random.default_rng(SEED).permutation(len(sample))
    return np.sort(mixed[: min(MOST_FINAL_ROWS, max(TRIAL_ROWS, FINAL_ROWS * (sample.rows // min_size)))])


def _material(study: Study, weights: Weights, picked: Sequence[int], rows: RowNumbers, *, trial: bool) -> Material:
    """What families make layouts from: some rows, and the queries of most weight."""
    sample = study.drawn.sample.take(rows)
    found = feature_set_of(study.augmented, [study.sets[at] for at in picked], weights)
    heaviest = _heaviest(weights, MOST_QUERIES if trial else 2 * MOST_QUERIES)
    queries = [filter_formula(study.table, int(at)) for at in heaviest]
    subsumes = np.asarray(subsumed_filters(study.table, found.features), np.bool_)
    subsumes = subsumes.reshape(len(picked), len(study.table.filters))
    least = max(1, sample.rows // TRIAL_BLOCKS)
    return Material(
        sample,
        pack(_rows_of(study, picked, rows)),
        demands_of(study.table, found.features, sample.times),
        needs_of(sample, queries, weights[heaviest].astype(np.float64), subsumes[:, heaviest]),
        queries,
        feature_formulas(found),
        most_filtered(study, weights),
        max(study.min_size, least) if trial else study.min_size,
        study.buckets,
        study.by,
    )


def _rows_of(study: Study, picked: Sequence[int], rows: RowNumbers) -> Bits:
    """Which of some features each of some rows has."""
    return np.asarray(study.satisfied[np.array(picked, np.intp)][:, rows].T)


def _cheapest(seconds: Mapping[str, float]) -> str:
    """The first that costs hardly more than the cheapest of all; the table as it is, if that is hardly cheaper."""
    least = min(seconds.values(), default=0.0)
    if seconds.get("as is", math.inf) * (1 - LEAST_GAIN) <= least:
        return "as is"
    return next((name for name, each in seconds.items() if each <= (1 + NEAR) * least), "as is")


def _along(order: Sequence[str] | None) -> Plans:
    """The layout by features, along the order that was asked for."""
    yield partial(by_features, order)


class _Bench:
    """Judges arrangements by queries, on rows that they were not made from."""

    def __init__(
        self,
        study: Study,
        material: Material,
        picked: Sequence[int],
        judges: Judges,
        rows: RowNumbers,
        parts: RowNumbers | None,
    ) -> None:
        self.study, self.material, self.judges = study, material, judges
        self.sample = study.drawn.sample.take(rows)
        self.words = pack(_rows_of(study, picked, rows))
        self.came_in = np.argsort(study.drawn.file[rows], kind="stable")
        self.part = np.zeros(len(rows), np.int64) if parts is None else parts[rows]
        self.parts = 1 if parts is None else int(parts.max(initial=0)) + 1
        self.width = widths_of(study, judges)

    def best(self, plans: Plans) -> tuple[Plan, Trial] | None:
        """The cheapest of a family's plans; None if there is none to try."""
        best: tuple[Plan, Trial] | None = None
        plan = next(plans, None)
        while plan is not None:
            trial = self.trial(plan(self.material))
            if trial is not None and (best is None or trial.seconds < best[1].seconds):
                best = plan, trial
            try:
                plan = plans.send(math.inf if trial is None else trial.seconds)
            except StopIteration:
                plan = None
        return best

    def trial(self, arrangement: Arrangement | None) -> Trial | None:
        """What the queries read; None where there is nothing to read."""
        if arrangement is None or not len(self.sample):
            return None
        material, sample = self.material, self.sample
        if arrangement.family == "as is":
            sizes = np.array(block_sizes(len(sample), material.block), np.int64)
            blocks, words = Blocks(self.came_in, sizes), None
        else:
            words = self.words if arrangement.featured else None
            blocks = arrangement.blocks(sample, self.words, material.demands, material.block)
        catalog = catalog_of(sample, blocks, material.features if words is not None else (), words)
        kept = np.array([kept_blocks(catalog, formula) for formula in self.judges.formulas], np.bool_)
        kept = kept.reshape(len(self.judges.formulas), len(blocks))
        read = reading(blocks, self._files(arrangement, blocks), kept)
        return Trial(
            arrangement.family,
            arrangement.detail,
            self._mean(read.rows),
            float(np.average(read.rows, weights=self.judges.weights * self.width)) if len(read.rows) else 0.0,
            self._mean(read.files / max(1, read.total_files)),
            self._mean(read.seconds(sample.rows, self.width)),
            self._by_part(blocks, kept),
        )

    def _files(self, arrangement: Arrangement, blocks: Blocks) -> RowNumbers:
        """The file of each block: as many rows as a file has, and where the layout has units, of one unit."""
        file_rows = self.study.file_rows / self.sample.scale
        if arrangement.by is None:
            return files_by_size(blocks.sizes, file_rows)
        unit = self.sample.unit[blocks.order[blocks.starts]]
        number = np.zeros(len(blocks), np.int64)
        for each in np.unique(unit):
            mine = np.flatnonzero(unit == each)
            number[mine] = number.max(initial=0) + 1 + files_by_size(blocks.sizes[mine], file_rows)
        return np.unique(number, return_inverse=True)[1].ravel().astype(np.int64)

    def _by_part(self, blocks: Blocks, kept: Bits) -> Shares:
        weights = self.judges.weights
        often = weights @ kept / max(1.0, float(weights.sum()))
        read = np.repeat(often, blocks.sizes)
        return np.bincount(self.part[blocks.order], read, self.parts) / max(1, len(self.sample))

    def _mean(self, values: Shares) -> float:
        return float(np.average(values, weights=self.judges.weights)) if len(values) else 0.0


def _layout(
    study: Study, material: Material, weights: Weights, picked: Sequence[int], arrangement: Arrangement
) -> LayoutChoice:
    used = list(picked) if arrangement.featured else []
    found = feature_set_of(study.augmented, [study.sets[at] for at in used], weights)
    tree = None if arrangement.tree is None else arrangement.tree.tree
    units: tuple[int, ...] = (0,)
    if tree is not None and arrangement.tree is not None:
        leaf = arrangement.tree.route(material.sample, material.satisfied)
        units = _units_of_leaves(
            np.bincount(leaf, minlength=tree.leaves) * float(material.sample.scale), study.unit_rows
        )
    return LayoutChoice(
        found,
        material.demands if arrangement.featured else Demands(0),
        arrangement.by,
        study.min_size,
        arrangement.order,
        tuple(study.buckets[name] for name in arrangement.buckets),
        tree,
        units,
        arrangement.family,
        arrangement.detail,
        tuple(sorted(material.needs.sets)),
        _page_order(material, arrangement),
    )


def _page_order(material: Material, arrangement: Arrangement) -> PageOrder:
    """How rows are sorted within the blocks of an arrangement, as the queries that it was made for have it."""
    rows = material.sample.rows
    if not len(material.sample) or material.min_size <= PAGE_ROWS:
        return ANY_ORDER
    wanted = min(MOST_PAGED_ROWS, max(PAGED_ROWS, ROWS_OF_BLOCK * (rows // material.min_size)))
    few = np.arange(0, len(material.sample), max(1, len(material.sample) // wanted))
    sample, words = material.sample.take(few), material.words[few]
    blocks = arrangement.blocks(sample, words, material.demands, sample.rows_for(material.min_size))
    if arrangement.featured:
        return best_page_order(sample, blocks, material.needs, material.satisfied[:, few])
    needs = replace(material.needs, subsumes=material.needs.subsumes[:0])
    return best_page_order(sample, blocks, needs, material.satisfied[:0, few])


def _units_of_leaves(rows: npt.NDArray[Any], unit_rows: int) -> tuple[int, ...]:
    """The first leaf of each unit: neighbouring leaves of about ``unit_rows`` rows together.

    >>> _units_of_leaves(np.array([3.0, 3.0, 3.0, 3.0]), 6)
    (0, 2)
    """
    number = ((np.cumsum(rows) - rows / 2) / unit_rows).astype(np.int64)
    return (0, *(int(at) for at in np.flatnonzero(np.diff(number)) + 1))


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


def most_filtered(study: Study, weights: Weights) -> tuple[str, ...]:
    """The columns that most queries compare with constants, those of time among them."""
    counted: Counter[str] = Counter()
    table = study.table
    for at, numbers in enumerate(table.filters):
        alone = {next(iter(c)).name for n in numbers if len(c := table.items[n].columns) == 1}
        for name in alone & set(study.drawn.sample.types):
            counted[name] += int(weights[at])
    return tuple(name for name, count in sorted(counted.items(), key=lambda one: (-one[1], one[0])) if count)
