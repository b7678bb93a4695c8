"""Long work in the background: how far it is, what came of it, and how it is stopped.

A job belongs to the server, not to the page: a page that is loaded again finds it where it is. Jobs run one after the
other, as each takes the whole of Spark; queries go on beside them.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from sidestep import Progress, SidestepError, Step

WAITING, RUNNING, STOPPING = "waiting", "running", "stopping"
DONE, FAILED, STOPPED = "done", "failed", "stopped"
MOST_JOBS = 100
"""Jobs that are remembered; of those that are over, the oldest go first."""
MOST_WAITING = 20


class Stopped(Exception):
    """The job was told to stop."""


@dataclass(eq=False)
class Job:
    """One piece of work."""

    id: int
    kind: str
    about: str
    """What it works on, for people."""
    request: dict[str, Any]
    """What was asked for."""
    state: str = WAITING
    created: float = field(default_factory=time.time)
    seconds: float = 0.0
    step: Step | None = None
    stages: dict[str, float] = field(default_factory=dict)
    """The stages so far, and how long each has taken: the breakdown of its cost."""
    error: str = ""
    result: dict[str, Any] | None = None
    value: Any = None
    """The result itself, for further questions; never sent."""
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def over(self) -> bool:
        return self.state in (DONE, FAILED, STOPPED)

    @property
    def tag(self) -> str:
        """What Spark knows its jobs by."""
        return f"sidestep-console-{self.id}"

    def to_dict(self, *, result: bool = False) -> dict[str, Any]:
        """The job as plain data; what came of it only if asked for."""
        step = self.step
        return {
            "id": self.id,
            "kind": self.kind,
            "about": self.about,
            "request": self.request,
            "state": self.state,
            "created": round(self.created, 3),
            "seconds": round(self.seconds, 3),
            "stages": {name: round(seconds, 3) for name, seconds in self.stages.items()},
            "step": None
            if step is None
            else {
                "stage": step.stage,
                "done": step.done,
                "total": step.total,
                "unit": step.unit,
                "detail": step.detail,
                "rate": round(step.rate, 1),
                "seconds": round(step.seconds, 3),
                "seconds_left": None if step.seconds_left is None else round(step.seconds_left, 1),
                "spark": [asdict(stage) for stage in step.spark],
            },
            "error": self.error,
            "result": self.result if result else None,
        }


Work = Callable[[Progress], tuple[Any, dict[str, Any]]]
"""What a job does: given whom to tell of its progress, the result, and the result as plain data."""


class Jobs:
    """The jobs of a server, run one after the other by a thread of its own."""

    def __init__(self, spark: SparkSession, describe: Callable[[BaseException], str]) -> None:
        self._spark = spark
        self._describe = describe
        self._jobs: OrderedDict[int, Job] = OrderedDict()
        self._numbers = itertools.count(1)
        self._waiting: queue.Queue[tuple[Job, Work] | None] = queue.Queue()
        self._lock = threading.Lock()
        self._moment = 0
        self._changes: dict[int, int] = {}
        self.closed = False
        """Whether the server ends: whoever listens has heard all."""
        self._thread = threading.Thread(target=self._run, name="sidestep-console-jobs", daemon=True)
        self._thread.start()

    def start(self, kind: str, about: str, request: dict[str, Any], work: Work) -> Job:
        """Put a job at the end of those that wait."""
        with self._lock:
            if sum(not job.over for job in self._jobs.values()) >= MOST_WAITING:
                raise SidestepError(f"{MOST_WAITING} jobs are waiting already: stop some of them first.")
            job = Job(next(self._numbers), kind, about, request)
            self._jobs[job.id] = job
            for old in [each.id for each in self._jobs.values() if each.over][: max(0, len(self._jobs) - MOST_JOBS)]:
                del self._jobs[old], self._changes[old]
            self._note(job)
        self._waiting.put((job, work))
        return job

    def get(self, id: int) -> Job | None:
        with self._lock:
            return self._jobs.get(id)

    def all(self) -> list[Job]:
        """All jobs that are remembered, the newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def stop(self, job: Job) -> None:
        """Have a job stopped: one that waits at once, one that runs as soon as Spark and the step it is in let go."""
        with self._lock:
            if job.over:
                return
            job._stop.set()
            job.state = STOPPED if job.state == WAITING else STOPPING
            self._note(job)
        self._spark.sparkContext.cancelJobsWithTag(job.tag)

    def changes(self, since: int) -> tuple[int, list[Job]]:
        """The jobs that changed since a moment, all of them since 0; and the moment that it is now."""
        with self._lock:
            changed = [self._jobs[id] for id, moment in self._changes.items() if moment > since and id in self._jobs]
            return self._moment, changed

    def close(self) -> None:
        """Stop everything."""
        self.closed = True
        for job in self.all():
            self.stop(job)
        self._waiting.put(None)

    def _note(self, job: Job) -> None:
        self._moment += 1
        self._changes[job.id] = self._moment

    def _run(self) -> None:
        while (entry := self._waiting.get()) is not None:
            job, work = entry
            if not job._stop.is_set():
                self._run_one(job, work)

    def _run_one(self, job: Job, work: Work) -> None:
        started, mine = time.monotonic(), threading.get_ident()

        def tell(step: Step) -> None:
            # Told from the job's own thread at the end of a stage, and from another one meanwhile.
            if job._stop.is_set() and threading.get_ident() == mine:
                raise Stopped
            with self._lock:
                job.step, job.seconds = step, time.monotonic() - started
                job.stages[step.stage] = step.seconds
                self._note(job)

        with self._lock:
            job.state = RUNNING
            self._note(job)
        context = self._spark.sparkContext
        context.addJobTag(job.tag)
        value, result, error = None, None, ""
        try:
            value, result = work(tell)
        except BaseException as problem:
            error = self._describe(problem)
        finally:
            context.removeJobTag(job.tag)
        with self._lock:
            job.seconds = time.monotonic() - started
            stopped = job._stop.is_set() and result is None
            job.value, job.result = value, result
            job.error = "It was stopped." if stopped else error
            job.state = STOPPED if stopped else FAILED if error else DONE
            job.step = None
            self._note(job)
