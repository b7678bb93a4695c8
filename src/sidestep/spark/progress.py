"""How far a long job is: what Spark's status tracker says of the running stage, as what is done and the time left."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext, SparkStageInfo

from sidestep.render.document import Cell, Grid, numbers
from sidestep.render.html import fragment
from sidestep.spark.threads import one_blas_thread

POLL_SECONDS = 0.2
WAIT_SECONDS = 0.5
"""What is over sooner shows no bar in a notebook."""


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

    @property
    def text(self) -> str:
        """How far the stage is, in words.

        >>> Step("write", 250_000, 1_000_000, 5.0).text
        '250,000 of 1,000,000 rows, 50,000 a second, 15 s left'
        >>> Step("commit", 0, 0, 1.2).text, Step("collect", 0, 16, 1.2, "files").text
        ('1 s', '0 of 16 files')
        """
        if not self.total:
            return f"{self.seconds:.0f} s"
        left = "" if self.seconds_left is None else f", {self.rate:,.0f} a second, {self.seconds_left:.0f} s left"
        return f"{self.done:,} of {self.total:,} {self.unit}{left}"


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


def stages_table(stages: Sequence[Stage]) -> Grid:
    """How long each stage took, and its share of all."""
    total = sum(stage.seconds for stage in stages)
    rows: list[list[Cell | str]] = [
        [stage.name, Cell(f"{stage.seconds:.1f} s", share=stage.seconds / total if total else 0.0)] for stage in stages
    ]
    return Grid(("stage", *numbers("seconds")), [*rows, ["in all", f"{total:.1f} s"]], rules=frozenset({len(rows) - 1}))


class NotebookBar:
    """A bar below the cell of a notebook that runs, drawn anew in its place as the job goes on.

    What takes less than ``WAIT_SECONDS`` shows none. A bar that cannot be shown is no reason for a job to fail.
    """

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._steps: dict[str, Step] = {}
        self._handle: Any = None
        self._began = time.monotonic()

    def __call__(self, step: Step, /) -> None:
        self._steps[step.stage] = step
        if self._handle is None and time.monotonic() - self._began < WAIT_SECONDS:
            return
        data = {"text/html": self.html(), "text/plain": self.text()}
        with suppress(Exception):
            if self._handle is None:
                self._handle = self._display(data, raw=True, display_id=True)
            else:
                self._handle.update(data, raw=True)

    def html(self) -> str:
        """The stages so far with their seconds, and how far the last one is."""
        *over, now = self._steps.values()
        cells: list[list[Cell | str]] = [[step.stage, f"{step.seconds:.1f} s"] for step in over]
        said = now.text + (f" ({now.detail})" if now.detail else "")
        cells.append([now.stage, Cell(said, share=now.done / now.total if now.total else None)])
        return fragment([Grid(("stage", "how far"), cells)])

    def text(self) -> str:
        return ", ".join(f"{step.stage}: {step.text}" for step in self._steps.values())


def notebook_bar() -> NotebookBar | None:
    """A bar, where this runs in a notebook; IPython need not be installed."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return NotebookBar(import_module("IPython.display").display)


class Watch:
    """Times the stages of a job, and tells a :class:`Progress` how far each is."""

    def __init__(self, context: SparkContext, progress: Progress | None = None) -> None:
        self._context = context
        self._progress = progress if progress is not None else notebook_bar()
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
            with one_blas_thread():
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
