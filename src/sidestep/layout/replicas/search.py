"""The search for a scheme of layouts within a storage budget (thesis, 5.5.4): always the best transformation next."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from sidestep.errors import SidestepError
from sidestep.layout.columns.costs import Group
from sidestep.layout.columns.local import feature_weights
from sidestep.layout.columns.queries import ColumnWorkload, Numbers
from sidestep.layout.replicas.costs import LayoutReads, Retrieval, layout_reads, retrieve
from sidestep.layout.replicas.paths import PathCost
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.schemes import Cells, ColumnNumbers, FeatureNumbers, ReplicaLayout, ReplicaScheme
from sidestep.layout.replicas.transform import initial_layouts, merge, merge_replicate, relevant_columns, replicate
from sidestep.layout.vectors import Bits
from sidestep.layout.weights import Floats

SEARCH_COST = PathCost(row_id=2.0)
"""A row id is read and sorted by, as in the search for column groups."""
MOST_FEATURES = 6
"""Features of a layout that are tried for ``replicate`` one at a time: those of most weight there."""
MOST_REQUESTS = 40
"""Sets of columns that queries read together which are tried as layouts of their own: those that cost most."""
LEAST_STORAGE = (0.002, 0.2)
"""The storage that an operation is taken to need at least: a search for each, and the best of them counts. With little,
merges come first, which need none; with much, what saves most comes first, whatever it takes."""
HARDLY = 0.005
"""A scheme that costs more by this share costs hardly more."""
SPREAD = 0.02
"""By how much of its rows a layout may grow for a further feature that its queries can use."""


@dataclass(frozen=True)
class RatedScheme:
    """A scheme, what the workload costs on it, and what it takes to store, as a multiple of the table."""

    scheme: ReplicaScheme
    cost: float
    storage: float


@dataclass(frozen=True)
class ReplicaSearch:
    """What a search came to."""

    best: RatedScheme
    path: tuple[RatedScheme, ...]
    """The scheme after each transformation, from the first on."""
    others: tuple[tuple[RatedScheme, ...], ...] = ()
    """The paths of climbs that came to less."""

    @property
    def candidates(self) -> tuple[RatedScheme, ...]:
        """The schemes to choose from by better means than the search has, the best first.

        They are what each climb began with, the best that it came to, the one of fewest layouts that is hardly dearer,
        and the best that takes half of the storage which that one takes beyond the table: the last transformations
        often save next to nothing, and every layout has to be written.
        """
        found: dict[ReplicaScheme, RatedScheme] = {}
        for path in (self.path, *self.others):
            best = min(path, key=lambda one: one.cost)
            nearly = [one for one in path if one.cost <= best.cost * (1 + HARDLY)]
            fewest = min(nearly, key=lambda one: (len(one.scheme.layouts), one.storage, one.cost))
            half = [one for one in path if one.storage - 1 <= (best.storage - 1) / 2]
            spare = min(half, key=lambda one: one.cost, default=path[0])
            found |= {one.scheme: one for one in (best, fewest, spare, path[0])}
        return tuple(sorted(found.values(), key=lambda one: one.cost))

    @property
    def frontier(self) -> tuple[RatedScheme, ...]:
        """The schemes that cost less than any other that takes as little storage, from the least storage on."""
        best, kept = math.inf, []
        seen = (one for path in (self.path, *self.others) for one in path)
        for one in sorted(seen, key=lambda one: (one.storage, one.cost)):
            if one.cost < best:
                best = one.cost
                kept.append(one)
        return tuple(kept)


def check_budget(budget: float) -> float:
    """Refuse what is no multiple of a table's size from 1 on."""
    if not budget >= 1:
        raise SidestepError(
            f"The storage budget is {budget:g} times the table: it must be at least 1, as every cell is stored once."
        )
    return budget


