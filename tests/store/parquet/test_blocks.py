from __future__ import annotations

import math
import os
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.errors import DamagedFile
from sidestep.predicate.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DAY_TIME,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    Kind,
    decimal_type,
    parse_type,
)
from sidestep.store import Sources, block_summaries, read_snapshot
from sidestep.store.parquet.trust import DAY, GREGORIAN, STANDARD_TIME
from sidestep.synopsis.values.summary import UNKNOWN, ColumnSummary
from tests.store.tables import write_parquet

SPARK_4 = {"org.apache.spark.version": "4.3.0"}


def rows_of(path: Path, columns: dict[str, DataType], sources: Sources | None = None) -> pa.Table:
    snapshot = read_snapshot(path)
    table = block_summaries(snapshot.root, snapshot.files[0], columns, sources)
    assert table is not None
    return table


def summaries(path: Path, column: str, type: DataType, sources: Sources | None = None) -> list[ColumnSummary]:
    table = rows_of(path, {column: type}, sources)
    parts = []
    for part in ("lower", "upper", "nulls", "nan"):
        name = f"{part}:{column}"
        parts.append(table[name].to_pylist() if name in table.column_names else [None] * len(table))
    return [ColumnSummary(*values) for values in zip(*parts, strict=True)]


def summary(path: Path, column: str, type: DataType, sources: Sources | None = None) -> ColumnSummary:
    (only,) = summaries(path, column, type, sources)
    return only


def ints(bits: int) -> st.SearchStrategy[int]:
    ends = st.sampled_from([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1])
    return ends | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    unscaled = st.sampled_from([-most, most, 0, -1]) | st.integers(-most, most)
    return unscaled.map(lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)))


def same(value: Any) -> Any:
    return value


def unscaled(scale: int) -> Callable[[Decimal], int]:
    return lambda value: int(value.scaleb(scale))


KINDS: list[tuple[pa.DataType, DataType, st.SearchStrategy[Any], Callable[[Any], Any]]] = [
    (pa.bool_(), BOOLEAN, st.booleans(), int),
    (pa.int8(), BYTE, ints(8), same),
    (pa.int16(), SHORT, ints(16), same),
    (pa.int32(), INTEGER, ints(32), same),
    (pa.int64(), LONG, ints(64), same),
    (pa.int32(), LONG, ints(32), same),
    (pa.float32(), FLOAT, st.floats(width=32), same),
    (pa.float32(), DOUBLE, st.floats(width=32), same),
    (pa.float64(), DOUBLE, st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]), same),
    (pa.decimal128(9, 2), decimal_type(9, 2), decimals(9, 2), unscaled(2)),
    (pa.decimal128(18, 0), decimal_type(18, 0), decimals(18, 0), unscaled(0)),
    (pa.decimal128(38, 10), decimal_type(38, 10), decimals(38, 10), same),
    (pa.string(), STRING, st.text(alphabet=st.characters(codec="utf-8")), str.encode),
    (pa.string(), STRING, st.text(alphabet="ab\U0010ffff", min_size=28, max_size=40), str.encode),
    (pa.large_string(), STRING, st.text(alphabet="aé\uffff", max_size=40), str.encode),
    (pa.binary(), BINARY, st.binary(max_size=40), same),
    (pa.binary(), STRING, st.binary(max_size=40) | st.sampled_from([b"\xff" * 33, b"\xff" * 32]), same),
    (pa.string(), BINARY, st.text(alphabet=st.characters(codec="utf-8"), max_size=9), str.encode),
    (pa.dictionary(pa.int32(), pa.string()), STRING, st.sampled_from(["a", "é", "b" * 50]), str.encode),
    (pa.date32(), DATE, ints(32), same),
    (pa.timestamp("us"), TIMESTAMP_NTZ, ints(64), same),
    (pa.timestamp("us", "UTC"), TIMESTAMP, ints(64), same),
    (pa.timestamp("ms", "UTC"), TIMESTAMP, ints(50), lambda millis: millis * 1_000),
    (pa.time64("us"), TIME, st.integers(0, 86_399_999_999), lambda micros: micros * 1_000),
    (pa.time64("us"), DataType(Kind.TIME, 3), st.integers(0, 86_399_999_999), lambda micros: micros // 1_000 * 10**6),
    (pa.int64(), DAY_TIME, ints(64), same),
    (pa.uint32(), LONG, st.integers(0, 2**32 - 1), same),
    (pa.uint16(), INTEGER, st.integers(0, 2**16 - 1), same),
]


