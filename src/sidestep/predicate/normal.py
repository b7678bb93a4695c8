"""The "when true" normal form: what must hold for a WHERE to keep a row.

Spark's predicates have three values, but a WHERE asks only one thing: is it TRUE? That question is answered here once,
and everything after works on two-valued formulas without negation.
"""

from __future__ import annotations

import json
from typing import cast as typed

from sidestep.predicate.casts import is_lossless, is_monotone, pull_back
from sidestep.predicate.columns import columns_of
from sidestep.predicate.formula import (
    HOLDS_ALWAYS,
    HOLDS_NEVER,
    Formula,
    Holds,
    Matches,
    Null,
    Relation,
    all_of,
    any_of,
    compares,
    not_null,
    within,
)
from sidestep.predicate.intervals import IntervalSet
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
    flatten,
)
from sidestep.predicate.serial import to_dict
from sidestep.predicate.text import sql
from sidestep.predicate.types import FLOATING, DataType, Kind, Value

_NEGATED = {Op.EQ: "<>", Op.LT: ">=", Op.LE: ">", Op.GT: "<=", Op.GE: "<"}


def normalize(predicate: Predicate) -> Formula:
    """A formula that holds for a row exactly when the predicate is TRUE for it.

    Contract: two mutual functions, :func:`when_true` and :func:`when_false`, walk the tree, and NOT goes from one to
    the other: ``NOT p`` is TRUE exactly where p is FALSE, and never where p is NULL. So ``NOT (x > 5)`` becomes
    ``Within(x, <= 5)``, which leaves out NULLs as Spark does. Parts that are not understood stay as
    :class:`~sidestep.predicate.formula.Holds` atoms: a reader that cannot judge one takes it as possibly true.

    Conjuncts on one column become one set of ranges, which is what lets a range-set judge ``x >= 5 AND x <= 7`` whole
    (data-induced predicates, section 4).

    One list is not taken at its word: an IN over floats that lists a zero. Whether -0.0 is found depends on how an
    engine looks (by comparison it is, by hash it may not be), so for zeros the answer is an atom of its own and neither
    the IN nor its negation is taken to decide them.

    >>> from sidestep.predicate.build import column, compare, negation
    >>> from sidestep.predicate.types import INTEGER
    >>> x = column("x", INTEGER)
    >>> from sidestep.predicate.text import sql
    >>> sql(normalize(negation(compare(x, ">", 5))))
    'x <= 5'
    """
    return when_true(predicate)


def when_true(predicate: Predicate) -> Formula:
    """When the predicate is TRUE."""
    match predicate:
        case And():
            return all_of([when_true(child) for child in flatten(And, predicate)])
        case Or():
            return any_of([when_true(child) for child in flatten(Or, predicate)])
        case Not(child=child):
            return when_false(child)
    return _leaf(predicate, True)


def when_false(predicate: Predicate) -> Formula:
    """When the predicate is FALSE (not when it is NULL)."""
    match predicate:
        case And():
            return any_of([when_false(child) for child in flatten(And, predicate)])
        case Or():
            return all_of([when_false(child) for child in flatten(Or, predicate)])
        case Not(child=child):
            return when_true(child)
    return _leaf(predicate, False)


def as_opaque(predicate: Predicate, identified: bool = True, reason: str = "") -> Opaque:
    """The predicate as one that is not looked into, known again by its full written form."""
    columns = tuple(sorted(set(columns_of(predicate)), key=lambda c: (c.name, str(c.type))))
    depends = json.dumps(to_dict(predicate), sort_keys=True) if identified else None
    return Opaque(sql(predicate), columns, depends, reason=reason)


def _leaf(predicate: Predicate, value: bool) -> Formula:
    match predicate:
        case Literal(value=constant):
            return HOLDS_ALWAYS if constant is value else HOLDS_NEVER
        case Column() as column:
            return within(column, IntervalSet.point(column.type, value))
        case Opaque() as opaque:
            return Holds(opaque, value)
        case IsNull(operand=operand):
            return _null(predicate, operand, value)
        case Match() as match:
            return _match(match, value)
        case In() as membership:
            return _in(membership, value)
        case Comparison(op=op, left=left, right=right) as comparison:
            if isinstance(left, Literal) and isinstance(right, Literal):
                return HOLDS_ALWAYS if compare_values(op, left.value, right.value) is value else HOLDS_NEVER
            if isinstance(right, Literal) and not isinstance(left, Literal):
                return _against_constant(comparison, op, left, right, value)
            if isinstance(left, Literal) and not isinstance(right, Literal):
                return _against_constant(comparison, op.flipped, right, left, value)
            return _between_columns(comparison, value)
    raise TypeError(f"{predicate!r} is not a predicate that normalize knows.")


def _column(operand: Operand) -> Column:
    return typed(Column, operand.column if isinstance(operand, Cast) else operand)


