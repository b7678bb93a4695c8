"""Interval algebra against brute force on small domains."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.predicate import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    DataType,
    Interval,
    IntervalSet,
    Kind,
    sort_key,
)
from sidestep.predicate.types import Value
from tests import strategies

# Each domain holds values and what lies between them, so that open and closed ends differ.
DOMAINS: dict[DataType, list[Value]] = {
    BYTE: [-128, -127, *range(-2, 4), 126, 127],
    BOOLEAN: [False, True],
    DOUBLE: [-math.inf, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, math.inf, math.nan],
    STRING: ["", "\0", "a", "a\0", "ab", "b", "\ud7ff", "\ue000", "\U0010ffff"],
}


@st.composite
def sets(draw: st.DrawFn, type: DataType) -> IntervalSet:
    ends = st.one_of(st.none(), st.sampled_from(DOMAINS[type]))
    intervals = st.builds(Interval, ends, ends, st.booleans(), st.booleans())
    return IntervalSet(type, tuple(draw(st.lists(intervals, max_size=4))))


def members(found: IntervalSet) -> set[int]:
    return {k for k, value in enumerate(DOMAINS[found.type]) if found.contains(value)}


def in_interval(value: Value, interval: Interval) -> bool:
    above = interval.low is None or sort_key(interval.low) < sort_key(value)
    below = interval.high is None or sort_key(value) < sort_key(interval.high)
    at_low = interval.low is not None and interval.low_closed and sort_key(interval.low) == sort_key(value)
    at_high = interval.high is not None and interval.high_closed and sort_key(interval.high) == sort_key(value)
    return (above or at_low) and (below or at_high)


@strategies.tries(300)
@given(st.data())
def test_algebra_agrees_with_membership(data):
    type = data.draw(st.sampled_from(list(DOMAINS)))
    a, b = data.draw(sets(type)), data.draw(sets(type))
    everything = set(range(len(DOMAINS[type])))
    assert members(a.union(b)) == members(a) | members(b)
    assert members(a.intersect(b)) == members(a) & members(b)
    assert members(a.difference(b)) == members(a) - members(b)
    assert members(a.complement()) == everything - members(a)
    assert a.complement().complement() == a
    assert hash(a.complement().complement()) == hash(a)
    assert a.issubset(b) == a.difference(b).is_empty
    assert not a.issubset(b) or members(a) <= members(b)
    assert a.intersect(b) == b.intersect(a)
    assert a.union(a.complement()).is_full
    assert a.intersect(a.complement()).is_empty


@strategies.tries(300)
@given(st.data())
def test_any_intervals_become_the_same_set_in_normal_form(data):
    type = data.draw(st.sampled_from(list(DOMAINS)))
    ends = st.one_of(st.none(), st.sampled_from(DOMAINS[type]))
    given_ones = data.draw(st.lists(st.builds(Interval, ends, ends, st.booleans(), st.booleans()), max_size=4))
    made = IntervalSet(type, tuple(given_ones))
    for value in DOMAINS[type]:
        assert made.contains(value) == any(in_interval(value, i) for i in given_ones)
    for interval in made.intervals:
        for end in (interval.low, interval.high):
            assert end is None or end == end, "NaN is never an end"
    assert IntervalSet(type, made.intervals) == made


@strategies.tries(200)
@given(st.data())
def test_downward_and_upward_take_in_what_is_below_and_above(data):
    type = data.draw(st.sampled_from([BYTE, BOOLEAN, DOUBLE]))
    found, strict = data.draw(sets(type)), data.draw(st.booleans())
    domain = DOMAINS[type]
    listed = [domain[k] for k in members(found)]
    for value in domain:
        key = sort_key(value)
        if any(key < sort_key(v) or (key == sort_key(v) and not strict) for v in listed):
            assert found.downward(strict).contains(value)
        if any(key > sort_key(v) or (key == sort_key(v) and not strict) for v in listed):
            assert found.upward(strict).contains(value)


def test_strictly_below_and_above_the_extremes():
    assert IntervalSet.full(DOUBLE).downward(strict=True) == IntervalSet.at_most(DOUBLE, math.inf)
    assert IntervalSet.point(DOUBLE, math.nan).upward(strict=True).is_empty
    assert IntervalSet.full(DOUBLE).upward(strict=True) == IntervalSet.at_least(DOUBLE, -math.inf, closed=False)
    assert IntervalSet.full(BYTE).downward(strict=True) == IntervalSet.at_most(BYTE, 126)
    assert IntervalSet.full(BYTE).upward(strict=True) == IntervalSet.at_least(BYTE, -127)
    assert IntervalSet.full(STRING).upward(strict=True) == IntervalSet.at_least(STRING, "", closed=False)
    assert IntervalSet.at_most(STRING, "a").downward(strict=True) == IntervalSet.at_most(STRING, "a", closed=False)


@given(st.data())
def test_points_are_the_values(data):
    type = data.draw(st.sampled_from(strategies.TYPES))
    listed = data.draw(st.lists(strategies.values(type), max_size=8))
    found = IntervalSet.points(type, listed)
    assert all(found.contains(value) for value in listed)
    assert found == IntervalSet(type, tuple(Interval(value, value) for value in listed))
    values = found.values()
    assert values is not None
    assert sorted(map(sort_key, values)) == sorted({sort_key(v) for v in listed})
    other = data.draw(strategies.values(type))
    assert found.contains(other) == any(sort_key(other) == sort_key(v) for v in listed)


@given(st.sets(st.integers(-40, 40)), st.sets(st.integers(-40, 40)))
def test_large_sets_take_the_same_shortcuts(a, b):
    left, right = IntervalSet.points(INTEGER, a), IntervalSet.points(INTEGER, b)
    assert left.intersect(right).values() == tuple(sorted(a & b))
    assert left.union(right).values() == tuple(sorted(a | b))
    assert left.difference(right).values() == tuple(sorted(a - b))
    assert left.issubset(right) == (a <= b)
    strings_a, strings_b = [IntervalSet.points(STRING, {f"{v:03}" for v in s}) for s in (a, b)]
    assert strings_a.issubset(strings_b) == (a <= b)
    assert len(strings_a.intersect(strings_b).intervals) == len(a & b)


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_a_range_cut_out_of_many_points(count):
    many = IntervalSet.points(INTEGER, range(0, 200, 2))
    window = IntervalSet(INTEGER, (Interval(10, 10 + 2 * count),))
    assert many.intersect(window).values() == tuple(range(10, 11 + 2 * count, 2))
    assert many.intersect(window.complement()).values() == tuple(v for v in range(0, 200, 2) if not window.contains(v))
    assert not many.issubset(IntervalSet.point(INTEGER, 100).complement())
    assert many.issubset(IntervalSet.point(INTEGER, 101).complement())


def test_normal_form_of_ends():
    assert IntervalSet.at_least(BYTE, -128).is_full
    assert IntervalSet.at_least(BYTE, 500).is_empty
    assert IntervalSet.point(BYTE, 500).is_empty
    assert IntervalSet.point(BYTE, 127).intervals == (Interval(127, 127),)
    assert IntervalSet.at_least(STRING, "").is_full
    assert IntervalSet.at_most(STRING, "").intervals == (Interval("", ""),)
    assert IntervalSet.at_most(STRING, "", closed=False).is_empty
    assert IntervalSet.at_least(DOUBLE, -math.inf).is_full
    assert repr(IntervalSet.point(DOUBLE, -0.0).intervals[0].low) == "0.0"
    assert IntervalSet.points(BOOLEAN, [True, False]).is_full
    assert IntervalSet.point(BOOLEAN, True).values() == (True,)
    assert IntervalSet.full(BOOLEAN).values() == (False, True)
    assert IntervalSet.full(DATE).values() is None
    assert IntervalSet.full(STRING).values() is None


def test_a_type_without_order_has_no_ranges():
    other = DataType(Kind.OTHER, detail="map<string,int>")
    assert IntervalSet.full(other).complement().is_empty
    with pytest.raises(ValueError, match="order of map<string,int> is unknown"):
        IntervalSet(other, (Interval("a", None),))
