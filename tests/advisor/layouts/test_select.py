"""Features are taken by the rows they save, and as many as later queries have use for."""

from __future__ import annotations

import numpy as np

from sidestep.advisor.layouts.select import demands_of, fewest_features, select
from sidestep.predicate import DATE, INTEGER, STRING, between, column, compare
from sidestep.workload import Feature, augment, table_workload
from sidestep.workload.features.selection import candidate_sets
from tests.workload.queries import query, workload

KIND, AMOUNT, DAY = column("kind", STRING), column("amount", INTEGER), column("day", DATE)


def rows(*counts: int) -> np.ndarray:
    """Of 100 rows, which satisfy each candidate: ``counts`` of them, each after those of the one before."""
    found, first = np.zeros((len(counts), 100), np.bool_), 0
    for number, count in enumerate(counts):
        found[number, np.arange(first, first + count) % 100] = True
        first += count
    return found


def everything(queries: int) -> np.ndarray:
    return np.ones((queries, 100), np.bool_)


def test_the_candidate_that_saves_most_rows_comes_first():
    # The first subsumes all queries but holds for nearly all rows; the second subsumes half and holds for few.
    satisfied, subsumes = rows(95, 10), np.array([[True, True], [False, True]])
    found = select(satisfied, subsumes, np.array([1, 1]), everything(2), np.zeros(2))
    assert found.chosen == (1, 0)
    assert np.allclose(found.reads, [1.0, 0.55, 0.5 * (0.95 + 0.05)])


def test_a_block_is_the_least_that_is_read():
    # Both subsume the one query; with blocks of ten rows the stricter saves no more than the other.
    satisfied, subsumes = np.vstack([rows(10)[0], rows(1)[0]]), np.array([[True, True], [False, True]])
    found = select(satisfied, subsumes, np.array([1, 1]), everything(2), np.full(2, 10.0))
    assert found.chosen == (0,)


def test_rows_that_a_query_never_asks_for_save_nothing():
    asked = np.zeros((2, 100), np.bool_)
    asked[0, :10], asked[1, :90] = True, True
    found = select(rows(0, 0), np.eye(2, dtype=np.bool_), np.array([3, 1]), asked, np.zeros(2))
    assert found.chosen == (1, 0)


def test_what_saves_nothing_is_not_taken():
    assert select(rows(100), np.array([[True]]), np.array([1]), everything(1), np.zeros(1)).chosen == ()


def test_no_more_features_than_later_queries_have_use_for():
    kinds = [f"k{number}" for number in range(4)]
    once = [compare(AMOUNT, "=", number) for number in range(60)]
    log = workload(
        *(query(compare(KIND, "=", kinds[number % 4]), time=float(number)) for number in range(200)),
        *(query(predicate, time=100.0 + number) for number, predicate in enumerate(once)),
    )
    table = table_workload(log, "sales")
    augmented = augment(table)
    found = candidate_sets(augmented, shares=(0.004, 0.1))
    assert len(found) == 64
    subsumes = np.array([one.subsumes for one in found])
    satisfied = np.zeros((64, 100), np.bool_)
    satisfied[np.arange(64), np.arange(64)] = True
    assert fewest_features(table, satisfied, subsumes, everything(len(table.filters)), np.zeros(64)) == 4


def test_demands_name_the_features_that_subsume_and_the_times_asked_for():
    table = table_workload(
        workload(
            query(compare(KIND, "=", "hats"), between(DAY, 10, 20), count=3),
            query(compare(KIND, "=", "hats"), compare(AMOUNT, "<", 5), between(DAY, 10, 20)),
            query(compare(AMOUNT, "<", 9)),
        ),
        "sales",
    )
    features = [Feature((compare(KIND, "=", "hats"),)), Feature((compare(AMOUNT, "<", 7),))]
    found = {(one.features, one.ranges, one.weight) for one in demands_of(table, features).demands}
    days = (("day", 10, 20),)
    assert found == {((0,), days, 3.0), ((0, 1), days, 1.0), ((), (), 1.0)}
