"""Top-down: cuts by what queries ask for, and groups by features below them.

Cuts are made from the queries as they are, from the like of them elsewhere (for a focus that moves), or from both.
Where leaves are several blocks large, rows in them are grouped by their features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from sidestep.advisor.families.family import Arrangement, Material, Plans
from sidestep.advisor.families.simple import leaf_rows
from sidestep.advisor.trials.grow import grow
from sidestep.advisor.trials.needs import Needs
from sidestep.advisor.trials.sample import SEED

URGENT = (0.05, 0.2)
"""Shares from which a small part that queries want alone is cut off first (see :func:`grow`): early, or seldom."""
LARGE_LEAVES = (4, 16)
"""Blocks of the leaves below which rows are grouped by features."""


def cuts(material: Material) -> Plans:
    """Leaves become blocks. What cuts are made from is settled first, and then how early small parts are cut off."""
    early, *others = URGENT
    costs: dict[str, float] = {}
    for needs in _NEEDS:
        costs[needs] = yield partial(_cut, needs, early)
    for urgent in others:
        yield partial(_cut, min(costs, key=costs.__getitem__), urgent)


def _cut(needs: str, urgent: float, material: Material) -> Arrangement | None:
    tree = grow(material.sample, _NEEDS[needs](material), material.satisfied, leaf_rows(material), urgent)
    detail = f"by {needs}, parts first that {urgent:.0%} want"
    return None if tree.tree is None else Arrangement("cuts", detail, tree=tree, order=_order(material))


def cuts_and_features(material: Material) -> Plans:
    """Leaves of several blocks, and groups by features in them."""
    if material.demands.features:
        for blocks in LARGE_LEAVES:
            yield partial(_cut_and_group, blocks)


def _cut_and_group(blocks: int, material: Material) -> Arrangement | None:
    tree = grow(material.sample, material.needs, material.satisfied, blocks * material.block)
    detail = f"{material.demands.features} features in each of {tree.leaves} parts"
    return None if tree.tree is None else Arrangement("cuts and features", detail, tree=tree, order=_order(material))


def _order(material: Material) -> tuple[str, ...]:
    """The column along which leaves of several blocks are cut: that which most queries ask for ranges of."""
    return tuple(name for name in material.columns if name in material.needs.ranges)[:1]


def _moved(material: Material) -> Needs:
    return material.needs.shift(material.sample, np.random.default_rng(SEED))


_NEEDS: Mapping[str, Callable[[Material], Needs]] = {
    "the queries": lambda material: material.needs,
    "the like of them elsewhere": _moved,
    "both": lambda material: material.needs.join(_moved(material)),
}
"""What cuts are made from."""
