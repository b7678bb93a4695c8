"""The Spark session that benchmarks run in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_session(memory: str = "6g", options: Mapping[str, str] | None = None) -> SparkSession:
    """The session that is there already (in tests), or a quiet one on all cores, with options of its own."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("sidestep-bench")
        .config("spark.driver.memory", memory)
        .config("spark.driver.host", "localhost")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        # What the first run of a query read is looked up after it, when a long benchmark has run many stages since.
        .config("spark.ui.retainedStages", "100000")
        .config("spark.ui.retainedJobs", "100000")
    )
    for name, value in (options or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