def search_replicas(
    workload: ColumnWorkload,
    rows: LayoutRows,
    budget: float,
    groups: Sequence[Group] = (),
    *,
    seconds: float = math.inf,
) -> ReplicaSearch:
    """The cheapest scheme within a budget that transformations come across.

    Contract: the scheme is complete, takes at most ``budget`` times the cells of the table, and by the model costs no
    more than the schemes it begins with. With a budget of 1 nothing is stored twice. ``groups``, if given, are column
    groups to begin with; else each column begins for itself (5.5.1).

    What the text leaves open or gets wrong, and what is done here:

    - ``merge`` of layouts that no feature has in common is tried too, where some query reads both: queries that no
      feature subsumes read such layouts together.
    - A transformation must pay: the best is the one that saves most for the storage that it takes, or simply the one
      that saves most; a search for each (:data:`LEAST_STORAGE`). Steps that save nothing would eat up the budget.
    - What no path leads to any more is dropped after each step, so that its storage can be used for the next.
    - Every transformation is held against the budget, ``merge`` as well.
    - Beside single features, all that a set of queries requests is replicated at once: the columns that they read, in
      rows of the features that they use. One feature of twenty that conflict saves next to nothing by itself.

    A rating is kept until its layouts are gone. It gets stale as the scheme changes, so the best is rated again before
    it is taken, and taken only if it is still the best: most of the others are never rated again. After ``seconds``
    of this thread's own time no further transformation begins: what was found until then counts.
    """
    found = []
    for least in LEAST_STORAGE:
        climb = _Transformations(workload, rows, budget, least)
        begin = [(group, climb.features_of(group)) for group in groups] if groups else climb.initial
        found.append(climb.run(begin, seconds / len(LEAST_STORAGE)))
    best = min(found, key=lambda each: each.best.cost)
    return replace(best, others=tuple(each.path for each in found if each is not best))


@dataclass(frozen=True)
class Operation:
    """A transformation of the layouts that it needs; without any, of whatever there is."""

    name: str
    needs: tuple[Cells, ...]
    make: Callable[[tuple[Cells, ...]], tuple[Cells, ...]]


