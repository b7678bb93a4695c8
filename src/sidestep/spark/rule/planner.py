"""What the rule asks of Python: given a plan, which files of which scans are proven irrelevant."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from sidestep.predicate import DataType, Formula
from sidestep.predicate.columns import columns_of
from sidestep.prune import Query, Scan
from sidestep.prune.analysis import Accesses, AnalyzedQuery, Decision, Settings, by_scan
from sidestep.prune.conditions import BlockFilter, RowGroups, block_filter, row_groups, worthwhile_bound
from sidestep.prune.decide import decide
from sidestep.prune.plan.algebra import is_parameter, walk
from sidestep.spark.jvm.plan_reader import read_plan
from sidestep.spark.jvm.wire import (
    ChoiceRequest,
    IndexAnswer,
    OwnAnswer,
    Requests,
    ScanAnswer,
    SelectorAnswer,
    pack_answers,
    pack_coverage,
    unpack_coverage,
)
from sidestep.spark.rule.accesses import find_accesses, groups_of_blocks
from sidestep.spark.rule.answers import Answers, KnownAnswer
from sidestep.spark.rule.choosing import choose, question
from sidestep.spark.rule.indexes import Indexes, OpenIndex
from sidestep.spark.rule.settings import DENORMALIZED_STAGE, session_settings
from sidestep.store.sidecars.column_groups import GROUP, inner_path
from sidestep.synopsis import Catalog, Mask

log = logging.getLogger("sidestep")

AskComplete = Callable[[str], str]
"""Asks the JVM, which has the files: of lines that each name a scan and indexes, which are covered whole (1 or 0)."""


@dataclass(frozen=True)
class ScanDecision:
    """What was found out about one occurrence of a table with one of the indexes that cover it."""

    scan: Scan
    index: OpenIndex
    catalog: Catalog
    formulas: tuple[Formula, ...]
    """One per place where this occurrence is read; a block is skipped only if each of them rules it out."""
    static: Mask
    """The blocks that the query's own predicates leave."""
    kept: Mask
    """The blocks that may matter: of those, what induced predicates leave."""

    @cached_property
    def skipped_files(self) -> Mask:
        return ~self.catalog.files_kept(self.kept)

    @cached_property
    def block_filter(self) -> BlockFilter | None:
        """The blocks to be read of the files that are, where that leaves out enough to be worth a condition."""
        return self._filter(self.kept)

    def _filter(self, kept: Mask) -> BlockFilter | None:
        ids = self.index.index.block_ids
        values = None if self.scan.groups is None else self.index.index.file_values(GROUP)
        if values is None:
            return block_filter(self.catalog, kept, ids)
        # Each column group is read by itself: what is worth a condition in one may not be in another.
        group_of_file = values.to_numpy(zero_copy_only=False).astype(str)
        groups = [np.isin(group_of_file, parts) for parts in _parts_of_groups(self.index, self.scan)]
        worth = [files for files in groups if block_filter(self.catalog, kept, ids, files) is not None]
        return block_filter(self.catalog, kept, ids, np.logical_or.reduce(worth)) if worth else None

    @cached_property
    def row_groups(self) -> RowGroups | None:
        """The same where blocks have no ids, or not in every file: the row groups to be read of files that are."""
        return self._row_groups(self.kept)

    def _row_groups(self, kept: Mask) -> RowGroups | None:
        """Blocks of a table in column groups all have ids."""
        return row_groups(self.catalog, kept, self.index.index.map.row_group) if self.scan.groups is None else None

    @cached_property
    def own(self) -> OwnAnswer | None:
        """What is skipped whatever becomes of joined tables; None if these have no part in what is skipped."""
        if not (self.static & ~self.kept).any():
            return None
        certain = self.static | self.kept
        return OwnAnswer(~self.catalog.files_kept(certain), self._filter(certain), self._row_groups(certain))


