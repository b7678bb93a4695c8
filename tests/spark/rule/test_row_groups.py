"""Row groups of plain tables: what the index rules out is not read, whether or not Parquet's own filters could tell."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidestep
from sidestep.prune.explain.explanation import Amounts
from tests.spark.garbage import copy_with_garbage, skipped_blocks
from tests.spark.tables import set_age, settings, switched_off, write_file

GROUPS, ROWS = 20, 500


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory) -> Path:
    """Two files of twenty row groups: ``low`` exceeds ``n`` in two of them, words are scattered over the groups."""
    root = tmp_path_factory.mktemp("row groups") / "plain"
    for file in range(2):
        number = np.arange(GROUPS * ROWS) + file * GROUPS * ROWS
        group = number // ROWS
        rng = np.random.default_rng(file)
        data = {
            "n": pa.array(number),
            "low": pa.array(number + np.where(group % GROUPS == 7, 2 * ROWS, -2 * ROWS)),
            "at": pa.array(number * 1_000_000, pa.timestamp("us")),
            "word": [f"{'abcdefghij'[g % 10]}-{i % 3}" for g, i in zip(group, number, strict=True)],
            "id": pa.array(rng.integers(0, 2**40, GROUPS * ROWS)),
            "list": pa.array([[int(i)] for i in number]),
        }
        write_file(root / f"f{file}.parquet", data, row_group_size=ROWS)
    sidestep.index(spark, str(root), synopses="id=bloom,word=values")
    return Path(root)


def read_in_part(spark, df) -> tuple[int, int]:
    """Rows that the only scan of a query read, and those that explain said; the rows are Spark's own."""
    (scan,) = sidestep.explain(df).scans
    found = sorted(map(str, df.collect()))
    with switched_off(spark):
        alone = df.sparkSession.createDataFrame([], df.schema).union(df.select("*"))
        assert sorted(map(str, alone.collect())) == found
    assert scan.rows is not None
    return sidestep.metrics(df).rows, scan.rows.kept


@pytest.mark.parametrize(
    ("condition", "groups"),
    [
        ("at BETWEEN timestamp_ntz'1970-01-01 01:00:00' AND timestamp_ntz'1970-01-01 01:01:00'", 1),
        ("low > n", 2),
        ("word LIKE '%c-1%'", 4),
        ("n % 1000 = 5 AND low > n", 2),
        ("n IN (3, 14000)", 2),
    ],
)
def test_what_the_index_rules_out_is_not_read(spark, enabled, table, condition, groups):
    read, said = read_in_part(spark, spark.read.parquet(str(table)).where(condition))
    assert read == said == groups * ROWS


def test_lookups_by_bloom_filters(spark, enabled, table):
    wanted = pq.read_table(table / "f1.parquet", columns=["id"])["id"][777].as_py()
    read, said = read_in_part(spark, spark.read.parquet(str(table)).where(f"id = {wanted}"))
    assert read == said
    assert ROWS <= read <= 4 * ROWS


@pytest.mark.parametrize(
    "options",
    [
        {"spark__sql__files__maxPartitionBytes": "40000", "spark__sql__files__openCostInBytes": "1"},
        {"spark__sql__parquet__enableVectorizedReader": "false"},
        {"spark__sql__codegen__wholeStage": "false"},
        {"spark__sql__parquet__filterPushdown": "false"},
        {"spark__sql__files__maxPartitionNum": "1"},
    ],
)
def test_however_files_are_split_and_read(spark, enabled, table, options):
    with settings(spark, **options):
        df = spark.read.parquet(str(table)).where("low > n AND list[0] >= 0")
        assert read_in_part(spark, df) == (2 * ROWS, 2 * ROWS)
        assert [row.n for row in spark.read.parquet(str(table)).where("low > n").orderBy("n").collect()] == [
            *range(7 * ROWS, 8 * ROWS),
            *range(27 * ROWS, 28 * ROWS),
        ]


