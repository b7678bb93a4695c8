"""The ranges of a global range table: each partition's own, the list that all share, and that list merged (GRT, 4).

Partitions are cut at their most popular gaps (4.1), all together become one list of mutually exclusive ranges (4.2.1),
and that is merged down to as many as there are bits (4.2.2).

The cost of a table (equation 3) is, over ranges and the partitions that use them, the popularity of what the range
takes in and the partition does not hold. All values of a partition lie in ranges it uses, so the cost is

    sum over ranges r of users(r) × popularity(r)   minus   the popularity of what partitions do hold,

where the latter is the same for every table. Merging two neighbours then costs the popularity of the second for those
that used only the first, and the reverse, and that of the gap between them for all (Example 4.2): the number of users
in the union is all that has to be counted. Users are bit sets, whole numbers in Python, which count and unite quickly.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.synopsis.grt.popularity import Popularity
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import Codes


def sub_partition(codes: Codes, most: int, popularity: Popularity) -> CodeRanges:
    """The ranges of one partition: cut at the ``most - 1`` most popular gaps between its ascending, distinct codes.

    No other cut into so many ranges encloses less popularity (equation 2), since each gap counts by itself. One pass
    over the values and a selection of the largest; gaps that nothing asks for are not worth a cut.

    >>> from sidestep.predicate.types import LONG
    >>> from sidestep.synopsis.values.codes import Coding
    >>> from sidestep.synopsis.grt.popularity import uniform
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


def cut_all(partitions: Sequence[CodeRanges], most: int, popularity: Popularity) -> list[CodeRanges]:
    """All partitions cut at the most popular of all their gaps: ``most`` ranges together, and one each at least.

    A quota for all partitions, not the same one for each (the paper's section 6): a sparse partition keeps more of its
    gaps than a dense one, whose widest are narrower than many that the sparse one would have to close.

    >>> from sidestep.predicate.types import LONG
    >>> from sidestep.synopsis.values.codes import Coding
    >>> from sidestep.synopsis.grt.popularity import uniform
    >>> u = lambda *codes: np.array(codes, dtype=np.uint64)
    >>> held = [CodeRanges(codes, codes) for codes in (u(1, 3, 5, 7), u(10, 50, 90))]
    >>> [list(each) for each in cut_all(held, 4, uniform(Coding(LONG)))]
    [[(1, 7)], [(10, 10), (50, 50), (90, 90)]]
    """
    counts = np.array([len(each) for each in partitions], dtype=np.int64)
    none = np.zeros(0, dtype=np.uint64)
    lows = np.concatenate([none, *(each.lows for each in partitions)])
    highs = np.concatenate([none, *(each.highs for each in partitions)])
    ends = np.cumsum(counts)
    last = np.zeros(len(lows), dtype=np.bool_)
    last[ends[counts > 0] - 1] = True
    before = np.flatnonzero(~last[:-1]) if len(lows) else np.zeros(0, dtype=np.int64)
    before = before[lows[before + 1] - highs[before] > np.uint64(1)]
    costs = popularity.of(highs[before] + np.uint64(1), lows[before + 1] - np.uint64(1))
    before, costs = before[costs > 0], costs[costs > 0]
    cuts = max(0, most - int(np.count_nonzero(counts)))
    if len(before) > cuts:
        before = before[np.argpartition(-costs, cuts)[:cuts]]
    closes = last.copy()
    closes[before] = True
    opens = np.ones_like(closes)
    opens[1:] = closes[:-1]
    found = []
    for begin, end in zip((ends - counts).tolist(), ends.tolist(), strict=True):
        part = slice(begin, end)
        found.append(CodeRanges(lows[part][opens[part]], highs[part][closes[part]]))
    return found


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


Users = list[int]
"""For each range, the partitions that use it, as bits."""
MOST_COLUMNS = 4096
"""More partitions than this share bits with their neighbours while ranges are merged: costs are then nearly right."""


def places(ranges: CodeRanges, codes: Codes) -> npt.NDArray[np.int64]:
    """The range that each code lies in, or -1."""
    at = np.searchsorted(ranges.lows, codes, side="right") - 1
    inside = at >= 0
    inside[inside] = codes[inside] <= ranges.highs[at[inside]]
    return np.where(inside, at, -1)


def ranges_meeting(ranges: CodeRanges, held: CodeRanges) -> npt.NDArray[np.int64]:
    """The ranges that meet what a partition holds; its values are ranges of one each."""
    first = np.searchsorted(ranges.highs, held.lows, side="left")
    last = np.searchsorted(ranges.lows, held.highs, side="right")
    counts = np.maximum(last - first, 0)
    begins = np.cumsum(counts) - counts
    return np.unique(np.repeat(first - begins, counts) + np.arange(int(counts.sum())))


