"""Lookups in other blocks: what they read is never less than what holds the values, and estimates add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.advisor.synopses.lookups import WIDTHS, gain, lookups
from sidestep.predicate.types import LONG
from sidestep.synopsis.contract.block_ranges import block_ranges
from sidestep.synopsis.range_set import range_set
from sidestep.synopsis.values.codes import Codes, Coding

CODING = Coding(LONG)
codes = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 300), max_size=12).map(
    lambda values: np.unique(np.array(values, dtype=np.uint64))
)


@given(st.lists(codes, max_size=8), st.floats(1, 50), st.integers(1, 5))
def test_what_holds_a_value_is_kept_and_ranges_help(blocks: list[Codes], each: float, most: int):
    asked = lookups(blocks, np.full(len(blocks), each))
    if asked is None:
        assert sum(map(bool, map(len, blocks))) < 2
        return
    ranges = block_ranges(CODING, [range_set(CODING, block, most) for block in blocks])
    kept = asked.kept(ranges)
    assert not (asked.held & ~kept).any()
    assert not (kept & ~asked.zone_maps).any()
    assert asked.held[np.arange(len(asked.source)), asked.source].all(), "its own block holds what is asked for"
    held, by_ranges, zones = (asked.reads(mask) for mask in (asked.held, kept, asked.zone_maps))
    assert np.all((held <= by_ranges) & (by_ranges <= zones) & (zones <= 1 + 1e-9))
    assert gain(zones, held) >= gain(zones, by_ranges) >= 0
    assert len(zones) % len(WIDTHS) == 0


def test_a_sample_tells_of_all_blocks():
    """A tenth of the other blocks is kept, of twenty as of a thousand."""
    blocks = [np.array([number, 10_000 + number], dtype=np.uint64) for number in range(20)]
    for count in (20, 1_000):
        asked = lookups(blocks, np.full(20, count / 20))
        assert asked is not None
        kept = np.zeros((len(asked.source), 20))
        kept[np.arange(len(kept)), (asked.source + 1) % 20] = 1.0
        kept[np.arange(len(kept)), asked.source] = 1.0
        assert asked.reads(kept) == pytest.approx((1 + (count - 1) / 19) / count)
