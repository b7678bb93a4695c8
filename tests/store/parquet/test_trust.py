from __future__ import annotations

import pytest

from sidestep.predicate.types import Kind
from sidestep.store.parquet.trust import DAY, STANDARD_TIME, Writer, widen_for_calendar, writer_of
from sidestep.synopsis.values.summary import ColumnSummary


@pytest.mark.parametrize(
    ("created_by", "physical", "believed"),
    [
        ("parquet-mr version 1.15.2 (build abc)", "BYTE_ARRAY", True),
        ("parquet-mr version 1.10.0", "FIXED_LEN_BYTE_ARRAY", True),
        ("parquet-mr version 1.9.1 (build abc)", "BYTE_ARRAY", False),
        ("parquet-mr version 1.12.3-databricks-0002 (build x)", "INT64", True),
        ("parquet-mr", "INT64", False),
        ("parquet-mr version 1.15.2", "INT96", False),
        ("parquet-cpp-arrow version 26.0.1", "BYTE_ARRAY", True),
        ("parquet-cpp version 1.5.1-SNAPSHOT", "INT64", False),
        ("parquet-rs version 57.1.0", "BYTE_ARRAY", True),
        ("parquet-rs version 15.0.0", "INT32", False),
        ("delta-rs version py-1.6.6", "BYTE_ARRAY", True),
        ("DuckDB version v1.5.5 (build x)", "BYTE_ARRAY", True),
        ("DuckDB version v1.5.5 (build x)", "FIXED_LEN_BYTE_ARRAY", False),
        ("fastparquet-python version 2024.2.0", "INT64", False),
        ("", "INT64", False),
        ("impala version 4.0.0", "INT64", False),
    ],
)
def test_only_known_writers_are_believed(created_by: str, physical: str, believed: bool) -> None:
    assert Writer(created_by).is_trusted_for(physical) is believed


def test_metadata_decides_the_calendar() -> None:
    assert not writer_of(None, None).proleptic(int96=False)
    spark = writer_of("parquet-mr version 1.15.2", {b"org.apache.spark.version": b"3.0.3"})
    assert spark.proleptic(int96=False)
    assert not spark.proleptic(int96=True), "INT96 is known to be right from 3.1 on"
    legacy = {b"org.apache.spark.version": b"4.0.0", b"org.apache.spark.legacyINT96": b""}
    assert writer_of("", legacy).proleptic(int96=False)
    assert not writer_of("", legacy).proleptic(int96=True)


def test_an_unbounded_end_does_not_hide_an_old_one() -> None:
    found = widen_for_calendar(ColumnSummary(STANDARD_TIME - DAY, None, 0), Kind.TIMESTAMP, Writer())
    assert found == ColumnSummary(None, None, 0)


def test_a_file_of_another_writer_may_be_shifted_by_a_time_zone() -> None:
    known = Writer("parquet-mr version 1.15.2", "4.0.0")
    assert widen_for_calendar(ColumnSummary(0, 1, 0), Kind.TIMESTAMP, known, int96=True) == ColumnSummary(0, 1, 0)
    extreme = ColumnSummary(-(2**63), 2**63 - 1, 0)
    assert widen_for_calendar(extreme, Kind.TIMESTAMP, Writer("x"), int96=True) == ColumnSummary(None, None, 0)
