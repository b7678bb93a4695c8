"""What is let go of when it is no longer needed, in Python and in the JVM."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import sidestep
from sidestep.predicate import INTEGER, column, compare, normalize, one_of
from sidestep.spark.jvm.wire import MOST_UNFINISHED, Requests
from sidestep.spark.rule import indexes
from sidestep.spark.rule.indexes import Indexes
from sidestep.synopsis.features.feature_index import Subsumption
from tests.spark.tables import write_file


@pytest.fixture
def root(spark, tmp_path):
    for number in range(2):
        write_file(tmp_path / f"f{number}.parquet", {"k": range(number * 10, number * 10 + 10)})
    sidestep.index(spark, tmp_path)
    return str(tmp_path)


def wait_for(spark, done, seconds=240):
    """Idle threads of Spark's pools live for 60 s, and hold on to the session that was active when they were made."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        gc.collect()
        spark.sparkContext._jvm.java.lang.System.gc()
        time.sleep(0.5)


def test_nothing_is_left_of_a_planner_whose_session_was_disabled(spark, root):
    planners = []

    def use():
        other = spark.newSession()
        with sidestep.enable(other) as state:
            assert other.read.parquet(root).where("k < 5").count() == 5
            planners.append(weakref.ref(state.planner))

    for _ in range(3):
        use()
    wait_for(spark, lambda: not any(planner() for planner in planners))


def test_threads_that_have_planned_leave_none_behind(spark, root):
    with sidestep.enable(spark):
        before = threading.active_count()
        for _ in range(3):
            running = [threading.Thread(target=spark.read.parquet(root).where("k < 5").count) for _ in range(16)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
        # One for each that planned at once, at the most; none for each that ever planned.
        assert threading.active_count() <= before + 16 + 2


class Rule:
    """What indexes are made known to, and taken back from."""

    def __init__(self):
        self.known = set()

    def putKeys(self, id, root, paths, numbers, footers):
        self.known.add(id)

    def dropKeys(self, id):
        self.known.discard(id)


def test_indexes_that_were_not_used_lately_are_closed(spark, root, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(indexes, "MOST_FOLDERS", 2)
    roots = [root]
    for _ in range(3):
        folder = tmp_path_factory.mktemp("more")
        write_file(folder / "f.parquet", {"k": [1]})
        sidestep.index(spark, folder)
        roots.append(str(folder))
    rule = Rule()
    held = Indexes(rule)
    for each in (*roots, *roots):
        (opened,) = held.find([each])
        assert opened.id in rule.known
        assert len(rule.known) <= 2
    held.close()
    assert not rule.known


def test_a_folder_whose_index_hangs_delays_no_other(spark, root, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("hangs")
    write_file(folder / "f.parquet", {"k": [1]})
    sidestep.index(spark, folder)
    gate = threading.Event()
    before = Indexes._reopen

    def reopen(self, of, *arguments):
        if of == str(folder):
            gate.wait()
        return before(self, of, *arguments)

    monkeypatch.setattr(Indexes, "_reopen", reopen)
    monkeypatch.setattr(indexes, "PATIENCE", 0.2)
    held = Indexes(Rule())
    first = threading.Thread(target=held.find, args=([str(folder)],))
    first.start()
    try:
        assert len(held.find([root])) == 1
        assert held.find([str(folder)]) == []
        began = time.monotonic()
        for _ in range(20):
            assert held.find([str(folder)]) == []
        assert time.monotonic() - began < 20 * 0.2, "once it is known to hang, no one waits for it"
    finally:
        gate.set()
        first.join()
    assert len(held.find([str(folder)])) == 1


def test_plans_of_which_the_end_never_comes_are_dropped():
    requests = Requests()
    for _ in range(3 * MOST_UNFINISHED):
        requests.receive("more\n\nthe beginning")
    assert len(requests._pieces) == MOST_UNFINISHED


def test_long_lists_are_not_remembered():
    a = column("a", INTEGER)
    features = Subsumption({1: normalize(compare(a, ">", 0))})
    assert features.subsuming(normalize(one_of(a, np.arange(1, 40_000, 2).tolist()))) == (1,)
    assert not features._remembered
    assert features.subsuming(normalize(one_of(a, [1, 5]))) == (1,)
    assert len(features._remembered) == 1
