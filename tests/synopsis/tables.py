"""Random tables cut in blocks, their zone maps, and random predicates about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from sidestep.predicate import types as t
from sidestep.predicate.nodes import (
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
from sidestep.predicate.oracle import Row
from sidestep.predicate.types import DataType, Kind, Value
from sidestep.synopsis import Catalog, ColumnSummary, Synopsis, stored_type, summarize, zone_maps
from tests.arrow_types import ARROW

TYPES: dict[str, DataType] = {
    "flag": t.BOOLEAN,
    "tiny": t.BYTE,
    "short": t.SHORT,
    "int": t.INTEGER,
    "int2": t.INTEGER,
    "long": t.LONG,
    "long2": t.LONG,
    "float": t.FLOAT,
    "double": t.DOUBLE,
    "double2": t.DOUBLE,
    "money": t.decimal_type(9, 2),
    "fine": t.decimal_type(18, 4),
    "wide": t.decimal_type(38, 10),
    "broad": t.decimal_type(22, 2),
    "text": t.STRING,
    "text2": t.STRING,
    "blob": t.BINARY,
    "day": t.DATE,
    "day2": t.DATE,
    "instant": t.TIMESTAMP,
    "local": t.TIMESTAMP_NTZ,
    "clock": t.TIME,
    "months": t.YEAR_MONTH,
    "span": t.DAY_TIME,
}
COLUMNS = {name: Column(name, type) for name, type in TYPES.items()}

_BIG = 2**53
_LONG_TEXT = "prefix of more than thirty-two bytes"
POOLS: dict[Kind, Sequence[Value]] = {
    Kind.BOOLEAN: [False, True],
    Kind.BYTE: [-128, -1, 0, 1, 2, 127],
    Kind.SHORT: [-(2**15), -1, 0, 1, 2, 2**15 - 1],
    Kind.INTEGER: [-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1],
    Kind.LONG: [-(2**63), -1, 0, 1, 2, _BIG - 1, _BIG, _BIG + 1, _BIG + 2, 2**63 - 1],
    Kind.FLOAT: [-math.inf, -1.5, -0.0, 0.0, 1.0, 1.5, t.float32(0.1), math.inf, math.nan],
    Kind.DOUBLE: [
        -math.inf,
        -1.5,
        -0.0,
        0.0,
        0.1,
        1.0,
        1.5,
        2.0,
        float(_BIG),
        _BIG + 2.0,
        2.0**63,
        1e300,
        math.inf,
        math.nan,
    ],
    Kind.DECIMAL: [Decimal(x) for x in ("-1.5", "-0.01", "0", "0.01", "1", "1.5", "2", "99.99")],
    Kind.STRING: [
        *("", "\0", "a", "a\0", "ab", "abc", "b", "é", "\uffff", "\U0010ffff"),
        *(_LONG_TEXT, _LONG_TEXT + "!", "x" * 31 + "é", "\U0010ffff" * 9),
    ],
    Kind.BINARY: [b"", b"\0", b"a", b"a\0", b"\x7f", b"\x80", b"\xff", b"\xff" * 33, b"a" * 32, b"a" * 32 + b"\0"],
    Kind.DATE: [-719_162, -1, 0, 1, 19_000, 19_001, 2_932_896],
    Kind.TIMESTAMP: [-1, 0, 1, 1_700_000_000_000_000],
    Kind.TIMESTAMP_NTZ: [-1, 0, 1, 86_400_000_000, 86_400_000_001],
    Kind.TIME: [0, 1_000, 86_399_999_999_000],
    Kind.YEAR_MONTH: [-12, 0, 1, 14],
    Kind.DAY_TIME: [-1, 0, 1, 10**15],
}
_WIDE = [Decimal(x) for x in ("-1e27", "1e18", "12345678901234567890.1234567891", "9999999999999999999999999999")]


def pool(type: DataType) -> list[Value]:
    """Values of a type, chosen to collide and to sit on edges."""
    values = list(POOLS[type.kind])
    if type.kind is Kind.DECIMAL and type.precision == 38:
        values += _WIDE
    return values


Blocks = list[list[Row]]


@st.composite
def blocks_of(draw: st.DrawFn, names: Sequence[str], most_rows: int = 4) -> Blocks:
    """A few blocks of a few rows; in each, a column draws from few values, so that there is something to skip."""
    blocks: Blocks = []
    for _ in range(draw(st.integers(1, 4))):
        choices = {}
        for name in names:
            few = draw(st.lists(st.sampled_from(pool(TYPES[name])), min_size=1, max_size=3))
            choices[name] = st.sampled_from([*few, *[None] * draw(st.sampled_from([0, 1, 6]))])
        blocks.append(draw(st.lists(st.fixed_dictionaries(choices), min_size=0, max_size=most_rows)))
    return blocks


def arrow_array(values: Sequence[Value | None], type: DataType) -> pa.Array:
    """The values as Spark's Parquet reader and writer have them."""
    arrow = pa.decimal128(type.precision, type.scale) if type.kind is Kind.DECIMAL else ARROW[type.kind]
    return pa.array(values, arrow)


