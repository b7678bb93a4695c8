"""Random columns, values, rows and predicates that go where the trouble is: NULL, NaN, -0.0, edges of types, odd texts.

``predicates_about(rows)`` draws constants from the rows (and their neighbours), so that filters hit and only just miss;
``rows_around(predicates)`` goes the other way, from a predicate's constants to rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from sidestep.predicate.casts import is_monotone
from sidestep.predicate.columns import columns_of
from sidestep.predicate.nodes import (
    FALSE,
    NULL,
    TRUE,
    And,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Match,
    MatchKind,
    Not,
    Op,
    Opaque,
    Or,
    Predicate,
)
from sidestep.predicate.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    FLOATING,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    YEAR_MONTH,
    DataType,
    Kind,
    Value,
    decimal_type,
    float32,
    integer_range,
)

T = TypeVar("T")
Row = dict[str, Value | None]
Pool = Mapping[DataType, Sequence[Value]]
"""Values to draw from, by type."""

MONEY = decimal_type(12, 2)
WIDE = decimal_type(38, 10)

TYPES = (
    BOOLEAN,
    BYTE,
    SHORT,
    INTEGER,
    LONG,
    FLOAT,
    DOUBLE,
    MONEY,
    WIDE,
    STRING,
    BINARY,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TIME,
    YEAR_MONTH,
    DAY_TIME,
)

COLUMNS = tuple(Column(f"{t.kind.name.lower()}{t.precision or ''}_{letter}", t) for t in TYPES for letter in ("a", "b"))
"""Two columns of every type."""

# Dates beyond this overflow a timestamp's microseconds, where Spark's cast raises.
_LAST_DAY = 2_932_896

CHARACTERS = "ab%_\\'\0 é\ud7ff\ue000\U0001f600\U0010ffff"
"""Few, so that random strings meet; with wildcards, quotes, NUL, and the ends of the code point ranges."""


def tries(examples: int) -> settings:
    """At least so many examples, and more where the profile asks for more."""
    return settings(max_examples=max(examples, settings().max_examples))


@cache
def strings() -> st.SearchStrategy[str]:
    """Short strings over troublesome characters."""
    return st.text(alphabet=st.sampled_from("aab" + CHARACTERS), max_size=5)


@cache
def values(type: DataType) -> st.SearchStrategy[Value]:
    """Values of a type, small ones, edges and random ones alike."""
    match type.kind:
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.FLOAT | Kind.DOUBLE:
            special = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, float(2**53), float(2**24)]
            return st.one_of(st.sampled_from(special), st.floats(width=32 if type.kind is Kind.FLOAT else 64))
        case Kind.DECIMAL:
            most = 10**type.precision - 1
            unscaled = st.one_of(st.integers(-200, 200), st.sampled_from([most, -most, 0]), st.integers(-most, most))
            return unscaled.map(lambda n: Decimal(f"{n}E{-type.scale}"))
        case Kind.STRING:
            return strings()
        case Kind.BINARY:
            return st.one_of(st.sampled_from([b"", b"\0", b"\xff\xff"]), st.binary(max_size=3))
        case Kind.DATE:
            return st.one_of(st.integers(-3, 3), st.integers(-_LAST_DAY // 4, _LAST_DAY))
    low, high = integer_range(type)
    edges = st.sampled_from([low, low + 1, high - 1, high, 2**24 + 1, 2**53 + 1, 86_400_000_000])
    return st.one_of(st.integers(-3, 3), edges.filter(lambda v: low <= v <= high), st.integers(low, high))


def neighbours(value: Value, type: DataType) -> list[Value]:
    """The value and those next to it in its type's order."""
    found: list[Value] = [value]
    if type.kind is Kind.BOOLEAN:
        found = [True, False]
    elif type.discrete:
        low, high = integer_range(type)
        if type == DATE:
            low, high = -_LAST_DAY // 4, _LAST_DAY
        found += [v for v in (int(value) - 1, int(value) + 1) if low <= v <= high]
    elif isinstance(value, float):
        if type.kind is Kind.FLOAT:
            found += [float32(value * (1 + 2**-23)), float32(value * (1 - 2**-23))]
        else:
            found += [math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]
        found += [-value, 0.0, math.nan]
    elif isinstance(value, Decimal):
        unscaled = int(value.scaleb(type.scale)) if abs(value) < 10**20 else 0
        found += [Decimal(f"{unscaled + d}E{-type.scale}") for d in (-1, 1)]
    elif isinstance(value, str):
        found += [value + "a", value + "\0", value[:-1], "a" + value, value.replace("%", "b").replace("_", "a")]
        found += [value.replace("\\", "").replace("%", ""), value[:-1] + "b"]
    elif isinstance(value, bytes):
        found += [value + b"\0", value[:-1]]
    return found


