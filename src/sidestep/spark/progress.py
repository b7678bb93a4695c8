"""How far a long job is: what Spark's status tracker says of the running stage, as what is done and the time left."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext, SparkStageInfo

POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class SparkStage:
    """A stage of Spark's that runs: its tasks, and what they have read and written so far."""

    id: int
    name: str
    tasks: int
    done: int
    active: int
    rows: int
    """Records read, from files or from a shuffle."""
    bytes: int
    rows_written: int


@dataclass(frozen=True, slots=True)
class Step:
    """A moment of a job: the stage that runs, how much of it is done, and for how long it has run."""

    stage: str
    done: int
    total: int
    """0 where nothing is counted, as in a commit."""
    seconds: float
    unit: str = "rows"
    """What is counted: rows or files."""
    detail: str = ""
    """What the stage is busy with, where there is something to say."""
    spark: tuple[SparkStage, ...] = ()
    """The stages of Spark's that run for it."""

    @property
    def rate(self) -> float:
        """Rows or files per second so far."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """How long the stage will take at this rate; None before anything is done.

        >>> Step("write", 250, 1_000, 5.0).seconds_left
        15.0
        """
        return (self.total - self.done) / self.rate if self.done and self.rate else None


class Progress(Protocol):
    """Whoever wants to know: called several times a second, from another thread, with the latest step."""

    def __call__(self, step: Step, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a job that is over, and how long it took."""

    name: str
    seconds: float


def stage_seconds(stages: Iterable[Stage]) -> dict[str, float]:
    """Stages as plain data."""
    return {stage.name: round(stage.seconds, 3) for stage in stages}


class Watch:
    """Times the stages of a job, and tells a :class:`Progress` how far each is."""

    def __init__(self, context: SparkContext, progress: Progress | None = None) -> None:
        self._context = context
        self._progress = progress
        self._stages: dict[str, float] = {}
        self._detail = ""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that are over, in the order in which they began; one that ran twice has the sum."""
        return tuple(Stage(name, seconds) for name, seconds in self._stages.items())

    def tell(self, detail: str) -> None:
        """Say what the running stage is busy with."""
        self._detail = detail

    @contextmanager
    def stage(self, name: str, total: int = 0, unit: str = "rows") -> Iterator[None]:
        """Time what the block does; the tasks of its Spark jobs tell how much of the total is done."""
        started = time.monotonic()
        over = threading.Event()
        group = f"sidestep-{uuid.uuid4().hex}"
        before = {key: self._context.getLocalProperty(key) for key in ("spark.jobGroup.id", "spark.job.description")}
        self._context.setJobGroup(group, f"sidestep: {name}")
        begun = Step(name, 0, total, 0.0, unit)
        thread = threading.Thread(target=self._report, args=(begun, group, started, over), daemon=True)
        if self._progress is not None:
            thread.start()
        try:
            yield
        finally:
            over.set()
            self._detail = ""
            if self._progress is not None:
                thread.join()
            for key, value in before.items():
                self._context.setLocalProperty(key, value)  # type: ignore[arg-type]
            self._stages[name] = self._stages.get(name, 0.0) + time.monotonic() - started
        if self._progress is not None:
            self._progress(replace(begun, done=total, seconds=time.monotonic() - started))

    def _report(self, begun: Step, group: str, started: float, over: threading.Event) -> None:
        assert self._progress is not None
        done = 0
        while True:
            # More tasks may turn up as Spark goes on to the next stage; what was told does not go back for that.
            share, running = self._share(group)
            done = max(done, int(begun.total * share))
            step = replace(begun, done=done, seconds=time.monotonic() - started, detail=self._detail, spark=running)
            self._progress(step)
            if over.wait(POLL_SECONDS):
                return

    def _share(self, group: str) -> tuple[float, tuple[SparkStage, ...]]:
        """How much of the tasks of the group's jobs is done, and the stages that run."""
        tracker = self._context.statusTracker()
        finished = total = 0
        running = []
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                stage_info = tracker.getStageInfo(stage)
                if stage_info is not None:
                    finished += stage_info.numCompletedTasks
                    total += stage_info.numTasks
                    if stage_info.numActiveTasks:
                        running.append(self._stage(stage_info))
        return (finished / total if total else 0.0), tuple(running)

    def _stage(self, info: SparkStageInfo) -> SparkStage:
        tasks = info.numTasks, info.numCompletedTasks, info.numActiveTasks
        try:
            counts = self._context._jsc.sc().statusStore().lastStageAttempt(info.stageId)
            rows = counts.inputRecords() + counts.shuffleReadRecords()
            size = counts.inputBytes() + counts.shuffleReadBytes()
            return SparkStage(info.stageId, info.name, *tasks, rows, size, counts.outputRecords())
        except Py4JJavaError:  # it is over, and forgotten
            return SparkStage(info.stageId, info.name, *tasks, 0, 0, 0)
