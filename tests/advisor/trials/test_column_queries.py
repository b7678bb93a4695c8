"""How filters skip by several features together: never a row that they want."""

from __future__ import annotations

from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from sidestep.advisor.trials.column_queries import FilterWays, column_workload, list_features
from sidestep.predicate import (
    INTEGER,
    STRING,
    Formula,
    between,
    column,
    compare,
    conjunction,
    disjunction,
    is_like,
    normalize,
    one_of,
    sql,
)
from sidestep.predicate.oracle import holds
from sidestep.workload import LoggedQuery, TableUse, Workload, table_workload

SIZE, CODE, KIND = column("size", INTEGER), column("code", STRING), column("kind", INTEGER)


def log(*filters, columns=("size", "kind")) -> Workload:
    return Workload(tuple(LoggedQuery((TableUse("t", frozenset(each), frozenset(columns)),)) for each in filters))


def test_values_of_lists_become_features():
    filters = [[one_of(SIZE, [1, 2, 9])], [one_of(SIZE, [2, 7])], [between(SIZE, 3, 30)]]
    assert [(str(f), f.weight) for f in list_features(table_workload(log(*filters), "t"), 2)] == [("size = 2", 2)]


def test_prefixes_become_features_as_ranges():
    codes = disjunction(is_like(CODE, "10-%"), is_like(CODE, "12-%"))
    (first, second) = list_features(table_workload(log([codes]), "t"), 1)
    assert {str(first), str(second)} == {"code < '10.' AND code >= '10-'", "code < '12.' AND code >= '12-'"}


def test_a_list_is_answered_by_its_values_together():
    ways = FilterWays([normalize(compare(SIZE, "=", value)) for value in (1, 2, 9)])
    assert ways.of(normalize(one_of(SIZE, [1, 9]))) == (((0,), (2,)),)
    assert ways.of(normalize(one_of(SIZE, [1, 8]))) == (), "nothing is known of 8"
    assert ways.of(normalize(compare(SIZE, "=", 2))) == (((1,),),)


def test_a_choice_is_answered_with_what_stands_beside_it():
    joint = [normalize(conjunction(compare(SIZE, "=", size), compare(KIND, "=", 5))) for size in (1, 2)]
    choice = conjunction(disjunction(compare(SIZE, "=", 1), compare(SIZE, "=", 2)), compare(KIND, "=", 5))
    assert FilterWays(joint).of(normalize(choice)) == (((0,), (1,)),)


def test_queries_without_filters_count_and_those_without_rows_do_not():
    workload = column_workload(
        log([], [compare(SIZE, "=", 1)], [compare(SIZE, "<", 1), compare(SIZE, ">", 5)]), "t", ["kind", "size"], []
    )
    assert workload.weights.tolist() == [1, 1]
    assert workload.filters == ((), ())
    assert [sql(cast("Formula", key)) for key in workload.keys] == ["TRUE", "size = 1"]


atoms = st.one_of(
    st.builds(one_of, st.sampled_from([SIZE, KIND]), st.lists(st.integers(0, 9), min_size=1, max_size=4)),
    st.builds(compare, st.sampled_from([SIZE, KIND]), st.sampled_from(["<", ">=", "=", "<>"]), st.integers(0, 9)),
)
filters = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: conjunction(*parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: disjunction(*parts)),
    ),
    max_leaves=6,
)
values = st.one_of(st.none(), st.integers(0, 9))


@settings(max_examples=50)
@given(st.lists(filters, max_size=6), filters, st.lists(st.tuples(values, values), min_size=1, max_size=20))
def test_no_way_rules_out_a_row_that_the_filter_wants(features, wanted, rows):
    formulas = [normalize(feature) for feature in features]
    formula = normalize(wanted)
    ways = FilterWays(formulas).of(formula)
    for size, kind in rows:
        row = {"size": size, "kind": kind}
        if holds(formula, row):
            for way in ways:
                assert any(all(holds(formulas[at], row) for at in part) for part in way)
