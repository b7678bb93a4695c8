"""sidestep: Spark queries that read only what they need.

>>> import sidestep
>>> sidestep.index(spark, "/data/lineitem")            # doctest: +SKIP
>>> sidestep.enable(spark)                             # doctest: +SKIP
>>> print(sidestep.explain("SELECT … FROM lineitem"))  # doctest: +SKIP
"""

from sidestep._version import __version__
from sidestep.errors import SidestepError, SidestepWarning
from sidestep.prune import Explanation
from sidestep.spark import (
    Advice,
    LoadReport,
    LogAnalysis,
    Metrics,
    OptimizeReport,
    Recorder,
    Step,
    WriteReport,
    advise,
    analyze,
    append,
    delete,
    disable,
    enable,
    explain,
    index,
    load,
    metrics,
    optimize,
    read,
    record,
    stable,
    status,
    update,
)
from sidestep.store import IndexStatus
from sidestep.store.upkeep.vacuum import VacuumReport, vacuum

__all__ = [
    "Advice",
    "Explanation",
    "IndexStatus",
    "LoadReport",
    "LogAnalysis",
    "Metrics",
    "OptimizeReport",
    "Recorder",
    "SidestepError",
    "SidestepWarning",
    "Step",
    "VacuumReport",
    "WriteReport",
    "__version__",
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
    "vacuum",
]
