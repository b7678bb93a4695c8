"""Queries to test with: short ways to write them, and TPC-H's templates over one denormalized table."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable

from sidestep.predicate import (
    DATE,
    INTEGER,
    STRING,
    Column,
    Predicate,
    between,
    column,
    compare,
    conjunction,
    decimal_type,
    disjunction,
    is_like,
    one_of,
)
from sidestep.workload import (
    ExtractOptions,
    FeatureSet,
    LoggedQuery,
    Miner,
    TableUse,
    Workload,
    augment,
    closed_sets,
    extract_features,
    table_workload,
)

MONEY = decimal_type(15, 2)


def query(
    *predicates: Predicate, count: int = 1, table: str = "sales", sql: str = "", time: float | None = None
) -> LoggedQuery:
    """A query that reads one table with these conjuncts."""
    return LoggedQuery((TableUse(table, frozenset(predicates)),), sql=sql, count=count, time=time)


def workload(*queries: LoggedQuery) -> Workload:
    return Workload(queries)


def extract(log: Workload, table: str, options: ExtractOptions | None = None, miner: Miner = closed_sets) -> FeatureSet:
    """The features of a table, by the steps that an analysis takes."""
    return extract_features(augment(table_workload(log, table), options), options, miner)


def _columns(type: object, *names: str) -> dict[str, Column]:
    return {name: column(name, type) for name in names}  # type: ignore[arg-type]


TPCH = {
    **_columns(DATE, "o_orderdate", "l_shipdate", "l_commitdate", "l_receiptdate"),
    **_columns(STRING, "c_mktsegment", "r_name", "p_type", "l_returnflag", "l_shipmode", "p_brand", "p_container"),
    **_columns(STRING, "l_shipinstruct"),
    **_columns(MONEY, "l_discount", "l_quantity"),
    **_columns(INTEGER, "p_size"),
}
REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
CONTAINERS = tuple(
    tuple(f"{size} {kind}" for kind in kinds)
    for size, kinds in (
        ("SM", ("CASE", "BOX", "PACK", "PKG")),
        ("MED", ("BAG", "BOX", "PKG", "PACK")),
        ("LG", ("CASE", "BOX", "PACK", "PKG")),
    )
)


def _is(name: str, op: str, value: object) -> Predicate:
    return compare(TPCH[name], op, value)


def _within_a_year(name: str, year: int) -> list[Predicate]:
    first, next = datetime.date(year, 1, 1), datetime.date(year + 1, 1, 1)
    return [_is(name, ">=", first), _is(name, "<", next)]


def tpch_filter(template: int, draw: random.Random) -> list[Predicate]:
    """The conjuncts of one TPC-H query with random parameters, as the thesis has it (3.7.2)."""
    year = draw.randint(1993, 1997)
    match template:
        case 3:
            day = datetime.date(1995, 3, draw.randint(1, 31))
            return [
                _is("c_mktsegment", "=", draw.choice(SEGMENTS)),
                _is("o_orderdate", "<", day),
                _is("l_shipdate", ">", day),
            ]
        case 5:
            return [_is("r_name", "=", draw.choice(REGIONS)), *_within_a_year("o_orderdate", year)]
        case 6:
            discount = draw.randint(2, 9)
            return [
                *_within_a_year("l_shipdate", year),
                between(TPCH["l_discount"], (discount - 1) / 100, (discount + 1) / 100),
                _is("l_quantity", "<", draw.choice((24, 25))),
            ]
        case 8:
            kind = f"{draw.choice('ABCDEF')} {draw.choice('GHIJK')} {draw.choice('LMNOP')}"
            return [
                _is("r_name", "=", draw.choice(REGIONS)),
                _is("p_type", "=", kind),
                between(TPCH["o_orderdate"], datetime.date(1995, 1, 1), datetime.date(1996, 12, 31)),
            ]
        case 10:
            return [
                _is("o_orderdate", ">=", datetime.date(year, draw.randint(1, 12), 1)),
                _is("l_returnflag", "=", "R"),
            ]
        case 12:
            return [
                one_of(TPCH["l_shipmode"], draw.sample(MODES, 2)),
                _is("l_commitdate", "<", TPCH["l_receiptdate"]),
                _is("l_shipdate", "<", TPCH["l_commitdate"]),
                *_within_a_year("l_receiptdate", year),
            ]
        case 14:
            shipped = _is("l_shipdate", ">=", datetime.date(year, draw.randint(1, 12), 1))
            return [shipped, is_like(TPCH["p_type"], "PROMO%")]
    branches = []
    for containers, (low, high), size in zip(CONTAINERS, ((1, 10), (10, 20), (20, 30)), (5, 10, 15), strict=True):
        quantity = draw.randint(low, high)
        branches.append(
            conjunction(
                _is("p_brand", "=", f"Brand#{draw.randint(1, 5)}{draw.randint(1, 5)}"),
                one_of(TPCH["p_container"], containers),
                between(TPCH["l_quantity"], quantity, quantity + 10),
                between(TPCH["p_size"], 1, size),
                one_of(TPCH["l_shipmode"], ["AIR", "AIR REG"]),
                _is("l_shipinstruct", "=", "DELIVER IN PERSON"),
            )
        )
    return [disjunction(*branches)]


def tpch(count: int, seed: int = 1, templates: Iterable[int] = (3, 5, 6, 8, 10, 12, 14, 19)) -> Workload:
    """A workload of so many queries, the templates in turn."""
    draw = random.Random(seed)
    listed = tuple(templates)
    queries = []
    for number in range(count):
        template = listed[number % len(listed)]
        found = tpch_filter(template, draw)
        queries.append(query(*found, table="denormalized", sql=f"q{template}", time=float(number)))
    return Workload(tuple(queries))
