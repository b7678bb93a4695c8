"""How a Parquet column relates to a column of the table: whether Spark reads it value for value, and how.

A *leaf* is a top-level, unnested Parquet column. If Spark would convert its values in any way that is not exact here (a
narrower integer, another decimal scale, nanoseconds), nothing is known of the column in that file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sidestep.predicate.types import DataType, Kind, time_step
from sidestep.store.snapshot import Field, field_id
from sidestep.synopsis.values.forms import INT64_MAX, INT64_MIN, round_down, round_up
from sidestep.synopsis.values.summary import PREFIX, Stored

FromFooter = Callable[[Any, bool], Stored | None]
"""From a raw statistic, the least (True) or the greatest (False), to the stored form; None is unbounded."""
_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INTEGER: 32, Kind.LONG: 64}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A top-level scalar column of one Parquet file."""

    name: str
    position: int
    """Its number among the file's column chunks."""
    physical: str
    logical: str
    parameters: dict[str, Any]

    @property
    def int96(self) -> bool:
        return self.physical == "INT96"


@dataclass(frozen=True, slots=True)
class Reading:
    """Spark reads this leaf as the table's type, value for value.

    ``from_footer`` converts statistics; without it the data is read. ``within`` is the range that the values must keep
    to: a value beyond it would be cut to fewer bits.
    """

    from_footer: FromFooter | None
    within: tuple[int, int] | None = None


def leaves_of(file: pq.ParquetFile) -> dict[str, Leaf | None]:
    """The top-level columns of a file by name; None for one that is nested, repeated, or there twice.

    >>> import io
    >>> sink = io.BytesIO()
    >>> pq.write_table(pa.table({"a": [1], "s": [{"b": 2}]}), sink)
    >>> {name: leaf and leaf.physical for name, leaf in leaves_of(pq.ParquetFile(sink)).items()}
    {'a': 'INT64', 's': None}
    """
    leaves: dict[str, Leaf | None] = {}
    position = 0
    for field in file.schema_arrow:
        width = _chunks(field.type)
        leaf = None
        if width == 1 and not pa.types.is_nested(field.type):
            column = file.schema.column(position)
            # A struct a with a field b and a column called "a.b" have the same path: the name says which it is.
            if column.name == field.name and column.max_repetition_level == 0 and column.max_definition_level <= 1:
                logical = json.loads(column.logical_type.to_json())
                leaf = Leaf(field.name, position, column.physical_type, column.logical_type.type, logical)
        leaves[field.name] = None if field.name in leaves else leaf
        position += width
    if position != len(file.schema):
        return dict.fromkeys(leaves)  # the count went wrong somewhere: no position is certain
    return leaves


def leaves_by_id(file: pq.ParquetFile, keys: Iterable[str], fields: Iterable[Field]) -> dict[str, Leaf | None]:
    """The top-level columns of a file by the keys of a table's columns, which are found by the ids of these.

    What a file calls a column means nothing. None stands for a column of which nothing is known: it is nested, its id
    is there twice, or the file does not have it and that does not mean NULL. A column that is not in the result is NULL
    in every row. A file with a column that has no id was written by someone who knew of none: nothing is known of it.
    """
    by_name = leaves_of(file)
    by_id: dict[int, Leaf | None] = {}
    for field in file.schema_arrow:
        raw = (field.metadata or {}).get(b"PARQUET:field_id")
        if raw is None:
            return dict.fromkeys(keys)
        by_id[int(raw)] = None if int(raw) in by_id else by_name[field.name]
    of_table = {field.id: field for field in fields}
    leaves: dict[str, Leaf | None] = {}
    for key in keys:
        number = field_id(key)
        column = None if number is None else of_table.get(number)
        if column is None or not column.in_files:
            leaves[key] = None
        elif column.id in by_id or not column.null_if_absent:
            leaves[key] = by_id.get(column.id)
    return leaves


def names_agree(file: pq.ParquetFile, ids: Mapping[str, int]) -> bool:
    """Whether a reader that looks for columns by their ids finds those that have these names, or none.

    >>> import io
    >>> sink = io.BytesIO()
    >>> with_id = pa.field("a", pa.int64(), metadata={b"PARQUET:field_id": b"1"})
    >>> pq.write_table(pa.table({"a": [1]}, pa.schema([with_id])), sink)
    >>> [names_agree(pq.ParquetFile(sink), ids) for ids in ({"a": 1}, {"b": 2}, {"a": 2}, {"b": 1})]
    [True, True, False, False]
    """
    found = [(field.name, int((field.metadata or {}).get(b"PARQUET:field_id", -1))) for field in file.schema_arrow]
    names = {id: name for name, id in ids.items()}
    return all(ids.get(name, id) == id and names.get(id, name) == name for name, id in found)


