"""Spark's jobs that fail under a write: a task that throws, a worker that dies, an executor that is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

import sidestep
from sidestep.spark.jvm.sessions import same_interpreter
from sidestep.store.upkeep.vacuum import vacuum
from tests.faults.kills import in_long_runs, run_child
from tests.faults.spark_writes import frame
from tests.faults.sweep import check_index, leftovers
from tests.faults.writes import SCHEMA, contents, create, rows_from

pytestmark = pytest.mark.spark


def failing(how: str):
    """A function of rows that fails after the first of them; it goes to the worker whole, not by its module's name."""

    def work(batches):
        for batch in batches:
            yield batch
            if how == "throws":
                raise ValueError("this task was meant to fail")
            os.kill(os.getpid(), signal.SIGKILL)

    return work


@pytest.mark.parametrize(("how", "said"), [("throws", "meant to fail"), ("dies", "crashed")])
def test_a_task_that_fails(spark, tmp_path, how, said):
    root = tmp_path / "table"
    create(root, rows_from(0, 10), rows_from(10, 10))
    before = contents(root)
    rows = frame(spark, 100, 50).union(frame(spark, 200, 50)).coalesce(1)
    with same_interpreter(spark.sparkContext), pytest.raises(Exception, match=said):
        sidestep.append(spark, str(root), rows.mapInArrow(failing(how), SCHEMA))
    assert contents(root) == before
    check_index(root)
    sidestep.append(spark, str(root), rows)
    assert len(contents(root) or ()) == 120
    vacuum(root, hours=0, force=True)
    assert list(leftovers(root)) == []


def test_a_value_that_cannot_be_computed(spark, tmp_path):
    root = tmp_path / "table"
    create(root, rows_from(0, 10), rows_from(10, 10))
    before = contents(root)
    with pytest.raises(PySparkException):
        sidestep.update(spark, str(root), {"v": "v / (x - 15)"}, "true")
    with pytest.raises(PySparkException):
        sidestep.append(spark, str(root), frame(spark, 30, 5).withColumn("v", f.raise_error(f.lit("no")).cast("long")))
    assert contents(root) == before
    vacuum(root, hours=0, force=True)
    assert list(leftovers(root)) == []


@in_long_runs
@pytest.mark.aside
def test_an_executor_that_is_lost(tmp_path):
    # Executors keep their logs where Spark is: a folder that looks like it keeps the real one clean.
    home = tmp_path / "home"
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    ended, said = run_child(["-m", "tests.faults.lost_executor", str(tmp_path)], SPARK_HOME=str(home))
    assert ended == 0, said[-3000:]
    assert "survived" in said
