"""Predicates and formulas as text for people: close to Spark's SQL, dates readable, long lists shortened.

The text is for reading. It is not parsed back (:mod:`sidestep.predicate.serial` is for that) and two different
predicates may read the same.
"""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal

from sidestep.predicate.formula import All, Any, Compares, Formula, Holds, Matches, Null, Within
from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.like import LikePattern
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
    Opaque,
    Operand,
    Or,
    Predicate,
)
from sidestep.predicate.types import DOUBLE, FLOATING, TIME, DataType, Kind, Value, float32

LONGEST_LIST = 8
"""Lists longer than this are shortened."""

_OR, _AND, _NOT, _ATOM = range(4)
"""How tightly a text holds together: parts looser than their surroundings are put in parentheses."""

_EPOCH = datetime.datetime(1970, 1, 1)


def sql(what: Predicate | Formula) -> str:
    """The predicate or formula, much as one would type it.

    >>> from sidestep.predicate.build import column, compare, conjunction, one_of
    >>> from sidestep.predicate.types import DATE, STRING
    >>> product, day = column("product", STRING), column("day", DATE)
    >>> sql(conjunction(one_of(product, ["shoes", "shirts"]), compare(day, ">=", datetime.date(1994, 1, 1))))
    "product IN ('shoes', 'shirts') AND day >= DATE '1994-01-01'"
    """
    return _render(what)[0]


def literal_text(value: Value | None, type: DataType) -> str:
    """A constant as SQL would have it; timestamps in UTC, and those outside the calendar by their count."""
    if value is None:
        return "NULL"
    match type.kind:
        case Kind.BOOLEAN:
            return str(value).upper()
        case Kind.STRING:
            escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case Kind.BINARY if isinstance(value, bytes):
            return f"X'{value.hex().upper()}'"
        case Kind.DATE:
            return _calendar(int(value) * 86_400_000_000, "DATE '{:%Y-%m-%d}'", f"DATE_FROM_UNIX_DATE({value!r})")
        case Kind.TIMESTAMP:
            return _calendar(int(value), "TIMESTAMP '{}Z'", f"TIMESTAMP_MICROS({value!r})")
        case Kind.TIMESTAMP_NTZ:
            return _calendar(int(value), "TIMESTAMP_NTZ '{}'", f"TIMESTAMP_MICROS({value!r})")
        case Kind.TIME:
            if not 0 <= int(value) < 24 * 3600 * 10**9:
                return f"TIME {value!r} ns"
            time = f"TIME '{_clock(int(value))}'"
            return time if type == TIME else f"CAST({time} AS TIME({type.precision}))"
        case Kind.YEAR_MONTH | Kind.DAY_TIME:
            return _interval_literal(int(value), type)
        case Kind.FLOAT | Kind.DOUBLE if isinstance(value, float):
            if not math.isfinite(value):
                name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
                return f"{type.kind.value}('{name}')"
            return _shortest(value, type)
        case Kind.DECIMAL if isinstance(value, Decimal):
            return f"{value:f}"
    return str(value)


