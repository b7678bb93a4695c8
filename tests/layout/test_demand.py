"""Demands: features weigh in a unit what the queries that come there give them, and windows keep times apart."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.layout import pack
from sidestep.layout.demand import SERVED, UNSERVED, Demand, Demands, group_rows, merge_demands

EARLY = Demand((0,), (("day", 0, 9),), 5.0)
LATE = Demand((1,), (("day", 20, None),), 3.0)


def at(*days: int):
    return np.array(days), np.array(days)


def test_a_feature_weighs_nothing_where_none_of_its_queries_come():
    demands = Demands(2, (EARLY, LATE))
    assert demands.weights({"day": at(3, 4)}) == [5.0, 0.0]
    assert demands.weights({"day": at(30)}) == [0.0, 3.0]
    assert demands.weights({}) == [5.0, 3.0]  # nothing is known of the unit: all may come


def test_rows_without_a_time_are_asked_for_by_no_range():
    nothing = np.array([2**63 - 1]), np.array([-(2**63)])
    assert Demands(2, (EARLY, LATE)).weights({"day": nothing}) == [0.0, 0.0]


def test_windows_are_those_that_tell_sets_of_rows_apart():
    demands = Demands(1, (Demand((), (("day", 0, 9),), 2), Demand((0,), (("day", 3, 9),), 1), Demand((), (), 7)))
    bits, weights = demands.windows({"day": at(1, 5, 30)})
    assert weights == [2 * UNSERVED, 1 * SERVED]
    assert bits.T.tolist() == [[True, True, False], [False, True, False]]


def test_windows_group_rows_that_features_do_not_tell_apart():
    days, counts = at(1, 2, 31, 32), np.full(4, 60)
    words = pack(np.zeros((4, 1), np.bool_))
    demands = Demands(1, (Demand((), (("day", 0, 9),)), Demand((), (("day", 30, 40),))))
    assert len(set(group_rows(words, counts, {}, demands, 100).tolist())) == 1
    group = group_rows(words, counts, {"day": days}, demands, 100)
    assert group[0] == group[1] != group[2] == group[3]


def test_they_are_kept_as_data():
    assert [Demand.from_json(json.loads(json.dumps(asdict(one)))) for one in (EARLY, LATE)] == [EARLY, LATE]


def test_demands_speak_of_features_that_there_are():
    with pytest.raises(SidestepError, match="other features than the 1 there are"):
        Demands(1, (EARLY, LATE))


def test_features_that_are_left_out_leave_the_others_their_weights():
    demands = merge_demands(3, (Demand((0, 2), (), 4.0), Demand((1, 2), (), 2.0)))
    assert demands.restrict([2, 0]).weights({}) == [6.0, 4.0]


@given(st.data())
def test_every_set_of_rows_has_a_group_and_equal_ones_share_it(data):
    features = data.draw(st.integers(0, 5))
    size = data.draw(st.integers(0, 30))
    bits = np.array(
        data.draw(st.lists(st.lists(st.booleans(), min_size=features, max_size=features), min_size=size, max_size=size))
    )
    bits = bits.reshape(size, features).astype(np.bool_)
    days = np.array(data.draw(st.lists(st.integers(0, 50), min_size=size, max_size=size)), np.int64)
    counts = np.array(data.draw(st.lists(st.integers(1, 40), min_size=size, max_size=size)), np.int64)
    some = st.builds(
        lambda positions, low, long, weight: Demand(tuple(sorted(positions)), (("day", low, low + long),), weight),
        st.sets(st.integers(0, max(0, features - 1)), max_size=features),
        st.integers(0, 50),
        st.integers(0, 20),
        st.integers(1, 9).map(float),
    )
    demands = Demands(features, tuple(data.draw(st.lists(some, max_size=6))))
    group = group_rows(pack(bits), counts, {"day": (days, days)}, demands, 50)
    assert len(group) == size
    place: dict[tuple[bytes, int], int] = {}
    for row in range(size):
        assert place.setdefault((bits[row].tobytes(), int(days[row])), group[row]) == group[row]
