"""A writer killed in the middle: the table is as it was, running again succeeds, and vacuum clears what was left."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from sidestep.spark.table.load import load
from sidestep.spark.table.optimize import optimize
from sidestep.store import read_snapshot
from sidestep.store.upkeep.vacuum import vacuum
from tests.faults.kills import in_long_runs, run_child
from tests.spark.living import FEATURES, MIN_SIZE, arrow, check, made, new_table, paths
from tests.spark.tables import data_files

pytestmark = [pytest.mark.spark, pytest.mark.aside]
ROWS = made(0, 150)

CHILD = """
import os, signal, sys, threading, time
from importlib import import_module
from pathlib import Path
from pyspark.sql import SparkSession
loading, optimizing, state = (import_module(f"sidestep.spark.table.{name}") for name in ("load", "optimize", "state"))
from tests.faults.kills import run_child
from tests.spark.living import FEATURES, MIN_SIZE, OTHERS

job, point, root = sys.argv[1:]


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def die_when_written():
    before = set(Path(root).glob("part-*.parquet"))
    while not set(Path(root).glob("part-*.zstd.parquet")) - before:
        time.sleep(0.001)
    die()


if point == "writing":
    threading.Thread(target=die_when_written, daemon=True).start()
elif point == "index":
    state.append_blocks = die
else:
    commits = iter([True] if point == "commit" else [False, True])
    link = os.link
    # The entry is written beside the log and about to get its name.
    os.link = lambda *paths: die() if "_delta_log" in paths[1] and next(commits) else link(*paths)
    optimizing.BATCH_BYTES = 1
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.memory", "1g")
    .config("spark.driver.host", "localhost")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.pyspark.python", sys.executable)
    .getOrCreate()
)
if job == "load":
    loading.load(spark, root, features=FEATURES, by="month", min_size=MIN_SIZE)
else:
    optimizing.optimize(spark, root, features=OTHERS)
"""


def killed(job: str, point: str, root: Path) -> None:
    """Run a job in a process of its own, which kills itself on the way, and everything that it had started."""
    ended, said = run_child(["-c", CHILD, job, point, str(root)])
    assert ended == -signal.SIGKILL, said[-2000:]


def leftovers(root: Path) -> set[str]:
    """Data files that are not part of the table, and half-written files."""
    partial = {path.name for path in root.rglob("*.partial")}
    return {path.name for path in data_files(root)} - paths(root) | partial


@pytest.mark.parametrize(
    "point", [pytest.param("writing", marks=in_long_runs), pytest.param("index", marks=in_long_runs), "commit"]
)
def test_a_load_that_is_killed(spark, enabled, tmp_path, point):
    for part in range(2):
        write_deltalake(str(tmp_path), arrow(ROWS[part::2]), mode="append")
    before = read_snapshot(tmp_path)
    killed("load", point, tmp_path)
    assert read_snapshot(tmp_path) == before, "the old version is the newest"
    assert leftovers(tmp_path)
    check(spark, tmp_path, ROWS)
    load(spark, str(tmp_path), features=FEATURES, by="month", min_size=MIN_SIZE)
    check(spark, tmp_path, ROWS)
    assert DeltaTable(str(tmp_path)).version() == 2
    vacuum(tmp_path, hours=0, force=True)
    assert leftovers(tmp_path) == set()
    check(spark, tmp_path, ROWS)


def test_an_optimize_that_is_killed_goes_on_where_it_was(spark, enabled, tmp_path):
    root = new_table(spark, tmp_path / "table", ROWS)
    before = paths(root)
    killed("optimize", "second commit", root)
    assert len(before & paths(root)) == 3, "the first batch is done"
    check(spark, root, ROWS)
    done = paths(root) - before
    report = optimize(spark, str(root))
    assert report.units == 3
    assert done <= paths(root), "what the killed run had done is kept"
    vacuum(root, hours=0, force=True)
    assert leftovers(root) == set()
    check(spark, root, ROWS)
