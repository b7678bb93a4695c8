"""What Spark saves by itself in a plan: exchanges and subqueries that it uses again, and filters known at run time."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import DataFrame

import sidestep

KINDS = ("ReusedExchange", "ReusedSubquery", "dynamicpruning")


def savings(df: DataFrame) -> dict[str, int]:
    """How many there are of each kind in the plan that was run."""
    plan = df._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
    return {kind: len(re.findall(kind, plan)) for kind in KINDS}


def check_savings(name: str, off: DataFrame, on: DataFrame, note: Callable[[str, object], None]) -> None:
    """Skipping loses none of them, or reads less for it: then the loss is noted, and listed after the tests.

    Two copies of a part of the plan may be left with so different files that each on its own reads less.
    """
    before, after = savings(off), savings(on)
    lost = [f"{kind} {before[kind]} -> {after[kind]}" for kind in KINDS if after[kind] < before[kind]]
    if lost:
        rows = sidestep.metrics(off).rows, sidestep.metrics(on).rows
        assert rows[1] < rows[0], (name, before, after, rows)
        note("lost", f"{name}: {', '.join(lost)}; rows read {rows[0]:,} -> {rows[1]:,}")
