"""The table of the thesis's chapter 5, and random workloads with layouts for them.

The figures are not in the text, which is at odds with itself: 5.2 has r2 satisfy f3 alone, 5.4.2 has r1 and r3 satisfy
f1, r2 and r4 satisfy f2, and r1 and r2 satisfy f3. Only the latter gives the rows {r1, …, r4} of L1, and with them the
storage cost 1.125 and the query cost 14, so it is what stands here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from sidestep.layout import pack, reduce_vectors
from sidestep.layout.columns.queries import ColumnQuery, ColumnWorkload, subsumed_by
from sidestep.layout.replicas.rows import LayoutRows
from sidestep.layout.replicas.schemes import Cells, ReplicaLayout, ReplicaScheme
from tests.layout.columns.inputs import Case, cases

C1, C2, C3, C4 = range(4)
F1, F2, F3 = range(3)
BITS = np.array([[1, 0, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0]], dtype=bool)
BITS[0, F3] = True
"""r1 to r4 by f1: c1 = 'x', f2: c2 > 1 and f3: c2 % 2 = 0."""


def query(columns: set[int], *features: int, weight: float = 1.0) -> ColumnQuery:
    return ColumnQuery(frozenset(f"c{at + 1}" for at in columns), subsumed_by(features), weight)


def figure_workload(*further: ColumnQuery) -> ColumnWorkload:
    """The queries behind the feature table of Figure 5.2: c1, c3 are relevant for f1, c2, c3 for f2, c2, c4 for f3."""
    asked = [query({C1, C3}, F1), query({C2, C3}, F2), query({C2, C4}, F3)]
    return ColumnWorkload.of(["c1", "c2", "c3", "c4"], 3, [*asked, *further])


def figure_rows(workload: ColumnWorkload | None = None) -> LayoutRows:
    """The four rows in blocks of two."""
    return LayoutRows(workload or figure_workload(), reduce_vectors(pack(BITS), 3), 2)


def cells(columns: set[int], features: set[int]) -> Cells:
    return frozenset(columns), frozenset(features)


def figure_5_4() -> ReplicaScheme:
    """L1 has c1, c2 and c3 by f1 and f2, all of them masters; L2 has c2 and the master c4 by f3."""
    first = ReplicaLayout(frozenset({C1, C2, C3}), frozenset({F1, F2}), frozenset({C1, C2, C3}))
    return ReplicaScheme(4, (first, ReplicaLayout(frozenset({C2, C4}), frozenset({F3}), frozenset({C4}))))


@dataclass(frozen=True)
class Laid:
    """A random workload, its rows, and a random scheme for them."""

    case: Case
    rows: LayoutRows
    scheme: ReplicaScheme


@st.composite
def laid_out(draw) -> Laid:
    case = draw(cases(most_columns=4, most_queries=4))
    rows = LayoutRows(case.workload, case.vectors, case.block, case.most_vectors)
    columns, features = len(case.workload.columns), case.workload.features
    some = st.frozensets(st.integers(0, columns - 1), min_size=1)
    local = st.frozensets(st.integers(0, features - 1)) if features else st.just(frozenset())
    layouts = draw(st.lists(st.tuples(some, local), max_size=3))
    everything = frozenset(range(columns)), draw(local)
    return Laid(case, rows, ReplicaScheme.of(columns, [*layouts, everything], rows.count))
