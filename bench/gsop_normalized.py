"""The ten templates on TPC-H's own tables: each query joins the tables whose columns it reads, and no others.

Queries on dimensions alone read no line items, so they count something else than on the denormalized table.
"""

from __future__ import annotations

from bench.gsop_queries import GsopQuery, whole_sql

_TABLES = {
    "l": "lineitem",
    "ps": "partsupp",
    "o": "orders",
    "c": "customer",
    "p": "part",
    "s": "supplier",
    "sn": "(SELECT n_nationkey AS sn_key, n_name AS sn_name, n_regionkey AS sn_regionkey FROM nation)",
    "cn": "(SELECT n_nationkey AS cn_key, n_name AS cn_name, n_regionkey AS cn_regionkey FROM nation)",
    "sr": "(SELECT r_regionkey AS sr_key, r_name AS sr_name FROM region)",
    "cr": "(SELECT r_regionkey AS cr_key, r_name AS cr_name FROM region)",
}
_JOINS = (
    ("l", "ps", "l_partkey = ps_partkey AND l_suppkey = ps_suppkey"),
    ("l", "o", "l_orderkey = o_orderkey"),
    ("o", "c", "o_custkey = c_custkey"),
    ("l", "p", "l_partkey = p_partkey"),
    ("l", "s", "l_suppkey = s_suppkey"),
    ("ps", "p", "ps_partkey = p_partkey"),
    ("ps", "s", "ps_suppkey = s_suppkey"),
    ("s", "sn", "s_nationkey = sn_key"),
    ("c", "cn", "c_nationkey = cn_key"),
    ("sn", "sr", "sn_regionkey = sr_key"),
    ("cn", "cr", "cn_regionkey = cr_key"),
)
_ABOVE = {"sr": "sn", "sn": "s", "cr": "cn", "cn": "c"}


def normalized_from(columns: frozenset[str]) -> str:
    """The tables that hold some columns, joined.

    >>> normalized_from(frozenset({"c_phone"}))
    'customer c'
    >>> normalized_from(frozenset({"p_size", "ps_suppkey"}))
    'partsupp ps JOIN part p ON ps_partkey = p_partkey'
    """
    needed = {name.partition("_")[0] for name in columns}
    for below in ("sr", "sn", "cr", "cn"):
        needed |= {_ABOVE[below]} if below in needed else set()
    if "l" not in needed and {"p", "s"} <= needed:
        needed.add("ps")
    if "l" in needed and "c" in needed:
        needed.add("o")
    first = next(table for table in _TABLES if table in needed)
    text, joined = f"{_TABLES[first]} {first}", {first}
    while joined < needed:
        right, condition = next(
            join[1:] for join in _JOINS if join[0] in joined and join[1] in needed and join[1] not in joined
        )
        text += f" JOIN {_TABLES[right]} {right} ON {condition}"
        joined.add(right)
    return text


def normalized_sql(query: GsopQuery) -> str:
    """The query on TPC-H's tables, with one row as its answer."""
    columns = ", ".join(sorted(query.columns))
    where = " AND ".join(f"({whole_sql(one)})" for one in query.predicates)
    return (
        f"SELECT count(*), sum(CAST(xxhash64({columns}) AS DECIMAL(38, 0))) FROM {normalized_from(query.columns)} "
        f"WHERE {where}"
    )
