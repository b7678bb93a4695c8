"""Zone maps on fake statistics: what must be skipped, what must be kept, and why."""

from __future__ import annotations

import math
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from sidestep.errors import SidestepError
from sidestep.predicate.build import column, compare, one_of
from sidestep.predicate.formula import Compares, Within
from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.nodes import And, IsNull, Match, MatchKind, Not, Or, Predicate
from sidestep.predicate.normal import normalize
from sidestep.predicate.types import BOOLEAN, DATE, DOUBLE, INTEGER, LONG, STRING, DataType, Kind, decimal_type
from sidestep.synopsis import Catalog, kept_blocks, stored_type, zone_maps
from sidestep.synopsis.skip import kept_by

MONEY = decimal_type(9, 2)
WIDE = decimal_type(38, 2)


def index_of(name: str, type: DataType, lower, upper, nulls=None, nan=None) -> dict[str, pa.Array]:
    index = {f"lower:{name}": pa.array(lower, stored_type(type)), f"upper:{name}": pa.array(upper, stored_type(type))}
    if nulls is not None:
        index[f"nulls:{name}"] = pa.array(nulls, pa.int64())
    if nan is not None:
        index[f"nan:{name}"] = pa.array(nan, pa.bool_())
    return index


def kept(types: dict[str, DataType], index: dict[str, pa.Array], predicate: Predicate, rows: int = 10) -> list[int]:
    """The positions of the blocks kept."""
    blocks = len(next(iter(index.values())))
    counts = np.full(blocks, rows, dtype=np.int64)
    maps = zone_maps(types, index, counts)
    catalog = Catalog(np.arange(blocks, dtype=np.int32), counts, counts, blocks, (maps,))
    return np.flatnonzero(kept_blocks(catalog, normalize(predicate))).tolist()


a = column("a", INTEGER)
A = index_of("a", INTEGER, [1, 5, 5, None, None], [4, 9, 5, 3, None], nulls=[0, 2, 0, 0, 10])


@pytest.mark.parametrize(
    ("predicate", "wanted", "why"),
    [
        (compare(a, ">", 4), [1, 2], "block 0 ends at 4, block 3 at 3, block 4 is all NULL"),
        (compare(a, ">=", 4), [0, 1, 2], "4 itself is in block 0"),
        (compare(a, "<", 5), [0, 3], "should skip blocks that begin at 5; a missing lower bound is unbounded"),
        (compare(a, "=", 5), [1, 2], "5 lies in 5..9 and 5..5 alone"),
        (compare(a, "<>", 5), [0, 1, 3], "should skip: block 2 holds nothing but 5; block 1 spans it"),
        (Not(compare(a, "=", 5)), [0, 1, 3], "NOT is taken on the predicate, not on the answer"),
        (Not(compare(a, ">", 4)), [0, 3], "a block of NULLs satisfies neither a > 4 nor its negation"),
        (one_of(a, [0, 7, 12]), [1, 3], "0 may lie in the block without a lower bound, 7 in 5..9, 12 nowhere"),
        (Not(one_of(a, [5, 6])), [0, 1, 3], "block 2 holds nothing but 5"),
        (IsNull(a), [1, 4], "should skip: no NULLs counted"),
        (Not(IsNull(a)), [0, 1, 2, 3], "should skip: nothing but NULLs"),
        (compare(a, "<=>", 5), [1, 2], "null-safe equality with a value is equality"),
        (Not(compare(a, "<=>", 5)), [0, 1, 3, 4], "NULL is not 5, so the block of NULLs stays"),
        (And((compare(a, ">", 4), compare(a, "<", 5))), [], "no integer lies between 4 and 5"),
        (And((compare(a, ">=", 6), compare(a, "<=", 9))), [1], "one interval, met by 5..9 only"),
        (Or((compare(a, "<", 1), compare(a, ">", 8))), [1, 3], "the two ends"),
    ],
)
def test_integers(predicate: Predicate, wanted: list[int], why: str):
    assert kept({"a": INTEGER}, A, predicate) == wanted, why


def test_or_across_columns_needs_both_sides_ruled_out():
    b = column("b", INTEGER)
    index = index_of("a", INTEGER, [1, 1], [2, 2]) | index_of("b", INTEGER, [1, 7], [2, 9])
    either = Or((compare(a, "=", 5), compare(b, "=", 8)))
    assert kept({"a": INTEGER, "b": INTEGER}, index, either) == [1], "should skip block 0: neither a = 5 nor b = 8"


def test_a_column_without_statistics_keeps_its_blocks():
    b = column("b", INTEGER)
    assert kept({"a": INTEGER}, A, compare(b, "=", 1)) == [0, 1, 2, 3, 4], "nothing is known of b"
    assert kept({"a": INTEGER}, A, Or((compare(a, "=", 1), compare(b, "=", 1)))) == [0, 1, 2, 3, 4]
    assert kept({"a": INTEGER}, A, And((compare(a, "=", 1), compare(b, "=", 1)))) == [0, 3]


def test_statistics_of_another_type_are_not_used():
    long_a = column("a", LONG)
    assert kept({"a": INTEGER}, A, compare(long_a, "=", 1000)) == [0, 1, 2, 3, 4]


