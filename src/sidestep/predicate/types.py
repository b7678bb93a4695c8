"""The scalar types of Spark, and the order of their values.

Values are held the way Catalyst holds them, so that nothing is lost on the way: a date is its days since 1970-01-01, a
timestamp its microseconds, an interval its months or microseconds, a time its nanoseconds, a decimal a
``decimal.Decimal``, a string a ``str`` (code point order is UTF-8 byte order), binary ``bytes``.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache

Value = bool | int | float | Decimal | str | bytes
"""A non-NULL scalar, held as described above."""


class Kind(Enum):
    """A family of Spark scalar types; the value is Spark's own name for it."""

    BOOLEAN = "boolean"
    BYTE = "tinyint"
    SHORT = "smallint"
    INTEGER = "int"
    LONG = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    TIME = "time"
    YEAR_MONTH = "interval year to month"
    DAY_TIME = "interval day to second"
    OTHER = "other"

    # Enum's own hash is of the name, in Python: half the time of an implication test went there.
    __hash__ = object.__hash__


INTEGRAL = frozenset({Kind.BYTE, Kind.SHORT, Kind.INTEGER, Kind.LONG})
FLOATING = frozenset({Kind.FLOAT, Kind.DOUBLE})
TEMPORAL = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.TIME, Kind.YEAR_MONTH, Kind.DAY_TIME})
DISCRETE = INTEGRAL | TEMPORAL | {Kind.BOOLEAN}
"""Kinds whose values are integers, so that ``x > 5`` is ``x >= 6``."""


@dataclass(frozen=True, slots=True)
class DataType:
    """A Spark type: its kind, and what else decides how its values compare."""

    kind: Kind
    precision: int = 0
    """Of a decimal its digits, of a time those of its seconds' fraction."""
    scale: int = 0
    detail: str = ""
    """For OTHER: Spark's text of the type (arrays, structs, collated strings); it is never ordered.

    For an interval of other units than the whole of its family: these units (``day``, ``hour to second``). A cast
    between them drops what the narrower has no room for, so they are types of their own.
    """

    @property
    def ordered(self) -> bool:
        """Whether sidestep knows the order of this type's values exactly as Spark does."""
        return self.kind is not Kind.OTHER

    @property
    def discrete(self) -> bool:
        return self.kind in DISCRETE

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        if self.kind is Kind.TIME:
            return f"time({self.precision})"
        if self.kind is Kind.OTHER:
            return self.detail or "other"
        if self.detail:
            return f"interval {self.detail}"
        return str(self.kind.value)


BOOLEAN = DataType(Kind.BOOLEAN)
BYTE = DataType(Kind.BYTE)
SHORT = DataType(Kind.SHORT)
INTEGER = DataType(Kind.INTEGER)
LONG = DataType(Kind.LONG)
FLOAT = DataType(Kind.FLOAT)
DOUBLE = DataType(Kind.DOUBLE)
STRING = DataType(Kind.STRING)
BINARY = DataType(Kind.BINARY)
DATE = DataType(Kind.DATE)
TIMESTAMP = DataType(Kind.TIMESTAMP)
TIMESTAMP_NTZ = DataType(Kind.TIMESTAMP_NTZ)
TIME = DataType(Kind.TIME, 6)
"""Microseconds, which is what TIME means in SQL without more."""
YEAR_MONTH = DataType(Kind.YEAR_MONTH)
DAY_TIME = DataType(Kind.DAY_TIME)


_INTEGER_RANGE = {
    Kind.BOOLEAN: (0, 1),
    Kind.BYTE: (-(2**7), 2**7 - 1),
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.DATE: (-(2**31), 2**31 - 1),
    Kind.YEAR_MONTH: (-(2**31), 2**31 - 1),
}
_LONG_RANGE = (-(2**63), 2**63 - 1)


