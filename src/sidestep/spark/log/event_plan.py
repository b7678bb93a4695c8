"""What the scans of an event log say of a query that left no SQL: their filters, as far as their text can be read.

An event log has no expressions, only what Catalyst prints: ``[isnotnull(k#1), (k#1 = 3), s#2 IN (a,b)]``, strings
without quotes. So only forms that can mean nothing else are read: a column whose type the scan's schema gives, compared
with constants of that type, under AND and OR. Any other conjunct is left out, which makes the filter weaker, never
wrong. Features are guesses at what will be asked; no block is ever skipped on the word of a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from sidestep.predicate import (
    And,
    Column,
    Comparison,
    DataType,
    In,
    Kind,
    Literal,
    Match,
    MatchKind,
    Op,
    Or,
    Predicate,
    parse_type,
)
from sidestep.predicate.types import FLOATING, INTEGRAL
from sidestep.prune import Scan
from sidestep.workload.query import TableUse

EPOCH = date(1970, 1, 1).toordinal()
COLUMN = re.compile(r"(\w+)#\d+L?")
MATCHES = {"StartsWith": MatchKind.PREFIX, "EndsWith": MatchKind.SUFFIX, "Contains": MatchKind.CONTAINS}
COMPARISONS = {op.value: op for op in Op if op is not Op.NULL_SAFE}
AMBIGUOUS = re.compile(r"[()\[\]#]")


def scan_uses(plan: Mapping[str, Any]) -> Iterator[tuple[Scan, TableUse]]:
    """The file scans of a ``sparkPlanInfo``, each with what its filters say; the caller names the tables."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(node.get("children", ())))
        about = node.get("metadata") or {}
        if str(node.get("nodeName", "")).startswith("Scan ") and "ReadSchema" in about and "Location" in about:
            fields = dict(_fields(about["ReadSchema"]))
            roots = tuple(_roots(about["Location"]))
            table = str(node["nodeName"]).split(" ", 2)[2].strip() or None
            text = str(about.get("DataFilters", "[]"))[1:-1]
            # Brackets that do not match are in a text of the query's, and it cannot be told where that ends.
            listed = _split(text, ", ") if _is_balanced(text) else []
            parsed = (_predicate(text, fields) for text in listed)
            predicates = frozenset(predicate for predicate in parsed if predicate is not None)
            yield Scan("", table, roots, ()), TableUse(table or "", predicates, frozenset(fields))


def _fields(schema: str) -> Iterator[tuple[str, DataType]]:
    """Names and types of ``struct<a:int,b:string>``; Spark cuts a long one short, and the rest is not known.

    >>> [(name, str(type)) for name, type in _fields("struct<a:int,b:decimal(10,2),... 3 more fields>")]
    [('a', 'int'), ('b', 'decimal(10,2)')]
    """
    for field in _split(schema.removeprefix("struct<").removesuffix(">"), ",", "()<>"):
        name, colon, kind = field.partition(":")
        if colon:
            yield name, parse_type(kind)


def _roots(location: str) -> Iterator[str]:
    """
    >>> list(_roots("InMemoryFileIndex(1 paths)[file:/data/t]"))
    ['file:/data/t']
    """
    _, bracket, paths = location.partition("[")
    yield from (path.strip() for path in paths.rstrip("]").split(",") if bracket)


def _split(text: str, separator: str, brackets: str = "()") -> list[str]:
    """The pieces between separators that are in no bracket."""
    pieces: list[str] = []
    depth = start = 0
    for position, character in enumerate(text):
        depth += (character in brackets[::2]) - (character in brackets[1::2])
        if depth == 0 and text.startswith(separator, position):
            pieces.append(text[start:position])
            start = position + len(separator)
    return [piece for piece in [*pieces, text[start:]] if piece]


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def _predicate(text: str, fields: Mapping[str, DataType]) -> Predicate | None:
    text = text.strip()
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") and _closes_last(text) else text
    for word, kind in ((" AND ", And), (" OR ", Or)):
        parts = _split(inner, word)
        if len(parts) > 1:
            parsed = [_predicate(part, fields) for part in parts]
            known = tuple(part for part in parsed if part is not None)
            # An alternative that is not understood may be anything, so that nothing is known of the whole.
            if kind is Or and len(known) < len(parsed):
                return None
            return kind(known) if known else None
    return _match(inner, fields) or _in(inner, fields) or _comparison(inner, fields)


def _closes_last(text: str) -> bool:
    """Whether the bracket that opens a text is closed by its last one."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position == len(text) - 1
    return False


def _match(text: str, fields: Mapping[str, DataType]) -> Predicate | None:
    match = re.fullmatch(r"(StartsWith|EndsWith|Contains)\((\w+)#\d+, (.+)\)", text)
    if match is None:
        return None
    function, name, sought = match.groups()
    if name not in fields or fields[name].kind is not Kind.STRING or AMBIGUOUS.search(sought):
        return None
    return Match(MATCHES[function], Column(name, fields[name]), sought)


def _in(text: str, fields: Mapping[str, DataType]) -> Predicate | None:
    match = re.fullmatch(r"(\w+)#\d+L? IN \((.+)\)", text)
    if match is None or match[1] not in fields:
        return None
    type = fields[match[1]]
    pieces = match[2].split(",")
    values = [_value(piece, type) for piece in pieces]
    # Spark parts the values of a list by bare commas: one with a space after it belongs to a text.
    if any(value is None for value in values) or any(piece != piece.strip() for piece in pieces):
        return None
    return In(Column(match[1], type), tuple(value for value in values if value is not None))


def _comparison(text: str, fields: Mapping[str, DataType]) -> Predicate | None:
    match = re.fullmatch(r"(\w+)#\d+L? (=|<|<=|>|>=) (.+)", text)
    if match is None or match[1] not in fields:
        return None
    name, sign, compared = match.groups()
    column = Column(name, fields[name])
    other = COLUMN.fullmatch(compared)
    if other is not None:
        right = Column(other[1], fields[other[1]]) if other[1] in fields else None
        if right is None or right.type != column.type or not column.type.ordered:
            return None
        return Comparison(COMPARISONS[sign], column, right)
    value = _value(compared, column.type)
    return None if value is None else Comparison(COMPARISONS[sign], column, value)


def _value(text: str, type: DataType) -> Literal | None:
    """A constant of a type as Catalyst prints it, or None if it may be something else."""
    if AMBIGUOUS.search(text) or text == "null":
        return None
    try:
        if type.kind in INTEGRAL:
            return Literal(int(text), type)
        if type.kind in FLOATING:
            return Literal(float(text), type)
        if type.kind is Kind.DECIMAL:
            return Literal(Decimal(text), type)
        if type.kind is Kind.DATE:
            return Literal(date.fromisoformat(text).toordinal() - EPOCH, type)
    except (ValueError, InvalidOperation):
        return None
    return Literal(text, type) if type.kind is Kind.STRING else None
