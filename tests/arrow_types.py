"""The types of Arrow in which tests write values of each kind; decimals have one each."""

from __future__ import annotations

import pyarrow as pa

from sidestep.predicate.types import Kind

ARROW: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.BYTE: pa.int8(),
    Kind.SHORT: pa.int16(),
    Kind.INTEGER: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
    Kind.TIME: pa.time64("ns"),
    Kind.YEAR_MONTH: pa.int32(),
    Kind.DAY_TIME: pa.duration("us"),
}