def check(found: ColumnSummary, values: list[Any], floating: bool) -> None:
    """Every value lies within the bounds, and the counts are right."""
    present = [value for value in values if value is not None]
    assert found.nulls == len(values) - len(present)
    numbers = [value for value in present if not (floating and math.isnan(value))]
    if floating and found.nan is not None:
        assert found.nan == (len(numbers) < len(present))
    for value in numbers:
        assert found.lower is None or found.lower <= value, "should bound every value from below"
        assert found.upper is None or value <= found.upper, "should bound every value from above"


@settings(max_examples=400)
@given(st.data())
def test_footers_and_data_agree_and_bound_every_value(tmp_path: Path, data: st.DataObject) -> None:
    arrow, type, values, stored = data.draw(st.sampled_from(KINDS))
    column = data.draw(st.lists(st.none() | values, max_size=12))
    size = data.draw(st.integers(1, 5))
    table = pa.table({"c": pa.array(column, arrow)}).replace_schema_metadata(SPARK_4)
    path = write_parquet(
        tmp_path / uuid.uuid4().hex, table, row_group_size=size, store_decimal_as_integer=size % 2 == 0
    )
    from_footers = summaries(path, "c", type, Sources(float_footers=True))
    by_default = summaries(path, "c", type)
    from_data = summaries(path, "c", type, Sources(footers=False))
    # The writer of a dictionary takes the bounds of the whole dictionary: outer ones, not those of the data.
    exact = not pa.types.is_dictionary(arrow)
    assert not exact or by_default == from_data
    floating = type.kind in (Kind.FLOAT, Kind.DOUBLE)
    for group, (footer, read) in enumerate(zip(from_footers, from_data, strict=True)):
        block = [None if value is None else stored(value) for value in column[group * size : (group + 1) * size]]
        check(footer, block, floating)
        check(read, block, floating)
        if exact and not floating:
            assert footer == read
        numbers = [value for value in block if value is not None and not (floating and math.isnan(value))]
        tight = numbers and not (isinstance(numbers[0], bytes) and max(map(len, numbers)) > 32)
        if tight:
            assert (read.lower, read.upper) == (min(numbers), max(numbers)), "should not be wider than the values"


def test_one_row_per_row_group_with_the_files_key(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a=1" / "b=é" / "f", {"x": range(10)}, row_group_size=4)
    (file,) = read_snapshot(tmp_path).files
    table = block_summaries(read_snapshot(tmp_path).root, file, {"x": LONG, "a": INTEGER})
    assert table is not None
    assert set(zip(*(table[name].to_pylist() for name in ("path", "size", "modified")), strict=True)) == {file.key}
    assert table["row_group"].to_pylist() == [0, 1, 2]
    assert table["rows"].to_pylist() == [4, 4, 2]
    assert 0 < sum(table["bytes"].to_pylist()) < os.stat(path).st_size
    assert table["part:b"].to_pylist() == ["é"] * 3
    assert table["lower:x"].to_pylist() == [0, 4, 8]
    assert "lower:a" not in table.column_names, "should leave a partition column to the folder's value"


def test_a_file_without_rows_has_one_empty_block(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "f", {"x": pa.array([], pa.int64()), "d": pa.array([], pa.float64())})
    table = rows_of(path, {"x": LONG, "d": DOUBLE, "absent": LONG})
    assert table["rows"].to_pylist() == [0]
    assert [table[f"nulls:{name}"].to_pylist() for name in ("x", "d", "absent")] == [[0], [0], [0]]


def test_an_absent_column_is_all_null(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "f", {"x": [1, 2, 3]}, row_group_size=2)
    assert [found.nulls for found in summaries(path, "y", STRING)] == [2, 1]
    assert summaries(path, "y", DOUBLE)[0].nan is False


def test_letter_case_and_doubles_are_unknown(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "case", {"X": [1]})
    assert summary(path, "x", LONG) == UNKNOWN, "should not guess whether Spark minds the case"
    path = write_parquet(tmp_path / "both", {"X": [1], "x": [2]})
    assert summary(path, "x", LONG) == UNKNOWN
    path = write_parquet(tmp_path / "twice", pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]))
    assert summary(path, "x", LONG) == UNKNOWN


