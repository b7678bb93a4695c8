"""Value sets: every distinct value of a block, for columns that have few of them.

A column of few values (a status, a carrier, a country) says little by its least and greatest one: a block that holds
the first and the last letter of the alphabet is kept for every letter. Its set answers exactly, whatever is asked:
``=``, ``IN``, ranges, ``<>`` and ``NOT IN`` (a block is kept if it holds anything else), and patterns, which are tried
on each value. NULL is no value and in no set; that a block may hold one is for its zone map to say.

**Stored.** A block's values as a list of byte strings, in ascending order, and their number. Index files encode such a
column by a dictionary, which holds each value once for all blocks, and a block is a byte or so for each of its values.
Byte strings are the values themselves; of the other types they are as follows, and sort as the values do:

=========================  ========================================================================
stored form                byte string
=========================  ========================================================================
integers, dates, …         the code (:mod:`.values.codes`), eight bytes, the most significant first
float, double              the same: -0.0 is 0.0, and every NaN the greatest code
wide decimals              the unscaled value less the least one, sixteen bytes
string, binary             the value
=========================  ========================================================================

**Unknown.** A block of more values than its recipe allows, or of long ones, has no set: it is unknown, and kept.

**In memory** it is the other way round: each distinct value of the column once, as a zone map of one row, and the
blocks that hold it. What is asked of a column is asked of its values first, by the very rules of zone maps, and the
blocks of those that answer are the answer.

>>> from sidestep.predicate.like import parse
>>> from sidestep.predicate.types import STRING
>>> sets = [[b"AIR", b"TRUCK"], [b"RAIL"], []]
>>> stored = {"distinct": pa.array([2, 1, 0], pa.int32()), "values": pa.array(sets, STORED)}
>>> column = Column("mode", STRING)
>>> held = ValueSets({"mode": value_sets(STRING, stored)})
>>> held.can_satisfy(Within(column, IntervalSet.point(STRING, "RAIL"))).possible.tolist()  # lies between AIR and TRUCK
[False, True, False]
>>> held.can_satisfy(Matches(column, parse("%R_CK"), negated=True)).possible.tolist()
[True, True, False]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import Any as AnyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.predicate.formula import All, Any, Formula, Matches, Within, atoms, columns_in
from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.nodes import Column
from sidestep.predicate.types import DataType
from sidestep.synopsis.contract.answer import Answer, ByColumn
from sidestep.synopsis.contract.block_ranges import BlockRanges, reduce_ranges
from sidestep.synopsis.descriptor import BlockValues, Sizes, SynopsisKind
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.values.codes import (
    Codes,
    Coding,
    byte_code,
    common_prefix,
    float_values,
    integer_values,
    plain_values,
    wide_code,
)
from sidestep.synopsis.values.forms import (
    WIDE_MIN,
    ArrowColumn,
    Form,
    Mask,
    if_any,
    stored_type,
    unscaled,
    wide_bytes,
)
from sidestep.synopsis.zones.column_zones import ColumnZones, column_zones
from sidestep.synopsis.zones.zone_map import may_match

STORED = pa.list_(pa.binary())
"""The Arrow type of stored sets."""
NO_SET = -1
"""The number of values of a block of which nothing is known."""
MEAN_BYTES, LONGEST = 32, 128
"""What the strings of a set may take on average, and each of them; a block of longer ones has no set."""
_FEW = 16
"""The blocks of up to so many values are looked at value by value."""
_WIDTHS = {Form.INTEGER: 8, Form.FLOAT: 8, Form.WIDE: 16}


@dataclass(frozen=True, eq=False)
class BlockSets:
    """The value sets of one column: ``holders[begins[v]:begins[v + 1]]`` are the blocks that hold value v, ascending.

    A block without values is in none of them; neither is one of which nothing is known, and ``unknown`` tells them
    apart.
    """

    zones: ColumnZones
    """Each distinct value as a zone map of one row."""
    codes: tuple[Coding, Codes]
    """The code of each."""
    begins: npt.NDArray[np.int64]
    holders: npt.NDArray[np.int32]
    blocks: int
    unknown: Mask | None = None
    """The blocks of which nothing is known; None if there are none."""

    @property
    def type(self) -> DataType:
        return self.zones.type

    def may_be_within(self, ranges: IntervalSet) -> Answer | None:
        """Blocks that hold a value of the set."""
        return (
            Answer(self.holding(self.zones.may_be_within(ranges)), self.unknown) if ranges.type == self.type else None
        )

    def may_match(self, atom: Matches) -> Answer:
        """Blocks that hold a string that matches (or does not)."""
        return Answer(self.holding(may_match(self.zones, atom)), self.unknown)

    def holding(self, wanted: Mask) -> Mask:
        """Blocks that hold one of these values."""
        held = np.zeros(self.blocks, dtype=np.bool_)
        values = np.flatnonzero(wanted)
        if len(values) <= _FEW:
            for value in values.tolist():
                held[self.holders[self.begins[value] : self.begins[value + 1]]] = True
        else:
            held[self.holders[np.repeat(wanted, np.diff(self.begins))]] = True
        return held

    @cached_property
    def ranges(self) -> BlockRanges:
        """The sets as ranges of codes: what predicates that joins induce are made of."""
        coding, codes = self.codes
        of_holder = np.repeat(codes, np.diff(self.begins))
        order = np.lexsort((of_holder, self.holders))
        begins = np.zeros(self.blocks + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.holders, minlength=self.blocks), out=begins[1:])
        ends = of_holder[order]
        return BlockRanges(coding, *reduce_ranges(coding, begins, ends, ends, max(1, len(ends))), self.unknown)

    def held_codes(self, among: Mask) -> tuple[Coding, Codes]:
        """The codes of the values that these blocks hold."""
        return self.ranges.held_codes(among)

    def pass_rate(self, among: Mask) -> float:
        return 1.0

    @property
    def nbytes(self) -> int:
        unknown = 0 if self.unknown is None else self.unknown.nbytes
        return self.zones.nbytes + self.codes[1].nbytes + self.begins.nbytes + self.holders.nbytes + unknown


class ValueSets(ByColumn[BlockSets]):
    """The value sets of the columns that were loaded; they answer for patterns, and for all conditions on a column."""

    name = "value set"

    def can_satisfy(self, formula: Formula) -> Answer | None:
        match formula:
            case Matches(column) if (held := self.of(column)) is not None:
                return held.may_match(formula)
            case All(children):
                return self._satisfy_all(children)
        return super().can_satisfy(formula)

    def _satisfy_all(self, children: Sequence[Formula]) -> Answer | None:
        """Blocks that hold a value for which all conditions on a column are true, for each that has several.

        One by one, each condition may be true for another value.
        """
        by_column: dict[Column, list[Formula]] = {}
        for child in children:
            columns = columns_in(child)
            if len(columns) == 1 and all(isinstance(atom, Within | Matches) for atom in atoms(child)):
                by_column.setdefault(next(iter(columns)), []).append(child)
        answer: Answer | None = None
        for column, conditions in by_column.items():
            held = self.of(column)
            if held is not None and len(conditions) > 1:
                own = Answer(held.holding(_satisfying(held.zones, All(tuple(conditions)))), held.unknown)
                answer = own if answer is None else _both(answer, own)
        return answer


def _satisfying(values: ColumnZones, formula: Formula) -> Mask:
    """Which values may satisfy a formula on their column, in which NULL plays no part."""
    match formula:
        case Within(_, ranges):
            return values.may_be_within(ranges)
        case Matches():
            return may_match(values, formula)
        case All(children) if children:
            return np.asarray(np.logical_and.reduce([_satisfying(values, child) for child in children]))
        case Any(children):
            some = np.zeros(len(values.flags), dtype=np.bool_)
            return np.asarray(np.logical_or.reduce([some, *(_satisfying(values, child) for child in children)]))
    return np.ones(len(values.flags), dtype=np.bool_)


def _both(one: Answer, other: Answer) -> Answer:
    """What two answers say of a block together: ruled out is what either rules out."""
    known = [answer.possible | _unknown(answer) for answer in (one, other)]
    unknown = _unknown(one) & _unknown(other)
    return Answer(known[0] & known[1] & ~unknown, if_any(unknown))


def _unknown(answer: Answer) -> Mask:
    return np.zeros_like(answer.possible) if answer.unknown is None else answer.unknown


def _build(block: BlockValues, size: int) -> dict[str, AnyType]:
    """The set of a block of at most ``size`` values, unless they are long; see the module's text for its form."""
    if len(block.distinct) > size:  # as many values at least
        return {"distinct": NO_SET}
    keys = _keys(block)
    if len(keys) > size or sum(map(len, keys)) > MEAN_BYTES * size or max(map(len, keys), default=0) > LONGEST:
        return {"distinct": NO_SET}
    return {"distinct": len(keys), "values": keys}


