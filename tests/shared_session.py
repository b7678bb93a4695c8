"""The Spark session that all tests share: how it starts and ends, and how it is told that it broke.

Calls into the JVM are words and answers on a socket. A test that is interrupted within one leaves an answer behind that
the next call would take for its own, and one that kills or stops Spark leaves nothing to call: every later test would
fail for what an earlier one did. So a session in which a test was interrupted is killed at once, which also ends
whatever threads and fixtures still wait for, and before each test the session is asked for a sign of life.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

ANSWER_SECONDS = 120
"""How long a JVM may take for a sign of life: a healthy one takes less than a millisecond."""

_SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn1g -XX:MetaspaceSize=512m -XX:ReservedCodeCacheSize=256m "
    "-XX:SoftRefLRUPolicyMSPerMB=10"
)
"""A JVM that runs thousands of small queries once each spends two fifths of its time on compiling them to run fast.

With the usual room for new objects, classes and compiled code, 90 full collections and the sweeper of compiled code
took some 100 of 310 processor seconds of half a run: each query has classes of its own. What the JVM keeps only while
it has room would outlive every test that asks whether something was let go of: half a minute is enough for it.
"""
_QUIET_LOG = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


class SharedSession:
    """One session in a JVM of its own, to be asked whether it is well; made anew by whoever learns that it is not."""

    def __init__(self) -> None:
        self.spark: SparkSession | None = None
        self.interrupted = ""
        """The test that was interrupted in the session, or while one started, if one was."""
        self._numbers = itertools.count()
        self._asker: ThreadPoolExecutor | None = None

    def start(self, home: Path, settings: dict[str, str] | None = None) -> SparkSession:
        """A new session, which keeps its files in a folder of the tests; ``settings`` come on top of its usual ones."""
        self.interrupted = ""
        log = home / "log4j2.properties"
        log.write_text(_QUIET_LOG)
        files = f"-Dlog4j2.configurationFile={log.as_uri()} -Dderby.system.home={home}"
        options = {
            "spark.driver.memory": os.environ.get("TEST_MEMORY", "3g"),
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"{_SHORT_LIVED} {files}",
            "spark.local.dir": str(home / "local"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.default.parallelism": "2",
            "spark.sql.shuffle.partitions": "2",
            # Tables of tests are small: what pays only for large ones would never be tried.
            "spark.sidestep.selectors.leastBytes": "0",
            # How long an answer takes says how busy the machine is, and no test is about that unless it says so.
            "spark.sidestep.seconds": "600",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            # Workers must be the interpreter that runs the tests: another Python has neither pyarrow nor sidestep.
            "spark.pyspark.python": sys.executable,
            "spark.pyspark.driver.python": sys.executable,
        }
        builder = SparkSession.builder.master("local[2]").appName("sidestep-tests")
        for key, value in (options | (settings or {})).items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self._asker = ThreadPoolExecutor(1, "asks-for-a-sign-of-life")
        return self.spark

    def is_broken(self) -> bool:
        """Whether there is a session, or was to be one, that tests cannot use any more."""
        return self.interrupted != "" or (self.spark is not None and not self._is_well())

    def _is_well(self) -> bool:
        context: Any = getattr(self.spark, "sparkContext", None)
        gateway: Any = SparkContext._gateway
        if context is None or context._jsc is None or gateway is None or gateway.proc.poll() is not None:
            return False
        try:
            # A JVM that hangs is seen from another thread, which can be left behind; answers out of step from this one.
            assert self._asker is not None
            answers = self._asker.submit(self._echo, gateway).result(ANSWER_SECONDS) and self._echo(gateway)
            return answers and not context._jsc.sc().isStopped()
        except Exception:
            return False

    def _echo(self, gateway: Any) -> bool:
        number = next(self._numbers)
        return bool(gateway.jvm.java.lang.Long.toString(number) == str(number))

    def interrupt(self, test: str) -> None:
        """Kill the JVM, so that all that waits for it fails; called from a signal's handler, it waits for nothing."""
        self.interrupted = test
        gateway: Any = SparkContext._gateway
        if gateway is not None:
            with suppress(ProcessLookupError):
                os.kill(gateway.proc.pid, signal.SIGKILL)

    def end(self) -> None:
        """Stop the session, or bury it, so that another can start."""
        if self._asker is not None:
            self._asker.shutdown(wait=False)
        if self.spark is not None and not self.is_broken():
            self.spark.stop()
        else:
            _forget_jvm()
        self.spark = self._asker = None


def _forget_jvm() -> None:
    """Make pyspark start from nothing: its classes hold on to the gateway, the context and the sessions of the dead."""
    gateway: Any = SparkContext._gateway
    context: Any = SparkContext._active_spark_context
    if context is not None:
        context._jsc = None  # or it would be asked to stop
        context.stop()
    if gateway is not None:
        gateway.proc.kill()
        gateway.proc.wait()
        gateway.proc.stdin.close()
        with suppress(Exception):
            gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
