"""What the rule asks of Python: given a plan, which files of which scans are proven irrelevant."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from sidestep.predicate import HOLDS_ALWAYS, And, DataType, Formula, normalize
from sidestep.predicate.columns import columns_of
from sidestep.prune import Query, Scan, ScanFilter, scan_filters
from sidestep.prune.conditions import BlockFilter, block_filter, worthwhile_bound
from sidestep.prune.dips.induced import Induced, Options, TableView, induced, join_columns
from sidestep.prune.reuse import alike, kept_alike
from sidestep.spark.jvm.plan_reader import read_plan
from sidestep.spark.jvm.wire import packed_bits, packed_filter
from sidestep.spark.rule.indexes import Indexes, OpenIndex
from sidestep.synopsis import Catalog, Mask

log = logging.getLogger("sidestep")

Complete = Callable[[Mapping[str, Sequence[OpenIndex]]], frozenset[str]]
"""Of some scans, by key, and the indexes that cover them: the keys of those all of whose files have a valid entry."""


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
        return block_filter(self.catalog, self.kept, self.index.index.block_ids)


@dataclass(frozen=True)
class Decisions:
    """What was found out about a query."""

    scans: tuple[ScanDecision, ...]
    induced: Induced


class Planner:
    """The Python end of the rule. ``apply`` is called by the JVM, from whichever thread plans a query."""

    def __init__(self, indexes: Indexes | None = None, options: Options | None = None) -> None:
        self.indexes = indexes
        self.options = options or Options()
        self.complete: Callable[[str, str], str] = lambda number, scans: ""
        """Asks the JVM which scans of the plan of that number are covered whole."""
        self.last_problem = ""
        self._pieces: dict[str, list[str]] = {}
        self._tokens = itertools.count(1)
        self._lock = threading.Lock()

    def apply(self, message: str) -> str:
        """One message: a verb, a token and text, by lines. Text too long for one message comes in pieces."""
        verb, token, text = message.split("\n", 2)
        with self._lock:
            if verb == "more":
                token = token or str(next(self._tokens))
                self._pieces.setdefault(token, []).append(text)
                return token
            pieces = self._pieces.pop(token, [])
        try:
            kind, number = verb.split(" ")
            options = self.options if kind == "plan" else replace(self.options, derive=False)
            query = read_plan("".join([*pieces, text]))
            decided = self.decide(query, asking(partial(self.complete, number)), options)
            return "\n".join(_answers(decided))
        except Exception as problem:
            self.last_problem = f"{type(problem).__name__}: {problem}"
            log.warning("sidestep left a query as it was: %s", self.last_problem, exc_info=True)
            return ""

    def decide(self, query: Query, complete: Complete | None = None, options: Options | None = None) -> Decisions:
        """Evaluate a query's predicates, and those that its joins induce, against the indexes that cover its tables.

        Without ``complete``, no table is known to be covered whole, and none induces anything.
        """
        options = options or self.options
        places: dict[str, list[ScanFilter]] = {}
        for found in scan_filters(query):
            places.setdefault(found.scan.key, []).append(found)
        joined = join_columns(query, options) if options.derive else {}
        formulas: dict[str, tuple[Formula, ...]] = {}
        indexes: dict[str, list[OpenIndex]] = {}
        for key, found_at in places.items():
            scan = found_at[0].scan
            formulas[key] = tuple(normalize(And(place.conjuncts)) for place in found_at)
            if scan.reason is None and (key in joined or HOLDS_ALWAYS not in formulas[key]):
                covering = self.covering(scan)
                if covering:
                    indexes[key] = covering
        wanted = {key: covering for key, covering in indexes.items() if key in joined}
        whole = complete(wanted) if complete is not None and len(wanted) > 1 else frozenset()
        tables = {}
        for key, covering in indexes.items():
            used = {**_columns_used(places[key]), **joined.get(key, {})}
            scan = places[key][0].scan
            catalogs = tuple(each.index.catalog(usable_columns(scan, each, used)) for each in covering)
            tables[key] = TableView(catalogs, key in whole)
        result = induced(query, tables, options)
        groups = alike(query)
        if groups:
            shared = {key for group in groups for key in group}
            bounds = {key: bound for key, bound in result.bounds.items() if key not in shared}
            result = replace(result, kept=kept_alike(result.kept, groups), bounds=bounds)
        decided = [
            ScanDecision(places[key][0].scan, index, catalog, formulas[key], static, kept)
            for key, covering in indexes.items()
            for index, catalog, static, kept in zip(
                covering, tables[key].catalogs, result.static[key], result.kept[key], strict=True
            )
        ]
        return Decisions(tuple(decided), result)

    def covering(self, scan: Scan) -> list[OpenIndex]:
        """The distinct indexes of the folders that a scan reads."""
        return [] if self.indexes is None else self.indexes.find(scan.roots)

    class Java:
        implements = ("java.util.function.Function",)


def asking(jvm: Callable[[str], str]) -> Complete:
    """Which scans are covered whole, as the JVM says: it has their files."""

    def complete(scans: Mapping[str, Sequence[OpenIndex]]) -> frozenset[str]:
        lines = ("\t".join([key, *(index.id for index in covering)]) for key, covering in scans.items())
        reply = jvm("\n".join(lines))
        return frozenset(key for key, said in zip(scans, reply, strict=False) if said == "1")

    return complete


def _answers(decided: Decisions) -> Iterator[str]:
    """For each scan with something to skip, a line: its key, then per index its id, skipped files, kept blocks."""
    by_scan: dict[str, list[ScanDecision]] = {}
    for decision in decided.scans:
        by_scan.setdefault(decision.scan.key, []).append(decision)
    for key, decisions in by_scan.items():
        bound = ""
        if len(decisions) == 1 and decisions[0].block_filter is None:
            # Where blocks are told by their ids, nothing is left for a bound to do.
            only = decisions[0]
            bound = worthwhile_bound(decided.induced.bounds.get(key, ()), only.catalog, only.static, only.kept)
        parts = [key]
        for decision in decisions:
            skipped, blocks = decision.skipped_files, decision.block_filter
            if skipped.any() or blocks is not None or bound:
                parts += [decision.index.id, packed_bits(skipped), "" if blocks is None else packed_filter(blocks)]
        if len(parts) > 1:
            yield "\t".join(parts)
        if bound:
            yield f"bound\t{key}\t{bound}"


def _columns_used(places: Iterable[ScanFilter]) -> dict[str, DataType]:
    return {column.name: column.type for place in places for p in place.conjuncts for column in columns_of(p)}


def usable_columns(scan: Scan, index: OpenIndex, used: Mapping[str, DataType]) -> dict[str, DataType]:
    """Those of the columns used that the index means as the query does.

    A name may be a folder's in the index and a file's in the query (with another base path or recursive lookup), or the
    other way round: then the index speaks of something else. A catalog may map a partition to any folder, so folder
    names prove nothing about a catalog table; Spark prunes its partitions by the catalog's own values.
    """
    in_folders = index.index.partition_columns
    return {
        name: kind
        for name, kind in used.items()
        if (name in scan.partitions) == (name in in_folders) and not (name in in_folders and scan.table is not None)
    }
