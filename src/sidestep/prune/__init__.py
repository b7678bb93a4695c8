"""What need a query not read? Relational algebra, and the predicates that each of its scans must satisfy."""

from __future__ import annotations

from sidestep.prune.algebra import Filter, Join, JoinType, Operator, Other, Project, Query, Scan
from sidestep.prune.report import Explanation
from sidestep.prune.static import ScanFilter, scan_filters

__all__ = [
    "Explanation",
    "Filter",
    "Join",
    "JoinType",
    "Operator",
    "Other",
    "Project",
    "Query",
    "Scan",
    "ScanFilter",
    "scan_filters",
]
