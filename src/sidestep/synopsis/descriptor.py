"""What there is to know of a kind of synopsis: one descriptor says it all, and everything else reads that.

A kind is a module that ends in a :class:`SynopsisKind`, and a line in :mod:`sidestep.synopsis.kinds`. Recipes and their
notation, the jobs that build and store synopses, the index that reads them, ``explain`` and ``status`` know no kind by
name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis.contract.answer import ByColumn, Held
from sidestep.synopsis.grt.popularity import Popularity, learn_popularity
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.forms import ArrowColumn, Form, Mask, stored_form


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a synopsis may be in a block, in units of its own."""

    usual: int
    """What a recipe that names no size means."""
    least: int
    limit: int
    unit: str
    """What is counted, as in "ranges"."""
    unit_bits: int
    """What one of them takes in a block."""

    def check(self, title: str, size: Any) -> None:
        """Refuse what is no size; 0 is none at all."""
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise SidestepError(f"The size of a {title} must be a whole number, 0 or more, not {size!r}.")
        if 0 < size < self.least:
            raise SidestepError(f"A {title} has at least {self.least} {self.unit} a block, not {size}.")

    def within(self, per_block: int) -> int:
        """The largest size that takes no more bytes in a block than these."""
        return 8 * per_block // self.unit_bits


@dataclass(frozen=True)
class SharedTable:
    """What the blocks of a column share: the table that they are encoded by, or what one will be made of."""

    table: GlobalRangeTable | None = None
    asked: Sequence[tuple[IntervalSet, float]] = ()
    """What the workload asks of the column, and how often."""
    partitions: int = 1000
    """About how many blocks there will be: the more, the fewer parts each leaves."""
    known: dict[DataType, Popularity] = field(default_factory=dict, compare=False, repr=False)
    """Popularity, once it was worked out: it takes longer than a block does."""

    def popularity(self, coding: Coding) -> Popularity:
        """How popular the values of a column are, for codes that leave out no prefix."""
        if coding.type not in self.known:
            self.known[coding.type] = learn_popularity(coding, self.asked)
        return self.known[coding.type]


@dataclass(frozen=True)
class BlockValues:
    """One column of one block as every session reads it, and what synopses are built of; each worked out once."""

    values: ArrowColumn
    """In any order; without repeats if no kind counts rows and the type is slow to code."""
    coding: Coding
    codes: Codes
    """Those of the values, NULLs left out."""
    shared: SharedTable = field(default_factory=SharedTable)

    @cached_property
    def distinct(self) -> Codes:
        """The distinct codes, ascending."""
        return np.unique(self.codes)


@dataclass(frozen=True, slots=True)
class TableColumns:
    """How the blocks of a kind share a table, for a kind that has one."""

    named_by: str
    """The index column that names the table by which a block was encoded."""
    parts: Mapping[str, pa.DataType]
    """The index columns of what a block leaves where the table is still to be made."""
    parts_of_bytes: Mapping[str, pa.DataType]
    """Those that strings and binary values have besides."""
    unknown_parts: Any
    """What a block that nothing is known of leaves in the first of them."""


@dataclass(frozen=True, slots=True, eq=False)
class SynopsisKind(Generic[Held]):
    """One kind of synopsis that a column may have beside its zone map.

    **Stored.** The index columns of a table column are named ``<part>:<column>``; in the first, NULL says that a block
    was never looked at (it can still be indexed) and :attr:`unknown` that it was, in vain. Neither rules anything out.
    """

    name: str
    """As ``--synopsis`` writes it."""
    synopsis: type[ByColumn[Held]]
    """Holds the columns in memory, and answers. Its name is what ``explain`` and ``status`` say."""
    sizes: Sizes
    columns: Mapping[str, pa.DataType]
    """The parts that are stored of each block, with their Arrow types; the first is always there."""
    unknown: Any
    """What the first part is for a block that was looked at in vain: no synopsis can be equal to it (as long as it)."""
    build: Callable[[BlockValues, int], Mapping[str, Any]]
    """The parts of one block's synopsis, which may be of that size."""
    read: Callable[[DataType, Mapping[str, ArrowColumn], Sequence[GlobalRangeTable]], Sequence[Held]]
    """The stored parts of all blocks as what answers; several if blocks were encoded by several tables."""
    columns_of_bytes: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The parts that strings and binary values have besides."""
    counts_rows: bool = False
    """Whether values that repeat count as often as they do."""
    repeats: bool = True
    """Whether blocks are likely to store the same; hashes and bits are not."""
    tables: TableColumns | None = None

    @property
    def key(self) -> str:
        """As stored recipes name it."""
        return self.name.replace("-", "_")

    @property
    def title(self) -> str:
        """As people call it."""
        return self.synopsis.name

    def __str__(self) -> str:
        return self.title

    def stored_columns(self, column: str, type: DataType, *, as_parts: bool = False) -> dict[str, pa.DataType]:
        """The index columns of one table column with their types; ``as_parts`` where its table is still to be made."""
        columns, of_bytes = self.columns, self.columns_of_bytes
        if as_parts and self.tables is not None:
            columns, of_bytes = self.tables.parts, self.tables.parts_of_bytes
        extra = of_bytes if stored_form(type) is Form.BYTES else {}
        return {f"{part}:{column}": arrow for part, arrow in {**columns, **extra}.items()}

    def parts_of(self, column: str, stored: Mapping[str, ArrowColumn]) -> dict[str, ArrowColumn]:
        """The stored index columns of one table column, by part."""
        parts = (*self.columns, *self.columns_of_bytes)
        return {part: stored[name] for part in parts if (name := f"{part}:{column}") in stored}

    def nothing(self, *, as_parts: bool = False) -> dict[str, Any]:
        """What is stored of a block that was looked at in vain."""
        if as_parts and self.tables is not None:
            return {next(iter(self.tables.parts)): self.tables.unknown_parts}
        return {next(iter(self.columns)): self.unknown}

    def known(self, first: pa.Array) -> Mask:
        """Which blocks have a synopsis, by the first of their stored parts, and not a mere note that they have none."""
        if pa.types.is_list(first.type):
            other = pc.not_equal(pc.list_value_length(first), len(self.unknown))
        elif pa.types.is_binary(first.type) or pa.types.is_large_binary(first.type):
            other = pc.not_equal(pc.binary_length(first), len(self.unknown))
        else:
            other = pc.not_equal(first, self.unknown)
        return np.asarray(pc.fill_null(other, False).to_numpy(zero_copy_only=False), dtype=np.bool_)
