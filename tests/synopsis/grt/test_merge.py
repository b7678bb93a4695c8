"""The steps that make a global range table, against the paper's examples and against trying everything."""

from __future__ import annotations

import heapq
import itertools
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.types import LONG
from sidestep.synopsis.grt import merge as grtmerge
from sidestep.synopsis.grt.merge import Users, cut_all, integrate, merge, places, ranges_meeting, sub_partition, users
from sidestep.synopsis.grt.popularity import Popularity, popularity, uniform
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import Codes, Coding, integer_codes, integer_values

CODING = Coding(LONG)
UNIFORM = uniform(CODING)


def codes(*values: int) -> Codes:
    return integer_codes(np.array(values, dtype=np.int64))


def ranges(*pairs: tuple[int, int]) -> CodeRanges:
    return CodeRanges(codes(*(low for low, _ in pairs)), codes(*(high for _, high in pairs)))


def pairs(found: CodeRanges) -> list[tuple[int, int]]:
    return list(zip(integer_values(found.lows).tolist(), integer_values(found.highs).tolist(), strict=True))


def cost(found: CodeRanges, used_by: Users, popularity: Popularity) -> float:
    """The popularity that all partitions' ranges take in: equation 3, and a constant (see the module's text)."""
    counts = np.array([each.bit_count() for each in used_by], dtype=np.float64)
    return float(np.sum(counts * popularity.of(found.lows, found.highs)))


workloads = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=4).map(
    lambda asked: popularity(CODING, [(IntervalSet(LONG, (Interval(a, a + n),)), 1.0) for a, n in asked])
)


def enclosed(found: Sequence[tuple[int, int]], values: set[int], known: Popularity) -> float:
    """Equation 2: the popularity of what the ranges take in and the partition does not hold."""
    return sum(
        float(known.of(codes(v), codes(v))[0]) for low, high in found for v in range(low, high + 1) if v not in values
    )


@given(
    st.lists(st.sets(st.integers(0, 99), max_size=12), max_size=5), st.integers(1, 30), st.sampled_from([1, 2, 3, 50])
)
def test_a_quota_for_all_encloses_no_more_than_one_for_each(blocks: list[set[int]], most: int, each: int):
    held = [codes(*sorted(values)) for values in blocks]
    found = cut_all([CodeRanges(values, values) for values in held], most, UNIFORM)
    assert sum(map(len, found)) <= max(most, sum(bool(values) for values in blocks))
    for values, ranges in zip(held, found, strict=True):
        assert (places(ranges, values) >= 0).all()
    same = [sub_partition(values, each, UNIFORM) for values in held]
    if sum(map(len, same)) <= most:
        taken = [sum(high - low + 1 for ranges in every for low, high in ranges) for every in (found, same)]
        assert taken[0] <= taken[1]


@given(st.sets(st.integers(0, 40), min_size=1, max_size=8), st.integers(1, 5), workloads)
def test_no_other_sub_partitioning_encloses_less(values: set[int], most: int, known: Popularity):
    found = pairs(sub_partition(codes(*sorted(values)), most, known))
    assert len(found) <= most
    assert all(any(low <= v <= high for low, high in found) for v in values)
    ordered = sorted(values)
    best = min(
        enclosed([(ordered[a], ordered[b - 1]) for a, b in itertools.pairwise([0, *cuts, len(ordered)])], values, known)
        for n in range(min(most, len(ordered)))
        for cuts in itertools.combinations(range(1, len(ordered)), n)
    )
    assert enclosed(found, values, known) == pytest.approx(best, abs=1e-9)


def by_heap(values: Sequence[int], most: int) -> set[int]:
    """4.1.2 as the paper has it: one pass, and a min-heap of the most popular gaps by the value before each."""
    heap: list[tuple[int, int]] = []
    for before, after in itertools.pairwise(values):
        gap = (after - before - 1, before)
        if len(heap) < most - 1:
            heapq.heappush(heap, gap)
        elif heap and gap > heap[0]:
            heapq.heapreplace(heap, gap)
    return {before for width, before in heap if width > 0}


def test_the_paper_s_heap_finds_the_same_gaps():
    rng = np.random.default_rng(2)
    for most in (1, 2, 5, 20):
        values = np.unique(rng.integers(0, 10**9, 300)).tolist()
        found = pairs(sub_partition(codes(*values), most, UNIFORM))
        assert {high for _, high in found[:-1]} == by_heap(values, most)


class TestIntegration:
    def test_the_example_of_the_paper(self):
        """4.2.1: [2-18] is split by [1-4], [7-10] and [15-16]; what they cover is not inserted again."""
        found = integrate([ranges((1, 4), (7, 10), (15, 16)), ranges((2, 18))])
        assert pairs(found) == [(1, 4), (5, 6), (7, 10), (11, 14), (15, 16), (17, 18)]

    @given(st.lists(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=4), max_size=5))
    def test_ranges_become_exclusive_and_cover_the_same(self, partitions):
        made = [[(low, low + size) for low, size in spans] for spans in partitions]
        alone = [CodeRanges(codes(low), codes(high)) for spans in made for low, high in spans]
        found = pairs(integrate(alone))
        assert all(a[1] < b[0] for a, b in itertools.pairwise(found))
        wanted = {n for spans in made for low, high in spans for n in range(low, high + 1)}
        assert {n for low, high in found for n in range(low, high + 1)} == wanted
        assert len(found) <= max(0, 2 * len(alone) - 1)

    def test_repeats_and_nested_ranges(self):
        assert pairs(integrate([ranges((1, 9)), ranges((1, 9)), ranges((3, 4))])) == [(1, 2), (3, 4), (5, 9)]
        assert pairs(integrate([])) == []


