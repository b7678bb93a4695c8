"""Global range tables: the paper's examples, bits that lose no value, storage, and what comes after the table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Null, Within
from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import DOUBLE, INTEGER, LONG, STRING, DataType
from sidestep.synopsis import Catalog, kept_blocks, zone_maps
from sidestep.synopsis.global_ranges import GRT, GlobalRanges
from sidestep.synopsis.grt import encoding as grt
from sidestep.synopsis.grt.encoding import BlockBits, bits_bytes, global_ranges, ranges_per_partition
from sidestep.synopsis.grt.merge import cut_all, places, sub_partition
from sidestep.synopsis.grt.popularity import Popularity, popularity, uniform
from sidestep.synopsis.grt.table import GlobalRangeTable, encode_blocks
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges
from sidestep.synopsis.values.codes import GREATEST, Codes, Coding, codes_of, integer_codes
from tests.synopsis.stored import encode, kept

CODING = Coding(INTEGER)


def codes(*values: int) -> Codes:
    return integer_codes(np.unique(np.array(values, dtype=np.int64)))


def ranges(*pairs: tuple[int, int]) -> CodeRanges:
    return CodeRanges(codes(*(low for low, _ in pairs)), codes(*(high for _, high in pairs)))


def within(type: DataType, found: IntervalSet) -> Within:
    return Within(Column("x", type), found)


def wanted(found: IntervalSet) -> CodeRanges:
    made = code_ranges(found, CODING)
    assert made is not None
    return made


class TestExample41:
    """Figure 1 and Example 4.1.

    The figure is not in the text. Its table has the ranges [1-3], [5-9], [11-12], a fourth, and [15-16]; P1 is [1-13]
    by its least and greatest value and has nothing in [11-12]; P3 holds 15 and 16. So the fourth range holds 13, and we
    take it to be [13-13]; the values of P1 are made up to fit, and all of P2.
    """

    TABLE = GlobalRangeTable(CODING, ranges((1, 3), (5, 9), (11, 12), (13, 13), (15, 16)))
    P1, P2, P3 = codes(1, 3, 5, 7, 9, 13), codes(2, 8, 11, 12), codes(15, 16)

    def text(self, words: np.ndarray) -> str:
        """The five bits of the paper's table; our sixth is for what lies outside of it."""
        return format(int(words[0]) & 0b11111, "05b")

    def test_partitions_are_encoded(self):
        assert self.text(self.TABLE.encode(self.P3)) == "10000"
        assert self.text(self.TABLE.encode(self.P1)) == "01011"
        assert self.text(self.TABLE.encode(self.P2)) == "00111"

    def test_the_query_is_encoded_and_prunes_p3(self):
        query = wanted(IntervalSet.at_most(INTEGER, 12))
        assert self.text(self.TABLE.query(query)) == "00111"
        bits = BlockBits(self.TABLE, encode_blocks(self.TABLE, [self.P1, self.P2, self.P3]))
        assert bits.meeting(query).tolist() == [True, True, False]

    def test_p1_is_known_to_have_nothing_in_11_to_12(self):
        bits = BlockBits(self.TABLE, encode_blocks(self.TABLE, [self.P1, self.P2, self.P3]))
        assert bits.meeting(wanted(IntervalSet(INTEGER, (Interval(11, 12),)))).tolist() == [False, True, False]
        assert bits.meeting(wanted(IntervalSet.point(INTEGER, 4))).tolist() == [False, False, False], "a gap of all"


