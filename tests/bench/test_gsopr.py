"""The fourteen templates of chapter 5, and the comparison of schemes on a small table."""

from __future__ import annotations

from bench.denorm_data import columns
from bench.gsop_model import Experiment
from bench.gsop_queries import SELECTIVE, random_queries
from bench.gsopr import wide_search
from bench.gsopr_model import compare_schemes
from tests.bench.test_gsop import READ, small_table

READ_14 = READ | {"q2": 11, "q7": 5, "q8": 6, "q17": 3}
"""Columns of each template (thesis, 5.7.1)."""


def test_templates_read_as_many_columns_as_in_the_thesis():
    queries = list(random_queries(28, 0, SELECTIVE))
    assert {query.template: len(query.columns) for query in queries} == READ_14
    assert all(query.columns <= columns().keys() for query in queries)


def test_replicas_let_queries_read_less():
    queries = list(random_queries(14, 1, SELECTIVE))
    experiment = Experiment(small_table(300, SELECTIVE), queries, queries, blocks=15)
    measured = compare_schemes(experiment, [1.0, 1.5])
    assert measured["gsop"].storage == measured["gsop-r 1"].storage == 1
    assert max(measured["gsop-r 1.5"].storage, measured["gsop-se 1.5"].storage) <= 1.5
    assert measured["gsop-r 1.5"].total <= measured["gsop"].total
    assert all(0 < each.greedy_optimal <= 1 for each in measured.values())


def test_a_wide_table_is_searched():
    ((name, seconds),) = wide_search([1.0], 0, queries=10, rows=200)
    assert (name, seconds > 0) == ("1.0", True)