def test_nested_columns_do_not_shift_the_others(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a": [{"b": 100, "c": [1, 2]}, {"b": 200, "c": []}],
            "a.b": [1, 2],
            "m": pa.array([[("k", 7)], None], pa.map_(pa.string(), pa.int64())),
            "l": [[5], [6]],
            "x": [3, 4],
            "y": [0.5, 1.5],
        }
    )
    path = write_parquet(tmp_path / "f", table)
    for sources in (Sources(), Sources(footers=False)):
        assert summary(path, "a", LONG, sources) == UNKNOWN
        assert summary(path, "l", LONG, sources) == UNKNOWN
        assert summary(path, "x", LONG, sources) == ColumnSummary(3, 4, 0)
        assert summary(path, "y", DOUBLE, sources) == ColumnSummary(0.5, 1.5, 0, False)
        assert summary(path, "a.b", LONG, sources) in (ColumnSummary(1, 2, 0), UNKNOWN)


MISMATCHED = [
    (pa.array([1]), STRING),
    (pa.array([1]), DOUBLE),
    (pa.array([1]), decimal_type(10, 0)),
    (pa.array([1.0]), FLOAT),
    (pa.array(["1"]), LONG),
    (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), decimal_type(5, 2)),
    (pa.array([1], pa.date32()), TIMESTAMP_NTZ),
    (pa.array([1], pa.timestamp("us", "UTC")), TIMESTAMP_NTZ),
    (pa.array([1], pa.timestamp("us")), DATE),
    (pa.array([1], pa.timestamp("us")), LONG),
    (pa.array([1_000], pa.timestamp("ns")), TIMESTAMP_NTZ),
    (pa.array([2**32 - 1], pa.uint32()), INTEGER),
    (pa.array([2**64 - 1], pa.uint64()), LONG),
    (pa.array([1], pa.uint8()), BYTE),
    (pa.array([b"ab"], pa.binary(2)), STRING),
    (pa.array([1], pa.time32("ms")), TIME),
    (pa.array([1]), parse_type("string collate UNICODE_CI")),
]


@pytest.mark.parametrize(("array", "type"), MISMATCHED, ids=lambda each: str(getattr(each, "type", each)))
def test_what_spark_would_convert_is_unknown(tmp_path: Path, array: pa.Array, type: DataType) -> None:
    path = write_parquet(tmp_path / "f", {"x": array})
    for sources in (Sources(), Sources(footers=False)):
        assert summary(path, "x", type, sources) == UNKNOWN


def test_a_narrower_integer_is_known_only_if_all_values_fit(tmp_path: Path) -> None:
    fits = write_parquet(tmp_path / "fits", {"x": pa.array([1, 127], pa.int32())})
    assert summary(fits, "x", BYTE) == ColumnSummary(1, 127, 0)
    beyond = write_parquet(tmp_path / "beyond", {"x": pa.array([1, 128], pa.int32())})
    assert summary(beyond, "x", BYTE) == UNKNOWN, "Spark would cut 128 to -128"


def test_an_arrow_duration_is_a_plain_integer_to_spark(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "f", {"x": pa.array([5, 9], pa.duration("ms"))})
    for sources in (Sources(), Sources(footers=False)):
        assert summary(path, "x", LONG, sources) == ColumnSummary(5, 9, 0)
        assert summary(path, "x", DAY_TIME, sources) == ColumnSummary(5, 9, 0)


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    bad = pa.array([b"\xff\xfe", b"a"], pa.binary()).view(pa.string())
    path = write_parquet(tmp_path / "f", {"x": bad})
    for sources in (Sources(), Sources(footers=False)):
        assert summary(path, "x", STRING, sources) == ColumnSummary(b"a", b"\xff\xfe", 0)


def test_nan_is_found_only_in_the_data(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "f", {"x": [1.0, math.nan, None]})
    assert summary(path, "x", DOUBLE) == ColumnSummary(1.0, 1.0, 1, True)
    assert summary(path, "x", DOUBLE, Sources(float_footers=True)) == ColumnSummary(1.0, 1.0, 1, None)


def test_without_statistics_the_data_is_read(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "f", {"x": [3, None, 5]}, write_statistics=False)
    assert summary(path, "x", LONG) == ColumnSummary(3, 5, 1)


