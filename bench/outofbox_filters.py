"""Filters in a small form of their own, each written as SQL and judged by row and by block.

The judge of ``bench outofbox`` shares no code with what it judges, so filters here are made in this form first: ``AND``
and ``OR`` of ranges, lists of values and comparisons of two columns. A *term* is what a filter is about, as SQL writes
it: a column, ``hour(ts)``, ``dayofweek(ts)``, ``month(ts)``, or ``a < b`` of two columns. :func:`bind` turns the values
of a filter into places among the sorted values of its term, after which all types are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Coded:
    """The values of a term, ascending and each once, and for each row the place of its value; -1 is NULL."""

    values: npt.NDArray[Any]
    codes: npt.NDArray[np.int32]


class Terms(Protocol):
    """Whoever knows the values of terms: a table."""

    def coded(self, term: str) -> Coded: ...


@dataclass(frozen=True, slots=True)
class Range:
    """``low <= term <= high``; a bound may be missing, or not itself be included."""

    term: str
    low: Any = None
    high: Any = None
    above: bool = False
    """Whether the term is to be greater than ``low``, not equal."""
    below: bool = False

    def sql(self) -> str:
        if self.low is not None and self.high is not None and not self.above and not self.below:
            return f"{self.term} BETWEEN {literal(self.low)} AND {literal(self.high)}"
        low = [] if self.low is None else [f"{self.term} {'>' if self.above else '>='} {literal(self.low)}"]
        high = [] if self.high is None else [f"{self.term} {'<' if self.below else '<='} {literal(self.high)}"]
        return " AND ".join([*low, *high])


@dataclass(frozen=True, slots=True)
class OneOf:
    """``term = value`` or ``term IN (values)``."""

    term: str
    values: tuple[Any, ...]

    def sql(self) -> str:
        if len(self.values) == 1:
            return f"{self.term} = {literal(self.values[0])}"
        return f"{self.term} IN ({', '.join(map(literal, self.values))})"


@dataclass(frozen=True, slots=True)
class Holds:
    """``a < b`` of two columns."""

    term: str

    def sql(self) -> str:
        return self.term


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Filter, ...]

    def sql(self) -> str:
        return " AND ".join(f"({part.sql()})" if isinstance(part, Or) else part.sql() for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Filter, ...]

    def sql(self) -> str:
        return " OR ".join(f"({part.sql()})" if isinstance(part, And) else part.sql() for part in self.parts)


Filter = Range | OneOf | Holds | And | Or


def both(*parts: Filter) -> Filter:
    """
    >>> both(OneOf("a", (1,)), Or((Range("hour(ts)", low=22), Range("hour(ts)", high=5, below=True)))).sql()
    'a = 1 AND (hour(ts) >= 22 OR hour(ts) < 5)'
    """
    return parts[0] if len(parts) == 1 else And(parts)


def literal(value: Any) -> str:
    """A value as SQL writes it.

    >>> [literal(value) for value in ("it's", 3, 0.25, np.datetime64("2024-02-29"), np.datetime64("2024-02-29T13:00"))]
    ["'it''s'", '3', '0.25', "DATE '2024-02-29'", "TIMESTAMP '2024-02-29 13:00:00'"]
    """
    if isinstance(value, np.datetime64):
        if np.datetime_data(value)[0] == "D":
            return f"DATE '{value}'"
        return f"TIMESTAMP '{str(value.astype('datetime64[s]')).replace('T', ' ')}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value.item() if isinstance(value, np.generic) else value)


def is_plain(term: str) -> bool:
    """Whether a term is a column, whose values zone maps know."""
    return term.isidentifier()


@dataclass(frozen=True, slots=True)
class BoundRange:
    """Codes from ``low`` to ``high``, both included; where ``low`` is beyond ``high``, no value lies between."""

    term: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class BoundSet:
    """Some codes, and where the values stand that no row has: between two codes, as halves."""

    term: str
    codes: tuple[int, ...]
    places: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BoundAnd:
    parts: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class BoundOr:
    parts: tuple[Bound, ...]


Atom = BoundRange | BoundSet
Bound = BoundRange | BoundSet | BoundAnd | BoundOr


def bind(condition: Filter, terms: Terms) -> Bound:
    """The filter in terms of the codes of a table."""
    if isinstance(condition, And):
        return BoundAnd(tuple(bind(part, terms) for part in condition.parts))
    if isinstance(condition, Or):
        return BoundOr(tuple(bind(part, terms) for part in condition.parts))
    values = terms.coded(condition.term).values
    if isinstance(condition, Holds):
        return _bind_values(condition.term, (1,), values)
    if isinstance(condition, OneOf):
        return _bind_values(condition.term, condition.values, values)
    low, high = 0, len(values) - 1
    if condition.low is not None:
        low = int(np.searchsorted(values, condition.low, "right" if condition.above else "left"))
    if condition.high is not None:
        high = int(np.searchsorted(values, condition.high, "left" if condition.below else "right")) - 1
    return BoundRange(condition.term, low, high)


def _bind_values(term: str, wanted: Sequence[Any], values: npt.NDArray[Any]) -> BoundSet:
    codes, places = [], []
    for value in wanted:
        at = int(np.searchsorted(values, value))
        present = at < len(values) and values[at] == value
        places.append(float(at) if present else at - 0.5)
        codes += [at] if present else []
    return BoundSet(term, tuple(sorted(codes)), tuple(sorted(places)))


def atoms(bound: Bound) -> Iterator[Atom]:
    """All comparisons of a filter, wherever they stand in it."""
    if isinstance(bound, BoundAnd | BoundOr):
        for part in bound.parts:
            yield from atoms(part)
    else:
        yield bound


def matching_rows(bound: Bound, codes: Mapping[str, npt.NDArray[np.int32]]) -> Bools:
    """For each row whether the filter is true of it; NULL, which has a code below all, is in no range and no list."""
    if isinstance(bound, BoundAnd):
        return reduce(np.logical_and, (matching_rows(part, codes) for part in bound.parts))
    if isinstance(bound, BoundOr):
        return reduce(np.logical_or, (matching_rows(part, codes) for part in bound.parts))
    held = codes[bound.term]
    if isinstance(bound, BoundRange):
        return (held >= bound.low) & (held <= bound.high)
    return np.isin(held, np.array(bound.codes, np.int32))


def codes_of(atom: Atom) -> frozenset[int]:
    """The codes that a comparison allows; for terms of few values."""
    return frozenset(range(atom.low, atom.high + 1)) if isinstance(atom, BoundRange) else frozenset(atom.codes)


def hold_any(present: Bools, codes: Iterable[int]) -> Bools:
    """The blocks, of which it is given which codes each holds, that hold one of these."""
    return np.asarray(present[:, sorted(codes)].any(axis=1), np.bool_)


@dataclass(frozen=True, eq=False)
class Blocks:
    """What is known of blocks: rows, least and greatest codes of columns, and where there are such, sets of codes.

    A block in which a column is NULL throughout has a least code beyond its greatest. ``cuts`` are comparisons of terms
    that are no columns, such as ``hour(ts) = 5``, each with the blocks that hold a row of which it is true.
    """

    rows: Ints
    low: Mapping[str, Ints]
    high: Mapping[str, Ints]
    present: Mapping[str, Bools] = field(default_factory=dict)
    """Blocks by codes."""
    cuts: Mapping[str, Sequence[tuple[frozenset[int], Bools]]] = field(default_factory=dict)

    def may_match(self, bound: Bound) -> Bools:
        """For each block False if what is known of it proves that no row satisfies the filter."""
        if isinstance(bound, BoundAnd):
            return reduce(np.logical_and, map(self.may_match, bound.parts))
        if isinstance(bound, BoundOr):
            return reduce(np.logical_or, map(self.may_match, bound.parts))
        kept = np.ones(len(self.rows), np.bool_)
        if bound.term in self.low:
            kept &= _overlap(bound, self.low[bound.term], self.high[bound.term])
        if bound.term in self.present:
            kept &= hold_any(self.present[bound.term], codes_of(bound))
        if bound.term in self.cuts:
            allowed = codes_of(bound)
            for cut, holding in self.cuts[bound.term]:
                if allowed <= cut:
                    kept &= holding
        return kept


def _overlap(atom: Atom, low: Ints, high: Ints) -> Bools:
    """Whether a value that the comparison allows lies between the bounds of each block."""
    if isinstance(atom, BoundRange):
        return (high >= atom.low) & (low <= atom.high)
    places = np.array(atom.places)
    return np.searchsorted(places, low) < np.searchsorted(places, high, "right")
