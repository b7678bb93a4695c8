"""Whose footers are trusted, and which calendar they were written in.

Parquet's statistics have a history of wrong order (signed bytes for strings and decimals), wrong counts and silent
truncation. A footer is trusted only if its writer is one that is known to be right; all other files are read.

Old dates and timestamps need care whoever wrote them. Before Spark 3 the calendar was hybrid: Julian before 1582-10-15.
Spark shifts ("rebases") old values of such files on read, by days for dates and by odd minutes too for timestamps
before 1900, and for files of other writers it does what the session's settings say. A bound taken from the file could
then exclude the shifted value, so bounds of old values are widened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sidestep.predicate.types import Kind
from sidestep.synopsis.values.summary import ColumnSummary

_BYTES = frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})
_NUMBERS = frozenset({"BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE"})
_VERSION = re.compile(r"(?P<name>[A-Za-z-]+)(?: version)? (?:v|py-)?(?P<major>\d+)\.(?P<minor>\d+)")
_RIGHT_SINCE: dict[str, tuple[tuple[int, int], frozenset[str]]] = {
    # 1.10 orders strings as unsigned bytes and decimals as signed numbers (PARQUET-686, PARQUET-1025).
    "parquet-mr": ((1, 10), _NUMBERS | _BYTES),
    # 3.0 is the first with the right order of fixed-length decimals (PARQUET-1655) in every build.
    "parquet-cpp-arrow": ((3, 0), _NUMBERS | _BYTES),
    # Before 53 an unknown NULL count was written as zero.
    "parquet-rs": ((53, 0), _NUMBERS | _BYTES),
    "delta-rs": ((1, 0), _NUMBERS | _BYTES),
    "DuckDB": ((1, 0), _NUMBERS | {"BYTE_ARRAY"}),
}
DAY = 86_400_000_000
GREGORIAN = -141_427
"""1582-10-15 in days: dates before it may be shifted."""
STANDARD_TIME = -2_208_988_800_000_000
"""1900-01-01 in microseconds: timestamps before it may be shifted (local mean time, and the calendar)."""
_CUTOFF = {
    # Timestamps with two days to spare, as the last switch to standard time is a local matter.
    Kind.DATE: (GREGORIAN, 366),
    Kind.TIMESTAMP: (STANDARD_TIME + 2 * DAY, 366 * DAY),
    Kind.TIMESTAMP_NTZ: (STANDARD_TIME + 2 * DAY, 366 * DAY),
}


@dataclass(frozen=True, slots=True)
class Writer:
    """What a Parquet footer says of the program that wrote the file."""

    created_by: str = ""
    spark_version: str | None = None
    legacy_datetime: bool = False
    legacy_int96: bool = False

    def is_trusted_for(self, physical: str) -> bool:
        """Whether this writer's statistics for a physical type are right.

        >>> old, new = Writer("parquet-mr version 1.8.2 (build x)"), Writer("DuckDB v1.4.0")
        >>> old.is_trusted_for("INT32"), new.is_trusted_for("INT32")
        (False, True)
        """
        match = _VERSION.match(self.created_by)
        if match is None or match["name"] not in _RIGHT_SINCE:
            return False
        since, types = _RIGHT_SINCE[match["name"]]
        return (int(match["major"]), int(match["minor"])) >= since and physical in types

    @property
    def is_parquet_mr(self) -> bool:
        return self.created_by.startswith("parquet-mr")

    def proleptic(self, *, int96: bool) -> bool:
        """Whether every Spark session reads this file's dates and timestamps as they are, whatever its settings.

        Spark compares its version as text, so this does too. Files without a version are read as the session's
        ``rebaseModeInRead`` says, which is not known here.
        """
        if self.spark_version is None:
            return False
        if int96:
            return self.spark_version >= "3.1.0" and not self.legacy_int96
        return self.spark_version >= "3.0.0" and not self.legacy_datetime


def writer_of(created_by: str | None, metadata: Mapping[bytes, bytes] | None) -> Writer:
    """The writer that a footer's ``created_by`` and key-value metadata describe."""
    values = metadata or {}
    version = values.get(b"org.apache.spark.version")
    return Writer(
        created_by or "",
        None if version is None else version.decode(errors="replace"),
        b"org.apache.spark.legacyDateTime" in values,
        b"org.apache.spark.legacyINT96" in values,
    )


def widen_for_calendar(summary: ColumnSummary, kind: Kind, writer: Writer, *, int96: bool = False) -> ColumnSummary:
    """The summary with bounds that hold however the session reads old values.

    >>> widen_for_calendar(ColumnSummary(-200_000, -190_000, 0), Kind.DATE, Writer())
    ColumnSummary(lower=None, upper=-141061, nulls=0, nan=None)
    """
    if kind not in _CUTOFF:
        return summary
    if int96 and not writer.is_parquet_mr:
        # spark.sql.parquet.int96TimestampConversion shifts the INT96 values of other writers by a time zone's offset.
        summary = _shift(summary, 2 * DAY)
    cutoff, reach = _CUTOFF[kind]
    lower, upper = summary.lower, summary.upper
    if writer.proleptic(int96=int96) or (isinstance(lower, int) and lower >= cutoff):
        return summary
    return replace(summary, lower=None, upper=max(upper, cutoff + reach) if isinstance(upper, int) else None)


def _shift(summary: ColumnSummary, by: int) -> ColumnSummary:
    lower, upper = summary.lower, summary.upper
    return replace(
        summary,
        lower=lower - by if isinstance(lower, int) and lower - by >= -(2**63) else None,
        upper=upper + by if isinstance(upper, int) and upper + by < 2**63 else None,
    )
