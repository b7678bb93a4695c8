"""What all tests share: one Spark session for the whole run, and how hard hypothesis tries."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same examples in every run of `ci`: a red build is red again for whoever looks into it. `fuzz` goes looking.
# No deadlines: on a shared machine they fail tests that are right. A property over a function-scoped fixture such as
# tmp_path is fine as long as every example makes its own names in it.
_SHARED = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
settings.register_profile("ci", derandomize=True, max_examples=100, **_SHARED)  # type: ignore[arg-type]
settings.register_profile("fuzz", max_examples=10_000, **_SHARED)  # type: ignore[arg-type]
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

_QUIET_LOG = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses Spark, before `-m` chooses: no one can forget the mark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what of Spark's own savings tests found to be given up, and for what."""
    found = [
        value
        for report in terminalreporter.getreports("passed")
        for kind, value in report.user_properties
        if kind == "lost" and report.when == "call"
    ]
    if found:
        terminalreporter.section("savings of Spark's own that skipping gave up, each for fewer rows read")
        for line in found:
            terminalreporter.write_line(str(line))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the run; a test that changes its settings puts them back."""
    from pyspark.sql import SparkSession

    home = tmp_path_factory.mktemp("spark")
    log = home / "log4j2.properties"
    log.write_text(_QUIET_LOG)
    java_options = f"-Dlog4j2.configurationFile={log.as_uri()} -Dderby.system.home={home}"
    options = {
        "spark.driver.memory": os.environ.get("TEST_MEMORY", "2g"),
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options,
        "spark.local.dir": str(home / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        # Workers must be the interpreter that runs the tests: another Python has neither pyarrow nor sidestep.
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
    }
    builder = SparkSession.builder.master("local[2]").appName("sidestep-tests")
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
