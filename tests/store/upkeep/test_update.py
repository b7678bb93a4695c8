from __future__ import annotations

import pytest

from sidestep.store import DataFile, locate, settle
from sidestep.store.upkeep.update import COARSE_TICK, LOCAL_TICK

ROOT = locate("/t")


@pytest.mark.parametrize(
    ("modified", "waits"),
    [
        (1_000_000 - LOCAL_TICK - 1, 0),
        (1_000_000 - LOCAL_TICK + 10, 11),
        (999_999, LOCAL_TICK),
        (999_000, COARSE_TICK - 999),
        (990_000, 0),
    ],
)
def test_waits_until_the_clock_has_moved_on(modified: int, waits: int) -> None:
    slept: list[float] = []
    file = DataFile("f", 1, modified)
    assert settle(ROOT, [file], now=lambda: 1_000.0, sleep=slept.append) == (file,)
    assert sum(slept) == pytest.approx(waits / 1_000)


def test_files_of_the_future_are_left_out_and_nothing_waits_for_nothing() -> None:
    slept: list[float] = []
    assert settle(ROOT, [DataFile("f", 1, 2_000_000)], now=lambda: 1_000.0, sleep=slept.append) == ()
    assert settle(ROOT, [], now=lambda: 1_000.0, sleep=slept.append) == ()
    assert slept == []