class IndexedTables:
    """The tables that one query reads, by the indexes of their folders; a folder is looked at once."""

    def __init__(self, indexes: Indexes | None, ask_complete: AskComplete | None) -> None:
        self._indexes = indexes
        self._ask_complete = ask_complete
        self._of_roots: dict[tuple[str, ...], list[OpenIndex]] = {}
        self._said: list[tuple[str, str]] = []
        """What was asked about coverage, with the replies."""

    def indexes(self, scan: Scan) -> list[OpenIndex]:
        """The distinct indexes of the folders that a scan reads."""
        return self._find(scan.roots if scan.groups is None else tuple(map(inner_path, scan.roots)))

    def _find(self, roots: tuple[str, ...]) -> list[OpenIndex]:
        if self._indexes is None:
            return []
        if roots not in self._of_roots:
            self._of_roots[roots] = self._indexes.find(roots)
        return self._of_roots[roots]

    def covers(self, scan: Scan) -> bool:
        return bool(self.indexes(scan))

    def catalogs(self, scan: Scan, columns: Mapping[str, DataType]) -> tuple[Catalog, ...]:
        catalogs = (
            (each, each.index.catalog(usable_columns(scan, each, columns), index_keys(scan, each)))
            for each in self.indexes(scan)
        )
        if scan.groups is None:
            return tuple(catalog for _, catalog in catalogs)
        return tuple(replace(catalog, parts=_blocks_of_groups(each, scan)) for each, catalog in catalogs)

    def accesses(self, scan: Scan, columns: Mapping[str, DataType]) -> Accesses | None:
        """The groups that a scan may read: those of all rows, and those of some that are part of its table."""
        indexes = self.indexes(scan)
        if len(indexes) != 1 or scan.copies is None:
            return None
        (index,) = indexes
        asked = frozenset(usable_columns(scan, index, columns).items())
        return find_accesses(index.index, index.partial, (*(scan.groups or ()), *scan.copies), scan.copies, asked)

    def rows(self, scan: Scan, columns: Mapping[str, DataType], most: int) -> Catalog | None:
        """Every row that the scan may read, if all its files are of one small table."""
        indexes = self.indexes(scan)
        if len(indexes) != 1 or scan.partitions or scan.groups is not None or scan.fields is not None:
            return None
        return indexes[0].small.catalog(usable_columns(scan, indexes[0], columns), most)

    def complete(self, scans: Collection[Scan]) -> frozenset[str]:
        """Without a JVM to ask, no table is known to be covered whole, and none induces anything."""
        if self._ask_complete is None:
            return frozenset()
        indexes = {scan.key: [index.id for index in self.indexes(scan)] for scan in scans}
        question = pack_coverage(indexes)
        reply = self._ask_complete(question)
        self._said.append((question, reply))
        return unpack_coverage(indexes, reply)

    def known_answer(self, reply: str, query: Query) -> KnownAnswer:
        """A reply to a query that was worked out by these tables, with what it rests on."""
        found = {roots: tuple(index.id for index in indexes) for roots, indexes in self._of_roots.items()}
        return KnownAnswer(reply, found, tuple(self._said), roots_of(query))

    def still_hold(self, answer: KnownAnswer) -> bool:
        """Whether the tables are as they were when it was worked out, as far as it rests on them."""
        for roots, ids in answer.indexes.items():
            if ids != tuple(index.id for index in self._find(roots)):
                return False
        ask = self._ask_complete
        return all(ask is not None and ask(asked) == said for asked, said in answer.coverage)


@dataclass(frozen=True)
class PlannedQuery:
    """What was decided about a query, with the indexes that it was decided by."""

    query: AnalyzedQuery
    decision: Decision
    tables: IndexedTables

    @property
    def witnesses(self) -> dict[str, list[str]]:
        """The scans that induced skips rest on, with the ids of their indexes."""
        keys = sorted(self.decision.witnesses)
        return {key: [index.id for index in self.tables.indexes(self.query.scans[key])] for key in keys}

    @cached_property
    def scans(self) -> tuple[ScanDecision, ...]:
        """Each covered scan with each of its indexes."""
        formulas: dict[str, tuple[Formula, ...]] = {}
        for place, formula in zip(self.query.places, self.query.formulas, strict=True):
            formulas[place.scan.key] = (*formulas.get(place.scan.key, ()), formula)
        kept, static = (by_scan(self.query, masks) for masks in (self.decision.kept, self.decision.static))
        return tuple(
            ScanDecision(scan, index, catalog, formulas[key], before, after)
            for key, catalogs in self.decision.catalogs.items()
            for scan in (self.decision.taken(self.query.scans[key]),)
            for index, catalog, before, after in zip(
                self.tables.indexes(scan), catalogs, static[key], kept[key], strict=True
            )
        )


@dataclass
class Rewrites:
    """What denormalized tables do for a query."""

    lines: list[str] = field(default_factory=list)
    """The answers to the JVM, one for each part that is replaced."""
    notes: list[str] = field(default_factory=list)
    """For people: why other parts are not."""