def reading_of(leaf: Leaf, type: DataType) -> Reading | None:
    """How Spark reads the leaf as ``type``; None if it does not, or not value for value."""
    kind, physical, logical = type.kind, leaf.physical, leaf.logical
    match kind:
        case Kind.BOOLEAN:
            return Reading(_integer(1)) if physical == "BOOLEAN" else None
        case Kind.BYTE | Kind.SHORT | Kind.INTEGER | Kind.LONG:
            return _integral(leaf, _BITS[kind])
        case Kind.YEAR_MONTH | Kind.DAY_TIME:
            wanted = "INT32" if kind is Kind.YEAR_MONTH else "INT64"
            return Reading(_integer(1)) if physical == wanted and logical == "NONE" else None
        case Kind.FLOAT:
            return Reading(_float) if physical == "FLOAT" and logical == "NONE" else None
        case Kind.DOUBLE:
            return Reading(_float) if physical in ("FLOAT", "DOUBLE") and logical == "NONE" else None
        case Kind.DECIMAL:
            same = logical == "DECIMAL" and leaf.parameters["scale"] == type.scale
            return Reading(_decimal(type)) if same and physical != "INT96" else None
        case Kind.DATE:
            return Reading(_integer(1)) if logical == "DATE" else None
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return _timestamp(leaf, kind)
        case Kind.TIME:
            micros = logical == "TIME" and leaf.parameters.get("timeUnit") == "microseconds"
            return Reading(_integer(1_000, time_step(type))) if micros else None
        case Kind.STRING | Kind.BINARY:
            return _text(leaf, kind)
        case _:
            return None


def _chunks(type: pa.DataType) -> int:
    """How many Parquet column chunks hold an Arrow field of this type."""
    if isinstance(type, pa.BaseExtensionType):
        return _chunks(type.storage_type)
    if pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
        return _chunks(type.value_type)
    if pa.types.is_nested(type):
        return sum(_chunks(type.field(i).type) for i in range(type.num_fields))
    return 1


def _integral(leaf: Leaf, bits: int) -> Reading | None:
    if leaf.physical not in ("INT32", "INT64") or leaf.logical not in ("NONE", "INT"):
        return None
    width = int(leaf.parameters.get("bitWidth", 32 if leaf.physical == "INT32" else 64))
    within = None if width <= bits else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if leaf.logical == "INT" and not leaf.parameters["isSigned"]:
        # Statistics of unsigned columns come as signed raw values: their data is read. And an unsigned value that
        # needs all the bits of a signed type would be read as a negative one.
        return Reading(None) if width < bits else None
    return Reading(_integer(1), within)


def _timestamp(leaf: Leaf, kind: Kind) -> Reading | None:
    if leaf.int96:
        return Reading(None) if kind is Kind.TIMESTAMP else None
    if leaf.logical != "TIMESTAMP" or (kind is Kind.TIMESTAMP_NTZ and leaf.parameters["isAdjustedToUTC"]):
        return None
    factor = {"milliseconds": 1_000, "microseconds": 1}.get(leaf.parameters["timeUnit"])
    return None if factor is None else Reading(_integer(factor))


def _text(leaf: Leaf, kind: Kind) -> Reading | None:
    if leaf.physical == "BYTE_ARRAY" and leaf.logical in ("NONE", "STRING", "ENUM", "JSON", "BSON"):
        return Reading(_bytes)
    fixed = leaf.physical == "FIXED_LEN_BYTE_ARRAY" and leaf.logical == "NONE"
    return Reading(_bytes) if fixed and kind is Kind.BINARY else None


def _integer(factor: int, step: int = 1) -> FromFooter:
    def convert(raw: Any, low: bool) -> int | None:
        value = int(raw) * factor // step * step
        return value if INT64_MIN <= value <= INT64_MAX else None

    return convert


def _float(raw: Any, low: bool) -> float:
    return float(raw)


def _decimal(type: DataType) -> FromFooter:
    def convert(raw: Any, low: bool) -> int | Decimal | None:
        number = int.from_bytes(raw, signed=True) if isinstance(raw, bytes) else int(raw)
        if abs(number) >= 10**type.precision:
            return None
        # Built from digits: arithmetic would round to the 28 digits of the default context.
        digits = tuple(int(digit) for digit in str(abs(number)))
        return number if type.precision <= 18 else Decimal((int(number < 0), digits, -type.scale))

    return convert


def _bytes(raw: Any, low: bool) -> bytes | None:
    return round_down(raw, PREFIX) if low else round_up(raw, PREFIX)
