"""The worked examples of the thesis's chapter 5."""

from __future__ import annotations

import numpy as np

from sidestep.layout import unpack
from sidestep.layout.columns.queries import ColumnWorkload
from sidestep.layout.replicas.basic import copy_fully, replicate_selectively
from sidestep.layout.replicas.costs import layout_reads, retrieve
from sidestep.layout.replicas.paths import PathCost, find_path, greedy_path, optimal_path
from sidestep.layout.replicas.schemes import ReplicaScheme
from sidestep.layout.replicas.transform import initial_layouts, merge, merge_replicate, relevant_columns, replicate
from tests.layout.replicas.inputs import (
    BITS,
    C1,
    C2,
    C3,
    C4,
    F1,
    F2,
    F3,
    cells,
    figure_5_4,
    figure_rows,
    figure_workload,
    query,
)

RELEVANT = [frozenset({C1, C3}), frozenset({C2, C3}), frozenset({C2, C4})]


def test_figure_5_2_relevant_columns_and_a_query_on_column_groups():
    workload = figure_workload(query({C1, C2}, F3))
    assert relevant_columns(figure_workload()) == RELEVANT
    rows = figure_rows(workload)
    groups = ReplicaScheme.of(4, [cells({C1, C3}, {F1, F2}), cells({C2, C4}, {F2, F3})], rows.count)
    assert groups.storage(rows.count, rows.total) == 1, "each column is in one group"
    read = retrieve(workload.reads, [layout_reads(workload, layout, rows) for layout in groups.layouts])
    assert (read.cells[3], read.row_ids[3]) == (4 + 2, 4 + 2), "four values of c1, two of c2, and a row id for each"


def test_figure_5_3_a_the_data_that_f2_requests_is_replicated():
    # f2 conflicts with f3 in the group of c2 and c4: the heavier it is, the more its own copy saves.
    workload = figure_workload(query({C2, C3}, F2, weight=9), query({C2, C4}, F3, weight=4))
    rows = figure_rows(workload)
    groups = [frozenset({C1, C3}), frozenset({C2, C4})]
    found = replicate_selectively(workload, rows, 1.25, groups)
    copy = next(layout for layout in found.best.scheme.layouts if layout.features == {F2})
    assert copy.columns == {C2, C3}
    assert rows.count(copy.features) == 2, "r2 and r4"
    others = [layout for layout in found.best.scheme.layouts if layout is not copy]
    assert all(F2 not in layout.features for layout in others), "its bit is invalid elsewhere"
    assert found.best.storage == 1.25


def test_figure_5_3_b_features_are_divided_among_full_copies():
    workload = figure_workload(query({C2, C3}, F2, weight=2), query({C2, C4}, F3, weight=9))
    rows = figure_rows(workload)
    found = copy_fully(workload, rows, 2)
    assert found.best.storage == 2
    local = {frozenset().union(*(layout.features for layout in copy)) for copy in found.copies}
    assert local == {frozenset({F1, F2}), frozenset({F3})}


def test_figure_5_4_a_scheme_applied_to_data():
    rows, scheme = figure_rows(), figure_5_4()
    first, second = scheme.layouts
    assert (rows.count(first.features), rows.count(second.features)) == (4, 2)
    assert (first.stored(rows.count, 4), second.stored(rows.count, 4)) == (12, 6)
    assert scheme.storage(rows.count, rows.total) == 18 / 16 == 1.125
    arranged = rows.arrange(first.cells)
    unions = np.zeros((2, 3), bool)
    unions[:, arranged.local.numbers] = unpack(arranged.grouping.unions, len(arranged.local))
    assert {tuple(union.astype(int)) for union in unions} == {(1, 0, 0), (0, 1, 0)}
    alone = rows.arrange(second.cells)
    assert alone.grouping.sizes.tolist() == [2], "r1 and r2 are one block; c4 of r3 and r4 is another"


def test_figure_5_5_a_the_initial_scheme():
    initial = initial_layouts(4, RELEVANT)
    assert initial == (cells({C1}, {F1}), cells({C2}, {F2, F3}), cells({C3}, {F1, F2}), cells({C4}, {F3}))
    scheme = ReplicaScheme.of(4, initial, figure_rows().count)
    assert all(layout.whole for layout in scheme.layouts)
    assert scheme.storage(figure_rows().count, 4) == 1


