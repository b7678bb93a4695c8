"""Column groups on the Big Data Benchmark's denormalized table, by columns, templates, skew and selectivity of queries.

Figure 4.7 of the thesis: ``SELECT A1 … Ak WHERE filter(B, b)`` on rankings joined with uservisits (11 columns), where a
filter is ``B < b``, ``B = b`` or ``B > b`` of selectivity s ± 0.01, filters are drawn by a Zipf distribution of
exponent z, and the k columns are one of t templates; 100 queries to learn from, 100 later ones. The thesis counts k
columns for a query, so B is one of them unless ``--filters any`` says otherwise. The table is made here;
what later queries read is worked out in memory on all rows: the cost is what the objective counts (cells, row ids, rows
that are joined), as a multiple of the table's rows.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.gsop_model import Experiment, Judge, Measured, single_groups
from bench.gsop_queries import GsopQuery
from sidestep.advisor.layouts.column_groups import choose_groups
from sidestep.advisor.trials.sample import ranks
from sidestep.layout.columns.search import search
from sidestep.predicate import DataType, Predicate, column, compare
from sidestep.predicate.types import parse_type
from sidestep.workload import Eligibility

TYPES = {
    "page_url": "bigint",
    "page_rank": "int",
    "avg_duration": "int",
    "source_ip": "bigint",
    "visit_date": "date",
    "ad_revenue": "double",
    "user_agent": "string",
    "country_code": "string",
    "language_code": "string",
    "search_word": "string",
    "duration": "int",
}
"""Addresses as numbers: they are compared, and nothing else."""
DEFAULTS = {"k": 2.0, "t": 6.0, "z": 1.1, "s": 0.2}
SWEEPS: dict[str, tuple[float, ...]] = {
    "k": (1, 2, 4, 6, 8, 10),
    "t": (1, 3, 6, 15, 45),
    "z": (0.5, 1.1, 1.5, 2.0),
    "s": (0.05, 0.1, 0.2, 0.3, 0.4),
}
LAYOUTS = ("sop", "gsop_single", "gsop")
WITHIN = 0.01
NOISE = 0.05
"""By this share GSOP may cost more than the better of the two ends: later queries are not those it was made for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the table (the thesis: 15 million)")
    parser.add_argument("--blocks", type=int, default=200, help="blocks of each group")
    parser.add_argument("--train", type=int, default=100, help="queries to learn from")
    parser.add_argument("--test", type=int, default=100, help="later queries")
    parser.add_argument("--sweeps", default=",".join(SWEEPS), help="which of k, t, z and s to vary")
    parser.add_argument(
        "--filters",
        choices=("selected", "any"),
        default="selected",
        help="whether B is one of the columns that are selected, or any, which is then read as well",
    )
    parser.add_argument(
        "--means",
        choices=("features", "all"),
        default="features",
        help="arrange groups by features, as the thesis does, or by all means, as a load does (slower)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of table and queries")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from that one on")


def run(args: argparse.Namespace) -> dict[str, Any]:
    console, figures = Console(), {}
    worst, over = 0.0, 0
    for swept in args.sweeps.split(","):
        points: dict[float, dict[str, float]] = {}
        for value in SWEEPS[swept]:
            measured = [_point(args, {**DEFAULTS, swept: value}, args.seed + at) for at in range(args.seeds)]
            points[value] = {name: float(np.mean([cost(one[name]) for one in measured])) for name in LAYOUTS}
            for one in measured:
                ratio = cost(one["gsop"]) / min(cost(one["sop"]), cost(one["gsop_single"]))
                worst, over = max(worst, ratio), over + (ratio > 1 + NOISE)
            points[value]["groups"] = float(np.mean([one["gsop"].groups for one in measured]))
            told = ", ".join(f"{name} {each:.2f}" for name, each in points[value].items())
            console.print(f"{swept} = {value:g}: {told}")
        console.print(_table(swept, points))
        figures[swept] = {f"{value:g}": {k: round(v, 4) for k, v in each.items()} for value, each in points.items()}
    console.print(f"GSOP by the better of SOP and GSOP-single: {worst:.3f} at worst, {over} times above {1 + NOISE}")
    return {**figures, "worst_ratio": round(worst, 4), "above_noise": over}


def cost(measured: Measured) -> float:
    """Cells, row ids, and rows that are sorted or hashed to be joined."""
    return measured.cells + 2 * measured.row_ids


