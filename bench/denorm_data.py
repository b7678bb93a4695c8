"""Denormalized TPC-H as a folder of Parquet files: a row per line item, with its order, customer, part and supplier.

Rows are in the order of ``l_orderkey``, which is how the generator emits them: the natural order that other layouts are
compared with.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from bench.denorm import SCHEMA, TEMPLATES, random_queries
from bench.tpch import DATA, make_tpch
from bench.whole_folder import whole_folder
from sidestep.errors import SidestepError

FILES = 16
Width = Literal["wide", "lean", "narrow"]
_WORDY = re.compile(r"\w+_(comment|address)")
_NAMES = {"cn_name": "cn.n_name", "cr_name": "cr.r_name", "sn_name": "sn.n_name", "sr_name": "sr.r_name"}
_KEYS = {"cn_regionkey": "cn.n_regionkey", "sn_regionkey": "sn.n_regionkey"}


def columns(width: Width = "wide") -> dict[str, str]:
    """The table's columns with their types.

    ``wide`` is all of them, ``lean`` leaves out free text (comments, addresses), ``narrow`` what no template names.

    >>> [len(columns(width)) for width in ("wide", "lean", "narrow")]
    [60, 52, 27]
    """
    pairs = (re.match(r"(\w+) (.*)", part) for part in re.split(r", (?=\w)", SCHEMA))
    found = {pair[1]: pair[2] for pair in pairs if pair is not None}
    if width == "wide":
        return found
    if width == "lean":
        return {name: kind for name, kind in found.items() if not _WORDY.fullmatch(name)}
    named = set().union(*(columns_in(text) for text in random_queries(len(TEMPLATES))))
    return {name: kind for name, kind in found.items() if name in named}


def columns_in(text: str) -> set[str]:
    """The columns of the table that a query names.

    >>> sorted(columns_in("SELECT sum(l_tax) AS tax FROM denorm WHERE l_quantity < 24"))
    ['l_quantity', 'l_tax']
    """
    return set(re.findall(r"\w+", text)) & columns().keys()


def make_denorm(folder: Path | str = DATA, sf: float = 1.0, width: Width = "wide") -> Path:
    """The folder that holds the table at this scale factor, made from TPC-H's own tables if it is not there.

    Like :func:`bench.tpch.make_tpch` it gets its name when it is complete. A slice of the orders is joined at a
    time, so that the largest scale needs no more memory than the dimension tables do.
    """
    target = Path(folder) / f"denorm-sf{sf:g}{'' if width == 'wide' else f'-{width}'}"
    if target.is_dir():
        return target
    source = make_tpch(folder, sf, FILES)
    with whole_folder(target) as partial:
        _join(source, partial, columns(width))
    return target


def _join(source: Path, target: Path, wanted: Mapping[str, str]) -> None:
    try:
        import duckdb
    except ImportError as error:
        raise SidestepError(f"The denormalized table is joined by a package of the dev extra: {error}.") from error
    parts = sorted((source / "lineitem").glob("*.parquet"), key=lambda path: int(re.findall(r"\d+", path.name)[-1]))
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"SET temp_directory = '{target / 'tmp'}'")
        for number, part in enumerate(parts):
            slice_of_orders = f"SELECT min(l_orderkey), max(l_orderkey) FROM '{part}'"
            low, high = connection.execute(slice_of_orders).fetchone() or (None, None)
            if low is not None:
                text = _select(source, part, int(low), int(high), wanted)
                file = target / f"part-{number:05}.parquet"
                connection.execute(f"COPY ({text}) TO '{file}' (FORMAT parquet, COMPRESSION zstd)")
    shutil.rmtree(target / "tmp", ignore_errors=True)


def _select(source: Path, part: Path, low: int, high: int, wanted: Mapping[str, str]) -> str:
    names = {**_NAMES, **_KEYS}
    picked = ", ".join(f"{names.get(name, name)}::{kind} AS {name}" for name, kind in wanted.items())
    table = {name: f"'{source / name / '*.parquet'}'" for name in ("orders", "customer", "part", "supplier")}
    table |= {name: f"'{source / name / '*.parquet'}'" for name in ("partsupp", "nation", "region")}
    # Where suppliers are few, the generator offers a part by the same one twice; a line item is to stay one row.
    pairs = f"(SELECT DISTINCT ON (ps_partkey, ps_suppkey) * FROM {table['partsupp']})"
    return f"""SELECT {picked} FROM '{part}' l
    JOIN (FROM {table["orders"]} WHERE o_orderkey BETWEEN {low} AND {high}) ON o_orderkey = l_orderkey
    JOIN {table["customer"]} ON c_custkey = o_custkey JOIN {table["part"]} ON p_partkey = l_partkey
    JOIN {table["supplier"]} ON s_suppkey = l_suppkey
    JOIN {pairs} ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
    JOIN {table["nation"]} cn ON cn.n_nationkey = c_nationkey
    JOIN {table["region"]} cr ON cr.r_regionkey = cn.n_regionkey
    JOIN {table["nation"]} sn ON sn.n_nationkey = s_nationkey
    JOIN {table["region"]} sr ON sr.r_regionkey = sn.n_regionkey
    ORDER BY l_orderkey, l_linenumber"""
