"""The Spark session of one command: it starts without a word, and is gone when the command is done."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from sidestep import SidestepError

DEFAULTS = {
    "spark.app.name": "sidestep",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL_DEFAULTS = {
    # A machine whose own name resolves to nothing, or to an address behind a VPN, must not keep Spark from starting.
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
}


@contextmanager
def spark_session(master: str, conf: Mapping[str, str], *, loud: bool = False) -> Iterator[SparkSession]:
    """A session with these settings; within a program that has one already, a new session beside it.

    A new session beside another has its own views and settings, but takes only those that can be set while Spark runs.
    What Java and Spark print goes to a file that is thrown away, unless ``loud``: it is not about the user's command.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        beside = running.newSession()
        for key, value in conf.items():
            if beside.conf.isModifiable(key):
                beside.conf.set(key, value)
        yield beside
        return
    spark = _start(master, conf, loud)
    try:
        yield spark
    finally:
        spark.stop()


def _start(master: str, conf: Mapping[str, str], loud: bool) -> SparkSession:
    local = LOCAL_DEFAULTS if master.startswith("local") else {}
    settings = SparkConf().setMaster(master).setAll([*(DEFAULTS | local | dict(conf)).items()])
    with tempfile.NamedTemporaryFile(prefix="sidestep-spark-", suffix=".log") as log:
        try:
            # Java keeps the file open after it is deleted here, so it can go on writing.
            gateway = launch_gateway(settings, None if loud else {"stderr": log})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as problem:
            raise SidestepError(_why_not_started(Path(log.name).read_text(errors="replace"))) from problem
        SparkContext(conf=settings, gateway=gateway)
    return SparkSession.builder.getOrCreate()


def _why_not_started(log: str) -> str:
    """What the user can do about it, judging by what Java printed.

    >>> _why_not_started('Exception in thread "main" org.apache.spark.SparkException: Master must be local\\n\\tat …')
    'Spark could not start: Master must be local.'
    >>> _why_not_started("spark-class: line 71: /x/bin/java: No such file\\nhead: illegal line count")[:51]
    'Spark could not start (/x/bin/java: No such file). '
    """
    if refusal := re.search(r"SparkException: (.+)", log):
        return f"Spark could not start: {refusal[1].strip().rstrip('.')}."
    about_java = [line.strip() for line in log.splitlines() if "java" in line.lower()]
    said = re.sub(r"^.*: line \d+: ", "", about_java[0]) if about_java else "Java said nothing"
    return f"Spark could not start ({said}). It needs Java 17 or newer: install it, or set JAVA_HOME to its folder."
