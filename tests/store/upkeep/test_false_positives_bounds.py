"""What synopses let through, judged by themselves: a bound on false positives that grows with them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sidestep.predicate.types import LONG
from sidestep.store.upkeep.false_positives import Keeping, keeping, pass_rate
from sidestep.synopsis.bloom import block_filters, bloom_filter, bloom_filters
from sidestep.synopsis.range_set import range_set
from sidestep.synopsis.values.block_ranges import BlockRanges, block_ranges
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.hashing import code_hashes

CODING = Coding(LONG)
EVERY = np.ones(50, dtype=np.bool_)


def blocks(seed: int = 1, runs: int = 3) -> list[Codes]:
    rng = np.random.default_rng(seed)
    starts = rng.integers(2**62, 2**63, (50, runs)).astype(np.uint64)
    return [np.unique((each[:, None] + rng.integers(0, 99, 30).astype(np.uint64)).ravel()) for each in starts]


def ranges(held: list[Codes], most: int) -> BlockRanges:
    return block_ranges(CODING, [range_set(CODING, codes, most) for codes in held])


def ends(found: BlockRanges) -> Codes:
    return np.concatenate([found.lows, found.highs])


def test_it_bounds_the_rate_for_values_that_are_there():
    held = blocks()
    zones, sets = ranges(held, 1), ranges(held, 2)
    found = keeping(zones, [sets], None, CODING, ends(sets), EVERY)
    assert found is not None
    asked = np.concatenate([codes[[0, -1]] for codes in held])
    kept = [[any(a <= value <= b for a, b in sets.of_block(n)) for n in range(50)] for value in asked]
    absent = [[value not in codes for codes in held] for value in asked]
    truth = (np.array(kept) & np.array(absent)).sum() / np.array(absent).sum()
    assert truth <= found.kept < found.zone_map
    assert 0 < found.saved < 1


def test_only_some_blocks_may_count():
    held = blocks()
    zones = ranges(held, 1)
    half = EVERY & (np.arange(50) < 25)
    alone = keeping(ranges(held[:25], 1), [], None, CODING, ends(ranges(held[:25], 1)), EVERY[:25])
    assert keeping(zones, [], None, CODING, ends(ranges(held[:25], 1)), half) == alone
    assert keeping(zones, [], None, CODING, ends(zones), EVERY & (np.arange(50) < 1)) is None
    assert keeping(zones, [], None, CODING, np.array([0, 2**64 - 1], dtype=np.uint64), EVERY) is None


def test_filters_pass_as_often_as_their_bits_say():
    rng = np.random.default_rng(3)
    held = [rng.integers(0, 2**60, 300).astype(np.uint64) for _ in range(50)]
    filters = block_filters(LONG, [bloom_filter(code_hashes(codes), 6) for codes in held])
    others = code_hashes(rng.integers(2**61, 2**62, 400).astype(np.uint64))
    measured = np.mean([filters.holding(others[n : n + 1]).mean() for n in range(400)])
    assert pass_rate(filters, EVERY) == pytest.approx(measured, abs=0.02)
    unknown = block_filters(LONG, [None, *[bloom_filter(code_hashes(held[0]), 60)]])
    assert pass_rate(unknown, np.array([True, False])) == 1.0
    assert pass_rate(bloom_filters(LONG, [pa.array([], pa.int64())]), np.array([True])) == 0.0


def test_twice_as_much_is_outgrown_if_it_matters():
    before = Keeping(0.9, 0.05)
    assert Keeping(0.9, 0.1).outgrown(before)
    assert not Keeping(0.9, 0.09).outgrown(before)
    assert not Keeping(0.9, 0.004).outgrown(Keeping(0.9, 0.001))
    assert Keeping(0.0, 0.0).saved == 0.0
