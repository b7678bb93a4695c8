"""The blocks of a scan, each with what rules it out and the proof in words, by one of the table's indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sidestep.predicate import DataType, Formula
from sidestep.predicate.formula import columns_in
from sidestep.predicate.nodes import Column
from sidestep.predicate.text import sql
from sidestep.prune.explain.scan_blocks import INDUCED, KIND_NAMES, PARTITION, ScanBlocks, SkipReason
from sidestep.spark.rule.indexes import OpenIndex
from sidestep.store.index.block_table import readable, value_lists
from sidestep.synopsis import Mask, Skip
from sidestep.synopsis.catalog import Catalog
from sidestep.synopsis.value_set import VALUES, ValueSets

SPARK_PARTITIONS = SkipReason(PARTITION, "partition filters", "partition folders (Spark)")
DELTA_LISTING = SkipReason(PARTITION, "filters", "partition values and statistics (Delta)")
ICEBERG_METADATA = SkipReason(PARTITION, "filters that Iceberg knows", "Iceberg's own metadata")
MOST_COLUMNS, MOST_VALUES = 3, 8
"""What a proof tells of a block: columns, and values of each."""


@dataclass(eq=False)
class BlockReasons:
    """Collects, for the blocks of an index, the first reason that rules each out."""

    table: str
    index: OpenIndex
    catalog: Catalog | None = None
    stored: Mapping[str, str] = field(default_factory=dict)
    """What the index calls columns, where that is something else."""
    reasons: list[SkipReason] = field(default_factory=list)
    formulas: dict[SkipReason, Formula] = field(default_factory=dict)
    sentences: dict[SkipReason, tuple[str, tuple[Column, ...]]] = field(default_factory=dict)

    @cached_property
    def reason(self) -> npt.NDArray[np.int16]:
        return np.full(self.index.index.map.blocks, -1, np.int16)

    def add(self, reason: SkipReason, gone: Mask) -> None:
        """Give these blocks a reason, but for those that have one."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.reason[gone & (self.reason < 0)] = self.reasons.index(reason)

    def add_skips(self, skips: Iterable[Skip], ruled_out: Mask) -> None:
        """The same for what synopses say of the conditions at one place, of blocks that are ruled out at all places."""
        for skip in skips:
            if skip.gone is not None and skip.synopsis is not None:
                kind = KIND_NAMES.get(skip.kind, skip.kind)
                reason = SkipReason(kind, sql(skip.condition), skip.synopsis)
                self.formulas.setdefault(reason, skip.condition)
                self.add(reason, skip.gone & ruled_out)

    def add_induced(self, text: str, columns: Iterable[Column], gone: Mask) -> None:
        """The same for what joined tables induce."""
        reason = SkipReason(INDUCED, text, INDUCED)
        self.sentences[reason] = text, tuple(columns)
        self.add(reason, gone)

    def blocks(self, there: Mask, read: Mask) -> ScanBlocks:
        """All blocks that the scan lists."""
        blocks = self.index.index.map
        position = np.flatnonzero(there)
        return ScanBlocks(
            self.table,
            self.index.root,
            blocks.files["path"].combine_chunks(),
            blocks.file_of_block[position],
            blocks.row_group[position],
            blocks.rows[position],
            blocks.bytes[position],
            read[position],
            tuple(self.reasons),
            self.reason[position],
            position,
            self.describe,
        )

    def describe(self, block: int, reason: SkipReason) -> str:
        """The proof of one block."""
        if reason == SPARK_PARTITIONS:
            return "Spark leaves its folder out: the values in its path do not pass the query's partition filters."
        if reason == DELTA_LISTING:
            return "Delta leaves its file out: by the log, no row of it passes the query's filters."
        if reason == ICEBERG_METADATA:
            return "Iceberg leaves its file out, by the partitions and bounds in the table's metadata."
        if reason in self.sentences:
            text, columns = self.sentences[reason]
            facts = self._facts(columns, block)
            return (
                f"Its rows matter only with {text}. {facts}none of the values that are left there."
                if facts
                else (f"Its rows matter only with {text}, and it holds none of the values that are left there.")
            )
        formula = self.formulas.get(reason)
        if formula is None:
            return f"By what became known when the query ran, no row of it satisfies {reason.condition}."
        lacking = self._lacking(formula, block)
        if lacking:
            return (
                f"No row of it satisfies {lacking}, as its union vector says, and a row that the query asks for would."
            )
        facts = self._facts(sorted(columns_in(formula), key=lambda column: column.name), block, reason.kind)
        if not facts:
            return f"Its {reason.synopsis} shows that no row of it satisfies {reason.condition}."
        by = "" if reason.kind in ("zone map", "partition", ValueSets.name) else f"; by its {reason.synopsis},"
        return f"{facts.removesuffix(': ')}{by or ':'} no row of it satisfies {reason.condition}."

    def _lacking(self, formula: Formula, block: int) -> str:
        """The feature that the formula implies and no row of the block satisfies."""
        for vectors in () if self.catalog is None else self.catalog.union_vectors:
            for feature in vectors.answering(formula):
                if vectors.ruling_out(feature)[block]:
                    return sql(vectors.features[feature])
        return ""

    def _facts(self, columns: Iterable[Column], block: int, kind: str = "") -> str:
        """What is known of some columns of the block, up to a colon."""
        facts = [fact for column in list(columns)[:MOST_COLUMNS] if (fact := self._fact(column, block, kind))]
        return f"Its {' and its '.join(facts)}: " if facts else ""

    def _fact(self, column: Column, block: int, kind: str) -> str:
        index, name, type = self.index.index, column.name, column.type
        if name in index.partition_columns:
            texts = index.file_values(name)
            return (
                "" if texts is None else f"partition has {name} = {texts[int(index.map.file_of_block[block])].as_py()}"
            )
        if kind == ValueSets.name and (values := self._values(name, type, block)) is not None:
            return f"only {'value' if len(values) == 1 else 'values'} of {name}: {_list(values)}"
        key = self.stored.get(name, name)
        stored = index.stored_arrays(key, type)
        if stored is None:
            return ""
        low, high = (readable(stored[f"{end}:{key}"].slice(block, 1), type)[0].as_py() for end in ("lower", "upper"))
        if low is None and high is None:
            return ""
        if low == high:
            return f"{name} is {low} throughout"
        return f"{name} goes from {'anything' if low is None else low} to {'anything' if high is None else high}"

    def _values(self, name: str, type: DataType, block: int) -> list[object] | None:
        index, key = self.index.index, self.stored.get(name, name)
        held = index.reader().arrays(key, type, VALUES) if key in index.recipes else None
        if held is None:
            return None
        parts: Mapping[str, pa.Array] = {
            key: array.slice(block, 1) for key, array in VALUES.parts_of(key, held).items()
        }
        values: list[object] | None = value_lists(type, parts)[0].as_py()
        return values


def _list(values: list[object]) -> str:
    """
    >>> _list(["AIR", "RAIL"]), _list(list(range(10)))
    ('AIR, RAIL', '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    shown = ", ".join(map(str, values[:MOST_VALUES]))
    return f"{shown} and {len(values) - MOST_VALUES:,} more" if len(values) > MOST_VALUES else shown
