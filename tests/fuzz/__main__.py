"""``python -m tests.fuzz``: look for queries that sidestep answers otherwise than Spark alone."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import sidestep
from tests.fuzz.run import CASES, Case, fuzz, replay


def _session() -> SparkSession:
    """Two cores, two partitions: what takes time is planning, not data."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {
        "spark.driver.memory": "3g",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]").appName("sidestep-fuzz")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to look (60)")
    parser.add_argument("--worlds", type=int, help="or how many worlds to try at most")
    parser.add_argument("--seed", type=int, default=1, help="where chance begins (1)")
    parser.add_argument("--replay", type=Path, help="run one case again, and do nothing else")
    parser.add_argument("--keep", type=Path, default=CASES, help="where cases are written (tests/fixtures/fuzz)")
    options = parser.parse_args()
    for noisy in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)  # many random queries are none, and Spark says so at length
    with tempfile.TemporaryDirectory() as folder, _session() as spark, sidestep.enable(spark):
        if options.replay is not None:
            outcome = replay(spark, Case.load(options.replay), Path(folder))
            print(outcome.difference or "no difference")
            return 1 if outcome.difference else 0
        tally = fuzz(
            spark,
            Path(folder),
            seed=options.seed,
            seconds=options.seconds,
            worlds=options.worlds,
            keep=options.keep,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    print(json.dumps(tally.to_dict()))
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
