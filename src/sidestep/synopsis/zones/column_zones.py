"""The zone maps of one column in all blocks, as they are held in memory: bounds, and one byte of flags per block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import FLOATING, DataType
from sidestep.synopsis.values.forms import ArrowColumn, Mask, if_any, stored_type
from sidestep.synopsis.zones.bounds import Bounds, NumberBounds, RankedBounds, bounds_of

Flags = npt.NDArray[np.uint8]


MAY_BE_NULL = np.uint8(1)
"""The block has NULLs."""


MAY_HAVE_VALUE = np.uint8(2)
"""The block may hold a value that is neither NULL nor NaN."""


MAY_BE_NAN = np.uint8(4)


HAS_LOWER = np.uint8(8)


HAS_UPPER = np.uint8(16)


UNCOUNTED = np.uint8(32)
"""Nothing is known of the block's NULLs."""


UNKNOWN = np.uint8(64)
"""Nothing is known of the block's values: neither bounds nor NULLs nor, of floats, whether there is a NaN."""


@dataclass(frozen=True, eq=False)
class ColumnZones:
    """One column's zone maps. Flags say what a block *may* hold: a cleared flag is a proof, a set one is not.

    That holds for blocks of which something is known. For the others, which ``UNCOUNTED`` and ``UNKNOWN`` tell, the
    flags that would be proofs are cleared and mean nothing.
    """

    type: DataType
    flags: Flags
    bounds: Bounds | None
    """None for a type whose order is not known: then only the flags speak."""

    def has(self, flag: np.uint8) -> Mask:
        return np.asarray((self.flags & flag) != 0)

    @cached_property
    def uncounted(self) -> Mask | None:
        """The blocks of whose NULLs nothing is known; None if there are none."""
        return if_any(self.has(UNCOUNTED))

    @cached_property
    def unknown(self) -> Mask | None:
        """The blocks of whose values nothing is known; None if there are none."""
        return if_any(self.has(UNKNOWN))

    def may_be_within(self, ranges: IntervalSet) -> Mask:
        """Blocks that may hold a value of the set, as far as they are known."""
        if ranges.is_empty:
            return np.zeros(len(self.flags), dtype=np.bool_)
        possible = self.has(MAY_HAVE_VALUE)
        if self.bounds is not None and (met := self.bounds.meets(ranges)) is not None:
            possible &= met
        if self.type.kind in FLOATING and ranges.intervals[-1].high is None:
            # Unbounded above takes in NaN, of which the bounds say nothing.
            possible |= self.has(MAY_BE_NAN)
        return possible

    @property
    def single(self) -> Mask:
        """Blocks all of whose values are one and the same (there may be NULLs beside it, but no NaN)."""
        if self.bounds is None:
            return np.zeros(len(self.flags), dtype=np.bool_)
        both = HAS_LOWER | HAS_UPPER
        return np.asarray(self.bounds.single & ((self.flags & (both | MAY_BE_NAN)) == both))

    def take(self, positions: npt.NDArray[np.integer]) -> ColumnZones:
        """The zone maps of the blocks at these positions, in this order."""
        bounds = None if self.bounds is None else self.bounds.take(positions)
        return ColumnZones(self.type, self.flags[positions], bounds)

    @property
    def nbytes(self) -> int:
        return self.flags.nbytes + (0 if self.bounds is None else self.bounds.nbytes)


def column_zones(
    type: DataType,
    rows: npt.NDArray[np.int64],
    lower: ArrowColumn | None = None,
    upper: ArrowColumn | None = None,
    nulls: ArrowColumn | None = None,
    nan: ArrowColumn | None = None,
) -> ColumnZones:
    """Zone maps from index columns, one value per block; a missing column is unknown throughout.

    Statistics that contradict themselves (a NaN bound, lower above upper, more NULLs than rows) prove nothing, so they
    count as unknown.
    """
    arrow_type = stored_type(type)
    bounds: Bounds | None = None
    flags = _count_flags(len(rows), rows, nulls, nan, floating=type.kind in FLOATING)
    if arrow_type is not None:
        low = _bound("lower", type, arrow_type, lower, len(rows))
        high = _bound("upper", type, arrow_type, upper, len(rows))
        if type.kind in FLOATING:
            low, high = (pc.if_else(pc.is_nan(end), pa.scalar(None, arrow_type), end) for end in (low, high))
        bounds = bounds_of(type, low, high)
        assert bounds is not None
        flags |= np.where(low.is_valid().to_numpy(zero_copy_only=False), HAS_LOWER, np.uint8(0))
        flags |= np.where(high.is_valid().to_numpy(zero_copy_only=False), HAS_UPPER, np.uint8(0))
        bounds = _settle_crossed(bounds, flags)
    _mark_unknown(flags, floating=type.kind in FLOATING)
    return ColumnZones(type, flags, bounds)