@st.composite
def rows(draw: st.DrawFn, columns: Sequence[Column] = COLUMNS, pool: Pool | None = None) -> Row:
    """A value or NULL for every column; values of the pool more often than not."""
    return {c.name: None if draw(_CHANCE) == 0 else _value(draw, c.type, pool) for c in columns}


@st.composite
def predicates(
    draw: st.DrawFn,
    columns: Sequence[Column] = COLUMNS,
    depth: int = 4,
    pool: Pool | None = None,
    opaque: Sequence[Opaque] = (),
) -> Predicate:
    """Predicates over the columns, at most ``depth`` connectives deep, of every kind of node."""
    return _predicate(draw, tuple(columns), depth, pool, opaque)


def predicates_about(
    table: Sequence[Mapping[str, Value | None]], columns: Sequence[Column] = COLUMNS, depth: int = 4
) -> st.SearchStrategy[Predicate]:
    """Predicates whose constants are mostly values of the given rows, or next to one."""
    return predicates(columns, depth, pool_of_rows(table, columns))


def pool_of_rows(table: Iterable[Mapping[str, Value | None]], columns: Sequence[Column]) -> dict[DataType, list[Value]]:
    """The rows' values and their neighbours, by type."""
    pool: dict[DataType, list[Value]] = {}
    for row in table:
        for column in columns:
            value = row.get(column.name)
            if value is not None:
                pool.setdefault(column.type, []).extend(neighbours(value, column.type))
    return pool


def rows_around(
    *about: Predicate, columns: Sequence[Column] | None = None, extra: Pool | None = None
) -> st.SearchStrategy[Row]:
    """Rows whose values are mostly the predicates' own constants, or next to one; by default of their columns only."""
    if columns is None:
        columns = sorted(frozenset().union(*map(columns_of, about)), key=lambda c: c.name)
    pool: dict[DataType, list[Value]] = {t: list(found) for t, found in (extra or {}).items()}
    for constant in (literal for predicate in about for literal in _literals(predicate)):
        if constant.value is None:
            continue
        for column_type in {column.type for column in columns}:
            found = _as_type(constant.value, constant.type, column_type)
            if found is not None:
                pool.setdefault(column_type, []).extend(neighbours(found, column_type))
    return rows(columns, pool)


_CHANCE = st.integers(0, 7)
_DICE = {n: st.integers(0, n - 1) for n in range(1, 65)}
_OPS = st.sampled_from(Op)


def _choose(draw: st.DrawFn, options: Sequence[T]) -> T:
    return options[draw(_DICE[len(options)])] if len(options) <= 64 else draw(st.sampled_from(options))


def _value(draw: st.DrawFn, type: DataType, pool: Pool | None) -> Value:
    found = (pool or {}).get(type, ())
    return _choose(draw, found) if found and draw(_CHANCE) > 1 else draw(values(type))


