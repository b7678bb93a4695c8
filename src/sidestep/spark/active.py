"""Jobs that work in a session of their own must leave the user's session the active one.

Spark parses, and reads settings, in whichever session is active in a thread, and making a DataFrame from data makes its
session active. A user whose active session is silently another one sets time zones and modes in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from pyspark.sql import SparkSession

P = ParamSpec("P")
R = TypeVar("R")


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
