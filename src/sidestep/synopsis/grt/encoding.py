"""Global range encoding: a bit string per block that remembers which ranges it holds nothing of (GRT).

Made in three steps, each of which can run where the data is:

* *map*: each partition's values become a few ranges, cut at its most popular gaps (:func:`~.merge.sub_partition`);
* *reduce*: :func:`global_ranges` makes one list of mutually exclusive ranges of them, and merges it down to as many as
  there are bits, at the least cost in popularity;
* *map*: each block's values are encoded by that table (:meth:`~.table.GlobalRangeTable.encode`).

A query is encoded once; then one AND over the words it touches decides for all blocks. Merged ranges may reach beyond a
block's own least and greatest value: the catalog holds zone maps beside this, and their answers are put together.

Blocks that are indexed before there is a table leave their *parts*; :func:`table_of_parts` is the reduce step on those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.predicate.formula import Formula, Within
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis.grt.merge import cut, integrate, merge, sub_partition, used, users
from sidestep.synopsis.grt.popularity import Popularity, learned
from sidestep.synopsis.grt.table import GlobalRangeTable, Words, encode_blocks
from sidestep.synopsis.values.block_ranges import from_column
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges, joined
from sidestep.synopsis.values.codes import GREATEST, Codes, Coding, joined_bytes
from sidestep.synopsis.values.forms import Mask
from sidestep.synopsis.zones.column_zones import ArrowColumn

_CHUNK = 1 << 15
"""Blocks at a time: what is read and written for them stays in the processor's cache."""
_MANY_RANGES, _MOST_RANGES = 1 << 15, 1 << 17
"""All partitions together start with about so many ranges, as long as each has sixteen; and with at most so many."""
_FEW = 16

NO_BITS = b""
"""What a block of which nothing is known stores: bits are never of that length."""


@dataclass(frozen=True, eq=False)
class BlockBits:
    """The bits of all blocks in one column, word by word: ``words[i]`` is word i of every block.

    A block of which nothing is known, or that was encoded with another table, has all bits set.
    """

    table: GlobalRangeTable
    words: Words

    @property
    def blocks(self) -> int:
        return int(self.words.shape[1])

    def may_be_within(self, ranges: IntervalSet) -> Mask | None:
        """Blocks that may hold a value of the set; None if it is not understood."""
        wanted = code_ranges(ranges, self.table.coding)
        return None if wanted is None else self.meeting(wanted)

    def meeting(self, wanted: CodeRanges) -> Mask:
        """Blocks that share a bit with the query; words in which the query has none are not read."""
        query = self.table.query(wanted)
        touched = np.flatnonzero(query)
        met = np.zeros(self.blocks, dtype=np.bool_)
        common, shared = np.empty((2, min(_CHUNK, self.blocks)), dtype=np.uint64)
        for begin in range(0, self.blocks, _CHUNK):
            part = slice(begin, min(begin + _CHUNK, self.blocks))
            found, of_word = common[: part.stop - begin], shared[: part.stop - begin]
            found[:] = 0
            for word in touched:
                np.bitwise_and(self.words[word, part], query[word], out=of_word)
                np.bitwise_or(found, of_word, out=found)
            np.not_equal(found, 0, out=met[part])
        return met

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.table.nbytes


@dataclass(frozen=True, eq=False)
class GlobalRanges:
    """The global range encodings of the columns that were loaded; answers ``Within``, for the very type."""

    columns: Mapping[str, BlockBits]
    name: str = "global range table"

    @property
    def types(self) -> Mapping[str, DataType]:
        """The columns there are encodings of, and the types these were made for."""
        return {name: found.table.coding.type for name, found in self.columns.items()}

    def can_satisfy(self, formula: Formula) -> Mask | None:
        match formula:
            case Within(column, ranges) if (found := self.columns.get(column.name)) is not None:
                return found.may_be_within(ranges) if found.table.coding.type == column.type else None
        return None

    @property
    def nbytes(self) -> int:
        return sum(found.nbytes for found in self.columns.values())


