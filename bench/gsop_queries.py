"""The templates of the thesis on denormalized TPC-H, as predicates and the columns that they read.

Those of 4.7.2 are q3, q5, q6, q11, q12, q16, q19, q20, q21 and q22, which read 7, 7, 4, 4, 5, 4, 8, 3, 5 and 2 columns;
those of 5.7.1 are these and q2, q7, q8 and q17, which read 11, 5, 6 and 3, as in the thesis. Parameters come from the
ranges of the specification. What the thesis leaves open: q2 and q17 are without their subqueries, q16 without its
exclusion of suppliers, q20 asks for the parts of a colour in a nation, q21 without its subqueries, and q22's country
codes are prefixes of the phone number. Predicates are made directly, so that no query needs a parser or Spark.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from bench.denorm import BRANDS, MODES, REGIONS, SEGMENTS, TYPES, Draw
from bench.denorm_data import columns
from sidestep.predicate import (
    And,
    Column,
    Comparison,
    In,
    Not,
    Op,
    Or,
    Predicate,
    between,
    column,
    compare,
    conjunction,
    disjunction,
    is_like,
    negation,
    one_of,
    sql,
)
from sidestep.predicate.columns import columns_of
from sidestep.predicate.types import parse_type
from sidestep.workload import LoggedQuery, TableUse, Workload

NATIONS = tuple(nation for nations in REGIONS.values() for nation in nations)
_WORDS = """
almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse chiffon
chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest frosted gainsboro
ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon
medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach peru pink plum powder
puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow spring steel tan thistle
tomato turquoise violet wheat white yellow
"""
COLOURS = tuple(_WORDS.split())
CONTAINERS = ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")


@dataclass(frozen=True, slots=True)
class GsopQuery:
    """A query of a template."""

    template: str
    predicates: tuple[Predicate, ...]
    columns: frozenset[str]

    @property
    def sql(self) -> str:
        """The same as a statement that reads these columns and no others."""
        wanted, where = ", ".join(sorted(self.columns)), " AND ".join(f"({whole_sql(one)})" for one in self.predicates)
        return f"SELECT {wanted} FROM denorm WHERE {where}"


def whole_sql(predicate: Predicate) -> str:
    """The predicate as text that can be run: long lists are shown in part, so they become comparisons."""
    return sql(_without_lists(predicate))


def _without_lists(predicate: Predicate) -> Predicate:
    match predicate:
        case And(children=children):
            return And(tuple(map(_without_lists, children)))
        case Or(children=children):
            return Or(tuple(map(_without_lists, children)))
        case Not(child=child):
            return Not(_without_lists(child))
        case In(operand=operand, values=values):
            return Or(tuple(Comparison(Op.EQ, operand, value) for value in values))
    return predicate


def workload_of(queries: list[GsopQuery]) -> Workload:
    """The queries as a log."""
    return Workload(
        tuple(LoggedQuery((TableUse("denorm", frozenset(q.predicates), q.columns),), sql=q.sql) for q in queries)
    )


_TYPES = {name: parse_type(kind) for name, kind in columns().items()}


def col(name: str) -> Column:
    """A column of the table."""
    return column(name, _TYPES[name])


def year_of(name: str, year: int) -> tuple[Predicate, Predicate]:
    """The days of a year."""
    first, next_first = datetime.date(year, 1, 1), datetime.date(year + 1, 1, 1)
    return compare(col(name), ">=", first), compare(col(name), "<", next_first)


def q2(draw: Draw) -> tuple[Predicate, ...]:
    metal = is_like(col("p_type"), "%" + draw.one(TYPES).rpartition(" ")[2])
    size = compare(col("p_size"), "=", draw.number(1, 50))
    return size, metal, compare(col("sr_name"), "=", draw.one(tuple(REGIONS)))


def q3(draw: Draw) -> tuple[Predicate, ...]:
    day = datetime.date.fromisoformat(draw.day("1995-03-01", 31))
    segment = compare(col("c_mktsegment"), "=", draw.one(SEGMENTS))
    return segment, compare(col("o_orderdate"), "<", day), compare(col("l_shipdate"), ">", day)


def q5(draw: Draw) -> tuple[Predicate, ...]:
    region = compare(col("sr_name"), "=", draw.one(tuple(REGIONS)))
    near = compare(col("c_nationkey"), "=", col("s_nationkey"))
    return near, region, *year_of("o_orderdate", int(draw.rng.integers(1993, 1998)))


def q6(draw: Draw) -> tuple[Predicate, ...]:
    discount = draw.number(2, 9)
    around = between(col("l_discount"), (discount - 1) / 100, (discount + 1) / 100)
    few = compare(col("l_quantity"), "<", draw.number(24, 25))
    return *year_of("l_shipdate", int(draw.rng.integers(1993, 1998))), around, few


def q7(draw: Draw) -> tuple[Predicate, ...]:
    one, other = draw.two(NATIONS)
    ways = [
        conjunction(compare(col("sn_name"), "=", first), compare(col("cn_name"), "=", second))
        for first, second in ((one, other), (other, one))
    ]
    return disjunction(*ways), between(col("l_shipdate"), datetime.date(1995, 1, 1), datetime.date(1996, 12, 31))


def q8(draw: Draw) -> tuple[Predicate, ...]:
    region = compare(col("cr_name"), "=", draw.one(tuple(REGIONS)))
    years = between(col("o_orderdate"), datetime.date(1995, 1, 1), datetime.date(1996, 12, 31))
    return region, years, compare(col("p_type"), "=", draw.one(TYPES))


def q11(draw: Draw) -> tuple[Predicate, ...]:
    return (compare(col("sn_name"), "=", draw.one(NATIONS)),)


def q12(draw: Draw) -> tuple[Predicate, ...]:
    late = compare(col("l_commitdate"), "<", col("l_receiptdate"))
    in_time = compare(col("l_shipdate"), "<", col("l_commitdate"))
    year = year_of("l_receiptdate", int(draw.rng.integers(1993, 1998)))
    return one_of(col("l_shipmode"), draw.two(MODES)), late, in_time, *year


def q16(draw: Draw) -> tuple[Predicate, ...]:
    sizes = draw.rng.choice(np.arange(1, 51), 8, replace=False)
    other_brand = compare(col("p_brand"), "<>", draw.one(BRANDS))
    other_type = negation(is_like(col("p_type"), draw.one(TYPES).rpartition(" ")[0] + "%"))
    return other_brand, other_type, one_of(col("p_size"), sorted(int(size) for size in sizes))


def q17(draw: Draw) -> tuple[Predicate, ...]:
    kind = f"{draw.one(('SM', 'LG', 'MED', 'JUMBO', 'WRAP'))} {draw.one(CONTAINERS)}"
    return compare(col("p_brand"), "=", draw.one(BRANDS)), compare(col("p_container"), "=", kind)


def q19(draw: Draw) -> tuple[Predicate, ...]:
    ways = []
    for size, least, most in (("SM", draw.number(1, 10), 5), ("MED", draw.number(10, 20), 10), ("LG", 20, 15)):
        low = draw.number(20, 30) if size == "LG" else least
        kinds = ("BAG", "BOX", "PKG", "PACK") if size == "MED" else ("CASE", "BOX", "PACK", "PKG")
        ways.append(
            conjunction(
                compare(col("p_brand"), "=", draw.one(BRANDS)),
                one_of(col("p_container"), [f"{size} {kind}" for kind in kinds]),
                between(col("l_quantity"), low, low + 10),
                between(col("p_size"), 1, most),
                one_of(col("l_shipmode"), ["AIR", "REG AIR"]),
                compare(col("l_shipinstruct"), "=", "DELIVER IN PERSON"),
            )
        )
    return (disjunction(*ways),)


def q20(draw: Draw) -> tuple[Predicate, ...]:
    return is_like(col("p_name"), f"{draw.one(COLOURS)}%"), compare(col("sn_name"), "=", draw.one(NATIONS))


def q21(draw: Draw) -> tuple[Predicate, ...]:
    late = compare(col("l_commitdate"), "<", col("l_receiptdate"))
    return compare(col("o_orderstatus"), "=", "F"), late, compare(col("sn_name"), "=", draw.one(NATIONS))


def q22(draw: Draw) -> tuple[Predicate, ...]:
    codes = draw.rng.choice(np.arange(10, 35), 7, replace=False)
    prefix = disjunction(*(is_like(col("c_phone"), f"{code}-%") for code in sorted(codes)))
    return prefix, compare(col("c_acctbal"), ">", 0)


Template = Callable[[Draw], tuple[Predicate, ...]]
TEMPLATES: dict[Template, str] = {
    q3: "l_orderkey l_extendedprice l_discount o_shippriority",
    q5: "sn_name l_extendedprice l_discount",
    q6: "l_extendedprice",
    q11: "ps_partkey ps_supplycost ps_availqty",
    q12: "o_orderpriority",
    q16: "ps_suppkey",
    q19: "l_extendedprice l_discount",
    q20: "s_name",
    q21: "s_name",
    q22: "",
}
"""Each template of 4.7.2, and the columns that it reads beside those that it filters."""
SELECTIVE: dict[Template, str] = {
    q2: "s_acctbal s_name sn_name p_partkey p_mfgr s_address s_phone s_comment",
    q7: "l_extendedprice l_discount",
    q8: "sn_name l_extendedprice l_discount",
    q17: "l_extendedprice",
    **TEMPLATES,
}
"""The same for the fourteen templates of 5.7.1."""


def random_queries(count: int, seed: int, templates: Mapping[Template, str] = TEMPLATES) -> Iterator[GsopQuery]:
    """So many queries, each template as often as the others (but for the last few), in random order."""
    rng = np.random.default_rng(seed)
    draw, each = Draw(rng), list(templates)
    for number in rng.permutation(np.arange(count) % len(each)):
        template = each[number]
        predicates = template(draw)
        filtered = {name.name for predicate in predicates for name in columns_of(predicate)}
        yield GsopQuery(template.__name__, predicates, frozenset(filtered | set(templates[template].split())))
