"""Tables in memory, cut in blocks, with the catalogs that an index of them would give: what plans are pruned against.

What data-induced predicates save is decided before a query runs, from synopses alone. So it can be measured without
writing a layout out: the rows are put in order, cut, and summarized where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidestep.predicate import DataType, parse_type
from sidestep.synopsis import Catalog
from sidestep.synopsis.build import BuildPlan, block_synopses, index_columns
from sidestep.synopsis.catalog import Synopsis
from sidestep.synopsis.contract.answer import Held
from sidestep.synopsis.descriptor import SynopsisKind
from sidestep.synopsis.kinds import KINDS
from sidestep.synopsis.recipe import Recipe
from sidestep.synopsis.values.forms import stored_type
from sidestep.synopsis.values.summary import summarize
from sidestep.synopsis.zones.column_zones import ColumnZones, column_zones
from sidestep.synopsis.zones.zone_map import ZoneMaps

Order = npt.NDArray[np.int64]


@dataclass(eq=False)
class BlockTable:
    """The rows of a table in a certain order, cut in blocks of about equal size; synopses are made when asked for."""

    rows: pa.Table
    order: Order | None
    """Positions in ``rows``; None is the order that they have."""
    blocks: int
    _columns: dict[str, list[pa.Array]] = field(default_factory=dict)
    _zones: dict[str, ColumnZones | None] = field(default_factory=dict)
    _held: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    """By column, kind of synopsis and size."""

    def __post_init__(self) -> None:
        self.blocks = max(1, min(self.blocks, len(self.rows)))
        self.ends = np.linspace(0, len(self.rows), self.blocks + 1).astype(np.int64)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        return np.diff(self.ends)

    @property
    def width(self) -> float:
        """Bytes of a row."""
        return float(self.rows.nbytes) / max(1, len(self.rows))

    def catalog(self, columns: Mapping[str, DataType], recipe: Recipe) -> Catalog:
        """What an index says of these columns with zone maps, and what the recipe names besides."""
        types = {name: kind for name, kind in columns.items() if self.type_of(name) == kind}
        zones = {name: found for name, kind in types.items() if (found := self._zones_of(name, kind)) is not None}
        synopses: list[Synopsis] = [ZoneMaps(zones)]
        for key, size in recipe.sizes:
            held = {name: self._held_of(name, types[name], KINDS[key], size) for name in zones}
            synopses.append(KINDS[key].synopsis(held))
        sizes = self.sizes
        weights = (sizes * self.width).astype(np.int64)
        return Catalog(np.arange(self.blocks, dtype=np.int32), sizes, weights, self.blocks, tuple(synopses))

    def type_of(self, column: str) -> DataType:
        return parse_type(_spark_type(self.rows.schema.field(column).type))

    def _values(self, column: str) -> list[pa.Array]:
        if column not in self._columns:
            values = self.rows[column].combine_chunks()
            if isinstance(values, pa.ChunkedArray):
                values = pa.concat_arrays(values.chunks)
            if self.order is not None:
                values = values.take(pa.array(self.order))
            self._columns[column] = [
                values.slice(begin, end - begin) for begin, end in zip(self.ends[:-1], self.ends[1:], strict=True)
            ]
        return self._columns[column]

    def _zones_of(self, column: str, kind: DataType) -> ColumnZones | None:
        if column not in self._zones:
            stored = stored_type(kind)
            found = [summarize(values, kind) for values in self._values(column)] if stored is not None else []
            self._zones[column] = (
                column_zones(
                    kind,
                    self.sizes,
                    pa.array([each.lower for each in found], stored),
                    pa.array([each.upper for each in found], stored),
                    pa.array([each.nulls for each in found], pa.int64()),
                )
                if found
                else None
            )
        return self._zones[column]

    def _held_of(self, column: str, type: DataType, kind: SynopsisKind[Held], size: int) -> Held:
        if (column, kind.key, size) not in self._held:
            plan = BuildPlan({column: Recipe.from_json({kind.key: size})})
            # A value that occurs twice in a block says nothing more, unless rows count: distinct ones are quicker.
            blocks = (values if kind.counts_rows else pc.unique(values) for values in self._values(column))
            built = [block_synopses(column, type, values, plan) for values in blocks]
            parts = kind.parts_of(column, index_columns(column, type, built, plan))
            self._held[column, kind.key, size] = kind.read(type, parts, [])[0]
        found: Held = self._held[column, kind.key, size]
        return found


def _spark_type(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return {"int64": "bigint", "int32": "int", "date32[day]": "date", "double": "double"}.get(str(arrow), "string")
