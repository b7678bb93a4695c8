"""The worked examples of chapter 4 of the thesis, as Spark reads them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sidestep
from sidestep.predicate import INTEGER, STRING, column, compare, is_like
from sidestep.workload import Feature, FeatureSet
from tests.spark.grouped import Group, write_groups
from tests.spark.rule.test_column_groups import scans

TABLE = pa.table(
    {
        "A": ["m", "n", "m", "n"],
        "B": pa.array([-1, 3, 5, -2], pa.int32()),
        "C": ["y1", "x2", "y3", "x4"],
        "D": pa.array([2, 1, 1, 2], pa.int32()),
    }
)
"""The table of figure 4.2: t1 and t3 satisfy A = 'm' and C LIKE 'y%', t1 and t4 satisfy B < 0."""
F1 = Feature((compare(column("A", STRING), "=", "m"),))
F2 = Feature((compare(column("B", INTEGER), "<", 0),))
F3 = Feature((is_like(column("C", STRING), "y%"),))


def write(folder, *groups: Group) -> str:
    return write_groups(folder / "t", TABLE, groups, units=1, buckets=1)[0]


@pytest.mark.parametrize(
    ("groups", "cells", "row_ids"),
    [
        ([Group("ABCD", "A", rows=2)], 8, 0),
        ([Group(name, name, rows=2) for name in "ABCD"], 4, 4),
        ([Group("AC", "A", rows=2), Group("BD", "B", rows=2)], 4, 0),
    ],
    ids=["left end", "right end", "middle ground"],
)
def test_example_2_the_spectrum_of_layouts(spark, enabled, tmp_path, groups, cells, row_ids):
    df = sidestep.read(spark, write(tmp_path, *groups)).where("B < 0 AND D = 2").select("B", "D")
    assert sorted(map(tuple, df.collect())) == [(-2, 2), (-1, 2)]
    read = scans(df)
    assert sum(rows * len({"B", "D"} & set(groups[number].columns)) for number, (_, rows) in read.items()) == cells
    assert (sum(rows for _, rows in read.values()) if len(read) > 1 else 0) == row_ids


def test_example_3_each_query_reads_what_its_columns_know(spark, enabled, tmp_path):
    known = Group("BD", "B", known=["C"], rows=2)
    df = sidestep.read(spark, write(tmp_path, Group("AC", "A", rows=2), known))
    first = df.where("A = 'm'").select("A", "C")
    second = df.where("B < 0").select("B", "D")
    third = df.where("C LIKE 'y%'").select("B", "C")
    assert sorted(map(tuple, first.collect())) == [("m", "y1"), ("m", "y3")]
    assert sorted(map(tuple, second.collect())) == [(-2, 2), (-1, 2)]
    assert sorted(map(tuple, third.collect())) == [(-1, "y1"), (5, "y3")]
    assert scans(first) == {0: (1, 2)}
    assert scans(second) == {1: (1, 2)}
    assert scans(third) == {0: (1, 2), 1: (1, 4)}, "both blocks of B have rows with C LIKE 'y%'"


def test_figure_4_6_union_vectors_with_the_features_of_each_group(spark, enabled, tmp_path):
    """The local features of G1 are F1 and F3, those of G2 are F1 and F2; F1 and F2 subsume the query."""
    groups = (
        Group("AC", "A", rows=2, features=FeatureSet("t", (F1, F3))),
        Group("BD", "B", rows=2, features=FeatureSet("t", (F1, F2))),
    )
    df = sidestep.read(spark, write(tmp_path, *groups)).where("A = 'm' AND B < 0").select("A", "B", "D")
    assert list(map(tuple, df.collect())) == [("m", -1, 2)], "t1: of t3 and t4 a part was read, and dropped"
    assert scans(df) == {0: (1, 2), 1: (1, 2)}
    (scan,) = sidestep.explain(df).scans
    assert scan.row_groups is not None
    assert (scan.row_groups.kept, scan.row_groups.total) == (2, 4)
