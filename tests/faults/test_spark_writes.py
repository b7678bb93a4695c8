"""The writes that users call, cut short: in this process at some of their points, and by real kills at a few."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import pytest

import sidestep
from tests.faults.disk import Fault
from tests.faults.kills import in_long_runs, kill_for_real
from tests.faults.spark_writes import spark_writes
from tests.faults.sweep import Prepared, Tally, prepare, sweep
from tests.faults.writes import ARROW
from tests.spark.tables import switched_off

pytestmark = pytest.mark.spark
GROUPED = ("merge into column groups", "optimize column groups")
NAMES = (
    "load into a new table",
    "load in place",
    "append",
    "delete",
    "update",
    "merge",
    "optimize",
    *GROUPED,
    "index",
    "vacuum",
)
TRIED = 4
"""Points of each write; ``make faults`` tries all."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return tmp_path_factory.mktemp("source")


@pytest.fixture(scope="module")
def prepared(spark, source, tmp_path_factory) -> Callable[[str], Prepared]:
    writes = {write.name: write for write in spark_writes(spark, source)}
    assert tuple(writes) == NAMES
    # Only what is asked for: each is made and run once, which takes longer than most tests.
    return cache(lambda name: prepare(writes[name], tmp_path_factory.mktemp("prepared")))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in GROUPED else []) for name in NAMES]
)
def test_cut_short_at_some_points(prepared, tmp_path, name):
    rng, tally = random.Random(name), Tally()
    write = prepared(name)
    points = len(write.points)
    for fault in rng.sample(list(Fault), 2):
        chosen = set(rng.sample(range(points), min(points, TRIED // 2)))
        sweep(write, tmp_path, tally, [fault], chosen.__contains__)
    assert tally.wrong == []


@pytest.mark.aside
@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("append", "committed"),
        ("delete", "commit"),
        pytest.param("load into a new table", "0.6", marks=in_long_runs),
        pytest.param("optimize", "committed", marks=in_long_runs),
        pytest.param("index", "0.7", marks=in_long_runs),
    ],
)
def test_killed_for_real(spark, enabled, prepared, source, tmp_path, name, share):
    kill_for_real(prepared(name), tmp_path / "killed", source, share)
    seen = sidestep.read(spark, str(tmp_path / "killed" / "table")).select(ARROW.names).where("x >= 20 OR v = 1")
    skipping = sorted(map(tuple, seen.collect()))
    with switched_off(spark):
        assert skipping == sorted(map(tuple, seen.select("*").collect()))
