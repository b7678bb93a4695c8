"""TPC-DS: its tables as folders of Parquet files, and its 99 queries as Spark runs them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bench.duckdb_queries import extension_queries
from bench.tpch import DATA, generator
from bench.whole_folder import whole_folder
from sidestep.errors import SidestepError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATE_OF = {
    "store_sales": "ss_sold_date_sk",
    "store_returns": "sr_returned_date_sk",
    "catalog_sales": "cs_sold_date_sk",
    "catalog_returns": "cr_returned_date_sk",
    "web_sales": "ws_sold_date_sk",
    "web_returns": "wr_returned_date_sk",
    "inventory": "inv_date_sk",
}
"""The fact tables, each with the date that most queries reach it by."""

KEY_OF = {
    "call_center": "cc_call_center_sk",
    "catalog_page": "cp_catalog_page_sk",
    "customer": "c_customer_sk",
    "customer_address": "ca_address_sk",
    "customer_demographics": "cd_demo_sk",
    "date_dim": "d_date_sk",
    "household_demographics": "hd_demo_sk",
    "income_band": "ib_income_band_sk",
    "item": "i_item_sk",
    "promotion": "p_promo_sk",
    "reason": "r_reason_sk",
    "ship_mode": "sm_ship_mode_sk",
    "store": "s_store_sk",
    "time_dim": "t_time_sk",
    "warehouse": "w_warehouse_sk",
    "web_page": "wp_web_page_sk",
    "web_site": "web_site_sk",
}
"""The dimension tables, each with its key."""

TABLES = (*DATE_OF, *KEY_OF)

CHOSEN = (*range(1, 41), *range(90, 100))
"""The numbers of the 50 queries that the diPs paper reports on (5.1)."""

_SHARE = re.compile(r"/\s*(sum\(sum\(\w+\)\)\s*OVER\s*\([^)]*\))", re.IGNORECASE)


def make_tpcds(folder: Path | str = DATA, sf: float = 1.0) -> Path:
    """The folder that holds TPC-DS at this scale factor, one folder per table, made if it is not there.

    A table is one file, in the order in which the generator emits it. The same scale gives the same rows. Below a scale
    of about 0.01 the generator makes no less.
    """
    target = Path(folder) / f"tpcds-sf{sf:g}"
    if target.is_dir():
        return target
    with whole_folder(target) as partial:
        command = [generator(), "tpcds", "parquet", "--quiet", "--scale-factor", f"{sf:g}", "--parts", "1"]
        command += ["--output-dir", str(partial), "--tables", ",".join(TABLES)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SidestepError(f"tpcgen-cli could not write TPC-DS to {partial}: {done.stderr.strip()}")
    return target


def register(spark: SparkSession, folder: Path | str) -> None:
    """Make the tables of a folder known to Spark as temporary views."""
    for table in TABLES:
        spark.read.parquet(str(Path(folder) / table)).createOrReplaceTempView(table)


def queries() -> dict[str, str]:
    """The queries q1 to q99 with the specification's validation parameters, in Spark SQL.

    Two things are said otherwise in Spark than in DuckDB: names in quotes have backticks, and a share of a sum that may
    be zero (q12, q20, q98) has to be NULL by itself, since Spark takes a division by zero for an error.
    """
    return {name: spark_text(text) for name, text in extension_queries("tpcds").items()}


def spark_text(text: str) -> str:
    """A query of DuckDB's as Spark reads it.

    >>> spark_text('SELECT 1 / sum(sum(x)) OVER (PARTITION BY c) AS "the share" FROM t')
    'SELECT 1 / nullif(sum(sum(x)) OVER (PARTITION BY c), 0) AS `the share` FROM t'
    """
    return _SHARE.sub(r"/ nullif(\1, 0)", text.replace('"', "`"))
