"""Reads what ``PlanWriter.java`` wrote of a Catalyst plan into the algebra of :mod:`sidestep.prune`.

Expressions become predicates; what the predicate language cannot say becomes one :class:`~sidestep.predicate.Opaque`
with the identity that the writer worked out. Columns are numbered; an alias stands for what it renames.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from sidestep.predicate import (
    And,
    Cast,
    Column,
    Comparison,
    DataType,
    In,
    IsNull,
    Kind,
    Literal,
    Match,
    MatchKind,
    Not,
    Op,
    Opaque,
    Or,
    Predicate,
    Value,
    parse_type,
)
from sidestep.predicate.nodes import comparable
from sidestep.prune import Filter, Join, JoinType, Operator, Other, Project, Query, Scan

JOIN_TYPES = {
    "INNER": JoinType.INNER,
    "CROSS": JoinType.CROSS,
    "LEFT OUTER": JoinType.LEFT_OUTER,
    "RIGHT OUTER": JoinType.RIGHT_OUTER,
    "FULL OUTER": JoinType.FULL_OUTER,
    "LEFT SEMI": JoinType.LEFT_SEMI,
    "LEFT ANTI": JoinType.LEFT_ANTI,
    "EXISTENCE": JoinType.EXISTENCE,
}
MATCHES = {"prefix": MatchKind.PREFIX, "suffix": MatchKind.SUFFIX, "contains": MatchKind.CONTAINS}
COMPARISONS = {op.value: op for op in Op}
ROW_BY_ROW = frozenset({"BatchEvalPython", "ArrowEvalPython"})
"""Operators that add columns to each row and change nothing else."""
UNKNOWN = DataType(Kind.OTHER)


def read_plan(text: str) -> Query:
    """The query that a PlanWriter text describes."""
    return read_document(json.loads(text))


def read_document(document: dict[str, Any]) -> Query:
    """The same, of a text that has been read as JSON."""
    reader = _Reader(document["depends"], list(document["plans"]))
    return Query(tuple(reader.operator(plan) for plan in document["plans"]))


class _Reader:
    def __init__(self, depends: str, plans: list[Any]) -> None:
        self.depends = depends
        self.columns: dict[int, Column | Cast] = {}
        for node in (node for plan in plans for node in _bottom_up(plan)):
            if node["op"] == "scan":
                for number, _, type_text in node["columns"]:
                    self.columns[number] = Column(str(number), parse_type(type_text))
            elif node["op"] == "Project":
                for number, source in node["columns"]:
                    renamed = self.operand(source) if source is not None and source[0] != "l" else None
                    if isinstance(renamed, Column | Cast):
                        self.columns.setdefault(number, renamed)

    def operator(self, node: dict[str, Any]) -> Operator:
        name, random = node["op"], node.get("random", False)
        if name == "scan":
            return Scan(
                key=node["ids"],
                table=node["table"],
                roots=tuple(node["roots"]),
                columns=tuple(
                    (str(number), Column(column, parse_type(kind))) for number, column, kind in node["columns"]
                ),
                partitions=frozenset(node["partitions"]),
                reason=node.get("reason"),
            )
        below = tuple(self.operator(child) for child in node.get("in", ()))
        if name == "Filter":
            return Filter(self.predicate(node["if"]), below[0], random)
        if name == "Project" or name in ROW_BY_ROW:
            return Project(below[0], random)
        if name == "Join":
            kind = JOIN_TYPES.get(node["type"], JoinType.OTHER)
            condition = self.predicate(node["if"]) if "if" in node else None
            return Join(kind, below[0], below[1], condition, random)
        return Other(name, below, random, node.get("reason"), node.get("about", ""))

    # ---- predicates

    def predicate(self, e: list[Any]) -> Predicate:
        match e:
            case ["and", *parts]:
                return And(tuple(self.predicate(part) for part in parts))
            case ["or", *parts]:
                return Or(tuple(self.predicate(part) for part in parts))
            case ["not", part]:
                return Not(self.predicate(part))
            case ["?", text, identity, deterministic, numbers, *why]:
                depends = None if identity is None else f"{identity}|{self.depends}"
                reason = why[0] if why else "not a form that sidestep knows"
                return Opaque(text, tuple(self._bases(numbers)), depends, deterministic, reason)
        known = self._known(e)
        return known if known is not None else Opaque(json.dumps(e), tuple(self._mentioned(e)), None)

    def _known(self, e: list[Any]) -> Predicate | None:
        match e:
            case ["a", _] | ["l", _, _]:
                operand = self.operand(e)
                return operand if isinstance(operand, Column | Literal) and operand.type.kind is Kind.BOOLEAN else None
            case ["null" | "notnull" as test, part]:
                operand = self.operand(part)
                if not isinstance(operand, Column):
                    return None
                return IsNull(operand) if test == "null" else Not(IsNull(operand))
            case ["like", part, pattern, escape]:
                return self._match(MatchKind.LIKE, part, pattern, escape)
            case ["prefix" | "suffix" | "contains" as kind, part, pattern]:
                return self._match(MATCHES[kind], part, pattern, "\\")
            case ["in", part, *values]:
                operand = self.operand(part)
                literals = tuple(self.operand(value) for value in values)
                if not isinstance(operand, Column | Cast) or not operand.type.ordered:
                    return None
                known = tuple(value for value in literals if isinstance(value, Literal))
                good = operand.type
                alike = all(value.type is good or comparable(good, value.type) for value in known)
                return In(operand, known) if alike else None
            case [op, left, right] if op in COMPARISONS:
                first, second = self.operand(left), self.operand(right)
                if first is None or second is None or not first.type.ordered or not comparable(first.type, second.type):
                    return None
                return Comparison(COMPARISONS[op], first, second)
        return None

    def _match(self, kind: MatchKind, part: list[Any], pattern: list[Any], escape: str) -> Match | None:
        column, text = self.operand(part), self.operand(pattern)
        if not isinstance(column, Column) or column.type.kind is not Kind.STRING:
            return None
        if not isinstance(text, Literal) or not isinstance(text.value, str):
            return None
        return Match(kind, column, text.value, escape)

    def operand(self, e: list[Any]) -> Column | Cast | Literal | None:
        match e:
            case ["a", number]:
                return self.columns.get(number)
            case ["cast", number, type_text]:
                source = self.columns.get(number)
                return Cast(source, parse_type(type_text)) if isinstance(source, Column) else None
            case ["l", type_text, value]:
                kind = parse_type(type_text)
                return Literal(None if value is None else literal_value(value, kind), kind)
        return None

    def _bases(self, numbers: list[int]) -> Iterator[Column]:
        for number in numbers:
            source = self.columns.get(number)
            yield source.column if isinstance(source, Cast) else source or Column(str(number), UNKNOWN)

    def _mentioned(self, e: list[Any]) -> Iterator[Column]:
        if e and e[0] in ("a", "cast"):
            yield from self._bases([e[1]])
        else:
            for part in e:
                if isinstance(part, list):
                    yield from self._mentioned(part)


def literal_value(value: Any, kind: DataType) -> Value:
    """A JSON value as the value of its type; the writer sends what JSON cannot hold as text."""
    match kind.kind:
        case Kind.FLOAT | Kind.DOUBLE:
            return float(value)
        case Kind.DECIMAL:
            return Decimal(value)
        case Kind.BINARY:
            return bytes.fromhex(value)
    if not isinstance(value, bool | int | str):
        raise TypeError(f"a literal of type {kind} cannot be {value!r}")
    return value


def _bottom_up(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for child in node.get("in", ()):
        yield from _bottom_up(child)
    yield node
