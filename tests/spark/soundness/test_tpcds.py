"""All of TPC-DS with skipping on and off: the same rows, and none of Spark's own savings lost.

On the least data there is, and by default every third query; ``make test-tpc SF=1`` takes all of them, and more data.
"""

from __future__ import annotations

import os
import re

import pytest

import sidestep
from bench.dips_time import comparable
from bench.tpcds import TABLES, make_tpcds, queries, register
from bench.tpcds_layout import make_tuned
from tests.spark.savings import check_savings
from tests.spark.tables import settings, switched_off

TEXTS = queries()
SF = float(os.environ.get("TPC_SF", "0.01"))

# The queries are long and the least data is small: to compile them would take most of the time.
QUICK = {
    "spark__sql__codegen__wholeStage": "false",
    "spark__sql__codegen__factoryMode": "NO_CODEGEN",
    "spark__sql__adaptive__enabled": "false",
    "spark__sql__shuffle__partitions": "1",
    # What is left of the least data is so little that Spark would turn joins round, and broadcast a part of the sales
    # instead of the dates that it broadcasts once for several joins.
    "spark__sql__autoBroadcastJoinThreshold": "-1",
}


@pytest.fixture(scope="module")
def tpcds(spark, tmp_path_factory):
    least = SF <= 0.01
    source = make_tpcds(tmp_path_factory.mktemp("tpcds"), SF)
    folder = make_tuned(source, files=4, thin=3) if least else make_tuned(source, files=60)
    register(spark, folder)
    for table in TABLES:
        sidestep.index(spark, str(folder / table))
    with settings(spark, **QUICK if least else {}):
        yield spark
    for table in TABLES:
        spark.catalog.dropTempView(table)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if at % 3 == 0 else [pytest.mark.long]) for at, name in enumerate(TEXTS)]
)
def test_a_query_gives_the_same_and_loses_no_reuse(tpcds, enabled, name, record_property):
    # Which of several equal rows come within a limit is not said, so all are asked for.
    text = re.sub(r"\bLIMIT\s+\d+\s*$", "", TEXTS[name], flags=re.IGNORECASE)
    with switched_off(tpcds):
        off = tpcds.sql(text)
        expected = comparable(off.collect())
    on = tpcds.sql(text)
    assert comparable(on.collect()) == expected
    check_savings(f"TPC-DS {name}", off, on, record_property)


def test_a_year_skips_sales_of_others(tpcds, enabled):
    """What the query says of dates alone: sales refer to them by number."""
    df = tpcds.sql(
        "SELECT sum(ss_net_paid) FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE d_year = 1999"
    )
    assert df.collect()[0][0] > 0
    on = {scan.table.rsplit("/", 1)[-1]: scan.files for scan in sidestep.metrics(df).scans}
    assert 0 < on["store_sales"] < len(tpcds.table("store_sales").inputFiles())


def test_something_is_skipped(tpcds, enabled):
    df = tpcds.sql("SELECT count(*) FROM store_sales WHERE ss_sold_date_sk < 2451000")
    assert df.collect()[0][0] > 0
    assert 0 < sidestep.metrics(df).files < len(tpcds.table("store_sales").inputFiles())
