"""Short ways to write predicates by hand, in Python's own values: dates, datetimes, ints for any number."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal

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
    Or,
    Predicate,
)
from sidestep.predicate.types import FLOATING, DataType, Kind

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def column(name: str, type: DataType) -> Column:
    """A column."""
    return Column(name, type)


def literal(value: object, type: DataType) -> Literal:
    """A constant of a type, from Python's own kind of value.

    >>> from sidestep.predicate.types import DATE, decimal_type
    >>> literal(datetime.date(1970, 1, 11), DATE).value, literal(3, decimal_type(5, 2)).value
    (10, Decimal('3'))
    """
    match value:
        case datetime.datetime():
            naive = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
            return Literal((naive - _EPOCH) // _MICROSECOND, type)
        case datetime.date():
            days = (value - _EPOCH.date()).days
            return Literal(days if type.kind is Kind.DATE else days * 86_400_000_000, type)
        case datetime.time():
            since = datetime.datetime.combine(_EPOCH.date(), value) - _EPOCH
            return Literal(since // _MICROSECOND * 1000, type)
        case datetime.timedelta():
            return Literal(value // _MICROSECOND, type)
        case bool():
            return Literal(value, type)
        case int() | float() if type.kind is Kind.DECIMAL:
            return Literal(Decimal(repr(value)), type)
        case int() if type.kind in FLOATING:
            return Literal(float(value), type)
    return Literal(value, type)  # type: ignore[arg-type]


def compare(operand: Column | Cast, op: str, value: object) -> Predicate:
    """``operand op value``, the value a constant, a column or a cast; ``<>`` and ``!=`` are the negation of ``=``."""
    right = value if isinstance(value, Column | Cast | Literal) else literal(value, operand.type)
    if op in ("<>", "!="):
        return Not(Comparison(Op.EQ, operand, right))
    return Comparison(Op(op), operand, right)


def between(operand: Column | Cast, low: object, high: object) -> Predicate:
    """``operand BETWEEN low AND high``, both included."""
    return And((compare(operand, ">=", low), compare(operand, "<=", high)))


def one_of(operand: Column | Cast, values: Iterable[object]) -> In:
    """``operand IN (values…)``."""
    return In(operand, tuple(v if isinstance(v, Literal) else literal(v, operand.type) for v in values))


def is_like(column: Column, pattern: str, escape: str = "\\") -> Match:
    """``column LIKE pattern``."""
    return Match(MatchKind.LIKE, column, pattern, escape)


def is_null(operand: Column | Cast) -> IsNull:
    """``operand IS NULL``."""
    return IsNull(operand)


def is_not_null(operand: Column | Cast) -> Predicate:
    """``operand IS NOT NULL``."""
    return Not(IsNull(operand))


def conjunction(*parts: Predicate) -> Predicate:
    """``a AND b AND …``; one part stands alone."""
    return parts[0] if len(parts) == 1 else And(parts)


def disjunction(*parts: Predicate) -> Predicate:
    """``a OR b OR …``; one part stands alone."""
    return parts[0] if len(parts) == 1 else Or(parts)


def negation(part: Predicate) -> Not:
    """``NOT part``."""
    return Not(part)
