"""Sparse 64-bit ids over date partitions, and queries for them: what the benchmark of gap synopses works on.

*clustered*: sources number their documents upward, each in an id region of its own, far from the others. A source is at
work for some part of the time, and some write far more than others (Zipf). So a date partition holds short runs of ids
in some far-apart places, and its least and greatest id say almost nothing. How many places decides the rates, so they
are to be read with it in mind: with n of them a zone map keeps about (n - 1) / (n + 1) of the partitions, and a table
of m bits about n / m. The defaults make n about 24; twice as many double a table's rate.

*two runs*: each partition has two runs of ids that no other has, a good part of the domain apart.

*scattered*: a few ids per partition, anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidestep.advisor.synopses.candidates import Profile
from sidestep.predicate.types import LONG
from sidestep.synopsis.grt.popularity import Popularity
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import Codes, Coding, integer_codes

CODING = Coding(LONG)
_STEP = 1 << 30
"""The ids that a source has for one partition's time."""


@dataclass(frozen=True, eq=False)
class Data:
    """The ascending, distinct codes of each partition."""

    name: str
    blocks: list[Codes]

    @property
    def rows(self) -> int:
        return sum(map(len, self.blocks))


def clustered(rows: int, partitions: int, seed: int, sources: int = 200, life: float = 0.11) -> Data:
    """Ids of sources that come and go; see the module's text."""
    rng = np.random.default_rng([seed, rows, partitions])
    region = np.sort(rng.choice(1 << 20, sources, replace=False)).astype(np.int64) << 42
    lives = np.minimum(1.0, rng.lognormal(np.log(life), 0.5, sources))
    born = rng.uniform(-lives / 2, 1 - lives / 2)
    volume = 1 / rng.permutation(np.arange(1, sources + 1))
    size = rows // partitions
    blocks = []
    for number in range(partitions):
        now = (number + 0.5) / partitions
        active = np.flatnonzero((born <= now) & (now < born + lives))
        active = active if len(active) else np.array([0])
        source = rng.choice(active, size, p=volume[active] / volume[active].sum())
        blocks.append(np.unique(integer_codes(region[source] + number * _STEP + rng.integers(0, _STEP, size))))
    return Data("clustered", blocks)


def two_runs(rows: int, partitions: int, seed: int) -> Data:
    """Two runs of ids per partition; see the module's text."""
    rng = np.random.default_rng([seed, rows, partitions, 2])
    half = rows // partitions // 2
    blocks = []
    for _ in range(partitions):
        starts = rng.integers([0, 1 << 61], [1 << 60, 1 << 62])
        blocks.append(np.unique(integer_codes((starts[:, np.newaxis] + rng.integers(0, _STEP, half)).ravel())))
    return Data("two runs", blocks)


def scattered(partitions: int, seed: int, each: int = 16) -> Data:
    """A few ids per partition; see the module's text."""
    rng = np.random.default_rng([seed, partitions, 3])
    return Data("scattered", [np.unique(integer_codes(rng.integers(0, 1 << 62, each))) for _ in range(partitions)])


def existing_ids(data: Data, count: int, seed: int) -> list[CodeRanges]:
    """Queries for single ids that some partition holds: all other partitions should be skipped."""
    rng = np.random.default_rng([seed, 11])
    ids = rng.choice(np.concatenate(data.blocks), count)
    return [CodeRanges(each, each) for each in ids.reshape(-1, 1)]


def absent_ids(data: Data, count: int, seed: int) -> list[CodeRanges]:
    """Queries for single ids close to existing ones that no partition holds (but by chance)."""
    rng = np.random.default_rng([seed, 12])
    ids = rng.choice(np.concatenate(data.blocks), count) + rng.integers(1, _STEP, count).astype(np.uint64)
    return [CodeRanges(each, each) for each in ids.reshape(-1, 1)]


def short_ranges(data: Data, count: int, seed: int) -> list[CodeRanges]:
    """Queries for a range of ids from an existing one on, a hundredth of what a source has for one partition."""
    rng = np.random.default_rng([seed, 13])
    ids = rng.choice(np.concatenate(data.blocks), count)
    return [CodeRanges(each, each + np.uint64(_STEP // 100)) for each in ids.reshape(-1, 1)]


def profile_of(
    data: Data, queries: list[CodeRanges], popularity: Popularity | None = None, sizes: tuple[int, ...] = (16, 32)
) -> Profile:
    """The partitions and some queries, as candidates are tried on them."""
    rows = np.array([len(block) for block in data.blocks], dtype=np.int64)
    weights = np.ones(len(queries))
    return Profile("id", CODING, data.blocks, rows, queries, weights, popularity=popularity, sizes=sizes)
