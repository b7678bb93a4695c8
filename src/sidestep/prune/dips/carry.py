"""What the values of one column say about another that is compared with it: ranges of codes carried across.

A condition ``a = b`` lets a row of one side matter only if its value occurs on the other, so the ranges of a become
ranges of b (column equivalence; diPs, section 2). Types need not agree: Catalyst casts one side or both, and ranges go
*forward* through the cast on their own side and *back* through the cast on the other. Both directions round outwards,
so what is carried is never too little; a cast that does not keep order carries nothing. Columns that a side is computed
from are carried in the same way, step by step (:mod:`~sidestep.prune.plan.computed`).

======================  ======================================================================
condition               b must lie in
======================  ======================================================================
``a = b``               the ranges of a, without NULL
``a <=> b``             the ranges of a, with NULL if a may be NULL
``a < b``, ``a <= b``   what is at least the least value of a (a band)
``a > b``, ``a >= b``   what is at most the greatest value of a, NaN being the greatest of all
======================  ======================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidestep.predicate import Column, DataType, Interval, IntervalSet, Op, is_lossless
from sidestep.predicate.casts import by_value
from sidestep.predicate.types import INTEGRAL, Kind
from sidestep.prune.dips.column_ranges import NOTHING
from sidestep.prune.plan.computed import Step, cast_step, text_of
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges, value_ranges
from sidestep.synopsis.values.codes import GREATEST, LEAST, Coding
from sidestep.synopsis.values.forms import Form

MOST_CONVERTED = 64
"""Ranges whose codes must be turned into values and back are compacted to this many first: each takes microseconds."""

BANDS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})


@dataclass(frozen=True, slots=True)
class Comparand:
    """A column as it stands in a comparison: of its own type, cast to another, or computed by steps."""

    column: Column
    type: DataType
    computed: tuple[Step, ...] = ()

    def __hash__(self) -> int:
        return hash((self.column.name, self.computed))

    @property
    def steps(self) -> tuple[Step, ...] | None:
        """What is done to the column, in order; None if that does not keep order."""
        if self.computed or self.column.type == self.type:
            return self.computed if self.type.ordered else None
        step = cast_step(self.column.type, self.type)
        return None if step is None else (step,)

    @property
    def keeps_values(self) -> bool:
        return not self.computed and is_lossless(self.column.type, self.type)

    def text(self, name: str) -> str:
        """The comparand as people write it, the column by a name."""
        return text_of(name, self.computed)


def carries(origin: Comparand, op: Op, target: Comparand) -> bool:
    """Whether ranges can be carried at all; a band only where both sides are compared as one type."""
    if origin.steps is None or target.steps is None:
        return False
    return op not in BANDS or origin.type == target.type


def carry_ranges(
    ranges: CodeRanges, coding: Coding, origin: Comparand, op: Op, target: Comparand, into: Coding
) -> CodeRanges | None:
    """The codes of the target's column that satisfy ``origin op target`` for some value in the ranges, or a few more.

    >>> from sidestep.predicate.types import INTEGER, LONG, decimal_type
    >>> from sidestep.synopsis.values.codes import integer_codes
    >>> a, b = Comparand(Column("a", INTEGER), LONG), Comparand(Column("b", LONG), LONG)
    >>> ends = integer_codes(np.array([3, 5]))
    >>> ranges = CodeRanges(ends[:1], ends[1:])
    >>> [(low - 2**63, high - 2**63) for low, high in carry_ranges(ranges, Coding(INTEGER), a, Op.EQ, b, Coding(LONG))]
    [(3, 5)]
    >>> money = decimal_type(12, 2)
    >>> a, b = Comparand(Column("a", INTEGER), money), Comparand(Column("b", money), money)
    >>> [(low - 2**63, high - 2**63) for low, high in carry_ranges(ranges, Coding(INTEGER), a, Op.EQ, b, Coding(money))]
    [(300, 500)]
    """
    if not len(ranges):
        return NOTHING
    if not converts(coding, origin, target, into):
        if op in (Op.LT, Op.LE):
            return CodeRanges(ranges.lows[:1], np.array([GREATEST]))
        if op in (Op.GT, Op.GE):
            return CodeRanges(np.array([LEAST]), ranges.highs[-1:])
        return ranges
    values = _forward(value_ranges(compact(coding, ranges, MOST_CONVERTED), coding), origin)
    if values is None:
        return None
    if op in (Op.LT, Op.LE):
        first = values.intervals[0]
        values = IntervalSet(values.type, (Interval(first.low, None),))
    elif op in (Op.GT, Op.GE):
        last = values.intervals[-1]
        values = IntervalSet(values.type, (Interval(None, last.high),))
    elif origin.type != target.type:
        values = by_value(values, target.type)
    back = _back(values, target)
    return None if back is None else code_ranges(back, into)


def _forward(values: IntervalSet, origin: Comparand) -> IntervalSet | None:
    """What a comparand is where its column is one of these values; None if that may be anything."""
    found: IntervalSet | None = values
    for step in origin.steps or ():
        found = None if found is None else step.forward(found)
    return found


def _back(values: IntervalSet, target: Comparand) -> IntervalSet | None:
    """The values of a comparand's column where it is one of these values."""
    found: IntervalSet | None = values
    for step in reversed(target.steps or ()):
        found = None if found is None else step.back(found)
    return found


def converts(coding: Coding, origin: Comparand, target: Comparand, into: Coding) -> bool:
    """Whether carrying must go by way of values, one range at a time, since equal values have different codes."""
    return not (_same_codes(coding, into) and origin.keeps_values and target.keeps_values)


def recode(ranges: CodeRanges, coding: Coding, into: Coding) -> CodeRanges | None:
    """Ranges of one column in another coding of it: blocks of one table may leave different prefixes out."""
    if coding == into:
        return ranges
    return code_ranges(value_ranges(compact(coding, ranges, MOST_CONVERTED), coding), into)


def compact(coding: Coding, ranges: CodeRanges, limit: int) -> CodeRanges:
    """The ranges grown together across their narrowest gaps until at most ``limit`` are left (Lemma 1).

    Ranges with no code between them grow together in any case, which loses nothing.
    """
    if len(ranges) <= 1:
        return ranges
    apart = np.flatnonzero(ranges.lows[1:] - ranges.highs[:-1] > np.uint64(1))
    if len(apart) >= limit:
        gaps = coding.lengths(ranges.highs[apart] + np.uint64(1), ranges.lows[apart + 1])
        widest = np.argpartition(-gaps, limit - 1)[: limit - 1] if limit > 1 else np.zeros(0, np.int64)
        apart = np.sort(apart[widest])
    elif len(apart) == len(ranges) - 1:
        return ranges
    ends = np.append(apart, len(ranges) - 1)
    starts = np.append(0, apart + 1)
    return CodeRanges(ranges.lows[starts], ranges.highs[ends])


def _same_codes(one: Coding, other: Coding) -> bool:
    """Whether equal values of the two types have equal codes, in one order."""
    if one.prefix != other.prefix or one.form is not other.form:
        return False
    a, b = one.type, other.type
    if one.form is Form.INTEGER and a.kind in INTEGRAL:
        return b.kind in INTEGRAL
    if a.kind is Kind.DECIMAL:
        return b.kind is Kind.DECIMAL and a.scale == b.scale
    return a == b or one.form is Form.FLOAT
