"""The public API, pinned: a name appears or goes only on purpose."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections import defaultdict

import sidestep

PUBLIC = [
    "Advice",
    "Amounts",
    "Conflict",
    "Curve",
    "DamagedFile",
    "DenormalizeReport",
    "Diagnosis",
    "Drift",
    "Enabled",
    "Estimate",
    "Explanation",
    "Failure",
    "Feature",
    "FeatureSet",
    "Finding",
    "GroupReport",
    "IndexStatus",
    "LayoutChoice",
    "LoadReport",
    "LogAnalysis",
    "Merge",
    "MergeReport",
    "Metrics",
    "OptimizeReport",
    "Progress",
    "Reason",
    "Recorder",
    "ScanBlocks",
    "ScanMetrics",
    "ScanReport",
    "SidestepError",
    "SidestepWarning",
    "SkipReason",
    "SparkStage",
    "Stage",
    "Step",
    "SynopsesStatus",
    "TableAnalysis",
    "TableNotFound",
    "UnsupportedTable",
    "VacuumReport",
    "WhatIf",
    "WhatIfPoint",
    "WhatIfReplica",
    "WriteReport",
    "__version__",
    "advise",
    "analyze",
    "append",
    "blocks",
    "delete",
    "denormalize",
    "disable",
    "doctor",
    "enable",
    "explain",
    "index",
    "load",
    "merge",
    "metrics",
    "optimize",
    "query",
    "read",
    "record",
    "register",
    "sql",
    "stable",
    "status",
    "update",
    "vacuum",
    "what_if",
]
WRITE = ["index_dir", "progress"]
PARAMETERS = {
    "advise": [
        "spark", "log", "table", "name", "tables", "dialect", "by", "num_features", "min_size", "family",
        "sample_rows", "storage", "test_log", *WRITE,
    ],
    "analyze": [
        "spark", "log", "tables", "num_features", "threshold", "dates", "negations", "dialect", "miner", "progress",
    ],
    "append": ["spark", "table", "rows", "synopses", *WRITE],
    "blocks": ["spark", "table", "columns", "index_dir"],
    "delete": ["spark", "table", "where", "source", *WRITE],
    "denormalize": [
        "spark", "log", "tables", "target", "fact", "keys", "layout", "dialect", "min_size", "dry_run", *WRITE,
    ],
    "disable": ["spark", "everywhere"],
    "doctor": ["spark", "paths", "index_dir"],
    "enable": [
        "spark", "index_dir", "record", "induced", "kappa", "max_ranges", "induced_seconds", "refresh", "everywhere",
    ],
    "explain": ["query", "spark"],
    "index": [
        "spark", "table", "columns", "footers", "synopses", "budget", "limit", "log", "name", "tables", "dialect",
        "rebuild", *WRITE,
    ],
    "load": [
        "spark", "source", "target", "name", "features", "log", "tables", "dialect", "by", "num_features", "min_size",
        "order", "unit_rows", "file_bytes", "family", "layout", "groups", "storage", "synopses", "budget",
        "limit", *WRITE,
    ],
    "merge": ["spark", "table", "source", "on", "target_alias", "source_alias", "index_dir"],
    "metrics": ["df"],
    "optimize": [
        "spark", "table", "features", "log", "name", "tables", "dialect", "by", "where", "all", "enough", "synopses",
        *WRITE,
    ],
    "query": ["spark", "statement", "tables"],
    "read": ["spark", "table", "version"],
    "record": ["spark", "path", "tables"],
    "register": ["spark", "name", "table"],
    "sql": ["spark", "statement", "tables", *WRITE],
    "stable": ["function", "version"],
    "status": ["spark", "table", "log", "name", "tables", "dialect", "index_dir"],
    "update": ["spark", "table", "set", "where", "source", *WRITE],
    "vacuum": ["table", "hours", "dry_run", "force", "index_dir"],
    "what_if": ["spark", "log", "table", "name", "tables", "dialect", "min_sizes", "storage", "progress"],
}  # fmt: skip


def test_the_public_names_are_these():
    assert sorted(sidestep.__all__) == PUBLIC


def test_every_public_name_exists_and_says_what_it_is():
    for name in sidestep.__all__:
        thing = getattr(sidestep, name)
        assert name == "__version__" or inspect.getdoc(thing), f"sidestep.{name} has no docstring"


def test_the_version_has_three_parts():
    assert re.fullmatch(r"\d+\.\d+\.\d+([a-z]+\d+)?", sidestep.__version__)


def functions():
    return {name: getattr(sidestep, name) for name in sidestep.__all__ if inspect.isfunction(getattr(sidestep, name))}


def test_parameters_are_these():
    assert {name: list(inspect.signature(made).parameters) for name, made in functions().items()} == PARAMETERS


def test_parameters_of_one_name_have_one_type():
    """Whether a parameter may be left out is the function's own business: None is left out of the comparison."""
    kinds: dict[str, dict[object, list[str]]] = defaultdict(dict)
    for name, made in functions().items():
        hints = typing.get_type_hints(made)
        for parameter in PARAMETERS[name]:
            kinds[parameter].setdefault(_without_none(hints[parameter]), []).append(name)
    differ = {parameter: found for parameter, found in kinds.items() if len(found) > 1}
    # A table has a version, and a function another; a table that is laid out has files, and a merge takes any rows.
    assert differ.keys() <= {"version", "source"}, differ


def _without_none(kind):
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return frozenset(typing.get_args(kind)) - {type(None)}
    return frozenset({kind})
