"""FP-growth in Spark and closed sets in numpy are the same miner."""

from __future__ import annotations

import numpy as np
import pytest

from sidestep.spark.log import fp_growth as mining
from sidestep.spark.log.fp_growth import FrequentSets
from sidestep.workload import closed_sets


def transactions(seed: int, count: int, items: int, longest: int = 6):
    rng = np.random.default_rng(seed)
    return [
        (frozenset(map(int, rng.choice(items, size=rng.integers(1, longest), replace=False))), int(rng.integers(1, 9)))
        for _ in range(count)
    ]


@pytest.mark.parametrize(("seed", "min_support"), [(0, 1), (1, 5), (2, 20)])
def test_the_closed_sets_are_those_of_the_other_miner(spark, seed, min_support):
    given = transactions(seed, 40, 12)
    assert dict(FrequentSets(spark)(given, min_support)) == dict(closed_sets(given, min_support))


def test_large_weights_are_scaled_and_supports_stay_exact(spark, monkeypatch):
    monkeypatch.setattr(mining, "MOST_ROWS", 50)
    given = transactions(3, 20, 8)
    assert dict(FrequentSets(spark)(given, 10)) == dict(closed_sets(given, 10))


def test_what_would_explode_is_grown_without_spark():
    given = [(frozenset(range(40)), 5), (frozenset(range(1, 40)), 2)]
    miner = FrequentSets(None)  # type: ignore[arg-type]
    assert dict(miner(given, 2)) == {frozenset(range(1, 40)): 7, frozenset(range(40)): 5}
    assert miner([], 1) == []