def test_popularity_is_the_share_of_predicates_that_a_value_satisfies():
    """4.1.1: of 1 <= x <= 5 and 4 <= x <= 10, the values 4 and 5 satisfy both."""
    asked = [IntervalSet(INTEGER, (Interval(low, high),)) for low, high in ((1, 5), (4, 10))]
    known = popularity(CODING, [(each, 1.0) for each in asked])
    each = known.of(codes(*range(0, 12)), codes(*range(0, 12)))
    assert each[1:11] == pytest.approx([0.5, 0.5, 0.5, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5])
    assert 0 < each[0] == each[11] < 1e-6, "what nobody asked for has a little popularity"
    gap = known.of(codes(2), codes(6))
    assert gap == pytest.approx([0.5 + 0.5 + 1 + 1 + 0.5]), "equation 1"


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10), st.integers(1, 3)), min_size=1, max_size=6),
    st.integers(-3, 45),
    st.integers(0, 20),
)
def test_popularity_of_a_gap_is_the_sum_over_its_values(asked, low, size):
    predicates = [(IntervalSet(INTEGER, (Interval(a, a + n),)), float(w)) for a, n, w in asked]
    known = popularity(CODING, predicates)
    total = sum(weight for _, weight in predicates)
    values = range(low, low + size + 1)
    expected = sum(sum(w for ranges, w in predicates if ranges.contains(v)) / total for v in values)
    assert known.of(codes(low), codes(low + size))[0] == pytest.approx(expected, abs=1e-6)


def test_popularity_without_a_usable_workload_is_uniform():
    for predicates in ([], [(IntervalSet.empty(INTEGER), 1.0)], [(IntervalSet.full(INTEGER), 0.0)]):
        assert popularity(CODING, predicates).of(codes(1), codes(4)).tolist() == [4.0]
    points = popularity(Coding(DOUBLE), [(IntervalSet.point(DOUBLE, 1.5), 1.0)])
    assert points.each.tolist() == [1.0]
    everything = popularity(Coding(DOUBLE), [(IntervalSet.full(DOUBLE), 1.0)])
    assert np.isfinite(everything.of(np.array([0], dtype=np.uint64), np.array([GREATEST])))[0]
    with pytest.raises(SidestepError, match="least code"):
        Popularity(CODING, codes(1), np.ones(1))


def test_spread_popularity_reaches_the_neighbours_of_what_was_asked_for():
    asked = [(IntervalSet.point(LONG, value), 1.0) for value in (100, 200, 10**15, 10**15 + 100, 10**15 + 200)]
    exact, spread = (popularity(Coding(LONG), asked, spread=share) for share in (0.0, 1.0))
    near, far = (codes(110), codes(190)), (codes(10**9), codes(10**9 + 80))
    assert spread.of(*near)[0] > 10**6 * spread.of(*far)[0]
    assert exact.of(*near)[0] == pytest.approx(exact.of(*far)[0])
    assert spread.of(codes(100), codes(100))[0] >= exact.of(codes(100), codes(100))[0]
    everything = spread.of(np.array([0], dtype=np.uint64), np.array([GREATEST]))[0]
    assert everything == pytest.approx(2.0, rel=0.05), "as much is lent as there was"
    ranges = [(IntervalSet.at_least(LONG, value), 2.0) for value in (5, 9)]
    assert popularity(Coding(LONG), ranges, spread=0.5).of(codes(9), codes(9))[0] == pytest.approx(1.5)


def test_popularity_tells_small_gaps_among_far_values():
    far = 2**62
    known = popularity(Coding(LONG), [(IntervalSet.point(LONG, far), 1.0), (IntervalSet.point(LONG, 5), 1.0)])
    before = known.of(codes(far - 3), codes(far - 1))[0]
    assert known.of(codes(far - 3), codes(far))[0] == pytest.approx(0.5)
    assert 0 < before < 1e-10


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Codes], int]:
    blocks = draw(st.lists(st.lists(st.integers(0, 80), max_size=8), min_size=1, max_size=6))
    return [codes(*block) for block in blocks], draw(st.integers(2, 12))


