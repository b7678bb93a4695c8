"""How does Spark do it? The bridge into its JVM, the rule, and the jobs that run on it."""

from __future__ import annotations

from sidestep.spark.advise.advise import advise
from sidestep.spark.advise.what_if import what_if
from sidestep.spark.blocks import blocks
from sidestep.spark.change.merge import Merge, merge
from sidestep.spark.change.rewrite import delete, update
from sidestep.spark.change.statement import sql
from sidestep.spark.denormal.denormalize import DenormalizeReport, denormalize
from sidestep.spark.doctor.diagnosis import Diagnosis, Finding
from sidestep.spark.doctor.doctor import doctor
from sidestep.spark.log.analyze import LogAnalysis, analyze
from sidestep.spark.log.recording import Recorder, record
from sidestep.spark.progress import Progress, SparkStage, Stage, Step
from sidestep.spark.relation import read
from sidestep.spark.rule.catalog import register
from sidestep.spark.rule.explain import explain
from sidestep.spark.rule.metrics import Metrics, ScanMetrics, metrics
from sidestep.spark.rule.query import query
from sidestep.spark.rule.session import Enabled, disable, enable
from sidestep.spark.table.append import append
from sidestep.spark.table.index import index, status
from sidestep.spark.table.load import load
from sidestep.spark.table.optimize import OptimizeReport, optimize
from sidestep.spark.table.reports import GroupReport, LoadReport, MergeReport, WriteReport
from sidestep.spark.udf.identity import stable

__all__ = [
    "DenormalizeReport",
    "Diagnosis",
    "Enabled",
    "Finding",
    "GroupReport",
    "LoadReport",
    "LogAnalysis",
    "Merge",
    "MergeReport",
    "Metrics",
    "OptimizeReport",
    "Progress",
    "Recorder",
    "ScanMetrics",
    "SparkStage",
    "Stage",
    "Step",
    "WriteReport",
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
    "what_if",
]
