"""Ranges for a global range table: each partition's own, and the list that all share (GRT, 4.1 and 4.2.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sidestep.errors import SidestepError
from sidestep.synopsis.grtpopularity import Popularity
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import Codes


def sub_partition(codes: Codes, most: int, popularity: Popularity) -> CodeRanges:
    """The ranges of one partition: cut at the ``most - 1`` most popular gaps between its ascending, distinct codes.

    No other cut into so many ranges encloses less popularity (equation 2), since each gap counts by itself. One pass
    over the values and a selection of the largest; gaps that nothing asks for are not worth a cut.

    >>> from sidestep.predicate.types import LONG
    >>> from sidestep.synopsis.values.codes import Coding
    >>> from sidestep.synopsis.grtpopularity import uniform
    >>> list(sub_partition(np.array([1, 3, 6, 8, 9, 13], dtype=np.uint64), 3, uniform(Coding(LONG))))
    [(1, 3), (6, 9), (13, 13)]
    """
    return cut(CodeRanges(codes, codes), most, popularity)


def cut(held: CodeRanges, most: int, popularity: Popularity) -> CodeRanges:
    """:func:`sub_partition` of what may itself be ranges, as when partitions are taken together."""
    if most < 1:
        raise SidestepError(f"A partition has at least one range, not {most}.")
    if not len(held):
        return held
    before = np.flatnonzero(held.lows[1:] - held.highs[:-1] > np.uint64(1))
    costs = popularity.of(held.highs[before] + np.uint64(1), held.lows[before + 1] - np.uint64(1))
    before, costs = before[costs > 0], costs[costs > 0]
    if len(before) > most - 1:
        before = np.sort(before[np.argpartition(-costs, most - 2)[: most - 1]]) if most > 1 else before[:0]
    return CodeRanges(held.lows[np.append(0, before + 1)], held.highs[np.append(before, len(held) - 1)])


def integrate(ranges: Sequence[CodeRanges]) -> CodeRanges:
    """The ranges of all partitions (rGRT) as one list of mutually exclusive ones (xGRT).

    Taken by their ends, smallest first, as in interval scheduling; of each range, only what none before it covers is
    added, in pieces. So each piece lies wholly inside or wholly outside of every range that comes later.

    >>> u = lambda *codes: np.array(codes, dtype=np.uint64)
    >>> list(integrate([CodeRanges(u(1, 7, 15), u(4, 10, 16)), CodeRanges(u(2), u(18))]))
    [(1, 4), (5, 6), (7, 10), (11, 14), (15, 16), (17, 18)]
    """
    none = np.zeros(0, dtype=np.uint64)
    lows = np.concatenate([none, *(each.lows for each in ranges)])
    highs = np.concatenate([none, *(each.highs for each in ranges)])
    order = np.lexsort((lows, highs))
    pieces: list[tuple[int, int]] = []
    covered: list[tuple[int, int]] = []  # disjoint, ascending, grown together: only its end is ever looked at
    for low, high in zip(lows[order].tolist(), highs[order].tolist(), strict=True):
        begin, beyond = low, high
        while covered and covered[-1][1] >= low:
            first, last = covered.pop()
            if last < beyond:
                pieces.append((last + 1, beyond))
            beyond = first - 1
            begin = min(begin, first)
        if beyond >= low:
            pieces.append((low, beyond))
        covered.append((begin, high))
    pieces.sort()
    found = np.array(pieces, dtype=np.uint64).reshape(-1, 2)
    return CodeRanges(found[:, 0].copy(), found[:, 1].copy())