def users(count: int, used_by: Sequence[npt.NDArray[np.int64]]) -> Users:
    """For each of ``count`` ranges its users, from the ranges that each partition uses."""
    columns = min(len(used_by), MOST_COLUMNS)
    partition = np.repeat(np.arange(len(used_by)), [len(each) for each in used_by])
    column = partition * columns // max(1, len(used_by))
    place = np.concatenate([np.zeros(0, dtype=np.int64), *used_by])
    order = np.argsort(place, kind="stable")
    place, column = place[order], column[order]
    found: Users = []
    step = max(1, (1 << 24) // max(1, columns))
    for begin in range(0, count, step):
        part = slice(*np.searchsorted(place, [begin, begin + step]))
        bits = np.zeros((min(step, count - begin), columns), dtype=np.bool_)
        bits[place[part] - begin, column[part]] = True
        found += [int.from_bytes(row.tobytes(), "little") for row in np.packbits(bits, axis=1, bitorder="little")]
    return found


def merge(ranges: CodeRanges, used_by: Users, sizes: Sequence[int], popularity: Popularity) -> list[CodeRanges]:
    """The ranges merged down to each of the ``sizes``, largest size first, always the cheapest pair of neighbours next.

    Ranges that no partition uses are dropped first: they would only separate. Where there are fewer ranges than wanted,
    all are kept. A table of a smaller size continues from the larger one.

    >>> from sidestep.predicate.types import LONG
    >>> from sidestep.synopsis.values.codes import Coding
    >>> from sidestep.synopsis.grt.popularity import uniform
    >>> found = CodeRanges(*(np.array(ends, dtype=np.uint64) for ends in ([1, 8, 30], [4, 9, 39])))
    >>> list(merge(found, [0b01, 0b11, 0b10], [2], uniform(Coding(LONG)))[0])
    [(1, 9), (30, 39)]
    """
    wanted = sorted(sizes, reverse=True)
    if not wanted or wanted[-1] < 1:
        raise SidestepError(f"A table has at least one range, but {wanted[-1] if wanted else 'none'} was asked for.")
    kept = np.flatnonzero(np.array([each != 0 for each in used_by], dtype=np.bool_))
    lows, highs = ranges.lows[kept], ranges.highs[kept]
    state = _Merging(lows, highs, [used_by[at] for at in kept.tolist()], popularity)
    found = []
    for size in wanted:
        state.down_to(size)
        found.append(state.ranges())
    return found


class _Merging:
    """The list of ranges while it is merged: neighbours linked both ways, and a heap of what each pair would cost."""

    def __init__(self, lows: Codes, highs: Codes, used_by: Users, popularity: Popularity) -> None:
        count = len(lows)
        self.lows, self.highs, self.left = lows, highs, count
        self.users = used_by
        self.counts = [each.bit_count() for each in used_by]
        self.popularity: list[float] = popularity.of(lows, highs).tolist()
        touching = lows[1:] - highs[:-1] == 1
        gaps = popularity.of(highs[:-1] + ~touching, lows[1:] - ~touching)
        self.gap: list[float] = [*np.where(touching, 0.0, gaps).tolist(), 0.0]
        """The popularity between a range and the next."""
        self.last = list(range(count))
        """The original range that each one now ends with."""
        self.next = list(range(1, count + 1))
        self.previous = list(range(-1, count - 1))
        self.version = [0] * count
        self.heap = [(self._extra(i, i + 1), i, 0) for i in range(count - 1)]
        heapq.heapify(self.heap)

    def _extra(self, one: int, two: int) -> float:
        """The extra cost of merging two neighbours."""
        together = (self.users[one] | self.users[two]).bit_count()
        only_two, only_one = together - self.counts[one], together - self.counts[two]
        return only_two * self.popularity[one] + only_one * self.popularity[two] + together * self.gap[one]

    def down_to(self, size: int) -> None:
        end = len(self.users)
        while self.left > size:
            _, one, version = heapq.heappop(self.heap)
            if version != self.version[one]:
                continue  # this pair has changed since
            two = self.next[one]
            self.users[one] |= self.users[two]
            self.counts[one] = self.users[one].bit_count()
            self.popularity[one] += self.gap[one] + self.popularity[two]
            self.gap[one] = self.gap[two]
            self.last[one] = self.last[two]
            self.next[one] = self.next[two]
            self.users[two] = 0
            self.version[two] = -1
            self.left -= 1
            after, before = self.next[one], self.previous[one]
            self.version[one] += 1
            if after < end:
                self.previous[after] = one
                heapq.heappush(self.heap, (self._extra(one, after), one, self.version[one]))
            if before >= 0:
                self.version[before] += 1
                heapq.heappush(self.heap, (self._extra(before, one), before, self.version[before]))

    def ranges(self) -> CodeRanges:
        begins = [i for i, version in enumerate(self.version) if version >= 0]
        ends = [self.last[i] for i in begins]
        return CodeRanges(self.lows[begins], self.highs[ends])
