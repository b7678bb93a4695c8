"""The exchange itself: which blocks each table still keeps, what was asked of its columns, and sending to the next."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from time import thread_time
from typing import NamedTuple

import numpy as np

from sidestep.predicate import Column, Op
from sidestep.prune.dips.carry import MOST_CONVERTED, carry_ranges, compact, converts, recode
from sidestep.prune.dips.column_ranges import NOTHING, ColumnRanges, column_ranges
from sidestep.prune.dips.join_graph import JoinGraph, Link
from sidestep.prune.dips.model import UNKNOWN, Dip, InducedOptions, TableView, Values
from sidestep.prune.dips.schedule import ExchangeStep
from sidestep.synopsis import Catalog, Mask
from sidestep.synopsis.values.code_ranges import CodeRanges, intersect, joined
from sidestep.synopsis.values.codes import Coding


class _Route(NamedTuple):
    """How ranges go along a link: from which coding to which, and at most how many."""

    coding: Coding
    into: Coding
    limit: int


OWN = -1
"""In the place of an asking node: the query itself, whose predicates ask something of a column too."""


class Exchange:
    """The state of all nodes of a join graph while predicates go between them; blocks are only ever removed."""

    def __init__(
        self,
        graph: JoinGraph,
        views: Mapping[int, TableView],
        kept: Mapping[int, Sequence[Mask]],
        options: InducedOptions,
    ) -> None:
        self.graph = graph
        self.views = views
        self.kept = {node: [mask.copy() for mask in masks] for node, masks in kept.items()}
        self.options = options
        self.bounds: dict[tuple[int, str], Values] = {}
        """What the rows of a node must hold in a column to matter, by all that was asked of it so far."""
        self.asked: dict[tuple[int, str], dict[int, Values]] = {}
        """The same by who asked for it."""
        self.dips: list[Dip] = []
        self.stopped = False
        self.emptied = False
        """Whether blocks were dropped that an empty input elsewhere makes irrelevant."""
        self.removed = 0
        self.progress = 0
        """Grows whenever a further exchange might do more: with blocks removed, and where there are none to remove."""
        self.lossy = False
        self._until = thread_time() + options.seconds
        self._collections = _full_collections()
        self._changes = [0] * len(graph.nodes)
        """How often the blocks of each node became fewer."""
        self._asked_changes: dict[tuple[int, str], dict[int, int]] = {}
        """How often something new was asked of a column, by whom."""
        self._sent: dict[int, tuple[int, int]] = {}
        """By the identity of a link, the state of its origin when something was last sent along it."""
        self._held: dict[tuple[int, str], tuple[int, Values]] = {}
        self._codings: dict[tuple[int, str], Coding] = {}
        self._routes: dict[int, _Route] = {}
        """By the identity of a link."""
        self._columns: dict[tuple[int, str], tuple[ColumnRanges | None, ...]] = {}
        self._rows: dict[int, tuple[Catalog, Mask]] = {}
        """Of small tables, every row as a block, and those that the query's own predicates leave."""
        self._impossible: set[int] = set()
        """Nodes of which something was asked that no row satisfies."""
        self._links: dict[tuple[int, int], list[Link]] = {}
        for link in graph.links:
            self._links.setdefault((link.origin, link.target), []).append(link)

    def limit_by_rows(self, node: int, rows: Catalog, kept: Mask) -> None:
        """Take what a small table holds from those of its rows that its own predicates leave."""
        self._rows[node] = rows, kept

    # ---- what a node holds

    def holds(self, node: int, column: Column, reader: int = OWN) -> Values:
        """What the rows of a node that may matter hold in a column (DataPred, not yet compacted).

        What the reader itself has asked of the column is left out: told back to it, it would rule out nothing, but use
        up the ranges that a predicate may have.
        """
        is_scan = self.graph.nodes[node].scan is not None
        known = self._held.get((node, column.name)) if is_scan else None
        if known is None or known[0] != self._changes[node]:
            known = (
                self._changes[node],
                self._held_by_blocks(node, column) if is_scan else self._held_by_inputs(node, column),
            )
            self._held[node, column.name] = known
        values = known[1]
        for asker, asked in self.asked.get((node, column.name), {}).items():
            if asker != reader or asker == OWN:
                ranges = asked.ranges if values.says_nothing else intersect(values.ranges, asked.ranges)
                values = Values(ranges, values.nulls and asked.nulls)
        return values

    def is_void(self, node: int) -> bool:
        """Whether no row of a scan can matter: it keeps no block, or nothing satisfies what was asked of it."""
        view = self.views.get(node)
        if view is None or not view.complete:
            return node in self._impossible
        if len(view.catalogs) == 1 and not all((self.kept[node][0] & part).any() for part in view.catalogs[0].parts):
            return True  # what is left of a row in other column groups finds no partner there
        return node in self._impossible or not any(mask.any() for mask in self.kept[node])

    def _held_by_blocks(self, node: int, column: Column) -> Values:
        if self.is_void(node):
            return Values(NOTHING, False)
        view = self.views.get(node)
        if view is None or not view.complete:
            return UNKNOWN
        lows, highs, nulls = [NOTHING.lows], [NOTHING.highs], False
        coding = self.coding(node, column)
        for known, kept in zip(self._ranges(node, column), self.kept[node], strict=True):
            if not kept.any():
                continue
            if known is not None and len(view.catalogs) == 1 and view.catalogs[0].parts:
                return _held_by_parts(known, [kept & part for part in view.catalogs[0].parts], coding)
            ranges = None if known is None else recode(known.union(kept), known.coding, coding)
            if known is None or ranges is None:
                return UNKNOWN
            if len(view.catalogs) == 1:
                nulls = bool((known.may_be_null & kept).any())
                return self._limited_by_rows(node, column, Values(ranges, nulls))
            lows.append(ranges.lows)
            highs.append(ranges.highs)
            nulls = nulls or bool((known.may_be_null & kept).any())
        return Values(joined(np.concatenate(lows), np.concatenate(highs)), nulls)

    def _limited_by_rows(self, node: int, column: Column, values: Values) -> Values:
        """What a table's blocks hold, less what none of the rows holds that may matter.

        That rests on the table itself, as what its blocks hold does: it is only sent to others, and never asked of it.
        """
        rows, kept = self._rows.get(node, (None, None))
        known = None if rows is None else column_ranges(rows, self.graph.table_column(node, column))
        if known is None or kept is None:
            return values
        ranges = recode(known.union(kept), known.coding, self.coding(node, column))
        if ranges is None:
            return values
        nulls = values.nulls and bool((known.may_be_null & kept).any())
        return Values(intersect(values.ranges, ranges), nulls)

    def _held_by_inputs(self, node: int, column: Column) -> Values:
        """What the inputs of a union put into a column together."""
        lows, highs, nulls = [NOTHING.lows], [NOTHING.highs], False
        for link in self.graph.nodes[node].members[column.name]:
            values = None if link is None else self._carry(link, self.holds(link.origin, link.source.column))
            if values is None:
                return UNKNOWN
            lows.append(values.ranges.lows)
            highs.append(values.ranges.highs)
            nulls = nulls or values.nulls
        return Values(joined(np.concatenate(lows), np.concatenate(highs)), nulls)

    def coding(self, node: int, column: Column) -> Coding:
        """How ranges of a node's column are coded: as in its catalogs if these agree."""
        known = self._codings.get((node, column.name))
        if known is None:
            codings = {ranges.coding for ranges in self._ranges(node, column) if ranges is not None}
            known = codings.pop() if len(codings) == 1 else Coding(column.type)
            self._codings[node, column.name] = known
        return known

    def _ranges(self, node: int, column: Column) -> tuple[ColumnRanges | None, ...]:
        """What each catalog of a node knows of a column."""
        ranges = self._columns.get((node, column.name))
        if ranges is None:
            view, own = self.views.get(node), self.graph.table_column(node, column)
            ranges = () if view is None else tuple(column_ranges(catalog, own) for catalog in view.catalogs)
            self._columns[node, column.name] = ranges
        return ranges

    def _route(self, link: Link) -> _Route:
        route = self._routes.get(id(link))
        if route is None:
            coding, into = self.coding(link.origin, link.source.column), self.coding(link.target, link.comparand.column)
            limit = self.options.max_ranges
            if converts(coding, link.source, link.comparand, into):
                limit = min(limit, MOST_CONVERTED)
            self._routes[id(link)] = route = _Route(coding, into, limit)
        return route

    def _carry(self, link: Link, values: Values) -> Values | None:
        if values.says_nothing:
            return None
        route = self._route(link)
        ranges = carry_ranges(values.ranges, route.coding, link.source, link.op, link.comparand, route.into)
        nulls = link.op is Op.NULL_SAFE and (values.nulls or link.null_added)
        return None if ranges is None else Values(ranges, nulls)

    # ---- sending

    def run(self, steps: Iterable[ExchangeStep], number: int) -> None:
        """Carry out a schedule's steps, as its round of that number."""
        for step in steps:
            for _ in range(self.options.kappa if step.settles else 1):
                before = self.progress
                for origin in sorted(step.origins):
                    for target in sorted(step.targets):
                        for link in self._links.get((origin, target), ()):
                            self.send(link, number, step.epoch)
                            if self.stopped:
                                return
                if self.progress == before:
                    break

    def run_naively(self) -> None:
        """Send along every link, over and over, until that removes nothing more."""
        for number in range(1, 1_000):
            before = self.progress
            for link in self.graph.links:
                self._sent.pop(id(link), None)
                self.send(link, number, 1)
                if self.stopped:
                    return
            if self.progress == before:
                return

    def send(self, link: Link, number: int, epoch: int) -> None:
        """Derive a predicate from a node and prune another by it, unless the node is as it was when it last did."""
        state = self._state(link)
        if self._sent.get(id(link)) == state:
            return
        if thread_time() > self._until and self._is_over():
            self.stopped = True
            return
        self._sent[id(link)] = state
        if not link.down:
            self._changes[link.target] += 1
            return
        values = self.holds(link.origin, link.source.column, link.target)
        if values.says_nothing:
            return
        coding, into, limit = self._route(link)
        full_count, ranges = len(values.ranges), compact(coding, values.ranges, limit)
        message = self._carry(link, Values(ranges, values.nulls))
        if message is None:
            return
        self.lossy = self.lossy or (full_count > limit and len(ranges) == limit)
        removed = self.receive(link.target, link.comparand.column, message, link.origin)
        self.removed += removed
        self.progress += removed
        self.dips.append(
            Dip(
                origin=link.origin,
                target=link.target,
                origin_column=self.graph.table_column(link.origin, link.source.column),
                column=self.graph.table_column(link.target, link.comparand.column),
                source=link.source.column,
                number=link.comparand.column,
                full_count=full_count,
                codes=message.ranges,
                coding=into,
                nulls=message.nulls,
                round=number,
                step=epoch,
                removed=removed,
            )
        )

    def _is_over(self) -> bool:
        """Whether the time that ran out went to the exchange.

        Python may have stopped to collect garbage, in this thread as in any: with much in memory that takes as long as
        all the time there is, and no predicate would come of it. Then the time begins anew.
        """
        collections = _full_collections()
        if collections == self._collections:
            return True
        self._collections = collections
        self._until = thread_time() + self.options.seconds
        return False

    def _state(self, link: Link) -> tuple[int, int]:
        """What a link would carry changes only with this: its origin's blocks, what others asked of that column."""
        asked = self._asked_changes.get((link.origin, link.source.column.name), {})
        return self._changes[link.origin], sum(times for asker, times in asked.items() if asker != link.target)

    def receive(self, node: int, column: Column, asked: Values, asker: int = OWN) -> int:
        """Ask something of a node's column; how many blocks that rules out (Satisfy)."""
        by_asker = self.asked.setdefault((node, column.name), {})
        by_asker[asker] = _intersect(by_asker.get(asker), asked)
        bound = self.bounds.get((node, column.name))
        asked = _intersect(bound, asked)
        if bound is not None and asked.nulls == bound.nulls and _equal(asked.ranges, bound.ranges):
            return 0
        self.bounds[node, column.name] = asked
        times = self._asked_changes.setdefault((node, column.name), {})
        times[asker] = times.get(asker, 0) + 1
        if asked.none:
            self._impossible.add(node)
            self._changes[node] += 1
        view = self.views.get(node)
        self.progress += view is None or not view.complete
        if view is None or (asker == OWN and not asked.none):
            return 0  # the query's own predicates have been held against the blocks already
        removed, coding = 0, self.coding(node, column)
        for known, kept in zip(self._ranges(node, column), self.kept[node], strict=True):
            before = int(np.count_nonzero(kept))
            if asked.none:
                kept[:] = False
            elif known is not None and before:
                wanted = recode(asked.ranges, coding, known.coding)
                if wanted is not None:
                    kept &= known.meeting(wanted, asked.nulls)
            removed += before - int(np.count_nonzero(kept))
        self._changes[node] += removed > 0
        return removed

    def drop(self, node: int) -> None:
        """Remove all blocks of a scan whose rows matter to no result."""
        for kept in self.kept.get(node, ()):
            removed = int(np.count_nonzero(kept))
            kept[:] = False
            self.removed += removed
            self.emptied = self.emptied or removed > 0
            self._changes[node] += removed > 0


def _full_collections() -> int:
    """How often Python has gone through all of its objects."""
    return int(gc.get_stats()[2]["collections"])


def _intersect(one: Values | None, other: Values) -> Values:
    return other if one is None else Values(intersect(one.ranges, other.ranges), one.nulls and other.nulls)


def _equal(a: CodeRanges, b: CodeRanges) -> bool:
    if a is b:
        return True
    return len(a) == len(b) and bool(np.array_equal(a.lows, b.lows)) and bool(np.array_equal(a.highs, b.highs))


def _held_by_parts(known: ColumnRanges, parts: Sequence[Mask], coding: Coding) -> Values:
    """What the rows of a table hold that have a part in each of these: the blocks of a column group that are left."""
    values = UNKNOWN
    for kept in parts:
        ranges = recode(known.union(kept), known.coding, coding)
        if ranges is not None:
            held = ranges if values.says_nothing else intersect(values.ranges, ranges)
            values = Values(held, values.nulls and bool((known.may_be_null & kept).any()))
    return values
