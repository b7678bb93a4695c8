"""Features by the book: the papers' examples with their exact output, and the properties they claim."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidestep.errors import SidestepError
from sidestep.predicate import (
    DATE,
    INTEGER,
    STRING,
    Opaque,
    Or,
    between,
    column,
    compare,
    conjunction,
    disjunction,
    implies,
    is_like,
    is_not_null,
    is_null,
    negation,
    one_of,
    sql,
)
from sidestep.workload import Eligibility, ExtractOptions, TableUse, Workload, augment, table_workload
from sidestep.workload.features.extract import predicate_sets
from tests.work import counted_work
from tests.workload.queries import extract, query, tpch, workload

PRODUCT, PUBLISHER, EVENT = (column(name, STRING) for name in ("product", "publisher", "event"))
REVENUE, A, B, C = (column(name, INTEGER) for name in ("revenue", "a", "b", "c"))
DAY, LATER = column("day", DATE), column("later", DATE)

THESIS_EXAMPLE_1 = workload(
    query(compare(PRODUCT, "=", "shoes"), sql="Q1"),
    query(one_of(PRODUCT, ["shoes", "shirts"]), compare(REVENUE, ">", 32), sql="Q2"),
    query(conjunction(compare(PRODUCT, "=", "shirts"), compare(REVENUE, ">", 21)), sql="Q3"),
)


def augmented_filters(log, table="sales"):
    """Each query with all predicates that subsume it, as texts."""
    augmented = augment(table_workload(log, table))
    return {
        augmented.workload.examples[at]: {
            sql(item.predicate) for item, row in zip(augmented.items, augmented.subsumed, strict=True) if row[at]
        }
        for at in range(len(augmented.workload.filters))
    }


def features_of(log, table="sales", **options):
    return [(str(feature), feature.weight) for feature in extract(log, table, ExtractOptions(**options)).features]


def eligible(log, **options):
    augmented = augment(table_workload(log, "sales"), ExtractOptions(eligibility=Eligibility(**options)))
    return {sql(item.predicate) for item in augmented.items}, augmented.refused


class TestThesisSection33:
    """Sections 3.3.1 to 3.3.3."""

    def test_shoes_are_subsumed_by_shoes_and_shirts(self):
        assert implies(compare(PRODUCT, "=", "shoes"), one_of(PRODUCT, ["shoes", "shirts"]))
        assert not implies(one_of(PRODUCT, ["shoes", "shirts"]), compare(PRODUCT, "=", "shoes"))

    def test_augmentation_of_example_1(self):
        assert augmented_filters(THESIS_EXAMPLE_1) == {
            "Q1": {"product = 'shoes'", "product IN ('shirts', 'shoes')"},
            "Q2": {"product IN ('shirts', 'shoes')", "revenue > 32", "revenue > 21"},
            "Q3": {"product = 'shirts'", "revenue > 21", "product IN ('shirts', 'shoes')"},
        }

    def test_one_occurrence_but_two_queries_subsumed(self):
        augmented = augment(table_workload(THESIS_EXAMPLE_1, "sales"))
        support = {
            sql(item.predicate): int(row @ augmented.workload.weights)
            for item, row in zip(augmented.items, augmented.subsumed, strict=True)
        }
        # The thesis counts two for the list in the text, and shows a third query under it in its augmented workload.
        assert support == {
            "product = 'shoes'": 1,
            "product = 'shirts'": 1,
            "product IN ('shirts', 'shoes')": 3,
            "revenue > 21": 2,
            "revenue > 32": 1,
        }

    @pytest.mark.parametrize(
        ("threshold", "expected"),
        [
            (
                1,
                [
                    ("product = 'shirts' AND revenue > 21", 1),
                    ("product = 'shoes'", 1),
                    ("product IN ('shirts', 'shoes') AND revenue > 32", 1),
                ],
            ),
            (2, [("product IN ('shirts', 'shoes') AND revenue > 21", 2)]),
            (3, [("product IN ('shirts', 'shoes')", 3)]),
            (4, []),
        ],
    )
    def test_features_of_example_1(self, threshold, expected):
        assert features_of(THESIS_EXAMPLE_1, threshold=threshold) == expected

    def test_a_set_makes_its_subsets_redundant(self):
        both = query(compare(PUBLISHER, "=", "google"), compare(REVENUE, "<", 0), count=10)
        log = workload(
            both, query(compare(REVENUE, "<", 0), count=4), query(compare(PUBLISHER, "=", "google"), count=6)
        )
        # {revenue < 0} subsumes 14 and {publisher = 'google'} 16 queries, but only 4 and 6 that the pair does not.
        assert features_of(log, threshold=7) == [("publisher = 'google' AND revenue < 0", 10)]
        assert features_of(log, threshold=5) == [
            ("publisher = 'google'", 16),
            ("publisher = 'google' AND revenue < 0", 10),
        ]

    def test_augmentation_makes_the_more_general_redundant(self):
        log = workload(query(compare(REVENUE, ">", 32), count=10), query(compare(REVENUE, ">", 21), count=3))
        assert features_of(log, threshold=5) == [("revenue > 32", 10)]
        assert features_of(log, threshold=3) == [("revenue > 21", 13), ("revenue > 32", 10)]

    def test_ranks(self):
        log = workload(query(compare(REVENUE, ">", 32), count=10), query(compare(REVENUE, ">", 21), count=3))
        assert features_of(log, threshold=3, rank="additional") == [("revenue > 32", 10), ("revenue > 21", 13)]
        two = Workload((*log.queries, query(compare(EVENT, "=", "buy"), count=6)))
        assert [text for text, _ in features_of(two, threshold=3, rank="coverage")] == [
            "revenue > 21",
            "event = 'buy'",
            "revenue > 32",
        ]


class TestWarpSection21:
    def test_example_1(self):
        log = workload(
            query(compare(EVENT, "=", "buy"), count=60),
            query(compare(PRODUCT, "=", "jeans"), count=20),
            query(compare(PUBLISHER, "=", "google"), compare(REVENUE, "<", 0), count=10),
        )
        assert features_of(log, num_features=3) == [
            ("event = 'buy'", 60),
            ("product = 'jeans'", 20),
            ("publisher = 'google' AND revenue < 0", 10),
        ]

    def test_less_than_0_is_redundant_beside_less_than_10(self):
        """The strict one goes if it is rare; were it frequent, the general one would go if it added little."""
        log = workload(query(compare(REVENUE, "<", 10), count=20), query(compare(REVENUE, "<", 0), count=3))
        assert features_of(log, threshold=5) == [("revenue < 10", 23)]


class TestEligibility:
    def test_dates_are_left_out_but_not_comparisons_of_two(self):
        log = workload(
            query(compare(DAY, ">", 100), compare(DAY, "<", LATER), compare(A, "=", 1)),
            query(Opaque("year(day) = 1995", (DAY,), "utc"), Opaque("datediff(day, later) > 3", (DAY, LATER), "utc")),
        )
        assert eligible(log) == (
            {"day < later", "a = 1", "datediff(day, later) > 3"},
            {"date or time": 2},
        )
        assert len(eligible(log, dates=True)[0]) == 5

    def test_negations_are_left_out(self):
        log = workload(
            query(
                compare(A, "<>", 1),
                negation(one_of(B, [1, 2])),
                negation(is_like(PRODUCT, "%x%")),
                is_not_null(C),
                compare(A, "<>", B),
            ),
            query(negation(Opaque("f(a)", (A,), "v")), disjunction(compare(C, "<", 1), compare(C, ">", 9))),
        )
        assert eligible(log) == (set(), {"negation": 7})
        assert len(eligible(log, negations=True)[0]) == 7

    def test_what_is_random_or_unknown_never(self):
        log = workload(query(Opaque("rand() < 0.5", deterministic=False), Opaque("f(a)", (A,)), compare(A, "=", 1)))
        assert eligible(log, dates=True, negations=True) == ({"a = 1"}, {"not deterministic": 2})

    def test_udf_like_null_and_columns_compared_do(self):
        log = workload(
            query(Opaque("f(a)", (A,), "v1"), is_like(PRODUCT, "%shoe%"), compare(A, "<", B), is_null(C)),
        )
        assert eligible(log)[0] == {"f(a)", "product LIKE '%shoe%'", "a < b", "c IS NULL"}

    def test_columns_may_be_left_out(self):
        log = workload(query(compare(A, "=", 1), compare(B, "=", 1)))
        assert eligible(log, without_columns=frozenset({"a"})) == ({"b = 1"}, {"on a column left out": 1})


def small_predicates():
    columns = st.sampled_from([A, B])
    values = st.integers(0, 4)
    return st.one_of(
        st.builds(compare, columns, st.sampled_from(["=", "<", ">=", "<=", ">"]), values),
        st.builds(one_of, columns, st.lists(values, min_size=1, max_size=3)),
        st.builds(between, columns, values, values),
        st.sampled_from(
            [compare(A, "<", B), compare(A, "=", B), is_null(A), is_like(PRODUCT, "%x"), is_like(PRODUCT, "x%")]
        ),
        st.sampled_from([Opaque("f(a)", (A,), "v"), Opaque("f(b)", (B,), "v")]),
        st.builds(lambda v, w: disjunction(compare(A, "=", v), compare(B, ">", w)), values, values),
    )


def logs(most=6):
    predicates = st.lists(small_predicates(), max_size=4)
    queries = st.builds(lambda parts, count: query(*parts, count=count), predicates, st.integers(1, 3))
    return st.lists(queries, min_size=1, max_size=most).map(lambda found: Workload(tuple(found)))


@given(logs())
def test_after_augmentation_support_is_the_number_of_queries_subsumed(log):
    augmented = augment(
        table_workload(log, "sales"), ExtractOptions(eligibility=Eligibility(dates=True, negations=True))
    )
    folded = augmented.workload
    filters = [conjunction(*(folded.items[number].predicate for number in numbers)) for numbers in folded.filters]
    for item, row in zip(augmented.items, augmented.subsumed, strict=True):
        for at, numbers in enumerate(folded.filters):
            by_the_thesis = any(implies(folded.items[number].predicate, item.predicate) for number in numbers)
            whole = implies(filters[at], item.predicate)
            assert by_the_thesis <= row[at] <= whole, sql(item.predicate)
            # Only where a proof would have to try the ways of an OR, ranges on one column are not looked for so hard.
            if not any(isinstance(folded.items[number].predicate, Or) for number in numbers):
                assert row[at] == whole, sql(item.predicate)


@given(logs(), st.integers(1, 5))
def test_what_elimination_leaves_uncovered_is_less_than_the_threshold_for_any_set(log, threshold):
    augmented = augment(table_workload(log, "sales"))
    weights = augmented.workload.weights
    kept = predicate_sets(augmented, weights, ExtractOptions(threshold=threshold))
    covered = np.any([found.subsumes for found in kept], axis=0) if kept else np.zeros(len(weights), bool)
    for found in kept:
        assert found.weight >= found.additional >= threshold
    assert sum(found.additional for found in kept) == weights[covered].sum()
    for row in augmented.subsumed:
        assert weights[row & ~covered].sum() < threshold


@given(logs(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_order_of_the_log_does_not_change_the_features(log, threshold, shuffle):
    queries = list(log.queries)
    shuffle.shuffle(queries)
    # A query run three times is also three queries.
    apart = [dataclasses.replace(one, count=1) for one in queries for _ in range(one.count)]
    options = ExtractOptions(threshold=threshold)
    expected = extract(log, "sales", options)
    assert extract(Workload(tuple(queries)), "sales", options).to_json() == expected.to_json()
    assert extract(Workload(tuple(apart)), "sales", options).to_json() == expected.to_json()


@given(logs(), st.integers(1, 4))
def test_each_feature_subsumes_as_many_queries_as_it_says(log, threshold):
    folded = table_workload(log, "sales")
    for feature in extract(log, "sales", ExtractOptions(threshold=threshold)).features:
        subsumed = [
            feature.subsumes(conjunction(*(folded.items[number].predicate for number in numbers)))
            for numbers in folded.filters
        ]
        assert feature.weight == folded.weights[np.array(subsumed)].sum()


def test_spellings_of_one_predicate_are_one_item():
    log = workload(query(compare(A, ">", 5)), query(compare(A, ">=", 6)), query(negation(compare(A, "<", 6))))
    assert [weight for _, weight in features_of(log, threshold=1)] == [3]
    backwards = Workload(log.queries[::-1])
    assert features_of(backwards, threshold=1) == features_of(log, threshold=1)


def test_predicates_on_one_column_count_together():
    log = workload(query(one_of(A, [5, 6, 7]), count=3), query(between(A, 5, 7), count=4))
    assert [weight for _, weight in features_of(log, threshold=4)] == [7]


def test_an_injected_miner_may_give_all_frequent_sets():
    def every_set(transactions, least):
        from itertools import combinations

        items = sorted(frozenset().union(*(held for held, _ in transactions)))
        for size in range(1, len(items) + 1):
            for chosen in map(frozenset, combinations(items, size)):
                support = sum(weight for held, weight in transactions if held >= chosen)
                if support >= least:
                    yield chosen, support

    log = tpch(64, templates=(3, 5, 10, 12))
    options = ExtractOptions(threshold=2)
    assert extract(log, "denormalized", options, every_set) == extract(log, "denormalized", options)


class TestOddLogs:
    def test_no_filters_at_all(self):
        found = extract(workload(query(count=5)), "sales")
        assert (len(found), found.queries) == (0, 0)

    def test_contradictions_count_for_nothing(self):
        bad = query(compare(A, ">", 5), compare(A, "<", 3), count=50)
        log = workload(query(compare(A, "=", 1), count=2), bad)
        folded = table_workload(log, "sales")
        assert (folded.total, folded.empty) == (2, 50)
        assert features_of(log) == [("a = 1", 2)]

    def test_one_query_a_million_times(self):
        once = query(compare(A, "=", 1), compare(B, "<", 2), count=1_000_000)
        assert features_of(workload(once)) == [("a = 1 AND b < 2", 1_000_000)]
        many = Workload((query(compare(A, "=", 1)),) * 200_000)
        assert features_of(many) == [("a = 1", 200_000)]

    def test_a_table_that_no_query_reads(self):
        with pytest.raises(SidestepError, match="No query of the log reads the table orders; the queries read sales"):
            extract(THESIS_EXAMPLE_1, "orders")
        with pytest.raises(SidestepError, match="no table at all"):
            extract(Workload(()), "orders")

    def test_a_query_that_reads_a_table_twice_has_two_filters(self):
        twice = query(compare(A, "=", 1)).uses + query(compare(A, "=", 2)).uses
        log = Workload((dataclasses.replace(query(), uses=(*twice, TableUse("other", frozenset()))),))
        assert table_workload(log, "sales").total == 2

    def test_enormous_lists(self):
        values = random.Random(4).sample(range(10**6), 20_000)
        log = workload(query(one_of(A, values), count=2), query(compare(A, "=", values[5])))
        with counted_work() as work:
            found = extract(log, "sales", ExtractOptions(threshold=2))
        assert work.calls < 8_000_000
        assert [feature.weight for feature in found.features] == [3]

    def test_options_that_make_no_sense(self):
        for bad in ({"num_features": 0}, {"threshold": 0}, {"rank": "beauty"}):
            with pytest.raises(SidestepError):
                ExtractOptions(**bad)


def test_tpch_templates_give_their_fixed_filters():
    found = extract(tpch(800), "denormalized", ExtractOptions(num_features=15))
    texts = " | ".join(str(feature) for feature in found.features)
    for fixed in (
        "l_returnflag = 'R'",
        "p_type LIKE 'PROMO%'",
        "l_commitdate < l_receiptdate AND l_shipdate < l_commitdate",
        "l_shipinstruct = 'DELIVER IN PERSON'",
        "p_size <= 15",
    ):
        assert fixed in texts
    assert found.threshold == 10
    assert found.coverage > 0.7


def test_a_new_constant_in_every_query_does_not_blow_the_mining_up():
    draw = random.Random(2)
    log = Workload(
        tuple(
            query(
                compare(A, ">", draw.randint(0, 10**6)), compare(B, "<", draw.randint(0, 10**6)), compare(C, "=", n % 7)
            )
            for n in range(600)
        )
    )
    with counted_work() as work:
        found = extract(log, "sales", ExtractOptions(num_features=20))
    assert work.calls < 10_000_000
    assert len(found) == 20