def _keys(block: BlockValues) -> list[bytes]:
    """The distinct values of a block as byte strings, ascending."""
    if block.coding.form in (Form.INTEGER, Form.FLOAT):
        return [code.to_bytes(8) for code in block.distinct.tolist()]
    chunks = plain_values(block.values, block.coding)
    assert chunks is not None, "its codes could be had"
    values = {value for chunk in chunks for value in chunk.unique().to_pylist()}
    if block.coding.form is Form.WIDE:
        values = {wide_bytes(unscaled(value, block.coding.type.scale)[0]) for value in values}
    return sorted(values)


def value_sets(type: DataType, stored: Mapping[str, ArrowColumn]) -> BlockSets:
    """The sets that index columns hold. A block whose list is not as long as it says, or not of values, is unknown."""
    sets = _one_array(stored["values"])
    counts = np.asarray(pc.fill_null(pc.list_value_length(sets), NO_SET), dtype=np.int64)
    known = (counts >= 0) & (counts == np.asarray(pc.fill_null(_one_array(stored["distinct"]), NO_SET)))
    members = pc.list_flatten(sets)
    block = np.repeat(np.arange(len(sets), dtype=np.int32), np.maximum(counts, 0))
    encoded = members.dictionary_encode()
    keys: list[bytes] = encoded.dictionary.to_pylist()
    value = np.asarray(pc.fill_null(encoded.indices.cast(pa.int64()), len(keys)), dtype=np.int64)
    width = _WIDTHS.get(Coding(type).form)
    fits = np.array([*(width is None or len(key) == width for key in keys), False], dtype=np.bool_)
    known[block[~fits[value]]] = False
    chosen = known[block]
    block, value = block[chosen], value[chosen]
    order = np.lexsort((block, value))
    begins = np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum(np.bincount(value, minlength=len(keys)), out=begins[1:])
    # What is no value is held by no block that is known; the form still needs something in its place.
    keys = [key if fits[number] else bytes(width or 0) for number, key in enumerate(keys)]
    zones, codes = _values(Coding(type), keys)
    return BlockSets(zones, codes, begins, block[order], len(sets), if_any(~known))


