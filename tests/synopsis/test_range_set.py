"""Range-sets: the paper's examples, the least that n ranges can cover, growth, and storage."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Null, Within
from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import DOUBLE, INTEGER, LONG, STRING
from sidestep.synopsis.contract.block_ranges import STORED, BlockRanges, block_ranges, from_column
from sidestep.synopsis.range_set import (
    RANGE_SET,
    RangeSets,
    compact,
    grow,
    range_set,
)
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges, end_to_end, joined, value_ranges
from sidestep.synopsis.values.codes import GREATEST, Codes, Coding, codes_of, integer_codes, integer_values
from tests.synopsis.stored import held, kept

CODING = Coding(INTEGER)


def codes(*values: int) -> Codes:
    return integer_codes(np.array(values, dtype=np.int64))


def ranges(*pairs: tuple[int, int]) -> CodeRanges:
    return CodeRanges(codes(*(low for low, _ in pairs)), codes(*(high for _, high in pairs)))


def pairs(found: CodeRanges) -> list[tuple[int, int]]:
    return list(zip(integer_values(found.lows).tolist(), integer_values(found.highs).tolist(), strict=True))


def unite(sets: Sequence[CodeRanges]) -> CodeRanges:
    return joined(*(np.concatenate([codes(), *(getattr(each, end) for each in sets)]) for end in ("lows", "highs")))


def covered(found: Sequence[tuple[int, int]]) -> int:
    return sum(high - low + 1 for low, high in found)


class TestTheExamplesOfThePaper:
    """Table 2 and Figure 4: three partitions of date_dim, and what a filter on the year says of date_sk."""

    ZONES: ClassVar = {
        "date_sk": [ranges((3000, 5000)), ranges((1000, 6000)), ranges((7000, 12000))],
        "year": [ranges((1995, 2000)), ranges((1990, 2002)), ranges((2005, 2018))],
    }
    SETS: ClassVar = {
        "date_sk": [
            ranges((3000, 3500), (4000, 5000)),
            ranges((1000, 2000), (5000, 6000)),
            ranges((7000, 10000), (11000, 12000)),
        ],
        "year": [
            ranges((1995, 1997), (1998, 2000)),
            ranges((1990, 1993), (1998, 2002)),
            ranges((2005, 2014), (2015, 2018)),
        ],
    }

    def induced(self, sets: dict[str, list[CodeRanges]], year: IntervalSet) -> tuple[list[int], CodeRanges]:
        wanted = code_ranges(year, CODING)
        assert wanted is not None
        matching = block_ranges(CODING, sets["year"]).meeting(wanted)
        chosen = [each for each, met in zip(sets["date_sk"], matching, strict=True) if met]
        return (np.flatnonzero(matching) + 1).tolist(), unite(chosen)

    @pytest.mark.parametrize(
        ("year", "partitions", "expected"),
        [
            (IntervalSet.at_most(INTEGER, 1995), [1, 2], [(1000, 6000)]),
            (IntervalSet(INTEGER, (Interval(2003, 2004),)), [], []),
            (IntervalSet.at_least(INTEGER, 2010, closed=False), [3], [(7000, 12000)]),
        ],
    )
    def test_table_2b(self, year, partitions, expected):
        found, induced = self.induced(self.ZONES, year)
        assert found == partitions
        assert pairs(induced) == expected
        assert value_ranges(induced, CODING).intervals == tuple(Interval(low, high) for low, high in expected)
        share = sum(high - low for low, high in expected) / (12000 - 1000)
        assert share == pytest.approx(0.45 if expected else 0, abs=0.01)

    def test_figure_4b_covers_30_percent_less(self):
        found, induced = self.induced(self.SETS, IntervalSet.at_most(INTEGER, 1995))
        assert found == [1, 2]
        assert pairs(induced) == [(1000, 2000), (3000, 3500), (4000, 6000)]
        assert sum(high - low for low, high in pairs(induced)) == 0.7 * (6000 - 1000)

    def test_table_4(self):
        now = block_ranges(CODING, [ranges((3, 5), (10, 20), (23, 27))])
        block = np.zeros(1, dtype=np.int64)
        now = grow(now, block, codes(6), 3)
        assert pairs(now.of_block(0)) == [(3, 6), (10, 20), (23, 27)]
        now = grow(now, np.zeros(2, dtype=np.int64), codes(13, 15), 3)  # 20 deleted and 5 changed to 15: no matter
        assert pairs(now.of_block(0)) == [(3, 6), (10, 20), (23, 27)]
        now = grow(now, block, codes(52), 3)
        assert pairs(now.of_block(0)) == [(3, 6), (10, 27), (52, 52)]

    def test_lemma_2_a_merged_range_set_need_not_be_the_best(self):
        one, two = codes(0, 11, 12, 14, 22), codes(0, 4, 5, 10, 24, 25)
        assert pairs(range_set(CODING, one, 2)) == [(0, 0), (11, 22)]
        assert pairs(range_set(CODING, two, 2)) == [(0, 10), (24, 25)]
        assert pairs(range_set(CODING, np.concatenate([one, two]), 2)) == [(0, 14), (22, 25)]
        merged = compact(CODING, unite([range_set(CODING, one, 2), range_set(CODING, two, 2)]), 2)
        assert pairs(merged) == [(0, 22), (24, 25)]

    def test_lemma_2s_exception_is_none(self):
        """Fewer than 2·n distinct values do not make merging the best: three ranges lose two gaps of five values."""
        one, two = codes(0, 40, 80, 130, 180), codes(105, 155)
        merged = compact(CODING, unite([range_set(CODING, each, 3) for each in (one, two)]), 3)
        best = range_set(CODING, np.concatenate([one, two]), 3)
        assert pairs(best) == [(0, 0), (40, 40), (80, 180)]
        assert covered(pairs(merged)) > covered(pairs(best))


def best_cover(values: Sequence[int], most: int) -> int:
    """The least that so many ranges can cover, by trying every way to cut."""
    found = sorted(set(values))
    ways = (cuts for n in range(min(most, len(found))) for cuts in itertools.combinations(range(1, len(found)), n))
    return min(
        covered([(found[a], found[b - 1]) for a, b in itertools.pairwise([0, *cuts, len(found)])]) for cuts in ways
    )


@given(st.lists(st.integers(0, 60), min_size=1, max_size=9), st.integers(1, 5))
def test_no_other_ranges_cover_less(values: list[int], most: int):
    found = pairs(range_set(CODING, codes(*values), most))
    assert len(found) <= most
    assert covered(found) == best_cover(values, most)
    assert all(any(low <= value <= high for low, high in found) for value in values)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9)), min_size=1), st.integers(1, 5))
def test_compaction_is_the_least_cover_of_the_ranges(spans: list[tuple[int, int]], most: int):
    start = joined(codes(*(low for low, _ in spans)), codes(*(low + size for low, size in spans)))
    found = pairs(compact(CODING, start, most))
    everything = [n for low, high in pairs(start) for n in range(low, high + 1)]
    assert len(found) <= most
    assert all(any(low <= n <= high for low, high in found) for n in everything)
    gaps = sorted((b[0] - a[1] - 1 for a, b in itertools.pairwise(pairs(start))), reverse=True)
    whole = pairs(start)[-1][1] - pairs(start)[0][0] + 1
    assert covered(found) == whole - sum(gaps[: most - 1])


def one_by_one(start: list[tuple[int, int]], values: Sequence[int], most: int) -> list[tuple[int, int]]:
    """The greedy growth of section 4.1, as the paper tells it."""
    now = list(start)
    for value in values:
        if any(low <= value <= high for low, high in now):
            continue
        now = sorted([*now, (value, value)])
        while len(now) > most:
            at = min(range(len(now) - 1), key=lambda i: now[i + 1][0] - now[i][1])
            now[at : at + 2] = [(now[at][0], now[at + 1][1])]
    return now


@given(
    st.lists(st.lists(st.integers(0, 300), max_size=8), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 350)), max_size=12),
    st.integers(1, 4),
)
def test_growth_covers_all_and_no_more_than_one_by_one(blocks, added, most):
    start = block_ranges(CODING, [range_set(CODING, codes(*values), most) for values in blocks])
    added = [(block % len(blocks), value) for block, value in added]
    after = grow(start, np.array([b for b, _ in added], dtype=np.int64), codes(*(v for _, v in added)), most)
    for block, values in enumerate(blocks):
        found = pairs(after.of_block(block))
        new = [value for b, value in added if b == block]
        assert len(found) <= most
        assert all(any(low <= value <= high for low, high in found) for value in [*values, *new])
        assert covered(found) <= covered(one_by_one(pairs(start.of_block(block)), new, most))


def test_growing_one_value_is_the_greedy_step():
    rng = np.random.default_rng(3)
    for _ in range(200):
        start = range_set(CODING, codes(*rng.integers(0, 100, 8).tolist()), 3)
        value = int(rng.integers(-20, 120))
        after = grow(block_ranges(CODING, [start]), np.zeros(1, dtype=np.int64), codes(value), 3)
        assert covered(pairs(after.of_block(0))) == covered(one_by_one(pairs(start), [value], 3))


def test_an_unknown_block_stays_unknown_when_it_grows():
    after = grow(block_ranges(CODING, [None]), np.zeros(1, dtype=np.int64), codes(5), 3)
    assert list(after.of_block(0)) == []
    assert after.unknown is not None
    assert after.unknown.tolist() == [True]
    assert list(after.outer.of_block(0)) == [(0, int(GREATEST))]


def test_growth_names_what_does_not_fit():
    start = block_ranges(CODING, [None])
    with pytest.raises(SidestepError, match="1 blocks that there are"):
        grow(start, np.ones(1, dtype=np.int64), codes(5), 3)
    with pytest.raises(SidestepError, match="got 2 values and 1 blocks"):
        grow(start, np.zeros(1, dtype=np.int64), codes(5, 6), 3)
    with pytest.raises(SidestepError, match="at least one range"):
        range_set(CODING, codes(1), 0)


class TestBadInput:
    @pytest.mark.parametrize("most", [1, 2, 50])
    def test_extremes(self, most: int):
        ends = [-(2**63), 2**63 - 1]
        found = range_set(Coding(LONG), integer_codes(np.array([*ends, 0, 0])), most)
        assert pairs(found)[0][0] == ends[0]
        assert pairs(found)[-1][1] == ends[1]
        assert len(found) == min(most, 3)

    def test_nothing_one_value_and_more_ranges_than_values(self):
        assert len(range_set(CODING, codes(), 4)) == 0
        assert pairs(range_set(CODING, codes(7, 7), 4)) == [(7, 7)]
        assert pairs(range_set(CODING, codes(1, 2, 3), 4)) == [(1, 3)], "neighbours have nothing between them"

    def test_nan_and_infinities(self):
        blocks = [pa.array([1.0, float("inf"), None]), pa.array([float("nan")]), pa.array([None], pa.float64())]
        sets = RangeSets({"x": held(RANGE_SET, DOUBLE, blocks, 4)})
        x = Column("x", DOUBLE)

        def ask(found: IntervalSet) -> list[bool] | None:
            return kept(sets, Within(x, found))

        assert ask(IntervalSet.at_least(DOUBLE, 5.0)) == [True, True, False]
        assert ask(IntervalSet(DOUBLE, (Interval(2.0, 1e300),))) == [False, False, False]
        assert ask(IntervalSet.point(DOUBLE, float("nan"))) == [False, True, False]
        assert ask(IntervalSet.full(DOUBLE)) == [True, True, False]
        assert ask(IntervalSet.empty(DOUBLE)) == [False, False, False]

    def test_another_type_or_column_or_atom_has_no_answer(self):
        sets = RangeSets({"x": held(RANGE_SET, INTEGER, [pa.array([1], pa.int32())], 2)})
        assert sets.can_satisfy(Within(Column("x", LONG), IntervalSet.full(LONG))) is None
        assert sets.can_satisfy(Within(Column("y", INTEGER), IntervalSet.full(INTEGER))) is None
        assert sets.can_satisfy(Null(Column("x", INTEGER))) is None
        assert sets.types == {"x": INTEGER}


class TestStorage:
    def test_ranges_come_back_and_unknown_is_told(self):
        blocks = [
            pa.array([1, 2, 5, 9], pa.int32()),
            pa.array(["?"]),
            pa.nulls(2, pa.int32()),
            pa.array([7], pa.int32()),
        ]
        back = held(RANGE_SET, INTEGER, blocks, 2)
        assert isinstance(back, BlockRanges)
        assert [pairs(back.of_block(block)) for block in range(4)] == [[(1, 5), (9, 9)], [], [], [(7, 7)]]
        assert back.unknown is not None
        assert back.unknown.tolist() == [False, True, False, False]
        none = held(RANGE_SET, INTEGER, [], 2)
        assert isinstance(none, BlockRanges)
        assert none.blocks == 0

    def test_chunks_and_slices_are_read(self):
        column = pa.array([end_to_end(ranges((n, n))) for n in range(6)], STORED)
        back = from_column(CODING, pa.chunked_array([column.slice(1, 2), column.slice(4, 2)]))
        assert integer_values(back.lows).tolist() == [1, 2, 4, 5]
        assert integer_values(from_column(CODING, column.slice(3)).lows).tolist() == [3, 4, 5]

    @pytest.mark.parametrize("broken", [[5, 3], [1], [1, 4, 4, 6], [1, 9, 3, 4]])
    def test_what_contradicts_itself_is_unknown(self, broken: list[int]):
        back = from_column(CODING, pa.array([[1, 2], broken, [3, 4]], pa.list_(pa.uint64())))
        assert [len(back.of_block(block)) for block in range(3)] == [1, 0, 1]
        assert back.unknown is not None
        assert back.unknown.tolist() == [False, True, False]
        assert list(back.outer.of_block(1)) == [(0, int(GREATEST))]
        assert list(back.of_block(2)) == [(3, 4)]

    def test_a_column_of_another_kind_is_refused(self):
        with pytest.raises(SidestepError, match="index the table again"):
            from_column(CODING, pa.array([[1.5]]))

    def coded(self, blocks: Sequence[Sequence[str]], prefixes: Sequence[bytes], most: int) -> BlockRanges:
        sets = []
        for block, prefix in zip(blocks, prefixes, strict=True):
            found = codes_of(pa.array(block), Coding(STRING, prefix))
            assert found is not None
            sets.append(end_to_end(range_set(Coding(STRING, prefix), found, most)))
        (back,) = RANGE_SET.read(STRING, {"ranges": pa.array(sets, STORED), "rangesprefix": pa.array(prefixes)}, [])
        assert isinstance(back, BlockRanges)
        return back

    def test_blocks_coded_with_different_prefixes_share_what_is_common(self):
        found = self.coded([["abcde1", "abcde9"], ["abcd", "abcdzz"]], [b"abcde", b"abcd"], 4)
        assert found.coding.prefix == b"abcd"
        for value, expected in [
            ("abcde1", [1, 0]),
            ("abcde5", [0, 0]),
            ("abcdzz", [0, 1]),
            ("abcd", [0, 1]),
            ("b", [0, 0]),
        ]:
            answer = kept(RangeSets({"x": found}), Within(Column("x", STRING), IntervalSet.point(STRING, value)))
            assert answer == [bool(x) for x in expected], value

    @given(
        st.lists(st.lists(st.text("ab\0z", max_size=6), min_size=1, max_size=4), min_size=1, max_size=3),
        st.lists(st.text("ab\0z", max_size=3), min_size=3, max_size=3),
    )
    def test_no_value_is_lost_between_prefixes(self, blocks, prefixes):
        found = self.coded(blocks, [prefix.encode() for prefix in prefixes[: len(blocks)]], 2)
        for number, block in enumerate(blocks):
            for code in codes_of(pa.array(block), found.coding).tolist():  # type: ignore[union-attr]
                assert any(low <= code <= high for low, high in found.of_block(number))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), st.data())
def test_what_one_knows_nothing_of_is_taken_from_the_other(counts: list[tuple[int, int]], data: st.DataObject):
    """Blocks of zero to two ranges, or unknown, on either side."""

    def sets(side: int) -> list[CodeRanges | None]:
        known = [data.draw(st.booleans()) for _ in counts]
        every = [ranges(*((10 * n + side, 10 * n + 3) for n in range(pair[side]))) for pair in counts]
        return [each if tells else None for each, tells in zip(every, known, strict=True)]

    mine, theirs = sets(0), sets(1)
    both = block_ranges(CODING, mine).fill_unknown(block_ranges(CODING, theirs))
    unknown = np.zeros(len(counts), dtype=bool) if both.unknown is None else both.unknown
    for block, (one, other) in enumerate(zip(mine, theirs, strict=True)):
        expected = one if one is not None else other
        assert bool(unknown[block]) is (expected is None)
        assert list(both.of_block(block)) == ([] if expected is None else list(expected))
        assert list(both.outer.of_block(block)) == ([(0, int(GREATEST))] if expected is None else list(expected))
