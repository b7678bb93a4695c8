"""The families that anyone would try first: the table as it is, sorted, and along a Z curve by ranks."""

from __future__ import annotations

from functools import partial

from sidestep.advisor.families.family import Arrangement, Material, Plans
from sidestep.advisor.trials.grow import cut_evenly

MOST_SORTS = 4
Z_COLUMNS = (2, 3, 4)


def as_is(material: Material) -> Plans:
    """The table in its own order."""
    yield lambda _: Arrangement("as is", "in the order that rows came in", featured=False)


def sorted_by_column(material: Material) -> Plans:
    """The whole table sorted by a column, cut where blocks begin."""
    for name in material.columns[:MOST_SORTS]:
        yield partial(_sort, name)


def _sort(name: str, material: Material) -> Arrangement:
    tree = cut_evenly(material.sample, (name,), leaf_rows(material))
    return Arrangement("sorted", f"by {name}", tree=tree, featured=False, order=(name,))


def z_order(material: Material) -> Plans:
    """Columns cut in turn, each in the middle of its rows: a Z curve in which each counts alike."""
    for count in Z_COLUMNS:
        if count <= len(material.columns):
            yield partial(_interleave, tuple(material.columns[:count]))


def _interleave(names: tuple[str, ...], material: Material) -> Arrangement:
    tree = cut_evenly(material.sample, names, leaf_rows(material))
    return Arrangement("z-order", f"by {', '.join(names)}", tree=tree, featured=False)


def leaf_rows(material: Material) -> int:
    """The least rows of a leaf that is to become a block: their mean is then near the least size of a block.

    Of fewer rows little is known, and a tree of thousands of leaves takes long to grow: then a leaf is several blocks.
    """
    fewest = max(FEWEST_ROWS, len(material.sample) // MOST_LEAVES)
    return max(fewest, round(material.block / LEAVES_PER_BLOCK))


LEAVES_PER_BLOCK = 1.3
"""Leaves have from once to twice their least size, blocks by features hardly more than theirs."""
FEWEST_ROWS, MOST_LEAVES = 8, 4_000
