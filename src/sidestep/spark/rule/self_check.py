"""A trial of sidestep on a version of Spark that nobody has tested it on, before queries of users rest on it."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from sidestep.errors import SidestepError, SidestepWarning
from sidestep.predicate import parse_type
from sidestep.spark.jvm.bridge import Bridge, java_sources
from sidestep.spark.jvm.versions import TESTED
from sidestep.store import read_snapshot
from sidestep.store.upkeep.update import update_index


def self_check(spark: SparkSession, bridge: Bridge, inspector: Any) -> None:
    """Warn that this Spark is untested if sidestep seems to work on it, else raise an error that says what does not.

    Every Java source has to compile, and of two files the rule has to leave out the one that a query cannot need. The
    query is planned, and its files are listed, in the driver; it runs where workers see the same folder.
    """
    try:
        try_out(spark, bridge, inspector)
    except Exception as problem:
        raise SidestepError(
            f"sidestep does not work with Spark {spark.version}, which is newer than those that it was tested with "
            f"({TESTED[0]} to {TESTED[-1]}): {problem} Install one of these, for example: "
            f"pip install 'pyspark=={TESTED[-1]}.*'."
        ) from problem
    warnings.warn(
        f"sidestep was tested with Spark {TESTED[0]} to {TESTED[-1]}, and this session runs Spark {spark.version}: "
        "a short trial went well, and no more than that is known.",
        SidestepWarning,
        stacklevel=4,
    )


def try_out(spark: SparkSession, bridge: Bridge, inspector: Any) -> None:
    """Compile every Java source, and have a query skip a file; an error says what does not work."""
    for source in java_sources():
        bridge.load(source.removesuffix(".java"))
    with tempfile.TemporaryDirectory(prefix="sidestep-") as folder:
        _skips_a_file(spark, inspector, folder)


def _skips_a_file(spark: SparkSession, inspector: Any, folder: str) -> None:
    for number in range(2):
        path = Path(folder) / f"part-{number}.parquet"
        pq.write_table(pa.table({"id": pa.array(range(10 * number, 10 * number + 10), pa.int64())}), path)
        os.utime(path, (1_000_000_000.123, 1_000_000_000.123))  # one only just written could still change
    update_index(read_snapshot(folder), {"id": parse_type("bigint")})
    query = spark.read.schema("id bigint").parquet(Path(folder).as_uri()).where("id > 15")
    files = inspector.listAll(query._jdf.queryExecution().executedPlan())
    if files != 1:
        raise SidestepError(f"a query that needs 1 of 2 files would read {files}.")
    if str(spark.sparkContext.master).startswith("local"):
        rows = sorted(row.id for row in query.collect())
        if rows != [16, 17, 18, 19]:
            raise SidestepError(f"a query for 16 to 19 gave {rows}.")
