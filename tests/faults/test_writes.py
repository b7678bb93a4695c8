"""Writes without Spark, cut short: a sample of all points and faults here, every one of them in ``make faults``."""

from __future__ import annotations

import random

import pytest

from tests.faults.disk import Fault
from tests.faults.sweep import Tally, prepare, sweep
from tests.faults.writes import WRITES

TRIED = 3
"""Points of each write for each fault."""


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.name)
def test_cut_short_at_some_points(tmp_path, write):
    rng, tally = random.Random(write.name), Tally()
    prepared = prepare(write, tmp_path)
    for fault in Fault:
        points = [number for number, point in enumerate(prepared.points) if fault.concerns(point.kind)]
        chosen = set(rng.sample(points, min(TRIED, len(points))))
        sweep(prepared, tmp_path, tally, [fault], chosen.__contains__)
    assert tally.wrong == []


@pytest.mark.parametrize("write", [write for write in WRITES if "index" not in write.name and write.name != "vacuum"])
def test_around_the_commit(tmp_path, write):
    """Right before the version gets its name the old one stays; from then on nothing says that it failed."""
    prepared, tally = prepare(write, tmp_path), Tally()
    links = [n for n, point in enumerate(prepared.points) if point.kind == "link" and "_delta_log" in point.path]
    near = {number + step for number in links for step in (0, 1, 2)}
    sweep(prepared, tmp_path, tally, list(Fault), near.__contains__)
    assert tally.wrong == []
    assert len(links) == 1
