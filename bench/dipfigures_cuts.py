"""InputCut by statistic, number of ranges and number of blocks (diPs, Figures 15, 18, 19 and 21)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.dipfigures_data import FigureData
from bench.dips_cut import Variant, input_cut, patient_settings
from bench.dips_tables import BlockTable
from sidestep.prune import Query
from sidestep.prune.analysis import Settings
from sidestep.synopsis.recipe import Recipe

RANGE_SET, GAP_HISTOGRAM, ZONE_MAP, PREDICATES = "range-set of 20", "gap histogram of 10", "zone map", "predicates"
STATISTICS: Mapping[str, Variant] = {
    RANGE_SET: Variant(Recipe(range_set=20), patient_settings()),
    GAP_HISTOGRAM: Variant(Recipe(gap_histogram=10), patient_settings()),
    ZONE_MAP: Variant(Recipe(), patient_settings()),
    PREDICATES: Variant(Recipe(range_set=20), Settings().without("induced")),
}
"""The paper's three, in its order, and the first for the query's own predicates alone."""

Cuts = dict[str, dict[str, float | None]]
"""By query and variant; None is a query that provably has no result."""


def cuts_of(queries: Mapping[str, Query], tables: Mapping[str, BlockTable], variants: Mapping[str, Variant]) -> Cuts:
    return {
        name: {variant: input_cut(query, tables, each)[0] for variant, each in variants.items()}
        for name, query in queries.items()
    }


def _made_cuts(data: FigureData, make: Callable[[], dict[str, BlockTable]], variants: Mapping[str, Variant]) -> Cuts:
    return cuts_of(data.queries, make(), variants)


def by_statistic(data: FigureData, console: Console) -> dict[str, Any]:
    """Figures 15 and 21: each query over all layouts, by the statistic that predicates and diPs rest on."""
    runs: list[Cuts] = []
    for seed in data.seeds:
        for layout, make in data.layouts(seed):
            key = data.key("statistics", seed, layout=layout)
            runs.append(data.once(key, partial(_made_cuts, data, make, STATISTICS)))
    found = {query: {name: spread(runs, query, name) for name in STATISTICS} for query in data.queries}
    gains = {query: gain(runs, query) for query in data.queries}
    table = Table(title=f"InputCut over {len(runs)} layouts: mean, least and most")
    for heading in ("query", *STATISTICS, "by predicates alone: most"):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for query, each in found.items():
        cells = (
            f"{values[2]:.1f} ({values[0]:.1f} to {values[4]:.1f})" if (values := each[name]) else "empty"
            for name in STATISTICS
        )
        table.add_row(query, *cells, f"{max(gains[query], default=1.0):.1f}")
    console.print(table)
    console.print(
        shares_table(
            f"All queries, {len(runs)} layouts", shares := {name: percentiles(runs, name) for name in STATISTICS}
        )
    )
    return {"statistics": found, "statistics_all": shares, "gain_over_predicates": gains}


def counted(runs: Sequence[Cuts], query: str) -> list[dict[str, float]]:
    """The cuts of a query in those runs in which no variant proves it empty."""
    return [
        {name: value for name, value in run[query].items() if value is not None}
        for run in runs
        if all(value is not None for value in run[query].values())
    ]


def spread(runs: Sequence[Cuts], query: str, variant: str) -> list[float]:
    """The least, the quartiles with the mean between them, and the most; nothing if it is always proven empty."""
    values = [each[variant] for each in counted(runs, query)]
    if not values:
        return []
    low, high = np.percentile(values, [25, 75])
    return [round(float(value), 3) for value in (min(values), low, np.mean(values), high, max(values))]


def gain(runs: Sequence[Cuts], query: str) -> list[float]:
    """How much more diPs cut than the query's own predicates do, layout by layout."""
    return [round(each[RANGE_SET] / each[PREDICATES], 3) for each in counted(runs, query)]


def percentiles(runs: Sequence[Cuts], variant: str, queries: Sequence[str] | None = None) -> dict[str, float]:
    """Over all queries and runs: percentiles, and the share of those that skip half of their input or more."""
    values = [each[variant] for query in (queries or runs[0]) for each in counted(runs, query)]
    if not values:
        return {}
    found = {f"p{at}": round(float(np.percentile(values, at)), 3) for at in (10, 25, 50, 75, 90)}
    return {**found, "half": round(float(np.mean(np.array(values) >= 2)), 3)}


def by_ranges(data: FigureData, console: Console) -> dict[str, Any]:
    """Figure 18: the tuned layout, by the number of ranges of range-sets."""
    variants = {
        str(n): Variant(Recipe(range_set=n) if n > 1 else Recipe(), patient_settings()) for n in data.args.ranges
    }
    runs: list[Cuts] = []
    for seed in data.seeds:
        key = data.key("ranges", seed, ranges=",".join(variants))
        make = partial(data.tuned, seed, data.args.blocks)
        runs.append(data.once(key, partial(_made_cuts, data, make, variants)))
    found = {name: percentiles(runs, name) for name in variants}
    console.print(shares_table(f"Ranges of range-sets, tuned layout, {len(runs)} seeds, 22 queries", found))
    return {"ranges": found, "ranges_of_queries": {query: counted(runs, query) for query in runs[0]}}


def by_blocks(data: FigureData, console: Console) -> dict[str, Any]:
    """Figure 19: the tuned layout in more and more blocks, over the queries that none of them proves empty."""
    runs: list[Cuts] = []
    for seed in data.seeds:
        together: Cuts = {query: {} for query in data.queries}
        for blocks in data.args.partitions:
            key = data.key("partitions", seed, partitions=blocks)
            make = partial(data.tuned, seed, blocks)
            for query, cuts in data.once(key, partial(_made_cuts, data, make, STATISTICS)).items():
                together[query] |= {f"{blocks:,}, {name}": cut for name, cut in cuts.items()}
        runs.append(together)
    names = [f"{n:,}, {name}" for n in data.args.partitions for name in (RANGE_SET, ZONE_MAP, PREDICATES)]
    found = {name: percentiles(runs, name) for name in names}
    console.print(shares_table(f"Blocks of lineitem, tuned layout, {data.args.seeds} seeds", found))
    return {"partitions": found, "partitions_counted": sum(len(counted(runs, query)) for query in data.queries)}


def shares_table(title: str, rows: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(title=f"{title}: percentiles of InputCut, and the share of 2 or more")
    for heading in ("", "p10", "p25", "p50", "p75", "p90", "half"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=not heading)
    for name, each in rows.items():
        table.add_row(name, *(f"{each[at]:.2f}" for at in each))
    return table
