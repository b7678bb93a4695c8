"""From a log of TPC-H queries to features: what is found, what of later queries it covers, and how long it takes.

Eight templates (q3, q5, q6, q8, q10, q12, q14, q19) over the denormalized table, of which the schema suffices: 800
queries to learn from and 80 that follow, with parameters drawn uniformly from the ranges of the specification, and
skewed (Zipf 3 on all but the dates). And 10,000 queries, cold: from text to features, in one go.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table

import sidestep
from bench.denorm import SCHEMA, TEMPLATES, random_queries
from bench.session import spark_session
from sidestep.predicate import sql
from sidestep.spark.log.statements import analyze_statements
from sidestep.workload import FeatureSet, Statement, coverage, table_workload

FIXED = (
    "l_returnflag = 'R'",
    "l_shipinstruct = 'DELIVER IN PERSON'",
    "l_commitdate < l_receiptdate",
    "l_shipdate < l_commitdate",
    "c_nationkey = s_nationkey",
)
"""Filters that a template has whatever its parameters."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--train", type=int, default=800)
    parser.add_argument("--test", type=int, default=80)
    parser.add_argument("--rows", type=int, default=10_000, help="of the timed log, a query each")
    parser.add_argument("--features", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> dict[str, Any]:
    spark = spark_session()
    console = Console()
    schema = cast("StructType", StructType.fromDDL(SCHEMA))
    many = random_queries(args.rows, seed=args.seed + 1_000_003)
    start = time.perf_counter()
    analysis = sidestep.analyze(spark, many, tables={"denorm": schema}, num_features=args.features)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures: dict[str, Any] = {"test_coverage": {}, "features": {}, "fixed_filters": {}, "seconds": {}}
    for name, skew in (("uniform", None), ("skewed", 3.0)):
        queries = random_queries(args.train + args.test, seed=args.seed, zipf=skew)
        began = time.perf_counter()
        learned = sidestep.analyze(spark, queries[: args.train], tables={"denorm": schema}, num_features=args.features)
        figures["seconds"][name] = round(time.perf_counter() - began, 2)
        found = learned.features()
        figures["test_coverage"][name] = round(covered(spark, schema, queries[args.train :], found), 4)
        figures["features"][name] = [[str(feature), feature.weight] for feature in found.features]
        figures["fixed_filters"][name] = {text: has_filter(found, text) for text in FIXED}
        console.print(_table(name, found, figures["test_coverage"][name]))
    assert analysis.analysis.failures == 0, analysis.analysis.reasons
    console.print(f"{args.rows:,} queries of {len(TEMPLATES)} templates: {seconds:.1f} s, {peak:,.0f} MB in Python")
    return {**figures, "seconds_10k": round(seconds, 2), "queries_10k": args.rows, "peak_mb": round(peak, 1)}


def covered(spark: SparkSession, schema: StructType, queries: list[str], features: FeatureSet) -> float:
    """The share of queries that some feature subsumes."""
    later = analyze_statements(spark, [Statement(text) for text in queries], {"denorm": schema})
    return coverage(table_workload(later, "denorm"), features.features).points[-1][1]


def has_filter(features: FeatureSet, text: str) -> bool:
    """Whether a predicate is a feature, or part of one."""
    return any(text in (sql(part) for part in feature.predicates) for feature in features.features)


def _table(name: str, features: FeatureSet, share: float) -> Table:
    table = Table(title=f"{name}: {len(features)} features cover {share:.0%} of the queries that follow")
    table.add_column("feature", overflow="fold")
    table.add_column("queries", justify="right")
    for feature in features.features:
        table.add_row(str(feature), f"{feature.weight:,}")
    return table
