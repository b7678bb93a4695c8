"""Why diPs help or not: how rows become blocks, step by step (diPs, Table 9, Figure 24, and taints of 5.3).

A predicate picks rows of its table (the paper's condition D2), which lie in some of its blocks (C1, D3), of which a
statistic keeps a few more (D4). Those hold some of the join column's values (C2). A diP with these picks rows of the
joined table, which lie in some of that table's blocks (C3, D5), of which again a few more are kept. Each predicate is
taken with each join of its table by itself, before anything comes back from other tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.dipfigures_data import TUNED, FigureData
from bench.dipfigures_rows import RowBlocks, block_of_row, blocks_with, share
from bench.dips_cut import BEST, PREDICATES, RANGES, UNHURRIED, VARIANTS, columns_needed, input_cut, views_of
from bench.dips_plans import selects
from bench.dips_tables import BlockTable
from sidestep.predicate import And, Column, normalize
from sidestep.prune import Query, scan_filters
from sidestep.prune.dips.exchange import Exchange
from sidestep.prune.dips.lineage import join_graph
from sidestep.prune.dips.model import Dip, InducedOptions
from sidestep.synopsis import Mask, kept_blocks

Point = dict[str, Any]
"""Shares of rows, blocks and values for a predicate, or for a predicate and a join; ``target`` is None in the first."""

SELECTIVE = 0.2
"""A share of rows or blocks that counts as small; what the paper reads off its Figure 6 for C1."""
FEW_VALUES = 0.5
"""The same for values and blocks of the joined table; what it reads off for C2."""
TAINTED = frozenset({"lineitem", "orders"})
EDGES = (0.01, 0.1, 0.5, 1.0)
STEPS = {
    "(a) rows of the source → its blocks": ("rows", "kept"),
    "(b) blocks of the source → rows of the target": ("kept", "target_rows"),
    "(c) rows of the target → its blocks": ("target_rows", "target_kept"),
    "(d) rows of the source → blocks of the target": ("rows", "target_kept"),
}
"""The four plots of Figure 24."""


def conditions(data: FigureData, console: Console) -> dict[str, Any]:
    """Table 9 and Figure 24, over all layouts."""
    points: list[Point] = []
    for seed in data.seeds:
        rows: RowBlocks | None = None
        for layout, make in data.layouts(seed):
            key = data.key("conditions", seed, layout=layout)
            if rows is None and key not in data.journal:
                rows = RowBlocks(data.tables(seed))
            own = data.once(key, partial(_made_points, data, make, rows))
            points += [{**point, "layout": f"{seed} {layout}"} for point in own]
    by_query = {name: condition_counts(name, points) for name in data.queries}
    layouts = len({point["layout"] for point in points})
    table = Table(title=f"Of {layouts} layouts, those in which some predicate has what diPs need")
    for heading in ("query", *next(iter(by_query.values()))):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for name, counts in by_query.items():
        table.add_row(name, *(f"{value:.3f}" if isinstance(value, float) else str(value) for value in counts.values()))
    console.print(table)
    histograms = {title: histogram(points, *names) for title, names in STEPS.items()}
    for title, cells in histograms.items():
        console.print(histogram_table(title, cells))
    return {"conditions": by_query, "steps": histograms, "points": len(points), "layouts": layouts}


def _made_points(data: FigureData, make: Callable[[], dict[str, BlockTable]], rows: RowBlocks | None) -> list[Point]:
    assert rows is not None
    tables = make()
    return [point for name, query in data.queries.items() for point in points_of(name, query, tables, rows)]


def points_of(name: str, query: Query, tables: Mapping[str, BlockTable], rows: RowBlocks) -> Iterator[Point]:
    """A point for each filtered scan of a query, and for each join by which it can send something."""
    graph, columns = join_graph(query), columns_needed(query)
    views = views_of(query, tables, RANGES)
    places = dict(zip(graph.scans, scan_filters(query), strict=True))
    by_node = {node: views[place.scan.key] for node, place in places.items()}
    largest = max(rows.rows(place.scan.name) for place in places.values())
    for node, place in places.items():
        if not any(map(selects, place.conjuncts)):
            continue
        table, formula = place.scan.name, normalize(And(place.conjuncts))
        matching = rows.matching(table, columns[place.scan.key], formula)
        kept = kept_blocks(by_node[node].catalogs[0], formula)
        own = {
            "query": name,
            "source": table,
            "small": rows.rows(table) < largest,
            "rows": share(matching),
            "holding": share(blocks_with(tables[table], matching)),
            "kept": share(kept),
        }
        yield {**own, "target": None}
        for link in graph.links:
            if link.origin != node or link.target not in places or not link.down:
                continue
            whole = {each: (np.ones(view.catalogs[0].blocks, np.bool_),) for each, view in by_node.items()}
            exchange = Exchange(graph, by_node, {**whole, node: (kept,)}, InducedOptions(seconds=UNHURRIED))
            exchange.send(link, 1, 1)
            target = places[link.target].scan.name
            column = graph.table_column(node, link.source.column)
            values = {"values": values_held(rows, tables[table], table, column, kept)}
            arrived = received(rows, tables[target], target, exchange.dips[0] if exchange.dips else None)
            target_kept = share(exchange.kept[link.target][0])
            yield {**own, "target": target, **values, **arrived, "target_kept": target_kept}


def values_held(rows: RowBlocks, blocks: BlockTable, table: str, column: Column, kept: Mask) -> float:
    """The share of a column's distinct values that the kept blocks hold."""
    codes = rows.values(table, column)
    if codes is None:
        return 1.0
    return round(len(np.unique(codes[kept[block_of_row(blocks)]])) / len(np.unique(codes)), 5)


