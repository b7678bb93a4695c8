"""Queries with random parameters over denormalized TPC-H: one table, a row per line item with all its own.

The templates ask what TPC-H's q3, q5, q6, q8, q10, q12, q14 and q19 ask, with the joins already made; parameters come
from the ranges of the specification. Names of nations and regions are ``cn_name`` and ``cr_name`` for the customer's,
``sn_name`` and ``sr_name`` for the supplier's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

NAME = "denorm"
"""What the queries call the table."""
SCHEMA = ", ".join(
    f"{name} {kind}"
    for kind, names in {
        "bigint": "l_orderkey l_partkey l_suppkey o_orderkey o_custkey c_custkey p_partkey s_suppkey ps_partkey "
        "ps_suppkey",
        "int": "l_linenumber o_shippriority c_nationkey s_nationkey p_size ps_availqty cn_regionkey sn_regionkey",
        "decimal(15,2)": "l_quantity l_extendedprice l_discount l_tax o_totalprice c_acctbal p_retailprice s_acctbal "
        "ps_supplycost",
        "string": "l_returnflag l_linestatus l_shipinstruct l_shipmode l_comment o_orderstatus o_orderpriority o_clerk "
        "o_comment c_name c_address c_phone c_mktsegment c_comment p_name p_mfgr p_brand p_type p_container p_comment "
        "s_name s_address s_phone s_comment ps_comment cn_name cr_name sn_name sr_name",
        "date": "l_shipdate l_commitdate l_receiptdate o_orderdate",
    }.items()
    for name in names.split()
)
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
REGIONS = {
    "AFRICA": ("ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"),
    "AMERICA": ("ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"),
    "ASIA": ("INDIA", "INDONESIA", "JAPAN", "CHINA", "VIETNAM"),
    "EUROPE": ("FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"),
    "MIDDLE EAST": ("EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"),
}
TYPES = tuple(
    f"{first} {second} {third}"
    for first in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
    for second in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
    for third in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
)
BRANDS = tuple(f"Brand#{first}{second}" for first in range(1, 6) for second in range(1, 6))


@dataclass(frozen=True)
class Draw:
    """Where parameters come from: uniform, or by Zipf's law with an exponent; dates are uniform always."""

    rng: np.random.Generator
    zipf: float | None = None

    def number(self, low: int, high: int) -> int:
        """A whole number between two, both included."""
        if self.zipf is None:
            return int(self.rng.integers(low, high + 1))
        while True:
            rank = int(self.rng.zipf(self.zipf))
            if rank <= high - low + 1:
                return low + rank - 1

    def one(self, values: Sequence[str]) -> str:
        return values[self.number(0, len(values) - 1)]

    def two(self, values: Sequence[str]) -> tuple[str, str]:
        """Two different values."""
        first = self.one(values)
        return first, self.one([value for value in values if value != first])

    def day(self, first: str, days: int) -> str:
        return str(np.datetime64(first) + int(self.rng.integers(0, days)))

    def month(self, first: str, months: int) -> str:
        return f"{np.datetime64(first, 'M') + int(self.rng.integers(0, months))}-01"


def q3(draw: Draw) -> str:
    day = draw.day("1995-03-01", 31)
    return f"""SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM denorm
WHERE c_mktsegment = '{draw.one(SEGMENTS)}' AND o_orderdate < DATE '{day}' AND l_shipdate > DATE '{day}'
GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10"""


def q5(draw: Draw) -> str:
    year = draw.rng.integers(1993, 1998)
    return f"""SELECT sn_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM denorm
WHERE c_nationkey = s_nationkey AND sr_name = '{draw.one(tuple(REGIONS))}'
  AND o_orderdate >= DATE '{year}-01-01' AND o_orderdate < DATE '{year}-01-01' + INTERVAL 1 YEAR
GROUP BY sn_name ORDER BY revenue DESC"""


