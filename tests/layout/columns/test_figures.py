"""The worked examples of the thesis's chapter 4."""

from __future__ import annotations

import numpy as np
import pytest

from sidestep.layout import pack, reduce_vectors, unpack
from sidestep.layout.columns.costs import reading
from sidestep.layout.columns.local import feature_weights, rank_features
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.columns.rows import RowsByFeatures
from sidestep.layout.columns.search import search
from tests.layout.columns.inputs import A_IS_M, B_NEGATIVE, C_LIKE_Y, ROWS, figure_rows, groups, query


def blocks_of(rows: RowsByFeatures, group: frozenset[int], bits: np.ndarray) -> set[frozenset[int]]:
    """The rows of each block, numbered from 1, as a group is arranged."""
    layout = rows.arrange(group)
    words = pack(bits[:, layout.local.numbers])
    place = {tuple(word): at for at, word in enumerate(layout.vectors.words.tolist())}
    blocks: dict[int, set[int]] = {}
    for row, word in enumerate(words.tolist(), 1):
        blocks.setdefault(int(layout.grouping.group_of_vector[place[tuple(word)]]), set()).add(row)
    return set(map(frozenset, blocks.values()))


def test_figure_4_1_groups_let_each_feature_have_its_own_blocks():
    grades_are_a, recent_db = 0, 1
    bits = np.array([[1, 1], [1, 0], [0, 0], [0, 1]], dtype=bool)
    asked = [query("g", grades_are_a), query("yc", recent_db)]
    rows = RowsByFeatures(ColumnWorkload.of("gyc", 2, asked), reduce_vectors(pack(bits), 2), 2)
    grade, rest = groups("g", "yc", columns="gyc")
    assert blocks_of(rows, grade, bits) == {frozenset({1, 2}), frozenset({3, 4})}
    assert blocks_of(rows, rest, bits) == {frozenset({1, 4}), frozenset({2, 3})}
    hybrid = reading(rows.workload, [grade, rest], rows.exact)
    assert (hybrid.cells.tolist(), hybrid.row_ids.tolist()) == ([2, 4], [0, 0])
    together = reading(rows.workload, [grade | rest], rows.exact)
    assert together.cells.sum() > hybrid.cells.sum(), "one partitioning can serve one of the features only"
    assert set(search(rows.workload, rows).best.groups) == {grade, rest}


def test_figure_4_2_sop_partitions_the_table_into_two_blocks():
    rows = figure_rows(query("AD", A_IS_M, weight=10), query("B", B_NEGATIVE), query("C", C_LIKE_Y))
    (everything,) = groups("ABCD")
    assert blocks_of(rows, everything, ROWS) == {frozenset({1, 3}), frozenset({2, 4})}
    layout = rows.arrange(everything)
    unions = np.zeros((2, 3), bool)
    unions[:, layout.local.numbers] = unpack(layout.grouping.unions, 3)
    assert {tuple(union.astype(int)) for union in unions} == {(1, 1, 1), (0, 1, 0)}
    read = reading(rows.workload, [everything], rows.exact)
    assert read.cells.tolist() == [4, 4, 2], "A = 'm' and D = 2 skips block 2, for both of its columns"


@pytest.mark.parametrize(
    ("scheme", "cells", "row_ids"),
    [(("ABCD",), 8, 0), (("A", "B", "C", "D"), 4, 4), (("AC", "BD"), 4, 0)],
    ids=["left end", "right end", "middle ground"],
)
def test_example_2_the_spectrum_of_layouts(scheme, cells, row_ids):
    """Figure 4.3. The left end is partitioned as in Figure 4.2, by a workload that mostly asks for A = 'm'."""
    sop = scheme == ("ABCD",)
    others = [query("AC", A_IS_M, C_LIKE_Y, weight=10)]
    rows = figure_rows(query("BD", B_NEGATIVE), *others)
    read = reading(rows.workload, groups(*scheme), rows.exact)
    assert (read.cells[0], read.row_ids[0]) == (cells, row_ids)
    if sop:
        assert blocks_of(rows, groups(*scheme)[0], ROWS) == {frozenset({1, 3}), frozenset({2, 4})}
    else:
        b = next(group for group in groups(*scheme) if group & groups("B")[0])
        assert blocks_of(rows, b, ROWS) == {frozenset({1, 4}), frozenset({2, 3})}