class Rewriter(Protocol):
    """What puts denormalized tables in the place of joins."""

    def exist_for(self, roots: Collection[str]) -> bool:
        """Whether there is a denormalized table of any of these."""

    def rewrites(
        self,
        query: Query,
        planned: PlannedQuery,
        ask_complete: AskComplete | None,
        plan: Callable[[Query], PlannedQuery],
        least_gain: float,
    ) -> Rewrites:
        """Which parts of a query denormalized tables are to stand for.

        ``plan`` plans it with them, and ``least_gain`` is how many times more must be read without.
        """

    def close(self) -> None:
        """Let go of all tables."""


class Planner:
    """The Python end of the rule. ``apply`` is called by the JVM, from whichever thread plans a query."""

    def __init__(self, indexes: Indexes | None = None, settings: Settings | None = None) -> None:
        self.indexes = indexes
        self.settings = settings or Settings()
        self.complete: Callable[[str, str], str] = _knows_nothing
        """Asks the JVM which scans of the plan of that number are covered whole."""
        self.rewriter: Rewriter | None = None
        self.last_problem = ""
        self._requests = Requests()
        self._answers = Answers()

    def detach(self) -> None:
        """Let go of the rule and of the indexes.

        The rule holds the planner, from the other side of the bridge; where the planner holds the rule as well, neither
        Java nor Python can tell that no one needs the two any more.
        """
        indexes, self.indexes, self.complete = self.indexes, None, _knows_nothing
        rewriter, self.rewriter = self.rewriter, None
        self.forget()
        if rewriter is not None:
            rewriter.close()
        if indexes is not None:
            indexes.close()

    def forget(self) -> None:
        """Forget all answers: the next query is answered as if it were the first."""
        self._answers.clear()

    def apply(self, message: str) -> str:
        """The answers to a plan, a choice by values, or the reply to a piece; see :mod:`sidestep.spark.jvm.wire`."""
        request = self._requests.receive(message)
        if isinstance(request, str):
            return request
        try:
            if isinstance(request, ChoiceRequest):
                return choose(self.indexes, request)
            settings = session_settings(request.settings, self.settings)
            key, ask_complete = (request.text, settings), partial(self.complete, request.number)
            known = self._answers.get(key)
            rewriter = None if DENORMALIZED_STAGE in settings.off else self.rewriter
            if (
                known is not None
                and not (rewriter is not None and rewriter.exist_for(known.roots))
                and IndexedTables(self.indexes, ask_complete).still_hold(known)
            ):
                return known.reply
            query = read_plan(request.text, as_stored=True)
            planned = self.decide(query, ask_complete, settings)
            rewrites = self.rewrites(query, planned, ask_complete, settings)
            if rewrites.lines:
                return "\n".join(rewrites.lines)
            reply = pack_answers(_answers(planned), planned.witnesses)
            # Where time ran out, another try may find more.
            if not any(stage.stopped for stage in planned.decision.stages):
                self._answers.put(key, planned.tables.known_answer(reply, query))
            return reply
        except Exception as problem:
            self.last_problem = f"{type(problem).__name__}: {problem}"
            log.warning("sidestep left a query as it was: %s", self.last_problem, exc_info=True)
            return ""

    def rewrites(
        self, query: Query, planned: PlannedQuery, ask_complete: AskComplete | None, settings: Settings
    ) -> Rewrites:
        """Which parts of a query denormalized tables are to stand for, if that is not switched off."""
        rewriter = self.rewriter
        if DENORMALIZED_STAGE in settings.off or rewriter is None or not rewriter.exist_for(roots_of(query)):
            return Rewrites()
        # What cannot be asked of the JVM, for the query is not its, is not known.
        gain = settings.denormalized.least_gain
        return rewriter.rewrites(query, planned, ask_complete, lambda other: self.decide(other, None, settings), gain)

    def decide(
        self, query: Query, ask_complete: AskComplete | None = None, settings: Settings | None = None
    ) -> PlannedQuery:
        """Run the stages of pruning over a query, with the indexes that cover its tables."""
        tables = IndexedTables(self.indexes, ask_complete)
        return PlannedQuery(*decide(query, tables, settings or self.settings), tables)

    class Java:
        implements = ("java.util.function.Function",)


def roots_of(query: Query) -> tuple[str, ...]:
    """The folders that a query reads, of scans that read one each."""
    scans = (each for plan in query.plans for each in walk(plan) if isinstance(each, Scan))
    return tuple(dict.fromkeys(scan.roots[0] for scan in scans if len(scan.roots) == 1))


