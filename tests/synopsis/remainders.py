"""A kind of synopsis that the product does not have: which remainders of a division a block's integers leave.

Nobody needs it, but it is sound, and written as any kind is: one module, and one line that registers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import INTEGRAL, DataType
from sidestep.synopsis.contract.answer import Answer, ByColumn
from sidestep.synopsis.descriptor import BlockValues, Sizes, SynopsisKind
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.values.codes import integer_values
from sidestep.synopsis.values.forms import ArrowColumn, Mask, if_any

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class BlockRemainders:
    """The remainders of one column: bit r of a block says that it holds a value that leaves r."""

    type: DataType
    divisors: npt.NDArray[np.int64]
    bits: npt.NDArray[np.int64]
    unknown: Mask | None = None

    def may_be_within(self, ranges: IntervalSet) -> Answer | None:
        values = ranges.values(100) if self.type.kind in INTEGRAL else None
        if values is None:
            return None
        possible = np.zeros(len(self.bits), dtype=np.bool_)
        for value in values:
            possible |= (self.bits >> (np.int64(int(value)) % self.divisors)) & 1 == 1
        return Answer(possible, self.unknown)

    def held_codes(self, among: Mask) -> None:
        return None

    def pass_rate(self, among: Mask) -> float:
        return 1.0

    @property
    def nbytes(self) -> int:
        return self.divisors.nbytes + self.bits.nbytes


class Remainders(ByColumn[BlockRemainders]):
    name = "set of remainders"


def build(block: BlockValues, size: int) -> dict[str, Any]:
    if block.coding.type.kind not in INTEGRAL:
        return {"remainders": UNKNOWN}
    left = np.unique(integer_values(block.distinct) % size)
    return {"remainders": sum(1 << int(each) for each in left), "divisor": size}


def read(
    type: DataType, stored: Mapping[str, ArrowColumn], tables: Sequence[GlobalRangeTable]
) -> tuple[BlockRemainders, ...]:
    bits = np.asarray(pc.fill_null(stored["remainders"], UNKNOWN), dtype=np.int64)
    divisors = np.asarray(pc.fill_null(stored["divisor"], 0), dtype=np.int64)
    unknown = (bits < 0) | (divisors < 1)
    return (BlockRemainders(type, np.where(unknown, 1, divisors), np.where(unknown, 0, bits), if_any(unknown)),)


REMAINDERS = SynopsisKind(
    name="remainders",
    synopsis=Remainders,
    sizes=Sizes(usual=8, least=2, limit=62, unit="remainders", unit_bits=1),
    columns={"remainders": pa.int64(), "divisor": pa.int64()},
    unknown=UNKNOWN,
    build=build,
    read=read,
)
