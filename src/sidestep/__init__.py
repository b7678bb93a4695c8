"""sidestep: Spark queries that read only what they need.

>>> import sidestep
>>> sidestep.index(spark, "/data/lineitem")            # doctest: +SKIP
>>> sidestep.enable(spark)                             # doctest: +SKIP
>>> print(sidestep.explain("SELECT … FROM lineitem"))  # doctest: +SKIP
"""

from sidestep._version import __version__
from sidestep.advisor.layouts.advice import Advice, Estimate
from sidestep.advisor.layouts.choose import LayoutChoice
from sidestep.errors import Conflict, DamagedFile, SidestepError, SidestepWarning, TableNotFound, UnsupportedTable
from sidestep.prune.explain.explanation import Amounts, Explanation, Reason, ScanReport
from sidestep.spark import (
    DenormalizeReport,
    Enabled,
    GroupReport,
    LoadReport,
    LogAnalysis,
    Merge,
    MergeReport,
    Metrics,
    OptimizeReport,
    Progress,
    Recorder,
    ScanMetrics,
    Stage,
    Step,
    WriteReport,
    advise,
    analyze,
    append,
    delete,
    denormalize,
    disable,
    enable,
    explain,
    index,
    load,
    merge,
    metrics,
    optimize,
    read,
    record,
    sql,
    stable,
    status,
    update,
)
from sidestep.store.upkeep.drift import Drift
from sidestep.store.upkeep.status import IndexStatus, SynopsesStatus
from sidestep.store.upkeep.vacuum import VacuumReport, vacuum
from sidestep.workload import Failure, Feature, FeatureSet, TableAnalysis

__all__ = [
    "Advice",
    "Amounts",
    "Conflict",
    "DamagedFile",
    "DenormalizeReport",
    "Drift",
    "Enabled",
    "Estimate",
    "Explanation",
    "Failure",
    "Feature",
    "FeatureSet",
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
    "ScanMetrics",
    "ScanReport",
    "SidestepError",
    "SidestepWarning",
    "Stage",
    "Step",
    "SynopsesStatus",
    "TableAnalysis",
    "TableNotFound",
    "UnsupportedTable",
    "VacuumReport",
    "WriteReport",
    "__version__",
    "advise",
    "analyze",
    "append",
    "delete",
    "denormalize",
    "disable",
    "enable",
    "explain",
    "index",
    "load",
    "merge",
    "metrics",
    "optimize",
    "read",
    "record",
    "sql",
    "stable",
    "status",
    "update",
    "vacuum",
]
