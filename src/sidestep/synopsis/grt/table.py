"""The global range table: one list of ranges for all blocks, by which blocks and queries become bit strings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sidestep.errors import SidestepError
from sidestep.predicate.types import parse_type
from sidestep.synopsis.grt.merge import places, ranges_meeting
from sidestep.synopsis.values.code_ranges import CodeRanges, joined
from sidestep.synopsis.values.codes import GREATEST, LEAST, Codes, Coding

BitWords = npt.NDArray[np.uint64]

WORD = 64


@dataclass(frozen=True, eq=False)
class GlobalRangeTable:
    """Mutually exclusive ranges common to all blocks (GRT, section 4), and one bit more for all that lies outside.

    Bit i of a block says that it holds a value in range i; bit i of a query, that it asks for one. A block whose bits
    and the query's have none in common cannot hold what is asked for. The last bit stands for every value that is in no
    range. When the table is made there is none, but blocks come later: without that bit, what they hold outside of the
    ranges would be proven absent (a false negative).

    >>> from sidestep.predicate.types import INTEGER
    >>> u = lambda *codes: np.array(codes, dtype=np.uint64)
    >>> table = GlobalRangeTable(Coding(INTEGER), CodeRanges(u(1, 5, 11), u(3, 9, 12)))
    >>> words = table.encode(u(2, 12)), table.encode(u(4)), table.query(CodeRanges(u(0), u(8)))
    >>> [format(int(word[0]), "04b") for word in words]
    ['0101', '1000', '1011']
    """

    coding: Coding
    ranges: CodeRanges

    @property
    def bits(self) -> int:
        return len(self.ranges) + 1

    @property
    def words(self) -> int:
        return -(-self.bits // WORD)

    def encode(self, codes: Codes) -> BitWords:
        """The bits of a block that holds these codes."""
        return self._pack(places(self.ranges, codes))

    def encode_ranges(self, held: CodeRanges) -> BitWords:
        """The bits of a block that may hold anything in these ranges: what is known when its values are not at hand."""
        return self._pack(
            np.append(ranges_meeting(self.ranges, held), [] if self._covered(held) else [-1]).astype(np.int64)
        )

    def query(self, wanted: CodeRanges) -> BitWords:
        """The bits of a query for anything in these ranges, worked out once for all blocks."""
        return self.encode_ranges(wanted)

    def decode(self, words: BitWords) -> CodeRanges:
        """All that a block with these bits may hold.

        >>> from sidestep.predicate.types import INTEGER
        >>> u = lambda *codes: np.array(codes, dtype=np.uint64)
        >>> table = GlobalRangeTable(Coding(INTEGER), CodeRanges(u(1, 5, 11), u(3, 9, 12)))
        >>> list(table.decode(u(0b0110))), list(table.decode(u(0b1010)))
        ([(5, 9), (11, 12)], [(0, 0), (4, 4), (5, 9), (10, 10), (13, 18446744073709551615)])
        """
        flags = np.unpackbits(np.ascontiguousarray(words, dtype="<u8").view(np.uint8), bitorder="little")
        chosen = np.flatnonzero(flags[: len(self.ranges)])
        inside = CodeRanges(self.ranges.lows[chosen], self.ranges.highs[chosen])
        if not flags[len(self.ranges)]:
            return inside
        outside = self._outside
        return joined(np.append(inside.lows, outside.lows), np.append(inside.highs, outside.highs))

    @cached_property
    def _outside(self) -> CodeRanges:
        """What lies in no range."""
        one, lows, highs = np.uint64(1), self.ranges.lows, self.ranges.highs
        begins = np.append(LEAST, highs[highs < GREATEST] + one)
        ends = np.append(lows[lows > LEAST] - one, GREATEST)
        if len(lows) and lows[0] == LEAST:
            begins = begins[1:]
        if len(highs) and highs[-1] == GREATEST:
            ends = ends[:-1]
        between = begins <= ends
        return CodeRanges(begins[between], ends[between])

    def _pack(self, bits: npt.NDArray[np.int64]) -> BitWords:
        """Bits as words; -1 is the last bit, outside."""
        flags = np.zeros(self.words * WORD, dtype=np.bool_)
        flags[np.where(bits < 0, len(self.ranges), bits)] = True
        return np.packbits(flags, bitorder="little").view("<u8").astype(np.uint64, copy=False)

    @cached_property
    def _breaks(self) -> npt.NDArray[np.int64]:
        """For each range, how many gaps there are between ranges before it."""
        gaps = self.ranges.lows[1:] - self.ranges.highs[:-1] > np.uint64(1)
        return np.concatenate([[0], np.cumsum(gaps)]).astype(np.int64)

    def _covered(self, wanted: CodeRanges) -> bool:
        """Whether nothing that is wanted lies outside of all ranges."""
        lows, highs = self.ranges.lows, self.ranges.highs
        if not len(wanted):
            return True
        if not len(lows):
            return False
        first = np.searchsorted(highs, wanted.lows, side="left")
        last = np.searchsorted(lows, wanted.highs, side="right") - 1
        if first[-1] >= len(lows) or last[0] < 0 or np.any(last < first):
            return False
        begun = (lows[first] <= wanted.lows) & (highs[last] >= wanted.highs)
        return bool(np.all(begun & (self._breaks[first] == self._breaks[last])))

    @cached_property
    def identity(self) -> str:
        """A name that only this table has: bits mean nothing with any other."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """The table as text, to be stored once for all the blocks that were encoded with it."""
        ends = {"lows": self.ranges.lows.tolist(), "highs": self.ranges.highs.tolist()}
        return json.dumps({"type": str(self.coding.type), "prefix": self.coding.prefix.hex(), **ends})

    @classmethod
    def from_json(cls, text: str) -> GlobalRangeTable:
        try:
            stored = json.loads(text)
            coding = Coding(parse_type(stored["type"]), bytes.fromhex(stored["prefix"]))
            lows, highs = (np.array(stored[end], dtype=np.uint64) for end in ("lows", "highs"))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise SidestepError(f"This is no global range table ({error}): index the table again.") from error
        return cls(coding, CodeRanges(lows, highs))

    @property
    def nbytes(self) -> int:
        return self.ranges.lows.nbytes + self.ranges.highs.nbytes


def encode_blocks(table: GlobalRangeTable, blocks: Iterable[Codes]) -> BitWords:
    """The bits of many blocks, word by word: one row per word, one column per block."""
    rows = [table.encode(codes) for codes in blocks]
    stacked = np.stack(rows) if rows else np.zeros((0, table.words), dtype=np.uint64)
    return np.ascontiguousarray(stacked.T)
