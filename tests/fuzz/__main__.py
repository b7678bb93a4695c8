"""``python -m tests.fuzz``: look for queries that sidestep answers otherwise than Spark alone."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

import sidestep
from tests.fuzz.run import CASES, SHRINKING, Case, fuzz, replay
from tests.fuzz.undo import UNDO
from tests.fuzz.world import THEMES


def _session() -> SparkSession:
    """One task at a time: what takes time is planning, not data."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {
        "spark.driver.memory": "2g",
        # Short-lived code: the second compiler costs more than it gains.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",
        "spark.default.parallelism": "1",
        "spark.sql.warehouse.dir": tempfile.gettempdir(),
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[1]").appName("sidestep-fuzz")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__, allow_abbrev=False)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to look (60)")
    parser.add_argument("--worlds", type=int, help="or how many worlds to try at most")
    parser.add_argument("--seed", type=int, default=1, help="where chance begins (1)")
    parser.add_argument("--replay", type=Path, help="run one case again, and do nothing else")
    parser.add_argument("--most", type=int, help="stop after so many differences")
    parser.add_argument("--theme", action="append", choices=sorted(set(THEMES)), help="worlds of this theme alone")
    parser.add_argument("--undo", choices=sorted(UNDO), help="make a mistake again that was mended, and find it")
    parser.add_argument("--keep", type=Path, default=CASES, help="where cases are written (tests/fixtures/fuzz)")
    options = parser.parse_args()
    undone = nullcontext() if options.undo is None else UNDO[options.undo].made()
    for noisy in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)  # many random queries are none, and Spark says so at length
    with undone, tempfile.TemporaryDirectory() as folder, _session() as spark, sidestep.enable(spark):
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
            keep=options.keep if options.undo is None else None,
            most=1 if options.undo is not None else options.most,
            themes=tuple(options.theme or THEMES),
            shrinking=SHRINKING if options.undo is None else 0.0,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    print(json.dumps(tally.to_dict()))
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
