"""The InputCut part of ``bench dips``: all queries of three benchmarks, on every kind of data, in every layout."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench import job, job_queries, tpcds, tpch
from bench.dips_cut import BEST, NAIVE, PREDICATES, VARIANTS, input_cuts
from bench.dips_layouts import by_keys, job_blocks, random_tables, tpcds_blocks, tpch_blocks, tuned_tpcds, tuned_tpch
from bench.dips_plans import planned
from bench.dips_tables import BlockTable
from bench.journal import Journal
from bench.skew import SKEWS
from bench.skew_tpch import skewed_tpch, tpch_tables
from bench.tpcds_layout import plain_strings
from sidestep.prune import Query

FAVOURABLE = tuple(f"q{number}" for number in (2, 3, 4, 5, 6, 7, 10, 12, 14, 15, 16, 17, 19, 20, 21))
"""The TPC-H queries that the diPs paper finds large savings for (5.4)."""

Cuts = dict[str, dict[str, float | None]]
"""By query and variant; None is a query that provably has no result."""

Layouts = Mapping[str, Callable[[], dict[str, BlockTable]]]


class InputCuts:
    """Plans are made once; layouts are made where the journal does not have their figures yet."""

    def __init__(self, spark: SparkSession, args: argparse.Namespace, journal: Journal, say: Callable[[str], None]):
        self.spark, self.args, self.journal, self.say = spark, args, journal, say

    def tpch(self) -> dict[str, dict[str, list[Cuts]]]:
        """By kind of data and layout (tuned, or random columns), the cuts of each seed."""
        source = tpch.make_tpch(self.args.data, self.args.sf, 16)
        tpch.register(self.spark, source)
        plans = planned(self.spark, self.journal, tpch.queries(), "tpch")
        tables, blocks = tpch_tables(source), tpch_blocks(self.args.blocks)
        found: dict[str, dict[str, list[Cuts]]] = {}
        for skew in SKEWS:
            for seed in range(self.args.seed, self.args.seed + (self.args.seeds if skew.kind != "uniform" else 1)):
                made = skewed_tpch(tables, skew, seed)
                layouts: Layouts = {"tuned": partial(tuned_tpch, made, blocks), **self.random(made, blocks)}
                for name, cuts in self.cut(f"tpch {skew.name} {self.args.sf:g} {seed}", plans, layouts):
                    kind = name.partition(" ")[0]
                    found.setdefault(skew.name, {}).setdefault(kind, []).append(cuts)
        return found

    def tpcds(self) -> dict[str, list[Cuts]]:
        """By layout; TPC-DS has one kind of data, which is skewed by itself."""
        source = tpcds.make_tpcds(self.args.data, self.args.tpcds_sf)
        tpcds.register(self.spark, source)
        texts = {name: text for name, text in tpcds.queries().items() if int(name[1:]) in tpcds.CHOSEN}
        plans = planned(self.spark, self.journal, texts, "tpcds")
        tables = {name: plain_strings(pq.read_table(source / name)) for name in tpcds.TABLES}
        blocks = tpcds_blocks(tables, self.args.blocks)
        layouts: Layouts = {"tuned": partial(tuned_tpcds, tables, blocks), **self.random(tables, blocks)}
        return _by_kind(self.cut(f"tpcds {self.args.tpcds_sf:g}", plans, layouts))

    def job(self) -> dict[str, list[Cuts]]:
        """By layout: the order in which the rows came, by their id, or that of random columns."""
        source = job.make_job(self.args.data, self.args.films, 0)
        job.register(self.spark, source)
        plans = planned(self.spark, self.journal, job_queries.queries(), "job")
        tables = job.job_tables(self.args.films, 0)
        blocks = job_blocks(tables)
        layouts: Layouts = {"natural": partial(by_keys, tables, blocks), **self.random(tables, blocks)}
        return _by_kind(self.cut(f"job {self.args.films}", plans, layouts))

    def random(self, tables: Mapping[str, pa.Table], blocks: Mapping[str, int]) -> Layouts:
        return {f"random {n}": partial(random_tables, tables, blocks, n) for n in range(self.args.layouts)}

    def cut(self, family: str, plans: Mapping[str, Query], layouts: Layouts) -> Iterable[tuple[str, Cuts]]:
        for name, make in layouts.items():
            key = f"cuts {family} {self.args.blocks} {name}"
            if key not in self.journal:
                tables = make()
                self.journal.note(key, {query: input_cuts(plan, tables) for query, plan in plans.items()})
                self.say(f"{family}, {name}: {_said(self.journal.once(key, dict))}")
            yield name, self.journal.once(key, dict)


def _by_kind(found: Iterable[tuple[str, Cuts]]) -> dict[str, list[Cuts]]:
    by_kind: dict[str, list[Cuts]] = {}
    for name, cuts in found:
        by_kind.setdefault(name.partition(" ")[0], []).append(cuts)
    return by_kind


def _said(cuts: Cuts) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in medians([cuts]).items())


def medians(runs: Sequence[Cuts], queries: Sequence[str] | None = None) -> dict[str, float]:
    """The median InputCut of each variant over queries and runs.

    A query that provably has no result would cut its input by any factor, so it is left out, for all variants alike.
    """
    counted = [
        cuts[query]
        for cuts in runs
        for query in (queries or cuts)
        if all(value is not None for value in cuts[query].values())
    ]
    names = (*VARIANTS, NAIVE)
    return {name: statistics.median(each[name] or 1.0 for each in counted) if counted else 1.0 for name in names}


def proven_empty(runs: Sequence[Cuts], queries: Sequence[str] | None = None) -> int:
    return sum(cuts[query][BEST] is None for cuts in runs for query in (queries or cuts))


def least_gain(runs: Sequence[Cuts]) -> float:
    """The InputCut of induced predicates by that of the query's own, where it is least: never below 1."""
    both = [(each[BEST], each[PREDICATES]) for cuts in runs for each in cuts.values()]
    return min((best / own for best, own in both if best is not None and own is not None), default=1.0)


def of_query(runs: Sequence[Cuts], query: str) -> dict[str, float]:
    """Medians of one query, and in how many runs it was proven empty; if in all, they are 1."""
    return {**medians(runs, (query,)), "proven empty": proven_empty(runs, (query,))}