def ranges_per_partition(partitions: int, bits: int) -> int:
    """How many ranges each partition starts with: enough to fill the table, few enough to merge in a moment."""
    return max(_FEW, min(2 * bits, _MANY_RANGES // max(1, partitions)))


def global_ranges(
    partitions: Sequence[CodeRanges],
    sizes: Sequence[int],
    popularity: Popularity,
    held: Sequence[Codes] | None = None,
) -> list[GlobalRangeTable]:
    """The reduce step: a table of at most so many *bits* for each of the sizes, largest first.

    ``partitions`` are the ranges of each partition. With ``held``, its distinct codes, what a merge costs is known
    exactly; without, a partition counts as a user of all that its ranges take in.
    """
    if min(sizes, default=0) < 2:
        raise SidestepError("A global range table has at least 2 bits: one range, and one for all outside of it.")
    mutual = integrate(_together(partitions, popularity))
    values = partitions if held is None else [CodeRanges(codes, codes) for codes in held]
    used_by = users(len(mutual), [used(mutual, each) for each in values])
    merged = merge(mutual, used_by, [size - 1 for size in sizes], popularity)
    return [GlobalRangeTable(popularity.coding, ranges) for ranges in merged]


def _together(partitions: Sequence[CodeRanges], popularity: Popularity) -> Sequence[CodeRanges]:
    """The ranges of each partition; where they are too many in all, those of neighbours cut together as one's."""
    total = sum(map(len, partitions))
    size = -(-total // _MOST_RANGES)
    if size <= 1:
        return partitions
    groups = []
    for begin in range(0, len(partitions), size):
        group = partitions[begin : begin + size]
        lows, highs = (np.concatenate([getattr(each, end) for each in group]) for end in ("lows", "highs"))
        groups.append(cut(joined(lows, highs), max(1, len(lows) // size), popularity))
    return groups


def build(blocks: Sequence[Codes], bits: int, popularity: Popularity, per_block: int | None = None) -> BlockBits:
    """All three steps in one process, from the ascending, distinct codes of each block.

    >>> from sidestep.predicate.types import INTEGER
    >>> from sidestep.synopsis.values.codes import Coding, integer_codes
    >>> from sidestep.synopsis.grt.popularity import uniform
    >>> blocks = [integer_codes(np.array(ids)) for ids in ([1, 2, 900], [3, 500, 501], [499, 903])]
    >>> made = build(blocks, 4, uniform(Coding(INTEGER)))
    >>> made.may_be_within(IntervalSet.point(INTEGER, 500)).tolist()
    [False, True, True]
    """
    most = ranges_per_partition(len(blocks), bits) if per_block is None else per_block
    partitions = [sub_partition(codes, most, popularity) for codes in blocks]
    (table,) = global_ranges(partitions, [bits], popularity, blocks)
    return BlockBits(table, encode_blocks(table, blocks))


def grt_columns(name: str, bits: BlockBits) -> dict[str, pa.Array]:
    """The index columns ``grt:c``, each block's bits, and ``grttable:c``, the identity of the table that gave them."""
    rows = np.ascontiguousarray(bits.words.T, dtype="<u8")
    width = pa.binary(8 * bits.table.words)
    raw = pa.FixedSizeBinaryArray.from_buffers(width, bits.blocks, [None, pa.py_buffer(rows.tobytes())])
    known = pa.array(~np.all(rows == GREATEST, axis=1))
    return {
        f"grt:{name}": pc.if_else(known, raw.cast(pa.binary()), pa.scalar(None, pa.binary())),
        f"grttable:{name}": pa.array([bits.table.identity] * bits.blocks, pa.string()),
    }


def global_ranges_of(
    types: Mapping[str, DataType], index: Mapping[str, ArrowColumn], tables: Mapping[str, GlobalRangeTable]
) -> GlobalRanges:
    """Encodings from the index columns of each column of ``types``; ``tables`` has each column's current table.

    A block without bits, with bits of another table or of another length is unknown. So is every block where the table
    was made for another type: that column is left out.
    """
    columns: dict[str, BlockBits] = {}
    for name, type in types.items():
        stored, table = index.get(f"grt:{name}"), tables.get(name)
        if stored is None or table is None or table.coding.type != type:
            continue
        by = index.get(f"grttable:{name}")
        usable = np.zeros(len(stored), dtype=np.bool_)
        if by is not None:
            whole = pc.equal(pc.binary_length(stored), 8 * table.words)
            same = pc.equal(by, pa.scalar(table.identity, by.type))
            usable = np.asarray(pc.fill_null(pc.and_(whole, same), False))
        words = np.full((len(stored), table.words), GREATEST)
        words[usable] = joined_bytes(stored.filter(pa.array(usable))).view("<u8").reshape(-1, table.words)
        columns[name] = BlockBits(table, np.ascontiguousarray(words.T))
    return GlobalRanges(columns)


def bits_bytes(table: GlobalRangeTable, words: Codes) -> bytes:
    """A block's bits as they are stored."""
    assert len(words) == table.words
    return words.astype("<u8").tobytes()


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