@given(cases(), st.lists(st.tuples(st.integers(-5, 90), st.integers(0, 9)), min_size=1, max_size=4))
def test_no_block_that_holds_a_value_is_lost(case, spans):
    blocks, bits = case
    made = encode(blocks, bits, uniform(CODING))
    assert made.table.bits <= bits
    for low, size in spans:
        ranges = IntervalSet(INTEGER, (Interval(low, low + size),))
        inside = wanted(ranges)
        for block, keep in zip(blocks, made.meeting(inside), strict=True):
            assert keep or not np.any((block >= inside.lows[0]) & (block <= inside.highs[0]))


@given(cases(), st.lists(st.integers(-50, 200), min_size=1, max_size=6))
def test_blocks_that_come_later_lose_nothing(case, later):
    blocks, bits = case
    table = encode(blocks, bits, uniform(CODING)).table
    found = BlockBits(table, encode_blocks(table, [*blocks, codes(*later)]))
    for value in later:
        assert found.meeting(wanted(IntervalSet.point(INTEGER, value)))[-1]


def test_outside_is_one_bit_and_only_queries_outside_ask_for_it():
    table = GlobalRangeTable(CODING, ranges((1, 3), (4, 9), (20, 30)))
    old, new = codes(2, 25), codes(15)
    found = BlockBits(table, encode_blocks(table, [old, new]))
    assert found.meeting(wanted(IntervalSet.point(INTEGER, 15))).tolist() == [False, True]
    assert found.meeting(wanted(IntervalSet.point(INTEGER, 12))).tolist() == [False, True], "it may be any value"
    assert found.meeting(wanted(IntervalSet(INTEGER, (Interval(2, 8),)))).tolist() == [True, False], "no gap between"
    assert found.meeting(wanted(IntervalSet.points(INTEGER, [2, 22, 30]))).tolist() == [True, False]
    assert found.meeting(wanted(IntervalSet(INTEGER, (Interval(8, 20),)))).tolist() == [True, True]


def test_ranges_can_be_encoded_where_values_are_not_at_hand():
    table = GlobalRangeTable(CODING, ranges((1, 3), (5, 9), (20, 30)))
    assert table.encode_ranges(ranges((2, 6)))[0] == 0b1011
    assert table.encode_ranges(ranges((5, 7), (25, 25)))[0] == 0b0110
    assert table.encode_ranges(ranges())[0] == 0


def test_a_merged_range_reaches_beyond_a_block_and_the_zone_map_does_not():
    table = GlobalRangeTable(CODING, ranges((1, 50)))
    bits = GlobalRanges({"x": BlockBits(table, encode_blocks(table, [codes(1, 2)]))})
    formula = Within(Column("x", INTEGER), IntervalSet.point(INTEGER, 40))
    assert kept(bits, formula) == [True]
    one = np.ones(1, dtype=np.int64)
    zones = zone_maps({"x": INTEGER}, {"lower:x": pa.array([1]), "upper:x": pa.array([2])}, one)
    catalog = Catalog(np.zeros(1, dtype=np.int32), one, one, 1, (bits, zones))
    assert kept_blocks(catalog, formula).tolist() == [False]


@given(st.lists(st.sets(st.integers(0, 300), min_size=1, max_size=40), min_size=1, max_size=6), st.integers(1, 50))
def test_parts_set_no_bit_that_values_do_not_but_of_unpopular_ranges(blocks: list[set[int]], most: int):
    """And never the reverse: a value that a block holds has its bit, whatever the block left for the table."""
    known, held = uniform(CODING), [codes(*each) for each in blocks]
    left = [sub_partition(each, most, known) for each in held]
    for bits in (3, 8, 32):
        (table,) = global_ranges(cut_all(left, 16, known), [bits], known, left)
        for values, parts in zip(held, left, strict=True):
            by_values, by_parts = flags(table, table.encode(values)), flags(table, table.encode_ranges(parts))
            assert not (by_values & ~by_parts).any()
            extra = np.flatnonzero(by_parts & ~by_values)
            assert not len(extra) or len(parts) == most, "all gaps were left"
            if len(parts) > 1:
                narrowest = known.of(parts.highs[:-1] + np.uint64(1), parts.lows[1:] - np.uint64(1)).min()
                extra = extra[extra < len(table.ranges)]
                assert (known.of(table.ranges.lows[extra], table.ranges.highs[extra]) <= narrowest).all()


