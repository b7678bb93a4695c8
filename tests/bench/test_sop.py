"""The comparison of layouts: its parts, and a tiny run whose figures a second run takes from the journal."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions

from bench.__main__ import main
from bench.comparison import chosen_queries, workload
from bench.denorm import TEMPLATES
from bench.denorm_data import columns_in
from bench.journal import Journal
from bench.layouts import block_size, z_ordered
from bench.reads import condition_of
from bench.zorder import ZOrder, choose_columns, most_filtered, z_order
from sidestep.predicate import Column, Comparison, Literal, Op
from sidestep.predicate.types import INTEGER
from sidestep.spark.jvm.sessions import same_interpreter

TINY = ["--sf", "0.001", "--train", "80", "--test", "8", "--seeds", "1", "--min-size", "50", "--parameters", "uniform"]
TINY += ["--sizes", "25", "--timed", "1", "--runs", "1"]


def equals(column: str, value: int) -> Comparison:
    return Comparison(Op.EQ, Column(column, INTEGER), Literal(value, INTEGER))


def test_no_seed_is_used_twice():
    works = [workload("uniform", seed, 16, 16) for seed in range(3)]
    drawn = [work.train for work in works] + [tuple(text for _, text in work.test) for work in works]
    assert len(set(drawn)) == 6


def test_the_timed_queries_are_of_all_templates():
    work = workload("skewed", 0, 8, 40)
    timed = Counter(work.test[number][0] for number in chosen_queries(work, 16))
    assert timed == {template.__name__: 2 for template in TEMPLATES}


def test_every_query_has_a_filter_and_names_columns():
    for template, text in workload("uniform", 0, 8, 16).test:
        assert columns_in(condition_of(text)) < columns_in(text) or template == "q12"


@pytest.mark.parametrize("blocks", [80, 100, 801, 917])
def test_files_are_cut_into_about_as_many_blocks_as_asked(blocks):
    files = [70_000 + 100 * number for number in range(80)]
    size = block_size(files, blocks)
    assert abs(sum(max(1, rows // size) for rows in files) - blocks) <= 2


def test_a_z_curve_takes_bits_in_turns():
    order = z_order(pa.table({"a": np.arange(1024), "b": np.arange(1024)}), ("a", "b"))
    places = order.values(pa.array([0, 0, 512, 1023]), pa.array([0, 512, 0, 1023]))
    assert places.tolist() == [0, 2**18, 2**19, 2**20 - 1]


def test_nulls_come_first_on_the_curve():
    order = ZOrder(("a",), ((2, 3, 4),))
    assert order.values(pa.array([None, 3, 2], pa.int64())).tolist() == [0, 2, 1]


@pytest.mark.parametrize("by_series", [False, True])
def test_spark_places_rows_as_the_curve_does(spark, monkeypatch, by_series):
    """With NULLs, numbers, texts and dates; Spark 4.0 hands a function series alone."""
    if by_series:
        monkeypatch.delattr(functions, "arrow_udf", raising=False)
    order = ZOrder(("a", "b", "c"), ((2, 7), ("x1", "x3"), (date(2024, 1, 3), date(2024, 1, 7))))
    rows = spark.range(12).selectExpr(
        "nullif(id, 5) AS a",
        "nullif(concat('x', id % 5), 'x2') AS b",
        "date_add(DATE'2024-01-01', CAST(id AS INT)) AS c",
    )
    held = pa.Table.from_pylist([row.asDict() for row in rows.collect()])
    expected = order.values(*(held[name].combine_chunks() for name in order.columns)).tolist()
    assert len(set(expected)) > 5
    with same_interpreter(spark.sparkContext):
        assert [row.place for row in rows.withColumn("place", order.expression()).collect()] == expected


def test_files_follow_the_curve():
    arrangement = z_ordered(ZOrder(("a",), ((1, 2),)), list(range(100)), 4)
    assert arrangement.file.count("+") == 2


def test_columns_are_chosen_by_what_queries_would_read():
    rng = np.random.default_rng(0)
    sample = pa.table({name: rng.integers(0, 16, 4_000).astype(np.int32) for name in "abc"})
    types = dict.fromkeys("abc", INTEGER)
    queries = [frozenset({equals("a", value), equals("b", 15 - value)}) for value in range(16)]
    chosen, tried = choose_columns(sample, types, queries, 64)
    assert set(chosen) == {"a", "b"}
    assert tried[", ".join(chosen)] < tried["a"]


def test_columns_are_counted_by_query():
    queries = [frozenset({equals("a", 1), equals("b", 2)}), frozenset({equals("b", 3)})]
    assert most_filtered(queries) == ["b", "a"]


def test_a_line_cut_short_is_no_entry(tmp_path):
    path = tmp_path / "journal.jsonl"
    Journal(path).note("first", [1])
    with path.open("a") as file:
        file.write('{"key": "second", "val')
    again = Journal(path)
    assert "second" not in again
    assert again.once("second", lambda: 2) == 2
    assert Journal(path).once("first", lambda: None) == [1]


def test_a_tiny_comparison_and_the_same_again(spark, tmp_path, capsys):
    assert main(["sop", *TINY, "--data", str(tmp_path)]) == 0
    first = capsys.readouterr().out.splitlines()
    figures = json.loads(first[-1])
    assert figures.keys() >= {"rows_pct", "bytes_pct", "seconds", "min_size", "size_on_disk", "load_seconds"}
    assert figures.keys() >= {"per_template", "seeds", "sweep", "worse_in_seeds"}
    assert figures["read_pct"].keys() == {"zorder", "sop"}
    assert all(figures["read_pct"][name] <= figures["rows_pct"][name] for name in figures["read_pct"])
    assert figures["rows_pct"]["actual"] <= figures["read_pct"]["sop"]
    assert figures["sweep"]["25"]["read_pct"] <= figures["sweep"]["25"]["rows_pct"]
    assert figures["rows_pct"].keys() == {"full", "range1", "range2", "zorder", "sop", "actual"}
    assert figures["rows_pct"]["full"] == 100
    assert figures["rows_pct"]["actual"] <= figures["rows_pct"]["sop"] < 100
    assert sum("laid out" in line for line in first) == 6
    assert main(["sop", *TINY, "--data", str(tmp_path)]) == 0
    second = capsys.readouterr().out.splitlines()
    assert not any("laid out" in line for line in second)
    assert json.loads(second[-1])["rows_pct"] == figures["rows_pct"]
