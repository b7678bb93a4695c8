"""Skipping in whole queries: joins, subqueries, common table expressions, views, catalog tables, partition folders."""

from __future__ import annotations

from pathlib import Path

import pytest

import sidestep
from tests.spark.tables import files_read, names, rows_of, settings, switched_off, write_file

ALL = names(range(6))
FEW = [f"g{number}" for number in range(3)]


@pytest.fixture(scope="module")
def views(spark, tmp_path_factory):
    """l: 6 files f0 to f5 of ten ids each; r: 3 files g0 to g2 of twenty; both with a value that is the id, or NULL."""
    root = tmp_path_factory.mktemp("queries")
    for file in range(6):
        ids = range(10 * file, 10 * file + 10)
        write_file(root / "l" / f"f{file}.parquet", {"id": ids, "v": [None if i % 7 == 0 else i for i in ids]})
    for file in range(3):
        ids = range(20 * file, 20 * file + 20)
        write_file(root / "r" / f"g{file}.parquet", {"id": ids, "w": [None if i % 5 == 0 else i for i in ids]})
    for name in ("l", "r"):
        sidestep.index(spark, str(root / name))
        spark.read.parquet(str(root / name)).createOrReplaceTempView(name)
    yield root
    for name in ("l", "r"):
        spark.catalog.dropTempView(name)


