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
    LogAnalysis,
    Metrics,
    Recorder,
    analyze,
    disable,
    enable,
    explain,
    index,
    metrics,
    read,
    record,
    status,
)
from sidestep.store import IndexStatus

__all__ = [
    "Explanation",
    "IndexStatus",
    "LogAnalysis",
    "Metrics",
    "Recorder",
    "SidestepError",
    "SidestepWarning",
    "__version__",
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
