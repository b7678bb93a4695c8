"""Z-order: rows sorted by the interleaved bits of several columns' ranks, on the columns that suit the queries best."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.predicate import And, DataType, Formula, Kind, Predicate, normalize
from sidestep.predicate.columns import columns_of
from sidestep.synopsis import Catalog, kept_blocks
from sidestep.synopsis.values.forms import stored_type
from sidestep.synopsis.zones.zone_map import zone_maps

if TYPE_CHECKING:
    from pyspark.sql import Column

BITS = 10
MOST_COLUMNS = 6
"""Six columns of ten bits fit a 64-bit integer."""


@dataclass(frozen=True)
class ZOrder:
    """Columns, and for each the values that part a sample of its rows into 1,024 slices of about equal size."""

    columns: tuple[str, ...]
    quantiles: tuple[tuple[Any, ...], ...]

    def values(self, *arrays: pa.Array) -> npt.NDArray[np.int64]:
        """The place of each row on the curve.

        >>> order = ZOrder(("a", "b"), ((2, 3), ("y",)))
        >>> order.values(pa.array([1, 1, 2]), pa.array(["x", "y", "x"])).tolist()
        [0, 1, 2]
        """
        ranks = [_ranks(array, bounds) for array, bounds in zip(arrays, self.quantiles, strict=True)]
        curve = np.zeros(len(arrays[0]), np.int64)
        for bit in reversed(range(BITS)):
            for rank in ranks:
                curve = (curve << 1) | ((rank >> bit) & 1)
        return curve

    def expression(self) -> Column:
        """The place of each row as a column of Spark."""
        from pyspark.sql import functions as f

        def place(*arrays: pa.Array) -> pa.Array:
            return pa.array(self.values(*arrays))

        def place_of_series(*series: pd.Series) -> pd.Series:
            return pd.Series(self.values(*(pa.Array.from_pandas(each) for each in series)))

        if hasattr(f, "arrow_udf"):
            return f.arrow_udf(place, "bigint")(*self.columns)  # type: ignore[no-any-return]
        # Spark 4.0 knows no other.
        return f.pandas_udf(place_of_series, "bigint")(*self.columns)  # type: ignore[attr-defined, no-any-return]


def z_order(sample: pa.Table, columns: Sequence[str]) -> ZOrder:
    """A Z-order on these columns whose ranks are the quantiles of a sample."""
    return ZOrder(tuple(columns), tuple(_quantiles(sample[name]) for name in columns))


def _quantiles(column: pa.ChunkedArray) -> tuple[Any, ...]:
    ordered = column.combine_chunks().drop_null().sort()
    at = np.linspace(0, len(ordered), 2**BITS, endpoint=False).astype(np.int64)[1:]
    return tuple(ordered.take(pa.array(at)).to_pylist()) if len(ordered) else ()


def _ranks(array: pa.Array, bounds: Sequence[Any]) -> npt.NDArray[np.int64]:
    """How many of the bounds each value reaches; NULL reaches none. Each distinct value is looked up once."""
    coded = array.dictionary_encode()
    rank_of = np.array([0 if value is None else bisect_right(bounds, value) for value in coded.dictionary.to_pylist()])
    if len(rank_of) == 0:
        return np.zeros(len(array), np.int64)
    codes = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), rank_of[codes], 0).astype(np.int64)


def most_filtered(queries: Sequence[frozenset[Predicate]]) -> list[str]:
    """The columns that a predicate of one column alone is about, those of most queries first."""
    counted: Counter[str] = Counter()
    for predicates in queries:
        about = [{column.name for column in columns_of(predicate)} for predicate in predicates]
        single = {name for names in about for name in names if len(names) == 1}
        # The branches of an OR filter several columns each: what all of them name is filtered too, only less clearly.
        counted.update(sorted(single or set().union(*about)))
    return [name for name, _ in counted.most_common()]


@dataclass(frozen=True)
class Sampled:
    """A sample of a table by column: what zone maps would be if its rows were in some order and cut into blocks."""

    types: Mapping[str, DataType]
    coded: Mapping[str, tuple[pa.Array, npt.NDArray[np.int64]]]
    """For each column its distinct values, ascending, and the position of each row's value among them."""
    blocks: int

    def share(self, order: npt.NDArray[np.int64], formulas: Sequence[Formula]) -> float:
        """The share of rows that these filters read if rows in this order are cut into blocks of one size."""
        starts = np.linspace(0, len(order), self.blocks, endpoint=False).astype(np.int64)
        rows = np.diff(starts, append=len(order))
        index: dict[str, pa.Array] = {}
        for name, (values, codes) in self.coded.items():
            arranged = codes[order]
            index[f"lower:{name}"] = values.take(pa.array(np.minimum.reduceat(arranged, starts)))
            index[f"upper:{name}"] = values.take(pa.array(np.maximum.reduceat(arranged, starts)))
            index[f"nulls:{name}"] = pa.array(np.zeros(self.blocks, np.int64))
        catalog = Catalog(np.zeros(self.blocks, np.int32), rows, rows, 1, (zone_maps(self.types, index, rows),))
        return float(np.mean([rows[kept_blocks(catalog, formula)].sum() / len(order) for formula in formulas]))


def sampled(table: pa.Table, types: Mapping[str, DataType], blocks: int) -> Sampled:
    return Sampled(types, {name: _coded(table[name], kind) for name, kind in types.items()}, min(blocks, len(table)))


def _coded(column: pa.ChunkedArray, kind: DataType) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The distinct values in stored form, ascending, and the position of each row's; the columns hold no NULL."""
    form = stored_type(kind)
    array = column.combine_chunks()
    if kind.kind is Kind.DECIMAL:
        array = pc.cast(pc.multiply(array, pa.scalar(10**kind.scale)), pa.int64())
    elif array.type != form:
        array = array.cast(pa.int32()).cast(form) if pa.types.is_date(array.type) else array.cast(form)
    coded = array.dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return coded.dictionary.take(pa.array(order)), place[coded.indices.to_numpy()]


def choose_columns(
    sample: pa.Table, types: Mapping[str, DataType], queries: Sequence[frozenset[Predicate]], blocks: int
) -> tuple[tuple[str, ...], dict[str, float]]:
    """The columns of the Z-order that would read the fewest rows for these queries, and what each choice would read.

    Starting from the column that alone does best, the one that helps most is added, until none helps. That is more than
    a person does who takes the columns filtered most; those choices (the first two, three, … of that list) are tried
    too, so that the Z-order that is compared with is as good as the queries at hand can make it.
    """
    wanted = [name for name in most_filtered(queries) if name in types]
    formulas = [normalize(And(tuple(predicates))) for predicates in queries]
    rows = sampled(sample, types, blocks)
    tried: dict[tuple[str, ...], float] = {}

    def read(columns: tuple[str, ...]) -> float:
        if columns not in tried:
            curve = z_order(sample, columns).values(*(sample[name].combine_chunks() for name in columns))
            tried[columns] = rows.share(np.argsort(curve, kind="stable"), formulas)
        return tried[columns]

    for count in range(1, min(MOST_COLUMNS, len(wanted)) + 1):
        read(tuple(wanted[:count]))
    best: tuple[str, ...] = ()
    while len(best) < MOST_COLUMNS:
        further = min(((*best, name) for name in wanted if name not in best), key=read, default=None)
        if further is None or (best and read(further) >= read(best)):
            break
        best = further
    chosen = min(tried, key=lambda columns: tried[columns])
    return chosen, {", ".join(columns): share for columns, share in sorted(tried.items(), key=lambda pair: pair[1])}
