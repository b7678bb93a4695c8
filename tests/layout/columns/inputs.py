"""The table of the thesis's Figure 4.2, and random workloads on random vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sidestep.layout import VectorCounts, pack, reduce_vectors
from sidestep.layout.columns.queries import ColumnQuery, ColumnWorkload, subsumed_by
from sidestep.layout.columns.rows import RowsByFeatures

A_IS_M, B_NEGATIVE, C_LIKE_Y = range(3)
ROWS = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
"""t1 to t4 by the features of Figure 4.2. The figure is not in the text, but 4.2.2 gives t1, t3 and t4. That t2
satisfies none follows from the union vector 010 of {t2, t4} and from Example 2, where t2 fails B < 0."""


def query(columns: str, *features: int, weight: float = 1.0) -> ColumnQuery:
    """A query on columns of one letter each, and the features that subsume it."""
    return ColumnQuery(frozenset(columns), subsumed_by(features), weight)


def figure_rows(*queries: ColumnQuery, block: int = 2) -> RowsByFeatures:
    """The rows of Figure 4.2 in blocks of two, for these queries."""
    return RowsByFeatures(ColumnWorkload.of("ABCD", 3, queries), reduce_vectors(pack(ROWS), 3), block)


def groups(*names: str, columns: str = "ABCD") -> list[frozenset[int]]:
    """Groups of columns of one letter each."""
    return [frozenset(columns.index(name) for name in group) for group in names]


@dataclass(frozen=True)
class Case:
    """A random workload and the rows it is to be laid out for."""

    workload: ColumnWorkload
    vectors: VectorCounts
    block: int
    most_vectors: int

    @property
    def rows(self) -> RowsByFeatures:
        return RowsByFeatures(self.workload, self.vectors, self.block, self.most_vectors)


@st.composite
def cases(draw, most_columns=6, most_features=7, most_queries=6) -> Case:
    columns = "abcdefgh"[: draw(st.integers(1, most_columns))]
    features = draw(st.integers(0, most_features))
    numbers = st.integers(0, max(0, features - 1))
    part = st.lists(numbers, min_size=1, max_size=3, unique=True).map(lambda part: tuple(sorted(part)))
    way = st.lists(part, min_size=1, max_size=3).map(tuple)
    ways = st.lists(way, max_size=2).map(tuple) if features else st.just(())
    queries = draw(
        st.lists(
            st.builds(
                ColumnQuery,
                st.frozensets(st.sampled_from(columns), min_size=1),
                ways,
                st.integers(1, 5).map(float),
            ),
            max_size=most_queries,
        )
    )
    bits = draw(arrays.arrays(np.bool_, (draw(st.integers(1, 24)), features)))
    counts = draw(arrays.arrays(np.int64, len(bits), elements=st.integers(1, 12)))
    return Case(
        ColumnWorkload.of(columns, features, queries),
        reduce_vectors(pack(bits), features, counts),
        draw(st.integers(1, 25)),
        draw(st.integers(1, 20)),
    )
