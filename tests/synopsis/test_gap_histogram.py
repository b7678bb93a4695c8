"""Gap histograms: equal depth, gaps between buckets, and how many rows a query may find."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Within
from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import INTEGER, LONG
from sidestep.synopsis.gap_histogram import (
    UNCOUNTED,
    GapHistograms,
    gap_histogram,
    gap_histogram_columns,
    gap_histograms,
    gap_histograms_of,
)
from sidestep.synopsis.range_set import range_set
from sidestep.synopsis.values.codes import Coding, integer_codes

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


def test_rows_are_bounded_from_above_and_unknown_is_said():
    made = gap_histograms(CODING, [pa.array([1, 1, 2, 50, 51, 99], pa.int32()), pa.array(["x"])], 3)
    low = IntervalSet(INTEGER, (Interval(2, 10),))
    rows = made.most_rows(low)
    assert rows is not None
    assert rows.tolist() == [2, UNCOUNTED]
    rows = made.most_rows(IntervalSet(INTEGER, (Interval(60, 70),)))
    assert rows is not None
    assert rows.tolist() == [2, UNCOUNTED]
    rows = made.most_rows(IntervalSet(INTEGER, (Interval(100, 200),)))
    assert rows is not None
    assert rows.tolist() == [0, UNCOUNTED]
    assert made.most_rows(IntervalSet.empty(INTEGER)).tolist() == [0, 0]  # type: ignore[union-attr]


def test_histograms_are_stored_and_come_back():
    blocks = [pa.array([1, 1, 5, 9], pa.int32()), pa.array(["x"]), pa.nulls(2, pa.int32())]
    made = gap_histograms(CODING, blocks, 2)
    back = gap_histograms_of({"x": INTEGER, "y": INTEGER}, gap_histogram_columns("x", made))
    assert list(back.columns) == ["x"]
    assert back.columns["x"].depths.tolist() == made.depths.tolist() == [2, 2, -1]
    assert back.types == {"x": INTEGER}
    formula = Within(Column("x", INTEGER), IntervalSet.point(INTEGER, 3))
    assert back.can_satisfy(formula).tolist() == [False, True, False]  # type: ignore[union-attr]
    assert back.can_satisfy(Within(Column("x", LONG), IntervalSet.point(LONG, 3))) is None
    lost = gap_histograms_of({"x": INTEGER}, {"buckets:x": gap_histogram_columns("x", made)["buckets:x"]})
    assert lost.columns["x"].depths.tolist() == [-1, -1, -1]


def test_bad_input():
    assert len(gap_histogram(integer_codes(np.array([], dtype=np.int64)), 3)[0]) == 0
    buckets, depths = gap_histogram(integer_codes(np.array([7, 7, 7])), 3)
    assert len(buckets) == 1
    assert depths.tolist() == [3]
    with pytest.raises(SidestepError, match="at least one bucket"):
        gap_histogram(integer_codes(np.array([1])), 0)
    assert GapHistograms({}).nbytes == 0
