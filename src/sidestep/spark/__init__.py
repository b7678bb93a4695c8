"""How does Spark do it? The bridge into its JVM, the rule, and the jobs that run on it."""

from __future__ import annotations

from sidestep.advisor.layouts.advice import Advice
from sidestep.spark.advise.advise import advise
from sidestep.spark.append import append
from sidestep.spark.collect import status
from sidestep.spark.indexing import index
from sidestep.spark.load import load
from sidestep.spark.loadreport import LoadReport
from sidestep.spark.log.analyze import LogAnalysis, analyze
from sidestep.spark.log.recording import Recorder, record
from sidestep.spark.optimize import OptimizeReport, optimize
from sidestep.spark.progress import Step
from sidestep.spark.relation import read
from sidestep.spark.rewrite import delete, update
from sidestep.spark.rule.explain import explain
from sidestep.spark.rule.metrics import Metrics, metrics
from sidestep.spark.rule.session import disable, enable
from sidestep.spark.udf.identity import stable
from sidestep.spark.writereport import WriteReport

__all__ = [
    "Advice",
    "LoadReport",
    "LogAnalysis",
    "Metrics",
    "OptimizeReport",
    "Recorder",
    "Step",
    "WriteReport",
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
]