class Climb:
    """A greedy search: the scheme of an iteration, what each query costs on it, and the operations that may come next.

    What they are is for subclasses to say: :meth:`always` gives those that may be applied to any scheme,
    :meth:`involving` those that a new layout has a part in.
    """

    scheme: ReplicaScheme
    rated: RatedScheme
    costs: Floats

    def __init__(self, workload: ColumnWorkload, rows: LayoutRows, budget: float, least: float = 0.002) -> None:
        self.workload, self.rows, self.budget, self.least = workload, rows, check_budget(budget), least
        self.relevant = relevant_columns(workload)
        self._reads: dict[ReplicaLayout, LayoutReads] = {}
        self._waiting: list[tuple[float, int, int, Operation]] = []
        self._order = itertools.count()
        self._seen: set[tuple[str, tuple[Cells, ...]]] = set()
        self._turn = 0

    def always(self) -> Iterator[Operation]:
        """Operations that need no layout in particular."""
        return iter(())

    def involving(self, cells: Cells) -> Iterator[Operation]:
        """Operations that a layout of the scheme has a part in."""
        return iter(())

    def features_of(self, columns: ColumnNumbers) -> FeatureNumbers:
        """The features that some of these columns are relevant for."""
        return frozenset(at for at, named in enumerate(self.relevant) if named & columns)

    def run(self, cells: Iterable[Cells], seconds: float = math.inf) -> ReplicaSearch:
        """Begin with these layouts, and apply the best operation as long as one pays and time is left."""
        began = time.thread_time()
        self._take(ReplicaScheme.of(len(self.workload.columns), cells, self.rows.count))
        for operation in self.always():
            self._offer(operation)
        path = [self.rated]
        while time.thread_time() - began < seconds and self._step():
            path.append(self.rated)
        return ReplicaSearch(min(path, key=lambda each: each.cost), tuple(path))

    def _take(self, scheme: ReplicaScheme) -> None:
        before: frozenset[Cells] = frozenset(self.scheme.cells) if self._turn else frozenset()
        self._turn += 1
        found = self._retrieve(scheme, np.arange(len(self.workload.weights)))
        pruned = self._prune(scheme, found) if before else scheme
        if pruned != scheme:
            again = self._retrieve(pruned, np.arange(len(self.workload.weights)))
            if again.cost(SEARCH_COST) @ self.workload.weights <= found.cost(SEARCH_COST) @ self.workload.weights:
                scheme, found = pruned, again
        self.scheme, self.costs = scheme, found.cost(SEARCH_COST)
        storage = scheme.storage(self.rows.count, self.rows.total)
        self.rated = RatedScheme(scheme, float(self.costs @ self.workload.weights), storage)
        for cells in scheme.cells:
            if cells not in before:
                for operation in self.involving(cells):
                    self._offer(operation)

    def _step(self) -> bool:
        """Apply the best operation; False if none pays. One that was rated on another scheme is rated again first."""
        while self._waiting:
            _, turn, _, operation = heapq.heappop(self._waiting)
            if not frozenset(operation.needs) <= frozenset(self.scheme.cells):
                self._seen.discard((operation.name, operation.needs))
            elif turn < self._turn:
                self._offer(operation, again=True)
            else:
                scheme = self._apply(operation)
                assert scheme is not None, "it was rated on this very scheme"
                self._take(scheme)
                return True
        return False

    def _offer(self, operation: Operation, again: bool = False) -> None:
        """Rate an operation and put it among those that wait, if it pays."""
        name = operation.name, operation.needs
        if name in self._seen and not again:
            return
        self._seen.add(name)
        scheme = self._apply(operation)
        if scheme is None:
            return
        changed = frozenset(scheme.layouts) ^ frozenset(self.scheme.layouts)
        touched = sorted(frozenset().union(*(layout.columns for layout in changed)))
        mine = np.flatnonzero(self.workload.reads[:, touched].any(axis=1))
        cost = self._retrieve(scheme, mine).cost(SEARCH_COST)
        saved = float((self.costs[mine] - cost) @ self.workload.weights[mine])
        if saved > 0:
            taken = scheme.storage(self.rows.count, self.rows.total) - self.rated.storage
            score = saved / max(taken, self.least)
            heapq.heappush(self._waiting, (-score, self._turn, next(self._order), operation))

    def _apply(self, operation: Operation) -> ReplicaScheme | None:
        """The scheme that an operation makes; None if it is the same, or takes more than the budget."""
        cells = operation.make(self.scheme.cells)
        scheme = ReplicaScheme.of(len(self.workload.columns), cells, self.rows.count)
        fits = scheme.storage(self.rows.count, self.rows.total) <= self.budget + 1e-9
        return scheme if fits and scheme != self.scheme else None

    def _prune(self, scheme: ReplicaScheme, found: Retrieval) -> ReplicaScheme:
        """The scheme without what no path leads to: columns that no query reads there, features that none of them uses.

        Storage that an operation took may be of no use after the next.
        """
        kept = []
        for at, layout in enumerate(scheme.layouts):
            read = found.layout == at
            columns = layout.masters | frozenset(np.flatnonzero(read.any(axis=0)).tolist())
            filters = np.unique(self.workload.filter_of_query[read.any(axis=1)])
            used = frozenset(np.flatnonzero((self.workload.helped[filters] > 0).any(axis=0)).tolist())
            features = layout.features & used or layout.features
            if columns:
                kept.append((columns, features))
        return ReplicaScheme.of(scheme.columns, kept, self.rows.count)

    def _retrieve(self, scheme: ReplicaScheme, queries: Numbers) -> Retrieval:
        """What these queries read of a scheme; layouts that none of them reads are left aside."""
        reads = self.workload.reads[queries]
        asked = frozenset(np.flatnonzero(reads.any(axis=0)).tolist())
        layouts, numbers = [], []
        for number, layout in enumerate(scheme.layouts):
            if layout.columns & asked:
                if layout not in self._reads:
                    self._reads[layout] = layout_reads(self.workload, layout, self.rows)
                known = self._reads[layout]
                layouts.append(LayoutReads(layout, known.rows[queries], known.eligible[queries]))
                numbers.append(number)
        found = retrieve(reads, layouts, SEARCH_COST)
        place = np.array([*numbers, -1], np.intp)
        return replace(found, layout=place[found.layout])