def received(rows: RowBlocks, blocks: BlockTable, table: str, dip: Dip | None) -> dict[str, float]:
    """The shares of rows that satisfy a diP, and of the blocks that hold them; without one, all."""
    if dip is None:
        return {"target_rows": 1.0, "target_holding": 1.0}
    selected = rows.selected(table, dip)
    return {"target_rows": share(selected), "target_holding": share(blocks_with(blocks, selected))}


def condition_counts(query: str, points: Sequence[Point]) -> dict[str, float | int]:
    """The most selective predicate's rows, and in how many layouts each further condition holds for some predicate.

    Conditions build upon each other: a predicate counts for one if it has those before.
    """
    own = [point for point in points if point["query"] == query]
    predicates = [point for point in own if point["target"] is None]
    steps = [point for point in own if point["target"] is not None]

    def layouts(found: Sequence[Point]) -> int:
        return len({point["layout"] for point in found})

    picking = [point for point in steps if point["rows"] <= SELECTIVE]
    near = [point for point in picking if point["holding"] <= SELECTIVE]
    known = [point for point in near if point["kept"] <= SELECTIVE]
    few = [point for point in known if point["values"] <= FEW_VALUES]
    return {
        "D1 on a smaller table": len({point["source"] for point in predicates if point["small"]}),
        "D2 rows, least": min((point["rows"] for point in predicates), default=1.0),
        "D2 selective, joined": layouts(picking),
        "D3 in few blocks": layouts(near),
        "D4 and kept": layouts(known),
        "C2 few values": layouts(few),
        "C3 few target blocks": layouts([point for point in few if point["target_kept"] <= FEW_VALUES]),
    }


def histogram(points: Sequence[Point], x: str, y: str) -> list[list[int]]:
    """How many points fall between the edges, by x and y; those of one predicate count once where no join matters."""
    wanted = [point for point in points if (point["target"] is None) == (y == "kept")]
    counts = [[0] * len(EDGES) for _ in EDGES]
    for point in wanted:
        across, up = (int(np.searchsorted(EDGES, point[name], side="left")) for name in (x, y))
        counts[min(across, len(EDGES) - 1)][min(up, len(EDGES) - 1)] += 1
    return counts


def histogram_table(title: str, counts: Sequence[Sequence[int]]) -> Table:
    before, _, after = title.partition(" → ")
    table = Table(title=f"Figure 24{title}: points")
    names = ("up to 1%", "up to 10%", "up to 50%", "above")
    for heading in (before, *names):
        table.add_column(heading, justify="left" if heading == before else "right")
    for name, row in zip(names, counts, strict=True):
        table.add_row(name, *map(str, row))
    table.caption = f"across: {after}"
    return table


def taints(data: FigureData, console: Console) -> dict[str, Any]:
    """What is left where lineitem and orders have changed blocks, so that nothing comes from them (5.3)."""
    seed = data.args.seed
    names = (PREDICATES, "tainted", BEST)

    def make() -> dict[str, Any]:
        tables = data.tuned(seed, data.args.blocks)
        return {
            name: {
                PREDICATES: input_cut(query, tables, VARIANTS[PREDICATES])[0],
                "tainted": input_cut(query, tables, VARIANTS[BEST], TAINTED)[0],
                BEST: input_cut(query, tables, VARIANTS[BEST])[0],
            }
            for name, query in data.queries.items()
        }

    found: dict[str, Any] = data.once(data.key("taints", seed, layout=TUNED), make)
    table = Table(title="InputCut in the tuned layout: no predicate originates from lineitem and orders")
    for heading in ("query", *names):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for query, cuts in found.items():
        table.add_row(query, *("empty" if cuts[name] is None else f"{cuts[name]:.2f}" for name in names))
    console.print(table)
    return {"taints": found}
