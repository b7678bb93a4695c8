"""Synopses as the product builds, stores and reads them, for tests that start from a block's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sidestep.predicate.formula import Formula
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis import Synopsis
from sidestep.synopsis.build import BuildPlan, block_synopses, index_columns
from sidestep.synopsis.contract.answer import Held
from sidestep.synopsis.descriptor import SynopsisKind
from sidestep.synopsis.grt.encoding import BlockBits, global_ranges, ranges_per_partition, table_of_parts
from sidestep.synopsis.grt.merge import cut_all, sub_partition
from sidestep.synopsis.grt.popularity import Popularity
from sidestep.synopsis.grt.table import GlobalRangeTable, encode_blocks
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.skip import kept_by
from sidestep.synopsis.values.code_ranges import CodeRanges
from sidestep.synopsis.values.codes import Codes
from sidestep.synopsis.values.forms import ArrowColumn

COLUMN = "x"


def build_columns(type: DataType, blocks: Sequence[ArrowColumn | None], plan: BuildPlan) -> dict[str, pa.Array]:
    """The index columns of a column's blocks, as the collect job builds them."""
    return index_columns(COLUMN, type, [block_synopses(COLUMN, type, each, plan) for each in blocks], plan)


def table_for(
    type: DataType, blocks: Sequence[ArrowColumn | None], bits: int, asked: Sequence[tuple[IntervalSet, float]] = ()
) -> GlobalRangeTable | None:
    """The global range table that the index job makes of what blocks leave."""
    plan = BuildPlan({COLUMN: Recipe(grt=bits)}, asked={COLUMN: asked}, partitions=max(1, len(blocks)))
    parts = build_columns(type, blocks, plan)
    prefixes = parts.get(f"grtpartsprefix:{COLUMN}")
    chunks = None if prefixes is None else pa.chunked_array([prefixes])
    return table_of_parts(type, pa.chunked_array([parts[f"grtparts:{COLUMN}"]]), chunks, bits, asked)[0]


def stored(
    kind: SynopsisKind[Any],
    type: DataType,
    blocks: Sequence[ArrowColumn | None],
    size: int,
    table: GlobalRangeTable | None = None,
) -> dict[str, ArrowColumn]:
    """What the index stores of one kind of synopsis, by part; a kind with a table gets one of all blocks, or this."""
    if kind.tables is not None and table is None:
        table = table_for(type, blocks, size)
    plan = BuildPlan({COLUMN: Recipe().with_size(kind, size)}, {} if table is None else {COLUMN: table})
    return kind.parts_of(COLUMN, build_columns(type, blocks, plan))


def held(kind: SynopsisKind[Held], type: DataType, blocks: Sequence[ArrowColumn | None], size: int) -> Held:
    """One kind of synopsis of one column, stored and read again."""
    table = table_for(type, blocks, size) if kind.tables is not None else None
    (column,) = kind.read(type, stored(kind, type, blocks, size, table), [] if table is None else [table])
    return column


def kept(synopsis: Synopsis, formula: Formula) -> list[bool] | None:
    """The blocks that a synopsis does not rule out; None if it has nothing to say."""
    mask = kept_by(synopsis, formula)
    return None if mask is None else mask.tolist()


def encode(blocks: Sequence[Codes], bits: int, popularity: Popularity, per_block: int | None = None) -> BlockBits:
    """Global range bits of blocks whose values are at hand when the table is made, as the advisor has them."""
    held = [CodeRanges(codes, codes) for codes in blocks]
    most = len(blocks) * ranges_per_partition(len(blocks), bits)
    partitions = (
        cut_all(held, most, popularity)
        if per_block is None
        else [sub_partition(codes, per_block, popularity) for codes in blocks]
    )
    (table,) = global_ranges(partitions, [bits], popularity, held)
    return BlockBits(table, encode_blocks(table, blocks))
