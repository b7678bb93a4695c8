"""What holds for every workload and every table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.layout import reduce_vectors, unpack
from sidestep.layout.columns.costs import CostModel, check_groups, cost_within, reading
from sidestep.layout.columns.local import rank_features, select_features
from sidestep.layout.columns.queries import ColumnQuery, ColumnWorkload
from sidestep.layout.columns.search import Scheme, alike, rate_again, search
from tests.layout.columns.inputs import Case, cases


def satisfied(ways, bits) -> np.ndarray:
    """For each row whether a filter may want it: in every way, some part of it satisfies all of its features."""
    wanted = np.ones(len(bits), bool)
    for way in ways:
        wanted &= np.any([bits[:, list(part)].all(axis=1) for part in way], axis=0)
    return wanted


@given(cases())
def test_no_group_denies_a_row_that_a_filter_wants(case: Case):
    rows, workload = case.rows, case.workload
    bits = unpack(case.vectors.words, workload.features)
    for group in [frozenset({at}) for at in range(len(workload.columns))] + [frozenset(range(len(workload.columns)))]:
        layout = rows.arrange(group)
        local = bits[:, layout.local.numbers]
        place = {tuple(vector): at for at, vector in enumerate(unpack(layout.vectors.words, len(layout.local)))}
        block = np.array([layout.grouping.group_of_vector[place[tuple(vector)]] for vector in local], int)
        asked = rows.filters_of(group)
        skipped = workload.skipping(asked).skipped(
            unpack(layout.grouping.unions, len(layout.local)), layout.local.numbers
        )
        for number, row in zip(asked, skipped, strict=True):
            assert not (row[block] & satisfied(workload.filters[number], bits)).any()
            read = case.vectors.rows - layout.grouping.sizes[row].sum()
            assert rows.exact(group)[number] == read
            assert read >= case.vectors.counts[satisfied(workload.filters[number], bits)].sum()


@given(cases(), st.data())
def test_rows_that_are_skipped_are_counted_filter_by_filter(case: Case, data: st.DataObject):
    workload = case.workload
    filters = st.lists(st.integers(0, max(0, len(workload.filters) - 1)), max_size=8 if workload.filters else 0)
    # Filters of equal ways, and filters that come twice.
    asked = data.draw(filters)
    test = workload.skipping(asked)
    present = unpack(case.vectors.words, workload.features)
    every = np.arange(workload.features)
    skipped = test.skipped(present, every)
    assert skipped.shape == (len(asked), len(case.vectors))
    assert np.array_equal(test.count(present, every, case.vectors.counts), skipped @ case.vectors.counts)
    for number, row in zip(asked, skipped, strict=True):
        assert np.array_equal(row, ~satisfied(workload.filters[number], present))


@given(cases())
def test_the_estimate_is_an_upper_bound_and_no_looser_than_the_thesis_has_it(case: Case):
    rows, workload = case.rows, case.workload
    for size in (1, 2, len(workload.columns)):
        for members in itertools.islice(itertools.combinations(range(len(workload.columns)), size), 4):
            group = frozenset(members)
            exact, estimate = rows.exact(group), rows.estimate(group)
            assert (exact <= estimate).all()
            assert (estimate <= case.vectors.rows).all()
            local = rows.local_features(group)
            vectors = reduce_vectors(rows.arrange(group).vectors.words, len(local), rows.arrange(group).vectors.counts)
            asked = rows.filters_of(group)
            skipped = workload.skipping(asked).skipped(unpack(vectors.words, len(local)), local.numbers)
            by_the_letter = case.vectors.rows - skipped @ (case.block * (vectors.counts // case.block))
            assert (estimate[asked] <= by_the_letter).all()


@settings(max_examples=60)
@given(cases(), st.sampled_from([CostModel(), CostModel(row_id=0.25), CostModel(sort=lambda rows: 9 * rows)]))
def test_the_search_is_never_worse_than_either_end(case: Case, model: CostModel):
    found = search(case.workload, case.rows, model)
    check_groups(found.best.groups, len(case.workload.columns))
    assert found.best.cost <= min(found.single.cost, found.together.cost, *(one.cost for one in found.path))
    assert found.single.cost >= found.path[0].cost, "columns that the same queries read are no worse off together"
    again = rate_again(found, case.workload, case.rows, model)
    assert again.cost == pytest.approx(found.best.cost)
    one = rate_again(found, case.workload, case.rows, model, most=1, stop=lambda: True)
    assert one.cost == pytest.approx(found.best.cost), "the cheapest is among the first to be rated"


@given(cases(), st.floats(0, 2))
def test_a_cost_is_known_exactly_or_known_to_be_above_the_limit(case: Case, share: float):
    workload, rows, model = case.workload, case.rows, CostModel()
    least = rows.least()
    groups = [frozenset({at}) for at in range(len(workload.columns))]
    for group in groups:
        assert (least <= rows.exact(group)).all(), "no arrangement reads fewer rows"
    cost = reading(workload, groups, rows.exact, model).total(workload.weights)
    within = cost_within(workload, groups, rows.exact, least, model, share * cost)
    assert within is None if share < 0.999 and cost else within == pytest.approx(cost) or share < 1


@settings(max_examples=40)
@given(cases(most_columns=4, most_queries=4))
def test_the_search_comes_near_the_best_of_all_schemes(case: Case):
    """Greedy search has no guarantee; on tables of four columns it is never twice as bad as trying everything."""
    columns = list(range(len(case.workload.columns)))
    costs = [Scheme.of(groups, case.workload, case.rows, CostModel()).cost for groups in partitions(columns)]
    assert search(case.workload, case.rows).best.cost <= 2 * min(costs)


def partitions(members):
    if not members:
        yield []
        return
    first, *rest = members
    for groups in partitions(rest):
        yield [frozenset({first}), *groups]
        for at in range(len(groups)):
            yield [*groups[:at], groups[at] | {first}, *groups[at + 1 :]]


@given(cases())
def test_local_features_are_as_many_as_the_vectors_allow(case: Case):
    for at in range(len(case.workload.columns)):
        ranked = rank_features(case.workload, frozenset({at}))
        bits = unpack(case.vectors.words, case.workload.features)

        def distinct(number, ranked=ranked, bits=bits):
            return len(np.unique(bits[:, ranked.numbers[:number]], axis=0)) if number else 1

        chosen = select_features(ranked, case.vectors, case.most_vectors)
        assert chosen.numbers.tolist() == ranked.numbers[: len(chosen)].tolist()
        assert (np.diff(ranked.weights) <= 0).all()
        assert (ranked.weights > 0).all()
        assert distinct(len(chosen)) <= case.most_vectors or len(chosen) == 1
        if len(chosen) < len(ranked):
            assert distinct(len(chosen) + 1) > case.most_vectors


@given(cases())
def test_costs_are_sums_over_groups(case: Case):
    """Equations 4.1 to 4.4, written out."""
    workload, rows = case.workload, case.rows
    groups = alike(workload)
    read = reading(workload, groups, rows.exact)
    for query in range(len(workload.weights)):
        number = workload.filter_of_query[query]
        columns = set(np.flatnonzero(workload.reads[query]))
        touched = [group for group in groups if group & columns]
        r = [rows.exact(group)[number] for group in touched]
        cells = sum(len(group & columns) * each for group, each in zip(touched, r, strict=True))
        ids = sum(r) if len(touched) > 1 else 0
        assert (read.cells[query], read.row_ids[query], read.cost[query]) == (cells, ids, cells + 2 * ids)


def test_columns_that_no_query_reads_cost_nothing_and_stay_apart():
    workload = ColumnWorkload.of("abcd", 0, [ColumnQuery(frozenset("a"), ())])
    assert alike(workload) == [frozenset({0}), frozenset({1, 2, 3})]


@pytest.mark.parametrize("groups", [[{0}], [{0}, {0, 1}], [{0, 1}, set()]])
def test_what_is_no_partitioning_of_the_columns_is_refused(groups):
    with pytest.raises(SidestepError, match="must be in one group"):
        check_groups([frozenset(group) for group in groups], 2)


def test_widths_and_queries_that_do_not_fit_are_refused():
    with pytest.raises(SidestepError, match="one for each of 2 columns"):
        CostModel(cells=np.ones(3)).widths(2)
    with pytest.raises(SidestepError, match="which the table does not have"):
        ColumnWorkload.of("ab", 0, [ColumnQuery(frozenset("c"), ())])
    with pytest.raises(SidestepError, match="other features"):
        ColumnWorkload.of("ab", 1, [ColumnQuery(frozenset("a"), (((1,),),))])
