"""One spelling for what people write in many: the form in which predicates are compared, counted and kept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from sidestep.predicate import (
    FALSE,
    HOLDS_ALWAYS,
    TRUE,
    And,
    Cast,
    Column,
    Comparison,
    Formula,
    In,
    Interval,
    IntervalSet,
    IsNull,
    Kind,
    Literal,
    Match,
    Not,
    Op,
    Opaque,
    Or,
    Predicate,
    all_of,
    any_of,
    normalize,
    sort_key,
    to_dict,
)
from sidestep.predicate.columns import columns_of
from sidestep.predicate.formula import is_identified
from sidestep.predicate.nodes import flatten
from sidestep.predicate.types import FLOATING

_OPPOSITE = {Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT}


def canonical(predicate: Predicate) -> Predicate:
    """The predicate in one fixed spelling, TRUE for exactly the same rows.

    Contract: the order of operands, of an IN list and of the parts of AND and OR, repeats among them, NOT before a
    comparison, ``a = 1 OR a = 2`` for ``a IN (1, 2)``, and a NULL in a list make no difference. The constants and the
    comparison stay as they were written, since people will read them: two predicates are equal "if all their components
    are equal, including the columns, the constants and the filtering condition" (thesis, 3.3.1). That ``x > 5`` is
    ``x >= 6`` for integers is for subsumption to find. Applied twice it changes nothing more.

    Only TRUE counts, as in a WHERE: where the predicate is FALSE the result may be NULL, and the other way round.

    >>> from sidestep.predicate import INTEGER, compare, one_of, sql
    >>> a = Column("a", INTEGER)
    >>> sql(canonical(Or((compare(a, "=", 2), one_of(a, [3, 1])))))
    'a IN (1, 2, 3)'
    """
    return _spell(predicate, True)


def key(predicate: Predicate) -> str:
    """A text by which predicates are ordered and compared: their whole written form, as canonical JSON."""
    match predicate:
        case And(children=children) | Or(children=children):
            kind = "and" if isinstance(predicate, And) else "or"
            return f'{{"children":[{",".join(map(key, children))}],"is":"{kind}"}}'
    return _key_of_small(predicate) if _is_small(predicate) else _key(predicate)


def formula_of(predicate: Predicate) -> Formula:
    """The predicate's normal form; remembered for a while, as a log says the same things again and again."""
    match predicate:
        case And():
            return all_of([formula_of(child) for child in flatten(And, predicate)])
        case Or():
            return any_of([formula_of(child) for child in flatten(Or, predicate)])
    return _formula_of_small(predicate) if _is_small(predicate) else normalize(predicate)


def is_repeatable(predicate: Predicate) -> bool:
    """Whether an equal predicate surely has the same value on the same row: nothing in it is random or unidentified."""
    return is_identified(formula_of(predicate))


def range_predicates(column: Column, ranges: IntervalSet) -> tuple[Predicate, ...]:
    """Predicates whose conjunction says that the column's value lies in the ranges: one per end of a single range.

    >>> from sidestep.predicate import INTEGER, sql
    >>> [sql(p) for p in range_predicates(Column("a", INTEGER), IntervalSet(INTEGER, (Interval(1, 15),)))]
    ['a >= 1', 'a <= 15']
    """
    if ranges.is_full:
        return (Not(IsNull(column)),)
    if ranges.is_empty:
        return (FALSE,)
    if all(interval.is_point for interval in ranges.intervals):
        values = tuple(Literal(interval.low, column.type) for interval in ranges.intervals)
        return (canonical(In(column, values)),)
    parts = [_interval_bounds(column, interval) for interval in ranges.intervals]
    return parts[0] if len(parts) == 1 else (canonical(Or(tuple(And(part) for part in parts))),)


def column_set(predicate: Predicate) -> frozenset[Column]:
    """The columns a predicate speaks of, each once."""
    return frozenset(columns_of(predicate))


def _is_small(predicate: Predicate) -> bool:
    """Whether it is quicker to look a predicate up than to go through it: not so for a list of 100,000 values."""
    inner = predicate.child if isinstance(predicate, Not) else predicate
    return not isinstance(inner, Opaque | And | Or | Not) and not (isinstance(inner, In) and len(inner.values) > 50)


def _key(predicate: Predicate) -> str:
    return json.dumps(to_dict(predicate), sort_keys=True, separators=(",", ":"))


_key_of_small = lru_cache(maxsize=20_000)(_key)
_formula_of_small = lru_cache(maxsize=20_000)(normalize)


def _interval_bounds(column: Column, interval: Interval) -> tuple[Predicate, ...]:
    if interval.is_point:
        return (Comparison(Op.EQ, column, Literal(interval.low, column.type)),)
    bounds: list[Predicate] = []
    if interval.low is not None:
        bounds.append(Comparison(Op.GE if interval.low_closed else Op.GT, column, Literal(interval.low, column.type)))
    if interval.high is not None:
        bounds.append(Comparison(Op.LE if interval.high_closed else Op.LT, column, Literal(interval.high, column.type)))
    return tuple(bounds)


