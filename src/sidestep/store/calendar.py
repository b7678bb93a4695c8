"""Widening the bounds of old dates and timestamps, which Spark may shift when it reads them.

Before Spark 3 the calendar was hybrid: Julian before 1582-10-15. Spark shifts ("rebases") old values of such files on
read, by days for dates and by odd minutes too for timestamps before 1900, and for files of other writers it does what
the session's settings say. A bound taken from the file could then exclude the shifted value.
"""

from __future__ import annotations

from dataclasses import replace

from sidestep.predicate.types import Kind
from sidestep.store.writers import Writer
from sidestep.synopsis.values.summary import ColumnSummary

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


def widen_for_calendar(summary: ColumnSummary, kind: Kind, writer: Writer, *, int96: bool = False) -> ColumnSummary:
    """The summary with bounds that hold however the session reads old values.

    >>> widen_for_calendar(ColumnSummary(-200_000, -190_000, 0), Kind.DATE, Writer())
    ColumnSummary(lower=None, upper=-141061, nulls=0, nan=None)
    """
    if kind not in _CUTOFF:
        return summary
    if int96 and not writer.is_parquet_mr:
        # spark.sql.parquet.int96TimestampConversion shifts the INT96 values of other writers by a time zone's offset.
        summary = _shifted(summary, 2 * DAY)
    cutoff, reach = _CUTOFF[kind]
    lower, upper = summary.lower, summary.upper
    if writer.proleptic(int96=int96) or (isinstance(lower, int) and lower >= cutoff):
        return summary
    return replace(summary, lower=None, upper=max(upper, cutoff + reach) if isinstance(upper, int) else None)


def _shifted(summary: ColumnSummary, by: int) -> ColumnSummary:
    lower, upper = summary.lower, summary.upper
    return replace(
        summary,
        lower=lower - by if isinstance(lower, int) and lower - by >= -(2**63) else None,
        upper=upper + by if isinstance(upper, int) and upper + by < 2**63 else None,
    )
