"""The ten templates of column groups, the groupings they are compared with, and the comparison on a small table."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from bench import bigdata
from bench.denorm import MODES, REGIONS, SEGMENTS
from bench.denorm_data import columns
from bench.gsop_grouping import hill_climb, hyrise, row_store_cost
from bench.gsop_model import Experiment, compare_layouts, compare_objectives
from bench.gsop_normalized import normalized_from
from bench.gsop_queries import COLOURS, NATIONS, TEMPLATES, Template, random_queries
from sidestep.layout.columns.costs import check_groups
from sidestep.layout.columns.queries import ColumnQuery, ColumnWorkload
from sidestep.predicate.columns import columns_of

READ = {"q3": 7, "q5": 7, "q6": 4, "q11": 4, "q12": 5, "q16": 4, "q19": 8, "q20": 3, "q21": 5, "q22": 2}
"""Columns of each template (thesis, 4.7.2)."""


def test_templates_read_as_many_columns_as_in_the_thesis():
    queries = list(random_queries(20, 0))
    assert {query.template: len(query.columns) for query in queries} == READ
    assert all(query.columns <= columns().keys() for query in queries)
    assert list(random_queries(20, 0)) == queries


def test_groupings_by_what_is_read_together():
    asked = [
        ColumnQuery(frozenset("ab"), (), 10),
        ColumnQuery(frozenset("cd"), (), 10),
        ColumnQuery(frozenset("ac"), ()),
    ]
    workload = ColumnWorkload.of("abcde", 0, asked)
    for groups in (hill_climb(workload), hyrise(workload)):
        check_groups(groups, 5)
        assert {frozenset({0, 1}), frozenset({2, 3})} <= set(groups)
        assert row_store_cost(workload, groups) <= row_store_cost(workload, [frozenset({at}) for at in range(5)])


def small_table(rows: int, templates: Mapping[Template, str] = TEMPLATES) -> pa.Table:
    """Random values for the columns that the templates read."""
    draw = np.random.default_rng(0)
    read = sorted({name for query in random_queries(len(templates), 0, templates) for name in query.columns})
    texts = {
        "c_mktsegment": SEGMENTS,
        "l_shipmode": MODES,
        "sr_name": tuple(REGIONS),
        "sn_name": NATIONS,
        "cn_name": NATIONS,
        "cr_name": tuple(REGIONS),
        "p_name": COLOURS,
        "p_container": ("SM CASE", "MED BOX", "LG PKG", "JUMBO JAR"),
        "c_phone": tuple(f"{code}-100" for code in range(10, 35)),
    }

    def values(name: str) -> list[object]:
        kind = columns()[name]
        if kind == "date":
            return [datetime.date(1993, 1, 1) + datetime.timedelta(int(day)) for day in draw.integers(0, 1_800, rows)]
        if kind == "string":
            words = texts.get(name, ("F", "O", "Brand#11", "PROMO BRUSHED TIN"))
            return [words[at] for at in draw.integers(0, len(words), rows)]
        return [int(number) for number in draw.integers(1, 50, rows)]

    return pa.table({name: values(name) for name in read})


def test_later_queries_read_less_of_column_groups():
    experiment = Experiment(small_table(1_000), list(random_queries(30, 1)), list(random_queries(10, 2)), blocks=40)
    measured = compare_layouts(experiment)
    assert measured["parquet"].total == 4.9
    assert measured["gsop"].total < measured["sop_thesis"].total < measured["parquet"].total
    assert measured["sop"].row_ids == measured["sop_thesis"].row_ids == 0
    assert measured["gsop"].row_ids <= measured["gsop_single"].row_ids
    assert len(measured["gsop"].local) == measured["gsop"].groups


def test_ways_to_work_the_objective_out_are_compared_on_the_same_rows():
    experiment = Experiment(small_table(400), list(random_queries(20, 1)), list(random_queries(10, 2)), blocks=20)
    found = compare_objectives(experiment)
    assert set(found) == {"full", "selectivity", "blocks", "load"}
    assert found["full"]["objective"] <= 1.2 * min(each["objective"] for each in found.values())


def test_queries_on_tables_of_their_own_join_only_what_they_read():
    for query in random_queries(10, 0):
        joined = normalized_from(query.columns)
        assert ("lineitem" in joined) == any(name.startswith("l_") for name in query.columns)
    assert "JOIN" not in normalized_from(frozenset({"c_phone", "c_acctbal"}))
    assert "partsupp ps" in normalized_from(frozenset({"p_name", "sn_name", "s_name"})), "a part has suppliers by it"


def test_groups_of_the_big_data_benchmark_are_no_worse_than_either_end():
    table = bigdata.make_table(3_000, 1)
    for name, predicate in bigdata.predicates(table, 0.2):
        assert name in {each.name for each in columns_of(predicate)}
    assert len(bigdata.predicates(table, 0.2)) > 10
    queries = bigdata.random_queries(table, 40, k=2, t=6, z=1.1, s=0.2, seed=1)
    assert len({query.columns - {query.template} for query in queries}) <= 12
