"""What all tests share: one Spark session for the whole run, and how hard hypothesis tries."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pyspark
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession
from pytest_timeout import is_debugging

from tests.shared_session import SharedSession

_SHARED_SESSION = SharedSession()
_ASIDE = tuple(Path(__file__).parent / name for name in ("bench", "spark/table"))
"""What runs in the second of the two processes of `make test`: so that both take about as long."""
_RESTARTS = pytest.StashKey[list[str]]()
"""The tests before which the session was made anew."""
_AGAIN = pytest.StashKey[list[str]]()
"""The tests that ran a second time, because the JVM ended under them."""

# The same examples in every run of `ci`: a red build is red again for whoever looks into it. `fuzz` goes looking.
# No deadlines: on a shared machine they fail tests that are right. A property over a function-scoped fixture such as
# tmp_path is fine as long as every example makes its own names in it.
_SHARED = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
settings.register_profile("ci", derandomize=True, max_examples=70, **_SHARED)  # type: ignore[arg-type]
settings.register_profile("fuzz", max_examples=10_000, **_SHARED)  # type: ignore[arg-type]
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what uses Spark, before `-m` chooses: no one can forget the mark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            if any(item.path.is_relative_to(folder) for folder in _ASIDE):
                item.add_marker(pytest.mark.aside)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item) -> Iterator[None]:
    """At the time limit of a test on Spark, kill its JVM before the test is told: nothing is left to wait for."""
    armed = yield
    fail = signal.getsignal(signal.SIGALRM)

    def at_limit(number: int, frame: FrameType | None) -> None:
        if not is_debugging():
            _SHARED_SESSION.interrupt(item.nodeid)
        fail(number, frame)  # type: ignore[operator, misc]

    if callable(fail) and item.get_closest_marker("spark"):
        signal.signal(signal.SIGALRM, at_limit)
    return armed


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before a test on Spark, end a session that an earlier test broke, with all fixtures of whatever scope.

    They are set up again for this test as they were for the first: a module's fixture may have registered views in the
    session that is gone. What they find wrong as they end says nothing about any test.
    """
    if item.get_closest_marker("spark") and _SHARED_SESSION.is_broken():
        with suppress(Exception, BaseExceptionGroup, pytest.fail.Exception):
            item.session._setupstate.teardown_exact(None)
        item.config.stash[_RESTARTS].append(item.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A test on Spark that failed as its JVM ended, for whatever reason, gets a second one; the summary tells of it.

    A machine short of memory ends a JVM in whichever test happens to run. A test that ends it by itself does so again.
    """
    if not item.get_closest_marker("spark"):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports) and not _SHARED_SESSION.interrupted and _SHARED_SESSION.is_broken():
        item.config.stash[_AGAIN].append(item.nodeid)
        item._initrequest()  # type: ignore[attr-defined]
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that was interrupted says so, whatever it made of it that its JVM was gone."""
    try:
        return (yield)
    except Exception as problem:
        if _SHARED_SESSION.interrupted == item.nodeid:
            raise pytest.fail.Exception("It ran past its time limit, and its JVM was killed.") from problem
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """After a test that was interrupted, fixtures that miss the JVM are not errors too."""
    try:
        return (yield)
    except (Exception, BaseExceptionGroup):
        if _SHARED_SESSION.interrupted != item.nodeid:
            raise


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RESTARTS], config.stash[_AGAIN] = [], []
    if pyspark.__version__ < "4.3":  # which leaves sockets open until they are collected
        config.addinivalue_line("filterwarnings", "ignore::ResourceWarning")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what of Spark's own savings tests found to be given up, and for what."""
    lost = [
        value
        for report in terminalreporter.getreports("passed")
        for kind, value in report.user_properties
        if kind == "lost" and report.when == "call"
    ]
    if lost:
        terminalreporter.section("savings of Spark's own that skipping gave up, each for fewer rows read")
        for line in lost:
            terminalreporter.write_line(str(line))
    for key, said in (
        (_RESTARTS, "the shared Spark session was broken, and made anew before"),
        (_AGAIN, "run a second time, because the JVM ended under it"),
    ):
        if names := terminalreporter.config.stash[key]:
            terminalreporter.section(said)
            for name in names:
                terminalreporter.write_line(name)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session of the run; a test that changes its settings puts them back."""
    try:
        yield _SHARED_SESSION.start(tmp_path_factory.mktemp("spark"))
    finally:
        _SHARED_SESSION.end()
