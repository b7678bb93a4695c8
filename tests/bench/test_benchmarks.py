"""Every benchmark runs, at a size where its figures mean nothing, and ends with the figures that it promises."""

from __future__ import annotations

import json

import pytest

from bench.__main__ import benchmarks, main

SMOKE = {
    "plan": (
        ["--sf", "0.001", "--files", "60", "--runs", "1", "--threads", "2"],
        {"median_ms", "bytes_per_file_column"},
    ),
    "index": (["--sf", "0.001", "--files", "2", "--runs", "1"], {"time_ratio", "size_ratio"}),
    "soak": (
        ["--queries", "20", "--threads", "4", "--rows", "400"],
        {"queries", "memory_growth_pct", "rule_ms", "wrong", "jvm_mb", "python_mb"},
    ),
    "synopses": (
        [
            *("--sf", "0.001", "--files", "1", "--tables", "orders", "--tpch-queries", "2", "--runs", "1"),
            *("--rows", "4000", "--days", "40", "--queries", "4"),
        ],
        {"build_ratio", "bytes", "tpch_rows_read", "making_us", "sparse", "grow_us"},
    ),
    "planning": (["--families", "job", "--films", "60", "--files", "2", "--queries", "1", "--runs", "1"], {"job"}),
    "selectors": (
        [
            *(
                "--sf",
                "0.01",
                "--files",
                "4",
                "--queries",
                "1",
                "--runs",
                "1",
                "--no-folders",
                "--lineitem-sf",
                "0.001",
            ),
            *("--scan-files", "3", "--scan-runs", "1", "--plan-files", "2", "--plan-rows", "400", "--batch", "20"),
        ],
        {"scan_overhead_pct", "tpcds", "plan_growth_pct", "merge_bytes_share"},
    ),
    "defaults": (
        [
            *(
                "--rows",
                "2000",
                "--files",
                "4",
                "--lookups",
                "2",
                "--sf",
                "0.001",
                "--blocks",
                "8",
                "--by-hand",
                "tuned",
            ),
            *("--grt-rows", "2000", "--parts", "ids,inputcut,grt"),
        ],
        {"ids_rows_pct", "inputcut", "index_bytes_pct", "grt_fpr"},
    ),
    "gsop": (
        [
            *("--sf", "0.001", "--train", "10", "--test", "2", "--min-size", "1500", "--runs", "0"),
            *("--parts", "run", "--layouts", "parquet,gsop"),
        ],
        {"cells", "bytes", "seconds", "load", "memory"},
    ),
    "bigdata": (
        ["--rows", "2000", "--blocks", "20", "--train", "20", "--test", "10", "--sweeps", "z"],
        {"z", "worst_ratio", "above_noise"},
    ),
    "wide": (
        ["--rows", "1500", "--columns", "80", "--queries", "60", "--tasks", "6", "--blocks", "20"],
        {"seconds", "groups", "cells", "row_ids", "rated"},
    ),
    "denormalized": (
        ["--sf", "0.001", "--train", "9", "--test", "3", "--min-size", "1500", "--runs", "0", "--layout", "sop"],
        {"cells", "rows", "bytes", "seconds", "rewritten", "made"},
    ),
    "dipfigures": (
        [
            *("--sf", "0.001", "--blocks", "8", "--layouts", "1", "--ranges", "1", "4", "--partitions", "4"),
            *("--parts", "ranges,statistics,partitions,conditions,taints,growth"),
        ],
        {"ranges", "statistics", "partitions", "conditions", "steps", "taints", "growth_quality"},
    ),
    "joins": (["--rows", "60", "--queries", "2"], {"job_bytes_cut_pct"}),
    "effects": (
        # The point of either sweep is the same, so that each way to draw parameters takes one load.
        ["--sf", "0.001", "--train", "40", "--test", "8", "--sizes", "50", "--counts", "15", "--min-size", "50"],
        {"min_size", "num_features"},
    ),
}
IN_MEMORY = {"bigdata", "wide"}
"""Those that write nothing."""


def test_each_benchmark_has_a_smoke_run():
    elsewhere = {"workload", "sop", "load", "grt", "dips", "outofbox", "gsopr"}  # in test files of their own
    assert set(SMOKE) | elsewhere == set(benchmarks())


@pytest.mark.parametrize("name", SMOKE)
def test_a_benchmark_ends_with_its_figures(spark, tmp_path, capsys, name):
    arguments, keys = SMOKE[name]
    data = [] if name in IN_MEMORY else ["--data", str(tmp_path)]
    assert main([name, *arguments, *data]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert keys <= last.keys()
    assert not last.get("wrong")
