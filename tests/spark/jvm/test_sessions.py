from __future__ import annotations

import sys
from typing import Any, cast

import pytest
from pyspark import SparkContext
from pyspark.errors import PythonException

from sidestep.errors import SidestepError
from sidestep.spark.jvm.sessions import same_interpreter


class Context:
    """As much of a SparkContext as is asked for."""

    def __init__(self, master: str = "local[2]") -> None:
        self.master, self.pythonExec = master, "python3"


def borrowed(context: Context) -> Any:
    return same_interpreter(cast("SparkContext", context))


@pytest.fixture(autouse=True)
def no_choice(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


def test_workers_of_a_job_run_this_interpreter_and_later_ones_their_own():
    context = Context()
    with borrowed(context):
        assert context.pythonExec == sys.executable
    assert context.pythonExec == "python3"


def test_a_job_that_ends_first_takes_nothing_from_one_that_began_later():
    context, other = Context(), Context()
    first, second = borrowed(context), borrowed(context)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert context.pythonExec == sys.executable
    with borrowed(other):
        second.__exit__(None, None, None)
        assert (context.pythonExec, other.pythonExec) == ("python3", sys.executable)
    assert other.pythonExec == "python3"


def test_a_cluster_and_a_user_choose_for_themselves(monkeypatch):
    with borrowed(context := Context("spark://there")):
        assert context.pythonExec == "python3"
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.11")
    with borrowed(context := Context()):
        assert context.pythonExec == "python3"


def test_an_error_of_a_worker_is_raised_as_what_it_was_and_the_interpreter_put_back():
    context = Context()
    with pytest.raises(SidestepError, match="cannot import sidestep"), borrowed(context):
        raise PythonException("ModuleNotFoundError: No module named 'sidestep'")
    assert context.pythonExec == "python3"