def _opaque_atom(predicate: Predicate, value: bool, *present: Column) -> Formula:
    """One atom for a predicate that is not understood, and what is certain all the same: ``present`` are not NULL."""
    # What a cast gives may depend on the time zone and on ANSI mode, which the node does not say: no identity.
    casts = [o for o in _operands(predicate) if isinstance(o, Cast) and not is_monotone(o.column.type, o.type)]
    reason = f"the cast of {casts[0].column.name} to {casts[0].type} does not keep order" if casts else ""
    opaque = as_opaque(predicate, identified=not casts, reason=reason or "the order of its values is unknown")
    return all_of([*(not_null(column) for column in present), Holds(opaque, value)])


def _operands(predicate: Predicate) -> tuple[Operand, ...]:
    match predicate:
        case Comparison(left=left, right=right):
            return (left, right)
        case In(operand=operand) | IsNull(operand=operand):
            return (operand,)
    return ()


def _null(predicate: Predicate, operand: Column | Cast, value: bool) -> Formula:
    column = _column(operand)
    if isinstance(operand, Cast) and not is_monotone(column.type, operand.type):
        # A cast that fails gives NULL where ANSI mode is off; one that gives a value was given one.
        return (
            any_of([Null(column), _opaque_atom(predicate, True)]) if value else _opaque_atom(predicate, False, column)
        )
    return Null(column) if value else not_null(column)


def _match(match: Match, value: bool) -> Formula:
    pattern = pattern_of(match)
    exact = pattern.as_range()
    if exact is not None:
        return within(match.column, exact if value else exact.complement())
    if not value:
        return Matches(match.column, pattern, negated=True)
    return all_of([within(match.column, pattern.necessary_range()), Matches(match.column, pattern, negated=False)])


def _in(predicate: In, value: bool) -> Formula:
    column, type = _column(predicate.operand), predicate.operand.type
    values = [v.value for v in predicate.values if v.value is not None]
    if not value and len(values) < len(predicate.values):
        return HOLDS_NEVER  # x NOT IN (..., NULL) is never TRUE
    if not type.ordered:
        return _opaque_atom(predicate, value, column)
    listed = IntervalSet.points(type, values)
    ranges = pull_back(listed if value else listed.complement(), column.type)
    if ranges is None:
        return _opaque_atom(predicate, value, column)
    if type.kind in FLOATING and len(listed.intervals) > 1 and 0.0 in values:
        zeros = pull_back(IntervalSet.point(type, 0.0), column.type)
        if zeros is not None and column.type.kind in FLOATING:
            decided = within(column, ranges.difference(zeros))
            return any_of([decided, all_of([within(column, zeros), Holds(as_opaque(predicate), value)])])
    return within(column, ranges)


def _against_constant(predicate: Comparison, op: Op, operand: Column | Cast, constant: Literal, value: bool) -> Formula:
    column, type = _column(operand), operand.type
    if constant.value is None:
        return _null(IsNull(operand), operand, value) if op is Op.NULL_SAFE else HOLDS_NEVER
    ranges = None
    if type.ordered:
        ranges = pull_back(_solutions(op, type, constant.value, value), column.type)
    if ranges is None:
        null_decides = op is Op.NULL_SAFE and not value
        return _opaque_atom(predicate, value, *(() if null_decides else (column,)))
    if op is Op.NULL_SAFE and not value:
        return any_of([within(column, ranges), Null(column)])
    return within(column, ranges)


def _solutions(op: Op, type: DataType, constant: Value, value: bool) -> IntervalSet:
    """The values for which the comparison with a constant is TRUE, or (``value`` False) FALSE."""
    match op:
        case Op.EQ | Op.NULL_SAFE:
            ranges = IntervalSet.point(type, constant)
        case Op.LT | Op.LE:
            ranges = IntervalSet.at_most(type, constant, closed=op is Op.LE)
        case _:
            ranges = IntervalSet.at_least(type, constant, closed=op is Op.GE)
    return ranges if value else ranges.complement()


def _between_columns(predicate: Comparison, value: bool) -> Formula:
    left, right, op = _column(predicate.left), _column(predicate.right), predicate.op
    exact = all(
        isinstance(o, Column) or is_lossless(o.column.type, o.type)
        for o in (predicate.left, predicate.right)
        if not isinstance(o, Literal)
    )
    # Days and microseconds are not comparable as numbers; a date cast to a timestamp meets only another such date.
    same_unit = left.type == right.type or Kind.DATE not in (left.type.kind, right.type.kind)
    if not (exact and same_unit and left.type.ordered and right.type.ordered):
        return _opaque_atom(predicate, value, *(() if op is Op.NULL_SAFE else (left, right)))
    if op is Op.NULL_SAFE and value:
        return any_of([all_of([Null(left), Null(right)]), compares(left, "=", right)])
    if op is Op.NULL_SAFE:
        one_null = [all_of([Null(a), not_null(b)]) for a, b in ((left, right), (right, left))]
        return any_of([*one_null, compares(left, "<>", right)])
    relation = op.value if value else _NEGATED[op]
    if relation in (">", ">="):
        return compares(right, typed(Relation, relation.replace(">", "<")), left)
    return compares(left, typed(Relation, relation), right)
