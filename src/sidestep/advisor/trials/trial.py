"""Layouts tried on a sample: its rows in an order, cut into blocks, and what queries would read of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.advisor.trials.sample import RowNumbers, Sample
from sidestep.layout.demand import Demands, group_rows
from sidestep.layout.maxskip import block_sizes
from sidestep.layout.vectors import Words
from sidestep.predicate import DataType, Formula
from sidestep.predicate.types import FLOATING
from sidestep.synopsis import Catalog, ColumnSummary, Synopsis, stored_type, summarize, zone_maps
from sidestep.synopsis.features.union_vectors import UnionVectors
from sidestep.synopsis.value_set import BlockSets, ValueSets
from sidestep.synopsis.values.codes import Coding
from sidestep.synopsis.values.forms import Form, stored_form
from sidestep.synopsis.zones.column_zones import column_zones

FEW_VALUES = 256
"""A column of at most so many distinct values is known by sets of them."""
_NO_RANK = -2
Shares = npt.NDArray[np.float64]
"""For each query, the share of rows that it reads."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows of a sample in an order, cut into blocks."""

    order: RowNumbers
    """Positions in the sample, block by block."""
    sizes: RowNumbers
    """How many of them each block has; none is empty."""

    @property
    def starts(self) -> RowNumbers:
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)


def by_group(sample: Sample, group: RowNumbers, order: Sequence[str], block: int) -> Blocks:
    """Groups cut into blocks along the order."""
    sizes = [size for rows in np.bincount(group) for size in block_sizes(int(rows), block)]
    return Blocks(_sort(sample, order, [group]), np.array(sizes, np.int64))


def group_sample(sample: Sample, words: Words, demands: Demands, block: int, buckets: Sequence[str] = ()) -> RowNumbers:
    """The group of each row: a number that is greater in later units."""
    bounds = {name: sample.bounds(name) for name in demands.columns if name in sample.times}
    keys = np.column_stack([words, *(sample.buckets[name].astype(np.uint64) for name in buckets)])
    group_of_row = np.zeros(len(sample), np.int64)
    first = 0
    for rows in np.split(np.argsort(sample.unit, kind="stable"), np.cumsum(np.bincount(sample.unit))[:-1]):
        if not len(rows):
            continue
        distinct, place, counts = np.unique(keys[rows], axis=0, return_inverse=True, return_counts=True)
        place = place.ravel()
        arranged = rows[np.argsort(place, kind="stable")]
        starts = np.cumsum(counts) - counts
        limits = {
            name: (np.minimum.reduceat(least[arranged], starts), np.maximum.reduceat(greatest[arranged], starts))
            for name, (least, greatest) in bounds.items()
        }
        vectors = np.ascontiguousarray(distinct[:, : words.shape[1]])
        group = group_rows(vectors, counts.astype(np.int64), limits, demands, block)
        group_of_row[rows] = first + group[place]
        first += int(group.max()) + 1
    return group_of_row


