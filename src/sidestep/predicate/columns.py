"""Which columns a predicate speaks of, and the same predicate about others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

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
    Opaque,
    Operand,
    Or,
    Predicate,
)


def columns_of(predicate: Predicate) -> Iterator[Column]:
    """Every column that the predicate mentions, as often as it does."""
    match predicate:
        case Column():
            yield predicate
        case Comparison(left=left, right=right):
            yield from _of_operand(left)
            yield from _of_operand(right)
        case In(operand=operand) | IsNull(operand=operand):
            yield from _of_operand(operand)
        case Match(column=column):
            yield column
        case Opaque(columns=columns):
            yield from columns
        case And(children=children) | Or(children=children):
            for child in children:
                yield from columns_of(child)
        case Not(child=child):
            yield from columns_of(child)


def rename(predicate: Predicate, columns: Mapping[str, Column]) -> Predicate:
    """The same predicate with each column replaced by the one that its name is mapped to.

    The text of an opaque predicate is left alone: its writer has put the table's own names in it.
    """
    match predicate:
        case Column():
            return columns[predicate.name]
        case Comparison(left=left, right=right):
            return Comparison(predicate.op, _rename_operand(left, columns), _rename_operand(right, columns))
        case In(operand=operand) | IsNull(operand=operand):
            return replace(predicate, operand=_rename_operand(operand, columns))  # type: ignore[arg-type]
        case Match(column=column):
            return replace(predicate, column=columns[column.name])
        case Opaque(columns=mentioned):
            return replace(predicate, columns=tuple(columns[column.name] for column in mentioned))
        case And(children=children) | Or(children=children):
            return replace(predicate, children=tuple(rename(child, columns) for child in children))
        case Not(child=child):
            return Not(rename(child, columns))
        case Literal():
            return predicate


def _of_operand(operand: Operand) -> Iterator[Column]:
    match operand:
        case Column():
            yield operand
        case Cast(column=column):
            yield column


def _rename_operand(operand: Operand, columns: Mapping[str, Column]) -> Operand:
    match operand:
        case Column(name=name):
            return columns[name]
        case Cast(column=column):
            return Cast(columns[column.name], operand.type)
        case Literal():
            return operand
