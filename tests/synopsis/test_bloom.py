"""Bloom filters: no value is ever lost, equal values hash alike, and the false positives are as promised."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate import types as t
from sidestep.predicate.formula import Null, Within
from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import DataType
from sidestep.synopsis.bloom import (
    BLOOM,
    BlockFilters,
    BloomFilters,
    bloom_filter,
    false_positive_rate,
    lines_for,
)
from sidestep.synopsis.values.hashing import code_hashes, column_hashes, value_hashes
from tests.synopsis.stored import held, kept, stored
from tests.synopsis.tables import NAMES, TYPES, arrow_array, pool


@pytest.mark.parametrize("name", NAMES)
def test_columns_and_constants_hash_alike(name: str):
    values = pool(TYPES[name])
    column = column_hashes(arrow_array([None, *values], TYPES[name]), TYPES[name])
    constants = value_hashes(values, TYPES[name])
    assert column is not None
    assert constants is not None
    assert column.tolist() == constants.tolist()
    distinct = {0.0 if value == 0 and isinstance(value, float) else repr(value) for value in values}
    assert len(set(column.tolist())) == len(distinct), "different values hash differently, zeros alike"


@pytest.mark.parametrize(
    ("one", "other", "type"),
    [
        (pa.array([-0.0]), pa.array([0.0]), t.DOUBLE),
        (pa.array([float("nan")]), pa.array(np.array([0x7FF8000000000001]).view(np.float64)), t.DOUBLE),
        (pa.array([1.5], pa.float32()), pa.array([1.5], pa.float16()), t.FLOAT),
        (pa.array([Decimal("1.5")]), pa.array([Decimal("1.500")]), t.decimal_type(9, 3)),
        (pa.array([Decimal("1.5")]), pa.array([Decimal("1.500")]), t.decimal_type(30, 3)),
        (pa.array([7], pa.int8()), pa.array([7], pa.uint32()), t.LONG),
        (pa.array(["ab"]), pa.array(["ab"]).dictionary_encode(), t.STRING),
        (pa.array(["ab"]), pa.array(["ab"], pa.large_string()), t.STRING),
    ],
)
def test_equal_values_hash_equal(one, other, type: DataType):
    assert column_hashes(one, type).tolist() == column_hashes(other, type).tolist()  # type: ignore[union-attr]


@given(st.lists(st.binary(max_size=40), min_size=2, max_size=20, unique=True))
def test_bytes_differ_in_any_place(values: list[bytes]):
    found = column_hashes(pa.array(values, pa.binary()), t.BINARY)
    assert found is not None
    assert len(set(found.tolist())) == len(values)


def test_constants_that_no_value_can_equal_are_left_out():
    assert value_hashes([Decimal("0.015")], t.decimal_type(9, 2)).tolist() == []  # type: ignore[union-attr]
    assert value_hashes(["\ud800"], t.STRING) is None
    assert value_hashes([1.5], t.LONG) is None


@pytest.mark.parametrize("rate", [0.2, 0.05, 0.01, 0.001])
def test_the_size_for_a_rate_keeps_the_rate(rate: float):
    rng = np.random.default_rng(1)
    inside, other = (code_hashes(rng.integers(0, 2**63, n).astype(np.uint64)) for n in (5_000, 40_000))
    lines = lines_for(5_000, rate)
    made = BlockFilters(t.LONG, np.array([0, lines]), bloom_filter(inside, lines))
    assert made.holding(inside[:1]).all()
    kept = np.mean([made.holding(other[n : n + 1])[0] for n in range(20_000)])
    assert kept == pytest.approx(rate, rel=0.3, abs=6e-4)
    assert false_positive_rate(5_000, lines) <= rate < false_positive_rate(5_000, max(1, lines - 1)) + 1e-9


def test_few_bits_for_many_values_say_maybe_to_everything():
    assert false_positive_rate(1_000_000, 32) > 0.99  # 1 KB for a million values, as the diPs paper has it
    assert false_positive_rate(0, 1) == 0.0


def test_points_and_lists_are_answered_and_ranges_are_not():
    blocks = [pa.array([1, 5, None]), pa.array([7]), pa.nulls(3, pa.int64()), pa.array(["x"])]
    filters = BloomFilters({"x": held(BLOOM, t.LONG, blocks, 1 << 20)})
    x = Column("x", t.LONG)

    def ask(ranges: IntervalSet) -> list[bool] | None:
        return kept(filters, Within(x, ranges))

    assert ask(IntervalSet.point(t.LONG, 5)) == [True, False, False, True]
    assert ask(IntervalSet.points(t.LONG, [7, 9])) == [False, True, False, True]
    assert ask(IntervalSet(t.LONG, (Interval(6, 8),))) == [False, True, False, True], "a short range is a list"
    assert ask(IntervalSet.at_least(t.LONG, 5)) is None
    assert ask(IntervalSet(t.LONG, (Interval(1, 2000),))) is None, "too many to look up"
    assert ask(IntervalSet.empty(t.LONG)) == [False, False, False, True]
    assert filters.can_satisfy(Null(x)) is None
    assert filters.can_satisfy(Within(Column("x", t.INTEGER), IntervalSet.point(t.INTEGER, 5))) is None
    assert filters.types == {"x": t.LONG}


def test_filters_are_stored_and_come_back():
    blocks = [pa.array(["a", "b"] * 50), pa.array([1]), pa.array([None], pa.string())]
    parts = stored(BLOOM, t.STRING, blocks, 1 << 20)
    (back,) = BLOOM.read(t.STRING, parts, [])
    assert isinstance(back, BlockFilters)
    assert back.unknown is not None
    assert back.unknown.tolist() == [False, True, False]
    hashes = column_hashes(pa.array(["a", "b"]), t.STRING)
    assert hashes is not None
    assert np.array_equal(back.lines, bloom_filter(hashes, lines_for(2, 0.01)))
    (broken,) = BLOOM.read(t.STRING, {"bloom": pa.array([b"short", b"\0" * 32])}, [])
    assert isinstance(broken, BlockFilters)
    assert broken.unknown is not None
    assert broken.unknown.tolist() == [True, False]


def test_bad_input():
    with pytest.raises(SidestepError, match="between 0 and 1"):
        lines_for(10, 1.0)
    with pytest.raises(SidestepError, match="at least one line"):
        bloom_filter(code_hashes(np.zeros(1, dtype=np.uint64)), 0)
    assert lines_for(0, 0.01) == 1
