"""A sample of a table's rows: all that is needed to try layouts on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.layout.demand import TimeBounds, is_time_type
from sidestep.layout.vectors import Bits
from sidestep.predicate import DataType

NO_TIME = (np.int64(2**63 - 1), np.int64(-(2**63)))
"""The bounds of rows that have no time: nothing lies between them."""

RowNumbers = npt.NDArray[np.int64]
"""A whole number for each row: the rank of a value, a unit, a bucket, a position."""

SEED = 20_140_622
"""Samples, and parts of them, are the same ones each time."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a table by column, each value as its rank among the column's distinct values (-1 is NULL).

    Ranks are all that sorting, cutting and zone maps need, whatever the type.
    """

    types: Mapping[str, DataType]
    values: Mapping[str, pa.Array]
    """The distinct values of each column, ascending."""
    codes: Mapping[str, RowNumbers]
    unit: RowNumbers
    """The unit of each row, numbered from 0."""
    buckets: Mapping[str, RowNumbers]
    """For columns of time, the bucket of each row: see :func:`sidestep.layout.demand.group_rows`."""
    rows: int
    """How many rows the table has."""

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def scale(self) -> float:
        """For how many rows of the table each row of the sample stands."""
        return max(1.0, self.rows / max(1, len(self)))

    @property
    def units(self) -> int:
        return int(self.unit.max(initial=-1)) + 1

    def rows_for(self, rows: int) -> int:
        """How many rows of the sample stand for ``rows`` of the table."""
        return max(1, round(rows / self.scale))

    def bounds(self, column: str) -> TimeBounds:
        """The time of each row as least and greatest value: days or microseconds since 1970."""
        values = self.values[column]
        whole = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64()).cast(pa.int64())
        numbers = np.append(whole.to_numpy(zero_copy_only=False), 0)
        codes = self.codes[column]
        return np.where(codes < 0, NO_TIME[0], numbers[codes]), np.where(codes < 0, NO_TIME[1], numbers[codes])

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of time."""
        return tuple(name for name, type in self.types.items() if is_time_type(type) and _has_time(self.values[name]))

    def take(self, rows: RowNumbers | Bits) -> Sample:
        """Some of the rows; units keep their numbers."""
        return replace(
            self,
            codes={name: codes[rows] for name, codes in self.codes.items()},
            unit=self.unit[rows],
            buckets={name: codes[rows] for name, codes in self.buckets.items()},
        )


@dataclass(frozen=True, eq=False)
class DrawnSample:
    """A sample, and which of its rows satisfy each predicate of the workload."""

    sample: Sample
    satisfied: Mapping[int, Bits]
    """By position among the features asked for; those that mean something else in this session are not here."""
    file: RowNumbers
    """The file that each row is in, numbered from 0; all 0 where that is not known."""
    files: tuple[str, ...]
    """The addresses of these files."""
    widths: Mapping[str, float]
    """The mean number of bytes of each of the table's columns, in memory."""


def sample_of(
    table: pa.Table,
    types: Mapping[str, DataType],
    rows: int,
    unit: pa.ChunkedArray | None = None,
    buckets: Mapping[str, pa.ChunkedArray] | None = None,
) -> Sample:
    """The sample that an Arrow table holds. Columns whose values have no order are left out.

    >>> from sidestep.predicate import INTEGER
    >>> sample = sample_of(pa.table({"a": [30, None, 10]}), {"a": INTEGER}, rows=300)
    >>> sample.codes["a"].tolist(), sample.scale, sample.rows_for(250)
    ([1, -1, 0], 100.0, 2)
    """
    ranked = {name: ranks(table[name]) for name, type in types.items() if type.ordered}
    return Sample(
        types={name: types[name] for name in ranked},
        values={name: values for name, (values, _) in ranked.items()},
        codes={name: codes for name, (_, codes) in ranked.items()},
        unit=np.zeros(len(table), np.int64) if unit is None else _number_values(unit),
        buckets={name: _number_values(column) for name, column in (buckets or {}).items()},
        rows=max(rows, len(table)),
    )


def ranks(column: pa.ChunkedArray | pa.Array) -> tuple[pa.Array, RowNumbers]:
    """The distinct values, ascending, and the rank of each row's; NULL is -1."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = array.dictionary_encode()
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    order = pc.sort_indices(coded.dictionary)
    place = np.empty(len(order) + 1, np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    place[-1] = -1
    indices = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return coded.dictionary.take(order), place[indices]


def _number_values(column: pa.ChunkedArray) -> RowNumbers:
    """Each row's value as a number from 0 on; NULL is a value too, and comes first."""
    codes = ranks(column)[1]
    return np.asarray(codes - codes.min(initial=0))


def _has_time(values: pa.Array) -> bool:
    return bool(pa.types.is_date32(values.type)) or (
        bool(pa.types.is_timestamp(values.type)) and values.type.unit == "us"
    )
