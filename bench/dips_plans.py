"""Queries as Spark's optimizer leaves them, in the algebra that they are pruned in; nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from pyspark.sql import SparkSession

from bench.journal import Journal
from sidestep.predicate import Comparison, IsNull, Not, Op, Predicate, conjuncts
from sidestep.predicate.columns import columns_of
from sidestep.prune import Join, Query, scan_filters
from sidestep.prune.plan.algebra import Operator, Scan, walk
from sidestep.spark.jvm.bridge import Bridge
from sidestep.spark.jvm.plan_reader import read_plan


def planned(spark: SparkSession | None, journal: Journal, texts: Mapping[str, str], family: str) -> dict[str, Query]:
    """The plans of queries over views that Spark knows, as it plans them without sidestep."""
    return {
        name: read_plan(journal.once(f"plan {family} {name}", partial(_described, spark, text)))
        for name, text in texts.items()
    }


def _described(spark: SparkSession | None, text: str) -> str:
    assert spark is not None, "only what the journal has needs no Spark"
    spark.conf.set("spark.sidestep.enabled", "false")
    try:
        return str(Bridge(spark).factory().describe(spark.sql(text)._jdf.queryExecution().optimizedPlan()))
    finally:
        spark.conf.unset("spark.sidestep.enabled")


def eligible(query: Query) -> bool:
    """Whether a table is joined by equality with another that the query filters: the least that a diP needs.

    Fixed before anything is measured, from the plan without sidestep. That a join column is not NULL, which Spark adds
    by itself, is no filter of the query's.
    """
    filtered = {place.scan.key for place in scan_filters(query) if any(map(selects, place.conjuncts))}
    scans = [scan for plan in query.plans for scan in walk(plan) if isinstance(scan, Scan)]
    key_of = {number: scan.key for scan in scans for number, _ in scan.columns}
    for plan in query.plans:
        for join in walk(plan):
            for each in _equalities(join):
                sides = {key_of[column.name] for column in columns_of(each) if column.name in key_of}
                if len(sides) > 1 and sides & filtered:
                    return True
    return False


def _equalities(operator: Operator) -> Iterator[Predicate]:
    if isinstance(operator, Join) and operator.condition is not None:
        for each in conjuncts(operator.condition):
            if isinstance(each, Comparison) and each.op in (Op.EQ, Op.NULL_SAFE):
                yield each


def selects(condition: Predicate) -> bool:
    """Whether a condition is more than that a column is not NULL."""
    return not (isinstance(condition, Not) and isinstance(condition.child, IsNull))
