"""Predicates and types as JSON, and back without loss.

A literal's value is written by its type: NaN and the infinities as words, decimals as digits, binary as hex digits. The
form is part of what is kept on disk, so it only ever grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

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
    Op,
    Opaque,
    Operand,
    Or,
    Predicate,
)
from sidestep.predicate.types import FLOATING, DataType, Kind, Value, parse_type

Json = Any
"""What the json module reads and writes."""


def to_dict(predicate: Predicate) -> dict[str, Json]:
    """The predicate as nested dicts, lists, strings, numbers and booleans.

    >>> from sidestep.predicate.types import INTEGER
    >>> to_dict(IsNull(Column("x", INTEGER)))
    {'is': 'null', 'operand': {'column': 'x', 'type': 'int'}}
    """
    match predicate:
        case Column() | Literal():
            return _operand_to_dict(predicate)
        case Comparison(op=op, left=left, right=right):
            return {"is": op.value, "left": _operand_to_dict(left), "right": _operand_to_dict(right)}
        case In(operand=operand, values=values):
            return {"is": "in", "operand": _operand_to_dict(operand), **_values_to_dict(values)}
        case Match(kind=kind, column=column, text=text, escape=escape):
            written = {"is": kind.value, "operand": _operand_to_dict(column), "text": text}
            return written if escape == "\\" else {**written, "escape": escape}
        case IsNull(operand=operand):
            return {"is": "null", "operand": _operand_to_dict(operand)}
        case And(children=children):
            return {"is": "and", "children": [to_dict(child) for child in children]}
        case Or(children=children):
            return {"is": "or", "children": [to_dict(child) for child in children]}
        case Not(child=child):
            return {"is": "not", "child": to_dict(child)}
        case Opaque():
            return {
                "is": "opaque",
                "text": predicate.text,
                "columns": [_operand_to_dict(column) for column in predicate.columns],
                "depends": predicate.depends,
                "deterministic": predicate.deterministic,
                "reason": predicate.reason,
            }
    raise TypeError(f"{predicate!r} is not a predicate.")


def from_dict(written: Mapping[str, Json]) -> Predicate:
    """The predicate that :func:`to_dict` wrote."""
    kind = written.get("is")
    match kind:
        case None:
            operand = _operand_from_dict(written)
            if isinstance(operand, Cast):
                raise ValueError("A cast alone is not a predicate.")
            return operand
        case "in":
            return In(_reference_from_dict(written["operand"]), _values_from_dict(written))
        case "null":
            return IsNull(_reference_from_dict(written["operand"]))
        case "and":
            return And(tuple(from_dict(child) for child in written["children"]))
        case "or":
            return Or(tuple(from_dict(child) for child in written["children"]))
        case "not":
            return Not(from_dict(written["child"]))
        case "opaque":
            return Opaque(
                text=written["text"],
                columns=tuple(_column_from_dict(column) for column in written["columns"]),
                depends=written["depends"],
                deterministic=written["deterministic"],
                reason=written.get("reason", ""),
            )
    if kind in {k.value for k in MatchKind}:
        column = _column_from_dict(written["operand"])
        return Match(MatchKind(kind), column, written["text"], written.get("escape", "\\"))
    if kind in {op.value for op in Op}:
        return Comparison(Op(kind), _operand_from_dict(written["left"]), _operand_from_dict(written["right"]))
    raise ValueError(f"A predicate of kind {kind!r} is not known here: it may be written by a newer sidestep.")


def type_to_json(type: DataType) -> Json:
    """A type by Spark's name for it where that is enough, else by its parts."""
    if parse_type(str(type)) == type:
        return str(type)
    return {"kind": type.kind.value, "precision": type.precision, "scale": type.scale, "detail": type.detail}


def type_from_json(written: Json) -> DataType:
    """The type that :func:`type_to_json` wrote."""
    if isinstance(written, str):
        return parse_type(written)
    return DataType(Kind(written["kind"]), written["precision"], written["scale"], written["detail"])


def value_to_json(value: Value | None, type: DataType) -> Json:
    """A value of a known type; ``None`` stays."""
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if type.kind is Kind.OTHER:
        return {"held": value.__class__.__name__, "as": value.hex() if isinstance(value, bytes) else str(value)}
    if isinstance(value, Decimal):
        return str(value)
    return value.hex() if isinstance(value, bytes) else value


def value_from_json(written: Json, type: DataType) -> Value | None:
    """The value that :func:`value_to_json` wrote."""
    if written is None:
        return None
    if type.kind in FLOATING:
        return float(written)
    if type.kind is Kind.DECIMAL:
        return Decimal(written)
    if type.kind is Kind.BINARY:
        return bytes.fromhex(written)
    if type.kind is Kind.OTHER:
        return _UNKNOWN[written["held"]](written["as"]) if isinstance(written, dict) else float(written)
    return written  # type: ignore[no-any-return]


_UNKNOWN: dict[str, Callable[[str], Value]] = {
    "bool": lambda written: written == "True",
    "int": int,
    "float": float,
    "Decimal": Decimal,
    "str": str,
    "bytes": bytes.fromhex,
}


def _operand_to_dict(operand: Operand) -> dict[str, Json]:
    match operand:
        case Column(name=name, type=type):
            return {"column": name, "type": type_to_json(type)}
        case Cast(column=column, type=type):
            return {"cast": _operand_to_dict(column), "type": type_to_json(type)}
    return {"literal": value_to_json(operand.value, operand.type), "type": type_to_json(operand.type)}


def _operand_from_dict(written: Mapping[str, Json]) -> Operand:
    type = type_from_json(written["type"])
    if "column" in written:
        return Column(written["column"], type)
    if "cast" in written:
        return Cast(_column_from_dict(written["cast"]), type)
    return Literal(value_from_json(written["literal"], type), type)


def _column_from_dict(written: Mapping[str, Json]) -> Column:
    return Column(written["column"], type_from_json(written["type"]))


def _reference_from_dict(written: Mapping[str, Json]) -> Column | Cast:
    operand = _operand_from_dict(written)
    if isinstance(operand, Literal):
        raise ValueError("IN and IS NULL ask about a column, but a literal was written.")
    return operand


def _values_to_dict(values: Sequence[Literal]) -> dict[str, Json]:
    """A list's values under their one type; decimals of several scales each with its own."""
    types = {value.type for value in values}
    if len(types) > 1:
        return {"literals": [_operand_to_dict(value) for value in values]}
    (type,) = types
    return {"type": type_to_json(type), "values": [value_to_json(value.value, type) for value in values]}


def _values_from_dict(written: Mapping[str, Json]) -> tuple[Literal, ...]:
    if "literals" in written:
        types = [type_from_json(v["type"]) for v in written["literals"]]
        values = [v["literal"] for v in written["literals"]]
    else:
        values = written["values"]
        types = [type_from_json(written["type"])] * len(values)
    return tuple(Literal(value_from_json(v, t), t) for v, t in zip(values, types, strict=True))