def test_example_42_the_extra_cost_of_a_merge():
    """P = {1, 3, 6, 8, 9, 13} uses [8-9], Q [11-12]: merged, 10 to 12 count against P, and 8 to 10 against Q."""
    found = ranges((8, 9), (11, 12))
    before = cost(found, [0b01, 0b10], UNIFORM)
    after = cost(ranges((8, 12)), [0b11], UNIFORM)
    assert after - before == 3 + 3
    only_p = cost(ranges((8, 12)), [0b01], UNIFORM) - cost(ranges((8, 9)), [0b01], UNIFORM)
    assert only_p == 3, "the popularities of 10, 11 and 12"
    assert pairs(merge(found, [0b01, 0b10], [1], UNIFORM)[0]) == [(8, 12)]


@given(
    st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=6), min_size=1, max_size=4), st.integers(1, 4), workloads
)
def test_the_cost_is_equation_3(partitions: list[set[int]], most: int, known: Popularity):
    held = [codes(*sorted(values)) for values in partitions]
    mutual = integrate([sub_partition(each, 3, known) for each in held])
    found = merge(mutual, users(len(mutual), [ranges_meeting(mutual, CodeRanges(c, c)) for c in held]), [most], known)[
        0
    ]
    used_by = users(len(found), [ranges_meeting(found, CodeRanges(c, c)) for c in held])
    own = sum(float(known.of(each, each).sum()) for each in held)
    direct = sum(
        enclosed([r for r in pairs(found) if any(r[0] <= v <= r[1] for v in values)], values, known)
        for values in partitions
    )
    assert cost(found, used_by, known) - own == pytest.approx(direct, abs=1e-6)


def best_merge(found: CodeRanges, used_by: list[int], most: int, known: Popularity) -> float:
    """The least cost of so many ranges, by trying every way to merge neighbours."""
    lows, highs = found.lows, found.highs
    least = float("inf")
    for cuts in itertools.combinations(range(1, len(found)), min(most, len(found)) - 1):
        edges = [0, *cuts, len(found)]
        merged = CodeRanges(lows[edges[:-1]], highs[[e - 1 for e in edges[1:]]])
        together = [
            int(np.bitwise_or.reduce(np.array(used_by[a:b], dtype=object))) for a, b in itertools.pairwise(edges)
        ]
        least = min(least, cost(merged, together, known))
    return least


def test_greedy_merging_comes_close_to_the_best():
    rng = np.random.default_rng(11)
    ratios = []
    for _ in range(60):
        held = [integer_codes(np.unique(rng.integers(0, 200, rng.integers(2, 8)))) for _ in range(4)]
        mutual = integrate([sub_partition(each, 3, UNIFORM) for each in held])
        used_by = users(len(mutual), [ranges_meeting(mutual, CodeRanges(each, each)) for each in held])
        kept = [i for i, each in enumerate(used_by) if each]
        mutual = CodeRanges(mutual.lows[kept], mutual.highs[kept])
        used_by = [used_by[i] for i in kept]
        for most in (2, 4):
            (found,) = merge(mutual, used_by, [most], UNIFORM)
            now = cost(
                found, users(len(found), [ranges_meeting(found, CodeRanges(each, each)) for each in held]), UNIFORM
            )
            best = best_merge(mutual, used_by, most, UNIFORM)
            assert now >= best - 1e-6
            ratios.append(now / best)
    assert statistics.mean(ratios) < 1.05
    assert max(ratios) < 1.5


def test_smaller_tables_continue_from_larger_ones_and_unused_ranges_go():
    found = ranges((1, 4), (8, 9), (12, 12), (30, 39))
    used_by = [0b01, 0b11, 0b00, 0b10]
    large, small = merge(found, used_by, [2, 3], UNIFORM)
    assert pairs(large) == [(1, 4), (8, 9), (30, 39)]
    assert pairs(small) == [(1, 9), (30, 39)]
    assert pairs(merge(found, used_by, [50], UNIFORM)[0]) == pairs(large)
    assert pairs(merge(ranges(), [], [3], UNIFORM)[0]) == []
    with pytest.raises(SidestepError, match="at least one range"):
        merge(found, used_by, [0], UNIFORM)


def test_places_and_uses():
    found = ranges((1, 4), (8, 9))
    assert places(found, codes(0, 1, 4, 5, 8, 10)).tolist() == [-1, 0, 0, -1, 1, -1]
    assert places(ranges(), codes(1)).tolist() == [-1]
    assert ranges_meeting(found, ranges((4, 8))).tolist() == [0, 1]
    assert ranges_meeting(found, ranges((5, 7))).tolist() == []
    assert ranges_meeting(found, ranges()).tolist() == []


def test_many_partitions_share_bits_while_ranges_are_merged(monkeypatch):
    monkeypatch.setattr(grtmerge, "MOST_COLUMNS", 2)
    assert users(2, [np.array([0]), np.array([1]), np.array([0, 1]), np.array([], dtype=np.int64)]) == [0b11, 0b11]
