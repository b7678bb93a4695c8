"""Value sets: every operator against every value, exactly, and what has no set is kept."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.predicate.build import column, compare, is_like, is_not_null, is_null, negation, one_of
from sidestep.predicate.formula import Matches, Null, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.like import parse
from sidestep.predicate.nodes import And, Match, MatchKind, Not, Or, Predicate
from sidestep.predicate.normal import normalize
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import DOUBLE, INTEGER, LONG, STRING, DataType, Value, decimal_type
from sidestep.synopsis import kept_blocks
from sidestep.synopsis.build import BuildPlan, block_synopses
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.skip import kept_by
from sidestep.synopsis.value_set import LONGEST, MEAN_BYTES, NO_SET, VALUES, BlockSets, ValueSets, value_sets
from sidestep.synopsis.values.codes import integer_values
from tests.synopsis.stored import held, stored
from tests.synopsis.tables import COLUMNS, NAMES, TYPES, Blocks, arrow_array, blocks_of, catalog_of, pool, zone_maps_of
from tests.synopsis.test_exhaustive import sets_of


def sets_for(name: str, blocks: Sequence[Sequence[Value | None]], size: int = 8) -> ValueSets:
    arrays = [arrow_array(list(block), TYPES[name]) for block in blocks]
    return ValueSets({name: held(VALUES, TYPES[name], arrays, size)})


@pytest.mark.parametrize("name", NAMES)
def test_every_range_is_answered_exactly(name: str):
    """Every pair of edge values, every set of values: kept if and only if a value is in it."""
    type = TYPES[name]
    values: list[Value | None] = [*(value for value in pool(type) if in_full(value)), None]
    blocks = list(itertools.combinations_with_replacement(values, 2))
    synopsis = sets_for(name, blocks)
    for ranges in sets_of(type):
        kept = kept_by(synopsis, Within(COLUMNS[name], ranges))
        assert kept is not None
        wanted = [any(value is not None and (ranges.is_full or ranges.contains(value)) for value in b) for b in blocks]
        assert kept.tolist() == wanted, ranges


def in_full(value: Value) -> bool:
    return not isinstance(value, str | bytes) or len(value.encode() if isinstance(value, str) else value) <= LONGEST


TEXTS = ["AIR", "air", "", "RAIL", "TRUCK", "a_c", "50%", "é", "\U0010ffff"]
S = column("text", STRING)
PATTERNS: list[Predicate] = [
    *(is_like(S, pattern) for pattern in ("%R%", "_IR", "%", "", "a\\_c", "%\\%", "A%", "%é", "__", "%A%I%")),
    *(Match(kind, S, text) for kind in MatchKind for text in ("R", "AIR", "é", "")),
]


@pytest.mark.parametrize("predicate", PATTERNS, ids=str)
@pytest.mark.parametrize("turn", [lambda p: p, Not, lambda p: Or((p, is_null(S))), lambda p: Not(Or((p, is_null(S))))])
def test_patterns_are_tried_on_every_value(predicate: Predicate, turn: Any):
    predicate = turn(predicate)
    blocks: Blocks = [[{"text": a}, {"text": b}] for a, b in itertools.combinations_with_replacement([*TEXTS, None], 2)]
    synopsis = sets_for("text", [[row["text"] for row in block] for block in blocks])
    catalog = catalog_of(blocks, zone_maps_of(blocks, ["text"]), synopsis)
    kept = kept_blocks(catalog, normalize(predicate))
    wanted = [any(evaluate(predicate, row) is True for row in block) for block in blocks]
    assert kept.tolist() == wanted, "with the zone map for NULLs, nothing is left open"


def test_conditions_on_one_column_are_held_against_each_value():
    """AIR has an I and TRUCK begins with no A, but no value does both; of two columns, each has its say."""
    blocks: Blocks = [
        [{"text": "AIR", "int": 1}, {"text": "TRUCK", "int": 5}],
        [{"text": "RAIL", "int": 1}, {"text": "AIR", "int": 5}],
        [{"text": "RAIL", "int": 3}, {"text": "AIR", "int": 5}],
    ]
    columns = {
        name: sets_for(name, [[row[name] for row in block] for block in blocks]).columns[name]
        for name in ("text", "int")
    }
    catalog = catalog_of(blocks, zone_maps_of(blocks, ["text", "int"]), ValueSets(columns))

    def kept(*predicates: Predicate) -> list[bool]:
        return [bool(keep) for keep in kept_blocks(catalog, normalize(And(predicates)))]

    has_i, no_a = is_like(S, "%I%"), negation(is_like(S, "A%"))
    assert kept(has_i) == kept(no_a) == [True, True, True]
    assert kept(has_i, no_a) == [False, True, True]
    assert kept(Or((has_i, compare(S, "=", "SHIP"))), no_a) == [False, True, True]
    assert kept(Or((has_i, is_null(S))), no_a) == [True, True, True], "a NULL would have its own say"
    assert kept(has_i, no_a, compare(A, ">", 1), compare(A, "<", 5)) == [False, False, True]


@pytest.mark.parametrize("unknown", [(), (0,), (1,), (0, 1)])
def test_conditions_on_columns_some_of_which_are_unknown(unknown: tuple[int, ...]):
    """Of one block both columns are unknown, of another one of them."""
    texts = [pa.array(["AIR", "TRUCK"]), None if 0 in unknown else pa.array(["AIR", "TRUCK"])]
    more = [pa.array(["AIR", "TRUCK"]), None if 1 in unknown else pa.array(["RAIL"])]
    columns = {"s": held(VALUES, STRING, texts, 4), "t": held(VALUES, STRING, more, 4)}
    both = [
        condition
        for name in columns
        for condition in (is_like(column(name, STRING), "%I%"), negation(is_like(column(name, STRING), "A%")))
    ]
    mask = kept_by(ValueSets(columns), normalize(And(tuple(both))))
    assert mask is not None
    assert mask.tolist() == [False, 0 in unknown]


A = column("int", INTEGER)
THREE_VALUED: list[Predicate] = [
    compare(A, "=", 1),
    compare(A, "<>", 1),
    negation(one_of(A, [0, 2])),
    negation(one_of(A, [0, None])),
    one_of(A, [1, None]),
    compare(A, "<=>", None),
    compare(A, "<=>", 1),
    negation(compare(A, "<=>", 1)),
    is_null(A),
    is_not_null(A),
    negation(compare(A, ">", 0)),
    Or((compare(A, "<", 0), is_null(A))),
]


@pytest.mark.parametrize("predicate", THREE_VALUED, ids=str)
def test_three_valued_logic(predicate: Predicate):
    values: list[Value | None] = [-2, 0, 1, 2, None]
    blocks: Blocks = [
        [{"int": value} for value in some] for n in (0, 1, 2, 3) for some in itertools.combinations(values, n)
    ]
    synopsis = sets_for("int", [[row["int"] for row in block] for block in blocks])
    kept = kept_blocks(catalog_of(blocks, zone_maps_of(blocks, ["int"]), synopsis), normalize(predicate))
    assert kept.tolist() == [any(evaluate(predicate, row) is True for row in block) for block in blocks]


def test_nulls_are_not_its_to_answer():
    synopsis = sets_for("int", [[1, None], [None]])
    assert synopsis.can_satisfy(Null(A)) is None
    assert kept_by(synopsis, Within(A, IntervalSet.full(INTEGER))).tolist() == [True, False]  # type: ignore[union-attr]


def test_blocks_are_skipped_that_zone_maps_keep():
    blocks: Blocks = [[{"text": "AIR"}, {"text": "TRUCK"}], [{"text": "AIR"}, {"text": "RAIL"}, {"text": "TRUCK"}]]
    zones, sets = zone_maps_of(blocks, ["text"]), sets_for("text", [[r["text"] for r in block] for block in blocks])
    for predicate in (
        compare(S, "=", "RAIL"),
        is_like(S, "%AI%L"),
        one_of(S, ["MAIL", "RAIL", "SHIP"]),
        negation(one_of(S, ["AIR", "TRUCK"])),
    ):
        formula = normalize(predicate)
        assert kept_blocks(catalog_of(blocks, zones), formula).tolist() == [True, True]
        assert kept_blocks(catalog_of(blocks, zones, sets), formula).tolist() == [False, True]


def test_nan_and_zero():
    nan, zero = math.nan, 0.0
    sets = held(VALUES, DOUBLE, [pa.array([nan]), pa.array([-0.0]), pa.array([zero, nan, None]), pa.array([1.0])], 4)

    def kept(ranges: IntervalSet) -> list[bool]:
        answer = sets.may_be_within(ranges)
        assert answer is not None
        return [bool(keep) for keep in answer.possible]

    assert kept(IntervalSet.point(DOUBLE, nan)) == [True, False, True, False]
    assert kept(IntervalSet.point(DOUBLE, zero)) == [False, True, True, False]
    assert kept(IntervalSet.point(DOUBLE, -0.0)) == [False, True, True, False]
    assert kept(IntervalSet.at_least(DOUBLE, 0.5)) == [True, False, True, True], "NaN is above all numbers"
    assert kept(IntervalSet.point(DOUBLE, zero).complement()) == [True, False, True, True]
    assert kept(IntervalSet.point(DOUBLE, nan).complement()) == [False, True, True, True]


def built(type: DataType, values: Sequence[Any], size: int, arrow: pa.DataType | None = None) -> dict[str, Any]:
    return block_synopses("x", type, pa.array(values, arrow), BuildPlan({"x": Recipe(values=size)}))


class TestWhatHasNoSet:
    def test_more_values_than_allowed(self):
        assert built(LONG, [3, 1, 3, None, 2], 3)["distinct:x"] == 3
        assert built(LONG, [3, 1, 3, None, 2, 4], 3) == {"distinct:x": NO_SET}
        assert built(STRING, ["abcdefgh1", "abcdefgh2", "zz"], 2) == {"distinct:x": NO_SET}, "though codes are fewer"

    def test_long_values(self):
        assert built(STRING, ["x" * LONGEST], 4)["distinct:x"] == 1
        assert built(STRING, ["x" * (LONGEST + 1)], 4) == {"distinct:x": NO_SET}
        many = [f"{n:02d}" + "x" * (MEAN_BYTES - 2) for n in range(4)]
        assert built(STRING, many, 4)["distinct:x"] == 4
        assert built(STRING, [*many[:3], many[3] + "x"], 4) == {"distinct:x": NO_SET}

    def test_what_cannot_be_read_for_certain(self):
        assert built(LONG, ["text"], 4) == {"distinct:x": NO_SET}

    @pytest.mark.parametrize(
        ("distinct", "values"),
        [
            (2, [b"\0" * 8]),
            (1, [b"\0" * 7]),
            (1, [None]),
            (2, [b"\0" * 8, None]),
            (None, [b"\0" * 8]),
            (1, None),
            (NO_SET, None),
            (NO_SET, []),
            (-2, None),
        ],
    )
    def test_what_is_damaged_is_unknown(self, distinct: int | None, values: list[bytes | None] | None):
        parts = stored(VALUES, LONG, [pa.array([5, 7]), pa.array([7])], 4)
        stored_values = {
            "distinct": pa.concat_arrays([parts["distinct"], pa.array([distinct], pa.int32())]),
            "values": pa.concat_arrays([parts["values"], pa.array([values], parts["values"].type)]),
        }
        read = value_sets(LONG, stored_values)
        assert read.unknown is not None
        assert read.unknown.tolist() == [False, False, True]
        answer = read.may_be_within(IntervalSet.point(LONG, 5))
        assert answer is not None
        assert answer.possible.tolist() == [True, False, False]


def test_text_that_is_none_matches_as_spark_may_read_it():
    sets = held(VALUES, STRING, [pa.array([b"\xff\xfe"], pa.binary()), pa.array([b"a"], pa.binary())], 4)
    atom = Matches(S, parse("%z%"), negated=False)
    assert sets.may_match(atom).possible.tolist() == [True, False]


def test_another_type_is_not_answered_for():
    synopsis = sets_for("int", [[1]])
    assert synopsis.can_satisfy(Within(column("int", LONG), IntervalSet.point(LONG, 1))) is None
    sets = synopsis.columns["int"]
    assert sets.may_be_within(IntervalSet.point(LONG, 1)) is None


class TestRanges:
    def test_they_are_points(self):
        sets = held(VALUES, LONG, [pa.array([3, 900, 4]), pa.nulls(2, pa.int64()), None, pa.array([-5])], 4)
        found = [integer_values(each.lows).tolist() for each in map(sets.ranges.of_block, range(4))]
        assert found == [[3, 900], [], [], [-5]], "3 and 4 are one range"
        assert sets.ranges.unknown is not None
        assert sets.ranges.unknown.tolist() == [False, False, True, False]

    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def test_they_hold_every_value(self, data: st.DataObject):
        name = data.draw(st.sampled_from(NAMES))
        blocks = data.draw(blocks_of([name], 5))
        arrays = [arrow_array([row[name] for row in block], TYPES[name]) for block in blocks]
        sets = held(VALUES, TYPES[name], arrays, data.draw(st.integers(1, 4)))
        outer = sets.ranges.outer
        for number, block in enumerate(blocks):
            for row in block:
                value = row[name]
                if value is not None:
                    answer = outer.may_be_within(IntervalSet.point(TYPES[name], value))
                    assert answer is not None
                    assert answer.possible[number]


def test_many_values_are_answered_as_few_are():
    """A wide range of a column of many values, and a single one."""
    rng = np.random.default_rng(5)
    blocks = [rng.choice(200, 20, replace=False).tolist() for _ in range(300)]
    sets: BlockSets = held(VALUES, LONG, [pa.array(block) for block in blocks], 20)
    for ranges in (
        IntervalSet.at_least(LONG, 100),
        IntervalSet.point(LONG, 7),
        IntervalSet.point(LONG, 7).complement(),
    ):
        answer = sets.may_be_within(ranges)
        assert answer is not None
        assert answer.possible.tolist() == [any(ranges.contains(value) for value in block) for block in blocks]
    assert sets.unknown is None
    assert sets.nbytes < 300 * 20 * 8


def test_wide_decimals_are_told_apart_to_the_last_digit():
    type = decimal_type(38, 10)
    one, other = Decimal("12345678901234567890.1234567891"), Decimal("12345678901234567890.1234567892")
    sets = held(VALUES, type, [pa.array([one], pa.decimal128(38, 10)), pa.array([other], pa.decimal128(38, 10))], 4)
    answer = sets.may_be_within(IntervalSet.point(type, other))
    assert answer is not None
    assert answer.possible.tolist() == [False, True]
