"""What goes to stderr: progress while something runs, and errors and warnings as sentences."""

from __future__ import annotations

import logging
import re
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import typer
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

import sidestep
from sidestep import SidestepError, SidestepWarning

INTERRUPTED = 130
"""The exit code that shells expect after Ctrl-C."""
# Spark's own loggers print each failed query as one long line of JSON, besides raising the error.
PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def plain_messages(verbose: bool) -> Iterator[None]:
    """Inside, errors end the command with a sentence and exit code 1, and warnings are sentences; no tracebacks.

    With ``verbose`` the traceback comes first, and what pyspark logs is shown.
    """
    handler = _Sentences(verbose)
    loggers = [PySparkLogger.getLogger(name) for name in PYSPARK_LOGGERS]
    before = [logger.disabled for logger in loggers]
    logging.getLogger().addHandler(handler)
    for logger in loggers:
        logger.disabled = not verbose
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
    except typer.Exit:
        raise
    except (Exception, KeyboardInterrupt) as problem:
        if _interrupted(problem):
            say("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        if verbose:
            traceback.print_exc()
        say(f"Error: {sentence(problem)}", "bold red")
        raise typer.Exit(1) from None
    finally:
        logging.getLogger().removeHandler(handler)
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def say(text: str, style: str = "") -> None:
    """A line on stderr, wrapped only for a terminal, and with nothing in it taken for markup."""
    console = Console(stderr=True)
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=not console.is_terminal)


def _interrupted(problem: BaseException | None) -> bool:
    """Whether Ctrl-C was at the root of it: Spark cancels its jobs then, and the error of that covers the interrupt."""
    while problem is not None and not isinstance(problem, KeyboardInterrupt):
        problem = problem.__context__
    return problem is not None


def sentence(problem: BaseException) -> str:
    """What went wrong, without stack traces, plans, and codes that only a program would want.

    >>> sentence(SidestepError("There is no table at /x."))
    'There is no table at /x.'
    """
    if isinstance(problem, SidestepError):
        return str(problem).partition("\n")[0]
    if isinstance(problem, PySparkException):
        return _from_spark(str(problem))
    if isinstance(problem, Py4JJavaError):
        return _from_spark(str(problem.java_exception))
    if isinstance(problem, Py4JError):
        return "The connection to Spark's Java process was lost; --verbose shows what Java says."
    return f"Something unforeseen happened ({type(problem).__name__}: {problem}); --verbose shows where."


def _from_spark(text: str) -> str:
    """
    >>> _from_spark("[SYNTAX] Syntax error at or near 'FORM'. SQLSTATE: 42601 (line 1, pos 9)\\n\\n== SQL ==…")
    "Syntax error at or near 'FORM' (line 1, pos 9)."
    >>> _from_spark("[X.Y] The column `b` is\\nunknown. SQLSTATE: 42703; line 1 pos 7;\\n'Project ['b]")
    'The column `b` is unknown (line 1, pos 7).'
    """
    message = text.strip().partition("\n== SQL")[0]
    if state := re.search(r"\s*SQLSTATE: \w+(?:\s*\(line (\d+), pos (\d+)\)|; line (\d+) pos (\d+))?", message):
        place = [number for number in state.groups() if number]
        message = message[: state.start()].rstrip(".") + (f" (line {place[0]}, pos {place[1]})" if place else "") + "."
    else:
        message = message.partition("\n")[0]
    if not message or message.startswith("Exception thrown in awaitResult"):
        return "Spark gave up on the query; --verbose shows why."
    message = " ".join(re.sub(r"^(?:[\w.$]+(?:Exception|Error): )?\s*(?:\[[A-Z0-9_.]+\] )?", "", message).split())
    missing = re.match(r"The table or view `(.+?)` cannot be found\.", message)
    if missing:
        name = missing[1].replace("`", "")
        return f"There is no table or view {name}. Say where its files are with --table {name}=PATH."
    return message


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, SidestepWarning):
        say(f"Warning: {message}", "yellow")


class _Sentences(logging.Handler):
    """Log records as warnings in one line; the traceback, if there is one, only when asked for."""

    def __init__(self, verbose: bool) -> None:
        super().__init__(logging.WARNING)
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        if self._verbose:
            say(self.format(record))
        elif record.name.partition(".")[0] == "sidestep":
            say(f"Warning: {record.getMessage()}", "yellow")


@contextmanager
def progress(text: str) -> Iterator[sidestep.Progress]:
    """A bar while the block runs, which shows the steps that it is told of; it leaves no trace."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(30), TextColumn("{task.fields[how]}"))
    # Where nobody watches, rich would still print an empty line for each bar.
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as bar:
        task: TaskID = bar.add_task(text, total=None, how="")

        def show(step: sidestep.Step) -> None:
            known = {"completed": step.done, "total": step.total} if step.total else {"completed": 0, "total": None}
            stage = f"{text}: {step.stage}" if step.stage else text
            stage += f" ({step.detail})" if step.detail else ""
            bar.update(task, description=stage, how=step.text, **known)

        yield show


@contextmanager
def query_progress(spark: SparkSession) -> Iterator[None]:
    """A bar of the tasks of the stages that run while the block does."""
    tracker, over, started = spark.sparkContext.statusTracker(), threading.Event(), time.monotonic()

    def watch(show: sidestep.Progress) -> None:
        while not over.wait(0.2):
            stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
            if stages:
                done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
                show(sidestep.Step("", done, total, time.monotonic() - started, "tasks"))

    with progress("Running the query") as show:
        thread = threading.Thread(target=watch, args=(show,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