def q6(draw: Draw) -> str:
    year, discount = draw.rng.integers(1993, 1998), draw.number(2, 9)
    return f"""SELECT sum(l_extendedprice * l_discount) AS revenue
FROM denorm
WHERE l_shipdate >= DATE '{year}-01-01' AND l_shipdate < DATE '{year}-01-01' + INTERVAL 1 YEAR
  AND l_discount BETWEEN 0.0{discount} - 0.01 AND 0.0{discount} + 0.01 AND l_quantity < {draw.number(24, 25)}"""


def q8(draw: Draw) -> str:
    region = draw.one(tuple(REGIONS))
    nation = draw.one(REGIONS[region])
    return f"""SELECT year(o_orderdate) AS o_year,
  sum(CASE WHEN sn_name = '{nation}' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
    / sum(l_extendedprice * (1 - l_discount)) AS mkt_share
FROM denorm
WHERE cr_name = '{region}' AND p_type = '{draw.one(TYPES)}'
  AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
GROUP BY year(o_orderdate) ORDER BY o_year"""


def q10(draw: Draw) -> str:
    month = draw.month("1993-02", 24)
    return f"""SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, cn_name
FROM denorm
WHERE o_orderdate >= DATE '{month}' AND o_orderdate < DATE '{month}' + INTERVAL 3 MONTH AND l_returnflag = 'R'
GROUP BY c_custkey, c_name, c_acctbal, cn_name ORDER BY revenue DESC LIMIT 20"""


def q12(draw: Draw) -> str:
    year = draw.rng.integers(1993, 1998)
    first, second = draw.two(MODES)
    return f"""SELECT l_shipmode,
  sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high_line_count,
  sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low_line_count
FROM denorm
WHERE l_shipmode IN ('{first}', '{second}') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
  AND l_receiptdate >= DATE '{year}-01-01' AND l_receiptdate < DATE '{year}-01-01' + INTERVAL 1 YEAR
GROUP BY l_shipmode ORDER BY l_shipmode"""


def q14(draw: Draw) -> str:
    month = draw.month("1993-01", 60)
    return f"""SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
    / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM denorm
WHERE l_shipdate >= DATE '{month}' AND l_shipdate < DATE '{month}' + INTERVAL 1 MONTH"""


def q19(draw: Draw) -> str:
    ways = (
        ("'SM CASE', 'SM BOX', 'SM PACK', 'SM PKG'", draw.number(1, 10), 5),
        ("'MED BAG', 'MED BOX', 'MED PKG', 'MED PACK'", draw.number(10, 20), 10),
        ("'LG CASE', 'LG BOX', 'LG PACK', 'LG PKG'", draw.number(20, 30), 15),
    )
    either = "\n  OR ".join(
        f"(p_brand = '{draw.one(BRANDS)}' AND p_container IN ({containers}) AND l_quantity >= {low} "
        f"AND l_quantity <= {low + 10} AND p_size BETWEEN 1 AND {size} AND l_shipmode IN ('AIR', 'REG AIR') "
        "AND l_shipinstruct = 'DELIVER IN PERSON')"
        for containers, low, size in ways
    )
    return f"SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM denorm WHERE {either}"


TEMPLATES: tuple[Callable[[Draw], str], ...] = (q3, q5, q6, q8, q10, q12, q14, q19)


def random_instances(count: int, seed: int = 0, zipf: float | None = None) -> list[tuple[str, str]]:
    """So many queries with the names of their templates: each equally often (but for the last few), in random order."""
    rng = np.random.default_rng(seed)
    draw = Draw(rng, zipf)
    order = rng.permutation(np.arange(count) % len(TEMPLATES))
    return [(TEMPLATES[number].__name__, TEMPLATES[number](draw)) for number in order]


def random_queries(count: int, seed: int = 0, zipf: float | None = None) -> list[str]:
    """The texts of :func:`random_instances`."""
    return [text for _, text in random_instances(count, seed, zipf)]