@given(st.sets(st.integers(-9, 40)), st.sets(st.integers(-9, 40)), st.sampled_from([2, 4, 9]), st.booleans())
def test_bits_as_ranges_again_hold_every_value(held: set[int], later: set[int], bits: int, ends: bool):
    """Also values that came after the table, and the very ends of what there can be."""
    values = np.append(codes(*held), np.array([0, GREATEST] if ends else [], dtype=np.uint64))
    values = np.unique(values).astype(np.uint64)
    if not len(values):
        return
    made = encode([values, values[:1]], bits, uniform(CODING))
    table, coming = made.table, codes(*later)
    for some in (values, coming, values[:1]):
        again = table.decode(table.encode(some))
        assert (places(again, some) >= 0).all()
        assert (flags(table, table.encode_ranges(again)) == flags(table, table.encode(some))).all(), "and nothing else"
    union = made.union(np.array([True, True]))
    assert (places(union, values) >= 0).all()


def flags(table: GlobalRangeTable, words: np.ndarray) -> np.ndarray:
    return np.unpackbits(words.view(np.uint8), bitorder="little")[: table.bits].astype(np.bool_)


def test_too_many_ranges_are_cut_together_and_nothing_is_lost(monkeypatch):
    monkeypatch.setattr(grt, "_MOST_RANGES", 50)
    rng = np.random.default_rng(6)
    starts = np.repeat(rng.integers(0, 2**40, (10, 4)), 4, axis=0)  # four neighbours have the same clusters
    blocks = [codes(*(each[:, np.newaxis] + rng.integers(0, 99, 5)).ravel().tolist()) for each in starts]
    made = encode(blocks, 64, uniform(CODING), per_block=8)
    count = 0
    for number, block in enumerate(blocks):
        met = made.meeting(CodeRanges(block[:1], block[:1]))
        assert met[number]
        count += int(met.sum())
    assert count < 0.25 * len(blocks) ** 2


def test_words_are_asked_in_pieces():
    blocks = [codes(n) for n in range(0, 4000, 2)]
    made = encode(blocks, 200, uniform(CODING))
    many = BlockBits(made.table, np.tile(made.words, (1, 40)))
    query = wanted(IntervalSet(INTEGER, (Interval(100, 300),)))
    assert np.array_equal(many.meeting(query), np.tile(made.meeting(query), 40))
    assert made.meeting(query).sum() < len(blocks) / 2


