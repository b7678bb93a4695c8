"""Tables and logs of five kinds, made from a seed: what ``bench outofbox`` lays out and asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from bench.outofbox_kinds.dashboards import dashboards
from bench.outofbox_kinds.events import events
from bench.outofbox_kinds.sky import sky
from bench.outofbox_kinds.star import star
from bench.outofbox_kinds.table import Kind, Query, Table
from bench.outofbox_kinds.wide import wide

__all__ = ["KINDS", "Kind", "Query", "Table", "make_kind"]

KINDS: Mapping[str, Callable[[int, int, int, np.random.Generator], Kind]] = {
    "star": star,
    "events": events,
    "dashboards": dashboards,
    "sky": sky,
    "wide": wide,
}


def make_kind(name: str, rows: int, queries: int, seed: int, later: int = 0) -> Kind:
    """A kind by its name; each draws from a source of its own, so that leaving one out changes no other.

    Of ``queries``, the first are to learn from. What follows is asked as often as given, or if that is 0, by the rest.
    """
    return KINDS[name](rows, queries, later, np.random.default_rng([seed, list(KINDS).index(name)]))
