"""Transformations of schemes (thesis, 5.5.1): each trades data scan, row reconstruction and storage for one another.

Schemes are given and returned as the cells of their layouts: layouts of equal features are made one, and master columns
found, where a scheme is made of them (:meth:`~.schemes.ReplicaScheme.of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.replicas.schemes import Cells, ColumnNumbers, FeatureNumbers


def relevant_columns(workload: ColumnWorkload) -> list[ColumnNumbers]:
    """For each feature the columns of the queries that it subsumes, or a part of which it subsumes (5.2)."""
    helped = workload.helped[workload.filter_of_query] > 0
    read = helped.T.astype(np.float32) @ workload.reads.astype(np.float32) > 0
    return [frozenset(np.flatnonzero(columns).tolist()) for columns in read]


def initial_layouts(columns: int, relevant: Sequence[ColumnNumbers]) -> tuple[Cells, ...]:
    """A layout for each column, with the features that the column is relevant for; nothing is replicated."""
    local = [frozenset(f for f, named in enumerate(relevant) if column in named) for column in range(columns)]
    return tuple((frozenset({column}), features) for column, features in enumerate(local))


def replicate(
    layouts: Iterable[Cells], layout: Cells, features: FeatureNumbers, relevant: Sequence[ColumnNumbers]
) -> tuple[Cells, ...]:
    """``repl``: the cells that these features request of a layout get one of their own, which rids it of the features.

    The thesis takes one feature at a time.
    """
    held, local = layout
    rest = tuple(each for each in layouts if each != layout)
    return (*rest, (held, local - features), (held & _of(features, relevant), features))


def merge(layouts: Iterable[Cells], one: Cells, other: Cells) -> tuple[Cells, ...]:
    """``merge``: one layout of the columns and of the features of both."""
    rest = tuple(each for each in layouts if each not in (one, other))
    return (*rest, (one[0] | other[0], one[1] | other[1]))


def merge_replicate(
    layouts: Iterable[Cells], one: Cells, other: Cells, relevant: Sequence[ColumnNumbers]
) -> tuple[Cells, ...]:
    """``merge-repl``: one layout of the columns of both and of the features that they have in common.

    What the other features request of each gets a layout of its own.
    """
    rest = tuple(each for each in layouts if each not in (one, other))
    made = [(one[0] | other[0], one[1] & other[1])]
    for mine, theirs in ((one, other), (other, one)):
        features = mine[1] - theirs[1]
        columns = mine[0] & _of(features, relevant)
        if columns:
            made.append((columns, features))
    return (*rest, *made)


def _of(features: FeatureNumbers, relevant: Sequence[ColumnNumbers]) -> ColumnNumbers:
    return frozenset().union(*(relevant[feature] for feature in features))
