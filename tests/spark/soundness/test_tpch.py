"""All of TPC-H with skipping on and off: the same rows, and none of Spark's own savings lost.

On little data; ``make test-tpc SF=1`` takes more.
"""

from __future__ import annotations

import os
from decimal import Decimal

import pytest

import sidestep
from bench.tpch import TABLES, make_tpch, queries, register
from tests.spark.savings import check_savings
from tests.spark.tables import switched_off

SF = float(os.environ.get("TPC_SF", "0.01"))


@pytest.fixture(scope="module")
def tpch(spark, tmp_path_factory):
    folder = make_tpch(tmp_path_factory.mktemp("tpch"), sf=SF, files=3)
    register(spark, folder)
    for table in TABLES:
        sidestep.index(spark, str(folder / table))
    yield spark
    for table in TABLES:
        spark.catalog.dropTempView(table)


def comparable(rows) -> list[tuple[object, ...]]:
    """Averages of doubles may differ in the last digits with the order of addition; TPC-H's are all decimals."""
    return [tuple(round(v, 6) if isinstance(v, Decimal | float) else v for v in row) for row in rows]


@pytest.mark.parametrize("name", [f"q{number}" for number in range(1, 23)])
def test_a_query_gives_the_same_and_loses_no_reuse(tpch, enabled, name, record_property):
    text = queries()[name]
    with switched_off(tpch):
        off = tpch.sql(text)
        expected = comparable(off.collect())
    before = enabled.rule.timesWorked()
    on = tpch.sql(text)
    assert comparable(on.collect()) == expected
    assert enabled.rule.timesWorked() - before <= 2
    check_savings(f"TPC-H {name}", off, on, record_property)
    assert sidestep.metrics(on).files <= sidestep.metrics(off).files


def test_something_is_skipped(tpch, enabled):
    df = tpch.sql("SELECT count(*) FROM lineitem JOIN orders ON l_orderkey = o_orderkey WHERE l_orderkey < 1000")
    assert df.collect()[0][0] > 0
    assert [scan.files for scan in sidestep.metrics(df).scans] == [1, 1]
