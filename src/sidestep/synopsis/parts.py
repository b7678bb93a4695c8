"""The reduce step of global range encoding: a table from the parts that blocks left, and each block's bits by it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis.grt import global_ranges, ranges_per_partition
from sidestep.synopsis.grtranges import cut
from sidestep.synopsis.grttable import GlobalRangeTable
from sidestep.synopsis.making import NO_BITS, bits_bytes, learned
from sidestep.synopsis.values.block_ranges import from_column
from sidestep.synopsis.values.codes import Coding


def table_of_parts(
    type: DataType,
    parts: pa.ChunkedArray,
    prefixes: pa.ChunkedArray | None,
    bits: int,
    asked: Sequence[tuple[IntervalSet, float]] = (),
) -> tuple[GlobalRangeTable | None, list[bytes | None]]:
    """The table of so many bits for blocks that left these parts, and the bits of each block.

    ``parts`` are the index columns ``grtparts:c`` and ``grtpartsprefix:c``. A block of which nothing is known
    does not take part in the table, and has no bits. NULL stays NULL. Without a known block there is no table.

    >>> from sidestep.predicate.types import INTEGER
    >>> from sidestep.synopsis.values.codes import integer_codes
    >>> ids = [integer_codes(np.repeat(np.array(each), 2)) for each in ([1, 2, 900], [3, 500], [499, 903])]
    >>> table, found = table_of_parts(INTEGER, pa.chunked_array([pa.array(ids)]), None, 4)
    >>> table.bits, [format(each[0], "04b") for each in found]
    (4, ['0101', '0011', '0110'])
    """
    blocks = parts.combine_chunks()
    held = from_column(Coding(type), blocks, prefixes)
    looked_at = pc.is_valid(blocks).to_numpy(zero_copy_only=False)
    known = np.flatnonzero(looked_at & ~held.unknown).tolist()
    stored: list[bytes | None] = [NO_BITS if seen else None for seen in looked_at]
    if not known:
        return None, stored
    shares = learned(held.coding, asked)
    ranges = [held.of_block(block) for block in known]
    most = ranges_per_partition(len(known), bits)
    (table,) = global_ranges([cut(each, most, shares) for each in ranges], [bits], shares)
    for block, each in zip(known, ranges, strict=True):
        stored[block] = bits_bytes(table, table.encode_ranges(each))
    return table, stored
