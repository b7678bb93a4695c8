"""The meaning of predicates and formulas, row by row: slow, plain, and what all faster judgement is tested against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sidestep.predicate.casts import cast
from sidestep.predicate.formula import All, Any, Compares, Formula, Holds, Matches, Null, Within
from sidestep.predicate.like import pattern_of
from sidestep.predicate.nodes import (
    And,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Op,
    Opaque,
    Operand,
    Or,
    Predicate,
    compare_values,
)
from sidestep.predicate.types import Value, check_value, sort_key

Row = Mapping[str, Value | None]
"""A value per column name, held as its type wants it; None is NULL."""
Resolver = Callable[[Opaque, Row], bool | None]
"""The value of an opaque predicate on a row."""


def evaluate(predicate: Predicate, row: Row, opaque: Resolver | None = None) -> bool | None:
    """What Spark makes of the predicate on a row: True, False, or None for NULL.

    >>> from sidestep.predicate.build import column, compare
    >>> from sidestep.predicate.types import INTEGER
    >>> evaluate(compare(column("x", INTEGER), ">", 5), {"x": None}) is None
    True
    """
    match predicate:
        case And(children=children):
            return _conjunction(evaluate(child, row, opaque) for child in children)
        case Or(children=children):
            return _not(_conjunction(_not(evaluate(child, row, opaque)) for child in children))
        case Not(child=child):
            return _not(evaluate(child, row, opaque))
        case Comparison(op=op, left=left, right=right):
            return compare_values(op, _value(left, row), _value(right, row))
        case In(operand=operand, values=values):
            hits = [compare_values(Op.EQ, _value(operand, row), v.value) for v in values]
            return True if True in hits else None if None in hits else False
        case Match(column=column):
            text = _value(column, row)
            return None if text is None else pattern_of(predicate).matches(str(text))
        case IsNull(operand=operand):
            return _value(operand, row) is None
        case Opaque():
            if opaque is None:
                raise ValueError(f"The predicate {predicate.text} is opaque: pass a resolver that knows its value.")
            return opaque(predicate, row)
        case Column() | Literal():
            value = _value(predicate, row)
            return None if value is None else bool(value)
    raise TypeError(f"{predicate!r} is not a predicate.")


def holds(formula: Formula, row: Row, opaque: Resolver | None = None) -> bool:
    """Whether a formula holds for a row; without a resolver, an opaque predicate does: unknown means keep."""
    match formula:
        case All(children=children):
            return all(holds(child, row, opaque) for child in children)
        case Any(children=children):
            return any(holds(child, row, opaque) for child in children)
        case Within(column=column, ranges=ranges):
            value = _value(column, row)
            return value is not None and (ranges.is_full or ranges.contains(value))
        case Null(column=column):
            return _value(column, row) is None
        case Matches(column=column, pattern=pattern, negated=negated):
            value = _value(column, row)
            return value is not None and pattern.matches(str(value)) is not negated
        case Compares(left=left, op=relation, right=right):
            a, b = _value(left, row), _value(right, row)
            if a is None or b is None:
                return False
            order = (sort_key(a) > sort_key(b)) - (sort_key(a) < sort_key(b))
            return order in {"<": (-1,), "<=": (-1, 0), "=": (0,), "<>": (-1, 1)}[relation]
        case Holds(opaque=predicate, value=value):
            return opaque is None or opaque(predicate, row) is value
    raise TypeError(f"{formula!r} is not a formula.")


def _value(operand: Operand, row: Row) -> Value | None:
    match operand:
        case Literal(value=value):
            return value
        case Cast(column=column, type=type):
            value = _value(column, row)
            return None if value is None else cast(value, column.type, type)
    value = row[operand.name]
    return None if value is None else check_value(value, operand.type)


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _conjunction(values: Iterable[bool | None]) -> bool | None:
    seen = set(values)
    return False if False in seen else None if None in seen else True
