"""Spark's Python workers: which interpreter they run, and what it means if they cannot import sidestep."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.errors import PythonException

from sidestep.errors import SidestepError


@contextmanager
def same_interpreter(context: SparkContext) -> Iterator[None]:
    """Run embedded Spark's Python workers on this interpreter: the first ``python3`` in the path may lack sidestep.

    What a worker raised as a SidestepError is raised here as one.
    """
    before = context.pythonExec
    if (context.master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    try:
        yield
    except PythonException as problem:
        raise worker_error(problem) or problem from problem
    finally:
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
