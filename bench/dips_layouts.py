"""The orders that tables are put in for ``bench dips``: the diPs paper's tuned layouts, and ones by random columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.dips_tables import BlockTable, Order
from bench.tpcds import DATE_OF, KEY_OF

CLUSTERS = 8
"""Hash clusters of dates in TPC-H's tuned layout (13.1), which does not say how many. Each is in order of its key.

It decides the figures, and was chosen by them: on data of runs (Zipf 1, two seeds, an earlier set of passes) the median
InputCut was 12 and 13 with 8 clusters, 4.6 and 3.4 with 40, 2.3 and 1.6 with 250. Many clusters of few dates serve
predicates on dates, but spread each over all orders of four months, so that little follows for other tables."""

TPCH_BLOCKS = {
    "lineitem": 1.0,
    "orders": 0.5,
    "partsupp": 0.5,
    "part": 0.25,
    "customer": 0.25,
    "supplier": 0.1,
    "nation": 0.025,
    "region": 0.005,
}
"""Blocks of a table, by those of lineitem. Small tables have small blocks: what they induce is the narrower for it."""

TPCH_KEYS: Mapping[str, str] = {
    "partsupp": "ps_partkey",
    "part": "p_partkey",
    "customer": "c_custkey",
    "supplier": "s_suppkey",
    "nation": "n_nationkey",
    "region": "r_regionkey",
}


def tpch_blocks(blocks: int) -> dict[str, int]:
    """So many in lineitem, and others by :data:`TPCH_BLOCKS`."""
    return {name: max(1, round(share * blocks)) for name, share in TPCH_BLOCKS.items()}


def tuned_tpch(tables: Mapping[str, pa.Table], blocks: Mapping[str, int]) -> dict[str, BlockTable]:
    """Lines and orders clustered by the hash of their date, each cluster by order key; others by their key (13.1)."""
    found = {name: by_column(tables[name], key) for name, key in TPCH_KEYS.items()}
    for name, date, key in (("lineitem", "l_shipdate", "l_orderkey"), ("orders", "o_orderdate", "o_orderkey")):
        cluster = mixed(tables[name][date].cast(pa.int32()).to_numpy()) % np.uint64(CLUSTERS)
        found[name] = np.lexsort((tables[name][key].to_numpy(), cluster))
    return cut(tables, found, blocks)


def tuned_tpcds(tables: Mapping[str, pa.Table], blocks: Mapping[str, int]) -> dict[str, BlockTable]:
    """Facts clustered by their date, dimensions by their key (13.2; see ``bench.tpcds_layout``)."""
    orders = {name: by_column(table, DATE_OF.get(name) or KEY_OF[name]) for name, table in tables.items()}
    return cut(tables, orders, blocks)


def tpcds_blocks(tables: Mapping[str, pa.Table], blocks: int) -> dict[str, int]:
    """Facts have blocks in proportion to store_sales; dimensions small ones, and no more than it."""
    sold = len(tables["store_sales"])
    return {
        name: min(blocks, max(2, round(blocks * len(table) / sold)) if name in DATE_OF else max(1, len(table) // 64))
        for name, table in tables.items()
    }


def job_blocks(tables: Mapping[str, pa.Table], most: int = 200) -> dict[str, int]:
    """About 200 in the largest table, as in the paper (Table 6); the few rows of a small one are a block each."""
    largest = max(len(table) for table in tables.values())
    return {
        name: len(table) if len(table) <= most else max(1, round(most * len(table) / largest))
        for name, table in tables.items()
    }


def by_keys(tables: Mapping[str, pa.Table], blocks: Mapping[str, int]) -> dict[str, BlockTable]:
    """Every table in the order of its first column."""
    return cut(tables, {name: by_column(table, table.column_names[0]) for name, table in tables.items()}, blocks)


def random_tables(tables: Mapping[str, pa.Table], blocks: Mapping[str, int], seed: int) -> dict[str, BlockTable]:
    """Every table in the order of one of its columns."""
    chosen = random_columns(tables, seed)
    return cut(tables, {name: by_column(table, chosen[name]) for name, table in tables.items()}, blocks)


def random_columns(tables: Mapping[str, pa.Table], seed: int) -> dict[str, str]:
    """A column of each table; free text, which no one sorts by, aside."""
    rng = np.random.default_rng(seed)
    return {
        name: str(rng.choice([column for column in table.column_names if not column.endswith("_comment")]))
        for name, table in tables.items()
    }


def by_column(table: pa.Table, column: str) -> Order:
    """The positions of the rows in the order of a column; rows with equal values stay as they were."""
    order: Order = pc.sort_indices(table, [(column, "ascending")]).to_numpy().astype(np.int64)
    return order


def mixed(values: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """A hash that mixes well: neighbours go anywhere."""
    bits = values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.asarray(bits ^ (bits >> np.uint64(32)))


def cut(
    tables: Mapping[str, pa.Table], orders: Mapping[str, Order], blocks: Mapping[str, int]
) -> dict[str, BlockTable]:
    return {name: BlockTable(tables[name], orders[name], max(1, blocks[name])) for name in tables}
