"""Global range bits as a kind of synopsis: how a block's values become bits of its column's table, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.predicate.types import DataType
from sidestep.synopsis.contract.answer import ByColumn
from sidestep.synopsis.contract.block_ranges import NO_RANGES, STORED
from sidestep.synopsis.descriptor import BlockValues, Sizes, SynopsisKind, TableColumns
from sidestep.synopsis.grt.encoding import NO_BITS, BlockBits, bits_bytes, parts_per_block
from sidestep.synopsis.grt.merge import sub_partition
from sidestep.synopsis.grt.popularity import uniform
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.values.code_ranges import CodeRanges, end_to_end
from sidestep.synopsis.values.codes import codes_of, concatenate_bytes
from sidestep.synopsis.values.forms import ArrowColumn, Form, if_any


class GlobalRanges(ByColumn[BlockBits]):
    """The global range encodings of the columns that were loaded."""

    name = "global range table"


def _build(block: BlockValues, size: int) -> dict[str, Any]:
    """A block's bits by the table that its column has; where that is still to be made, what it will be made of."""
    table, coding = block.shared.table, block.coding
    if table is None:
        return {"grtparts": end_to_end(_parts(block, size)), "grtpartsprefix": coding.prefix}
    held = block.distinct if table.coding == coding else codes_of(block.values, table.coding)
    if held is None or table.coding.type != coding.type:
        return {"grt": NO_BITS}
    return {"grt": bits_bytes(table, table.encode(held)), "grttable": table.identity}


def _parts(block: BlockValues, bits: int) -> CodeRanges:
    """What a block leaves for a table: its values, or as many ranges of them as all blocks can leave.

    Codes of strings leave a prefix out, another one in each block, and popularity would have to follow: there the
    widest gaps are cut at, and the choice among them is left to the table.
    """
    shared, coding = block.shared, block.coding
    known = uniform(coding) if coding.form is Form.BYTES else shared.popularity(coding)
    return sub_partition(block.distinct, parts_per_block(shared.partitions, bits), known)


def _read(
    type: DataType, stored: Mapping[str, ArrowColumn], tables: Sequence[GlobalRangeTable]
) -> tuple[BlockBits, ...]:
    """One for each table that blocks were encoded by; to each, the blocks of the others are unknown.

    So is a block without bits, or with bits of another length. A table that was made for another type has no say.
    """
    return tuple(_read_bits(table, stored) for table in tables if table.coding.type == type)


def _read_bits(table: GlobalRangeTable, stored: Mapping[str, ArrowColumn]) -> BlockBits:
    column, by = stored["grt"], stored.get("grttable")
    known = np.zeros(len(column), dtype=np.bool_)
    if by is not None:
        whole = pc.equal(pc.binary_length(column), 8 * table.words)
        same = pc.equal(by, pa.scalar(table.identity, by.type))
        known = np.asarray(pc.fill_null(pc.and_(whole, same), False))
    words = np.zeros((len(column), table.words), dtype=np.uint64)
    words[known] = concatenate_bytes(column.filter(pa.array(known))).view("<u8").reshape(-1, table.words)
    return BlockBits(table, np.ascontiguousarray(words.T), if_any(~known))


GRT = SynopsisKind(
    name="grt",
    synopsis=GlobalRanges,
    sizes=Sizes(usual=256, least=2, limit=1 << 13, unit="bits", unit_bits=1),
    columns={"grt": pa.large_binary(), "grttable": pa.string()},
    unknown=NO_BITS,
    build=_build,
    read=_read,
    repeats=False,
    tables=TableColumns(
        named_by="grttable",
        parts={"grtparts": STORED},
        parts_of_bytes={"grtpartsprefix": pa.binary()},
        unknown_parts=NO_RANGES,
    ),
)
