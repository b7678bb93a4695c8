"""Types of columns, and values of each that stand for the numbers from 0 to GREATEST: tables are drawn as numbers."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa

GREATEST = 39
"""Values stand for the numbers from 0 to this, mostly in the order of their type."""
EDGES = "long"
"""Another word for bigint: here a column with the least and the greatest values of the type."""
INTERVAL = "interval day to second"

ARROW: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "double": pa.float64(),
    "date": pa.date32(),
    "decimal(9,2)": pa.decimal128(9, 2),
    "smallint": pa.int16(),
    "float": pa.float32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "boolean": pa.bool_(),
    "decimal(25,4)": pa.decimal128(25, 4),
    "binary": pa.binary(),
    "tinyint": pa.int8(),
    EDGES: pa.int64(),
    INTERVAL: pa.int64(),
    "struct<a:int,b:string>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "array<int>": pa.list_(pa.int32()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
}
NUMBERS = ("int", "bigint", "smallint", "double", "float", "decimal(9,2)", "decimal(25,4)", "tinyint")
NESTED = ("struct<a:int,b:string>", "array<int>", "map<string,int>")
SCALARS = tuple(kind for kind in ARROW if kind not in NESTED)
DELTA = tuple(kind for kind in SCALARS if kind != INTERVAL)
"""What other writers of Delta tables can write."""


def value(kind: str, number: int) -> Any:
    """The value that stands for a number."""
    ancient = datetime.date(1500, 3, 1)
    """Before the calendars changed in 1582."""
    match kind:
        case "string":
            odd = {0: "", 1: "é\U0001f600", 3: "k'%_\\"}
            return odd.get(number, f"{'p' * 36 if number % 5 == 4 else ''}{'k' * (number % 2)}{number:03d}")
        case "double" | "float":
            return math.nan if number == GREATEST else -0.0 if number == 0 else float(number)
        case "date":
            return ancient if number == 0 else datetime.date(2020, 1, 1) + datetime.timedelta(days=number)
        case "timestamp" | "timestamp_ntz":
            zone = datetime.UTC if kind == "timestamp" else None
            if number == 0:
                return datetime.datetime(1500, 3, 1, 12, 30, tzinfo=zone)
            return datetime.datetime(2020, 1, 1, tzinfo=zone) + datetime.timedelta(hours=7 * number)
        case "decimal(9,2)":
            return decimal.Decimal(number) / 4
        case "decimal(25,4)":
            return decimal.Decimal(number) * 10**12
        case "boolean":
            return number % 2 == 1
        case "binary":
            return b"" if number == 0 else bytes([number, 255 - number])
        case "long":
            return {0: -(2**63), 1: 1 - 2**63, GREATEST - 1: 2**63 - 2, GREATEST: 2**63 - 1}.get(number, number)
        case "interval day to second":
            return number * 3_600_000_000
        case "struct<a:int,b:string>":
            return {"a": number, "b": None if number % 7 == 3 else f"s{number % 4}"}
        case "array<int>":
            return [*range(number % 4), number]
        case "map<string,int>":
            return [(f"k{number % 3}", number)]
        case _:
            return number


def literal(kind: str, number: int) -> str:
    """The same value in SQL."""
    made = value(kind, number)
    match kind:
        case "string":
            return "'" + str(made).replace("\\", "\\\\").replace("'", "\\'") + "'"
        case "date":
            return f"DATE '{made}'"
        case "timestamp":
            return f"TIMESTAMP '{made:%Y-%m-%d %H:%M:%S} UTC'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ '{made:%Y-%m-%d %H:%M:%S}'"
        case "double" | "float":
            return f"CAST('{'NaN' if made != made else made}' AS {kind.upper()})"
        case "binary":
            return f"X'{made.hex()}'"
        case "boolean":
            return str(made).upper()
        case "bigint" | "smallint" | "tinyint":
            return f"CAST({made} AS {kind.upper()})"
        case "long":
            return f"CAST('{made}' AS BIGINT)"
        case "interval day to second":
            return f"INTERVAL '{number}' HOUR"
        case _ if kind.startswith("decimal"):
            return f"CAST({made} AS {kind.upper()})"
        case _:
            return str(made)


def quoted(name: str) -> str:
    """A name in Spark's SQL."""
    return name if name.isidentifier() and not name.startswith("_") else ticked(name)


def ticked(name: str) -> str:
    """A name as it is written whatever it is."""
    return "`" + name.replace("`", "``") + "`"
