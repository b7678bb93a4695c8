"""Columns that are computed from another by steps that keep order or turn it round: ``x + 1``, ``-x``, ``x * 2``.

A condition on such a column is a condition on the one below it (rule 2 of diPs, section 3.2): a set of its values goes
*back* through the steps to the values that give them, and what the column below holds goes *forward*. Neither need be
exact; both take in at least what they should. NULL gives NULL in every step.

**What may overflow.** A sum of integers may wrap around, be NULL or raise an error, by a setting and by the function.
So values whose result the type cannot hold are given no meaning at all: going back, they belong to every set, and where
there are some to go forward, nothing is known of what they become.

**What rounds.** Arithmetic on floating numbers with a constant is rounded and still monotone: values may meet, but
never swap. NaN stays NaN, above all other values, also where the order of these is turned round. Arithmetic on decimals
is understood where the result has a digit for each digit of the exact one.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sidestep.predicate import Cast, Column, DataType, Interval, IntervalSet, Literal, is_monotone, pull_back
from sidestep.predicate.casts import first_reached, push_forward
from sidestep.predicate.types import FLOATING, INTEGRAL, Kind, Value, float32, integer_range


@dataclass(frozen=True, slots=True)
class CastTo:
    """A cast that keeps order."""

    source: DataType
    type: DataType

    def forward(self, ranges: IntervalSet) -> IntervalSet | None:
        return push_forward(ranges, self.type)

    def back(self, ranges: IntervalSet) -> IntervalSet | None:
        return pull_back(ranges, self.source)

    def text(self, below: str) -> str:
        return f"CAST({below} AS {self.type})"


@dataclass(frozen=True, slots=True)
class Linear:
    """``times * x + plus`` of integers, of days, or of decimals as whole numbers of their last digit."""

    source: DataType
    type: DataType
    times: int
    plus: int
    form: str

    def forward(self, ranges: IntervalSet) -> IntervalSet | None:
        least, greatest = _ordinal_range(self.type)
        images = []
        for interval in ranges.intervals:
            ends = sorted(self.times * n + self.plus for n in _ordinals(interval, self.source))
            if ends[0] < least or ends[1] > greatest:
                return None
            images.append(_interval(ends[0], ends[1], self.type))
        return IntervalSet(self.type, tuple(images))

    def back(self, ranges: IntervalSet) -> IntervalSet | None:
        first, last = _ordinal_range(self.source)
        held = self._preimage(*_ordinal_range(self.type))
        images = [(first, held[0] - 1), (held[1] + 1, last)]
        images += [self._preimage(*_ordinals(interval, self.type)) for interval in ranges.intervals]
        clipped = [(max(low, first), min(high, last)) for low, high in images]
        found = tuple(_interval(low, high, self.source) for low, high in clipped if low <= high)
        return IntervalSet(self.source, found)

    def _preimage(self, low: int, high: int) -> tuple[int, int]:
        ends = (low - self.plus, high - self.plus) if self.times > 0 else (self.plus - high, self.plus - low)
        times = abs(self.times)
        return -(-ends[0] // times), ends[1] // times

    def text(self, below: str) -> str:
        return self.form.format(below)


@dataclass(frozen=True, slots=True)
class Rounded:
    """Arithmetic of floating numbers with a constant that is finite, and not 0 where it multiplies or divides."""

    type: DataType
    op: str
    constant: float
    form: str

    @property
    def source(self) -> DataType:
        return self.type

    @property
    def rises(self) -> bool:
        return self.op in "+-" or (self.op in "*/" and self.constant > 0)

    def value(self, x: float) -> float:
        exact = _FLOATING[self.op](x, self.constant)
        return float32(exact) if self.type.kind is Kind.FLOAT else exact

    def forward(self, ranges: IntervalSet) -> IntervalSet | None:
        images = []
        for low, high in _numbers(ranges):
            ends = sorted((self.value(low), self.value(high)))
            images.append(Interval(ends[0], ends[1]))
        return IntervalSet(self.type, (*images, *_nan(ranges)))

    def back(self, ranges: IntervalSet) -> IntervalSet | None:
        images = []
        for low, high in _numbers(ranges):
            first, last = self._first(low, above=False), self._first(high, above=True) - 1
            if first <= last:
                ends = sorted(_of_bits(n if self.rises else -n, self.type) for n in (first, last))
                images.append(Interval(ends[0], ends[1]))
        return IntervalSet(self.type, (*images, *_nan(ranges)))

    def _first(self, image: float, above: bool) -> int:
        """The first number, in the order of images, that gives at least (or above) one; one after infinity if none."""
        sign, most = 1 if self.rises else -1, _bits(math.inf, self.type)

        def reached(n: int) -> bool:
            value = self.value(_of_bits(sign * n, self.type))
            return value > image if above else value >= image

        near = _UNDONE[self.op](image, self.constant)
        guess = sign * _bits(0.0 if math.isnan(near) else near, self.type)
        return first_reached(guess, -most, most + 1, reached)

    def text(self, below: str) -> str:
        return self.form.format(below)


Step = CastTo | Linear | Rounded


@dataclass(frozen=True, slots=True)
class Computed:
    """A column, and the steps by which another is computed from it, the first first."""

    column: Column
    steps: tuple[Step, ...]

    @property
    def type(self) -> DataType:
        return self.steps[-1].type


def text_of(name: str, steps: tuple[Step, ...]) -> str:
    """A computed column as people write it.

    >>> from sidestep.predicate.types import LONG
    >>> double, more = Linear(LONG, LONG, 2, 0, "{} * 2"), Linear(LONG, LONG, 1, 3, "{} + 3")
    >>> text_of("x", (double,)), text_of("x", (more, double))
    ('x * 2', '(x + 3) * 2')
    """
    text = name
    for number, step in enumerate(steps):
        inner = number and not isinstance(steps[number - 1], CastTo) and not isinstance(step, CastTo)
        text = step.text(f"({text})" if inner else text)
    return text


def with_step(operand: Column | Cast | Computed, step: Step | None) -> Computed | None:
    """What a step makes of an operand; None if one of all the steps is not understood."""
    if step is None:
        return None
    if isinstance(operand, Column):
        return Computed(operand, (step,))
    if isinstance(operand, Computed):
        return Computed(operand.column, (*operand.steps, step))
    first = cast_step(operand.column.type, operand.type)
    return None if first is None else Computed(operand.column, (first, step))


def cast_step(source: DataType, type: DataType) -> Step | None:
    return CastTo(source, type) if is_monotone(source, type) else None


def arithmetic_step(op: str, source: DataType, constant: Literal | None, type: DataType) -> Step | None:
    """The step that takes a value of ``source`` and a constant to one of ``type``; None if it does not keep order.

    ``op`` is ``+``, ``-``, ``*`` or ``/`` with the constant on the right, ``from`` for a constant less the value, and
    ``negate``, which takes no constant.

    >>> from sidestep.predicate.types import INTEGER
    >>> step = arithmetic_step("from", INTEGER, Literal(10, INTEGER), INTEGER)
    >>> step.forward(IntervalSet(INTEGER, (Interval(1, 3),))).intervals
    (Interval(low=7, high=9, low_closed=True, high_closed=True),)
    """
    if op == "negate":
        constant = None
    elif constant is None or constant.value is None:
        return None
    if source.kind in FLOATING:
        return _rounded_step(op, source, constant, type)
    units = _units(op, source, constant, type)
    if units is None or units[0] == 0:
        return None
    return Linear(source, type, units[0], units[1], _form(op, constant))


def _rounded_step(op: str, source: DataType, constant: Literal | None, type: DataType) -> Step | None:
    if type != source or (constant is not None and constant.type != source):
        return None
    value = 0.0 if constant is None else constant.value
    if not isinstance(value, float) or not math.isfinite(value) or (op in "*/" and value == 0):
        return None
    return Rounded(type, op, value, _form(op, constant))


def _units(op: str, source: DataType, constant: Literal | None, type: DataType) -> tuple[int, int] | None:
    """What the whole number of a value is multiplied with, and what is added to it."""
    if source.kind is Kind.DECIMAL and type.kind is Kind.DECIMAL:
        return _decimal_units(op, source, constant, type)
    whole = source.kind in INTEGRAL or (source.kind is Kind.DATE and op in "+-")
    if not whole or type != source:
        return None
    if constant is None:
        return -1, 0
    # A number of days is of another type than a date.
    if not isinstance(constant.value, int) or not (constant.type == source or source.kind is Kind.DATE):
        return None
    return _times_and_plus(op, constant.value)


def _decimal_units(op: str, source: DataType, constant: Literal | None, type: DataType) -> tuple[int, int] | None:
    if constant is None:
        return (-1, 0) if type == source else None
    if constant.type.kind is not Kind.DECIMAL or not isinstance(constant.value, Decimal):
        return None
    digits = source.scale + constant.type.scale if op == "*" else max(source.scale, constant.type.scale)
    exact = Fraction(constant.value) * Fraction(10) ** (constant.type.scale if op == "*" else digits)
    if type.scale != digits or exact.denominator != 1:
        return None
    found = _times_and_plus(op, int(exact))
    if found is None or op == "*":
        return found
    return found[0] * 10 ** (digits - source.scale), found[1]


def _times_and_plus(op: str, value: int) -> tuple[int, int] | None:
    known = {"+": (1, value), "-": (1, -value), "from": (-1, value), "*": (value, 0)}
    return known.get(op)


def _form(op: str, constant: Literal | None) -> str:
    if constant is None:
        return "-{}"
    return f"{constant.value} - {{}}" if op == "from" else f"{{}} {op} {constant.value}"


# ---- whole numbers


def _ordinal_range(type: DataType) -> tuple[int, int]:
    if type.discrete:
        return integer_range(type)
    greatest = int(10**type.precision) - 1
    return -greatest, greatest


def _ordinals(interval: Interval, type: DataType) -> tuple[int, int]:
    """The ends of an interval as whole numbers of the type's last digit; those of the type where it has none."""
    least, greatest = _ordinal_range(type)
    low, high = interval.low, interval.high
    unit = Fraction(10) ** type.scale if type.kind is Kind.DECIMAL else Fraction(1)
    return (
        least if low is None else math.ceil(Fraction(low) * unit),  # type: ignore[arg-type]
        greatest if high is None else math.floor(Fraction(high) * unit),  # type: ignore[arg-type]
    )