def test_figure_5_5_b_replicate():
    """repl(L, L2, f3); the new layout has the features of L4, so the two become one (5.5.2)."""
    initial = initial_layouts(4, RELEVANT)
    made = replicate(initial, initial[1], frozenset({F3}), RELEVANT)
    assert set(made) == {*initial[:1], *initial[2:], cells({C2}, {F2}), cells({C2}, {F3})}
    rows = figure_rows()
    scheme = ReplicaScheme.of(4, made, rows.count)
    assert cells({C2, C4}, {F3}) in scheme.cells
    assert len(scheme.layouts) == 4
    # Merged with what is left of L2 and with L1, L3 is the first layout of Figure 5.4.
    further = merge(scheme.cells, cells({C2}, {F2}), cells({C3}, {F1, F2}))
    further = merge(further, cells({C1}, {F1}), cells({C2, C3}, {F1, F2}))
    assert ReplicaScheme.of(4, further, rows.count) == figure_5_4()


def test_figure_5_5_c_merge():
    initial = initial_layouts(4, RELEVANT)
    made = merge(initial, initial[1], initial[2])
    assert set(made) == {initial[0], initial[3], cells({C2, C3}, {F1, F2, F3})}


def test_figure_5_5_d_merge_replicate():
    """By its definition F5 is F2 ∩ F3 = {f2} and F7 is {f1}; the text of the figure has the two the other way round."""
    initial = initial_layouts(4, RELEVANT)
    made = merge_replicate(initial, initial[1], initial[2], RELEVANT)
    assert set(made) == {initial[0], initial[3], cells({C2, C3}, {F2}), cells({C2}, {F3}), cells({C3}, {F1})}
    scheme = ReplicaScheme.of(4, made, figure_rows().count)
    assert cells({C1, C3}, {F1}) in scheme.cells, "equal features: merged at once, as L4 with L6"
    assert cells({C2, C4}, {F3}) in scheme.cells


def test_master_columns_are_where_most_rows_are():
    """5.5.3: one layout for each column, the one of most rows, which need fewest to be completed."""
    rows = figure_rows()
    scheme = ReplicaScheme.of(4, [cells({C1, C2, C3}, {F1, F2}), cells({C2, C4}, {F3})], rows.count)
    assert scheme == figure_5_4()


def test_figure_5_6_both_retrieval_paths():
    """SELECT c2, c3, c4 … with a filter that f3 subsumes."""
    workload = ColumnWorkload.of(["c1", "c2", "c3", "c4"], 3, [query({C2, C3, C4}, F3), query({C1, C3}, F1, F2)])
    rows, scheme = figure_rows(figure_workload(query({C2, C3, C4}, F3))), figure_5_4()
    at = len(rows.workload.weights) - 1
    reads = [layout_reads(rows.workload, layout, rows) for layout in scheme.layouts]
    assert [each.rows[at] for each in reads] == [4, 2]
    assert [bool(each.eligible[at]) for each in reads] == [False, True]
    eligible = {
        column: [
            number
            for number, each in enumerate(reads)
            if column in each.layout.masters or (column in each.layout.columns and each.eligible[at])
        ]
        for column in (C2, C3, C4)
    }
    assert eligible == {C2: [0, 1], C3: [0], C4: [1]}
    letter = PathCost(always=True)
    assert letter.of({C2: 0, C3: 0, C4: 1}, [4, 2]) == 16
    assert letter.of({C2: 1, C3: 0, C4: 1}, [4, 2]) == 14
    assert (
        greedy_path(eligible, [4, 2]) == optimal_path(eligible, [4, 2], letter) == find_path(eligible, [4, 2], letter)
    )
    found = retrieve(rows.workload.reads, reads, letter)
    assert found.layout[at].tolist() == [-1, 1, 0, 1]
    assert (found.cells[at], found.row_ids[at], found.cost(letter)[at]) == (8, 6, 14)
    assert workload.features == BITS.shape[1]
