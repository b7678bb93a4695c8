"""Global range encoding: a bit string per block that remembers which ranges it holds nothing of (GRT).

Made in three steps, each of which can run where the data is:

* *map*: each partition leaves its values, or so many ranges of them that hardly a bit depends on what is lost
  (:func:`parts_per_block`);
* *reduce*: all partitions are cut at their most popular gaps (:func:`~.merge.cut_all`); :func:`global_ranges` makes one
  list of mutually exclusive ranges of that, and merges it down to as many as there are bits, at the least cost;
* *map*: each block is encoded by that table, by what it left or, once there is a table, by its values
  (:meth:`~.table.GlobalRangeTable.encode`).

A query is encoded once; then one AND over the words it touches decides for all blocks. Merged ranges may reach beyond a
block's own least and greatest value: the catalog holds zone maps beside this, and their answers are put together.

Blocks that are indexed before there is a table leave their *parts*; :func:`table_of_parts` is the reduce step on those.
A bit that is set by parts, and would not be by values, is that of a range without a value in the midst of a part. The
part lies in no gap that was cut at, so the range is less popular than each of those: what such bits take in is little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.errors import SidestepError
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType
from sidestep.synopsis.contract.answer import Answer
from sidestep.synopsis.contract.block_ranges import from_column
from sidestep.synopsis.grt.merge import cut, cut_all, integrate, merge, ranges_meeting, users
from sidestep.synopsis.grt.popularity import Popularity, learn_popularity
from sidestep.synopsis.grt.table import BitWords, GlobalRangeTable
from sidestep.synopsis.values.code_ranges import CodeRanges, code_ranges, joined
from sidestep.synopsis.values.codes import Codes, Coding
from sidestep.synopsis.values.forms import Mask

_CHUNK = 1 << 15
"""Blocks at a time: what is read and written for them stays in the processor's cache."""


_MANY_RANGES, _MOST_RANGES = 1 << 16, 1 << 17
"""All partitions together start with about so many ranges, if that is sixteen each; and with at most so many."""


_MOST_PARTS = 1 << 22
"""What all blocks together leave for a table, as long as that is sixteen ranges each: 64 MB where it is made."""


_FINER = 4
"""Ranges that a block leaves for each bit: of narrower gaps than that, few have a range of the table in them."""


_FEW = 16


NO_BITS = b""
"""What a block of which nothing is known stores: bits are never of that length."""


@dataclass(frozen=True, eq=False)
class BlockBits:
    """The bits of all blocks in one column, word by word: ``words[i]`` is word i of every block."""

    table: GlobalRangeTable
    words: BitWords
    unknown: Mask | None = None
    """The blocks that have no bits of this table, and none set; None if there are none."""

    @property
    def blocks(self) -> int:
        return int(self.words.shape[1])

    @property
    def type(self) -> DataType:
        return self.table.coding.type

    def may_be_within(self, ranges: IntervalSet) -> Answer | None:
        """Blocks that may hold a value of the set; None if it is not understood."""
        wanted = code_ranges(ranges, self.table.coding)
        return None if wanted is None else Answer(self.meeting(wanted), self.unknown)

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

    def union(self, among: Mask) -> CodeRanges:
        """What these blocks hold together, by the OR of their bits; of a block without bits, it says nothing.

        >>> from sidestep.predicate.types import INTEGER
        >>> from sidestep.synopsis.grt.table import encode_blocks
        >>> u = lambda *codes: np.array(codes, dtype=np.uint64)
        >>> table = GlobalRangeTable(Coding(INTEGER), CodeRanges(u(1, 5, 11), u(3, 9, 12)))
        >>> bits = BlockBits(table, encode_blocks(table, [u(2), u(3, 11), u(7)]))
        >>> list(bits.union(np.array([True, True, False])))
        [(1, 3), (11, 12)]
        """
        words = np.bitwise_or.reduce(self.words[:, np.flatnonzero(among)], axis=1)
        return self.table.decode(words)

    def held_codes(self, among: Mask) -> tuple[Coding, Codes]:
        """The ends of the table's ranges, each of which some block holds or once held."""
        return self.table.coding, np.concatenate([self.table.ranges.lows, self.table.ranges.highs])

    def pass_rate(self, among: Mask) -> float:
        return 1.0

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.table.nbytes + (0 if self.unknown is None else self.unknown.nbytes)


def ranges_per_partition(partitions: int, bits: int) -> int:
    """How many ranges a partition starts with on average: enough to fill the table, few enough to merge in a moment."""
    return max(_FEW, min(2 * bits, _MANY_RANGES // max(1, partitions)))


def parts_per_block(partitions: int, bits: int) -> int:
    """How many ranges each block leaves for a table that is still to be made; a block of fewer values leaves those.

    >>> [parts_per_block(blocks, 256) for blocks in (1, 1_000, 10_000, 10**6)]
    [1024, 1024, 419, 16]
    """
    return max(_FEW, min(_FINER * bits, _MOST_PARTS // max(1, partitions)))


def global_ranges(
    partitions: Sequence[CodeRanges],
    sizes: Sequence[int],
    popularity: Popularity,
    held: Sequence[CodeRanges],
) -> list[GlobalRangeTable]:
    """The reduce step: a table of at most so many *bits* for each of the sizes, largest first.

    ``partitions`` are the few ranges that each partition starts with, and ``held`` is what it holds: its distinct
    values, as ranges of one each, or what comes closest to them. By that, the cost of a merge is known.
    """
    if min(sizes, default=0) < 2:
        raise SidestepError("A global range table has at least 2 bits: one range, and one for all outside of it.")
    mutual = integrate(_together(partitions, popularity))
    used_by = users(len(mutual), [ranges_meeting(mutual, each) for each in held])
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
    known = np.flatnonzero(looked_at if held.unknown is None else looked_at & ~held.unknown).tolist()
    stored: list[bytes | None] = [NO_BITS if seen else None for seen in looked_at]
    if not known:
        return None, stored
    shares = learn_popularity(held.coding, asked)
    ranges = [held.of_block(block) for block in known]
    most = len(known) * ranges_per_partition(len(known), bits)
    (table,) = global_ranges(cut_all(ranges, most, shares), [bits], shares, ranges)
    for block, each in zip(known, ranges, strict=True):
        stored[block] = bits_bytes(table, table.encode_ranges(each))
    return table, stored