class _Transformations(Climb):
    """The transformations of 5.5.1, and what sets of queries request."""

    @cached_property
    def initial(self) -> tuple[Cells, ...]:
        """A layout for each column."""
        return initial_layouts(len(self.workload.columns), self.relevant)

    def always(self) -> Iterator[Operation]:
        for made in self._requested:
            name = f"request {sorted(made[0])}"
            yield Operation(name, (), lambda layouts, made=made: self._add(layouts, made))  # type: ignore[misc]

    def involving(self, cells: Cells) -> Iterator[Operation]:
        for features in self._replicable(cells):
            name = f"replicate {sorted(features)}"
            yield Operation(name, (cells,), partial(self._replicate, cells, features))
        touched = self._touching(cells[0])
        for other in self.scheme.cells:
            if other != cells and (touched & self._touching(other[0])).any():
                pair = (cells, other) if sorted(cells[0]) <= sorted(other[0]) else (other, cells)
                yield Operation("merge", pair, lambda layouts, pair=pair: merge(layouts, *pair))  # type: ignore[misc]
                yield Operation("merge-replicate", pair, partial(self._merge_replicate, pair))

    def _replicate(self, cells: Cells, features: FeatureNumbers, layouts: tuple[Cells, ...]) -> tuple[Cells, ...]:
        return replicate(layouts, cells, features, self.relevant)

    def _merge_replicate(self, pair: tuple[Cells, Cells], layouts: tuple[Cells, ...]) -> tuple[Cells, ...]:
        return merge_replicate(layouts, *pair, self.relevant)

    def _touching(self, columns: ColumnNumbers) -> Bits:
        return np.asarray(self.workload.reads[:, sorted(columns)].any(axis=1))

    def _replicable(self, cells: Cells) -> Iterator[FeatureNumbers]:
        """What of a layout's features is tried for a layout of their own."""
        columns, features = cells
        if len(features) > 1:
            weights = feature_weights(self.workload, columns)
            for feature in sorted(features, key=lambda at: -weights[at])[:MOST_FEATURES]:
                yield frozenset({feature})
            for _, requested in self._requested:
                if features & requested and not features <= requested:
                    yield features & requested

    def _add(self, layouts: tuple[Cells, ...], made: Cells) -> tuple[Cells, ...]:
        """A further layout; others are rid of the features that only its own queries use."""
        columns, features = made
        reads, asked = self.workload.reads, self.workload.filter_of_query
        served = (reads.sum(axis=1) == reads[:, sorted(columns)].sum(axis=1)) & self.rows.eligible(features)[asked]
        rest = []
        for held, local in layouts:
            others = np.unique(asked[self._touching(held) & ~served])
            used = frozenset(np.flatnonzero((self.workload.helped[others] > 0).any(axis=0)).tolist())
            rest.append((held, local & used or local))
        return (*rest, made)

    @cached_property
    def _requested(self) -> list[Cells]:
        """For each set of columns that queries read together, these and the features of a layout for the queries."""
        classes: dict[bytes, list[int]] = {}
        for at, reads in enumerate(self.workload.reads):
            classes.setdefault(reads.tobytes(), []).append(at)
        heaviest = sorted(classes.values(), key=lambda at: -float(self.costs[at] @ self.workload.weights[at]))
        requested = []
        for queries in heaviest[:MOST_REQUESTS]:
            columns = frozenset(np.flatnonzero(self.workload.reads[queries[0]]).tolist())
            features = cover(self.workload, self.rows, np.unique(self.workload.filter_of_query[queries]))
            if features:
                requested.append((columns, features))
        return requested


def cover(workload: ColumnWorkload, rows: LayoutRows, filters: Numbers) -> FeatureNumbers:
    """Features for a layout that these filters are to read: few rows that have all they want, and what helps to skip.

    Every filter that can be is made eligible, in the way that adds fewest rows. Then further features are taken that
    the filters can use and that hardly add rows.
    """

    def alone(feature: int) -> float:
        return rows.count(frozenset({feature}))

    chosen: set[int] = set()
    for number in filters.tolist():
        if not workload.filters[number]:
            continue
        ways = (frozenset(min(part, key=alone) for part in way) for way in workload.filters[number])
        fewest: FeatureNumbers = min(ways, key=rows.count)
        chosen |= fewest
    if not chosen:
        return frozenset()
    used = np.flatnonzero((workload.helped[filters] > 0).any(axis=0))
    limit = rows.count(frozenset(chosen)) * (1 + SPREAD)
    for feature in sorted(used.tolist(), key=alone):
        if feature not in chosen and rows.count(frozenset(chosen | {feature})) <= limit:
            chosen.add(feature)
    return frozenset(chosen)