def _spell(predicate: Predicate, value: bool) -> Predicate:
    """What says "the predicate is TRUE" (or, with ``value`` False, "is FALSE")."""
    match predicate:
        case And() | Or():
            kind = And if isinstance(predicate, And) is value else Or
            parts = [_spell(child, value) for child in flatten(type(predicate), predicate)]
            return _connect(kind, parts)
        case Not(child=child):
            return _spell(child, not value)
        case Literal(value=constant):
            return TRUE if constant is value else FALSE
        case Comparison():
            return _comparison(predicate, value)
        case In():
            return _in(predicate, value)
        case Opaque():
            spelled: Predicate = replace(predicate, reason="")
        case Match() | IsNull() | Column():
            spelled = predicate
    return spelled if value else Not(spelled)


def _connect(kind: type[And] | type[Or], parts: Iterable[Predicate]) -> Predicate:
    neutral, absorbing = (TRUE, FALSE) if kind is And else (FALSE, TRUE)
    flat = [inner for part in parts for inner in flatten(kind, part) if inner != neutral]
    if absorbing in flat:
        return absorbing
    if kind is Or:
        flat = _gather_equalities(flat)
    ordered = sorted((key(part), position) for position, part in enumerate(flat))
    kept: list[Predicate] = []
    last = None
    for text, position in ordered:
        # rand() < 0.5, twice, is not once.
        if text != last or not is_repeatable(flat[position]):
            kept.append(flat[position])
        last = text
    if len(kept) < 2:
        return kept[0] if kept else neutral
    return kind(tuple(kept))


def _gather_equalities(parts: list[Predicate]) -> list[Predicate]:
    """The parts of an OR with its equalities on one operand gathered into a list."""
    lists: dict[Column | Cast, list[Literal]] = {}
    others: list[Predicate] = []
    for part in parts:
        match part:
            # Whether a list of floats finds -0.0 is not certain, so equalities on floats stay alone.
            case Comparison(op=Op.EQ, left=Column() | Cast() as operand, right=Literal() as constant) if (
                operand.type.kind not in FLOATING
            ):
                lists.setdefault(operand, []).append(constant)
            case In(operand=operand, values=values) if operand.type.kind not in FLOATING:
                lists.setdefault(operand, []).extend(values)
            case _:
                others.append(part)
    return others + [_in(In(operand, tuple(values)), True) for operand, values in lists.items()]


def _in(membership: In, value: bool) -> Predicate:
    operand = membership.operand
    known = [constant for constant in membership.values if constant.value is not None]
    if not known or (not value and len(known) < len(membership.values)):
        return FALSE
    if not operand.type.ordered:
        spelled = In(operand, tuple(sorted(set(known), key=lambda constant: repr(constant.value))))
        return spelled if value else Not(spelled)
    distinct = {
        sort_key(constant.value): constant
        for constant in map(_without_negative_zero, known)
        if constant.value is not None
    }
    values = tuple(distinct[position] for position in sorted(distinct))
    if len(values) == 1:
        return _comparison(Comparison(Op.EQ, operand, values[0]), value)
    return In(operand, values) if value else Not(In(operand, values))


def _comparison(comparison: Comparison, value: bool) -> Predicate:
    op, left, right = comparison.op, comparison.left, comparison.right
    if isinstance(left, Literal) and isinstance(right, Literal):
        return TRUE if normalize(comparison if value else Not(comparison)) == HOLDS_ALWAYS else FALSE
    if isinstance(left, Literal):
        op, left, right = op.flipped, right, left
    if isinstance(right, Literal) and not isinstance(left, Literal):
        return _with_constant(op, left, _without_negative_zero(right), value)
    if not value and op in _OPPOSITE:
        op, value = _OPPOSITE[op], True
    if op in (Op.GT, Op.GE):
        op, left, right = op.flipped, right, left
    elif op in (Op.EQ, Op.NULL_SAFE) and repr(right) < repr(left):
        left, right = right, left
    spelled = Comparison(op, left, right)
    return spelled if value else Not(spelled)


def _with_constant(op: Op, operand: Column | Cast, constant: Literal, value: bool) -> Predicate:
    if constant.value is None:
        null = IsNull(operand)
        return (null if value else Not(null)) if op is Op.NULL_SAFE else FALSE
    if op is Op.NULL_SAFE and value:
        op = Op.EQ
    if op is Op.EQ and isinstance(operand, Column) and operand.type.kind is Kind.BOOLEAN:
        return operand if constant.value is value else Not(operand)
    if not value and op in _OPPOSITE:
        op, value = _OPPOSITE[op], True
    spelled = Comparison(op, operand, constant)
    return spelled if value else Not(spelled)


def _without_negative_zero(constant: Literal) -> Literal:
    """-0.0 as the 0.0 that it equals."""
    negative_zero = isinstance(constant.value, float) and constant.value == 0
    return Literal(0.0, constant.type) if negative_zero else constant