def _predicate(
    draw: st.DrawFn, columns: tuple[Column, ...], depth: int, pool: Pool | None, opaque: Sequence[Opaque]
) -> Predicate:
    chance = draw(_CHANCE)
    if depth <= 1 or chance <= 1:
        if chance == 7:
            constants: tuple[Predicate, ...] = (TRUE, FALSE, NULL, *opaque)
            return _choose(draw, constants)
        return _leaf(draw, columns, pool)
    children = tuple(_predicate(draw, columns, depth - 1, pool, opaque) for _ in range(draw(_DICE[3]) + 1))
    return Not(children[0]) if chance <= 3 else And(children) if chance <= 5 else Or(children)


def _leaf(draw: st.DrawFn, columns: tuple[Column, ...], pool: Pool | None) -> Predicate:
    column = _choose(draw, columns)
    chance = draw(_CHANCE)
    if column.type == BOOLEAN and chance <= 1:
        return column
    if column.type == STRING and chance <= 3:
        if chance <= 1:
            return Match(MatchKind.LIKE, column, draw(like_texts()))
        kind = _choose(draw, (MatchKind.PREFIX, MatchKind.SUFFIX, MatchKind.CONTAINS))
        return Match(kind, column, str(_value(draw, STRING, pool)))
    target = _choose(draw, (column.type, column.type, *_casts(column.type)))
    operand = _as_operand(column, target)
    if chance == 7:
        return IsNull(operand)
    if chance == 6:
        return In(operand, tuple(_literal(draw, target, pool) for _ in range(draw(_DICE[4]) + 1)))
    op = draw(_OPS)
    if chance == 5:
        others = [_as_operand(c, target) for c in columns if c.type == target or is_monotone(c.type, target)]
        return Comparison(op, operand, _choose(draw, others))
    constant = _literal(draw, target, pool)
    return Comparison(op, constant, operand) if chance == 4 else Comparison(op, operand, constant)


def _literal(draw: st.DrawFn, type: DataType, pool: Pool | None) -> Literal:
    return Literal(None if draw(_CHANCE) == 7 else _value(draw, type, pool), type)


@cache
def _casts(type: DataType) -> tuple[DataType, ...]:
    return tuple(t for t in TYPES if t != type and is_monotone(type, t))


@cache
def like_texts() -> st.SearchStrategy[str]:
    """LIKE patterns that Spark accepts, with the default escape."""
    return st.lists(
        st.sampled_from(["%", "_", "\\%", "\\_", "\\\\", "a", "b", "a", "é", "\U0010ffff"]), max_size=5
    ).map("".join)


def _as_operand(column: Column, target: DataType) -> Column | Cast:
    return column if column.type == target else Cast(column, target)


def _literals(predicate: Predicate) -> list[Literal]:
    match predicate:
        case And(children=children) | Or(children=children):
            return [literal for child in children for literal in _literals(child)]
        case Not(child=child):
            return _literals(child)
        case Comparison(left=left, right=right):
            return [side for side in (left, right) if isinstance(side, Literal)]
        case In(values=found):
            return list(found)
        case Match(text=text):
            return [Literal(text, STRING)]
    return []


def _as_type(value: Value, type: DataType, target: DataType) -> Value | None:
    """The value that becomes this one under a cast from ``target``, or one near it; None if there is no sense in it."""
    if type == target:
        return value
    if type == TIMESTAMP_NTZ and target == DATE:
        days = int(value) // 86_400_000_000
        return days if -_LAST_DAY // 4 <= days <= _LAST_DAY else None
    if not is_monotone(target, type) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if target.kind in FLOATING:
        return float32(float(value))
    if target.kind is Kind.DECIMAL:
        if abs(float(value)) >= 10 ** (target.precision - target.scale):
            return None
        with_scale = int(float(value) * 10**target.scale)
        return Decimal(f"{with_scale}E{-target.scale}") if abs(with_scale) < 10**target.precision else None
    low, high = integer_range(target)
    return min(max(int(value), low), high)
