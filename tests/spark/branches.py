"""Many questions to a table in one query: each a branch of a UNION ALL, pruned as a scan of its own.

A query of its own for each would spend nearly all its time on planning and on starting jobs.
"""

from __future__ import annotations

import re
from collections import Counter

from pyspark.sql import DataFrame

import sidestep


def union(frames: list[tuple[int, DataFrame]], asked: list[str]) -> DataFrame:
    """One query that asks each frame its question, by its number, and labels the answers; rows are known by ``rid``."""
    parts = [frame.where(asked[number]).selectExpr(f"{number} AS branch", "rid") for number, frame in frames]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def answers(df: DataFrame) -> Counter[tuple[int, int]]:
    return Counter((row.branch, row.rid) for row in df.collect())


def paths_by_branch(df: DataFrame) -> dict[int, tuple[str, ...]]:
    """The files that each branch read; branches that Spark folded away are not there."""
    plan = df._jdf.queryExecution().optimizedPlan().toString()
    labels = [int(number) for number in re.findall(r"Project \[(\d+) AS branch#", plan)]
    scans = sidestep.metrics(df).scans
    assert len(scans) == len(labels), plan
    return dict(zip(labels, (scan.paths for scan in scans), strict=True))