class TestBadInput:
    def test_nothing_to_encode(self):
        made = encode([codes(), codes()], 64, uniform(CODING))
        assert made.table.bits == 1
        assert made.meeting(wanted(IntervalSet.full(INTEGER))).tolist() == [False, False]
        assert encode([], 64, uniform(CODING)).blocks == 0

    def test_one_value_and_more_bits_than_values(self):
        made = encode([codes(5), codes(5, 6, 9)], 512, uniform(CODING))
        assert made.table.bits == 4
        assert made.meeting(wanted(IntervalSet.point(INTEGER, 9))).tolist() == [False, True]

    def test_extremes_of_the_type(self):
        made = encode([codes(-(2**63), 2**63 - 1), codes(0)], 8, uniform(Coding(LONG)))
        for value, expected in ((-(2**63), [True, False]), (2**63 - 1, [True, False]), (0, [False, True])):
            assert kept(GlobalRanges({"x": made}), within(LONG, IntervalSet.point(LONG, value))) == expected

    def test_nan_and_infinities(self):
        coding = Coding(DOUBLE)
        values = [[1.0, float("nan")], [float("-inf"), 2.0], [float("inf"), -0.0]]
        blocks = [np.unique(codes_of(pa.array(block), coding)) for block in values]  # type: ignore[arg-type]
        made = encode(blocks, 8, uniform(coding))

        def ask(ranges: IntervalSet) -> list[bool] | None:
            return kept(GlobalRanges({"x": made}), within(DOUBLE, ranges))

        assert ask(IntervalSet.point(DOUBLE, float("nan"))) == [True, False, False]
        assert ask(IntervalSet.point(DOUBLE, 0.0)) == [False, False, True]
        assert ask(IntervalSet.at_least(DOUBLE, 3.0)) == [True, False, True]

    def test_strings_with_one_long_beginning(self):
        coding = Coding(STRING)
        blocks = [np.unique(codes_of(pa.array(["x" * 100 + c]), coding)) for c in "ab"]  # type: ignore[arg-type]
        made = encode(blocks, 8, uniform(coding))
        formula = within(STRING, IntervalSet.point(STRING, "x" * 100 + "a"))
        assert kept(GlobalRanges({"x": made}), formula) == [True, True]

    def test_too_few_bits(self):
        with pytest.raises(SidestepError, match="at least 2 bits"):
            encode([codes(1)], 1, uniform(CODING))
        with pytest.raises(SidestepError, match="at least one range"):
            sub_partition(codes(1), 0, uniform(CODING))

    def test_partitions_start_with_fewer_ranges_the_more_there_are(self):
        assert [ranges_per_partition(n, 256) for n in (1, 1_000, 10_000, 10**6)] == [512, 65, 16, 16]


class TestStorage:
    BITS = encode([codes(1, 900), codes(500), codes(3, 501)], 6, uniform(CODING))

    def test_tables_come_back_from_their_text(self):
        back = GlobalRangeTable.from_json(self.BITS.table.to_json())
        assert back.identity == self.BITS.table.identity
        assert list(back.ranges) == list(self.BITS.table.ranges)
        with pytest.raises(SidestepError, match="no global range table"):
            GlobalRangeTable.from_json("{}")

    def stored(self) -> dict[str, pa.Array]:
        words = [bits_bytes(self.BITS.table, words) for words in self.BITS.words.T]
        return {"grt": pa.array(words, pa.large_binary()), "grttable": pa.array([self.BITS.table.identity] * 3)}

    def test_bits_come_back_with_their_table(self):
        (found,) = GRT.read(INTEGER, self.stored(), [self.BITS.table])
        assert isinstance(found, BlockBits)
        assert np.array_equal(found.words, self.BITS.words)
        assert found.unknown is None
        assert found.type == INTEGER
        assert found.nbytes > 0
        bits = GlobalRanges({"x": found})
        assert bits.can_satisfy(Null(Column("x", INTEGER))) is None
        assert bits.can_satisfy(within(LONG, IntervalSet.full(LONG))) is None

    def test_bits_of_another_table_say_nothing(self):
        other = GlobalRangeTable(CODING, ranges((1, 3)))
        (found,) = GRT.read(INTEGER, self.stored(), [other])
        formula = within(INTEGER, IntervalSet.point(INTEGER, 77))
        assert kept(GlobalRanges({"x": found}), formula) == [True] * 3
        assert GRT.read(LONG, self.stored(), [self.BITS.table]) == ()
        assert GRT.read(INTEGER, self.stored(), []) == ()

    def test_missing_and_broken_bits_are_unknown(self):
        parts = self.stored()
        parts["grt"] = pa.array([parts["grt"][0].as_py(), None, b"?"], pa.large_binary())
        (found,) = GRT.read(INTEGER, parts, [self.BITS.table])
        assert isinstance(found, BlockBits)
        assert found.unknown is not None
        assert found.unknown.tolist() == [False, True, True]
        formula = within(INTEGER, IntervalSet.point(INTEGER, 77))
        assert kept(GlobalRanges({"x": found}), formula) == [False, True, True]