def test_example_3_correlated_filters_belong_together():
    """AC, BD and BC are each read once, but only A and C have filters that hold for the same rows."""
    rows = figure_rows(query("AC", A_IS_M), query("BD", B_NEGATIVE), query("BC", C_LIKE_Y))
    (ac,), (bd,) = groups("AC"), groups("BD")
    assert rows.exact(ac)[[0, 2]].tolist() == [2, 2], "A = 'm' and C like 'y%' do not conflict"
    assert sorted(rows.exact(bd)[[1, 2]]) == [2, 4], "B < 0 and C like 'y%' do"
    best = search(rows.workload, rows).best
    assert any(ac <= group for group in best.groups)
    assert best.cost == 16, "with four rows, to join groups costs more than any skipping saves"


def test_figure_4_4_each_group_is_arranged_by_its_own_projection():
    rows = figure_rows(query("AC", A_IS_M, C_LIKE_Y), query("BD", B_NEGATIVE))
    first, second = groups("AC", "BD")
    assert rows.arrange(first).local.numbers.tolist() == [A_IS_M, C_LIKE_Y]
    assert [bin(word) for word in rows.arrange(first).vectors.words.ravel().tolist()] == ["0b0", "0b11"]
    assert rows.arrange(second).local.numbers.tolist() == [B_NEGATIVE]


def test_figure_4_5_computation_and_estimation():
    """Five rows of vector 10, two of 01, one of 11, blocks of 2: the last block of 10 holds three rows, not two."""
    bits = np.array([[1, 0]] * 5 + [[0, 1]] * 2 + [[1, 1]], dtype=bool)
    workload = ColumnWorkload.of("AB", 2, [query("A", 0), query("A", 1), query("B")])
    rows = RowsByFeatures(workload, reduce_vectors(pack(bits), 2), 2)
    (a,) = groups("A", columns="AB")
    assert rows.estimate(a).tolist() == [6, 3, 8], "by the letter of 4.4.3 it would be 6, 4 and 8"
    assert rows.exact(a).tolist() == [6, 3, 8]


def test_local_features_are_those_that_occur_with_a_column():
    """4.5: a query like Q3 selects D where C like 'y%'; D is arranged by a feature that does not speak of D."""
    asked = [query("CD", C_LIKE_Y, weight=3), query("D", B_NEGATIVE), query("AB", A_IS_M)]
    workload = ColumnWorkload.of("ABCD", 3, asked)
    (d,) = groups("D")
    assert rank_features(workload, d).numbers.tolist() == [C_LIKE_Y, B_NEGATIVE]
    assert feature_weights(workload, d).tolist() == [0, 1, 3]
    with_it = RowsByFeatures(workload, reduce_vectors(pack(ROWS), 3), 2).exact(d)
    assert with_it[0] == 2, "half of D is skipped by a filter on C"


def test_figure_4_6_query_processing():
    """Query vector (1, 1, 0); A is read from one block of (A, C) and B, D from one of (B, D); only t1 is in both."""
    rows = figure_rows(query("ABD", A_IS_M, B_NEGATIVE), query("AC", A_IS_M, C_LIKE_Y), query("BD", B_NEGATIVE))
    first, second = groups("AC", "BD")
    workload = ColumnWorkload.of(
        "ABCD", 3, [query("AC", A_IS_M, C_LIKE_Y), query("BD", B_NEGATIVE), query("ABD", A_IS_M, B_NEGATIVE)]
    )
    test = workload.skipping([2])
    masks = {"AC": [A_IS_M, C_LIKE_Y], "BD": [B_NEGATIVE]}
    of_first = np.array([[1, 1], [0, 0]], dtype=bool)  # {t1, t3} and {t2, t4} by F1 and F3; F2 is invalid
    of_second = np.array([[0], [1]], dtype=bool)  # {t2, t3} and {t1, t4} by F2; F1 and F3 are invalid
    assert test.skipped(of_first, masks["AC"]).tolist() == [[False, True]]
    assert test.skipped(of_second, masks["BD"]).tolist() == [[True, False]]
    assert {1, 3} & {1, 4} == {1}, "t3 and t4 are missing in one group, so some local feature has ruled them out"
    read = reading(rows.workload, [first, second], rows.exact)
    assert (read.cells[0], read.row_ids[0]) == (6, 4)
    assert rows.local_features(first).mask(3).tolist() != rows.local_features(second).mask(3).tolist()