def name_text(name: str) -> str:
    """A column's name, in backquotes if SQL needs them."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def _render(what: Predicate | Formula) -> tuple[str, int]:
    match what:
        case And(children=children) | All(children=children):
            return _join(" AND ", [_render(child) for child in children], _AND, "TRUE")
        case Or(children=children) | Any(children=children):
            return _join(" OR ", [_render(child) for child in children], _OR, "FALSE")
        case Not(child=child):
            return f"NOT {_parenthesize(_render(child), _NOT)}", _NOT
        case Comparison(op=op, left=left, right=right):
            return f"{_operand(left)} {op.value} {_operand(right)}", _ATOM
        case In(operand=operand, values=values):
            return f"{_operand(operand)} IN ({_list([v.value for v in values], operand.type)})", _ATOM
        case Match():
            return _match(what), _ATOM
        case IsNull(operand=operand):
            return f"{_operand(operand)} IS NULL", _ATOM
        case Column() | Literal():
            return _operand(what), _ATOM
        case Opaque(text=text):
            return text, _ATOM if re.fullmatch(r"[\w.`]+(\([^()]*\))?", text) else _OR
        case Null(column=column):
            return f"{name_text(column.name)} IS NULL", _ATOM
        case Within(column=column, ranges=ranges):
            return _within(name_text(column.name), ranges)
        case Matches(column=column, pattern=pattern, negated=negated):
            return f"{name_text(column.name)} {'NOT ' * negated}LIKE {_pattern(pattern)}", _ATOM
        case Compares(left=a, op=relation, right=b):
            return f"{name_text(a.name)} {relation} {name_text(b.name)}", _ATOM
        case Holds(opaque=opaque, value=value):
            inner = _render(opaque)
            return inner if value else (f"NOT {_parenthesize(inner, _NOT)}", _NOT)
    raise TypeError(f"{what!r} is neither a predicate nor a formula.")


def _join(word: str, parts: list[tuple[str, int]], tightness: int, empty: str) -> tuple[str, int]:
    if len(parts) < 2:
        return parts[0] if parts else (empty, _ATOM)
    return word.join(_parenthesize(part, tightness + 1) for part in parts), tightness


def _parenthesize(part: tuple[str, int], tightness: int) -> str:
    return part[0] if part[1] >= tightness else f"({part[0]})"


def _operand(operand: Operand) -> str:
    match operand:
        case Column(name=name):
            return name_text(name)
        case Cast(column=column, type=type):
            return f"CAST({name_text(column.name)} AS {type})"
    return literal_text(operand.value, operand.type)


def _match(match: Match) -> str:
    column, text = name_text(match.column.name), literal_text(match.text, match.column.type)
    if match.kind is MatchKind.LIKE:
        escape = "" if match.escape == "\\" else f" ESCAPE {literal_text(match.escape, match.column.type)}"
        return f"{column} LIKE {text}{escape}"
    function = {MatchKind.PREFIX: "startswith", MatchKind.SUFFIX: "endswith", MatchKind.CONTAINS: "contains"}
    return f"{function[match.kind]}({column}, {text})"


def _pattern(pattern: LikePattern) -> str:
    written = "".join(c if wild else re.sub(r"([\\%_])", r"\\\1", c) for wild, c in pattern.tokens)
    return "'" + written.replace("'", "\\'") + "'"


def _list(values: list[Value | None], type: DataType) -> str:
    shown = values if len(values) <= LONGEST_LIST else values[: LONGEST_LIST - 2]
    listed = [literal_text(value, type) for value in shown]
    return ", ".join(listed + ([f"… {len(values) - len(shown):,} more"] if len(shown) < len(values) else []))


def _within(name: str, ranges: IntervalSet) -> tuple[str, int]:
    """Ranges as the shortest of: a list, a list of exceptions, or intervals one by one."""
    if ranges.is_full:
        return f"{name} IS NOT NULL", _ATOM
    if ranges.is_empty:
        return "FALSE", _ATOM
    if all(interval.is_point for interval in ranges.intervals):
        return _choice(name, [i.low for i in ranges.intervals], ranges.type, "=", "IN"), _ATOM
    missing = ranges.complement()
    if all(interval.is_point for interval in missing.intervals) and len(missing.intervals) < len(ranges.intervals):
        return _choice(name, [i.low for i in missing.intervals], ranges.type, "<>", "NOT IN"), _ATOM
    parts = [_interval(name, interval, ranges.type) for interval in ranges.intervals[:LONGEST_LIST]]
    if len(ranges.intervals) > LONGEST_LIST:
        parts.append((f"… {len(ranges.intervals) - LONGEST_LIST:,} more ranges", _ATOM))
    return _join(" OR ", parts, _OR, "FALSE")


def _choice(name: str, values: list[Value | None], type: DataType, one: str, many: str) -> str:
    if len(values) == 1:
        return f"{name} {one} {literal_text(values[0], type)}"
    return f"{name} {many} ({_list(values, type)})"


def _interval(name: str, interval: Interval, type: DataType) -> tuple[str, int]:
    low, high = literal_text(interval.low, type), literal_text(interval.high, type)
    if interval.is_point:
        return f"{name} = {low}", _ATOM
    if interval.low is not None and interval.high is not None and interval.low_closed and interval.high_closed:
        return f"{name} BETWEEN {low} AND {high}", _AND
    if type.kind in FLOATING and interval.low == math.inf and not interval.low_closed:
        return f"{name} = {literal_text(math.nan, type)}", _ATOM
    above = [f"{name} {'>=' if interval.low_closed else '>'} {low}"] if interval.low is not None else []
    below = [f"{name} {'<=' if interval.high_closed else '<'} {high}"] if interval.high is not None else []
    return _join(" AND ", [(text, _ATOM) for text in above + below], _AND, "TRUE")


def _calendar(micros: int, form: str, beyond: str) -> str:
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return beyond
    return form.format(moment)


def _clock(nanos: int) -> str:
    seconds, fraction = divmod(nanos, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:09}".rstrip("0") if fraction else text


_MICROS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1}
_MONTHS = {"year": 12, "month": 1}
_PARTED = {"month": "-", "hour": " ", "minute": ":", "second": ":"}
"""What stands before a unit that is not the first."""


def _interval_literal(value: int, type: DataType) -> str:
    """An interval in the units of its type; one that these cannot hold, as only a file may have it, in all units."""
    sizes = _MONTHS if type.kind is Kind.YEAR_MONTH else _MICROS
    names = list(sizes)
    first, _, last = (type.detail or f"{names[0]} to {names[-1]}").partition(" to ")
    units = names[names.index(first) : names.index(last or first) + 1]
    if value % sizes[units[-1]]:
        units = names
    rest, written = abs(value), ""
    for unit in units:
        count, rest = divmod(rest, sizes[unit])
        if unit == "second":
            seconds, micros = divmod(count, 1_000_000)
            text = f"{seconds}.{micros:06}".rstrip("0") if micros else str(seconds)
            text = text.zfill(len(text) + (seconds < 10)) if unit != units[0] else text
        else:
            text = str(count) if unit in (units[0], "month") else f"{count:02}"
        written += text if unit == units[0] else _PARTED[unit] + text
    named = units[0] if len(units) == 1 else f"{units[0]} TO {units[-1]}"
    return f"INTERVAL '{'-' if value < 0 else ''}{written}' {named.upper()}"


def _shortest(value: float, type: DataType) -> str:
    """The fewest digits that say which float it is: a 32-bit 0.1 reads as 0.1."""
    if type == DOUBLE:
        return repr(value)
    return next(text for digits in range(1, 18) if float32(float(text := f"{value:.{digits}g}")) == value)