def _point(args: argparse.Namespace, setting: dict[str, float], seed: int) -> dict[str, Measured]:
    table = make_table(args.rows, seed)
    selected = args.filters == "selected"
    queries = random_queries(table, args.train + args.test, seed=seed, selected=selected, **setting)
    experiment = Experiment(
        table,
        queries[: args.train],
        queries[args.train :],
        args.blocks,
        types={name: parse_type(kind) for name, kind in TYPES.items()},
        eligibility=Eligibility(dates=True),
    )
    judge = Judge(experiment)
    if args.means == "features":
        rows = experiment.letter_rows()
        found = search(experiment.by_the_letter, rows)
        schemes = {"sop": found.together, "gsop_single": found.single, "gsop": found.best}
        return {name: judge.thesis(scheme.groups, rows) for name, scheme in schemes.items()}
    given = {"sop": [list(TYPES)], "gsop_single": single_groups(experiment), "gsop": None}
    return {name: judge.arranged(choose_groups(experiment.study, given=groups)) for name, groups in given.items()}


def make_table(rows: int, seed: int) -> pa.Table:
    """Visits of pages with the rank of each page: ranks and words are skewed, all else is even."""
    draw = np.random.default_rng(seed)
    pages = max(10, rows // 10)
    rank, average = np.minimum(draw.zipf(1.8, pages), 10_000), draw.integers(1, 100, pages)
    page = draw.integers(0, pages, rows)
    words = np.array([f"word{number:03}" for number in range(500)])
    countries = np.array([f"C{number:02}" for number in range(40)])
    languages = np.array([f"L{number:02}" for number in range(25)])
    agents = np.array([f"agent{number:02}" for number in range(60)])
    skewed = np.minimum(draw.zipf(1.3, rows), len(words)) - 1
    country = draw.choice(len(countries), rows, p=_zipf(len(countries), 1.0))
    return pa.table(
        {
            "page_url": page,
            "page_rank": pa.array(rank[page], pa.int32()),
            "avg_duration": pa.array(average[page], pa.int32()),
            "source_ip": draw.integers(0, 2**32, rows),
            "visit_date": pa.array(draw.integers(0, 12_000, rows), pa.int32()).cast(pa.date32()),
            "ad_revenue": draw.random(rows) * 500,
            "user_agent": agents[draw.integers(0, len(agents), rows)],
            "country_code": countries[country],
            "language_code": languages[(country + draw.integers(0, 3, rows)) % len(languages)],
            "search_word": words[skewed],
            "duration": pa.array(draw.integers(1, 11, rows), pa.int32()),
        }
    )


def random_queries(
    table: pa.Table, count: int, *, k: float, t: float, z: float, s: float, seed: int, selected: bool = True
) -> list[GsopQuery]:
    """Queries of so many columns, templates, skew and selectivity; ``selected``: that filter a column they select."""
    draw = np.random.default_rng([seed, 7])
    pool = predicates(table, s)
    pool = [pool[at] for at in draw.permutation(len(pool))]
    weights, filtered = _zipf(len(pool), z), np.array([name for name, _ in pool])
    every = list(itertools.combinations(TYPES, int(k)))
    if selected:
        every = [each for each in every if np.isin(filtered, each).any()]
    templates = [every[at] for at in draw.permutation(len(every))[: int(t)]]
    made = []
    for _ in range(count):
        template = templates[int(draw.integers(len(templates)))]
        likely = weights * np.isin(filtered, template) if selected else weights
        name, predicate = pool[int(draw.choice(len(pool), p=likely / likely.sum()))]
        made.append(GsopQuery(name, (predicate,), frozenset({*template, name})))
    return made


def predicates(table: pa.Table, selectivity: float) -> list[tuple[str, Predicate]]:
    """The filters on one column that so large a share of rows satisfies, give or take 0.01."""
    found: list[tuple[str, Predicate]] = []
    for name, kind in TYPES.items():
        of: DataType = parse_type(kind)
        distinct, rank = ranks(table[name])
        shares = np.bincount(rank) / len(table)
        before = np.cumsum(shares) - shares
        for operator, share in (("<", before), ("=", shares), (">", 1 - before - shares)):
            near = np.flatnonzero(np.abs(share - selectivity) <= WITHIN)
            if len(near):
                best = near[np.abs(share[near] - selectivity).argmin()]
                found.append((name, compare(column(name, of), operator, distinct[int(best)].as_py())))
    return found


def _zipf(count: int, exponent: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    weights = 1 / np.arange(1, count + 1) ** exponent
    return np.asarray(weights / weights.sum())


def _table(swept: str, points: dict[float, dict[str, float]]) -> Table:
    shown = Table(title=f"cost of a later query, by {swept}")
    for heading in (swept, *LAYOUTS, "groups"):
        shown.add_column(heading, justify="right")
    for value, each in points.items():
        shown.add_row(f"{value:g}", *(f"{each[name]:.3f}" for name in LAYOUTS), f"{each['groups']:.1f}")
    return shown
