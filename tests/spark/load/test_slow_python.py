"""Queries whose planning waits for Python, where Python is slow or does not answer at all: they end, with all rows."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import sidestep
from sidestep.spark.rule.indexes import Indexes
from sidestep.spark.rule.planner import Planner
from tests.spark.tables import files_read, rows_of, settings, write_file

FILES = 4
SECONDS = 0.3


@pytest.fixture
def root(spark, tmp_path):
    for number in range(FILES):
        write_file(tmp_path / f"f{number}.parquet", {"k": range(number * 10, number * 10 + 10)})
    sidestep.index(spark, tmp_path)
    return str(tmp_path)


@pytest.fixture
def state(spark):
    with sidestep.enable(spark) as state, settings(spark, spark__sidestep__seconds=str(SECONDS)):
        yield state


@pytest.fixture
def gate():
    """What Python waits for in these tests; open again at the end, so that no call is left waiting."""
    gate = threading.Event()
    yield gate
    gate.set()


def one_file(spark, root):
    return spark.read.parquet(root).where("k < 5")


def wait_until_skipping(spark, root):
    """The calls that were given up end a moment after the gate is open."""
    deadline = time.monotonic() + 60
    while files_read(one_file(spark, root)) != [["f0"]]:
        assert time.monotonic() < deadline, "nothing is skipped any more"


def blocked(monkeypatch, owner, name, gate):
    before = getattr(owner, name)

    def wait(*arguments):
        gate.wait()
        return before(*arguments)

    monkeypatch.setattr(owner, name, wait)


@pytest.mark.parametrize(("owner", "name"), [(Planner, "apply"), (Indexes, "_reopen")], ids=["planner", "index"])
def test_a_query_ends_unpruned_where_python_does_not_answer(spark, root, state, gate, monkeypatch, owner, name):
    with monkeypatch.context() as patch:
        blocked(patch, owner, name, gate)
        began = time.monotonic()
        df = one_file(spark, root)
        assert len(rows_of(df)) == 5
        assert time.monotonic() - began >= SECONDS
        assert files_read(df) == [[f"f{number}" for number in range(FILES)]]
        assert "did not answer within 0.3 seconds" in state.last_problem
        gate.set()
    wait_until_skipping(spark, root)


def test_an_explanation_says_that_python_did_not_answer(spark, root, state, gate, monkeypatch):
    with monkeypatch.context() as patch:
        blocked(patch, Planner, "apply", gate)
        one_file(spark, root).collect()
        assert "did not answer" in str(sidestep.explain(one_file(spark, root)))
        gate.set()
    wait_until_skipping(spark, root)


def test_python_is_not_asked_while_calls_are_overdue(spark, root, state, gate, monkeypatch):
    asked = []
    with monkeypatch.context() as patch:
        blocked(patch, Planner, "apply", gate)
        waiting = Planner.apply

        def count(*arguments):
            asked.append(1)
            return waiting(*arguments)

        patch.setattr(Planner, "apply", count)
        for _ in range(12):
            assert len(rows_of(one_file(spark, root))) == 5
        assert len(asked) == 4
        assert "earlier questions that are overdue" in state.last_problem
        gate.set()
    wait_until_skipping(spark, root)


def test_many_threads_wait_for_a_slow_python_at_once(spark, root, state, monkeypatch):
    """None waits for another: together they take about as long as one."""
    with monkeypatch.context() as patch, settings(spark, spark__sidestep__seconds="60"):
        before = Planner.apply

        def slow(*arguments):
            time.sleep(0.5)
            return before(*arguments)

        patch.setattr(Planner, "apply", slow)
        began = time.monotonic()
        with ThreadPoolExecutor(32) as pool:
            read = list(pool.map(lambda _: files_read(one_file(spark, root)), range(32)))
        assert read == [[["f0"]]] * 32
        assert time.monotonic() - began < 32 * 0.5
    assert state.last_problem == ""


@pytest.mark.parametrize("value", ["soon", "-1", "NaN"])
def test_a_limit_that_makes_no_sense_is_as_none(spark, root, state, value):
    with settings(spark, spark__sidestep__seconds=value):
        assert files_read(one_file(spark, root)) == [["f0"]]
    assert state.last_problem == ""
