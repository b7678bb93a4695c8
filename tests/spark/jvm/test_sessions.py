"""The interpreter of Spark's workers while jobs of several threads overlap."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

from sidestep.spark.jvm.sessions import same_interpreter


class Context:
    """What is asked of a SparkContext."""

    master = "local[2]"

    def __init__(self) -> None:
        self.pythonExec = "python3"


def test_the_first_job_to_end_leaves_the_interpreter_to_the_others(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    context: Any = Context()
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(same_interpreter(context))
        second.enter_context(same_interpreter(context))
        first.close()
        assert context.pythonExec == sys.executable, "the second job has still to start its workers"
        second.close()
    assert context.pythonExec == "python3"


def test_the_order_of_ends_does_not_matter_and_a_cluster_is_left_alone(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    context: Any = Context()
    for _ in range(2):
        with same_interpreter(context), same_interpreter(context):
            assert context.pythonExec == sys.executable
        assert context.pythonExec == "python3"
    context.master = "spark://host:7077"
    with same_interpreter(context):
        assert context.pythonExec == "python3"