def test_an_unknown_writer_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "f", {"x": [3, 5]})
    # The statistics of this file say 3..5; a writer nobody knows is not believed, so the data must be asked.
    reads: list[Any] = []
    original = pa.parquet.ParquetFile.read_row_group

    def counted(self: Any, *args: Any, **kwargs: Any) -> pa.Table:
        reads.append(args)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(pa.parquet.ParquetFile, "read_row_group", counted)
    assert summary(path, "x", LONG) == ColumnSummary(3, 5, 0)
    assert not reads, "should use the footer of a known writer"
    content = path.read_bytes()
    assert content.count(b"parquet-cpp-arrow") == 1
    path.write_bytes(content.replace(b"parquet-cpp-arrow", b"parquet-cpp-other"))
    assert summary(path, "x", LONG) == ColumnSummary(3, 5, 0)
    assert len(reads) == 1, "should read the data of an unknown writer"


OLD = STANDARD_TIME - 50 * 365 * DAY


@pytest.mark.parametrize(
    ("metadata", "widened"),
    [
        ({}, True),
        ({"org.apache.spark.version": "2.4.5"}, True),
        ({"org.apache.spark.version": "3.0.0"}, False),
        ({"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}, True),
        ({"org.apache.spark.version": "4.3.0", "org.apache.spark.legacyINT96": ""}, False),
    ],
)
def test_old_dates_and_timestamps_are_widened(tmp_path: Path, metadata: dict[str, str], widened: bool) -> None:
    table = pa.table(
        {
            "d": pa.array([-200_000, -190_000], pa.date32()),
            "t": pa.array([OLD, OLD], pa.timestamp("us", "UTC")),
            "n": pa.array([OLD, 5], pa.timestamp("us")),
            "new": pa.array([GREGORIAN, 5], pa.date32()),
        }
    ).replace_schema_metadata(metadata)
    path = write_parquet(tmp_path / "f", table)
    for sources in (Sources(), Sources(footers=False)):
        date = summary(path, "d", DATE, sources)
        stamp = summary(path, "t", TIMESTAMP, sources)
        local = summary(path, "n", TIMESTAMP_NTZ, sources)
        if widened:
            assert date == ColumnSummary(None, GREGORIAN + 366, 0)
            assert stamp.lower is None
            assert isinstance(stamp.upper, int)
            assert stamp.upper >= STANDARD_TIME + 365 * DAY
            assert local == ColumnSummary(None, 5, 0)
        else:
            assert date == ColumnSummary(-200_000, -190_000, 0)
            assert stamp == ColumnSummary(OLD, OLD, 0)
            assert local == ColumnSummary(OLD, 5, 0)
        assert summary(path, "new", DATE, sources) == ColumnSummary(GREGORIAN, 5, 0)


def test_int96_is_read_and_widened_by_days(tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([0, None, 10 * DAY], pa.timestamp("us")), "u": pa.nulls(3, pa.timestamp("us"))})
    path = write_parquet(tmp_path / "f", table, use_deprecated_int96_timestamps=True)
    found = summary(path, "t", TIMESTAMP)
    assert found == ColumnSummary(-2 * DAY, 12 * DAY, 1), "a session may shift these by its time zone"
    assert summary(path, "u", TIMESTAMP) == ColumnSummary(None, None, 3)
    assert summary(path, "t", TIMESTAMP_NTZ) == UNKNOWN


def test_changed_and_vanished_files_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "f", {"x": [1]})
    snapshot = read_snapshot(tmp_path)
    (file,) = snapshot.files

    def rewritten(self: Any, *args: Any, **kwargs: Any) -> ColumnSummary:
        write_parquet(path, {"x": [2]}, age=5)
        return UNKNOWN

    with monkeypatch.context() as patch:
        patch.setattr("sidestep.store.parquet.scan.FileScan._as_read", rewritten)
        assert block_summaries(snapshot.root, file, {"x": LONG}) is None, "changed while it was read"
    assert block_summaries(snapshot.root, file, {"x": LONG}) is None, "changed before it was read"
    assert block_summaries(snapshot.root, file, {"x": LONG}, log_times=True) is not None, "the log's time is its own"
    path.unlink()
    assert block_summaries(snapshot.root, file, {"x": LONG}) is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "f", {"x": list(range(1000))}, write_statistics=False)
    content = path.read_bytes()
    for damaged in (content[:-100], content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :], b"PAR1"):
        path.write_bytes(damaged)
        snapshot = read_snapshot(tmp_path)
        with pytest.raises(DamagedFile, match=str(path)):
            block_summaries(snapshot.root, snapshot.files[0], {"x": LONG})
