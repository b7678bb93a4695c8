"""The statistics of a file in a Delta log, for other readers: what its index rows say, in Delta's words."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from sidestep.predicate.types import INTEGRAL, DataType, Kind

MOST_COLUMNS = 32
"""As many columns as Delta itself keeps statistics of."""
LONGEST = 32
_EPOCH = datetime.datetime(1970, 1, 1)


def delta_stats(blocks: pa.Table, columns: Mapping[str, DataType]) -> str:
    """The ``stats`` of an added file from its index rows: rows, NULLs, and outer bounds where they are known.

    Bounds are widened, never narrowed: timestamps to whole milliseconds, as the log has no more digits. Floats have
    none, because readers disagree about NaN, and strings only short ones.

    >>> rows = pa.table({"rows": [2, 1], "lower:a": [1, None], "upper:a": [5, None], "nulls:a": [0, 1]})
    >>> delta_stats(rows, {"a": DataType(Kind.LONG)})
    '{"numRecords":3,"minValues":{"a":1},"maxValues":{"a":5},"nullCount":{"a":1}}'
    """
    rows = blocks["rows"].to_pylist()
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for column, type in list(columns.items())[:MOST_COLUMNS]:
        if f"nulls:{column}" not in blocks.column_names:
            continue
        counted = blocks[f"nulls:{column}"].to_pylist()
        if any(count is None or count < 0 for count in counted):
            continue
        nulls[column] = sum(counted)
        some = [at for at, count in enumerate(counted) if count < rows[at]]
        low = _outer_bound(min, blocks[f"lower:{column}"].to_pylist(), some)
        high = _outer_bound(max, blocks[f"upper:{column}"].to_pylist(), some)
        low_text, high_text = _to_json(low, type, up=False), _to_json(high, type, up=True)
        if low_text is not None and high_text is not None:
            lows[column], highs[column] = low_text, high_text
    stats = {"numRecords": sum(rows), "minValues": lows, "maxValues": highs, "nullCount": nulls}
    return json.dumps(stats, separators=(",", ":"), ensure_ascii=False)


def _outer_bound(choose: Any, bounds: Sequence[Any], some: Sequence[int]) -> Any:
    """The outermost bound; None if there is no value, or a block's bound is not known."""
    known = [bounds[at] for at in some]
    return None if not known or any(bound is None for bound in known) else choose(known)


def _to_json(bound: Any, type: DataType, *, up: bool) -> Any:
    if bound is None:
        return None
    match type.kind:
        case kind if kind in INTEGRAL:
            return bound
        case Kind.DECIMAL if type.precision <= 15 and not isinstance(bound, Decimal):
            # Fifteen digits go through a double, as JSON readers have it, and come back as they were.
            return bound / 10**type.scale if type.scale else bound
        case Kind.STRING:
            return _text(bound)
        case Kind.DATE:
            return _calendar(bound * 86_400_000_000, "%Y-%m-%d")
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            whole = (-(-bound // 1_000) if up else bound // 1_000) * 1_000
            moment = _calendar(whole, "%Y-%m-%dT%H:%M:%S.")
            zone = "Z" if type.kind is Kind.TIMESTAMP else ""
            return None if moment is None else f"{moment}{whole // 1_000 % 1_000:03d}{zone}"
    return None


def _text(bound: bytes) -> str | None:
    try:
        text = bound.decode()
    except UnicodeDecodeError:
        return None  # a rounded bound need not be a string
    return text if len(text) <= LONGEST else None


def _calendar(micros: int, form: str) -> str | None:
    try:
        moment = _EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return None
    # Years before 1000 would lack their zeros.
    return moment.strftime(form) if moment.year >= 1_000 else None
