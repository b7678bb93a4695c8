"""What a log asks of a column, and of some partitions of a table: what synopses are judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sidestep.advisor.synopses.groups import BlockGroup
from sidestep.predicate import Column, DataType, IntervalSet, Within
from sidestep.synopsis.skip import kept_by
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges
from sidestep.synopsis.values.codes import GREATEST, Codes, Coding
from sidestep.synopsis.zones.partition_values import partition_values
from sidestep.workload.table import ColumnUsage

Sets = list[tuple[IntervalSet, int]]
"""Sets of values that queries ask for, and how often."""
MOST_QUERIES = 200
FEWEST_SCANS = 8
"""A log of fewer scans is judged by all of them."""
QUERIES = 96
_SHORT = 1000
"""A short range is the thousandth part of what lies between the least and the greatest value of all."""


def asked_sets(asked: ColumnUsage, name: str, type: DataType) -> list[tuple[IntervalSet, int]]:
    """The sets of values that queries ask of a column of this type, most frequent first."""
    sets = [
        pair
        for column, counts in asked.ranges.items()
        if (column.name, column.type) == (name, type)
        for pair in counts.items()
    ]
    return sorted(sets, key=lambda pair: -pair[1])


def popular_sets(asked: ColumnUsage, columns: Mapping[str, DataType]) -> dict[str, list[tuple[IntervalSet, float]]]:
    """What is asked of each column, by which global range tables keep apart what is popular."""
    return {
        of: [(ranges, float(count)) for ranges, count in asked_sets(asked, of, type)] for of, type in columns.items()
    }


def hold_out(sets: Sequence[tuple[IntervalSet, int]]) -> tuple[Sets, Sets]:
    """What synopses may be made by, and what they are judged by: each a half of the scans.

    A log is a sample of what is to come. What was asked once will hardly be asked again, so that is in one half alone;
    what is asked again and again is in both. A log of a few scans is not divided.

    >>> from sidestep.predicate.types import LONG
    >>> often, once, other = (IntervalSet.point(LONG, value) for value in (1, 2, 3))
    >>> made_by, judged_by = hold_out([(often, 7), (once, 1), (other, 1)])
    >>> [count for _, count in made_by], [count for _, count in judged_by]
    ([3, 1], [4, 1])
    """
    if sum(count for _, count in sets) < FEWEST_SCANS:
        return list(sets), list(sets)
    made_by, judged_by, odd = [], [], 0
    for ranges, count in sets:
        half, odd = (count + odd) // 2 if count % 2 else count // 2, (odd + count) % 2
        made_by.append((ranges, half))
        judged_by.append((ranges, count - half))
    return [pair for pair in made_by if pair[1]], [pair for pair in judged_by if pair[1]]


def known_sets(sets: Sequence[tuple[IntervalSet, int]], coding: Coding) -> dict[IntervalSet, CodeRanges]:
    """The sets that queries are judged by, most frequent first, as codes."""
    coded = {ranges: code_ranges(ranges, coding) for ranges, _ in sets[:MOST_QUERIES]}
    return {ranges: codes for ranges, codes in coded.items() if codes is not None}


def asked_of_groups(
    asked: ColumnUsage, column: Column, place: Mapping[IntervalSet, int], groups: Sequence[BlockGroup]
) -> npt.NDArray[np.float64]:
    """How often each set of values is asked of each group: a query that picks partitions asks of those alone."""
    partitions = [dict(partition) for group in groups for partition in group.partitions]
    number = np.arange(len(partitions), dtype=np.int32)
    begins = np.cumsum([0, *(len(group.partitions) for group in groups)])
    weights = np.zeros((len(groups), len(place)))
    for bounds, count in asked.filters.items():
        wanted = dict(bounds)
        if wanted.get(column) not in place:
            continue
        asks = np.ones(len(partitions))
        for other, ranges in wanted.items():
            if other.name in partitions[0]:
                texts = {other.name: [each.get(other.name) for each in partitions]}
                values = partition_values({other.name: other.type}, texts, number)
                mask = kept_by(values, Within(other, ranges))
                asks = asks if mask is None else asks * mask
        means = np.add.reduceat(asks, begins[:-1]) / np.diff(begins)
        weights[:, place[wanted[column]]] += count * means
    return weights


def usual_queries(blocks: Sequence[Codes], count: int = QUERIES, seed: int = 0) -> list[CodeRanges]:
    """Queries to judge by where there is no workload: single values that some block holds, and short ranges from them.

    Blocks count alike, and so do the values in each.
    """
    rng = np.random.default_rng([seed, len(blocks)])
    held = [codes for codes in blocks if len(codes)]
    if not held:
        return []
    least, greatest = min(int(codes[0]) for codes in held), max(int(codes[-1]) for codes in held)
    short = (greatest - least) // _SHORT
    queries = []
    for number in range(count):
        codes = held[int(rng.integers(len(held)))]
        begin = int(codes[int(rng.integers(len(codes)))])
        end = min(begin + short * (number % 2), int(GREATEST))
        queries.append(CodeRanges(np.array([begin], dtype=np.uint64), np.array([end], dtype=np.uint64)))
    return queries
