"""The kinds of synopses that a column may have beside its zone map: to add one, write its module and a line here.

Zone maps, partition values and union vectors are no such kinds. No recipe names them and they have no size: every
column has a zone map, the folder or the log gives the partition values, and a layout gives the union vectors. They
answer as all synopses do (:class:`sidestep.synopsis.catalog.Synopsis`).
"""

from __future__ import annotations

from typing import Any

from sidestep.errors import SidestepError
from sidestep.synopsis.bloom import BLOOM
from sidestep.synopsis.descriptor import SynopsisKind
from sidestep.synopsis.gap_histogram import GAP_HISTOGRAM
from sidestep.synopsis.global_ranges import GRT
from sidestep.synopsis.range_set import RANGE_SET
from sidestep.synopsis.value_set import VALUES

KINDS: dict[str, SynopsisKind[Any]] = {}
"""All kinds by the key that stored recipes name them by, in the order in which they are listed and asked."""


def register(kind: SynopsisKind[Any]) -> None:
    """Make a kind known to recipes, jobs, indexes and people; its name and index columns must be its own."""
    for other in KINDS.values():
        taken = {*kind.columns, *kind.columns_of_bytes} & {*other.columns, *other.columns_of_bytes}
        if other.key == kind.key or other.title == kind.title or taken:
            raise SidestepError(f"The synopsis {kind.name} needs a name and index columns that {other.name} has not.")
    KINDS[kind.key] = kind


register(RANGE_SET)
register(GAP_HISTOGRAM)
register(BLOOM)
register(GRT)
register(VALUES)
