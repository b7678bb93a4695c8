"""Which rows of a sample satisfy a formula, by the ranks of their values: the same rows as one by one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.advisor.trials.sample import Sample, sample_of
from sidestep.advisor.trials.satisfied import Satisfied, told_by_ranks
from sidestep.predicate import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    Column,
    between,
    column,
    compare,
    conjunction,
    decimal_type,
    disjunction,
    is_like,
    is_null,
    normalize,
    one_of,
)
from sidestep.predicate.oracle import holds
from tests.strategies import MONEY, WIDE, Row, predicates_about, rows, tries

STORED = {
    BOOLEAN: (pa.bool_(), pa.bool_()),
    INTEGER: (pa.int32(), pa.int32()),
    LONG: (pa.int64(), pa.int64()),
    FLOAT: (pa.float32(), pa.float32()),
    DOUBLE: (pa.float64(), pa.float64()),
    MONEY: (pa.decimal128(12, 2), pa.decimal128(12, 2)),
    STRING: (pa.string(), pa.string()),
    DATE: (pa.int32(), pa.date32()),
    TIMESTAMP: (pa.int64(), pa.timestamp("us", "UTC")),
}
"""What values are held as, and the type of the column that Spark hands over."""
COLUMNS = tuple(Column(f"{kind.kind.name.lower()}_{letter}", kind) for kind in STORED for letter in "ab")
TYPES = {one.name: one.type for one in COLUMNS}
A, B = column("integer_a", INTEGER), column("integer_b", INTEGER)


def sample(table: Sequence[Row], columns: Sequence[Column] = COLUMNS) -> Sample:
    arrays = {}
    for one in columns:
        held, stored = STORED[one.type]
        arrays[one.name] = pa.array([row[one.name] for row in table], held).cast(stored)
    return sample_of(pa.table(arrays), {one.name: one.type for one in columns}, len(table))


@given(st.data())
@tries(150)
def test_the_same_rows_as_one_by_one(data):
    table = data.draw(st.lists(rows(COLUMNS), max_size=6))
    formula = normalize(data.draw(predicates_about(table, COLUMNS, depth=3)))
    if told_by_ranks(formula, TYPES):
        met = Satisfied(sample(table)).rows(formula)
        assert met is not None
        assert met.tolist() == [holds(formula, row) for row in table]


@pytest.mark.parametrize(
    "predicate",
    [
        compare(A, "<", 3),
        between(A, 1, 4),
        one_of(A, [1, 5]),
        is_null(A),
        compare(A, "<", B),
        disjunction(conjunction(compare(A, ">", 1), compare(B, "=", 2)), compare(A, "!=", B)),
        compare(column("date_a", DATE), ">=", 17),
        one_of(column("string_a", STRING), ["é", ""]),
    ],
)
def test_what_queries_compare_is_told(predicate):
    assert told_by_ranks(normalize(predicate), TYPES)


@pytest.mark.parametrize(
    "predicate",
    [
        is_like(column("string_a", STRING), "%a%"),
        compare(column("double_a", DOUBLE), "<", column("double_b", DOUBLE)),
        compare(column("wide", WIDE), "<", 1),
        compare(column("missing", INTEGER), "<", 1),
        compare(column("integer_a", LONG), "<", 1),
        conjunction(compare(A, "<", 3), is_like(column("string_a", STRING), "a_")),
    ],
)
def test_what_ranks_cannot_tell_is_left_to_spark(predicate):
    assert not told_by_ranks(normalize(predicate), {**TYPES, "wide": WIDE})


@pytest.mark.parametrize(
    ("table", "predicate", "expected"),
    [
        ([{"integer_a": None}] * 2, compare(A, "<", 3), [False, False]),
        ([{"integer_a": None}] * 2, is_null(A), [True, True]),
        ([], compare(A, "<", 3), []),
    ],
)
def test_a_column_without_values(table, predicate, expected):
    met = Satisfied(sample(table, [A])).rows(normalize(predicate))
    assert met is not None
    assert met.tolist() == expected


def test_decimals_of_two_scales_are_not_compared_by_ranks():
    other = column("fine", decimal_type(12, 3))
    formula = normalize(compare(column("decimal_a", MONEY), "<", other))
    assert not told_by_ranks(formula, {**TYPES, "fine": other.type})
