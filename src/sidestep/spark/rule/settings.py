"""The settings of a session that say which stages of pruning run in it, and how far they go.

============================================  ====================================================================
setting                                       meaning
============================================  ====================================================================
``spark.sidestep.enabled``                    whether anything is skipped (read in Java, before a plan is written)
``spark.sidestep.seconds``                    how long a query waits for what is skipped of it, 10 if not set; one that
                                              has waited in vain reads everything (kept in Java)
``spark.sidestep.stages.NAME``                whether the stage of that name runs: static, paths, induced,
                                              selectors, reuse
``spark.sidestep.induced``                    the same as ``spark.sidestep.stages.induced``
``spark.sidestep.induced.kappa``              see :class:`~sidestep.prune.dips.model.InducedOptions`
``spark.sidestep.induced.maxRanges``
``spark.sidestep.induced.seconds``
``spark.sidestep.induced.smallRows``
``spark.sidestep.selectors``                  the same as ``spark.sidestep.stages.selectors``: whether more is chosen
                                              when a query runs
``spark.sidestep.selectors.leastBytes``       see :class:`~sidestep.prune.analysis.SelectorOptions`
``spark.sidestep.selectors.mostTouched``
``spark.sidestep.selectors.leastGain``
``spark.sidestep.rowGroups``                  whether Spark is given pieces of files where row groups are ruled out
                                              that carry no block ids (read in Java)
``spark.sidestep.fileKeys``                   what tells the file that was indexed from another in its place:
                                              ``listing`` (size and modification time), or ``footer`` (a digest of
                                              its footer as well; read in Java, and when a table is indexed)
============================================  ====================================================================

They hold for the next query. A value that makes no sense never fails one: it is warned of once, and what ``enable``
was given stays.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from sidestep.errors import SidestepError
from sidestep.prune.analysis import Settings
from sidestep.prune.decide import STAGES

log = logging.getLogger("sidestep")

PREFIX = "spark.sidestep."
DENORMALIZED_STAGE = "denormalized"
"""The stage that comes before all others: joins are replaced by denormalized tables, which then are pruned."""
STAGE_NAMES = (DENORMALIZED_STAGE, *(stage.name for stage in STAGES))
INDUCED: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "induced.kappa": ("kappa", int),
    "induced.maxRanges": ("max_ranges", int),
    "induced.seconds": ("seconds", float),
    "induced.smallRows": ("small_rows", int),
}
"""Options of induced predicates by the rest of their setting's name: the field, and how its text is read."""
SELECTORS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "selectors.leastBytes": ("least_bytes", int),
    "selectors.mostTouched": ("most_touched", float),
    "selectors.leastGain": ("least_gain", float),
}
"""The same for what is chosen when a query runs."""
REWRITING: Mapping[str, tuple[str, Callable[[str], Any]]] = {"denormalized.leastGain": ("least_gain", float)}
"""The same for tables that are read in place of joins."""
SWITCHES = ("induced", "selectors")
"""Stages that have a setting of their own name."""


FILE_KEYS = ("listing", "footer")


def wants_footer_keys(spark: SparkSession) -> bool:
    """Whether files of this session are told apart by their footers, too."""
    return str(spark.conf.get(f"{PREFIX}fileKeys", "listing")).strip().lower() == "footer"


@lru_cache(maxsize=64)
def session_settings(text: str, base: Settings) -> Settings:
    """What a session's settings make of those that it was enabled with.

    ``text`` has the session's own, without the common prefix, as ``name=value`` separated by tabs. Sessions change
    them rarely, so the outcome is remembered.

    >>> session_settings("induced=False\\tinduced.kappa=7", Settings()).off
    frozenset({'induced'})
    """
    settings = base
    for line in filter(None, text.split("\t")):
        name, _, value = line.partition("=")
        try:
            settings = _with_setting(settings, name, value.strip())
        except (ValueError, SidestepError) as problem:
            _warn_once(f"{PREFIX}{name}={value} is ignored: {problem}")
    return settings


_warned: set[str] = set()
_warning = threading.Lock()


def _warn_once(message: str) -> None:
    """A warning that cannot be made an error: it comes up in the middle of a query."""
    with _warning:
        if message not in _warned:
            _warned.add(message)
            log.warning(message)


def _with_setting(settings: Settings, name: str, value: str) -> Settings:
    if name in INDUCED:
        field, read = INDUCED[name]
        return replace(settings, induced=replace(settings.induced, **{field: read(value)}))
    if name in SELECTORS:
        field, read = SELECTORS[name]
        return replace(settings, selectors=replace(settings.selectors, **{field: read(value)}))
    if name in REWRITING:
        field, read = REWRITING[name]
        return replace(settings, denormalized=replace(settings.denormalized, **{field: read(value)}))
    for options, known in (("induced.", INDUCED), ("selectors.", SELECTORS), ("denormalized.", REWRITING)):
        if name.startswith(options):
            raise SidestepError(f"there is no such setting; there are {', '.join(PREFIX + each for each in known)}.")
    if name == "fileKeys" and value.lower() not in FILE_KEYS:
        raise SidestepError(f"files are told apart by {' or '.join(FILE_KEYS)}.")
    if name == "rowGroups" and value.lower() not in ("true", "false"):
        raise SidestepError("row groups are left out, or not, by true or false.")
    if name == "seconds" and not float(value) > 0:
        raise SidestepError("a query can only wait for more than 0 seconds.")
    if name not in SWITCHES and not name.startswith("stages."):
        return settings
    stage = name.removeprefix("stages.")
    if stage not in STAGE_NAMES:
        raise SidestepError(f"there is no such stage; there are {', '.join(STAGE_NAMES)}.")
    if value.lower() not in ("true", "false"):
        raise SidestepError("a stage is switched by true or false.")
    return replace(settings, off=settings.off - {stage} if value.lower() == "true" else settings.off | {stage})
