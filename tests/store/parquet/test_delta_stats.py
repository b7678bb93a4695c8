"""Statistics for other readers of the log: outer bounds, or none."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from sidestep.predicate import parse_type
from sidestep.store.parquet.delta_stats import delta_stats


def stats(kind: str, lower: list[Any], upper: list[Any], nulls: list[int | None], rows: list[int]) -> dict[str, Any]:
    blocks = pa.table({"rows": rows, "lower:c": lower, "upper:c": upper, "nulls:c": pa.array(nulls, pa.int64())})
    found: dict[str, Any] = json.loads(delta_stats(blocks, {"c": parse_type(kind)}))
    return found


@pytest.mark.parametrize(
    ("kind", "lower", "upper", "low", "high"),
    [
        ("int", -3, 4, -3, 4),
        ("date", 0, 8766, "1970-01-01", "1994-01-01"),
        ("decimal(15,2)", -105, 250, -1.05, 2.5),
        ("string", b"a", b"zz", "a", "zz"),
        ("timestamp", 1_999, 2_001, "1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.003Z"),
        ("timestamp_ntz", -1, -1, "1969-12-31T23:59:59.999", "1970-01-01T00:00:00.000"),
    ],
)
def test_bounds_are_written_outwards(kind: str, lower: Any, upper: Any, low: Any, high: Any) -> None:
    found = stats(kind, [lower], [upper], [1], [3])
    assert (found["minValues"], found["maxValues"]) == ({"c": low}, {"c": high})
    assert (found["nullCount"], found["numRecords"]) == ({"c": 1}, 3)


@pytest.mark.parametrize(
    ("kind", "lower", "upper"),
    [
        ("double", 1.0, 2.0),
        ("boolean", 0, 1),
        ("string", b"a", b"a\xff"),
        ("string", b"a", b"b" * 40),
        ("date", -800_000, 0),
        ("binary", b"a", b"b"),
    ],
)
def test_what_others_may_misread_is_left_out(kind: str, lower: Any, upper: Any) -> None:
    found = stats(kind, [lower], [upper], [0], [3])
    assert (found["minValues"], found["maxValues"], found["nullCount"]) == ({}, {}, {"c": 0})


def test_blocks_without_values_and_blocks_without_bounds() -> None:
    found = stats("int", [5, None], [6, None], [0, 2], [2, 2])
    assert (found["minValues"], found["nullCount"]) == ({"c": 5}, {"c": 2}), "a block of NULLs has no bounds to miss"
    found = stats("int", [5, None], [6, None], [0, 1], [2, 2])
    assert found["minValues"] == {}, "a block of unknown bounds may hold anything"
    found = stats("int", [5, 5], [6, 6], [0, None], [2, 2])
    assert found["nullCount"] == {}
