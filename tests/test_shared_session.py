"""Whatever a test does to the shared Spark session, or a time limit within one, the next test has a session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.kills import in_long_runs
from tests.shared_session import SharedSession

ROOT = Path(__file__).resolve().parents[1]
BREAKING = '''
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import sidestep


@pytest.fixture(scope="module")
def view(spark):
    """A view in the session, which goes with it."""
    spark.range(100).createOrReplaceTempView("numbers")
    yield "numbers"
    spark.catalog.dropTempView("numbers")


@pytest.fixture
def enabled(spark):
    with sidestep.enable(spark) as state:
        yield state


def works(spark, view):
    assert spark.sql(f"SELECT max(id) FROM {view} WHERE id < 50").collect()[0][0] == 49
    assert spark.sparkContext.parallelize([1, 2]).map(lambda number: number + 1).collect() == [2, 3]


def test_at_first(spark, view, enabled):
    works(spark, view)


@pytest.mark.timeout(5)
def test_hangs(spark, view, enabled):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(spark.sparkContext._jvm.java.lang.Thread.sleep, 100_000_000)
        spark.sparkContext.parallelize([1]).foreach(lambda _: time.sleep(100_000))


def test_after_a_hang(spark, view, enabled):
    works(spark, view)


def test_kills_the_jvm(spark, view):
    os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)


def test_loses_its_jvm(spark, view, tmp_path_factory):
    once = tmp_path_factory.getbasetemp() / "lost"
    if not once.exists():
        once.touch()
        os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
    works(spark, view)


def test_after_the_jvm_was_killed(spark, view, enabled):
    works(spark, view)


def test_without_spark():
    pass
'''


@in_long_runs
@pytest.mark.spark
@pytest.mark.aside
def test_a_broken_session_is_made_anew(tmp_path):
    """A run of its own, of tests that hang in Spark and kill it, each followed by one that must pass."""
    (tmp_path / "test_breaking.py").write_text(BREAKING)
    options = ["-v", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--rootdir={tmp_path}", "test_breaking.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    text = done.stdout + done.stderr
    outcomes = {line.split("::")[1].split()[0]: line.split()[1] for line in text.splitlines() if line.endswith("%]")}
    expected = {
        "test_at_first": "PASSED",
        "test_hangs": "FAILED",
        "test_after_a_hang": "PASSED",
        "test_kills_the_jvm": "PASSED",
        "test_loses_its_jvm": "PASSED",
        "test_after_the_jvm_was_killed": "PASSED",
        "test_without_spark": "PASSED",
    }
    assert outcomes == expected, text[-20_000:]
    assert "1 failed, 6 passed in" in text, text[-20_000:]
    assert "Timeout (>5.0s)" in text or "It ran past its time limit, and its JVM was killed." in text
    assert "the shared Spark session was broken, and made anew before" in text
    told = text.partition("made anew before")[2].partition("short test summary")[0]
    restarts, _, again = told.partition("a second time")
    anew = {"test_after_a_hang", "test_loses_its_jvm"}
    assert {name for name in expected if name in restarts} == anew, restarts
    assert [name for name in expected if name in again] == ["test_loses_its_jvm"]


def test_no_session_is_not_a_broken_one():
    shared = SharedSession()
    assert not shared.is_broken()
    shared.interrupted = "a test"
    assert shared.is_broken()
