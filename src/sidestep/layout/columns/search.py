"""The search for column groups (thesis, 4.4.4): from single columns up, always the merge that costs least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sidestep.layout.columns.costs import CostModel, Group, cost_within, reading
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.vectors import Bits
from sidestep.layout.weights import Floats

MOST_GROUPS = 100
"""Groups that a search begins with at most: a wide table has many columns that few queries read."""
MOST_EXACT = 4
"""Merges that are worked out exactly in each iteration at most: an estimate is only believed if it is borne out."""


class GroupRows(Protocol):
    """What is asked of groups during a search: see :class:`~.rows.RowsByFeatures`."""

    def exact(self, group: Group) -> Floats:
        """For each filter, the rows that it reads of the group."""

    def estimate(self, group: Group) -> Floats:
        """About the same in a fraction of the time; too many rather than too few."""

    def least(self) -> Floats:
        """For each filter, rows that it reads of any group at least."""


@dataclass(frozen=True)
class Scheme:
    """A division of the columns into groups, and what the workload costs on it."""

    groups: tuple[Group, ...]
    """By their least column."""
    cost: float

    @classmethod
    def of(cls, groups: Sequence[Group], workload: ColumnWorkload, rows: GroupRows, model: CostModel) -> Scheme:
        """The scheme of these groups with its exact cost."""
        ordered = tuple(sorted(groups, key=min))
        return cls(ordered, reading(workload, ordered, rows.exact, model).total(workload.weights))

    def names(self, workload: ColumnWorkload) -> tuple[tuple[str, ...], ...]:
        """The groups by the names of their columns."""
        return tuple(tuple(workload.columns[at] for at in sorted(group)) for group in self.groups)


@dataclass(frozen=True)
class Search:
    """What a search came to."""

    best: Scheme
    single: Scheme
    """Each column for itself (GSOP-single): one end of the spectrum."""
    together: Scheme
    """All columns in one group (SOP): the other end."""
    path: tuple[Scheme, ...]
    """The scheme after each merge."""


def search(workload: ColumnWorkload, rows: GroupRows, model: CostModel | None = None) -> Search:
    """The best column groups that merging from single columns up comes across.

    Contract: each column is in one group. By the model and exact rows, the best scheme costs no more than either end
    of the spectrum. Columns that the same queries read begin as one group: they would be arranged alike, so to part
    them costs row ids and saves nothing; columns that no query reads are such a group too. Of a wide table the columns
    that fewest queries read are joined at once.

    In each iteration the pair is merged that leaves the workload cheapest. Three things keep that quick:

    1. Only pairs that some query reads together are tried: no other merge can save a row id.
    2. A merged group is never better for a query than the better half was for it, or hardly ever, so a pair is first
       rated as if it were as good: no estimate is made of pairs that come off badly even so.
    3. Estimates (:meth:`GroupRows.estimate`) sort what is left, and the first few are worked out exactly. An estimate
       is an upper bound and often far from tight, so what counts is how much it grows by the merge.

    What is exact is kept for later iterations, and the best iteration is returned, not the last.
    """
    model = model or CostModel()
    columns = len(workload.columns)
    single = Scheme.of([frozenset({at}) for at in range(columns)], workload, rows, model)
    together = Scheme.of([frozenset(range(columns))] if columns else [], workload, rows, model)
    state = _State(workload, rows, model, _join_rare(workload, alike(workload), MOST_GROUPS))
    path = [Scheme.of(state.groups, workload, rows, model)]
    while state.merge_best():
        path.append(Scheme.of(state.groups, workload, rows, model))
    return Search(_cheapest([together, *reversed(path), single]), single, together, tuple(path))


def rate_again(
    found: Search,
    workload: ColumnWorkload,
    rows: GroupRows,
    model: CostModel | None = None,
    *,
    most: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Scheme:
    """The cheapest of the schemes that a search came across, by other rows than it went by.

    A search is quick where groups are rated by their features alone. What a group is worth if it is arranged by all
    means takes seconds to find out, which is little for the few groups on the way. With ``most``, only so many schemes
    of the way are rated, those first that the search found cheapest; ``stop`` is asked before each further one. The two
    ends of the spectrum are always rated, at last, when most groups of a scheme that is worse need not be looked at: so
    the result is never worse than either by these rows too.
    """
    model = model or CostModel()
    least = rows.least()
    ranked = {scheme.groups: scheme for scheme in sorted(found.path, key=lambda scheme: scheme.cost)}
    best: Scheme | None = None
    for number, scheme in enumerate([*list(ranked.values())[:most], found.together, found.single]):
        is_end = scheme in (found.together, found.single)
        if not is_end and number and stop():
            continue
        limit = np.inf if best is None else best.cost
        cost = cost_within(workload, scheme.groups, rows.exact, least, model, limit)
        if cost is not None and (best is None or (cost, len(scheme.groups)) < (best.cost, len(best.groups))):
            best = Scheme(scheme.groups, cost)
    assert best is not None, "the first has no limit to keep to"
    return best


def _cheapest(schemes: Sequence[Scheme]) -> Scheme:
    """Of equal costs the first, which has the fewest groups: fewer files to write and to open."""
    return min(schemes, key=lambda scheme: scheme.cost)


def alike(workload: ColumnWorkload) -> list[Group]:
    """Columns that the same queries read, together; those that no query reads too."""
    classes: dict[bytes, list[int]] = {}
    for at in range(len(workload.columns)):
        classes.setdefault(workload.reads[:, at].tobytes(), []).append(at)
    return [frozenset(members) for members in classes.values()]


def _join_rare(workload: ColumnWorkload, groups: list[Group], most: int) -> list[Group]:
    """At most so many groups: those that fewest queries read join the group that most of these queries read too.

    How they are grouped hardly matters to the workload, but each would be tried with every other.
    """
    touched = np.array([workload.reads[:, min(group)] for group in groups], np.float64)
    while len(groups) > most:
        weight = touched @ workload.weights
        weight[weight == 0] = np.inf  # what no query reads stays apart
        rare = int(weight.argmin())
        shared = (touched * touched[rare]) @ workload.weights / np.maximum(1e-9, np.minimum(weight, 1e300))
        shared[rare] = -1
        joined = int(shared.argmax())
        groups[joined] |= groups[rare]
        touched[joined] = np.maximum(touched[joined], touched[rare])
        del groups[rare]
        touched = np.delete(touched, rare, axis=0)
    return groups


class _State:
    """The groups of an iteration, and for each query what it reads of them."""

    def __init__(self, workload: ColumnWorkload, rows: GroupRows, model: CostModel, groups: list[Group]) -> None:
        self.workload, self.rows, self.model, self.groups = workload, rows, model, groups
        self.widths = model.widths(len(workload.columns))
        self._read = [self._exact(group) for group in groups]
        self._cells = [self._cells_of(group) for group in groups]

    def merge_best(self) -> bool:
        """Merge the pair after which the workload costs least; False if no two groups are read together."""
        read, cells = np.array(self._read), np.array(self._cells)
        totals = _Totals(read, cells, self.model, self.workload.weights)
        waiting = sorted(totals.optimistic())
        rated: list[tuple[float, bool, tuple[int, int]]] = []
        tried = 0
        while waiting or rated:
            # The best so far is only the best if no pair that is still to be rated could be better.
            while waiting and (not rated or waiting[0][0] < rated[0][0]):
                _, pair = waiting.pop(0)
                rated.append((totals.change(pair, self._expected(pair)), False, pair))
                rated.sort()
            _, is_exact, pair = rated.pop(0)
            if is_exact or tried == MOST_EXACT:
                self._merge(pair)
                return True
            tried += 1
            exact = self._exact(self.groups[pair[0]] | self.groups[pair[1]])
            rated.append((totals.change(pair, exact), True, pair))
            rated.sort()
        return False

    def _expected(self, pair: tuple[int, int]) -> Floats:
        """The rows that each query is expected to read of a merged pair: the worse half, and the estimate's growth."""
        one, other = (self.groups[at] for at in pair)
        asked = self.workload.filter_of_query
        merged, *halves = (self.rows.estimate(group)[asked] for group in (one | other, one, other))
        touched = [self._cells[at] > 0 for at in pair]
        before = np.maximum(*(np.where(mine, half, 0) for mine, half in zip(touched, halves, strict=True)))
        known = np.maximum(*(np.where(mine, self._read[at], 0) for mine, at in zip(touched, pair, strict=True)))
        return np.asarray(np.minimum(merged, known + np.maximum(0, merged - before)))

    def _merge(self, pair: tuple[int, int]) -> None:
        one, other = pair
        group = self.groups[one] | self.groups[other]
        self.groups[one], self._read[one], self._cells[one] = group, self._exact(group), self._cells_of(group)
        del self.groups[other], self._read[other], self._cells[other]

    def _exact(self, group: Group) -> Floats:
        return self.rows.exact(group)[self.workload.filter_of_query]

    def _cells_of(self, group: Group) -> Floats:
        """What a row of the group costs each query; 0 for those that read none of it."""
        members = sorted(group)
        among = self.workload.reads[:, members]
        # A column may cost nothing, and still be read.
        return np.where(among.any(axis=1), np.maximum(among @ self.widths[members], np.finfo(float).tiny), 0)


