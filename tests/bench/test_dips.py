from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import main
from bench.dips_cut import BEST, PREDICATES, VARIANTS
from bench.dips_cuts import FAVOURABLE, Cuts, medians, proven_empty
from bench.dips_plans import eligible
from bench.dips_tables import BlockTable
from bench.job import job_tables
from bench.job_queries import FACTS, TABLE_OF, queries
from bench.skew import SKEWS, Skew, frequencies, independent, runs
from bench.skew_tpch import skewed_tpch, tpch_tables
from bench.tpch import make_tpch
from sidestep.predicate import Column, Comparison, Op, normalize
from sidestep.predicate.build import column, compare, is_not_null
from sidestep.predicate.types import LONG
from sidestep.prune import Filter, Join, Query, Scan
from sidestep.synopsis import kept_blocks
from sidestep.synopsis.recipe import Recipe
from tests.prune.joins import INNER


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return tpch_tables(make_tpch(tmp_path_factory.mktemp("tpch"), sf=0.01, files=2))


def changes(values) -> int:
    return int((np.asarray(values)[1:] != np.asarray(values)[:-1]).sum())


@given(st.integers(1, 50), st.floats(0, 3), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_runs_and_independent_draws_have_the_same_frequencies(values, zipf, passes, seed):
    domain, rows = np.arange(values), 4_000
    shares = frequencies(values, zipf, np.random.default_rng(seed))
    assert shares.sum() == pytest.approx(1)
    together = runs(domain, rows, zipf, passes, np.random.default_rng(seed))
    apart = independent(domain, rows, zipf, np.random.default_rng(seed))
    assert np.abs(np.bincount(together, minlength=values) / rows - shares).max() < 0.01
    assert np.abs(np.bincount(apart, minlength=values) / rows - shares).max() < 0.06
    assert changes(together) < values * passes


@pytest.mark.parametrize("skew", SKEWS, ids=lambda skew: skew.name)
def test_skewed_tables_still_refer_to_each_other(tables, skew):
    made = skewed_tpch(tables, skew, seed=1)
    assert {name: table.schema for name, table in made.items()} == {n: table.schema for n, table in tables.items()}
    assert {name: len(table) for name, table in made.items()} == {name: len(table) for name, table in tables.items()}
    lines = made["lineitem"].join(made["partsupp"], ["l_partkey", "l_suppkey"], ["ps_partkey", "ps_suppkey"], "inner")
    assert len(lines) == len(made["lineitem"])
    bought = made["orders"].join(made["customer"], "o_custkey", "c_custkey", "inner")
    assert len(bought) == len(made["orders"])
    lines = made["lineitem"].join(made["orders"], "l_orderkey", "o_orderkey", "inner")
    assert np.all(lines["l_shipdate"].to_numpy() > lines["o_orderdate"].to_numpy())
    assert made["lineitem"] == skewed_tpch(tables, skew, seed=1)["lineitem"]


def test_runs_lie_together_along_the_key(tables):
    apart, together = (skewed_tpch(tables, Skew(kind, 1.0), 1)["part"] for kind in ("independent", "runs"))
    assert changes(together["p_brand"].to_numpy()) < 25 < changes(apart["p_brand"].to_numpy())


def test_a_table_in_memory_is_pruned_as_its_index_would(tables):
    values = np.array([5, 1, 9, 3, 7, 2])
    table = BlockTable(pa.table({"a": values}), np.argsort(values), 3)
    assert table.sizes.tolist() == [2, 2, 2]
    for recipe in (Recipe(), Recipe(range_set=4), Recipe(gap_histogram=2)):
        catalog = table.catalog({"a": LONG}, recipe)
        kept = kept_blocks(catalog, normalize(compare(column("a", LONG), "=", 4)))
        assert kept.tolist() == [False, not recipe, False]


def test_what_is_proven_empty_is_left_out_of_medians():
    names = (*VARIANTS, "naive schedule")
    found: dict[str, float | None] = {"q1": 3.0, "q2": None, "q3": 5.0}
    cuts: Cuts = {query: dict.fromkeys(names, value) for query, value in found.items()}
    assert medians([cuts])[BEST] == 4.0
    assert medians([cuts], ["q2"])[BEST] == 1.0
    assert proven_empty([cuts]) == 1


def test_a_query_is_eligible_if_a_filtered_table_is_joined_by_equality():
    a, b = (Column(number, LONG) for number in "12")
    left = Scan("l", "l", (), (("1", Column("a", LONG)),))
    right = Scan("r", "r", (), (("2", Column("b", LONG)),))

    def joined(condition, op=Op.EQ):
        return Query((Join(INNER, Filter(condition, left), right, Comparison(op, a, b)),))

    assert eligible(joined(compare(a, ">", 3)))
    assert not eligible(joined(is_not_null(a)))
    assert not eligible(joined(compare(a, ">", 3), Op.LT))
    assert not eligible(Query((Filter(compare(a, ">", 3), left),)))


def test_film_data_is_whole_and_queries_are_cyclic():
    tables = job_tables(500, seed=1)
    films = set(tables["title"]["id"].to_pylist())
    for fact in FACTS:
        assert set(tables[TABLE_OF[fact]]["movie_id"].to_pylist()) <= films
    assert set(tables["cast_info"]["person_id"].to_pylist()) <= set(tables["name"]["id"].to_pylist())
    assert len(queries()) >= 10
    assert sum(text.count("movie_id = ") > 0 for text in queries().values()) >= 10


def test_the_benchmark_ends_with_its_figures(spark, tmp_path, capsys):
    sizes = ["--sf", "0.01", "--tpcds-sf", "0.01", "--blocks", "40", "--films", "400", "--seeds", "1", "--layouts", "0"]
    assert main(["dips", *sizes, "--parts", "tpch,job", "--data", str(tmp_path)]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["inputcut_median"].keys() == {"runs", "independent", "uniform"}
    assert last["q17"] >= 1
    for cuts in last["cuts_tpch"].values():
        assert cuts[BEST] >= cuts[PREDICATES] * 0.999
    assert set(FAVOURABLE) <= last["cuts_tpch"].keys()
    assert last["inputcut_job"]["natural"][BEST] >= last["inputcut_job"]["natural"][PREDICATES]


def test_run_and_planning_times_have_figures(spark, tmp_path, capsys):
    sizes = ["--time-sf", "0.01", "--plan-sf", "0.01", "--time-blocks", "8", "--plan-files", "4", "--queries", "1"]
    assert main(["dips", *sizes, "--parts", "time,plan", "--plan-runs", "1", "--data", str(tmp_path)]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["tpcds"].keys() >= {"share_third", "median_speedup", "eligible"}
    assert last["tpcds"]["queries"]["q1"]["same"]
    assert last["plan_ms"].keys() == {"p50", "p95"}
