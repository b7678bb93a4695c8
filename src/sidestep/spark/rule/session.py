"""Turning sidestep on and off in a Spark session."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any, Literal

from pyspark.sql import SparkSession

from sidestep.errors import SidestepError
from sidestep.prune.analysis import Settings
from sidestep.prune.dips.model import InducedOptions
from sidestep.spark.jvm.bridge import Bridge, check_session
from sidestep.spark.jvm.versions import is_untested
from sidestep.spark.log.recording import Recorder
from sidestep.spark.rule.catalog import Tables
from sidestep.spark.rule.denormalized import JoinRewriter
from sidestep.spark.rule.indexes import Indexes
from sidestep.spark.rule.planner import Planner
from sidestep.spark.rule.refresh import Refresher
from sidestep.spark.rule.self_check import self_check

Refresh = Literal["auto", "off"]
"""Whether new files of indexed tables are indexed in the background."""

_enabled: dict[str, Enabled] = {}
_lock = threading.RLock()


class Enabled:
    """sidestep at work in one session; as a context manager, until the end of the block."""

    def __init__(
        self,
        spark: SparkSession,
        index_dir: str | os.PathLike[str] | None,
        record: str | None,
        settings: Settings,
        refresh: Refresh,
        everywhere: bool = False,
    ) -> None:
        self.spark = spark
        self.arguments = (index_dir, record, settings, refresh, everywhere)
        self.everywhere = everywhere
        """Whether it is at work in the sessions that are made later in the same application, too."""
        self.bridge = Bridge(spark)
        self.inspector = self.bridge.factory()
        self.planner = Planner(settings=settings)
        self.rule: Any = self.inspector.rule(self.planner)
        self.planner.complete = self.rule.complete
        self.refresher = Refresher(index_dir) if refresh == "auto" else None
        """Indexes new files of tables that queries meet, if that is wished for."""
        self.planner.indexes = Indexes(self.rule, index_dir, self.refresher)
        self.planner.rewriter = JoinRewriter(spark, self.rule, index_dir)
        self.recorder = Recorder(spark, record).start() if record is not None else None
        self.inspector.addTableFunction(spark._jsparkSession, Tables(spark))
        self.inspector.install(spark._jsparkSession, self.rule, True)
        if is_untested(spark.version):
            try:
                self_check(spark, self.bridge, self.inspector)
            except SidestepError:
                self.disable()
                raise
        if everywhere:
            recorder = None if self.recorder is None else self.recorder.java
            self.inspector.bringEverywhere(spark._jsparkSession, self.rule, recorder)

    def disable(self) -> None:
        """Leave all later queries of the session to Spark alone, and of those that sidestep was brought to from it."""
        self.rule.setEnabled(False)
        if self.everywhere:
            self.inspector.takeFromEverywhere(self.rule)
        if self.recorder is not None:
            self.recorder.stop()
        self.inspector.install(self.spark._jsparkSession, self.rule, False)
        self.planner.detach()
        with _lock:
            _enabled.pop(session_key(self.spark), None)

    @property
    def last_problem(self) -> str:
        """What went wrong last in the rule, on either side of the bridge; empty if nothing ever did."""
        return self.planner.last_problem or str(self.rule.lastProblem())

    def __enter__(self) -> Enabled:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disable()

    def __repr__(self) -> str:
        later = " and in those made after it" if self.everywhere else ""
        return f"sidestep is enabled in Spark session {session_key(self.spark)}{later}"


def session_key(spark: SparkSession) -> str:
    return str(spark._jsparkSession.sessionUUID())


def enable(
    spark: SparkSession,
    *,
    index_dir: str | os.PathLike[str] | None = None,
    record: str | None = None,
    induced: bool = True,
    kappa: int = 5,
    max_ranges: int = 4_000,
    induced_seconds: float = 0.05,
    refresh: Refresh = "off",
    everywhere: bool = False,
) -> Enabled:
    """Make the queries of this session skip what their tables' indexes prove irrelevant.

    Queries, SQL or DataFrame, stay as they are; tables without an index too. ``index_dir`` is where indexes are if not
    in the tables' own ``_sidestep`` folders; ``record`` is a file to note the queries in (see ``sidestep.record``).

    Without ``induced``, tables are skipped by the query's own predicates alone, not by those that joins induce. How far
    these go: ``kappa`` is how often they go round a cycle of joins, ``max_ranges`` how many ranges of values one may
    have, and ``induced_seconds`` the computing time after which no further one is derived for a query.

    With ``refresh="auto"``, files that came to an indexed table since are indexed in the background once a query has
    met the table, a limited number at a time; until then they are read by every query, and what the table lets others
    skip is not known. ``explain`` says what was done.

    With ``everywhere``, sessions that are made later in the same application have it as well, by the same arguments:
    those of ``spark.newSession()``, and of the clients of a Thrift server or a Spark Connect server that runs in it.
    The settings below are each session's own, and ``disable`` of such a session is for that one alone. Without it, a
    session made by ``spark.newSession()`` is enabled on its own.

    Calling it again with the same arguments changes nothing, with others these take effect. Use
    ``with sidestep.enable(spark):`` to have it off again afterwards, or ``SET spark.sidestep.enabled=false`` to switch
    it off from SQL. Settings of the session win over arguments, for later queries: ``spark.sidestep.induced=false``
    leaves out induced predicates, ``spark.sidestep.induced.kappa``, ``.maxRanges``, ``.smallRows`` and ``.seconds`` say
    how far these go, ``spark.sidestep.stages.NAME=false`` leaves out one of the stages ``denormalized``, ``static``,
    ``induced``, ``selectors`` and ``reuse``, and ``spark.sidestep.fileKeys=footer`` skips a file only if its footer is
    the one that was indexed, where size and modification time are not enough.
    """
    check_session(spark)
    if refresh not in ("auto", "off"):
        raise SidestepError(f'refresh is "auto" or "off", not {refresh!r}.')
    options = InducedOptions(kappa=kappa, max_ranges=max_ranges, seconds=induced_seconds)
    settings = Settings(off=frozenset() if induced else frozenset({"induced"}), induced=options)
    with _lock:
        current = _enabled.get(session_key(spark))
        if current is not None and current.arguments == (index_dir, record, settings, refresh, everywhere):
            return current
        if current is not None:
            current.disable()
        state = Enabled(spark, index_dir, record, settings, refresh, everywhere)
        _enabled[session_key(spark)] = state
        return state


def disable(spark: SparkSession, *, everywhere: bool = False) -> None:
    """Leave the queries of this session to Spark alone; the indexes stay.

    Where ``enable(…, everywhere=True)`` was called in this session, it is taken from all sessions that it was brought
    to. Where it was called in another, only this session is left out; with ``everywhere`` they all are.
    """
    check_session(spark)
    if state_of(spark) is None:
        return
    context = spark.sparkContext
    if everywhere:
        with _lock:
            others = [each for each in _enabled.values() if each.everywhere and each.spark.sparkContext is context]
        for each in others:
            each.disable()
    own = _own_state(spark)
    if own is not None:
        own.disable()
    if not everywhere:
        Bridge(spark).factory().leaveOut(spark._jsparkSession)


def session_at_hand() -> SparkSession | None:
    """The session that is meant when none is named: the active one, or the only one that sidestep is enabled in.

    Code that works in a session of its own leaves that one active, though no one would think of it.
    """
    active = SparkSession.getActiveSession()
    if active is not None and state_of(active) is not None:
        return active
    with _lock:
        enabled = [state for state in _enabled.values() if state.spark.sparkContext._jsc is not None]
    return enabled[0].spark if len(enabled) == 1 else active


def state_of(spark: SparkSession) -> Enabled | None:
    """What ``enable`` set up for this session, or for all that were made after another one."""
    if not hasattr(spark, "_jsparkSession"):
        return None
    own = _own_state(spark)
    if own is not None:
        return own
    with _lock:
        everywhere = [each for each in _enabled.values() if each.everywhere]
    context = spark.sparkContext
    for state in everywhere:
        if state.spark.sparkContext is context and state.inspector.isBroughtTo(spark._jsparkSession, state.rule):
            return state
    return None


def _own_state(spark: SparkSession) -> Enabled | None:
    with _lock:
        return _enabled.get(session_key(spark))
