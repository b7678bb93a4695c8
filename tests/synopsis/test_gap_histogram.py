"""Gap histograms: equal depth, gaps between buckets, and storage."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import INTEGER, LONG
from sidestep.synopsis.gap_histogram import (
    GAP_HISTOGRAM,
    GapHistograms,
    gap_histogram,
)
from sidestep.synopsis.range_set import range_set
from sidestep.synopsis.values.codes import Coding, integer_codes
from tests.synopsis.stored import held, kept, stored

CODING = Coding(INTEGER)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.integers(1, 6))
def test_buckets_hold_every_value_and_count_it(values: list[int], most: int):
    buckets, depths = gap_histogram(integer_codes(np.array(values)), most)
    assert len(buckets) <= most
    assert depths.sum() == len(values)
    for (low, high), depth in zip(buckets, depths, strict=True):
        assert sum(low <= int(code) <= high for code in integer_codes(np.array(values))) == depth


@given(st.sets(st.integers(0, 1000), min_size=1, max_size=40), st.integers(1, 6))
def test_without_repeats_depths_are_as_equal_as_can_be(values: set[int], most: int):
    _, depths = gap_histogram(integer_codes(np.array(sorted(values))), most)
    assert len(depths) == min(most, len(values))
    assert depths.max() - depths.min() <= 1


def test_a_value_in_a_gap_is_absent_but_a_range_set_leaves_out_more():
    """Figure 11: buckets follow the rows, ranges the gaps."""
    values = integer_codes(np.array([1, 2, 3, 4, 5, 6, 40, 43, 90]))
    buckets, _ = gap_histogram(values, 3)
    ranges = range_set(CODING, values, 3)
    width = [sum(high - low for low, high in found) for found in (buckets, ranges)]
    assert width == [54, 8]


def test_histograms_are_stored_and_come_back():
    blocks = [pa.array([1, 1, 5, 9], pa.int32()), pa.array(["x"]), pa.nulls(2, pa.int32())]
    parts = stored(GAP_HISTOGRAM, INTEGER, blocks, 2)
    assert parts["depths"].to_pylist() == [[2, 2], None, []], "rows in each bucket"
    back = GapHistograms({"x": held(GAP_HISTOGRAM, INTEGER, blocks, 2)})
    assert back.types == {"x": INTEGER}
    assert kept(back, Within(Column("x", INTEGER), IntervalSet.point(INTEGER, 3))) == [False, True, False]
    assert kept(back, Within(Column("x", LONG), IntervalSet.point(LONG, 3))) is None


def test_bad_input():
    assert len(gap_histogram(integer_codes(np.array([], dtype=np.int64)), 3)[0]) == 0
    buckets, depths = gap_histogram(integer_codes(np.array([7, 7, 7])), 3)
    assert len(buckets) == 1
    assert depths.tolist() == [3]
    with pytest.raises(SidestepError, match="at least one bucket"):
        gap_histogram(integer_codes(np.array([1])), 0)
    assert GapHistograms({}).nbytes == 0