def test_nothing_else_is_read(spark, enabled, table, tmp_path):
    """What is left out may hold anything: noise, here."""
    rng = np.random.default_rng(5)
    for number in range(6):
        low, pick = int(rng.integers(0, 19_000)), "abcdefghij"[rng.integers(0, 10)]
        condition = f"(n BETWEEN {low} AND {low + 700} OR word LIKE '{pick}%') AND low <> n + {number}"
        df = spark.read.parquet(str(table)).where(condition)
        expected = sorted(map(str, df.collect()))
        skipped = skipped_blocks(spark, df)
        assert any(0 < len(groups) < GROUPS for groups in skipped.values())
        copy = copy_with_garbage(str(table), tmp_path / str(number), skipped)
        assert sorted(map(str, spark.read.parquet(copy).where(condition).collect())) == expected


def test_a_file_that_was_rewritten_since_is_read_whole(spark, enabled, table, tmp_path):
    path = tmp_path / "t" / "f.parquet"
    n = pa.array(np.arange(10 * ROWS))
    write_file(path, {"n": n, "low": n}, row_group_size=ROWS)
    sidestep.index(spark, str(tmp_path / "t"))
    df = spark.read.parquet(str(tmp_path / "t")).where("low > n OR n < 10")
    assert df.count() == 10
    write_file(path, {"n": n, "low": pa.array(np.arange(10 * ROWS) + 1)}, row_group_size=ROWS)
    set_age(path, 5)
    assert spark.read.parquet(str(tmp_path / "t")).where("low > n OR n < 10").count() == 10 * ROWS
    assert df.count() == 10 * ROWS


def test_queries_that_tell_splits_apart_keep_sparks(spark, enabled, table):
    for column in ("_metadata.file_block_start", "input_file_block_length()"):
        df = spark.read.parquet(str(table)).where("low > n").selectExpr(f"{column} AS at")
        with switched_off(spark):
            alone = spark.read.parquet(str(table)).where("low > n").selectExpr(f"{column} AS at")
            expected = sorted(map(str, alone.collect()))
        assert sorted(map(str, df.collect())) == expected
        assert sidestep.explain(df).scans[0].row_groups == Amounts(2 * GROUPS, 2 * GROUPS)


def test_equal_scans_are_still_one_and_others_are_not(spark, enabled, table):
    spark.read.parquet(str(table)).createOrReplaceTempView("grouped")
    half = "(SELECT word, count(*) AS c FROM grouped WHERE {} GROUP BY word)"
    with settings(spark, spark__sql__adaptive__enabled="false"):
        for other, scans in (("low > n", 1), ("low > n AND n > 7", 1), ("low > n OR n < 10", 2)):
            query = f"SELECT * FROM {half.format('low > n')} a JOIN {half.format(other)} b USING (word)"
            df = spark.sql(query)
            found = sorted(map(str, df.collect()))
            if other == "low > n":
                assert len(sidestep.metrics(df).scans) == scans
            with switched_off(spark):
                assert sorted(map(str, spark.sql(query).collect())) == found


def test_row_groups_chosen_when_the_query_runs(spark, enabled, table, tmp_path):
    """By a value that only the run of a subquery tells, and by a value set, of which Parquet knows nothing."""
    write_file(tmp_path / "few" / "f.parquet", {"w": ["b-1", "c-1", "j-0"], "s": ["x", "x", "y"]})
    spark.read.parquet(str(table)).createOrReplaceTempView("plain")
    spark.read.parquet(str(tmp_path / "few")).createOrReplaceTempView("few")
    query = "SELECT n FROM plain WHERE word = (SELECT max(w) FROM few WHERE s = 'x')"
    with settings(spark, spark__sidestep__selectors__leastBytes="0"):
        df = spark.sql(query)
        found = sorted(map(str, df.collect()))
    with switched_off(spark):
        assert sorted(map(str, spark.sql(query).collect())) == found
    assert [scan.rows for scan in sidestep.metrics(df).scans if scan.selectors] == [4 * ROWS]


def test_executors_are_sent_nothing_of_ours(spark, enabled, table):
    """They know only Spark's classes. Rows that are no batches are made by a task that takes the whole scan along."""
    df = spark.read.parquet(str(table)).where("low > n")
    (scan,) = enabled.inspector.scans(df._jdf.queryExecution().sparkPlan())
    assert scan.getClass().getName() == "sidestep.RowGroupScan"
    jvm = spark.sparkContext._jvm
    for sent in (scan, scan.inputRDD()):
        out = jvm.java.io.ByteArrayOutputStream()
        jvm.java.io.ObjectOutputStream(out).writeObject(sent)
        assert b"sidestep." not in io.BytesIO(bytes(out.toByteArray())).read()
