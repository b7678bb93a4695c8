"""Sessions and workers that jobs run in: the user's session stays active, and workers can import sidestep.

Spark parses, and reads settings, in whichever session is active in a thread, and making a DataFrame from data makes its
session active. A user whose active session is silently another one sets time zones and modes in vain.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from sidestep.errors import SidestepError
from sidestep.spark.jvm.bridge import check_session

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()
_borrowers: WeakKeyDictionary[SparkContext, tuple[str, int]] = WeakKeyDictionary()
"""Of each context, the interpreter that it had, and how many jobs have it run another one now."""


def leaves_session_active(
    job: Callable[Concatenate[SparkSession, P], R],
) -> Callable[Concatenate[SparkSession, P], R]:
    """The job in a session that is active meanwhile; afterwards the one is that was before, here and in the JVM."""

    @wraps(job)
    def run(spark: SparkSession, /, *args: P.args, **options: P.kwargs) -> R:
        with active_session(spark):
            return job(spark, *args, **options)

    return run


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """Have the session active in this thread of the JVM: plans know settings from the active one alone."""
    check_session(spark)
    context: Any = spark.sparkContext
    sessions = context._jvm.org.apache.spark.sql.classic.SparkSession
    here, there = SparkSession._activeSession, sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        SparkSession._activeSession = here
        if context._jsc is not None:
            if there.isDefined():
                sessions.setActiveSession(there.get())
            else:
                sessions.clearActiveSession()


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


STRICT = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Options of a read that is to give every row or fail."""
_PINNED = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # A footer of an unknown writer may be wrong, and a row group that it hides would be gone for good.
    "spark.sql.parquet.filterPushdown": "false",
    # What a Delta table holds is said by Parquet's own types: the proleptic calendar, and instants as they are.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
_ABOUT_READING = ("spark.sql.parquet.", "spark.sql.legacy.parquet.", "spark.sql.files.")
_TUNING = frozenset(
    f"spark.sql.{name}"
    for name in (
        "files.maxPartitionBytes",
        "files.maxPartitionNum",
        "files.minPartitionNum",
        "files.openCostInBytes",
        "parquet.columnarReaderBatchSize",
        "parquet.enableVectorizedReader",
        "parquet.enableNestedColumnVectorizedReader",
    )
)
"""Settings about reading that change how fast files are read, not what."""


def pinned_session(spark: SparkSession, names: Sequence[str]) -> SparkSession:
    """A copy of the session in which the files of a Delta table with these columns read the same as in every other.

    Settings that are about reading files are as Spark has them by default, those of the cluster's too, but for the few
    that change only the speed; what expressions mean is the session's affair, and stays.
    """
    copy = quiet_session(spark)
    for name in copy.conf.getAll:
        if name.startswith(_ABOUT_READING) and name not in _TUNING and copy.conf.isModifiable(name):
            copy.conf.unset(name)
    for name, value in _PINNED.items():
        copy.conf.set(name, value)
    # A column of a file is found whatever its case, as Delta has it; else it would read as NULL.
    alike = len({name.lower() for name in names}) < len(names)
    copy.conf.set("spark.sql.caseSensitive", str(alike).lower())
    return copy


def quiet_session(spark: SparkSession) -> SparkSession:
    """A copy of the session, settings and functions and all, in which nothing is skipped.

    A row that a query misses is missed once; one that is missed while its file is written anew is gone.
    """
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    copy.conf.set("spark.sidestep.enabled", "false")
    return copy
