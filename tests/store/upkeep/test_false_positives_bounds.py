"""What synopses let through, judged by themselves: a bound on false positives that grows with them."""

from __future__ import annotations

import numpy as np
import pytest

from sidestep.predicate.nodes import Column
from sidestep.predicate.types import LONG
from sidestep.store.upkeep.false_positives import KeptShare, estimate_kept
from sidestep.synopsis.bloom import block_filters, bloom_filter
from sidestep.synopsis.contract.block_ranges import BlockRanges, block_ranges
from sidestep.synopsis.range_set import RangeSets, range_set
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.forms import Mask
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


def kept_share(zones: BlockRanges, sets: BlockRanges | None, codes: Codes, among: Mask) -> KeptShare | None:
    others = [] if sets is None else [RangeSets({"x": sets})]
    return estimate_kept(Column("x", LONG), RangeSets({"x": zones}), others, CODING, codes, among)


def test_it_bounds_the_rate_for_values_that_are_there():
    held = blocks()
    zones, sets = ranges(held, 1), ranges(held, 2)
    found = kept_share(zones, sets, ends(sets), EVERY)
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
    alone = kept_share(ranges(held[:25], 1), None, ends(ranges(held[:25], 1)), EVERY[:25])
    assert kept_share(zones, None, ends(ranges(held[:25], 1)), half) == alone
    assert kept_share(zones, None, ends(zones), EVERY & (np.arange(50) < 1)) is None
    assert kept_share(zones, None, np.array([0, 2**64 - 1], dtype=np.uint64), EVERY) is None


def test_filters_pass_as_often_as_their_bits_say():
    rng = np.random.default_rng(3)
    held = [rng.integers(0, 2**60, 300).astype(np.uint64) for _ in range(50)]
    filters = block_filters(LONG, [bloom_filter(code_hashes(codes), 6) for codes in held])
    others = code_hashes(rng.integers(2**61, 2**62, 400).astype(np.uint64))
    measured = np.mean([filters.holding(others[n : n + 1]).mean() for n in range(400)])
    assert filters.pass_rate(EVERY) == pytest.approx(measured, abs=0.02)
    unknown = block_filters(LONG, [None, *[bloom_filter(code_hashes(held[0]), 60)]])
    assert unknown.pass_rate(np.array([True, False])) == 1.0
    empty = block_filters(LONG, [np.zeros((0, 8), dtype=np.uint32)])
    assert empty.pass_rate(np.array([True])) == 0.0


def test_twice_as_much_is_outgrown_if_it_matters():
    before = KeptShare(0.9, 0.05)
    assert KeptShare(0.9, 0.1).outgrown(before)
    assert not KeptShare(0.9, 0.09).outgrown(before)
    assert not KeptShare(0.9, 0.004).outgrown(KeptShare(0.9, 0.001))
    assert KeptShare(0.0, 0.0).saved == 0.0
