"""What need a query not read? Relational algebra, and the predicates that each of its scans must satisfy."""

from __future__ import annotations

from sidestep.prune.explain.explanation import Explanation
from sidestep.prune.plan.algebra import (
    JOIN_TYPES,
    UNKNOWN_JOIN,
    Aggregate,
    Filter,
    Join,
    JoinType,
    Limit,
    Operator,
    Other,
    Project,
    Query,
    Scan,
    Union,
    Window,
)
from sidestep.prune.plan.static import ScanFilter, scan_filters

__all__ = [
    "JOIN_TYPES",
    "UNKNOWN_JOIN",
    "Aggregate",
    "Explanation",
    "Filter",
    "Join",
    "JoinType",
    "Limit",
    "Operator",
    "Other",
    "Project",
    "Query",
    "Scan",
    "ScanFilter",
    "Union",
    "Window",
    "scan_filters",
]
