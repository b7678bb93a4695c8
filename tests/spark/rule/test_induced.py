"""Predicates that joins induce: a filter on one table makes another skip files, at planning time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sidestep
from tests.spark.tables import data_files, files_read, names, rows_of, settings, switched_off, write_file

ALL, DIMS = names(range(10)), [f"d{number}" for number in range(4)]


@pytest.fixture(scope="module")
def star(spark, tmp_path_factory):
    """fact: ten files of a hundred rows, by key (0 to 99 in f0, ...); dim: four files d0 to d3 of a colour each, whose
    keys are the multiples of 10 in [250 n, 250 n + 250); link: a key of fact for each of other."""
    root = tmp_path_factory.mktemp("star")
    for number in range(10):
        keys = np.arange(100 * number, 100 * number + 100)
        table = pa.table(
            {"k": pa.array(keys, pa.int64()), "v": keys % 7, "n": [None if k % 3 == 0 else k for k in keys.tolist()]}
        )
        write_file(root / "fact" / f"f{number}.parquet", table)
    for number, colour in enumerate(["red", "green", "blue", "grey"]):
        keys = np.arange(250 * number, 250 * number + 250, 10)
        table = pa.table({"k": pa.array(keys, pa.int32()), "colour": [colour] * len(keys), "w": keys // 10})
        write_file(root / "dim" / f"d{number}.parquet", table)
    for number in range(5):
        table = pa.table({"a": np.arange(200 * number, 200 * number + 200, 5), "b": np.arange(40) + 40 * number})
        write_file(root / "link" / f"l{number}.parquet", table)
    for name in ("fact", "dim", "link"):
        sidestep.index(spark, str(root / name))
        spark.read.parquet(str(root / name)).createOrReplaceTempView(name)
    yield root
    for name in ("fact", "dim", "link"):
        spark.catalog.dropTempView(name)


@pytest.fixture(autouse=True)
def nothing_is_chosen_later(spark):
    """What joins induce when the query is planned, and nothing else."""
    with settings(spark, spark__sidestep__selectors="false"):
        yield


GREEN = names([2, 3, 4])
LINKS = [f"l{number}" for number in range(5)]
QUERIES = {
    "SELECT * FROM fact JOIN dim USING (k) WHERE colour = 'green'": [["d1"], GREEN],
    "SELECT * FROM fact, dim WHERE fact.k = dim.k AND colour IN ('green', 'grey')":
        [["d1", "d3"], names([2, 3, 4, 7, 8, 9])],
    # The other way, and on to a third table.
    "SELECT * FROM fact JOIN dim USING (k) WHERE fact.k BETWEEN 510 AND 520": [["d2"], ["f5"]],
    "SELECT * FROM link JOIN fact ON a = fact.k JOIN dim ON fact.k = dim.k WHERE colour = 'green'":
        [["d1"], GREEN, ["l1", "l2"]],
    "SELECT * FROM link JOIN fact ON a = fact.k WHERE b < 30": [["f0", "f1"], ["l0"]],
    # Outer joins: from the preserved side to the other, never back.
    "SELECT * FROM dim LEFT JOIN fact USING (k) WHERE colour = 'green'": [["d1"], GREEN],
    "SELECT * FROM fact LEFT JOIN dim ON fact.k = dim.k AND colour = 'green'": [["d1"], ALL],
    "SELECT * FROM fact RIGHT JOIN dim ON fact.k = dim.k WHERE colour = 'green'": [["d1"], GREEN],
    "SELECT * FROM fact FULL JOIN dim ON fact.k = dim.k AND colour = 'green'": [DIMS, ALL],
    # Semi joins both ways, anti joins from left to right.
    "SELECT * FROM fact WHERE k IN (SELECT k FROM dim WHERE colour = 'green')": [["d1"], GREEN],
    "SELECT * FROM dim WHERE colour = 'green' AND EXISTS (SELECT 1 FROM fact WHERE fact.k = dim.k)": [["d1"], GREEN],
    "SELECT * FROM fact WHERE NOT EXISTS (SELECT 1 FROM dim WHERE fact.k = dim.k AND colour = 'green')": [["d1"], ALL],
    "SELECT * FROM dim WHERE colour = 'green' AND NOT EXISTS (SELECT 1 FROM fact WHERE fact.k = dim.k)":
        [["d1"], GREEN],
    # Group-bys, windows and limits.
    "SELECT * FROM (SELECT k, sum(v) FROM fact GROUP BY k) JOIN dim USING (k) WHERE colour = 'green'": [["d1"], GREEN],
    "SELECT * FROM (SELECT max(k) AS k, v FROM fact GROUP BY v) JOIN dim USING (k) WHERE colour = 'green'":
        [["d1"], ALL],
    "SELECT * FROM (SELECT k, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM fact) JOIN dim USING (k) "
    "WHERE colour = 'green'": [["d1"], GREEN],
    "SELECT * FROM (SELECT k, rank() OVER (PARTITION BY v ORDER BY k) AS r FROM fact) JOIN dim USING (k) "
    "WHERE colour = 'green'": [["d1"], ALL],
    "SELECT * FROM (SELECT * FROM fact ORDER BY k LIMIT 300) f JOIN dim ON f.k = dim.k WHERE colour = 'green'":
        [["d1"], ALL],
    # Unions of both.
    "SELECT * FROM (SELECT k, v FROM fact UNION ALL SELECT a, b FROM link) u JOIN dim ON u.k = dim.k "
    "WHERE colour = 'green'": [["d1"], GREEN, ["l1", "l2"]],
    # A constant added to either side.
    "SELECT * FROM fact JOIN link ON fact.k = a + 300 WHERE b < 40": [names([3, 4]), ["l0"]],
    "SELECT * FROM fact JOIN link ON fact.k - 300 = a WHERE fact.k < 400": [["f3"], ["l0"]],
    # What else can be undone: products, quotients, a constant less a column; with a constant on both sides.
    "SELECT * FROM fact JOIN dim ON fact.k = dim.k * 2 WHERE colour = 'green'": [["d1"], names([5, 6, 7, 8, 9])],
    "SELECT * FROM fact JOIN dim ON fact.k * 2 = dim.k WHERE colour = 'green'": [["d1"], names([1, 2])],
    "SELECT * FROM fact JOIN dim ON dim.k / 5 = fact.k WHERE colour = 'green'": [["d1"], ["f0"]],
    "SELECT * FROM fact JOIN dim ON fact.k = 1000 - dim.k WHERE colour = 'green'": [["d1"], names([5, 6, 7])],
    "SELECT * FROM fact JOIN dim ON 10 - fact.k = -dim.k WHERE colour = 'green'": [["d1"], names([2, 3, 4, 5])],
    "SELECT * FROM fact JOIN dim ON (fact.k + 10) * 2 = dim.k WHERE colour = 'green'": [["d1"], names([1, 2])],
    "SELECT * FROM fact JOIN dim ON CAST(fact.k AS DECIMAL(20, 0)) + 5.0 = dim.k * 2.5 WHERE colour = 'red'":
        [["d0"], names(range(6))],
    # A small table is known to the row: no multiple of 25 is half a unit from a whole number.
    "SELECT * FROM fact JOIN dim ON CAST(fact.k AS DECIMAL(20, 0)) + 0.5 = dim.k * 2.5 WHERE colour = 'red'": [],
    "SELECT * FROM fact JOIN dim ON fact.k = dim.k WHERE dim.w IN (3, 47) AND colour <> 'blue'":
        [["d0", "d1"], names([0, 4])],
    "SELECT * FROM fact JOIN dim ON fact.n + 100 <=> dim.k WHERE colour = 'green'": [["d1"], names([1, 2, 3])],
    "SELECT count(*) FROM fact JOIN dim ON fact.k < dim.k - 100 WHERE colour = 'red'": [["d0"], names([0, 1])],
    "SELECT * FROM fact WHERE k + 100 IN (SELECT k FROM dim WHERE colour = 'green')": [["d1"], names([1, 2, 3])],
    # The same, computed below the join: under a group-by, in a union, in outer joins.
    "SELECT * FROM (SELECT k + 300 AS c, v FROM fact) f JOIN dim ON f.c = dim.k WHERE colour = 'grey'":
        [["d3"], names([4, 5, 6])],
    "SELECT * FROM (SELECT k * 2 AS c, count(*) FROM fact GROUP BY k * 2) f JOIN dim ON f.c = dim.k "
    "WHERE colour = 'green'": [["d1"], names([1, 2])],
    "SELECT * FROM (SELECT k + 100 AS c FROM fact UNION ALL SELECT a - 100 FROM link) u JOIN dim ON u.c = dim.k "
    "WHERE colour = 'green'": [["d1"], names([1, 2, 3]), ["l1", "l2"]],
    "SELECT * FROM dim LEFT JOIN (SELECT k * 2 AS c FROM fact) f ON f.c = dim.k WHERE colour = 'green'":
        [["d1"], names([1, 2])],
    "SELECT * FROM (SELECT k * 2 AS c FROM fact) f LEFT JOIN dim ON f.c = dim.k AND colour = 'green'": [["d1"], ALL],
    "SELECT * FROM (SELECT k, k + 1 AS c, rank() OVER (PARTITION BY k + 1 ORDER BY v) AS r FROM fact) f "
    "JOIN dim ON f.k = dim.k WHERE colour = 'green'": [["d1"], ALL],
    # The nested statement of TPC-H q17: what is asked of the outer fact goes into the average.
    "SELECT sum(f.v) FROM fact f JOIN dim ON f.k = dim.k WHERE colour = 'green' AND f.v < "
    "(SELECT 0.2 + avg(v) FROM fact g WHERE g.k = dim.k)": [["d1"], GREEN, GREEN],
    # Nothing to induce: joins on expressions, ranges that say nothing, no equality.
    "SELECT * FROM fact JOIN dim ON fact.k = dim.k % 300 WHERE colour = 'green'": [["d1"], ALL],
    "SELECT * FROM fact JOIN dim ON fact.k = dim.k * dim.w WHERE colour = 'green'": [["d1"], ALL],
    "SELECT * FROM fact CROSS JOIN dim WHERE colour = 'green' AND fact.v + dim.w = 20": [["d1"], ALL],
    "SELECT count(*) FROM fact JOIN dim ON fact.k < dim.k WHERE colour = 'red'": [["d0"], names([0, 1, 2])],
    # A contradiction anywhere: nothing is read.
    "SELECT * FROM fact JOIN dim USING (k) WHERE colour = 'violet'": [],
    "SELECT * FROM fact JOIN dim USING (k) WHERE colour = 'green' AND fact.k > 600": [],
    "SELECT * FROM fact CROSS JOIN dim WHERE colour = 'violet'": [],
    # NULL keys: no partner, unless asked for.
    "SELECT * FROM fact JOIN dim ON fact.n = dim.k WHERE colour = 'green'": [["d1"], GREEN],
    "SELECT * FROM fact JOIN dim ON fact.n <=> dim.k WHERE colour = 'green'": [["d1"], GREEN],
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_the_files_read(spark, enabled, star, query):
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    df = spark.sql(query)
    assert rows_of(df) == expected
    assert [files for files in files_read(df) if files] == sorted(QUERIES[query])


FILTERED = "SELECT * FROM fact JOIN dim USING (k) WHERE colour = 'green'"


def test_it_can_be_switched_off_by_itself(spark, star):
    with sidestep.enable(spark, induced=False):
        df = spark.sql(FILTERED)
        df.collect()
        assert files_read(df) == [["d1"], ALL]
    with sidestep.enable(spark), settings(spark, spark__sidestep__induced="false"):
        df = spark.sql(FILTERED)
        df.collect()
        assert files_read(df) == [["d1"], ALL]


def copy_of(spark, star, tmp_path):
    """The tables fact and dim, with indexes of their own, for a test to spoil."""
    for name in ("fact", "dim"):
        for file in data_files(star / name):
            write_file(tmp_path / name / file.name, pa.parquet.read_table(file))
        sidestep.index(spark, str(tmp_path / name))


def joined(spark, tmp_path):
    fact, dim = (spark.read.parquet(str(tmp_path / name)) for name in ("fact", "dim"))
    return fact.join(dim, "k").where("colour = 'green'")


def test_a_file_that_is_not_indexed_says_nothing_and_silences_its_table(spark, enabled, star, tmp_path):
    copy_of(spark, star, tmp_path)
    write_file(
        tmp_path / "dim" / "d9.parquet", {"k": pa.array([5, 25], pa.int32()), "colour": ["green"] * 2, "w": [0, 0]}
    )
    df = joined(spark, tmp_path)
    assert {5, 25} < {row.k for row in df.collect()}
    assert files_read(df) == [["d1", "d9"], ALL]
    sidestep.index(spark, str(tmp_path / "dim"))
    df = joined(spark, tmp_path)
    df.collect()
    assert files_read(df) == [["d1", "d9"], names([0, 2, 3, 4])]


def test_a_file_rewritten_in_place_silences_its_table_though_it_would_have_been_skipped(spark, enabled, star, tmp_path):
    copy_of(spark, star, tmp_path)
    fact, dim = (spark.read.parquet(str(tmp_path / name)) for name in ("fact", "dim"))
    df = fact.join(dim, "k").where("colour = 'green'")
    old = pa.parquet.read_table(tmp_path / "dim" / "d3.parquet")
    pa.parquet.write_table(old.set_column(1, "colour", pa.array(["green"] * len(old))), tmp_path / "dim" / "d3.parquet")
    assert max(row.k for row in df.collect()) == 990


def test_what_is_left_lets_spark_broadcast(spark, enabled, star):
    with settings(spark, spark__sql__autoBroadcastJoinThreshold="6000", spark__sql__adaptive__enabled="false"):
        query = "SELECT * FROM fact JOIN link ON fact.k = a WHERE b < 10"
        assert "BroadcastHashJoin" in spark.sql(query)._jdf.queryExecution().executedPlan().toString()


def test_a_calendar_in_one_file_is_known_to_the_row(spark, enabled, tmp_path):
    """The common star: a dimension of one row group says nothing as a block, and its filtered rows say which days."""
    days = np.arange(40_000)
    calendar = {
        "day": pa.array(days, pa.int32()),
        "year": 1900 + days // 365,
        "month": [f"M{n // 30 % 12}" for n in days],
    }
    write_file(tmp_path / "calendar" / "c0.parquet", pa.table(calendar))
    for number in range(10):
        sold = np.arange(400 * number, 400 * number + 400) + 36_000
        write_file(
            tmp_path / "sales" / f"f{number}.parquet", pa.table({"day": pa.array(sold, pa.int32()), "paid": sold})
        )
    tables = {name: str(tmp_path / name) for name in ("calendar", "sales")}
    for path in tables.values():
        sidestep.index(spark, path)
    frames = {name: spark.read.parquet(path) for name, path in tables.items()}
    query = "SELECT sum(paid) FROM {sales} s JOIN {calendar} c ON s.day = c.day WHERE c.year = 2000 AND c.month = 'M1'"
    with switched_off(spark):
        expected = rows_of(spark.sql(query, **frames))
    found = spark.sql(query, **frames)
    assert rows_of(found) == expected
    # Days 36,500 to 36,864; months of thirty days go on through the years, so these are two of them.
    held = {int(day) for day in days if 1900 + day // 365 == 2000 and day // 30 % 12 == 1}
    assert files_read(found) == [["c0"], names(sorted({(day - 36_000) // 400 for day in held}))]
    with settings(spark, spark__sidestep__induced__smallRows="0"):
        assert files_read(spark.sql(query, **frames)) == [["c0"], ALL]


def test_row_groups_of_files_that_are_read_are_passed_over_too(spark, enabled, star, tmp_path):
    """A few ranges become a condition over the scan, for Parquet's own statistics: it is no filter of the query's."""
    copy_of(spark, star, tmp_path)
    keys = pa.array(np.arange(1000), pa.int64())
    write_file(tmp_path / "grouped" / "f0.parquet", {"k": keys, "v": keys}, row_group_size=100)
    sidestep.index(spark, str(tmp_path / "grouped"))
    fact, dim = (spark.read.parquet(str(tmp_path / name)) for name in ("grouped", "dim"))
    df = fact.join(dim, "k").where("colour = 'green'")
    assert df.count() == 25
    df = fact.join(dim, "k").where("colour = 'green'")
    df.collect()
    read = {scan.table: scan.rows for scan in sidestep.metrics(df).scans}
    assert sorted(read.values()) == [25, 300]
    explanation = sidestep.explain(df)
    assert "k as in dim.k" in str(explanation)
    assert not any("k >=" in reason.condition for scan in explanation.scans for reason in scan.reasons)


def test_explain_tells_of_every_induced_predicate(spark, enabled, star):
    explanation = sidestep.explain(FILTERED)
    text = str(explanation)
    assert "induced predicate skips 7 files" in text
    told = explanation.to_dict()["induced"]
    assert [(each["from"], each["to"], each["blocks removed"]) for each in told] == [("dim.k", "fact.k", 7)]
    assert explanation.svg.startswith("<svg")
    assert explanation.svg in explanation._repr_html_()