class _Totals:
    """What queries cost, and how that changes if two groups are merged."""

    def __init__(self, read: Floats, cells: Floats, model: CostModel, weights: Floats) -> None:
        self.read, self.cells, self.weights = read, cells, weights
        self.touched: Bits = cells > 0
        self.model = model
        self.overhead = np.where(self.touched, model.overhead(read), 0)
        self.groups = self.touched.sum(axis=0)
        self.join = self.overhead.sum(axis=0)
        self.paid = np.where(self.groups > 1, self.join, 0)

    def optimistic(self) -> list[tuple[float, tuple[int, int]]]:
        """The pairs that some query reads together, with the change of costs if both stayed as good as they are."""
        pairs = []
        for one in range(len(self.read)):
            mine = np.flatnonzero(self.touched[one])
            others = one + 1 + np.flatnonzero(self.touched[one + 1 :, mine].any(axis=1))
            if not len(others):
                continue
            both = self.touched[np.ix_(others, mine)]
            first, second = self.read[one, mine], self.read[np.ix_(others, mine)]
            merged = np.maximum(first, second)
            cells = self.cells[one, mine] * (merged - first) + self.cells[np.ix_(others, mine)] * (merged - second)
            join = self.join[mine] - self.overhead[one, mine] - self.overhead[np.ix_(others, mine)]
            join = np.where(self.groups[mine] > 2, join + self.model.overhead(merged), 0) - self.paid[mine]
            changes = np.where(both, cells + join, 0) @ self.weights[mine]
            pairs += [(float(change), (one, int(other))) for change, other in zip(changes, others, strict=True)]
        return pairs

    def change(self, pair: tuple[int, int], merged: Floats) -> float:
        """How the cost of the workload changes if queries read so many rows of the merged pair."""
        one, other = pair
        mine = np.flatnonzero(self.touched[one] | self.touched[other])
        read = merged[mine]
        cells = sum(self.cells[at, mine] * (read - self.read[at, mine]) for at in pair)
        groups = self.groups[mine] - (self.touched[one, mine] & self.touched[other, mine])
        join = self.join[mine] - self.overhead[one, mine] - self.overhead[other, mine] + self.model.overhead(read)
        return float((cells + np.where(groups > 1, join, 0) - self.paid[mine]) @ self.weights[mine])
