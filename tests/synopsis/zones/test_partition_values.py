"""Partition values: exact where Spark is sure to read the same, unknown elsewhere."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate import types as t
from sidestep.predicate.build import column, compare
from sidestep.predicate.formula import Holds, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import IsNull, Match, MatchKind, Not, Opaque, Or, Predicate
from sidestep.predicate.normal import normalize
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import DataType, Value
from sidestep.synopsis import Catalog, kept_blocks, partition_values
from sidestep.synopsis.skip import kept_by
from sidestep.synopsis.values.summary import UNKNOWN
from sidestep.synopsis.zones.partition_values import read_partition_text


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("7", t.INTEGER, 7),
        ("-007", t.LONG, -7),
        ("127", t.BYTE, 127),
        ("a b", t.STRING, b"a b"),
        ("x" * 50, t.STRING, b"x" * 50),
        ("2024-02-29", t.DATE, 19_782),
        ("true", t.BOOLEAN, 1),
        ("FALSE", t.BOOLEAN, 0),
        ("1.50", t.decimal_type(9, 2), 150),
        ("1.5", t.decimal_type(30, 2), Decimal("1.5")),
        ("1.5e3", t.DOUBLE, 1500.0),
        ("-Infinity", t.DOUBLE, -math.inf),
        ("0.1", t.FLOAT, t.float32(0.1)),
    ],
)
def test_plain_texts_are_known_exactly(text: str, type: DataType, value: object):
    summary = read_partition_text(text, type)
    assert (summary.lower, summary.upper, summary.nulls) == (value, value, 0)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("128", t.BYTE),
        ("1.0", t.INTEGER),
        (" 1", t.INTEGER),
        ("٣", t.INTEGER),
        ("0x1", t.LONG),
        ("", t.STRING),
        ("\ud800", t.STRING),
        ("2024-2-9", t.DATE),
        ("2024-02-30", t.DATE),
        ("yes", t.BOOLEAN),
        ("1.255", t.decimal_type(9, 2)),
        ("123456789.00", t.decimal_type(9, 2)),
        ("1d", t.DOUBLE),
        ("inf", t.DOUBLE),
        ("1e39", t.FLOAT),
        ("2024-01-01 00:00:00", t.TIMESTAMP),
        ("2024-01-01 00:00:00", t.TIMESTAMP_NTZ),
        ("abc", t.BINARY),
        ("a", DataType(t.Kind.OTHER, detail="string collate UNICODE_CI")),
    ],
)
def test_what_spark_may_read_otherwise_is_unknown(text: str, type: DataType):
    assert read_partition_text(text, type) == UNKNOWN


def test_a_double_half_way_between_two_floats_is_unknown_as_a_float():
    half = 1 + 2**-24
    assert read_partition_text(repr(half), t.FLOAT) == UNKNOWN
    assert read_partition_text(repr(half), t.DOUBLE).lower == half


FILES = np.array([0, 0, 1, 2, 3], dtype=np.int32)


def kept(type: DataType, texts: list[str | None], predicate: Predicate) -> list[int]:
    values = partition_values({"p": type}, {"p": texts}, FILES)
    counts = np.ones(5, dtype=np.int64)
    catalog = Catalog(FILES, counts, counts, 4, (values,))
    return np.flatnonzero(kept_blocks(catalog, normalize(predicate))).tolist()


def test_blocks_share_the_value_of_their_file():
    p = column("p", t.INTEGER)
    texts = ["1", "2", None, "what"]
    assert kept(t.INTEGER, texts, compare(p, "=", 1)) == [0, 1, 4], "a text that is no number is unknown"
    assert kept(t.INTEGER, texts, Not(compare(p, "=", 1))) == [2, 4], "NULL <> 1 is not TRUE"
    assert kept(t.INTEGER, texts, IsNull(p)) == [3, 4]
    assert kept(t.INTEGER, texts, Or((IsNull(p), compare(p, ">", 1)))) == [2, 3, 4]


def test_text_patterns_are_decided_on_the_values():
    p = column("p", t.STRING)
    texts: list[str | None] = ["north-east", "south-east", None, "x" * 300 + "east"]
    assert kept(t.STRING, texts, Match(MatchKind.SUFFIX, p, "east")) == [0, 1, 2, 4]
    assert kept(t.STRING, texts, Match(MatchKind.CONTAINS, p, "north")) == [0, 1, 4], "too long to be held in full"
    assert kept(t.STRING, texts, Not(Match(MatchKind.SUFFIX, p, "east"))) == [4]


def test_nan_is_a_value():
    p = column("p", t.DOUBLE)
    assert kept(t.DOUBLE, ["NaN", "1", None, "2"], compare(p, ">", 1.5)) == [0, 1, 4]
    assert kept(t.DOUBLE, ["NaN", "1", None, "2"], compare(p, "<", 1.5)) == [2]


def test_partition_columns_compare_with_each_other():
    values = partition_values(
        {"p": t.INTEGER, "q": t.INTEGER}, {"p": ["1", "2", "3", None], "q": ["2", "2", "2", "2"]}, FILES
    )
    p, q = column("p", t.INTEGER), column("q", t.INTEGER)
    mask = kept_by(values, normalize(compare(p, "<", q)))
    assert mask is not None
    assert mask.tolist() == [True, True, False, False, False]


def test_it_has_nothing_to_say_of_other_columns_or_types():
    values = partition_values({"p": t.INTEGER, "q": t.INTEGER}, {"p": ["1"] * 4}, FILES)
    assert values.types == {"p": t.INTEGER}, "q has no texts"
    assert values.can_satisfy(Within(column("q", t.INTEGER), IntervalSet.point(t.INTEGER, 1))) is None
    assert values.can_satisfy(Within(column("p", t.LONG), IntervalSet.point(t.LONG, 1))) is None
    assert values.can_satisfy(Holds(Opaque("f(p)"), True)) is None


def test_a_path_that_is_not_text_is_unknown():
    p = column("p", t.STRING)
    assert kept(t.STRING, ["a", "\udcff", None, "b"], compare(p, "=", "a")) == [0, 1, 2]


def test_a_missing_file_is_an_error():
    with pytest.raises(SidestepError, match="Partition column p"):
        partition_values({"p": t.INTEGER}, {"p": ["1"]}, FILES)


TEXTS: dict[DataType, list[tuple[str | None, Value | None]]] = {
    t.INTEGER: [("1", 1), ("-3", -3), ("+2", 2), (None, None)],
    t.STRING: [("a", "a"), ("ab", "ab"), ("é", "é"), ("z" * 40, "z" * 40), (None, None)],
    t.DOUBLE: [("1.5", 1.5), ("NaN", math.nan), ("-0.0", -0.0), ("Infinity", math.inf), (None, None)],
    t.decimal_type(9, 2): [("1.5", Decimal("1.5")), ("-0.01", Decimal("-0.01")), (None, None)],
}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_known_values_are_decided_exactly(data):
    type = data.draw(st.sampled_from(list(TEXTS)))
    rows = data.draw(st.lists(st.sampled_from(TEXTS[type]), min_size=4, max_size=4))
    p = column("p", type)
    constant = data.draw(st.sampled_from([value for _, value in TEXTS[type] if value is not None]))
    predicate = compare(p, data.draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])), constant)
    if data.draw(st.booleans()):
        predicate = Not(predicate)
    wanted = [file for file, (_, value) in enumerate(rows) if evaluate(predicate, {"p": value}) is True]
    assert sorted({int(FILES[b]) for b in kept(type, [text for text, _ in rows], predicate)}) == wanted