def test_nan_is_above_every_number_and_in_no_bound():
    d = column("d", DOUBLE)
    index = index_of(
        "d", DOUBLE, [1.0, 1.0, 1.0, math.inf], [2.0, 2.0, 2.0, -math.inf], [0] * 4, [False, True, None, True]
    )
    types = {"d": DOUBLE}
    assert kept(types, index, compare(d, ">", 5.0)) == [1, 2, 3], "NaN > 5; should skip: block 0 has none"
    assert kept(types, index, compare(d, "=", math.nan)) == [1, 2, 3], "NaN equals itself"
    assert kept(types, index, compare(d, "<", 1.5)) == [0, 1, 2], "should skip: block 3 holds NaN alone"
    assert kept(types, index, compare(d, "<=", math.inf)) == [0, 1, 2], "NaN is above infinity"
    assert kept(types, index, Not(compare(d, "<=", 5.0))) == [1, 2, 3]


def test_zeros_of_both_signs_are_one_value():
    d = column("d", DOUBLE)
    index = index_of("d", DOUBLE, [-0.0, 0.0], [-0.0, 0.0], [0, 0], [False, False])
    assert kept({"d": DOUBLE}, index, compare(d, "=", 0.0)) == [0, 1]
    assert kept({"d": DOUBLE}, index, compare(d, "<", 0.0)) == []
    assert kept({"d": DOUBLE}, index, compare(d, "<>", -0.0)) == [], "should skip: nothing but zeros"


@pytest.mark.parametrize("type", [MONEY, WIDE])
def test_decimals_have_open_and_closed_ends(type: DataType):
    m = column("m", type)
    bounds = [[100, 200], [200, 300]] if type is MONEY else [[Decimal(1), Decimal(2)], [Decimal(2), Decimal(3)]]
    index = index_of("m", type, bounds[0], bounds[1], [0, 0])
    assert kept({"m": type}, index, compare(m, "=", Decimal("2.00"))) == [0, 1]
    assert kept({"m": type}, index, compare(m, "<", Decimal("2.00"))) == [0], "should skip: begins at 2.00"
    assert kept({"m": type}, index, compare(m, ">", Decimal("2"))) == [1], "should skip: ends at 2.00"
    assert kept({"m": type}, index, compare(m, ">", Decimal("1.99"))) == [0, 1]
    assert kept({"m": type}, index, compare(m, ">", Decimal("3.00"))) == []


def test_strings_of_truncated_bounds_are_not_taken_for_values():
    s = column("s", STRING)
    long = "x" * 40
    index = index_of("s", STRING, [b"apple", b"x" * 32, b"pear"], [b"melon", b"x" * 31 + b"y", b"pear"], [0, 0, 0])
    types = {"s": STRING}
    assert kept(types, index, Match(MatchKind.PREFIX, s, "me")) == [0], "LIKE 'me%' is a range"
    assert kept(types, index, compare(s, "=", long)) == [1], "the bounds enclose what they were cut from"
    assert kept(types, index, Not(compare(s, "=", long))) == [0, 1, 2]
    assert kept(types, index, compare(s, "<>", "pear")) == [0, 1], "should skip: nothing but pear"
    assert kept(types, index, Match(MatchKind.CONTAINS, s, "ea")) == [0, 1, 2]
    assert kept(types, index, Match(MatchKind.CONTAINS, s, "zz")) == [0, 1], "should skip: pear is all of block 2"
    assert kept(types, index, Not(Match(MatchKind.SUFFIX, s, "ar"))) == [0, 1], "should skip: pear ends so"


def test_a_string_and_the_same_string_with_a_zero_byte_are_two_values():
    s = column("s", STRING)
    index = index_of("s", STRING, [b"a", b"a\0", b""], [b"a", b"a\0", b"\0"], [0, 0, 0])
    assert kept({"s": STRING}, index, compare(s, "=", "a")) == [0]
    assert kept({"s": STRING}, index, compare(s, "=", "a\0")) == [1]
    assert kept({"s": STRING}, index, compare(s, ">", "a")) == [1]
    assert kept({"s": STRING}, index, compare(s, "=", "a\0\0")) == []


def test_columns_against_columns():
    b = column("b", INTEGER)
    index = index_of("a", INTEGER, [1, 5, 7], [4, 9, 7], [0, 0, 0]) | index_of(
        "b", INTEGER, [4, 1, 7], [6, 4, 7], [0, 0, 0]
    )
    types = {"a": INTEGER, "b": INTEGER}
    assert kept(types, index, compare(a, "<", b)) == [0], "should skip: every a is above every b, or both are 7"
    assert kept(types, index, compare(a, "<=", b)) == [0, 2]
    assert kept(types, index, compare(a, "=", b)) == [0, 2], "0 meets at 4"
    assert kept(types, index, compare(a, "<>", b)) == [0, 1], "should skip: both hold nothing but 7"
    assert kept(types, index, compare(a, "<=>", b)) == [0, 2]


