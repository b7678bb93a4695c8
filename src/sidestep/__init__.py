"""sidestep: Spark queries that read only what they need.

>>> import sidestep
>>> sidestep.index(spark, "/data/lineitem")            # doctest: +SKIP
>>> sidestep.enable(spark)                             # doctest: +SKIP
>>> print(sidestep.explain("SELECT … FROM lineitem"))  # doctest: +SKIP
"""

from sidestep._version import __version__
from sidestep.advisor.layouts.advice import Advice, Estimate
from sidestep.advisor.layouts.choose import LayoutChoice
from sidestep.advisor.layouts.what_if import WhatIf, WhatIfPoint
from sidestep.errors import Conflict, DamagedFile, SidestepError, SidestepWarning, TableNotFound, UnsupportedTable
from sidestep.prune.explain.explanation import Amounts, Explanation, Reason, ScanReport
from sidestep.prune.explain.scan_blocks import ScanBlocks, SkipReason
from sidestep.spark import (
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
    SparkStage,
    Stage,
    Step,
    WriteReport,
    advise,
    analyze,
    append,
    blocks,
    delete,
    disable,
    enable,
    explain,
    index,
    load,
    merge,
    metrics,
    optimize,
    query,
    read,
    record,
    sql,
    stable,
    status,
    update,
    what_if,
)
from sidestep.store.upkeep.drift import Drift
from sidestep.store.upkeep.status import IndexStatus, SynopsesStatus
from sidestep.store.upkeep.vacuum import VacuumReport, vacuum
from sidestep.workload import Curve, Failure, Feature, FeatureSet, TableAnalysis

__all__ = [
    "Advice",
    "Amounts",
    "Conflict",
    "Curve",
    "DamagedFile",
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
    "WriteReport",
    "__version__",
    "advise",
    "analyze",
    "append",
    "blocks",
    "delete",
    "disable",
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
    "sql",
    "stable",
    "status",
    "update",
    "vacuum",
    "what_if",
]