def decode_values(type: DataType, keys: Sequence[bytes]) -> pa.Array:
    """Values, given as byte strings, in the stored form of their type.

    >>> from sidestep.predicate.types import INTEGER
    >>> decode_values(INTEGER, [(2**63 + 7).to_bytes(8)]).to_pylist()
    [7]
    """
    match Coding(type).form:
        case Form.BYTES:
            return pa.array(list(keys), pa.binary())
        case Form.WIDE:
            whole = [int.from_bytes(key) + WIDE_MIN for key in keys]
            return pa.array(
                [Decimal(number).scaleb(-type.scale, Context(prec=40)) for number in whole], stored_type(type)
            )
        case form:
            codes = np.array([int.from_bytes(key) for key in keys], dtype=np.uint64)
            return pa.array((float_values if form is Form.FLOAT else integer_values)(codes).tolist(), stored_type(type))


def _values(coding: Coding, keys: Sequence[bytes]) -> tuple[ColumnZones, tuple[Coding, Codes]]:
    """Values, given as byte strings, as zone maps of one row each, and as codes."""
    type, nan = coding.type, None
    lower = upper = decode_values(type, keys)
    match coding.form:
        case Form.BYTES:
            prefix = common_prefix(keys)
            # The least code also stands for all below the prefix: no value is to have it.
            coding = Coding(type, prefix[:-1] if prefix in keys else prefix)
            numbers = [byte_code(key, coding.prefix) for key in keys]
        case Form.WIDE:
            numbers = [wide_code(int.from_bytes(key) + WIDE_MIN) for key in keys]
        case _:
            numbers = [int.from_bytes(key) for key in keys]
    if coding.form is Form.FLOAT:
        # No bound takes NaN in: a value that is one has no number between its bounds.
        nan = pc.is_nan(lower)
        lower, upper = pc.if_else(nan, math.inf, lower), pc.if_else(nan, -math.inf, upper)
    rows = np.ones(len(keys), dtype=np.int64)
    zones = column_zones(type, rows, lower, upper, pa.array(np.zeros(len(keys), dtype=np.int64)), nan)
    return zones, (coding, np.array(numbers, dtype=np.uint64))


def _one_array(column: ArrowColumn) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _read(
    type: DataType, stored: Mapping[str, ArrowColumn], tables: Sequence[GlobalRangeTable]
) -> tuple[BlockSets, ...]:
    return (value_sets(type, stored),)


VALUES = SynopsisKind(
    name="values",
    synopsis=ValueSets,
    sizes=Sizes(usual=256, least=1, limit=1 << 12, unit="values at most", unit_bits=16),
    columns={"distinct": pa.int32(), "values": STORED},
    unknown=NO_SET,
    build=_build,
    read=_read,
)
