"""The worked example of skipping-oriented partitioning, from the table to the blocks that queries skip.

Thesis: Figure 3.1, its text in 3.1.2 and 3.4.1, and Figure 3.4 with 3.5. WARP: Example 1, Figures 2 and 3. The table is
whole in the thesis, but calls the column `category` that its features and queries call `product`: here it is `product`.
Figure 3.4 and WARP's Figure 3 are described in words only; the block catalog is that of Figure 3.1(d). Both papers have
the same features and vectors; the first feature weighs 50 in the thesis and 60 in WARP.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from sidestep.layout import (
    VectorCounts,
    locate,
    pack,
    partition,
    reduce_vectors,
    unpack,
)
from sidestep.predicate import column, compare, conjunction
from sidestep.predicate.oracle import evaluate
from sidestep.predicate.types import DOUBLE, STRING, Value
from sidestep.workload import Feature, FeatureSet
from tests.layout.objective import skippable_per_block, skippable_rows

COLUMNS = ("time", "id", "event", "product", "publisher", "revenue")
TABLE: list[tuple[Value, ...]] = [
    ("08:01:01", 102, "click", "jeans", "groupon", 0.0),
    ("08:01:01", 103, "click", "shirts", "google", -0.5),
    ("08:01:01", 104, "click", "shirts", "groupon", 0.0),
    ("08:01:02", 105, "buy", "jeans", "google", 12.0),
    ("08:01:03", 106, "click", "jeans", "google", -0.5),
    ("08:01:04", 107, "buy", "shoes", "shoedeal", 30.0),
]
BUY = compare(column("event", STRING), "=", "buy")
JEANS = compare(column("product", STRING), "=", "jeans")
GOOGLE = compare(column("publisher", STRING), "=", "google")
REFUND = compare(column("revenue", DOUBLE), "<", 0.0)
THESIS = (50, 20, 10)
WARP = (60, 20, 10)
VECTORS = [(0, 1, 0), (0, 0, 1), (0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 0)]
BLOCKS = [(0, 3), (1, 4), (2, 5)]
"""P1, P2 and P3 of Figure 3.1(d), as positions of tuples: t1 and t4, t2 and t5, t3 and t6."""


def features(weights=THESIS) -> FeatureSet:
    filters = [(BUY,), (JEANS,), (GOOGLE, REFUND)]
    return FeatureSet("events", tuple(Feature(f, w) for f, w in zip(filters, weights, strict=True)))


def table() -> list[dict[str, Value | None]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in TABLE]


def as_words(vectors):
    return pack(np.array(vectors, dtype=bool).reshape(len(vectors), 3))


def union_of(*vectors):
    return np.bitwise_or.reduce(as_words(vectors), axis=0)


def unions_of_blocks():
    return np.stack([union_of(*(VECTORS[at] for at in block)) for block in BLOCKS])


def skipping(filter) -> list[bool]:
    """Which of the figure's blocks a query skips: those where a feature that subsumes it has a 0 in the union."""
    absent = ~unpack(unions_of_blocks(), 3)
    return [bool(row[list(features().subsuming(filter))].any()) for row in absent]


def test_featurization_gives_the_vectors_of_figure_3_1_c():
    rows = table()
    found = [tuple(int(evaluate(f.predicate, row) is True) for f in features().features) for row in rows]
    assert found == VECTORS


def test_reduction_gives_vectors_with_counts():
    # Six tuples, six vectors; a second click on jeans by groupon adds no vector, but a row to that of t1.
    assert reduce_vectors(as_words(VECTORS), 3).counts.tolist() == [1] * 6
    reduced = reduce_vectors(as_words([*VECTORS, VECTORS[0]]), 3)
    assert len(reduced) == 6
    assert reduced.rows == 7
    assert reduced.counts[locate(reduced, as_words([VECTORS[0]]))].tolist() == [2]