def zone_maps_of(blocks: Blocks, names: Sequence[str], forget: Sequence[str] = ()) -> Synopsis:
    """The zone maps that :func:`summarize` gives; parts named in ``forget`` (``lower:int``) are unknown."""
    index: dict[str, pa.Array] = {}
    for name in names:
        type = TYPES[name]
        found: list[ColumnSummary] = [
            summarize(arrow_array([row[name] for row in block], type), type) for block in blocks
        ]
        index[f"lower:{name}"] = pa.array([summary.lower for summary in found], stored_type(type))
        index[f"upper:{name}"] = pa.array([summary.upper for summary in found], stored_type(type))
        index[f"nulls:{name}"] = pa.array([summary.nulls for summary in found], pa.int64())
        index[f"nan:{name}"] = pa.array([summary.nan for summary in found], pa.bool_())
    rows = np.array([len(block) for block in blocks], dtype=np.int64)
    return zone_maps({name: TYPES[name] for name in names}, {k: v for k, v in index.items() if k not in forget}, rows)


def catalog_of(blocks: Blocks, *synopses: Synopsis) -> Catalog:
    """A catalog with one block in each file."""
    rows = np.array([len(block) for block in blocks], dtype=np.int64)
    return Catalog(np.arange(len(blocks), dtype=np.int32), rows, rows * 10, len(blocks), synopses)


# Only casts that keep order: others cannot be evaluated row by row.
_CASTS: dict[str, Sequence[DataType]] = {
    "tiny": [t.INTEGER, t.DOUBLE],
    "int": [t.LONG, t.DOUBLE, t.FLOAT, t.decimal_type(14, 4)],
    "long": [t.DOUBLE, t.FLOAT, t.decimal_type(20, 0)],
    "float": [t.DOUBLE],
    "money": [t.decimal_type(14, 4), t.DOUBLE],
    "wide": [t.DOUBLE],
    "day": [t.TIMESTAMP_NTZ],
}
_PAIRS = [
    ("int", "int2", None),
    ("long", "long2", None),
    ("double", "double2", None),
    ("text", "text2", None),
    ("day", "day2", None),
    ("int", "long", t.LONG),
    ("tiny", "int", t.INTEGER),
    ("float", "double", t.DOUBLE),
    ("int", "double", t.DOUBLE),
    ("long", "double", t.DOUBLE),
    ("day", "local", t.TIMESTAMP_NTZ),
    ("money", "fine", t.decimal_type(18, 4)),
    ("broad", "wide", t.decimal_type(38, 10)),
    ("int", "money", t.decimal_type(12, 2)),
]
NAMES = sorted(TYPES)


def literals(type: DataType) -> st.SearchStrategy[Literal]:
    values: list[Value] = list(pool(type))
    if type.kind is Kind.DECIMAL and type.scale >= 4:
        values.append(Decimal("0.0150"))
    return st.sampled_from(values).map(lambda value: Literal(value, type))


@st.composite
def leaves(draw: st.DrawFn, names: Sequence[str]) -> Predicate:
    """One condition on columns of these names."""
    name = draw(st.sampled_from(list(names)))
    column = COLUMNS[name]
    targets = _CASTS.get(name, ())
    operand: Column | Cast = column
    if draw(st.booleans()) and len(targets) > 0:
        operand = Cast(column, draw(st.sampled_from(targets)))
    nulls = st.just(Literal(None, operand.type))
    constant = literals(operand.type)
    pairs = [pair for pair in _PAIRS if pair[0] in names and pair[1] in names]
    kinds = ["compare", "compare", "in", "null", *(["pair"] * 3 if pairs else []), "opaque"]
    if column.type.kind is Kind.STRING:
        kinds += ["match"] * 3
    if column.type.kind is Kind.BOOLEAN:
        kinds += ["bare"]
    match draw(st.sampled_from(kinds)):
        case "in":
            members = draw(st.lists(st.one_of(constant, constant, constant, nulls), min_size=1, max_size=8))
            return In(operand, tuple(members))
        case "null":
            return IsNull(operand)
        case "pair":
            left, right, common = draw(st.sampled_from(pairs))
            a: Column | Cast = COLUMNS[left]
            b: Column | Cast = COLUMNS[right]
            if common is not None:
                a = a if a.type == common else Cast(COLUMNS[left], common)
                b = b if b.type == common else Cast(COLUMNS[right], common)
            return Comparison(draw(st.sampled_from(list(Op))), *draw(st.permutations((a, b))))
        case "match":
            kind = draw(st.sampled_from(list(MatchKind)))
            text = draw(st.sampled_from(["a", "ab", "%", "a%", "%b", "_", "a_%", "%\0", "prefix%!", "", "x%é", "%"]))
            return Match(kind, column, text)
        case "bare":
            return column
        case "opaque":
            return Opaque("f(x)", (column,), draw(st.sampled_from([None, "", "UTC"])))
    return Comparison(draw(st.sampled_from(list(Op))), operand, draw(st.one_of(constant, constant, constant, nulls)))


def predicates(names: Sequence[str]) -> st.SearchStrategy[Predicate]:
    """Conditions on these columns under AND, OR and NOT."""

    def combine(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(several.map(And), several.map(Or), inner.map(Not))

    return st.recursive(leaves(names), combine, max_leaves=6)
