"""The public API, pinned: a name appears or goes only on purpose."""

from __future__ import annotations

import inspect
import re

import sidestep

PUBLIC = [
    "Advice",
    "Explanation",
    "IndexStatus",
    "LoadReport",
    "LogAnalysis",
    "Metrics",
    "OptimizeReport",
    "Recorder",
    "SidestepError",
    "SidestepWarning",
    "Step",
    "VacuumReport",
    "WriteReport",
    "__version__",
    "advise",
    "analyze",
    "append",
    "delete",
    "disable",
    "enable",
    "explain",
    "index",
    "load",
    "metrics",
    "optimize",
    "read",
    "record",
    "stable",
    "status",
    "update",
    "vacuum",
]


def test_the_public_names_are_these():
    assert sorted(sidestep.__all__) == PUBLIC


def test_every_public_name_exists_and_says_what_it_is():
    for name in sidestep.__all__:
        thing = getattr(sidestep, name)
        assert name == "__version__" or inspect.getdoc(thing), f"sidestep.{name} has no docstring"


def test_the_version_has_three_parts():
    assert re.fullmatch(r"\d+\.\d+\.\d+([a-z]+\d+)?", sidestep.__version__)
