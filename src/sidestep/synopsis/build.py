"""Making the synopses of a block from its values, all in one go: what the collect and load jobs run on each block.

A block's values are read once and become codes once; every synopsis that the column's recipe names is made of those.
Of a block whose values are not known for certain something is stored that is no synopsis, and so rules nothing out.
NULL is left for blocks that were never looked at: those can still be indexed. The same is stored of a block whose
partition goes without a synopsis that others have.

**Global range tables** are made of all blocks together. Where there is one already, a block is encoded by it at once:
values that came later and lie in none of its ranges have a bit of their own. Where there is none yet, the block leaves
its *parts*, its values as a few dozen ranges (:func:`~.grt.merge.sub_partition`), of which a table is made and by which
the block is encoded (:mod:`sidestep.synopsis.grt.encoding`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType, Kind, time_step
from sidestep.synopsis.bloom import LINE_BYTES, bloom_filter, false_positive_rate, lines_for
from sidestep.synopsis.gap_histogram import UNCOUNTED, gap_histogram
from sidestep.synopsis.grt.encoding import NO_BITS, bits_bytes, ranges_per_partition
from sidestep.synopsis.grt.merge import sub_partition
from sidestep.synopsis.grt.popularity import Popularity, learned, uniform
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.range_set import range_set
from sidestep.synopsis.recipe import Recipe, Recipes
from sidestep.synopsis.values.block_ranges import STORED
from sidestep.synopsis.values.code_ranges import CodeRanges, end_to_end
from sidestep.synopsis.values.codes import Codes, Coding, codes_of, shared_prefix
from sidestep.synopsis.values.forms import Form, stored_form
from sidestep.synopsis.values.hashing import Hashes, code_hashes, column_hashes
from sidestep.synopsis.values.summary import UNKNOWN, summarize
from sidestep.synopsis.zones.column_zones import ArrowColumn
from sidestep.synopsis.zones.partition_values import Partition

AskedRanges = Mapping[str, Sequence[tuple[IntervalSet, float]]]
"""What the workload asks of columns, by name, and how often: what is popular in a global range table."""

RATE = 0.01
"""A Bloom filter is no larger than this rate of false positives wants."""
_USELESS = 0.9
"""A filter that would say "maybe" so often is not worth its bytes."""
_MANY = 1000
"""Above so many distinct values, a filter grows in proportion to them."""
_FINER = 4
"""Where a block cannot know which gaps are popular, it leaves so many times as many parts to choose from."""

NO_RANGES = np.zeros(1, dtype=np.uint64)
NO_FILTER = b"\0"
"""What a block of which nothing is known stores: neither is of a length that ranges or a filter can have."""


@dataclass(frozen=True)
class Making:
    """What the blocks of one run get beside their zone maps."""

    recipes: Recipes = field(default_factory=dict)
    tables: Mapping[str, GlobalRangeTable] = field(default_factory=dict)
    """The table of each column that has one already."""
    asked: AskedRanges = field(default_factory=dict)
    partitions: int = 1000
    """About how many blocks there will be: the more, the fewer parts each leaves."""
    partition: Partition = ()
    """Where the blocks at hand are: some partitions get other synopses than the rest."""
    _shares: dict[str, Popularity] = field(default_factory=dict, compare=False, repr=False)
    """Popularity of columns, once it was worked out: it takes longer than a block does."""

    def recipe(self, column: str, type: DataType) -> Recipe:
        """What a column gets; nothing if its type has no codes that a reader could not change."""
        found = self.recipes.get(column)
        return found if found is not None and has_codes(type) else Recipe()

    def own(self, column: str, type: DataType) -> Recipe:
        """What a column gets in the partition at hand."""
        return self.recipe(column, type).of(self.partition)

    def at(self, partition: Partition) -> Making:
        """The same for blocks of one partition."""
        return replace(self, partition=partition)

    def parts(self, column: str, coding: Coding, distinct: Codes, bits: int) -> CodeRanges:
        """What a block leaves for a global range table.

        Codes of strings leave a prefix out, another one in each block, and popularity would have to follow: there the
        widest gaps are cut at, and the choice among them is left to the table.
        """
        most = ranges_per_partition(self.partitions, bits)
        asked = self.asked.get(column, ())
        if coding.form is Form.BYTES:
            return sub_partition(distinct, _FINER * most if asked else most, uniform(coding))
        if column not in self._shares:
            self._shares[column] = learned(coding, asked)
        return sub_partition(distinct, most, self._shares[column])

    def columns(self, column: str, type: DataType) -> dict[str, pa.DataType]:
        """The index columns that a column gets, with their Arrow types: in all partitions the same."""
        recipe = self.recipe(column, type).widest
        names = stored_columns(column, type, recipe)
        if recipe.grt and column not in self.tables:
            del names[f"grt:{column}"], names[f"grttable:{column}"]
            names |= _ranges("grtparts", column, type)
        return names


def has_codes(type: DataType) -> bool:
    """Whether synopses of codes can be made of a type's values as they are in a file.

    Not where Spark's reader cuts digits off a time: the value that a query sees would have another code.
    """
    return stored_form(type) is not None and not (type.kind is Kind.TIME and time_step(type) > 1_000)


def stored_columns(column: str, type: DataType, recipe: Recipe) -> dict[str, pa.DataType]:
    """The index columns of the synopses that a recipe names, with their Arrow types."""
    names: dict[str, pa.DataType] = {}
    if not has_codes(type):
        return names
    if recipe.range_set:
        names |= _ranges("ranges", column, type)
    if recipe.gap_histogram:
        names |= {**_ranges("buckets", column, type), f"depths:{column}": pa.list_(pa.int64())}
    if recipe.bloom:
        names[f"bloom:{column}"] = pa.large_binary()
    if recipe.grt:
        names |= {f"grt:{column}": pa.large_binary(), f"grttable:{column}": pa.string()}
    return names


def _ranges(kind: str, column: str, type: DataType) -> dict[str, pa.DataType]:
    names: dict[str, pa.DataType] = {f"{kind}:{column}": STORED}
    if stored_form(type) is Form.BYTES:
        names[f"{kind}prefix:{column}"] = pa.binary()
    return names


def block_synopses(column: str, type: DataType, values: ArrowColumn | None, making: Making) -> dict[str, Any]:
    """The synopses of one column of one block, as values of the index columns that :meth:`Making.columns` names.

    ``values`` are those that every reader sees; None if that is not certain.

    >>> from sidestep.predicate.types import INTEGER
    >>> making = Making({"a": Recipe(range_set=2)})
    >>> made = block_synopses("a", INTEGER, pa.array([3, 900, None, 4]), making)
    >>> [int(end) - 2**63 for end in made["ranges:a"]]
    [3, 4, 900, 900]
    """
    recipe = making.own(column, type)
    made = _unknown(column, making.recipe(column, type).widest, making)
    if not recipe or values is None or summarize(values, type) == UNKNOWN:
        return made
    if stored_form(type) is Form.BYTES and not recipe.gap_histogram:
        values = values.unique()  # bytes are slow to code, and depths alone need them all
    coding = Coding(type, shared_prefix(values) if stored_form(type) is Form.BYTES else b"")
    codes = codes_of(values, coding)
    if codes is None:
        return made
    distinct = np.unique(codes)
    if recipe.range_set:
        made[f"ranges:{column}"] = _stored(range_set(coding, distinct, recipe.range_set))
        made[f"rangesprefix:{column}"] = coding.prefix
    if recipe.gap_histogram:
        buckets, depths = gap_histogram(np.sort(codes), recipe.gap_histogram)
        made[f"buckets:{column}"], made[f"depths:{column}"] = _stored(buckets), depths
        made[f"bucketsprefix:{column}"] = coding.prefix
    if recipe.bloom:
        made[f"bloom:{column}"] = _filter(_hashes(values, distinct, coding), recipe.bloom)
    if recipe.grt:
        table = making.tables.get(column)
        if table is None:
            made[f"grtparts:{column}"] = _stored(making.parts(column, coding, distinct, recipe.grt))
            made[f"grtpartsprefix:{column}"] = coding.prefix
        else:
            made[f"grt:{column}"], made[f"grttable:{column}"] = NO_BITS, None
            held = distinct if table.coding == coding else codes_of(values, table.coding)
            if held is not None and table.coding.type == type:
                made[f"grt:{column}"] = bits_bytes(table, table.encode(held))
                made[f"grttable:{column}"] = table.identity
    return made


def _unknown(column: str, recipe: Recipe, making: Making) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if recipe.range_set:
        made[f"ranges:{column}"] = NO_RANGES
    if recipe.gap_histogram:
        made[f"buckets:{column}"], made[f"depths:{column}"] = NO_RANGES, [UNCOUNTED]
    if recipe.bloom:
        made[f"bloom:{column}"] = NO_FILTER
    if recipe.grt:
        made[f"grt:{column}" if column in making.tables else f"grtparts:{column}"] = (
            NO_BITS if column in making.tables else NO_RANGES
        )
    return made


def _stored(ranges: CodeRanges) -> Codes:
    return end_to_end(ranges.lows, ranges.highs)


def _hashes(values: ArrowColumn, distinct: Codes, coding: Coding) -> Hashes:
    """The distinct hashes of a block's values: codes of integers and floats are as good as the values."""
    if coding.form in (Form.INTEGER, Form.FLOAT):
        return code_hashes(distinct)
    found = column_hashes(values, coding.type)
    assert found is not None
    return np.unique(found)


def _filter(hashes: Hashes, most: int) -> bytes:
    if not len(hashes):
        return b""
    lines = min(most // LINE_BYTES, _lines(len(hashes)))
    if _rate(len(hashes), lines) > _USELESS:
        return NO_FILTER
    return bloom_filter(hashes, lines).astype("<u4").tobytes()


@lru_cache(maxsize=_MANY)
def _lines_of_few(distinct: int) -> int:
    return lines_for(distinct, RATE)


def _lines(distinct: int) -> int:
    return _lines_of_few(distinct) if distinct <= _MANY else math.ceil(distinct / _MANY * _lines_of_few(_MANY))


@lru_cache(maxsize=_MANY)
def _rate(distinct: int, lines: int) -> float:
    return false_positive_rate(distinct, lines)