def _mark_unknown(flags: Flags, *, floating: bool) -> None:
    """Blocks without a bound or a count; what they may hold is not for a zone map to say."""
    telling = UNCOUNTED | HAS_LOWER | HAS_UPPER | MAY_HAVE_VALUE | (MAY_BE_NAN if floating else np.uint8(0))
    nothing = UNCOUNTED | MAY_HAVE_VALUE | (MAY_BE_NAN if floating else np.uint8(0))
    unknown = (flags & telling) == nothing
    flags[unknown] = UNCOUNTED | UNKNOWN


def _settle_crossed(bounds: Bounds, flags: Flags) -> Bounds:
    """Where lower is above upper: the sign for "no number at all" (inf, -inf) clears a flag, all else is unbounded."""
    crossed = bounds.lower > bounds.upper
    if not crossed.any():
        return bounds
    floats = bounds.lower.dtype == np.float64
    if floats:
        none = crossed & (bounds.lower == np.inf) & (bounds.upper == -np.inf)
        flags[none] &= ~MAY_HAVE_VALUE
        crossed &= ~none
    flags[crossed] &= ~(HAS_LOWER | HAS_UPPER)
    if isinstance(bounds, RankedBounds):
        least, greatest = np.int32(-1), np.int32(len(bounds.dictionary))
        lower, upper = np.where(crossed, least, bounds.lower), np.where(crossed, greatest, bounds.upper)
        return RankedBounds(bounds.dictionary, lower, upper, bounds.form)
    if floats:
        return NumberBounds(np.where(crossed, -np.inf, bounds.lower), np.where(crossed, np.inf, bounds.upper))
    ends = np.iinfo(np.int64)
    return NumberBounds(
        np.where(crossed, np.int64(ends.min), bounds.lower), np.where(crossed, np.int64(ends.max), bounds.upper)
    )


def _count_flags(
    blocks: int, rows: npt.NDArray[np.int64], nulls: ArrowColumn | None, nan: ArrowColumn | None, *, floating: bool
) -> Flags:
    counted = np.full(blocks, -1, dtype=np.int64)
    if nulls is not None:
        counted = _one_array("nulls", nulls, pa.int64(), blocks).fill_null(-1).to_numpy(zero_copy_only=False)
    unknown = (counted < 0) | (counted > rows)
    # That a block has no rows is no proof by itself: a file that was never counted may be written down as having none.
    may_be_null = ~unknown & (counted > 0)
    may_be_other = unknown | (counted < rows)
    flags = np.zeros(blocks, dtype=np.uint8)
    flags[unknown] |= UNCOUNTED
    flags[may_be_null] |= MAY_BE_NULL
    flags[may_be_other] |= MAY_HAVE_VALUE
    if floating:
        may_be_nan = may_be_other
        if nan is not None:
            seen = _one_array("nan", nan, pa.bool_(), blocks).fill_null(True).to_numpy(zero_copy_only=False)
            may_be_nan = may_be_nan & seen
        flags[may_be_nan] |= MAY_BE_NAN
    return flags


def _bound(end: str, type: DataType, arrow_type: pa.DataType, column: ArrowColumn | None, blocks: int) -> pa.Array:
    return pa.nulls(blocks, arrow_type) if column is None else _one_array(f"{end} ({type})", column, arrow_type, blocks)


def _one_array(what: str, column: ArrowColumn, arrow_type: pa.DataType, blocks: int) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if len(array) != blocks or array.type != arrow_type:
        raise SidestepError(
            f"The index column {what} holds {len(array)} values of {array.type}, but {blocks} of {arrow_type} were "
            "expected: the index was written for another version of the table. Index the table again."
        )
    return array
