"""Whose footers can be believed, and which calendar they were written in.

Parquet's statistics have a history of wrong order (signed bytes for strings and decimals), wrong counts and silent
truncation. A footer is believed only if its writer is one that is known to be right; all other files are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Writer:
    """What a Parquet footer says of the program that wrote the file."""

    created_by: str = ""
    spark_version: str | None = None
    legacy_datetime: bool = False
    legacy_int96: bool = False

    def believed(self, physical: str) -> bool:
        """Whether this writer's statistics for a physical type are right.

        >>> Writer("parquet-mr version 1.8.2 (build x)").believed("INT32"), Writer("DuckDB v1.4.0").believed("INT32")
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
