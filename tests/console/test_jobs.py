"""Jobs: one after the other, told of as they go, stopped, and kept for whoever asks later."""

from __future__ import annotations

import threading
import time

import pytest

from sidestep import SidestepError, Step
from sidestep.console.jobs import MOST_WAITING, Jobs


class Context:
    """As much of Spark as a job needs that starts nothing on it."""

    def __init__(self):
        self.cancelled = []

    def addJobTag(self, tag): ...

    def removeJobTag(self, tag): ...

    def cancelJobsWithTag(self, tag):
        self.cancelled.append(tag)


class Session:
    def __init__(self):
        self.sparkContext = Context()


@pytest.fixture
def jobs():
    made = Jobs(Session(), str)  # type: ignore[arg-type]
    yield made
    made.close()


def wait_for(jobs, job):
    for _ in range(2_000):
        if job.over:
            return job
        time.sleep(0.01)
    raise AssertionError(job.state)


def test_a_job_tells_how_far_it_is_and_what_came_of_it(jobs):
    def work(progress):
        progress(Step("read", 5, 10, 1.0))
        progress(Step("write", 10, 10, 2.0))
        return "value", {"rows": 10}

    job = wait_for(jobs, jobs.start("load", "sales", {"table": "sales"}, work))
    assert (job.state, job.value, job.stages) == ("done", "value", {"read": 1.0, "write": 2.0})
    assert job.to_dict(result=True)["result"] == {"rows": 10}
    assert job.to_dict()["result"] is None
    assert jobs.all() == [job]


def test_an_error_is_a_sentence(jobs):
    def work(progress):
        raise SidestepError("There is no table there.")

    job = wait_for(jobs, jobs.start("load", "sales", {}, work))
    assert (job.state, job.error) == ("failed", "There is no table there.")


def test_a_job_stops_at_the_end_of_its_step(jobs):
    begun, go_on = threading.Event(), threading.Event()

    def work(progress):
        begun.set()
        assert go_on.wait(20)
        progress(Step("read", 10, 10, 1.0))
        raise AssertionError("it went on")

    job = jobs.start("load", "sales", {}, work)
    assert begun.wait(20)
    jobs.stop(job)
    assert job.state == "stopping"
    go_on.set()
    assert wait_for(jobs, job).state == "stopped"
    assert jobs._spark.sparkContext.cancelled == [job.tag]


def test_a_job_that_waits_is_stopped_at_once_and_never_runs(jobs):
    go_on, ran = threading.Event(), list[int]()
    first = jobs.start("load", "a", {}, lambda progress: (go_on.wait(20), {}))

    def run(progress):
        ran.append(1)
        return None, {}

    second = jobs.start("load", "b", {}, run)
    jobs.stop(second)
    assert second.state == "stopped"
    go_on.set()
    assert wait_for(jobs, first).state == "done"
    third = jobs.start("load", "c", {}, lambda progress: (None, {}))
    assert wait_for(jobs, third).state == "done"
    assert ran == []


def test_no_more_than_some_wait(jobs):
    go_on = threading.Event()
    for _ in range(MOST_WAITING):
        jobs.start("load", "a", {}, lambda progress: (go_on.wait(20), {}))
    with pytest.raises(SidestepError, match="stop some"):
        jobs.start("load", "a", {}, lambda progress: (None, {}))
    go_on.set()


def test_whoever_listens_hears_of_all_jobs_first_and_then_of_those_that_changed(jobs):
    done = wait_for(jobs, jobs.start("load", "a", {}, lambda progress: (None, {})))
    moment, changed = jobs.changes(0)
    assert changed == [done]
    other = wait_for(jobs, jobs.start("load", "b", {}, lambda progress: (None, {})))
    assert jobs.changes(moment)[1] == [other]
