"""Sessions and workers that jobs run in: the user's session stays active, and workers can import sidestep.

Spark parses, and reads settings, in whichever session is active in a thread, and making a DataFrame from data makes its
session active. A user whose active session is silently another one sets time zones and modes in vain.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from sidestep.errors import SidestepError

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_borrowers: WeakKeyDictionary[SparkContext, tuple[str, int]] = WeakKeyDictionary()
"""Of each context, the interpreter that it had, and how many jobs have it run another one now."""


def leaves_session_active(
    job: Callable[Concatenate[SparkSession, P], R],
) -> Callable[Concatenate[SparkSession, P], R]:
    """The job, after which the session is active that was before, here and in the JVM."""

    @wraps(job)
    def run(spark: SparkSession, /, *args: P.args, **options: P.kwargs) -> R:
        context: Any = spark.sparkContext
        sessions = context._jvm.org.apache.spark.sql.classic.SparkSession
        here, there = SparkSession._activeSession, sessions.getActiveSession()
        try:
            return job(spark, *args, **options)
        finally:
            SparkSession._activeSession = here
            if context._jsc is not None:
                if there.isDefined():
                    sessions.setActiveSession(there.get())
                else:
                    sessions.clearActiveSession()

    return run


@contextmanager
def same_interpreter(context: SparkContext) -> Iterator[None]:
    """Run embedded Spark's Python workers on this interpreter: the first ``python3`` in the path may lack sidestep.

    Jobs may overlap: the first sets the interpreter and the last puts the former one back, or a job that is still to
    start its workers would find that one. What a worker raised as a SidestepError is raised here as one.
    """
    with _lock:
        before, jobs = _borrowers.get(context, (context.pythonExec, 0))
        _borrowers[context] = (before, jobs + 1)
        if (context.master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable
    try:
        yield
    except PythonException as problem:
        raise worker_error(problem) or problem from problem
    finally:
        with _lock:
            before, jobs = _borrowers.pop(context)
            if jobs > 1:
                _borrowers[context] = (before, jobs - 1)
            else:
                context.pythonExec = before


def worker_error(problem: PythonException) -> SidestepError | None:
    """The error of sidestep that a worker's traceback ends with, if it does.

    >>> worker_error(PythonException("…\\nsidestep.errors.SidestepError: Try again.\\n"))
    SidestepError('Try again.')
    """
    text = str(problem)
    if "No module named 'sidestep'" in text:
        return SidestepError(
            "Spark's Python workers cannot import sidestep. Install it where they run (pip install sidestep), or "
            "point PYSPARK_PYTHON at an interpreter that has it before the session starts."
        )
    for line in text.splitlines():
        name, colon, said = line.strip().partition(": ")
        if colon and name.startswith("sidestep.errors."):
            return SidestepError(said)
    return None


def quiet_session(spark: SparkSession) -> SparkSession:
    """A copy of the session, settings and functions and all, in which nothing is skipped.

    A row that a query misses is missed once; one that is missed while its file is written anew is gone.
    """
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    copy.conf.set("spark.sidestep.enabled", "false")
    return copy
