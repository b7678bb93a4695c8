"""The expression language: what a filter says, as frozen, hashable trees.

Nodes are validated where they are made, so an invalid tree cannot exist. Predicates have Spark's three-valued meaning
(:mod:`sidestep.predicate.oracle` is that meaning, row by row). Whatever Catalyst can say that these nodes cannot is one
:class:`Opaque`: sidestep knows its identity, not its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import get_args

from sidestep.predicate.types import BOOLEAN, DataType, Kind, Value, check_value, sort_key


class Op(Enum):
    """A comparison. ``NULL_SAFE`` is ``<=>``: it compares NULL as a value and is never NULL itself."""

    EQ = "="
    NULL_SAFE = "<=>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def flipped(self) -> Op:
        """The operator that says the same with the two sides exchanged."""
        return _FLIPPED.get(self, self)


_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table that the predicate is about."""

    name: str
    type: DataType

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("A column needs a name.")

    def __hash__(self) -> int:
        # A text remembers its hash; that of a type as well would be worked out anew each time.
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Cast:
    """A column cast to another type, where the cast is part of what the predicate compares."""

    column: Column
    type: DataType


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant; ``value is None`` is NULL."""

    value: Value | None
    type: DataType

    def __post_init__(self) -> None:
        if self.value is not None:
            object.__setattr__(self, "value", check_value(self.value, self.type))

    # Hashing and equality by value would make 1, 1.0 and True one literal, and NaN unequal to itself.
    def _identity(self) -> tuple[str, str, DataType]:
        return (type(self.value).__name__, repr(self.value), self.type)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Literal) and self._identity() == other._identity())

    def __hash__(self) -> int:
        return hash(self._identity())


Operand = Column | Cast | Literal


def comparable(left: DataType, right: DataType) -> bool:
    """Whether Catalyst would compare two types without a cast: equal types, or two decimals of any scale."""
    return left is right or left == right or (left.kind is Kind.DECIMAL and right.kind is Kind.DECIMAL)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``; both sides have one type, as Catalyst's analyzer guarantees (decimals may differ in scale)."""

    op: Op
    left: Operand
    right: Operand

    def __post_init__(self) -> None:
        if not comparable(self.left.type, self.right.type):
            raise ValueError(
                f"Cannot compare {self.left.type} with {self.right.type}: cast one side, as Catalyst's analyzer does."
            )


@dataclass(frozen=True, slots=True)
class In:
    """``operand IN (values…)``; a NULL among the values makes a miss NULL instead of FALSE."""

    operand: Column | Cast
    values: tuple[Literal, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.values, tuple) or not self.values:
            # Spark itself has had two answers to NULL IN (): there is no meaning to be faithful to.
            raise ValueError("An IN needs a tuple of at least one value; an empty list is written as FALSE.")
        good = self.operand.type
        for value in self.values:
            # A list's values mostly share one type object: comparing 100,000 types would take longer than all the rest.
            if value.type is not good and not comparable(self.operand.type, value.type):
                raise ValueError(
                    f"Cannot look for a {value.type} among values of {self.operand.type}: cast the column."
                )
            good = value.type


class MatchKind(Enum):
    """How a piece of text is sought in a string."""

    LIKE = "LIKE"
    PREFIX = "starts with"
    SUFFIX = "ends with"
    CONTAINS = "contains"


@dataclass(frozen=True, slots=True)
class Match:
    """A string column against a constant pattern (for LIKE, with its escape character) or piece of text."""

    kind: MatchKind
    column: Column
    text: str
    escape: str = "\\"

    def __post_init__(self) -> None:
        if self.column.type.kind is not Kind.STRING:
            raise ValueError(
                f"{self.kind.value} is understood on plain strings only, but {self.column.name} is a "
                f"{self.column.type}: make it an Opaque."
            )
        if len(self.escape) != 1:
            raise ValueError(f"A LIKE pattern's escape is one character, but {self.escape!r} is not.")


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS NULL``; never NULL itself."""

    operand: Column | Cast


@dataclass(frozen=True, slots=True)
class Opaque:
    """A predicate that sidestep does not look into.

    Two opaque predicates mean the same only if ``text`` and ``depends`` are equal and both are deterministic: ``text``
    is canonical (columns by name), ``depends`` names all else that the value depends on (time zone, ANSI mode,
    collation, parser policy, a hash of a function's code). ``depends is None`` says that this could not be had: such a
    predicate matches nothing, not even itself.
    """

    text: str
    columns: tuple[Column, ...] = ()
    depends: str | None = None
    deterministic: bool = True
    reason: str = field(default="", compare=False)
    """Why it is opaque, for people."""

    @property
    def identified(self) -> bool:
        """Whether an equal Opaque is certain to have the same value on the same row."""
        return self.deterministic and self.depends is not None


@dataclass(frozen=True, slots=True)
class And:
    """TRUE if all children are, FALSE if one is FALSE, else NULL; without children TRUE."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _check_children("AND", self.children)


@dataclass(frozen=True, slots=True)
class Or:
    """TRUE if one child is, FALSE if all are FALSE, else NULL; without children FALSE."""

    children: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _check_children("OR", self.children)


@dataclass(frozen=True, slots=True)
class Not:
    """TRUE where the child is FALSE, FALSE where it is TRUE, NULL where it is NULL."""

    child: Predicate

    def __post_init__(self) -> None:
        _check_children("NOT", (self.child,))


Predicate = Comparison | In | Match | IsNull | Opaque | And | Or | Not | Column | Literal
"""A boolean expression; a bare boolean column or literal (TRUE, FALSE, NULL) is one too."""
_PREDICATES = get_args(Predicate)
TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)
NULL = Literal(None, BOOLEAN)


def _check_children(where: str, children: tuple[Predicate, ...]) -> None:
    if not isinstance(children, tuple):
        raise ValueError(f"{where} takes a tuple of predicates, but got a {type(children).__name__}.")
    for child in children:
        if not isinstance(child, _PREDICATES):
            raise ValueError(f"{where} takes predicates, but {child!r} is none.")
        if isinstance(child, Column | Literal) and child.type.kind is not Kind.BOOLEAN:
            raise ValueError(f"{where} takes booleans, but {child!r} is a {child.type}.")


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """The parts that must all be TRUE, nested ANDs opened."""
    yield from flatten(And, predicate)


def flatten(kind: type[And] | type[Or], predicate: Predicate) -> Iterator[Predicate]:
    """The parts under nested nodes of one kind, left to right; a loop, since Catalyst nests thousands of binary ORs."""
    pending = [predicate]
    while pending:
        part = pending.pop()
        if isinstance(part, And | Or) and isinstance(part, kind):
            pending.extend(reversed(part.children))
        else:
            yield part


def compare_values(op: Op, left: Value | None, right: Value | None) -> bool | None:
    """Spark's comparison of two constants."""
    if op is Op.NULL_SAFE:
        if left is None or right is None:
            return left is right
        return sort_key(left) == sort_key(right)
    if left is None or right is None:
        return None
    a, b = sort_key(left), sort_key(right)
    match op:
        case Op.EQ:
            return a == b
        case Op.LT:
            return a < b
        case Op.LE:
            return a <= b
        case Op.GT:
            return a > b
        case _:
            return a >= b