def _interval(low: int, high: int, type: DataType) -> Interval:
    return Interval(_of_ordinal(low, type), _of_ordinal(high, type))


def _of_ordinal(n: int, type: DataType) -> Value:
    # The constructor is exact; arithmetic on decimals would round to the context's 28 digits.
    return Decimal(f"{n}E{-type.scale}") if type.kind is Kind.DECIMAL else n


# ---- floating numbers


_FLOATING: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "from": lambda x, constant: constant - x,
    "*": operator.mul,
    "/": operator.truediv,
    "negate": lambda x, _: -x,
}
_UNDONE: dict[str, Callable[[float, float], float]] = {
    "+": operator.sub,
    "-": operator.add,
    "from": lambda image, constant: constant - image,
    "*": operator.truediv,
    "/": operator.mul,
    "negate": lambda image, _: -image,
}
"""A number near to those that give an image: a guess to search from."""

_LAYOUT = {Kind.FLOAT: ("<f", "<I", 1 << 31), Kind.DOUBLE: ("<d", "<Q", 1 << 63)}


def _numbers(ranges: IntervalSet) -> list[tuple[float, float]]:
    """The intervals as ends of numbers, from infinity to infinity; without NaN, which lies above."""
    found = []
    for low, high, low_closed, _ in ranges.intervals:
        begin, end = -math.inf if low is None else float(low), math.inf if high is None else float(high)
        if begin <= end and (low_closed or begin < math.inf):
            found.append((begin, end))
    return found


def _nan(ranges: IntervalSet) -> tuple[Interval, ...]:
    """The interval of NaN alone, if that is in the ranges."""
    has = bool(ranges.intervals) and ranges.intervals[-1].high is None
    return (Interval(math.inf, None, low_closed=False),) if has else ()


def _bits(value: float, type: DataType) -> int:
    """A number that counts floating numbers in their order, 0 for 0.0."""
    as_float, as_bits, sign = _LAYOUT[type.kind]
    held = float32(value) if type.kind is Kind.FLOAT else value
    (bits,) = struct.unpack(as_bits, struct.pack(as_float, held))
    return int(bits) if bits < sign else -int(bits - sign)


def _of_bits(n: int, type: DataType) -> float:
    as_float, as_bits, sign = _LAYOUT[type.kind]
    (value,) = struct.unpack(as_float, struct.pack(as_bits, n if n >= 0 else sign - n))
    return float(value)
