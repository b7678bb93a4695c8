"""The ten templates of column groups, the groupings they are compared with, and the comparison on a small table."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from bench.denorm import MODES, REGIONS, SEGMENTS
from bench.denorm_data import columns
from bench.gsop_grouping import hill_climb, hyrise, row_store_cost
from bench.gsop_model import Experiment, compare_layouts
from bench.gsop_queries import COLOURS, NATIONS, TEMPLATES, Template, random_queries
from sidestep.layout.columns.costs import check_groups
from sidestep.layout.columns.queries import ColumnQuery, ColumnWorkload

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
