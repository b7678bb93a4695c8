"""Predicates as SQL that Spark parses back to the same meaning: every literal exact, whatever its type and value."""

from __future__ import annotations

from sidestep.predicate import Kind
from sidestep.predicate.nodes import (
    And,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Match,
    MatchKind,
    Not,
    Opaque,
    Operand,
    Or,
    Predicate,
)
from sidestep.predicate.types import DataType, Value

_FUNCTIONS = {MatchKind.PREFIX: "startswith", MatchKind.SUFFIX: "endswith", MatchKind.CONTAINS: "contains"}
EARLIEST = -(2**62)
"""Spark fails to push a filter with a timestamp near the least one down to Parquet, with an overflow."""


def spark_sql(predicate: Predicate, table: str = "") -> str:
    """The predicate in Spark's SQL; columns are those of ``table`` if one is named. An opaque one is its own text."""
    match predicate:
        case And(children=children):
            return "(" + " AND ".join([spark_sql(child, table) for child in children] or ["TRUE"]) + ")"
        case Or(children=children):
            return "(" + " OR ".join([spark_sql(child, table) for child in children] or ["FALSE"]) + ")"
        case Not(child=child):
            return f"(NOT {spark_sql(child, table)})"
        case Comparison(op=op, left=left, right=right):
            return f"({_operand(left, table)} {op.value} {_operand(right, table)})"
        case In(operand=operand, values=values):
            listed = ", ".join(spark_literal(value.value, operand.type) for value in values)
            return f"({_operand(operand, table)} IN ({listed}))"
        case Match(kind=MatchKind.LIKE, column=column, text=text):
            return f"({_operand(column, table)} LIKE {spark_literal(text, column.type)})"
        case Match(kind=kind, column=column, text=text):
            return f"{_FUNCTIONS[kind]}({_operand(column, table)}, {spark_literal(text, column.type)})"
        case IsNull(operand=operand):
            return f"({_operand(operand, table)} IS NULL)"
        case Opaque(text=text):
            return f"({text.replace('{table}', f'{table}.' if table else '')})"
    return _operand(predicate, table)


def _operand(operand: Operand, table: str) -> str:
    match operand:
        case Column(name=name):
            return f"{table}.{name}" if table else name
        case Cast(column=column, type=type):
            return f"CAST({_operand(column, table)} AS {type})"
    return spark_literal(operand.value, operand.type)


def spark_literal(value: Value | None, type: DataType) -> str:
    """A constant expression that folds to exactly this value of exactly this type."""
    if value is None:
        return f"CAST(NULL AS {type})"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    match type.kind:
        case Kind.BOOLEAN:
            return str(value).upper()
        case Kind.STRING:
            return f"CAST(X'{str(value).encode().hex()}' AS STRING)"
        case Kind.DATE:
            return f"DATE_FROM_UNIX_DATE({value})"
        case Kind.TIMESTAMP:
            return f"TIMESTAMP_MICROS(CAST('{max(int(value), EARLIEST)}' AS BIGINT))"
        case Kind.TIMESTAMP_NTZ:
            micros = f"CAST('{max(int(value), EARLIEST)}' AS BIGINT)"
            return f"TIMESTAMPADD(MICROSECOND, {micros}, TIMESTAMP_NTZ '1970-01-01 00:00:00')"
        case Kind.DECIMAL:
            # The neighbour of a largest decimal is beyond its type: NULL, where a cast would fail the query.
            return f"TRY_CAST('{value}' AS {type})"
    return f"CAST('{value}' AS {type})"