def catalog_of(sample: Sample, blocks: Blocks, features: Sequence[Formula] = (), words: Words | None = None) -> Catalog:
    """The catalog of a sample's blocks, as if they were a table's."""
    sizes, starts = blocks.sizes, blocks.starts
    index: dict[str, pa.Array] = {}
    types: dict[str, DataType] = {}
    sets: dict[str, BlockSets] = {}
    for name, kind in sample.types.items():
        stored = stored_values(sample.values[name], kind)
        if stored is None:
            continue
        codes = sample.codes[name][blocks.order]
        # NaN is the greatest value of all, and no bound: blocks say apart whether they have it.
        nan = len(stored) - 1 if kind.kind in FLOATING and len(stored) and math.isnan(stored[-1].as_py()) else _NO_RANK
        bounded = np.where(codes == nan, -1, codes)
        if len(starts):
            nulls = np.add.reduceat((codes < 0).astype(np.int64), starts)
            least = np.minimum.reduceat(np.where(bounded < 0, len(stored), bounded), starts)
            greatest = np.maximum.reduceat(bounded, starts)
            nans = np.logical_or.reduceat(codes == nan, starts)
        else:
            nulls = least = greatest = starts
            nans = np.zeros(0, np.bool_)
        some = greatest >= 0
        index[f"lower:{name}"] = stored.take(pa.array(np.where(some, least, 0), mask=~some))
        index[f"upper:{name}"] = stored.take(pa.array(np.where(some, greatest, 0), mask=~some))
        index[f"nulls:{name}"] = pa.array(nulls)
        if kind.kind in FLOATING:
            index[f"nan:{name}"] = pa.array(nans)
        types[name] = kind
        if 0 < len(stored) <= FEW_VALUES and len(starts):
            sets[name] = _value_sets(kind, stored, codes, sizes)
    synopses: list[Synopsis] = [zone_maps(types, index, sizes)]
    if sets:
        synopses.append(ValueSets(sets))
    if features and words is not None and len(starts):
        unions = np.bitwise_or.reduceat(words[blocks.order], starts, axis=0)
        known = np.ones(len(blocks), np.bool_)
        synopses.append(_vectors_of(tuple(features)).over(np.ascontiguousarray(unions.T), known))
    return Catalog(np.zeros(len(sizes), np.int32), sizes, sizes, min(1, len(sizes)), tuple(synopses))


@lru_cache(maxsize=2)
def _vectors_of(features: tuple[Formula, ...]) -> UnionVectors:
    """Vectors of no blocks: the same queries are held against the same features in dozens of arrangements."""
    words = np.zeros((-(-len(features) // 64), 0), np.uint64)
    return UnionVectors(features, words, np.zeros(0, np.bool_), branchings={})


def catalog_of_values(sample: Sample, name: str) -> Catalog:
    """A column's distinct values, each as a block of its own."""
    each = np.arange(len(sample.values[name]), dtype=np.int64)
    values = replace(
        sample,
        types={name: sample.types[name]},
        values={name: sample.values[name]},
        codes={name: each},
        unit=np.zeros(len(each), np.int64),
        buckets={},
    )
    return catalog_of(values, Blocks(each, np.ones(len(each), np.int64)))


def _value_sets(kind: DataType, stored: pa.Array, codes: RowNumbers, sizes: RowNumbers) -> BlockSets:
    """The sets of values of a column of few, block by block."""
    values, blocks = len(stored), len(sizes)
    pairs = np.unique((codes * blocks + np.repeat(np.arange(blocks), sizes))[codes >= 0])
    begins = np.searchsorted(pairs, np.arange(values + 1) * blocks)
    nan = pc.is_nan(stored) if kind.kind in FLOATING else None
    low = stored if nan is None else pc.if_else(nan, math.inf, stored)
    high = stored if nan is None else pc.if_else(nan, -math.inf, stored)
    ones = np.ones(values, np.int64)
    zones = column_zones(kind, ones, low, high, pa.array(ones * 0), nan)
    # Codes serve predicates that joins induce, which a trial has none of.
    return BlockSets(
        zones, (Coding(kind), np.zeros(values, np.uint64)), begins, (pairs % blocks).astype(np.int32), blocks
    )


def stored_values(values: pa.Array, kind: DataType) -> pa.Array | None:
    """Values in the form that an index keeps bounds in; None where they have none."""
    arrow = stored_type(kind)
    if arrow is None or stored_form(kind) is Form.WIDE:
        return None
    if pa.types.is_decimal(values.type) and arrow == pa.int64():
        summaries = [summarize(values.slice(at, 1), kind) for at in range(len(values))]
        if any(summary == ColumnSummary() for summary in summaries):
            return None
        return pa.array([summary.lower for summary in summaries], arrow)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return values.cast(pa.binary())
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32()).cast(pa.int64())
    try:
        return values.cast(arrow)
    except pa.ArrowInvalid:
        return None


def _sort(sample: Sample, columns: Sequence[str], before: list[RowNumbers]) -> RowNumbers:
    keys = [sample.codes[name] for name in reversed(columns)] + before
    return np.lexsort(keys).astype(np.int64) if keys else np.arange(len(sample))
