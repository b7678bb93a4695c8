"""SOP on the denormalized view as the diPs paper did it (FineBlock; Figures 22 and 25 and 11.3).

Rows are taken by month of their order, and each month is grouped by 15 features of the training queries, which have
no dates. Blocks know their features and the days of their month. The paper trains on 30 queries of each of eight
templates, and tests on 16 templates that the view can answer (*as in Figure 22*). Figure 25 has more training, tests
the eight, and moves predicates on ship dates to order dates by hand; here the blocks know all dates of their month
instead (*as in Figure 25*).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.denorm import BRANDS, REGIONS, TYPES, Draw
from bench.denorm_data import make_denorm
from bench.dipfigures_data import FigureData
from bench.gsop_model import Experiment, formula_of
from bench.gsop_queries import COLOURS, NATIONS, GsopQuery, col, q3, q5, q6, q12, q19, q20, q21
from sidestep.layout.maxskip import partition
from sidestep.layout.vectors import reduce_vectors
from sidestep.predicate import Predicate, compare, conjunction, disjunction, is_like, one_of
from sidestep.predicate.columns import columns_of
from sidestep.synopsis import Catalog, UnionVectors, ZoneMaps, kept_blocks
from sidestep.synopsis.zones.column_zones import column_zones
from sidestep.workload import ExtractOptions, Feature, augment, extract_features

FEATURES = 15
ORDERED = "o_orderdate"
DATES = (ORDERED, "l_shipdate", "l_commitdate", "l_receiptdate")
Template = Callable[[Draw], tuple[Predicate, ...]]


def days(name: str, first: datetime.date, months: int) -> tuple[Predicate, Predicate]:
    """The days of so many months."""
    month = first.month - 1 + months
    return compare(col(name), ">=", first), compare(
        col(name), "<", datetime.date(first.year + month // 12, month % 12 + 1, 1)
    )


def month_of(draw: Draw, first: str, months: int) -> datetime.date:
    return datetime.date.fromisoformat(draw.month(first, months))


def q1(draw: Draw) -> tuple[Predicate, ...]:
    last = datetime.date(1998, 12, 1) - datetime.timedelta(int(draw.rng.integers(60, 121)))
    return (compare(col("l_shipdate"), "<=", last),)


def q4(draw: Draw) -> tuple[Predicate, ...]:
    late = compare(col("l_commitdate"), "<", col("l_receiptdate"))
    return late, *days(ORDERED, month_of(draw, "1993-01", 58), 3)


def q7(draw: Draw) -> tuple[Predicate, ...]:
    one, other = draw.two(NATIONS)
    ways = (
        conjunction(compare(col("sn_name"), "=", a), compare(col("cn_name"), "=", b))
        for a, b in ((one, other), (other, one))
    )
    return disjunction(*ways), *days("l_shipdate", datetime.date(1995, 1, 1), 24)


def q8(draw: Draw) -> tuple[Predicate, ...]:
    region = compare(col("cr_name"), "=", draw.one(tuple(REGIONS)))
    kind = compare(col("p_type"), "=", draw.one(TYPES))
    return region, kind, *days(ORDERED, datetime.date(1995, 1, 1), 24)


def q9(draw: Draw) -> tuple[Predicate, ...]:
    return (is_like(col("p_name"), f"%{draw.one(COLOURS)}%"),)


def q10(draw: Draw) -> tuple[Predicate, ...]:
    return compare(col("l_returnflag"), "=", "R"), *days(ORDERED, month_of(draw, "1993-02", 24), 3)


def q14(draw: Draw) -> tuple[Predicate, ...]:
    return days("l_shipdate", month_of(draw, "1993-01", 60), 1)


def q15(draw: Draw) -> tuple[Predicate, ...]:
    return days("l_shipdate", month_of(draw, "1993-01", 58), 3)


def q17(draw: Draw) -> tuple[Predicate, ...]:
    sizes, kinds = ("SM", "MED", "LG", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
    container = f"{draw.one(sizes)} {draw.one(kinds)}"
    return compare(col("p_brand"), "=", draw.one(BRANDS)), one_of(col("p_container"), [container])


TRAINED: tuple[Template, ...] = (q3, q5, q6, q8, q10, q12, q14, q19)
TESTED: tuple[Template, ...] = (q1, q3, q4, q5, q6, q7, q8, q9, q10, q12, q14, q15, q17, q19, q20, q21)


def instances(templates: Sequence[Template], each: int, seed: int) -> list[GsopQuery]:
    """So many queries of each template; only what they filter matters."""
    rng = np.random.default_rng(seed)
    draw, found = Draw(rng), []
    for number in rng.permutation(np.repeat(np.arange(len(templates)), each)):
        predicates = templates[number](draw)
        names = frozenset(column.name for predicate in predicates for column in columns_of(predicate))
        found.append(GsopQuery(templates[number].__name__, predicates, names))
    return found


class FineBlock(Experiment):
    """The view in blocks by the features of a log, month by month."""

    @cached_property
    def mined(self) -> tuple[Feature, ...]:
        options = ExtractOptions(num_features=FEATURES, threshold=max(1, self.folded.total // 80))
        return extract_features(augment(self.folded, options), options).features

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        return self.mined

    def catalog(self, dates: Sequence[str]) -> Catalog:
        """The blocks, with their features and the first and last of these dates in their month."""
        months = self.table[ORDERED].to_numpy().astype("datetime64[M]")
        unions, sizes, ends = [], [], []
        weights = [float(feature.weight) for feature in self.features]
        for month in np.unique(months):
            rows = np.flatnonzero(months == month)
            grouping = partition(reduce_vectors(self.words[rows], len(weights)), weights, self.block)
            unions.append(grouping.unions)
            sizes.append(grouping.sizes)
            ends.append((rows, len(grouping)))
        counts = np.concatenate(sizes)
        zones = {name: self._zones(name, ends, counts) for name in dates}
        known = UnionVectors(
            tuple(self.formulas), np.ascontiguousarray(np.concatenate(unions).T), np.ones(len(counts), np.bool_)
        )
        numbers = np.arange(len(counts), dtype=np.int32)
        return Catalog(numbers, counts, counts, len(counts), (ZoneMaps(zones), known))

    def _zones(self, name: str, ends: Sequence[tuple[Any, int]], counts: Any) -> Any:
        values = self.table[name].cast(pa.int32()).to_numpy()
        lower, upper = (
            pa.array(
                np.repeat([int(end(values[rows])) for rows, _ in ends], [groups for _, groups in ends]), pa.int64()
            )
            for end in (np.min, np.max)
        )
        return column_zones(col(name).type, counts, lower, upper, pa.array(np.zeros(len(counts), np.int64)))


def fineblock(data: FigureData, console: Console) -> dict[str, Any]:
    """Figures 22 and 25: InputCut by template, over queries with other parameters."""
    seed, found = data.args.seed, {}
    for name, trained, tested, dates in (
        ("as in Figure 22", 30, TESTED, (ORDERED,)),
        ("as in Figure 25", 100, TRAINED, DATES),
    ):
        train, test = instances(TRAINED, trained, seed), instances(tested, 10, seed + 1)
        experiment = FineBlock(view(data, (*train, *test)), train, test, data.args.view_blocks)
        found[name] = cuts_by_template(experiment, dates)
        table = Table(title=f"InputCut of SOP on the view, {name}, {found[name].pop('groups'):,} groups")
        for heading in ("query", "least", "quartile", "mean", "quartile", "most"):
            table.add_column(heading, justify="left" if heading == "query" else "right")
        for template, values in found[name].items():
            table.add_row(template, *(f"{value:.1f}" for value in values))
        console.print(table)
    return {"fineblock": found}


def view(data: FigureData, queries: Sequence[GsopQuery]) -> pa.Table:
    """The columns of the denormalized view that queries filter."""
    columns = ", ".join(sorted({*DATES, *(name for query in queries for name in query.columns)}))
    source = make_denorm(data.args.data, data.args.view_sf, "lean") / "*.parquet"
    with duckdb.connect() as connection:
        return connection.execute(f"SELECT {columns} FROM '{source}'").to_arrow_table()


def cuts_by_template(experiment: FineBlock, dates: Sequence[str]) -> dict[str, Any]:
    """The least InputCut of a template's queries, the quartiles with the mean between them, and the most."""
    catalog = experiment.catalog(dates)
    cuts: dict[str, list[float]] = {}
    for query in experiment.test:
        read = int(catalog.rows[kept_blocks(catalog, formula_of(query))].sum())
        cuts.setdefault(query.template, []).append(experiment.rows / max(1, read))
    names = sorted(cuts, key=lambda name: int(name[1:]))
    return {"groups": catalog.blocks, **{name: _spread(cuts[name]) for name in names}}


def _spread(values: Sequence[float]) -> list[float]:
    low, high = np.percentile(values, [25, 75])
    return [round(float(value), 2) for value in (min(values), low, np.mean(values), high, max(values))]
