"""Points in time as logs write them: counts since 1970 in any usual unit, or ISO dates."""

from __future__ import annotations

import datetime
import math

_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""From which size on a count is taken as nano-, micro- or milliseconds: 1e11 seconds are the year 5138."""


def seconds_since_1970(written: object) -> float | None:
    """The moment in seconds; None where there is none; a ValueError where it cannot be read.

    A date without a time zone is taken as UTC: what matters here is the order of queries, not the hour on a wall.

    >>> seconds_since_1970(1_700_000_000_123), seconds_since_1970("2023-11-14T22:13:20Z"), seconds_since_1970("")
    (1700000000.123, 1700000000.0, None)
    """
    if written is None or written == "":
        return None
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        raise ValueError(f"{written!r} is neither a count since 1970 nor an ISO date")
    try:
        number = float(written)
    except (ValueError, OverflowError):
        return _of_iso(str(written))
    if not math.isfinite(number):
        raise ValueError(f"{written!r} is no moment")
    return next((number / unit for least, unit in _UNITS if abs(number) >= least), number)


def _of_iso(text: str) -> float:
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text[:80]!r} is neither a count since 1970 nor an ISO date") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