def integer_range(type: DataType) -> tuple[int, int]:
    """The least and greatest value that Catalyst can hold in a discrete type.

    Dates, timestamps and times get the range of the integer that carries them, not the calendar's: a file may hold any.
    """
    if not type.discrete:
        raise ValueError(f"{type} is not a discrete type, so it has no integer range.")
    return _INTEGER_RANGE.get(type.kind, _LONG_RANGE)


def time_step(type: DataType) -> int:
    """The nanoseconds between two neighbours of a TIME: Spark's reader cuts off what a file holds beyond them.

    >>> time_step(TIME)
    1000
    """
    return int(10 ** max(0, 9 - type.precision))


def decimal_type(precision: int, scale: int) -> DataType:
    return DataType(Kind.DECIMAL, precision, scale)


_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_TIME = re.compile(r"time\((\d+)\)")
_UNITS = {
    Kind.YEAR_MONTH: ("year", "month"),
    Kind.DAY_TIME: ("day", "hour", "minute", "second"),
}
_BY_NAME = {kind.value: DataType(kind) for kind in Kind if kind not in (Kind.DECIMAL, Kind.TIME, Kind.OTHER)} | {
    "time": TIME
}
for _kind, _units in _UNITS.items():
    for _at, _first in enumerate(_units):
        for _last in _units[_at:]:
            _detail = _first if _first == _last else f"{_first} to {_last}"
            _BY_NAME.setdefault(f"interval {_detail}", DataType(_kind, detail=_detail))


@lru_cache(maxsize=1_024)
def parse_type(text: str) -> DataType:
    """The type that Spark's ``DataType.catalogString`` names; anything unknown becomes OTHER.

    >>> str(parse_type("decimal(12,2)")), parse_type("string collate UNICODE_CI").ordered
    ('decimal(12,2)', False)
    >>> parse_type("interval day") == parse_type("interval day to second")
    False
    """
    name = text.strip().lower()
    if name in _BY_NAME:
        return _BY_NAME[name]
    if match := _DECIMAL.fullmatch(name):
        return decimal_type(int(match[1]), int(match[2]))
    if match := _TIME.fullmatch(name):
        return DataType(Kind.TIME, int(match[1]))
    if re.fullmatch(r"(char|varchar)\(\d+\)", name):
        return STRING
    return DataType(Kind.OTHER, detail=text)


def sort_key(value: Value) -> tuple[bool, Value]:
    """A key that orders the values of one type as Spark does: NaN equals itself and is above all else, -0.0 is 0.0.

    >>> sort_key(float("inf")) < sort_key(float("nan")), sort_key(-0.0) == sort_key(0.0)
    (True, True)
    """
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return (False, value)


def float32(value: float) -> float:
    """The 32-bit float nearest to a double, as the double that equals it; beyond the range, an infinity.

    >>> float32(0.1), float32(1e300)
    (0.10000000149011612, inf)
    """
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


_HELD_AS: dict[Kind, type] = {
    Kind.BOOLEAN: bool,
    Kind.FLOAT: float,
    Kind.DOUBLE: float,
    Kind.DECIMAL: Decimal,
    Kind.STRING: str,
    Kind.BINARY: bytes,
}


def check_value(value: Value, data_type: DataType) -> Value:
    """The value, if it is held as its type wants it, else a ValueError that says how it should be held.

    A FLOAT is rounded to 32 bits here: compared as the double 0.1, a literal 0.1 would equal no 32-bit value, and
    blocks that hold it would be skipped.
    """
    kind = data_type.kind
    if kind is Kind.OTHER:
        return value
    if type(value) is not _HELD_AS.get(kind, int):
        wanted = _HELD_AS.get(kind, int).__name__
        raise ValueError(f"A {data_type} is held as a Python {wanted}, but {value!r} is a {type(value).__name__}.")
    if kind is Kind.FLOAT:
        return float32(value)  # type: ignore[arg-type]
    if kind is Kind.DECIMAL and not value.is_finite():  # type: ignore[union-attr]
        raise ValueError(f"A decimal is a finite number, but {value!r} is not.")
    return value