def test_union_vectors_of_figure_3_1_d():
    assert unpack(unions_of_blocks(), 3).astype(int).tolist() == [[1, 1, 0], [0, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize(("weights", "second"), [(THESIS, 100.0), (WARP, 120.0)])
def test_the_cost_function_on_the_figures_blocks(weights, second):
    # C(P1) = 2 × 10 = 20, worked out in 3.4.1. P2 lacks F1, P3 lacks F2 and F3: 2 × 50 (or 60) and 2 × (20 + 10).
    sizes = np.array([2, 2, 2])
    assert skippable_per_block(unions_of_blocks(), sizes, weights).tolist() == [20.0, second, 60.0]
    assert skippable_rows(unions_of_blocks(), sizes, weights) == 80.0 + second


def test_which_blocks_a_query_skips():
    # "A query on F3 can skip the blocks P1 and P3."
    assert skipping(conjunction(GOOGLE, REFUND)) == [True, False, True]
    # Subsumed by F1 and F2, "which lead to the skipping of P2 and P3": only P1 is read (Figure 3.4 and WARP, 3).
    assert features().subsuming(conjunction(BUY, JEANS)) == (0, 1)
    assert skipping(conjunction(BUY, JEANS)) == [False, True, True]
    # One half of F3 alone is wider than F3: no feature subsumes it, and nothing is skipped.
    assert skipping(GOOGLE) == [False, False, False]


def test_a_skipped_block_has_no_row_for_the_query():
    rows = table()
    for query in (conjunction(GOOGLE, REFUND), conjunction(BUY, JEANS), BUY, JEANS, GOOGLE):
        for skip, block in zip(skipping(query), BLOCKS, strict=True):
            assert not (skip and any(evaluate(query, rows[at]) is True for at in block))


def test_the_merges_step_by_step():
    """minSize = 2 and one row each, so every merge makes a finished block and δ is the weight in which two differ."""
    weights = np.array(THESIS)

    def delta(one, other):
        before = skippable_rows(as_words([one, other]), np.array([1, 1]), THESIS)
        return skippable_rows(union_of(one, other)[None], np.array([2]), THESIS) - before

    ordered = reduce_vectors(as_words(VECTORS), 3)
    vectors = [tuple(v) for v in unpack(ordered.words, 3).astype(int).tolist()]
    # Ascending as words, F1 lowest: t3, t6, t1, t4, t2, t5.
    assert vectors == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 0, 1), (0, 1, 1)]
    assert all(delta(a, b) == -weights[np.not_equal(a, b)].sum() for i, a in enumerate(vectors) for b in vectors[:i])
    # 1. Two pairs differ in F3 alone: t3 with t2, and t1 with t5. The first is taken: t2 comes before t5.
    assert delta((0, 0, 0), (0, 0, 1)) == delta((0, 1, 0), (0, 1, 1)) == -10
    # 2. Then the other. 3. What is left is t6 with t4, which differ in F2.
    assert delta((1, 0, 0), (1, 1, 0)) == -20
    # All apart: 80 + 30 + 60 + 10 + 70 + 50 = 300 rows can be skipped; the merges cost 10, 10 and 20.
    assert skippable_rows(ordered.words, ordered.counts, THESIS) == 300

    grouping = partition(ordered, THESIS, 2)
    blocks = [{vectors[at] for at in np.flatnonzero(grouping.group_of_vector == g)} for g in range(len(grouping))]
    assert blocks == [{(0, 0, 0), (0, 0, 1)}, {(0, 1, 0), (0, 1, 1)}, {(1, 0, 0), (1, 1, 0)}]
    assert unpack(grouping.unions, 3).astype(int).tolist() == [[0, 0, 1], [0, 1, 1], [1, 1, 0]]
    assert skippable_rows(grouping.unions, grouping.sizes, THESIS) == 260


def test_no_other_blocks_of_two_skip_more():
    def total(order):
        unions = np.stack([union_of(VECTORS[order[at]], VECTORS[order[at + 1]]) for at in (0, 2, 4)])
        return skippable_rows(unions, np.array([2, 2, 2]), THESIS)

    assert max(map(total, permutations(range(6)))) == 260
    vectors = VectorCounts(as_words(VECTORS), np.ones(6, dtype=np.int64), 3)
    found = partition(vectors, THESIS, 2)
    assert skippable_rows(found.unions, found.sizes, THESIS) == 260