def test_a_long_and_a_double_beyond_2_to_the_53_are_compared_exactly():
    big = 2**53
    index = index_of("i", LONG, [big + 1], [big + 1], [0]) | index_of(
        "d", DOUBLE, [float(big)], [float(big)], [0], [False]
    )
    maps = zone_maps({"i": LONG, "d": DOUBLE}, index, np.array([10]))
    i, d = column("i", LONG), column("d", DOUBLE)

    def answer(atom: Compares) -> list[bool] | None:
        mask = kept_by(maps, atom)
        return None if mask is None else mask.tolist()

    assert answer(Compares(i, "=", d)) == [False], "as doubles the two would be equal"
    assert answer(Compares(d, "<", i)) == [True], "as doubles this row would be lost"
    assert answer(Compares(i, "<>", d)) == [True]


def test_statistics_that_contradict_themselves_prove_nothing():
    types = {"a": INTEGER}
    crossed = index_of("a", INTEGER, [9], [1], [0])
    assert kept(types, crossed, compare(a, "=", 100)) == [0]
    too_many = index_of("a", INTEGER, [1], [1], [11])
    assert kept(types, too_many, Not(IsNull(a))) == [0]
    d = column("d", DOUBLE)
    nan = index_of("d", DOUBLE, [math.nan], [math.nan], [0], [False])
    assert kept({"d": DOUBLE}, nan, compare(d, "=", 1.0)) == [0]


def test_booleans_and_dates_are_integers():
    b, day = column("b", BOOLEAN), column("day", DATE)
    index = index_of("b", BOOLEAN, [0, 1], [0, 1], [0, 0]) | index_of("day", DATE, [0, 31], [30, 60], [0, 0])
    types = {"b": BOOLEAN, "day": DATE}
    assert kept(types, index, b) == [1]
    assert kept(types, index, Not(b)) == [0]
    assert kept(types, index, compare(day, ">", 30)) == [1]


def test_a_type_without_order_still_counts_nulls():
    other = DataType(Kind.OTHER, detail="array<int>")
    c = column("c", other)
    index = {"nulls:c": pa.array([0, 3, 10, None])}
    assert kept({"c": other}, index, IsNull(c)) == [1, 2, 3]
    assert kept({"c": other}, index, Not(IsNull(c))) == [0, 1, 3]


def test_an_index_of_another_shape_is_refused_with_advice():
    with pytest.raises(SidestepError, match="Index the table again"):
        zone_maps({"a": INTEGER}, {"lower:a": pa.array([1.5])}, np.array([1]))


def test_memory_is_two_bounds_and_a_byte_per_block():
    n = 1000
    index = index_of("a", INTEGER, range(n), range(n)) | index_of("s", STRING, [b"low"] * n, [b"up"] * n)
    maps = zone_maps({"a": INTEGER, "s": STRING}, index, np.full(n, 5))
    assert maps.columns["a"].nbytes == 17 * n
    assert maps.columns["s"].nbytes < 10 * n, "equal strings are held once"


def test_time_over_100_000_blocks():
    """Printed, not asserted: `pytest -s` shows it."""
    n = 100_000
    rng = np.random.default_rng(0)
    low = rng.integers(0, 10**9, n)
    text = [b"%012d" % x for x in low]
    counts = np.full(n, 1000, dtype=np.int64)
    index = index_of("a", LONG, low, low + 1000, np.zeros(n)) | index_of("s", STRING, text, text)
    maps = zone_maps({"a": LONG, "s": STRING}, index, counts)
    catalog = Catalog(np.arange(n, dtype=np.int32), counts, counts, n, (maps,))
    drawn = [int(x) for x in rng.integers(0, 10**9, 10_000)]
    number, words = column("a", LONG), column("s", STRING)
    formulas = {
        "range of integers": Within(number, IntervalSet(LONG, (Interval(10**8, 2 * 10**8),))),
        "10,000 integers": Within(number, IntervalSet.points(LONG, drawn)),
        "range of strings": Within(words, IntervalSet(STRING, (Interval("0001", "0002"),))),
        "10,000 strings": Within(words, IntervalSet.points(STRING, [f"{x:012d}" for x in drawn])),
    }
    for name, formula in formulas.items():
        begin = time.perf_counter()
        count = int(kept_blocks(catalog, formula).sum())
        print(f"{name}: {(time.perf_counter() - begin) * 1000:.2f} ms, {count} blocks kept")
        assert 0 < count < n


@pytest.mark.parametrize("type", [STRING, WIDE])
def test_an_unbounded_end_is_above_every_bound_of_the_other_column(type: DataType):
    low, high = (b"b", b"z") if type is STRING else (Decimal(1), Decimal(9))
    index = index_of("l", type, [high], [high], [0]) | index_of("r", type, [low], [None], [0])
    left, right = column("l", type), column("r", type)
    types = {"l": type, "r": type}
    for op in ("<", "<=", "=", "<>"):
        assert kept(types, index, compare(left, op, right)) == [0], "r may hold anything from its lower bound up"
    assert kept(
        types,
        index_of("l", type, [None], [low], [0]) | index_of("r", type, [low], [low], [0]),
        compare(left, "<", right),
    ) == [0]
