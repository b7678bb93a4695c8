"""The benchmark of gap synopses, tiny, and the data it is made of."""

from __future__ import annotations

import json

import numpy as np

from bench import grt
from bench.__main__ import option_parser
from bench.grt_data import absent_ids, clustered, existing_ids, profile_of, scattered, two_runs


def test_the_benchmark_ends_with_its_figures(spark):
    small = "--rows 20000 --partitions 50 --bits 64 256 --queries 20 --probes 100 500 --runs 1"
    on_files = " --file-rows 20000 --file-partitions 200"
    found = grt.run(option_parser("grt", "", grt).parse_args((small + on_files).split()))
    assert set(found["fpr"]) >= {"grt", "zonemap", "rangeset", "bloom"}
    assert found["fpr"]["grt"] < found["fpr"]["rangeset"] < found["fpr"]["zonemap"]
    assert set(found["probe_ms"]) == {"point", "range"}
    assert found["build_s"] > 0
    assert found["budget_no_worse"]
    assert 0 < found["grt_fpr"]["product"] <= 1.1 * found["grt_fpr"]["exact"]
    for rates in (rates for kinds in found["fpr_by_bits"].values() for rates in kinds.values()):
        assert rates["grt"] <= 1.1 * rates["grt_exact"]
        assert rates["grt_uniform"] <= 1.1 * rates["grt_uniform_exact"]
    for kept in found["origin_kept"].values():
        assert kept["exact"] <= kept["grt"] < kept["rangeset"] <= kept["zonemap"]
    json.dumps(found)


def test_data_is_the_same_for_a_seed():
    one, two, other = (clustered(2_000, 10, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one.blocks, two.blocks, strict=True))
    assert not np.array_equal(one.blocks[0], other.blocks[0])
    assert [len(data.blocks) for data in (two_runs(2_000, 10, 1), scattered(10, 1))] == [10, 10]


def test_queries_ask_for_what_is_there_and_what_is_not():
    data = clustered(2_000, 10, 1)
    assert profile_of(data, existing_ids(data, 20, 1)).holding.any(axis=1).all()
    assert profile_of(data, absent_ids(data, 20, 1)).holding.sum() <= 1
