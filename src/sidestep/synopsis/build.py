"""Building the synopses of a block from its values, all in one go: what the collect and load jobs run on each block.

A block's values are read once and become codes once; every synopsis that the column's recipe names is built of those.
Of a block whose values are not known for certain something is stored that is no synopsis, and so rules nothing out.
NULL is left for blocks that were never looked at: those can still be indexed. The same is stored of a block whose
partition goes without a synopsis that others have.

**Global range tables** are made of all blocks together. Where there is one already, a block is encoded by it at once:
values that came later and lie in none of its ranges have a bit of their own. Where there is none yet, the block leaves
its *parts*, its values or many ranges of them (:func:`~.grt.encoding.parts_per_block`), of which a table is made and
by which the block is encoded (:mod:`sidestep.synopsis.grt.encoding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from sidestep.predicate.intervals import IntervalSet
from sidestep.predicate.types import DataType, Kind, time_step
from sidestep.synopsis.descriptor import BlockValues, SharedTable, SynopsisKind
from sidestep.synopsis.grt.popularity import Popularity
from sidestep.synopsis.grt.table import GlobalRangeTable
from sidestep.synopsis.kinds import KINDS
from sidestep.synopsis.recipe import Recipe, Recipes
from sidestep.synopsis.values.codes import Coding, codes_of, shared_prefix
from sidestep.synopsis.values.forms import ArrowColumn, Form, stored_form
from sidestep.synopsis.values.summary import UNKNOWN, summarize
from sidestep.synopsis.zones.partition_values import Partition

AskedRanges = Mapping[str, Sequence[tuple[IntervalSet, float]]]
"""What the workload asks of columns, by name, and how often: what is popular in a global range table."""


@dataclass(frozen=True)
class BuildPlan:
    """What the blocks of one run get beside their zone maps."""

    recipes: Recipes = field(default_factory=dict)
    tables: Mapping[str, GlobalRangeTable] = field(default_factory=dict)
    """The table of each column that has one already."""
    asked: AskedRanges = field(default_factory=dict)
    partitions: int = 1000
    """About how many blocks there will be: the more, the fewer parts each leaves."""
    partition: Partition = ()
    """Where the blocks at hand are: some partitions get other synopses than the rest."""
    kinds: Mapping[str, SynopsisKind[Any]] = field(default_factory=lambda: dict(KINDS), compare=False, repr=False)
    """The kinds that recipes may name. They travel with the plan: workers need not have registered them."""
    _popularity: dict[str, dict[DataType, Popularity]] = field(default_factory=dict, compare=False, repr=False)
    """Popularity of columns, once it was worked out."""

    def recipe(self, column: str, type: DataType) -> Recipe:
        """What a column gets; nothing if its type has no codes that a reader could not change."""
        recipe = self.recipes.get(column)
        return recipe if recipe is not None and has_codes(type) else Recipe()

    def own(self, column: str, type: DataType) -> Recipe:
        """What a column gets in the partition at hand."""
        return self.recipe(column, type).of(self.partition)

    def at(self, partition: Partition) -> BuildPlan:
        """The same for blocks of one partition."""
        return replace(self, partition=partition)

    def shared_table(self, column: str) -> SharedTable:
        """What the blocks of a column share."""
        known = self._popularity.setdefault(column, {})
        return SharedTable(self.tables.get(column), self.asked.get(column, ()), self.partitions, known)

    def columns(self, column: str, type: DataType) -> dict[str, pa.DataType]:
        """The index columns that a column gets, with their Arrow types: in all partitions the same."""
        as_parts = column not in self.tables
        names: dict[str, pa.DataType] = {}
        for key, _ in self.recipe(column, type).widest.sizes:
            names |= self.kinds[key].stored_columns(column, type, as_parts=as_parts)
        return names


def has_codes(type: DataType) -> bool:
    """Whether synopses of codes can be built of a type's values as they are in a file.

    Not where Spark's reader cuts digits off a time: the value that a query sees would have another code.
    """
    return stored_form(type) is not None and not (type.kind is Kind.TIME and time_step(type) > 1_000)


def block_synopses(column: str, type: DataType, values: ArrowColumn | None, plan: BuildPlan) -> dict[str, Any]:
    """The synopses of one column of one block, as values of the index columns that :meth:`BuildPlan.columns` names.

    ``values`` are those that every reader sees; None if that is not certain.

    >>> from sidestep.predicate.types import INTEGER
    >>> plan = BuildPlan({"a": Recipe(range_set=2)})
    >>> built = block_synopses("a", INTEGER, pa.array([3, 900, None, 4]), plan)
    >>> [int(end) - 2**63 for end in built["ranges:a"]]
    [3, 4, 900, 900]
    """
    parts: dict[str, Any] = {}
    for key, _ in plan.recipe(column, type).widest.sizes:
        parts |= plan.kinds[key].nothing(as_parts=column not in plan.tables)
    recipe = plan.own(column, type)
    block = _block_values(type, values, recipe, plan, column) if recipe and values is not None else None
    if block is not None:
        for key, size in recipe.sizes:
            parts |= plan.kinds[key].build(block, size)
    return {f"{part}:{column}": value for part, value in parts.items()}


def _block_values(
    type: DataType, values: ArrowColumn, recipe: Recipe, plan: BuildPlan, column: str
) -> BlockValues | None:
    """What the kinds of a recipe are built of; None if the values cannot be read as ``type`` for certain."""
    if summarize(values, type) == UNKNOWN:
        return None
    of_bytes = stored_form(type) is Form.BYTES
    if of_bytes and not any(plan.kinds[key].counts_rows for key, _ in recipe.sizes):
        values = values.unique()  # bytes are slow to code
    coding = Coding(type, shared_prefix(values) if of_bytes else b"")
    codes = codes_of(values, coding)
    return None if codes is None else BlockValues(values, coding, codes, plan.shared_table(column))


def index_columns(
    column: str, type: DataType, built: Sequence[Mapping[str, Any]], plan: BuildPlan
) -> dict[str, pa.Array]:
    """The index columns of what :func:`block_synopses` built of each block in turn."""
    wanted = plan.columns(column, type)
    return {name: pa.array([block.get(name) for block in built], arrow) for name, arrow in wanted.items()}
