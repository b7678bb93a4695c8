from __future__ import annotations

import random

import pytest

import sidestep
from tests.lakes.iceberg import ROWS, check, check_without_skipped, make_table, scattered

SOUTH = "SELECT sum(v), count(*) FROM {fact} f JOIN {dim} d ON f.k = d.k WHERE d.region = 'south'"


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """A fact clustered by its key, and a dimension whose regions are runs of it; both also as Parquet."""
    home = tmp_path_factory.mktemp("parquet")
    make_table(spark, "ice.join.fact", f"id AS k; id % 13 AS v; {scattered()} AS x")
    make_table(
        spark, "ice.join.dim", "id * 3 AS k; CASE WHEN id < 750 THEN 'north' ELSE 'south' END AS region", 4, rows=250
    )
    for name in ("fact", "dim"):
        spark.table(f"ice.join.{name}").write.parquet(str(home / name))
        spark.read.parquet(str(home / name)).createOrReplaceTempView(f"plain_{name}")
        sidestep.index(spark, f"ice.join.{name}")
        sidestep.index(spark, str(home / name))
    return home


def test_a_join_induces(spark, enabled, tables):
    query = SOUTH.format(fact="ice.join.fact", dim="ice.join.dim")
    read = check(spark, query)
    assert read["fact"] == (6, 2)
    check_without_skipped(spark, query)
    assert "as in ice.join.dim.k" in " ".join(str(sidestep.explain(query, spark)).split())


def test_outer_and_anti_joins(spark, enabled, tables):
    for join in ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"):
        query = (
            f"SELECT f.* FROM ice.join.fact f {join} (SELECT * FROM ice.join.dim WHERE region = 'south') d ON f.k = d.k"
        )
        read = check(spark, query)
        assert read["fact"][1] == (2 if join in ("RIGHT JOIN", "LEFT SEMI JOIN") else 6), join


def test_iceberg_induces_on_parquet(spark, enabled, tables):
    query = SOUTH.format(fact="plain_fact", dim="ice.join.dim")
    assert check(spark, query)["fact"] == (2, 1)


def test_parquet_files_that_may_change_induce_nothing_on_iceberg(spark, enabled, tables):
    """Iceberg's files are chosen when a query is planned; a Parquet file could be written anew before it runs."""
    query = SOUTH.format(fact="ice.join.fact", dim="plain_dim")
    assert check(spark, query)["fact"] == (6, 6)
    own = f"{query} AND f.x = {7919 * 2800 % 100003}"
    assert check(spark, own)["fact"] == (6, 1)
    told = sidestep.explain(query, spark)
    (fact,) = (scan for scan in told.scans if scan.table == "ice.join.fact")
    assert fact.files is not None
    assert fact.row_groups is not None
    assert (fact.files.kept, fact.row_groups.kept) == (6, 6)


def test_equal_scans_that_skip_differently_are_not_taken_for_one(spark, enabled, tables):
    """The two scans of the fact are the same to Iceberg; what joins induce on them is not."""
    half = "SELECT sum(v) AS total FROM ice.join.fact f JOIN ice.join.dim d ON f.k = d.k WHERE d.region = '{}'"
    query = f"SELECT * FROM ({half.format('north')}) UNION ALL ({half.format('south')})"
    for setting in ("-1", "10MB"):
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", setting)
        try:
            check(spark, query)
        finally:
            spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_storage_partitioned_joins(spark, enabled, tables):
    """Spark joins by partition what Iceberg reports as grouped; files that are left out leave groups out."""
    for name in ("left", "right"):
        make_table(
            spark,
            f"ice.join.{name}",
            f"id; {scattered()} AS x; id % 11 AS v",
            2,
            more="PARTITIONED BY (bucket(4, id))",
        )
        sidestep.index(spark, f"ice.join.{name}")
    settings = {
        "spark.sql.sources.v2.bucketing.enabled": "true",
        "spark.sql.iceberg.planning.preserve-data-grouping": "true",
        "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        one = 7919 * 321 % 100003
        query = "SELECT l.id, l.v, r.x FROM ice.join.left l JOIN ice.join.right r ON l.id = r.id"
        assert check(spark, query) == {"left": (8, 8), "right": (8, 8)}
        read = check(spark, f"{query} WHERE l.x = {one}")
        assert (read["left"], read["right"][1] < 8) == ((8, 1), True)
        check(spark, f"{query} WHERE l.x = {one} OR r.x = {7919 * 77 % 100003}")
        check_without_skipped(spark, f"{query} WHERE l.x = {one}")
    finally:
        for key in settings:
            spark.conf.unset(key)


def test_runtime_filters_of_iceberg_come_on_top(spark, enabled, tables):
    make_table(
        spark, "ice.join.days", f"id; {scattered()} AS x; CAST(id % 5 AS INT) AS p", 2, more="PARTITIONED BY (p)"
    )
    spark.sql("DROP TABLE IF EXISTS ice.join.chosen")
    spark.sql("CREATE TABLE ice.join.chosen (p INT, name STRING) USING iceberg")
    spark.sql("INSERT INTO ice.join.chosen VALUES (2, 'a'), (4, 'b')")
    sidestep.index(spark, "ice.join.days")
    query = "SELECT d.id FROM ice.join.days d JOIN ice.join.chosen c ON d.p = c.p WHERE c.name LIKE '%b%'"
    check(spark, query)
    values = ", ".join(str(7919 * at % 100003) for at in (4, 14, 12, 900))
    assert check(spark, f"{query} AND d.x IN ({values})")["days"][1] <= 2


@pytest.mark.parametrize("seed", range(3))
def test_random_queries(spark, enabled, tables, seed):
    drawn = random.Random(seed)
    for _ in range(6):
        conditions = [
            drawn.choice(
                [
                    f"f.x = {7919 * drawn.randrange(6 * ROWS) % 100003}",
                    f"f.k BETWEEN {(low := drawn.randrange(3000))} AND {low + drawn.randrange(500)}",
                    f"f.v <> {drawn.randrange(13)}",
                    f"f.x % {drawn.randrange(2, 9)} = 1",
                    f"(f.k < {drawn.randrange(3000)} OR f.x IN ({7919 * drawn.randrange(3000) % 100003}, 5))",
                    f"NOT (f.k >= {drawn.randrange(3000)} AND f.v = 3)",
                ]
            )
            for _ in range(drawn.randrange(1, 3))
        ]
        joined = drawn.random() < 0.5
        source = "ice.join.fact f" + (" JOIN ice.join.dim d ON f.k = d.k AND d.region = 'south'" if joined else "")
        check(spark, f"SELECT f.* FROM {source} WHERE {drawn.choice([' AND ', ' OR ']).join(conditions)}")
