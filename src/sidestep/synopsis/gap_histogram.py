"""Equi-depth histograms that remember the gaps between their buckets (diPs, sections 4 and 5.1).

A bucket is the range from its least to its greatest value, so what lies between two buckets is known to be absent. Cuts
are made where the depth says, not where the gaps are wide: of equal size, a range-set covers less. What a histogram
stores beside it is depth, the rows in each bucket; skipping does not read that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.errors import SidestepError
from sidestep.predicate.types import DataType
from sidestep.synopsis.contract.answer import ByColumn
from sidestep.synopsis.contract.block_ranges import NO_RANGES, STORED, BlockRanges, from_column
from sidestep.synopsis.descriptor import BlockValues, Sizes, SynopsisKind
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.values.code_ranges import CodeRanges, end_to_end
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.forms import ArrowColumn

Depths = npt.NDArray[np.int64]


class GapHistograms(ByColumn[BlockRanges]):
    """The buckets of the columns that were loaded, as ranges."""

    name = "gap histogram"


def gap_histogram(codes: Codes, most: int) -> tuple[CodeRanges, Depths]:
    """The buckets of one block's codes and their depths: at most ``most``, as equal in depth as repeats allow.

    Equal values stay in one bucket: a cut that would fall among them moves to the nearer end of their run.

    >>> codes = np.array([1, 2, 3, 10, 11, 12, 12, 12, 40], dtype=np.uint64)
    >>> buckets, depths = gap_histogram(codes, 3)
    >>> list(buckets), depths.tolist()
    ([(1, 3), (10, 11), (12, 40)], [3, 2, 4])
    """
    if most < 1:
        raise SidestepError(f"A histogram has at least one bucket, not {most}.")
    ordered = np.sort(codes)
    if not len(ordered):
        return CodeRanges(ordered, ordered), np.zeros(0, dtype=np.int64)
    wanted = np.linspace(0, len(ordered), most + 1)[1:-1]
    runs = np.flatnonzero(np.diff(ordered)) + 1  # where a new value begins: the only places to cut
    edges = np.concatenate([[0], runs, [len(ordered)]])
    above = np.clip(np.searchsorted(edges, wanted), 1, len(edges) - 1)
    nearer_below = wanted - edges[above - 1] <= edges[above] - wanted
    cuts = np.unique(edges[np.where(nearer_below, above - 1, above)])
    cuts = np.unique(np.concatenate([[0], cuts, [len(ordered)]])).astype(np.int64)
    return CodeRanges(ordered[cuts[:-1]], ordered[cuts[1:] - 1]), np.diff(cuts)


def _build(block: BlockValues, size: int) -> dict[str, Any]:
    buckets, depths = gap_histogram(block.codes, size)
    return {"buckets": end_to_end(buckets), "depths": depths, "bucketsprefix": block.coding.prefix}


def _read(
    type: DataType, stored: Mapping[str, ArrowColumn], tables: Sequence[GlobalRangeTable]
) -> tuple[BlockRanges, ...]:
    return (from_column(Coding(type), stored["buckets"], stored.get("bucketsprefix")),)


GAP_HISTOGRAM = SynopsisKind(
    name="gap-histogram",
    synopsis=GapHistograms,
    sizes=Sizes(usual=8, least=1, limit=1 << 12, unit="buckets", unit_bits=3 * 64),
    columns={"buckets": STORED, "depths": pa.list_(pa.int64())},
    columns_of_bytes={"bucketsprefix": pa.binary()},
    unknown=NO_RANGES,
    build=_build,
    read=_read,
    counts_rows=True,
)
