"""How does Spark do it? The bridge into its JVM, the rule, and the jobs that run on it."""

from __future__ import annotations

from sidestep.spark.collect import index, status
from sidestep.spark.explain import explain
from sidestep.spark.log import LogAnalysis, analyze
from sidestep.spark.metrics import Metrics, metrics
from sidestep.spark.recording import Recorder, record
from sidestep.spark.relation import read
from sidestep.spark.session import disable, enable

__all__ = [
    "LogAnalysis",
    "Metrics",
    "Recorder",
    "analyze",
    "disable",
    "enable",
    "explain",
    "index",
    "metrics",
    "read",
    "record",
    "status",
]
