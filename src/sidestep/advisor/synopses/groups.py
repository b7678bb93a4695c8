"""Groups of partitions whose blocks are alike: each gets its own share of a budget.

Blocks of a partition are described by their rows, and in each column by how far apart their values are and which share
of what lies between is gaps. Partitions that are alike in all of it form a group, of which there are few, so that each
has enough blocks in the sample.

A partition without a sampled block goes with the one that has some and whose footer looks most like its own. Of those
that look the same, or if its footer was not looked at, it is the nearest in order: most partitions are days.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sidestep.advisor.synopses.candidates import gap_share
from sidestep.advisor.synopses.clustering import complete_linkage
from sidestep.advisor.synopses.sample import ENOUGH, BlockSample, Look, row_scale, sparsity_scale
from sidestep.store.snapshot import Partition
from sidestep.synopsis.recipe import partitions_text
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.forms import Form

MOST_GROUPS = 8
MOST_PARTITIONS = 10_000
"""A table with more partitions has no groups: an index names the partitions that have a recipe of their own."""
_GAPS = 2.0
"""Half of what lies between is a difference."""
_STEPS = 4
"""Footers that differ by less than a step look the same."""


@dataclass(frozen=True, eq=False)
class BlockGroup:
    """Some partitions of a table, and their blocks in a sample."""

    partitions: tuple[Partition, ...]
    members: npt.NDArray[np.int64]
    """Which blocks of the sample are theirs."""
    of_blocks: int
    """About how many blocks they have."""

    def __str__(self) -> str:
        return partitions_text(self.partitions)


def block_groups(
    sample: BlockSample, coded: Mapping[str, tuple[Coding, Sequence[Codes]]], most: int = MOST_GROUPS
) -> list[BlockGroup]:
    """The groups of a table's partitions, the one with the most blocks first; none if all are alike."""
    if not 1 < len(sample.partitions) <= MOST_PARTITIONS or most < 2:
        return []
    held: dict[Partition, list[int]] = {}
    for place, block in enumerate(sample.blocks):
        held.setdefault(block.file.partition, []).append(place)
    if len(held) < 2:
        return []
    per_file = sample.of_blocks / sum(sample.partitions.values())
    sampled = list(held)

    def enough(members: Sequence[int]) -> bool:
        blocks = sum(len(held[sampled[at]]) for at in members)
        return blocks >= ENOUGH or blocks >= per_file * sum(sample.partitions[sampled[at]] for at in members)

    labels = complete_linkage([_describe(sample, held[each], coded) for each in sampled], most, enough)
    if len(set(labels)) < 2:
        return []
    labeled: list[list[Partition]] = [[] for _ in set(labels)]
    for partition, nearest in zip(sample.partitions, _nearest(sample, sampled), strict=True):
        labeled[labels[nearest]].append(partition)
    groups = []
    for number, partitions in enumerate(labeled):
        members = [
            place for each, label in zip(sampled, labels, strict=True) if label == number for place in held[each]
        ]
        blocks = max(len(members), round(per_file * sum(sample.partitions[each] for each in partitions)))
        groups.append(BlockGroup(tuple(partitions), np.array(sorted(members), dtype=np.int64), blocks))
    return sorted(groups, key=lambda group: -group.of_blocks)


def _describe(
    sample: BlockSample, places: Sequence[int], coded: Mapping[str, tuple[Coding, Sequence[Codes]]]
) -> tuple[float, ...]:
    """A partition by its sampled blocks, on scales where partitions that differ by less than 1 are alike."""
    scales = [float(np.mean([row_scale(sample.blocks[place].rows) for place in places]))]
    for coding, blocks in coded.values():
        mine = [blocks[place] for place in places]
        scales.append(float(np.mean([sparsity_scale(_sparsity(coding, codes)) for codes in mine])))
        scales.append(_GAPS * float(np.mean([gap_share(coding, codes) for codes in mine])))
    return tuple(scales)


def _sparsity(coding: Coding, codes: Codes) -> float:
    """How many times as many values would fit between the least and the greatest of a block, as a power of two."""
    if len(codes) < 2 or coding.form is Form.FLOAT:
        return 0.0
    return math.log2(int(codes[-1]) - int(codes[0]) + 1) - math.log2(len(codes))


def _nearest(sample: BlockSample, sampled: Sequence[Partition]) -> list[int]:
    """For each partition of the table, which of those that have sampled blocks is most like it; itself if it has."""
    order = {partition: place for place, partition in enumerate(sample.partitions)}
    places = np.array([order[each] for each in sampled])
    looks = np.array([sample.looks[each] for each in sampled])
    own = {partition: number for number, partition in enumerate(sampled)}
    return [
        own[partition] if partition in own else _most_like(sample.looks.get(partition), looks, np.abs(places - place))
        for partition, place in order.items()
    ]


def _most_like(look: Look | None, looks: npt.NDArray[np.float64], steps: npt.NDArray[np.int64]) -> int:
    unlike = np.zeros(len(looks)) if look is None else np.floor(_STEPS * np.abs(looks - look).max(axis=1))
    return int(np.lexsort((steps, unlike))[0])
