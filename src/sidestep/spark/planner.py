"""What the rule asks of Python: given a plan, which files of which scans are proven irrelevant."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from sidestep.predicate import HOLDS_ALWAYS, And, DataType, Formula, normalize
from sidestep.predicate.columns import columns_of
from sidestep.prune import Scan, ScanFilter, scan_filters
from sidestep.spark.blockfilter import BlockFilter, block_filter, packed_bits
from sidestep.spark.indexes import Indexes, OpenIndex
from sidestep.spark.plan_reader import read_plan
from sidestep.synopsis import Catalog, Mask, kept_blocks

log = logging.getLogger("sidestep")


@dataclass(frozen=True)
class ScanDecision:
    """What was found out about one occurrence of a table with one of the indexes that cover it."""

    scan: Scan
    index: OpenIndex
    catalog: Catalog
    formulas: tuple[Formula, ...]
    """One per place where this occurrence is read; a block is skipped only if each of them rules it out."""
    kept: Mask
    """The blocks that may matter."""

    @property
    def skipped_files(self) -> Mask:
        return ~self.catalog.files_kept(self.kept)

    @property
    def block_filter(self) -> BlockFilter | None:
        """The blocks to be read of the files that are, where that leaves out enough to be worth a condition."""
        return block_filter(self.catalog, self.kept, self.index.index.block_ids)


class Planner:
    """The Python end of the rule. ``apply`` is called by the JVM, from whichever thread plans a query."""

    def __init__(self, indexes: Indexes | None = None) -> None:
        self.indexes = indexes
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
            return "\n".join(self._answers("".join([*pieces, text])))
        except Exception as problem:
            self.last_problem = f"{type(problem).__name__}: {problem}"
            log.warning("sidestep left a query as it was: %s", self.last_problem, exc_info=True)
            return ""

    def _answers(self, text: str) -> Iterator[str]:
        """For each scan with something to skip, a line: its key, then per index its id, skipped files, kept blocks."""
        by_scan: dict[str, list[ScanDecision]] = {}
        for decision in self.decide(scan_filters(read_plan(text))):
            by_scan.setdefault(decision.scan.key, []).append(decision)
        for key, decisions in by_scan.items():
            parts = [key]
            for decision in decisions:
                skipped, blocks = decision.skipped_files, decision.block_filter
                if skipped.any() or blocks is not None:
                    parts += [decision.index.id, packed_bits(skipped), "" if blocks is None else blocks.packed()]
            if len(parts) > 1:
                yield "\t".join(parts)

    def decide(self, filters: Iterable[ScanFilter]) -> Iterator[ScanDecision]:
        """Evaluate the filters of each occurrence of a table against the indexes that cover it."""
        by_key: dict[str, list[ScanFilter]] = {}
        for found in filters:
            by_key.setdefault(found.scan.key, []).append(found)
        for places in by_key.values():
            scan = places[0].scan
            formulas = tuple(normalize(And(place.conjuncts)) for place in places)
            if scan.reason is not None or HOLDS_ALWAYS in formulas:
                continue
            for index in self.covering(scan):
                catalog = index.index.catalog(usable_columns(scan, index, places))
                kept = np.zeros(catalog.blocks, dtype=np.bool_)
                for formula in formulas:
                    kept |= kept_blocks(catalog, formula)
                yield ScanDecision(scan, index, catalog, formulas, kept)

    def covering(self, scan: Scan) -> list[OpenIndex]:
        """The distinct indexes of the folders that a scan reads."""
        return [] if self.indexes is None else self.indexes.find(scan.roots)

    class Java:
        implements = ("java.util.function.Function",)


def usable_columns(scan: Scan, index: OpenIndex, places: list[ScanFilter]) -> dict[str, DataType]:
    """The columns that the filters use and that the index means as the query does.

    A name may be a folder's in the index and a file's in the query (with another base path or recursive lookup), or the
    other way round: then the index speaks of something else. A catalog may map a partition to any folder, so folder
    names prove nothing about a catalog table; Spark prunes its partitions by the catalog's own values.
    """
    used = {column.name: column.type for place in places for p in place.conjuncts for column in columns_of(p)}
    in_folders = index.index.partition_columns
    return {
        name: kind
        for name, kind in used.items()
        if (name in scan.partitions) == (name in in_folders) and not (name in in_folders and scan.table is not None)
    }
