"""Partition values: what a Hive-style path or a table's log says of a column, exactly and for a whole file."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Compares, Formula, Matches, Null, Within
from sidestep.predicate.types import DataType, Kind
from sidestep.synopsis.contract.answer import Answer
from sidestep.synopsis.values.forms import stored_type, unscaled
from sidestep.synopsis.values.summary import UNKNOWN, ColumnSummary
from sidestep.synopsis.zones.column_zones import ColumnZones, column_zones
from sidestep.synopsis.zones.compare import compare_zones
from sidestep.synopsis.zones.zone_map import ZoneMaps

Partition = tuple[tuple[str, str | None], ...]
"""Partition columns and their values as raw text, outermost first; None is NULL."""


@dataclass(frozen=True, eq=False)
class PartitionValues:
    """Partition columns as zone maps of the distinct values, each with one value for all rows, and who has which.

    A predicate is decided once for each distinct value; blocks then look their answer up.
    """

    distinct: Mapping[str, ZoneMaps]
    """For each column, the zone maps of its distinct values."""
    codes: Mapping[str, npt.NDArray[np.int32]]
    """For each column, the distinct value of each block."""
    name: str = "partition"

    @property
    def types(self) -> Mapping[str, DataType]:
        """The partition columns, and the types that their texts were read as."""
        return {name: maps.types[name] for name, maps in self.distinct.items()}

    def can_satisfy(self, formula: Formula) -> Answer | None:
        match formula:
            case Within(column) | Null(column) | Matches(column) if column.name in self.distinct:
                answer = self.distinct[column.name].can_satisfy(formula)
                if answer is not None:
                    codes = self.codes[column.name]
                    return Answer(answer.possible[codes], None if answer.unknown is None else answer.unknown[codes])
            case Compares(left, op, right) if left.name in self.distinct and right.name in self.distinct:
                a, b = self.distinct[left.name].zones(left), self.distinct[right.name].zones(right)
                if a is not None and b is not None:
                    return compare_zones(a.take(self.codes[left.name]), op, b.take(self.codes[right.name]))
        return None

    @property
    def nbytes(self) -> int:
        return sum(maps.nbytes for maps in self.distinct.values()) + sum(codes.nbytes for codes in self.codes.values())


def partition_values(
    types: Mapping[str, DataType],
    texts: Mapping[str, Sequence[str | None]],
    file_of_block: npt.NDArray[np.int32],
) -> PartitionValues:
    """Partition values from their texts, unescaped, one per file; None is NULL.

    ``types`` are the types that the query gives the columns. A column without texts is left out.

    >>> from sidestep.predicate.nodes import Column
    >>> from sidestep.predicate.types import INTEGER
    >>> values = partition_values({"year": INTEGER}, {"year": ["2024", None]}, np.array([0, 0, 1], dtype=np.int32))
    >>> values.can_satisfy(Null(Column("year", INTEGER))).possible.tolist()
    [False, False, True]
    """
    distinct: dict[str, ZoneMaps] = {}
    codes: dict[str, npt.NDArray[np.int32]] = {}
    files = int(file_of_block.max()) + 1 if len(file_of_block) else 0
    for name, type in types.items():
        if name not in texts:
            continue
        if len(texts[name]) < files:
            raise SidestepError(
                f"Partition column {name} has values for {len(texts[name])} files, but the table has {files}."
            )
        # Numbered in Python: a path that is not valid UTF-8 makes a text that Arrow would refuse.
        numbers: dict[str | None, int] = {}
        of_file = [numbers.setdefault(text, len(numbers)) for text in texts[name]]
        distinct[name] = ZoneMaps({name: _zones_of(list(numbers), type)})
        codes[name] = np.array(of_file, dtype=np.int32)[file_of_block]
    return PartitionValues(distinct, codes)


def _zones_of(texts: list[str | None], type: DataType) -> ColumnZones:
    summaries = [ColumnSummary(nulls=1) if text is None else read_partition_text(text, type) for text in texts]
    arrow_type = stored_type(type)
    lower = upper = None
    if arrow_type is not None:
        lower = pa.array([summary.lower for summary in summaries], arrow_type)
        upper = pa.array([summary.upper for summary in summaries], arrow_type)
    nulls = pa.array([summary.nulls for summary in summaries], pa.int64())
    nan = pa.array([summary.nan for summary in summaries], pa.bool_())
    return column_zones(type, np.ones(len(texts), dtype=np.int64), lower, upper, nulls, nan)


_INTEGER = re.compile(r"[-+]?[0-9]{1,20}")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,60}(\.[0-9]{1,60})?")
_FLOAT = re.compile(r"[-+]?[0-9]{1,60}(\.[0-9]{1,60})?([eE][-+]?[0-9]{1,4})?")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_LIMITS = {Kind.BYTE: 2**7, Kind.SHORT: 2**15, Kind.INTEGER: 2**31, Kind.LONG: 2**63}
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_partition_text(text: str, type: DataType) -> ColumnSummary:
    """What one row's worth of this text is as a value of ``type``; unknown unless Spark is sure to read the same.

    Spark reads a text it cannot convert as NULL or fails, by type and setting, and a timestamp by the session's time
    zone: those are unknown. A plain text, number, date or truth value reads the same everywhere.

    >>> from sidestep.predicate.types import DATE, INTEGER
    >>> read_partition_text("1970-01-11", DATE).lower, read_partition_text("0x10", INTEGER) == UNKNOWN
    (10, True)
    """
    kind = type.kind
    if kind is Kind.STRING and text:
        try:
            return _exactly(text.encode())
        except UnicodeEncodeError:
            return UNKNOWN
    if kind in _LIMITS and _INTEGER.fullmatch(text):
        number = int(text)
        return _exactly(number) if -_LIMITS[kind] <= number < _LIMITS[kind] else UNKNOWN
    if kind is Kind.BOOLEAN and text.lower() in ("true", "false"):
        return _exactly(int(text.lower() == "true"))
    if kind is Kind.DATE and (date := _DATE.fullmatch(text)):
        try:
            return _exactly(datetime.date(int(date[1]), int(date[2]), int(date[3])).toordinal() - _EPOCH)
        except ValueError:
            return UNKNOWN
    if kind is Kind.DECIMAL and _DECIMAL.fullmatch(text):
        return _decimal(Decimal(text), type)
    if kind in (Kind.FLOAT, Kind.DOUBLE) and (text in _SPECIAL or _FLOAT.fullmatch(text)):
        return _float(_SPECIAL[text] if text in _SPECIAL else float(text), single=kind is Kind.FLOAT)
    return UNKNOWN


_EPOCH = datetime.date(1970, 1, 1).toordinal()


def _exactly(value: bytes | int | float | Decimal, nan: bool | None = None) -> ColumnSummary:
    return ColumnSummary(value, value, 0, nan)


def _decimal(value: Decimal, type: DataType) -> ColumnSummary:
    number, exact = unscaled(value, type.scale)
    if not exact or abs(number) >= 10**type.precision:
        return UNKNOWN  # rounded, NULL or an error, by setting
    return _exactly(number if type.precision <= 18 else value)


def _float(value: float, *, single: bool) -> ColumnSummary:
    if math.isnan(value):
        return ColumnSummary(math.inf, -math.inf, 0, True)
    if single and math.isfinite(value):
        with np.errstate(all="ignore"):
            nearest = np.float32(value)
            beyond = np.nextafter(nearest, np.float32(math.copysign(math.inf, value - float(nearest))))
        if not np.isfinite(nearest) or value * 2 == float(nearest) + float(beyond):
            # The double lies half-way between two floats: which of them the text itself is nearer to is lost.
            return UNKNOWN
        value = float(nearest)
    return _exactly(value, nan=False)
