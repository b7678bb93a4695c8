"""Which columns an arrangement narrows: its blocks hold less of their values than rows drawn at random would.

A block may know what its rows hold in any column. Of one that the arrangement leaves as it finds it, every block holds
about all values, and what blocks know of it skips nothing, whatever is asked. To tell, blocks of the arrangement are
held against blocks of the same sizes whose rows are drawn by chance, on the same sample: by how far the values of a
block spread, by how many of few values it has, and by what the filters of the workload skip there. The last of these
sees what a mean over all blocks does not: an arrangement that sets a few blocks apart for one value.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from sidestep.advisor.trials.needs import Needs, skipped_by_values
from sidestep.advisor.trials.sample import SEED, Sample
from sidestep.advisor.trials.trial import FEW_VALUES, Blocks
from sidestep.layout.vectors import Bits
from sidestep.layout.weights import Floats

LEAST_NARROWING = 0.03
"""By this share a block holds less of a column, in the mean, than by chance: below it, that is chance too."""
LEAST_SKIPPED, LEAST_BY_ONE = 0.01, 0.2
"""The share of the rows that filters of a column skip by it alone, beyond what they would by chance: all of them in the
mean, or a single one."""


def narrowed(sample: Sample, needs: Needs, blocks: Blocks, names: Collection[str] | None = None) -> frozenset[str]:
    """Those columns of the sample, or of the named ones, that the arrangement narrows.

    The blocks may be of some rows alone: then a column is narrowed too if these rows are alike in it.
    """
    if not len(blocks):
        return frozenset()
    drawn = np.random.default_rng(SEED).permutation(len(sample))[: int(blocks.sizes.sum())]
    mixed = Blocks(drawn, blocks.sizes)
    asked = sample.types if names is None else names
    return frozenset(
        name for name in asked if name in sample.types and _is_narrowed(sample, needs, name, blocks, mixed)
    )


def _is_narrowed(sample: Sample, needs: Needs, name: str, blocks: Blocks, mixed: Blocks) -> bool:
    most = 1 - LEAST_NARROWING
    if _spread(sample, name, blocks).mean() < most * _spread(sample, name, mixed).mean():
        return True
    if 0 < len(sample.values[name]) <= FEW_VALUES:
        there, by_chance = (_present(sample, name, each).sum() for each in (blocks, mixed))
        if there < most * by_chance:
            return True
    skipped, by_chance = (_skipped(sample, needs, name, each) for each in (blocks, mixed))
    gains = skipped - by_chance
    return bool(len(gains)) and bool(gains.mean() > LEAST_SKIPPED or gains.max() > LEAST_BY_ONE)


def _spread(sample: Sample, name: str, blocks: Blocks) -> Floats:
    """For each block, the share of the sample's rows whose values lie between its least and its greatest."""
    codes = sample.codes[name][blocks.order]
    least = np.minimum.reduceat(np.where(codes < 0, len(sample.values[name]), codes), blocks.starts)
    greatest = np.maximum.reduceat(codes, blocks.starts)
    counts = np.bincount(sample.codes[name] + 1, minlength=len(sample.values[name]) + 1)[1:]
    below = np.append(0, np.cumsum(counts))
    return np.asarray(np.maximum(0, below[greatest + 1] - below[least]) / max(1, len(sample)))


def _present(sample: Sample, name: str, blocks: Blocks) -> Bits:
    """Blocks by values: which each has."""
    present = np.zeros((len(blocks), len(sample.values[name]) + 1), np.bool_)
    present[np.repeat(np.arange(len(blocks)), blocks.sizes), sample.codes[name][blocks.order]] = True
    return present[:, :-1]


def _skipped(sample: Sample, needs: Needs, name: str, blocks: Blocks) -> Floats:
    """For each filter of a column, the share of the rows that it skips by this column alone."""
    ranges = {name: needs.ranges[name]} if name in needs.ranges else {}
    sets = {name: needs.sets[name]} if name in needs.sets else {}
    of = [own[0] for own in (*ranges.values(), *sets.values())]
    if not of:
        return np.zeros(0)
    skipped = skipped_by_values(sample, replace(needs, ranges=ranges, sets=sets), blocks)[of[0]]
    return np.asarray(skipped @ blocks.sizes / max(1, int(blocks.sizes.sum())))
