"""Which synopses the blocks get that a write makes: as someone wishes, else as the table has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sidestep.predicate import DataType
from sidestep.store import Location, Snapshot, TableIndex
from sidestep.store.index.table_index import open_folder, open_index
from sidestep.store.upkeep.update import check_recipes, planned
from sidestep.synopsis.build import Asked, Making
from sidestep.synopsis.recipe import Recipes

ROW_BYTES = 200
"""About what a row takes on disk, to tell how many blocks there will be."""


def more_blocks(index: TableIndex, columns: Mapping[str, DataType], recipes: Recipes | None) -> Making:
    """For blocks that come to a table: global ranges are those that it has."""
    check_recipes(recipes or {}, columns)
    return replace(planned(index, columns, recipes), partitions=max(1, index.map.blocks))


def new_blocks(
    source: Snapshot,
    columns: Mapping[str, DataType],
    folder: Location,
    min_size: int,
    recipes: Recipes | None,
    asked: Asked | None = None,
) -> Making:
    """For blocks that a whole table is made of: like those of its index before, or of its source's.

    Global ranges are found anew, as rows come to lie elsewhere; what is ``asked`` for they keep apart.
    """
    check_recipes(recipes or {}, columns)
    before = open_folder(folder)
    if recipes is None and not before.index_files:
        before = open_index(source.root)
    partitions = source.bytes // (min_size * ROW_BYTES)
    making = replace(planned(before, columns, recipes, asked, rebuild=True), partitions=max(1, partitions))
    if source.format == "delta":
        return making
    # Partitions of a folder become columns like any other: what some of them had, all blocks get.
    return replace(making, recipes={name: recipe.widest for name, recipe in making.recipes.items()})
