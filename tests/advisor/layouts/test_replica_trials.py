"""Replicas tried on a sample: they pay where queries want the same columns in other orders, and nothing is lost."""

from __future__ import annotations

import pytest

from sidestep.advisor.layouts.column_groups import try_groups
from sidestep.advisor.layouts.replica_trials import try_replicas
from sidestep.errors import SidestepError
from sidestep.predicate import between, compare
from tests.advisor.layouts.test_column_groups import RANGES, A, B, study

CONFLICT = [
    *(([between(A, low, low + 1)], ["a", "c", "d"]) for low in range(0, 9, 2)),
    *(([compare(B, "=", 3), compare(A, ">", low)], ["b", "c", "d"]) for low in range(0, 200, 40)),
    *RANGES[1:3],
]


def test_replicas_serve_queries_that_want_other_orders() -> None:
    given = study(CONFLICT)
    together = try_groups(given).together
    tried = try_replicas(given, ["abcde"], 1.5, seconds=60)
    assert tried
    assert min(one.read for one in tried) < together
    assert [one.storage for one in tried] == sorted(one.storage for one in tried)
    assert [one.read for one in tried] == sorted((one.read for one in tried), reverse=True)
    for one in tried:
        assert sorted(name for layout in one.layouts for name in layout.masters) == list("abcde"), "each is there once"
        ids = sum(1.0 if layout.masters else layout.rows for layout in one.layouts) / 5
        assert 1 < one.storage <= 1.5 + ids + 1e-9
        assert all(layout.features and 0 < layout.rows <= 1 for layout in one.layouts if not layout.masters)


def test_what_cannot_be_stored_twice_is_not() -> None:
    assert try_replicas(study(CONFLICT), ["abcde"], 1.0, seconds=10) == ()
    assert try_replicas(study([]), ["abcde"], 2.0, seconds=10) == ()
    with pytest.raises(SidestepError, match="at least 1"):
        try_replicas(study(CONFLICT), ["abcde"], 0.5, seconds=10)
