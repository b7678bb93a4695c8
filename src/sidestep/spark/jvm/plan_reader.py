"""Reads what ``PlanWriter.java`` wrote of a Catalyst plan into the algebra of :mod:`sidestep.prune`.

Expressions become predicates; what the predicate language cannot say becomes one :class:`~sidestep.predicate.Opaque`
with the identity that the writer worked out. Columns are numbered; an alias stands for what it renames.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from sidestep.errors import check_format
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
from sidestep.predicate.types import BOOLEAN
from sidestep.prune import (
    Aggregate,
    Filter,
    Join,
    Limit,
    Operator,
    Other,
    Project,
    Query,
    Scan,
    Union,
    Window,
)
from sidestep.prune.plan.algebra import JOIN_TYPES, PARAMETER, UNKNOWN_JOIN, Compared, Meeting, Sides
from sidestep.prune.plan.computed import Computed, arithmetic_step, cast_step, with_step

MATCHES = {"prefix": MatchKind.PREFIX, "suffix": MatchKind.SUFFIX, "contains": MatchKind.CONTAINS}
COMPARISONS = {op.value: op for op in Op}
PASSING = frozenset(
    {
        *("Project", "BatchEvalPython", "ArrowEvalPython", "Generate", "Expand"),
        *("Sort", "Repartition", "RepartitionByExpression", "RebalancePartitions", "SubqueryAlias", "ResolvedHint"),
    }
)
"""Operators that add columns, drop some, repeat or order rows, and pass on what they do not touch."""
WINDOWS = frozenset({"Window", "WindowGroupLimit"})
LIMITS = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Tail"})
UNKNOWN = DataType(Kind.OTHER)
FORMAT = 2
"""The newest form of a plan that is read here, as docs/formats.md describes it; 1 did not say its number."""


def read_plan(text: str, *, as_stored: bool = False) -> Query:
    """The query that a PlanWriter text describes; ``as_stored``, with columns of tables as their files call them."""
    return read_document(json.loads(text), as_stored=as_stored)


def read_document(document: dict[str, Any], *, as_stored: bool = False) -> Query:
    """The same, of a text that has been read as JSON."""
    check_format(document.get("format", 1), FORMAT, "The plan")
    reader = _Reader(document["depends"], as_stored)
    plans = tuple(reader.operator(plan) for plan in document["plans"])
    return Query(plans, tuple(reader.parts))


ARITHMETIC = frozenset({"+", "-", "from", "*", "/", "negate"})

Scope = dict[int, Compared]
"""What the numbers of columns mean at one place of a plan: the column of a scan or a union, a cast of one, or what is
computed from one."""


class _Reader:
    """Reads operators from the leaves up; ``scope`` is what numbers mean to the operator at hand.

    A number may mean different things at different places. A union passes on the columns of all its inputs under the
    numbers of the first one's. To decorrelate a subquery, Spark puts the outer plan into it once more, numbers and all:
    then one number is a column of two scans, and a condition on the one says nothing of the other (taken for one, ``cc
    IS NULL`` above an outer join removed rows from the side that is preserved). So every column that comes into being
    gets a name that no other has, and a number that two inputs of an operator have means nothing above them.
    """

    def __init__(self, depends: str, as_stored: bool = False) -> None:
        self.depends = depends
        self.as_stored = as_stored
        self.scope: Scope = {}
        self.unions = 0
        self.named: Counter[int] = Counter()
        """How many columns there are of each number."""
        self.scans: list[str] = []
        self.parts: list[tuple[int, tuple[str, ...]]] = []

    def operator(self, node: dict[str, Any]) -> Operator:
        """The operator of a node; afterwards ``scope`` is what its parent sees."""
        before = len(self.scans)
        operator = self._operator(node)
        if "same" in node:
            self.parts.append((node["same"], tuple(self.scans[before:])))
        return operator

    def _operator(self, node: dict[str, Any]) -> Operator:
        name, random = node["op"], node.get("random", False)
        if name == "scan":
            copy = self.scans.count(node["ids"])
            self.scans.append(node["ids"])
            columns = [self._new_column(number, parse_type(kind)) for number, _, kind in node["columns"]]
            self.scope = {number: column for (number, _, _), column in zip(node["columns"], columns, strict=True)}
            stored = dict(node.get("stored", ())) if self.as_stored else {}
            return Scan(
                key=node["ids"],
                table=node["table"],
                roots=tuple(node["roots"]),
                columns=tuple(
                    (column.name, Column(stored.get(name, name), column.type))
                    for column, (_, name, _) in zip(columns, node["columns"], strict=True)
                ),
                partitions=frozenset(stored.get(name, name) for name in node["partitions"]),
                reason=node.get("reason"),
                copy=copy,
                groups=tuple(node["column_groups"]) if "column_groups" in node else None,
                copies=tuple(node["copies"]) if "copies" in node else None,
                needs=tuple(node.get("needs", ())),
                stored_names=tuple(stored.items()),
                by_log=node.get("by_log", False),
                fields=_fields(node),
            )
        below, scopes = [], []
        for child in node.get("in", ()):
            below.append(self.operator(child))
            scopes.append(self.scope)
        self.scope = scopes[0] if len(scopes) == 1 else _merge_scopes(scopes)
        if name == "Filter":
            return Filter(self.predicate(node["if"]), below[0], random)
        if name in PASSING:
            if "columns" in node:
                self.scope = self._renamed_columns(node["columns"])
            computes = any(source is None or source[0] != "a" for _, source in node.get("columns", ()))
            return Project(below[0], random, name, computes)
        if name == "Join":
            return self._join(node, below[0], below[1], scopes[0], random)
        if name == "Aggregate":
            groups = frozenset(_base(source).name for number in node["groups"] if (source := self.scope.get(number)))
            self.scope = self._renamed_columns(node["columns"])
            return Aggregate(groups, below[0], random, node.get("grouped", True))
        if name in WINDOWS:
            return Window(self._plain_columns(node["partition"]), below[0], random)
        if name in LIMITS:
            return Limit(below[0], random)
        if name == "Union":
            return self._union(node, below, scopes, random)
        return Other(name, tuple(below), random, node.get("reason"), node.get("about", ""))

    def _join(self, node: dict[str, Any], left: Operator, right: Operator, of_left: Scope, random: bool) -> Join:
        kind = JOIN_TYPES.get(node["type"], UNKNOWN_JOIN)
        condition = self.predicate(node["if"]) if "if" in node else None
        computed = tuple(self._computed_comparisons(node))
        meetings = tuple(each for one in node.get("meets", ()) if (each := self._meeting(*one)) is not None)
        exists = self._new_column(node["exists"], BOOLEAN) if "exists" in node else None
        if Sides.RIGHT not in kind.passes:
            self.scope = of_left
        if exists is not None:
            self.scope = {**self.scope, node["exists"]: exists}
        return Join(
            kind,
            left,
            right,
            condition,
            random,
            None if exists is None else exists.name,
            computed,
            node.get("number", -1),
            tuple(node.get("bytes", (0, 0))),
            meetings,
        )

    def _meeting(self, conjunct: int, op: str, key: list[Any], other: int) -> Meeting | None:
        operand = self.operand(key)
        if not isinstance(operand, Column | Cast) or not operand.type.ordered:
            return None
        return Meeting(conjunct, COMPARISONS[op], operand, (Sides.LEFT, Sides.RIGHT)[other])

    def _new_column(self, number: int, type: DataType) -> Column:
        """A column that comes into being here, under a name of its own; the first of a number has that for a name."""
        self.named[number] += 1
        again = self.named[number]
        return Column(str(number) if again == 1 else f"{number}@{again}", type)

    def _computed_comparisons(self, node: dict[str, Any]) -> Iterator[tuple[Op, Compared, Compared]]:
        """The comparisons of a join's condition of which a side is computed, in it or below it."""
        condition = node.get("if", ["and"])
        for each in [*(condition[1:] if condition[0] == "and" else [condition]), *node.get("computed", ())]:
            if len(each) != 3 or each[0] not in COMPARISONS:
                continue
            left, right = self.operand(each[1]), self.operand(each[2])
            if isinstance(left, Literal) or isinstance(right, Literal) or left is None or right is None:
                continue
            if isinstance(left, Computed) or isinstance(right, Computed):
                yield COMPARISONS[each[0]], left, right

    def _union(self, node: dict[str, Any], below: list[Operator], scopes: list[Scope], random: bool) -> Union:
        # Spark numbers the result's columns as the first input's; a number of their own tells the two apart.
        self.unions += 1
        columns = tuple(Column(f"{number}u{self.unions}", parse_type(kind)) for number, kind in node["columns"])
        outputs = tuple(
            tuple(scope.get(number) for number in put) for scope, put in zip(scopes, node["outputs"], strict=True)
        )
        self.scope = {number: column for (number, _), column in zip(node["columns"], columns, strict=True)}
        return Union(tuple(below), columns, outputs, random)

    def _renamed_columns(self, columns: list[Any]) -> Scope:
        """What the columns that an operator gives mean above it; a computed one means nothing."""
        scope: Scope = {}
        for number, source in columns:
            renamed = self.operand(source) if source is not None and source[0] != "l" else None
            if isinstance(renamed, Column | Cast | Computed):
                scope[number] = renamed
        return scope

    def _plain_columns(self, numbers: list[int]) -> frozenset[str]:
        sources = (self.scope.get(number) for number in numbers)
        return frozenset(source.name for source in sources if isinstance(source, Column))

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
        return known if known is not None else Opaque(json.dumps(e), tuple(self._columns_in(e)), None)

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
                own = operand.type
                fits = all(value.type is own or comparable(own, value.type) for value in known)
                return In(operand, known) if fits else None
            case [op, left, right] if op in COMPARISONS:
                first, second = self.operand(left), self.operand(right)
                if first is None or second is None or isinstance(first, Computed) or isinstance(second, Computed):
                    return None
                if not first.type.ordered or not comparable(first.type, second.type):
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

    def operand(self, e: list[Any]) -> Compared | Literal | None:
        match e:
            case ["a", number]:
                return self.scope.get(number)
            case ["cast", number, type_text]:
                return _cast(self.scope.get(number), parse_type(type_text))
            case ["l", type_text, value]:
                kind = parse_type(type_text)
                return Literal(None if value is None else literal_value(value, kind), kind)
            case ["late", number, type_text]:
                return Column(f"{PARAMETER}{number}", parse_type(type_text))
            case ["as", below, type_text]:
                return _cast(self.operand(below), parse_type(type_text))
            case [op, below, constant, type_text] if op in ARITHMETIC:
                return self._arithmetic(op, below, constant, parse_type(type_text))
        return None

    def _arithmetic(self, op: str, below: list[Any], constant: list[Any] | None, type: DataType) -> Computed | None:
        operand, literal = self.operand(below), None if constant is None else self.operand(constant)
        if not isinstance(operand, Column | Cast | Computed) or not isinstance(literal, Literal | None):
            return None
        return with_step(operand, arithmetic_step(op, operand.type, literal, type))

    def _bases(self, numbers: list[int]) -> Iterator[Column]:
        for number in numbers:
            source = self.scope.get(number)
            # The name of no column there is: what is computed, or means two things, belongs to no scan.
            unknown = source is None or isinstance(source, Computed)
            yield Column(f"{number}?", UNKNOWN) if unknown else _base(source)  # type: ignore[arg-type]

    def _columns_in(self, e: list[Any]) -> Iterator[Column]:
        if e and e[0] in ("a", "cast"):
            yield from self._bases([e[1]])
        else:
            for part in e:
                if isinstance(part, list):
                    yield from self._columns_in(part)


def _fields(node: dict[str, Any]) -> tuple[tuple[str, int], ...] | None:
    """The ids by which the files of a scan have its columns, where they have them by id."""
    if "fields" not in node:
        return None
    columns = zip(node["columns"], node["fields"], strict=True)
    return tuple((name, number) for (_, name, _), number in columns if number >= 0)


def _base(source: Compared) -> Column:
    return source if isinstance(source, Column) else source.column


def _cast(source: Compared | Literal | None, type: DataType) -> Compared | None:
    """A cast of what a number stands for; None where that is not known, or a cast of a cast that changes order."""
    if source is None or isinstance(source, Literal):
        return None
    if isinstance(source, Column):
        return Cast(source, type)
    return with_step(source, cast_step(source.type, type))


def _merge_scopes(scopes: Sequence[Scope]) -> Scope:
    """What numbers mean above several inputs; those that two of them have are ambiguous, and left out."""
    times = Counter(number for scope in scopes for number in scope)
    return {number: source for scope in scopes for number, source in scope.items() if times[number] == 1}


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