QUERIES = {
    # Above a join a filter is about the side that is preserved, in its condition about the other one.
    "SELECT * FROM l JOIN r USING (id) WHERE l.v < 5 AND r.w > 22": [["f0"], ["g1", "g2"]],
    "SELECT * FROM l JOIN r ON l.id = r.id AND l.v < 5 AND r.w > 45": [["f0"], ["g2"]],
    "SELECT * FROM l CROSS JOIN r WHERE l.id > 52 AND r.id < 3": [["f5"], ["g0"]],
    "SELECT * FROM l LEFT JOIN r ON l.id = r.id AND r.w < 5 WHERE l.v < 15": [["f0", "f1"], ["g0"]],
    "SELECT * FROM l LEFT JOIN r ON l.id = r.id AND l.v < 5": [ALL, FEW],
    "SELECT * FROM l LEFT JOIN r ON l.v = r.w WHERE r.w IS NULL": [ALL, FEW],
    "SELECT * FROM l LEFT JOIN r ON l.v = r.w WHERE r.w < 5": [["f0"], ["g0"]],
    "SELECT * FROM l RIGHT JOIN r ON l.id = r.id AND l.v < 5 WHERE r.w < 25": [["f0"], ["g0", "g1"]],
    "SELECT * FROM l RIGHT JOIN r ON l.id = r.id AND r.w < 5": [ALL, FEW],
    "SELECT * FROM l FULL JOIN r ON l.id = r.id AND l.v < 5 AND r.w < 5": [ALL, FEW],
    "SELECT * FROM l FULL JOIN r ON l.id = r.id WHERE coalesce(l.v, 1) < 5": [ALL, FEW],
    "SELECT * FROM l LEFT SEMI JOIN r ON l.id = r.id AND r.w < 5 WHERE l.v < 3": [["f0"], ["g0"]],
    "SELECT * FROM l LEFT ANTI JOIN r ON l.id = r.id AND r.w < 5 WHERE l.v < 15": [["f0", "f1"], ["g0"]],
    "SELECT * FROM l LEFT ANTI JOIN r ON l.id = r.id AND l.v < 5": [ALL, FEW],
    # Each occurrence of a table by itself.
    "SELECT * FROM l a JOIN l b ON a.id = b.v WHERE a.id < 5 AND b.v > 2": [["f0"], ["f0"]],
    "SELECT * FROM l a JOIN l b ON a.id + 30 = b.id WHERE a.v < 5 AND b.v > 32": [["f0"], ["f3", "f4", "f5"]],
    "SELECT * FROM l a, l b, l c WHERE a.id < 3 AND b.id > 57 AND c.id = 33": [["f0"], ["f3"], ["f5"]],
    # Subqueries.
    "SELECT * FROM l WHERE id = (SELECT max(w) FROM r WHERE id < 15)": [["f1"], ["g0"]],
    "SELECT * FROM l WHERE v < 15 AND id IN (SELECT id FROM r WHERE w > 45)": [[], ["g2"]],
    "SELECT * FROM l WHERE v < 15 AND id NOT IN (SELECT id FROM r WHERE w > 45)": [["f0", "f1"], ["g2"]],
    "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.id = l.id AND r.w < 5)": [["f0"], ["g0"]],
    "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.id = l.id AND r.w < 5)": [ALL, ["g0"]],
    "SELECT * FROM l WHERE v = 3 OR EXISTS (SELECT 1 FROM r WHERE r.id = l.id AND r.w < 5)": [ALL, ["g0"]],
    "SELECT * FROM l WHERE id < 5 AND (v = 3 OR id IN (SELECT id FROM r WHERE w > 45))": [["f0"], ["g2"]],
    "SELECT *, (SELECT count(*) FROM r WHERE r.w = l.v AND r.id > 45) FROM l WHERE l.id < 5": [["f0"], ["g2"]],
    # Common table expressions, in one place or in several.
    "WITH c AS (SELECT * FROM l WHERE id < 15) SELECT * FROM c WHERE v > 3": [["f0", "f1"]],
    "WITH c AS (TABLE l) SELECT * FROM c WHERE id < 5 UNION ALL SELECT * FROM c WHERE id > 55": [["f0"], ["f5"]],
    "SELECT * FROM (SELECT id, v FROM l UNION SELECT id, w FROM r) WHERE id < 5": [["f0"], ["g0"]],
    "SELECT id, v FROM l WHERE id < 20 EXCEPT SELECT id, w FROM r WHERE id > 45": [["f0", "f1"], ["g2"]],
    "SELECT v, row_number() OVER (ORDER BY id) AS n FROM l WHERE id > 35": [["f3", "f4", "f5"]],
    "SELECT * FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM l) WHERE id > 35": [ALL],
    "SELECT * FROM (SELECT * FROM l ORDER BY id LIMIT 50) WHERE id > 35": [ALL],
    "SELECT * FROM l WHERE id > 35 ORDER BY id LIMIT 3": [["f3", "f4", "f5"]],
    "SELECT id, explode(array(v, id)) AS e FROM l WHERE id < 5": [["f0"]],
    "SELECT max(v) FROM l WHERE id < 5 HAVING max(v) > 0": [["f0"]],
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_the_files_read_for_a_query(spark, enabled, views, query):
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    before = enabled.rule.timesWorked()
    with settings(spark, spark__sidestep__induced="false"):
        df = spark.sql(query)
        assert rows_of(df) == expected
    # What the optimizer calls in a loop must not do its work in a loop.
    assert enabled.rule.timesWorked() - before <= 2
    assert files_read(df) == sorted(QUERIES[query])
    with_induced = spark.sql(query)
    assert rows_of(with_induced) == expected
    assert {file for scan in files_read(with_induced) for file in scan} <= {f for scan in QUERIES[query] for f in scan}


def test_an_expression_kept_as_one_serves_all_who_refer_to_it(spark, enabled, views):
    """What one consumer of a shared definition asks for must not prune what the others read."""
    query = "WITH c AS (SELECT id, v, rand(1) AS x FROM l) SELECT * FROM c WHERE id < 5 UNION ALL SELECT * FROM c"
    assert spark.sql(query).count() == 65


# ---- partition folders


@pytest.fixture(scope="module")
def folders(spark, tmp_path_factory):
    """Partitioned by p (a, b, c) and n (1, 2): file f{p}{n} holds ids 0 to 9 of its own decade."""
    root = tmp_path_factory.mktemp("partitions") / "t"
    for place, p in enumerate("abc"):
        for n in (1, 2):
            start = 20 * place + 10 * n - 10
            write_file(root / f"p={p}" / f"n={n}" / f"f{p}{n}.parquet", {"id": range(start, start + 10)})
    sidestep.index(spark, str(root))
    return root


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("p = 'b'", ["fb1", "fb2"]),
        ("p > 'b'", ["fc1", "fc2"]),
        ("n = 2 AND p <> 'a'", ["fb2", "fc2"]),
        ("reverse(p) = 'c'", ["fc1", "fc2"]),
        ("p = 'b' AND id < 25", ["fb1"]),
        ("p = 'c' OR id < 5", ["fa1", "fc1", "fc2"]),
        ("(p = 'c' AND n = 1) OR (p = 'a' AND id > 12)", ["fa2", "fc1"]),
        ("NOT (p = 'c' OR id < 15)", ["fa2", "fb1", "fb2"]),
        ("n > 1 OR p IS NULL", ["fa2", "fb2", "fc2"]),
        ("p LIKE 'a%' AND n IN (1, 5)", ["fa1"]),
        # A partition column compared with a data column: each is known by another synopsis.
        ("n > id", ["fa1", "fa2", "fb1", "fb2", "fc1", "fc2"]),
    ],
)
def test_partition_folders_and_their_mixtures_with_data_columns(spark, enabled, folders, condition, expected):
    query = f"SELECT * FROM parquet.`{folders}` WHERE {condition}"
    with switched_off(spark):
        rows = rows_of(spark.sql(query))
    df = spark.sql(query)
    assert rows_of(df) == rows
    assert files_read(df) == [expected]


def test_one_folder_of_a_partitioned_table_is_covered_by_its_index(spark, enabled, folders):
    df = spark.read.parquet(str(folders / "p=b")).where("id < 25")
    assert df.count() == 5
    assert files_read(df) == [["fb1"]]
    df = spark.read.option("basePath", str(folders)).parquet(str(folders / "p=b")).where("id < 25 AND p = 'b'")
    assert df.count() == 5
    assert files_read(df) == [["fb1"]]


