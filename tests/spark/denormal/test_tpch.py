"""TPC-H on a denormalized lineitem, through to the answers: which queries read it, and that nothing else is read."""

from __future__ import annotations

import pytest

import sidestep
from bench.tpch import TABLES, make_tpch, queries, register

INSTEAD = ("q3", "q5", "q7", "q8", "q12", "q19")
"""Queries that need none of the base tables any more."""
PARTLY = ("q4", "q9", "q17", "q21")
"""Queries of which a part is read from it: q4 looks for line items, q17 and q21 join them with others of them, and for
q9 partsupp has no key at this scale, where the generator repeats some."""
NEVER = ("q13", "q16")
"""Queries that do not read lineitem."""
SHORT = ("q3", "q4", "q13")
"""Those that every run of the tests asks."""


@pytest.fixture(scope="module")
def tpch(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("tpch")
    folder = make_tpch(root, 0.001, files=2)
    log = [text for name, text in queries().items() if name in INSTEAD + PARTLY]
    tables = {name: str(folder / name) for name in TABLES}
    report = sidestep.denormalize(spark, log, tables, root / "joined", fact="lineitem", layout="sop", min_size=1500)
    register(spark, folder)
    return report


def test_what_is_joined(tpch):
    assert (tpch.queries, tpch.rewritten) == (len(INSTEAD + PARTLY),) * 2
    named = [role.split(":")[0] for role in tpch.roles]
    assert named[0] == "lineitem"
    assert {"orders", "supplier", "part", "customer"} <= set(named)
    assert sum(name.endswith("nation") for name in named) == 2, "the customer's and the supplier's"
    assert not any("partner" in role for role in tpch.roles), "every key has one"
    assert tpch.rows == tpch.load.rows


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SHORT else [pytest.mark.long]) for name in INSTEAD + PARTLY + NEVER]
)
def test_queries_give_the_same_answers(spark, tpch, name):
    text = queries()[name]
    off = sorted(map(str, spark.sql(text).collect()))
    spark.conf.set("spark.sidestep.denormalized.leastGain", "0")
    try:
        with sidestep.enable(spark) as enabled:
            frame = spark.sql(text)
            assert sorted(map(str, frame.collect())) == off
            assert not enabled.last_problem
            # By the plan: what Spark finds to be empty as it runs is in no metrics.
            read = {scan.table for scan in sidestep.explain(frame).scans}
    finally:
        spark.conf.unset("spark.sidestep.denormalized.leastGain")
    assert ("joined" in read) == (name not in NEVER)
    if name in INSTEAD:
        assert read == {"joined"}
