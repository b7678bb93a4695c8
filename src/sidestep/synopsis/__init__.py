"""What does a block contain? One module per synopsis, and one catalog that holds them as columns.

Start at :mod:`~sidestep.synopsis.skip`, which says what skipping is; :mod:`~sidestep.synopsis.catalog` has the protocol
that every synopsis follows. Zone maps and partition values are in ``zones/``, union vectors in ``features/``. A column
has the others, of the :mod:`~sidestep.synopsis.kinds` that there are, by its :mod:`~sidestep.synopsis.recipe`, as
:mod:`~sidestep.synopsis.build` builds them of a block.
"""

from sidestep.synopsis.attribution import Amount, Skip, explain_skips
from sidestep.synopsis.catalog import Catalog, Synopsis
from sidestep.synopsis.features.union_vectors import UnionVectors
from sidestep.synopsis.recipe import Recipe, Recipes
from sidestep.synopsis.skip import kept_blocks
from sidestep.synopsis.values.forms import Mask, stored_type
from sidestep.synopsis.values.summary import ColumnSummary, summarize
from sidestep.synopsis.zones.partition_values import PartitionValues, partition_values
from sidestep.synopsis.zones.zone_map import ZoneMaps, zone_maps

__all__ = [
    "Amount",
    "Catalog",
    "ColumnSummary",
    "Mask",
    "PartitionValues",
    "Recipe",
    "Recipes",
    "Skip",
    "Synopsis",
    "UnionVectors",
    "ZoneMaps",
    "explain_skips",
    "kept_blocks",
    "partition_values",
    "stored_type",
    "summarize",
    "zone_maps",
]
