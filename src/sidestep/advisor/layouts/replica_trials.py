"""Partial replication (GSOP-R) tried on a sample: what queries would read where some cells are stored twice."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sidestep.advisor.families.replicas import PartTrials, cost_of_parts
from sidestep.advisor.layouts.column_groups import RATED_ROWS, WIDE_ROWS, WIDE_VECTORS, ColumnStudy, given_groups
from sidestep.advisor.layouts.replicas import part_trials
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.schemes import ReplicaLayout, ReplicaScheme
from sidestep.layout.replicas.search import SEARCH_COST, RatedScheme, search_replicas
from sidestep.layout.vectors import reduce_vectors

MOST_SCHEMES = 6
"""Schemes of a search that are rated by all means: from little storage to much."""


@dataclass(frozen=True, slots=True)
class WhatIfReplica:
    """One of the layouts that a table with replicas consists of: columns that share an arrangement of rows."""

    columns: tuple[str, ...]
    masters: tuple[str, ...]
    """Those of its columns that it holds in all rows."""
    rows: float
    """The share of rows that it holds all of its columns in."""
    features: tuple[str, ...]
    """These rows satisfy one of them at least."""


@dataclass(frozen=True, slots=True)
class ReplicasTrial:
    """A scheme of layouts that hold some cells twice."""

    layouts: tuple[WhatIfReplica, ...]
    read: float
    """What queries would read of it, row ids and their join included, as a share of all cells that they ask for."""
    storage: float
    """The cells that are stored, row ids included, as a multiple of the table's."""


def try_replicas(
    study: ColumnStudy, groups: Sequence[Sequence[str]], budget: float, *, seconds: float
) -> tuple[ReplicasTrial, ...]:
    """What the queries would read with more and more cells stored twice, up to ``budget`` times the table.

    The search begins with column ``groups`` and knows features alone. Of the schemes it comes across, those that cost
    less the more they take are rated as column groups are: each part arranged by all means, on rows of the sample.
    Schemes of one copy are left out, and those that turn out to take more for nothing. Half of the ``seconds``, of this
    thread's own time, are for the search; after all of them, no further scheme is rated.
    """
    began, workload = time.thread_time(), study.workload
    drawn = study.words[study.draw(WIDE_ROWS)]
    vectors = reduce_vectors(drawn, len(study.features))
    rows = LayoutRows(workload, vectors, study.block(len(drawn)), WIDE_VECTORS)
    found = search_replicas(workload, rows, budget, given_groups(groups, workload.columns), seconds=seconds / 2)
    parts = part_trials(study, RATED_ROWS)
    tried: list[ReplicasTrial] = []
    # The last first: what the whole budget is good for is what is asked for most.
    for one in reversed(_some(found.frontier)):
        if tried and time.thread_time() - began > seconds:
            break
        tried.append(_rate(study, one.scheme, rows, parts))
    return tuple(one for one in reversed(tried) if not any(_serves_as_well(other, one) for other in tried))


def _serves_as_well(other: ReplicasTrial, one: ReplicasTrial) -> bool:
    """Whether another scheme takes less and is read no more."""
    return other is not one and other.storage <= one.storage and other.read <= one.read


def _some(frontier: Sequence[RatedScheme]) -> list[RatedScheme]:
    """Some of the schemes that store cells twice, from the least storage to the most."""
    several = [one for one in frontier if one.storage > 1 + 1e-9]
    if len(several) <= MOST_SCHEMES:
        return several
    return [several[round(at * (len(several) - 1) / (MOST_SCHEMES - 1))] for at in range(MOST_SCHEMES)]


def _rate(study: ColumnStudy, scheme: ReplicaScheme, rows: LayoutRows, trials: PartTrials) -> ReplicasTrial:
    workload = study.workload
    cost = cost_of_parts(workload, scheme, rows, trials, SEARCH_COST)
    everything = max(1.0, float(workload.weights @ workload.reads.sum(axis=1)))
    stored = [_stored(study, layout, rows) for layout in scheme.layouts]
    held = [1.0 if layout.masters else each.rows for layout, each in zip(scheme.layouts, stored, strict=True)]
    ids = sum(held) / len(workload.columns) if len(held) > 1 else 0.0
    storage = scheme.storage(rows.count, rows.total) + ids
    return ReplicasTrial(tuple(stored), cost / everything, storage)


def _stored(study: ColumnStudy, layout: ReplicaLayout, rows: LayoutRows) -> WhatIfReplica:
    names = study.workload.columns
    return WhatIfReplica(
        tuple(names[at] for at in sorted(layout.columns)),
        tuple(names[at] for at in sorted(layout.masters)),
        1.0 if layout.whole else rows.count(layout.features) / max(1.0, rows.total),
        () if layout.whole else tuple(str(study.features[at]) for at in sorted(layout.features)),
    )
