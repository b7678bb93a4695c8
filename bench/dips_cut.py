"""InputCut: a query's input before and after skipping, for each way to derive predicates (diPs, 5.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from bench.dips_tables import BlockTable
from sidestep.predicate import And, DataType, normalize
from sidestep.predicate.columns import columns_of
from sidestep.prune import Query, Scan, scan_filters
from sidestep.prune.analysis import Decision, Settings, by_scan
from sidestep.prune.decide import decide
from sidestep.prune.dips.exchange import Exchange
from sidestep.prune.dips.join_graph import join_columns
from sidestep.prune.dips.lineage import join_graph
from sidestep.prune.dips.model import InducedOptions, TableView
from sidestep.synopsis import Catalog, Mask, kept_blocks
from sidestep.synopsis.recipe import Recipe

UNHURRIED = 60.0
"""Seconds: what is skipped must not depend on how busy the machine is."""

RANGES = Recipe(range_set=20)

PREDICATES, BEST = "predicates", "range-sets of 20"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to derive predicates, from zone maps and what the recipe gives every column besides."""

    recipe: Recipe
    settings: Settings


def patient_settings(movement: bool = True, naive: bool = False) -> Settings:
    return Settings(induced=InducedOptions(seconds=UNHURRIED, movement=movement, naive=naive))


VARIANTS: Mapping[str, Variant] = {
    PREDICATES: Variant(RANGES, Settings().without("induced")),
    "zone maps": Variant(Recipe(), patient_settings()),
    "range-sets of 4": Variant(Recipe(range_set=4), patient_settings()),
    BEST: Variant(RANGES, patient_settings()),
    "without movement": Variant(RANGES, patient_settings(movement=False)),
    "fixpoint": Variant(RANGES, patient_settings(naive=True)),
}
"""The first knows the same as the fourth, and uses it for the query's own predicates alone. The last sends along every
join, over and over, until a round removes nothing: it takes far more predicates than the schedule does."""

NAIVE = "naive schedule"
"""As many predicates as the schedule takes, along joins that are picked at random (5.1)."""

Views = Mapping[str, TableView]


@dataclass(frozen=True, slots=True)
class CoveredWhole:
    """Tables of which all blocks are known, by the keys of their scans."""

    views: Views
    tainted: frozenset[str] = frozenset()
    """Tables with changed blocks, by name: they originate nothing (4.1)."""

    def covers(self, scan: Scan) -> bool:
        return scan.key in self.views

    def catalogs(self, scan: Scan, columns: Mapping[str, DataType]) -> tuple[Catalog, ...]:
        return self.views[scan.key].catalogs

    def accesses(self, scan: Scan, columns: Mapping[str, DataType]) -> None:
        return None

    def rows(self, scan: Scan, columns: Mapping[str, DataType], most: int) -> None:
        """The paper knows of blocks alone."""

    def complete(self, scans: Collection[Scan]) -> frozenset[str]:
        return frozenset(scan.key for scan in scans if scan.name not in self.tainted)


def input_cuts(query: Query, tables: Mapping[str, BlockTable], seed: int = 0) -> dict[str, float | None]:
    """The InputCut of a query over tables by name, for each variant; None where it provably has no result."""
    found: dict[str, float | None] = {}
    for name, variant in VARIANTS.items():
        found[name], views, decision = input_cut(query, tables, variant)
        if name == BEST:
            sent = 0 if decision.induced is None else len(decision.induced.dips)
            found[NAIVE] = ratio(views, kept_naively(query, views, sent, seed))
    return found


def input_cut(
    query: Query, tables: Mapping[str, BlockTable], variant: Variant, tainted: frozenset[str] = frozenset()
) -> tuple[float | None, dict[str, TableView], Decision]:
    """The InputCut of a query by one variant, with what was known of its tables and what came of that."""
    views = views_of(query, tables, variant.recipe)
    analyzed, decision = decide(query, CoveredWhole(views, tainted), variant.settings)
    return ratio(views, {key: masks[0] for key, masks in by_scan(analyzed, decision.kept).items()}), views, decision


def views_of(query: Query, tables: Mapping[str, BlockTable], recipe: Recipe) -> dict[str, TableView]:
    columns = columns_needed(query)
    scans = {place.scan.key: place.scan for place in scan_filters(query)}
    return {
        key: TableView((tables[scan.name].catalog(columns[key], recipe),), complete=True) for key, scan in scans.items()
    }


def columns_needed(query: Query) -> dict[str, dict[str, DataType]]:
    """By scan, the columns that its filters and its joins are about."""
    needed: dict[str, dict[str, DataType]] = {}
    for place in scan_filters(query):
        used = needed.setdefault(place.scan.key, {})
        used |= {column.name: column.type for each in place.conjuncts for column in columns_of(each)}
    for key, joined in join_columns(join_graph(query)).items():
        needed.setdefault(key, {}).update(joined)
    return needed


def ratio(views: Views, kept: Mapping[str, Mask]) -> float | None:
    """Bytes of all tables that a query reads, each as often as it does, by the bytes of the blocks that are kept."""
    before = sum(int(view.catalogs[0].bytes.sum()) for view in views.values())
    after = sum(int(view.catalogs[0].bytes[kept[key]].sum()) for key, view in views.items())
    return before / after if after else None


def kept_naively(query: Query, views: Views, count: int, seed: int) -> dict[str, Mask]:
    """What so many predicates leave if chance says which join comes next."""
    graph = join_graph(query)
    keys, static = {}, {}
    for node, place in zip(graph.scans, scan_filters(query), strict=True):
        keys[node] = place.scan.key
        static[node] = (kept_blocks(views[place.scan.key].catalogs[0], normalize(And(place.conjuncts))),)
    by_node = {node: views[key] for node, key in keys.items()}
    exchange = Exchange(graph, by_node, static, InducedOptions(seconds=UNHURRIED))
    rng = np.random.default_rng(seed)
    for _ in range(100 * len(graph.links)):
        if len(exchange.dips) >= count:
            break
        exchange.send(graph.links[rng.integers(len(graph.links))], 1, 1)
    kept: dict[str, Mask] = {}
    for node, key in keys.items():
        kept[key] = kept.get(key, False) | exchange.kept[node][0]
    return kept
