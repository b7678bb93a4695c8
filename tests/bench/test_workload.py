"""The workload benchmark, small, and its queries."""

from __future__ import annotations

import pytest

from bench import denorm, workload
from bench.__main__ import option_parser


def test_queries_are_the_same_for_a_seed_and_use_every_template_equally():
    queries = denorm.random_queries(80, seed=3)
    assert queries == denorm.random_queries(80, seed=3)
    assert queries != denorm.random_queries(80, seed=4)
    assert sum("l_returnflag = 'R'" in text for text in queries) == 10


def test_skew_repeats_parameters():
    distinct = {zipf: len(set(denorm.random_queries(400, seed=1, zipf=zipf))) for zipf in (None, 3.0)}
    assert distinct[3.0] < distinct[None]


def test_the_benchmark_runs(spark):
    parser = option_parser("workload", "", workload)
    result = workload.run(parser.parse_args(["--train", "160", "--test", "40", "--rows", "100"]))
    assert set(result) >= {"test_coverage", "seconds_10k", "peak_mb"}
    assert set(result["test_coverage"]) == {"uniform", "skewed"}
    assert result["test_coverage"]["skewed"] == pytest.approx(0.8, abs=0.2)
    assert result["fixed_filters"]["uniform"]["l_returnflag = 'R'"]
    assert result["peak_mb"] > 0