def _knows_nothing(number: str, scans: str) -> str:
    """The reply of a JVM that knows no such plan."""
    return ""


def _answers(planned: PlannedQuery) -> Iterator[ScanAnswer]:
    """What each scan with something to skip may leave out."""
    by_key: dict[str, list[ScanDecision]] = {}
    for decision in planned.scans:
        by_key.setdefault(decision.scan.key, []).append(decision)
    for key, decisions in by_key.items():
        bound = ""
        bounds = planned.decision.bounds.get(key, ())
        if len(decisions) == 1 and bounds:
            only = decisions[0]
            bound = worthwhile_bound(bounds, only.catalog, only.static, only.kept)
        skipped = tuple(
            IndexAnswer(
                decision.index.id,
                decision.skipped_files,
                decision.block_filter,
                decision.row_groups,
                decision.own if planned.decision.witnesses else None,
            )
            for decision in decisions
            if decision.skipped_files.any() or decision.block_filter or decision.row_groups or bound
        )
        path = planned.decision.paths.get(key, ())
        rows = _rows_of_groups(decisions[0]) if len(decisions) == 1 else {}
        yield ScanAnswer(key, skipped, bound, tuple(_selectors(planned, key, decisions)), path, rows)


def _rows_of_groups(decision: ScanDecision) -> dict[int, int]:
    """About how many rows are to be read of each of the column groups that a scan may be read from."""
    groups = decision.scan.groups or ()
    masks = _blocks_of_groups(decision.index, decision.scan) if groups else ()
    rows = decision.catalog.rows
    return {group: int(rows[decision.kept & mine].sum()) for group, mine in zip(groups, masks, strict=False)}


def _selectors(planned: PlannedQuery, key: str, decisions: Sequence[ScanDecision]) -> Iterator[SelectorAnswer]:
    """What chooses more of a scan when the query runs."""
    if len(decisions) != 1 or decisions[0].scan.fields is not None:
        return
    (index,) = (decision.index for decision in decisions)
    for selector in planned.decision.selectors:
        if selector.scan.key == key:
            asked = {column.name: column.type for column in columns_of(selector.predicate)}
            own = {name: kind for name, kind in asked.items() if not is_parameter(name)}
            columns = usable_columns(selector.scan, index, own)
            if columns:
                yield SelectorAnswer(index.id, selector, question(selector, index, columns))


def _parts_of_groups(index: OpenIndex, scan: Scan) -> list[list[str]]:
    """The groups whose files are read for each of a scan's groups, as partition values; none where it is not known."""
    numbers = scan.groups or ()
    if scan.copies is None:
        return [[str(number)] for number in numbers]
    groups = index.partial.groups(numbers)
    return [] if groups is None else [[str(part) for part in groups.parts(number)] for number in numbers]


def _blocks_of_groups(index: OpenIndex, scan: Scan) -> tuple[Mask, ...]:
    """The blocks of each of a scan's column groups; none where it cannot be told which group a file is of.

    Of groups that a query does not read it is not known whether they are still part of the table, and have its rows.
    """
    blocks = groups_of_blocks(index.index)
    return () if blocks is None else tuple(np.isin(blocks, parts) for parts in _parts_of_groups(index, scan))


def usable_columns(scan: Scan, index: OpenIndex, columns: Mapping[str, DataType]) -> dict[str, DataType]:
    """Those of the columns that the index means as the query does.

    A name may be a folder's in the index and a file's in the query (with another base path or recursive lookup), or the
    other way round: then the index speaks of something else. A catalog may map a partition to any folder, so folder
    names prove nothing about a catalog table, unless its files and their values are those of a log; Spark prunes its
    partitions by the catalog's own values.
    """
    elsewhere = scan.table is not None and not scan.by_log
    in_folders = index.index.partition_columns
    if scan.fields is not None:
        stored = index_keys(scan, index) or {}
        return {name: kind for name, kind in columns.items() if name in stored}
    return {
        name: kind
        for name, kind in columns.items()
        if (name in scan.partitions) == (name in in_folders) and not (name in in_folders and elsewhere)
    }


def index_keys(scan: Scan, index: OpenIndex) -> dict[str, str] | None:
    """What the index calls the columns of a table that has them by id; None where it calls them as the query does.

    An index of plain names says nothing of such a table, for a name may have gone to another column.
    """
    if scan.fields is None:
        return None
    by_id = index.index.columns_by_id
    return {name: by_id[number] for name, number in scan.fields if number in by_id}
