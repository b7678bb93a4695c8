"""TPC-H with skew: the generator's tables with their columns drawn anew from the same values.

Keys and all references stay whole: an order has a customer, a line its part and one of that part's suppliers, and
dates, flags and phone numbers agree with what they depend on. In data of runs the columns differ in how often they
pass through their values, so that conditions on several columns still meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.skew import Array, Skew, skewed
from bench.tpcds_layout import plain_strings
from bench.tpch import TABLES

PASSES: Mapping[str, int] = {
    "p_brand": 1,
    "p_container": 40,
    "p_type": 10,
    "p_size": 20,
    "p_name": 8,
    "s_nationkey": 2,
    "s_acctbal": 4,
    "c_nationkey": 2,
    "c_mktsegment": 8,
    "c_acctbal": 4,
    "ps_suppkey": 2,
    "ps_supplycost": 4,
    "ps_availqty": 4,
    "o_custkey": 8,
    "o_orderdate": 1,
    "o_orderpriority": 50,
    "l_partkey": 3,
    "l_quantity": 200,
    "l_discount": 100,
    "l_tax": 50,
    "l_shipmode": 150,
    "l_shipinstruct": 60,
}
"""How often a column goes through its values along its table's key. Dates go once: orders come in the order of time.

The third set that was tried: fewer passes cut more (a median of about 20), but leave more queries without a result."""

CURRENT = np.datetime64("1995-06-17")
"""The day on which, by the specification, the orders are looked at."""


def tpch_tables(folder: Path) -> dict[str, pa.Table]:
    """The tables that ``make_tpch`` wrote, each in the order of its key."""
    return {name: _whole(folder / name) for name in TABLES}


def _whole(folder: Path) -> pa.Table:
    files = sorted(folder.glob("*.parquet"), key=lambda path: int(path.stem.rsplit(".", 1)[-1]))
    return plain_strings(pa.concat_tables([pq.read_table(file) for file in files]).combine_chunks())


def skewed_tpch(tables: Mapping[str, pa.Table], skew: Skew, seed: int) -> dict[str, pa.Table]:
    """The tables with all columns that queries filter or join by drawn anew; uniform ones are left as they are."""
    if skew.kind == "uniform":
        return dict(tables)
    rng = np.random.default_rng(seed)
    made = dict(tables)

    def draw(table: str, *columns: str) -> None:
        for column in columns:
            made[table] = _set(made[table], column, _drawn(tables[table][column], skew, PASSES[column], rng))

    draw("part", "p_brand", "p_container", "p_type", "p_size", "p_name")
    draw("supplier", "s_nationkey", "s_acctbal")
    draw("customer", "c_nationkey", "c_mktsegment", "c_acctbal")
    draw("partsupp", "ps_supplycost", "ps_availqty")
    draw("orders", "o_orderpriority")
    draw("lineitem", "l_quantity", "l_discount", "l_tax", "l_shipmode", "l_shipinstruct")
    made["part"] = _set(made["part"], "p_mfgr", _mfgr(made["part"]["p_brand"]))
    made["customer"] = _set(made["customer"], "c_phone", _phones(made["customer"]))
    made["partsupp"] = _set(made["partsupp"], "ps_suppkey", _suppliers(tables, skew, rng))
    made["orders"] = _set(made["orders"], "o_custkey", _customers(tables, skew, rng))
    parts = _drawn(tables["part"]["p_partkey"], skew, PASSES["l_partkey"], rng, len(tables["lineitem"]))
    made["lineitem"] = _set(made["lineitem"], "l_partkey", parts)
    made["lineitem"] = _set(made["lineitem"], "l_suppkey", _supplier_of(made["partsupp"], parts, rng))
    return _dated(made, skew, rng)


def _drawn(column: pa.ChunkedArray, skew: Skew, passes: int, rng: np.random.Generator, rows: int | None = None) -> Any:
    """Values of a column drawn anew, as an Arrow array of its type."""
    domain = pc.sort_indices(distinct := column.unique())
    count = len(column) if rows is None else rows
    return distinct.take(domain).take(pa.array(skewed(skew, np.arange(len(distinct)), count, passes, rng)))


def _set(table: pa.Table, column: str, values: Any) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), pa.array(values).cast(table.schema.field(at).type))


def _mfgr(brands: pa.ChunkedArray) -> Any:
    """The manufacturer is the first digit of its brands' numbers."""
    return pc.binary_join_element_wise("Manufacturer#", pc.utf8_slice_codeunits(brands, 6, 7), "")


def _phones(customers: pa.Table) -> Any:
    """The country code of a phone number is the nation's number and 10."""
    codes = pc.cast(pc.add(customers["c_nationkey"], 10), pa.string())
    return pc.binary_join_element_wise(codes, pc.utf8_slice_codeunits(customers["c_phone"], 2), "")


def _suppliers(tables: Mapping[str, pa.Table], skew: Skew, rng: np.random.Generator) -> Array:
    """Four suppliers for each part: four that follow each other, from a first one that is drawn."""
    suppliers, parts = len(tables["supplier"]), len(tables["part"])
    first = skewed(skew, np.arange(suppliers), parts, PASSES["ps_suppkey"], rng)
    return ((first[:, None] + np.arange(4)[None, :]) % suppliers + 1).ravel()


def _supplier_of(partsupp: pa.Table, parts: Any, rng: np.random.Generator) -> Array:
    """One of the four suppliers of each line's part."""
    four = partsupp["ps_suppkey"].to_numpy().reshape(-1, 4)
    keys = np.asarray(parts, dtype=np.int64) - 1
    chosen: Array = four[keys, rng.integers(0, 4, len(keys))]
    return chosen


def _customers(tables: Mapping[str, pa.Table], skew: Skew, rng: np.random.Generator) -> Array:
    """By the specification every third customer has no order."""
    buyers = tables["orders"]["o_custkey"].unique().to_numpy()
    return skewed(skew, np.sort(buyers), len(tables["orders"]), PASSES["o_custkey"], rng)


def _dated(tables: dict[str, pa.Table], skew: Skew, rng: np.random.Generator) -> dict[str, pa.Table]:
    """New dates of orders; those of their lines keep their distance, and flags follow."""
    orders, lines = tables["orders"], tables["lineitem"]
    old = orders["o_orderdate"].to_numpy()
    new = skewed(skew, np.unique(old), len(old), PASSES["o_orderdate"], rng)
    place = np.searchsorted(orders["o_orderkey"].to_numpy(), lines["l_orderkey"].to_numpy())
    moved = (new - old)[place]
    dates = {name: lines[name].to_numpy() + moved for name in ("l_shipdate", "l_commitdate", "l_receiptdate")}
    shipped = dates["l_shipdate"] <= CURRENT
    returned = np.where(rng.random(len(lines)) < 0.5, "R", "A")
    flags = np.where(dates["l_receiptdate"] <= CURRENT, returned, "N")
    open_lines = np.bincount(place, ~shipped, len(orders))
    status = np.where(open_lines == 0, "F", np.where(open_lines == np.bincount(place, None, len(orders)), "O", "P"))
    for name, values in (*dates.items(), ("l_returnflag", flags), ("l_linestatus", np.where(shipped, "F", "O"))):
        lines = _set(lines, name, values)
    orders = _set(_set(orders, "o_orderdate", new), "o_orderstatus", status)
    return {**tables, "orders": orders, "lineitem": lines}