def test_dynamic_partition_pruning_still_happens(spark, enabled, folders, views):
    query = f"SELECT /*+ BROADCAST(r) */ t.id FROM parquet.`{folders}` t JOIN r ON t.n = r.id WHERE r.w = 2"
    with switched_off(spark):
        off = spark.sql(query)
        expected = rows_of(off)
    df = spark.sql(query)
    assert rows_of(df) == expected
    assert files_read(off) == [["fa2", "fb2", "fc2"], FEW]
    assert files_read(df) == [["fa2", "fb2", "fc2"], ["g0"]]


# ---- views and catalog tables


def test_a_view_is_looked_through(spark, enabled, views):
    spark.sql("SELECT id AS number, v FROM l WHERE id > 5").createOrReplaceTempView("some")
    try:
        assert files_read(spark.sql("SELECT * FROM some WHERE number < 15")) == [["f0", "f1"]]
    finally:
        spark.catalog.dropTempView("some")


@pytest.fixture
def table(spark):
    name = "catalog_table"
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_catalog_table_is_indexed_by_name_and_pruned(spark, enabled, table):
    spark.range(0, 100, 1, 5).write.saveAsTable(table)
    sidestep.index(spark, table)
    assert sidestep.status(spark, table).files == 5
    df = spark.sql(f"SELECT * FROM {table} WHERE id >= 85")
    assert df.count() == 15
    assert sidestep.metrics(df).files == 1
    assert sidestep.metrics(df).scans[0].table.endswith(table)


def test_a_partitioned_catalog_table_is_pruned_by_data_and_by_the_catalog(spark, enabled, table):
    spark.range(0, 100, 1, 5).selectExpr("id", "id % 2 AS p").write.partitionBy("p").saveAsTable(table)
    sidestep.index(spark, table)
    for condition, files, rows in (("id >= 85", 2, 15), ("id >= 85 AND p = 1", 1, 8), ("p = 0", 5, 50)):
        df = spark.sql(f"SELECT * FROM {table} WHERE {condition}")
        assert df.count() == rows
        assert sidestep.metrics(df).files == files, condition


def test_a_partition_whose_folder_is_called_after_another_is_read_right(spark, enabled, table, tmp_path):
    """A catalog may keep partition p = 1 in a folder named p=2: folder names prove nothing about its tables."""
    write_file(tmp_path / "t" / "p=2" / "f0.parquet", {"id": range(10)})
    write_file(tmp_path / "t" / "p=1" / "f1.parquet", {"id": range(10, 20)})
    spark.sql(f"CREATE TABLE {table} (id BIGINT, p INT) USING parquet PARTITIONED BY (p) LOCATION '{tmp_path / 't'}'")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (p=1) LOCATION '{tmp_path / 't' / 'p=2'}'")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (p=2) LOCATION '{tmp_path / 't' / 'p=1'}'")
    sidestep.index(spark, str(tmp_path / "t"))
    query = f"SELECT id FROM {table} WHERE p = 1 OR id = 100"
    with switched_off(spark):
        expected = rows_of(spark.sql(query))
    assert rows_of(spark.sql(query)) == expected
    assert len(expected) == 10


def test_an_analyzed_table_joins_by_broadcast_once_most_of_it_is_skipped(spark, enabled, table, views):
    spark.range(0, 4000, 1, 8).selectExpr("id", "repeat(uuid(), 20) AS filler").write.saveAsTable(table)
    spark.sql(f"ANALYZE TABLE {table} COMPUTE STATISTICS FOR ALL COLUMNS")
    sidestep.index(spark, table)
    size = sum(path.stat().st_size for path in Path(folder_of(spark, table)).rglob("*.parquet"))
    limits = {"autoBroadcastJoinThreshold": str(size // 3), "adaptive__enabled": "false"}
    joined = (
        f"SELECT a.id, a.filler FROM {table} a JOIN {table} b ON a.id = b.id WHERE b.id < 9 AND length(b.filler) > 1"
    )
    sizes, joins, rows = [], [], []
    with settings(spark, **{f"spark__sql__{name}": value for name, value in limits.items()}):
        for on in ("false", "true"):
            with settings(spark, spark__sidestep__enabled=on):
                scan = spark.sql(f"SELECT * FROM {table} WHERE id < 9")
                sizes.append(int(scan._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
                df = spark.sql(joined)
                joins.append("BroadcastHashJoin" in df._jdf.queryExecution().executedPlan().toString())
                rows.append(rows_of(df))
    assert sizes[1] * 4 < sizes[0]
    assert joins == [False, True]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 9


def folder_of(spark, table: str) -> str:
    found = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").where("col_name = 'Location'").first()
    return str(found["data_type"]).removeprefix("file:")
