"""When an induced predicate is also worth a condition over a scan, for Parquet's own statistics to use."""

from __future__ import annotations

from collections.abc import Sequence

from sidestep.predicate.types import Kind
from sidestep.prune.dips.induced import Bound
from sidestep.synopsis import Catalog, Mask

KINDS = frozenset({Kind.INTEGER, Kind.LONG, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
MOST_RANGES = 4
"""The condition is worked out for every row that is read."""
LEAST_SHARE = 0.2
"""What of the files to be read must be in row groups that induced predicates rule out, to be worth a condition."""


def worthwhile_bound(bounds: Sequence[Bound], catalog: Catalog, static: Mask, kept: Mask) -> str:
    """The condition as Java takes it, ``column TAB low:high,…``; empty where it would save too little.

    Whole files are skipped without it. It pays only where files are read that have row groups which induced predicates
    rule out: these are then passed over by their own statistics, as Spark does for any filter. Rows that NULL lets
    through would not be skipped, so such bounds are left out.
    """
    in_read_files = catalog.files_kept(kept)[catalog.file_of_block]
    read, spared = int(catalog.bytes[in_read_files].sum()), int(catalog.bytes[in_read_files & static & ~kept].sum())
    if spared < LEAST_SHARE * read or not spared:
        return ""
    for bound in bounds:
        if bound.column.type.kind not in KINDS or bound.nulls:
            continue
        ends = [(interval.low, interval.high) for interval in bound.within(MOST_RANGES).intervals]
        if ends and all(low is not None or high is not None for low, high in ends):
            texts = (":".join("" if end is None else str(end) for end in pair) for pair in ends)
            return f"{bound.column.name}\t{','.join(texts)}"
    return ""
