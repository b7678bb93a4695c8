"""Layouts tried on a sample: the order of its rows, and where blocks begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidestep.layout.demand import Demands, group_rows
from sidestep.layout.maxskip import cut
from sidestep.layout.sample import Codes, Sample
from sidestep.layout.vectors import Words

Z_BITS = 10
"""Bits of each column's rank that a Z-order interleaves."""


@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows of a sample in an order, cut into blocks."""

    order: Codes
    """Positions in the sample, block by block."""
    sizes: Codes
    """How many of them each block has; none is empty."""

    @property
    def starts(self) -> Codes:
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)


def by_order(sample: Sample, columns: Sequence[str], block: int) -> Blocks:
    """The whole table sorted by columns, cut into blocks of at least so many of the sample's rows."""
    return Blocks(_sorted(sample, columns, []), np.array(cut(len(sample), block), np.int64))


def by_unit(sample: Sample, columns: Sequence[str], block: int) -> Blocks:
    """Range partitioning: a unit is a partition, its rows sorted by columns if there are any, and cut into blocks."""
    sizes = [size for rows in np.bincount(sample.unit) for size in cut(int(rows), block)]
    return Blocks(_sorted(sample, columns, [sample.unit]), np.array(sizes, np.int64))


def by_z_order(sample: Sample, columns: Sequence[str], block: int) -> Blocks:
    """The table along a Z curve: the bits of the columns' ranks interleaved, highest first."""
    curve = np.zeros(len(sample), np.int64)
    shares = [_quantiles(sample.codes[name]) for name in columns]
    for bit in reversed(range(Z_BITS)):
        for share in shares:
            curve = (curve << 1) | ((share >> bit) & 1)
    return Blocks(np.argsort(curve, kind="stable"), np.array(cut(len(sample), block), np.int64))


def by_features(sample: Sample, words: Words, demands: Demands, order: Sequence[str], block: int) -> Blocks:
    """What a load would make of the sample: units, groups of like feature vectors, and blocks cut along the order.

    ``words`` holds each row's feature vector. The sample's buckets of the order columns keep windows of time apart.
    """
    buckets = [name for name in order if name in sample.buckets]
    return by_group(sample, groups(sample, words, demands, block, buckets), order, block)


def groups(sample: Sample, words: Words, demands: Demands, block: int, buckets: Sequence[str] = ()) -> Codes:
    """The group of each row: a number that is greater in later units."""
    bounds = {name: sample.bounds(name) for name in demands.columns if name in sample.times}
    keys = np.column_stack([words, *(sample.buckets[name].astype(np.uint64) for name in buckets)])
    found = np.zeros(len(sample), np.int64)
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
        found[rows] = first + group[place]
        first += int(group.max()) + 1
    return found


def by_group(sample: Sample, group: Codes, order: Sequence[str], block: int) -> Blocks:
    """Groups cut into blocks along the order."""
    sizes = [size for rows in np.bincount(group) for size in cut(int(rows), block)]
    return Blocks(_sorted(sample, order, [group]), np.array(sizes, np.int64))


def _sorted(sample: Sample, columns: Sequence[str], before: list[Codes]) -> Codes:
    keys = [sample.codes[name] for name in reversed(columns)] + before
    return np.lexsort(keys).astype(np.int64) if keys else np.arange(len(sample))


def _quantiles(codes: Codes) -> Codes:
    """The share of rows with a smaller value, in steps of 2**-Z_BITS; equal values have equal shares."""
    counts = np.bincount(codes + 1)
    below = np.cumsum(counts) - counts
    return (below[codes + 1] << Z_BITS) // max(1, len(codes))
