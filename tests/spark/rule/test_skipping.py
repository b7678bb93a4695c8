"""Skipping happens: the exact files that queries on one table read, by the form of their predicates."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import sidestep
from tests.spark.branches import answers, paths_by_branch, union
from tests.spark.tables import files_read, names, rows_of, switched_off, write_file

ALL = list(range(10))


@pytest.fixture(scope="module")
def t(spark, tmp_path_factory):
    """Ten files f0 to f9 of ten rows: file f holds the ids from 10 f to 10 f + 9, and all else follows the id."""
    root = tmp_path_factory.mktemp("skipping") / "t"
    for file in ALL:
        ids = range(10 * file, 10 * file + 10)
        write_file(
            root / f"f{file}.parquet",
            {
                "id": pa.array(ids, pa.int32()),
                "tiny": pa.array(ids, pa.int8()),
                "big": pa.array(ids, pa.int64()),
                "s": [f"k{number:03d}" for number in ids],
                "long": ["p" * 40 + f"{number:03d}" for number in ids],
                "d": [number / 2 for number in ids],
                "nan": [float("nan") if file == 3 else float(number) for number in ids],
                "x": pa.array([Decimal(number) / 4 for number in ids], pa.decimal128(10, 2)),
                "day": [datetime.date(2020, 1, 1) + datetime.timedelta(number) for number in ids],
                "at": pa.array([number * 3_600_000_000 for number in ids], pa.int64()).view(pa.timestamp("us", "UTC")),
                "local": pa.array([number * 86_400_000_000 for number in ids], pa.int64()).view(pa.timestamp("us")),
                # NULL in all of file 4, in some rows of 5, and in no other.
                "n": pa.array([None if file == 4 or (file == 5 and i % 2) else i for i in ids], pa.int32()),
                "flag": [file >= 7] * 10,
                "bytes": [bytes([number]) for number in ids],
                # Below the id in files 0 to 4, above it in 5 to 9.
                "other": pa.array([i - 100 if file < 5 else i + 100 for i in ids], pa.int32()),
                "other_big": pa.array([i - 100 if file < 5 else i + 100 for i in ids], pa.int64()),
            },
        )
    sidestep.index(spark, str(root))
    return root


FORMS = {
    "id < 25": [0, 1, 2],
    "id <= 29": [0, 1, 2],
    "id <= 30": [0, 1, 2, 3],
    "id > 89": [9],
    "id >= 89": [8, 9],
    "25 > id": [0, 1, 2],
    "id = 42": [4],
    "id BETWEEN 38 AND 41": [3, 4],
    "id > 38 AND id < 42 AND id <> 40": [3, 4],
    "id IN (5, 99)": [0, 9],
    "id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 95)": [0, 1, 9],
    "id NOT IN (5, 99) AND id < 10": [0],
    "id < 0": [],
    "id < 5 OR id > 95": [0, 9],
    "id = 5 OR s = 'k099'": [0, 9],
    "id = 5 OR day = DATE '2020-02-15'": [0, 4],
    "(id < 30 OR d > 40) AND NOT (id < 20 OR d > 47)": [2, 8, 9],
    "NOT (id >= 10)": [0],
    "NOT (id < 90 OR id = 95)": [9],
    "NOT id BETWEEN 10 AND 89": [0, 9],
    "s LIKE 'k01%'": [1],
    "s LIKE 'k01%5'": [1],
    "s LIKE 'k012'": [1],
    "s LIKE 'k0_2'": ALL,
    "s LIKE '%5'": ALL,
    "startswith(s, 'k09')": [9],
    "s >= 'k08' AND s < 'k085'": [8],
    "NOT s LIKE 'k%'": [],
    "n IS NULL": [4, 5],
    "n IS NOT NULL": [0, 1, 2, 3, 5, 6, 7, 8, 9],
    "NOT (n IS NULL)": [0, 1, 2, 3, 5, 6, 7, 8, 9],
    "n <=> NULL": [4, 5],
    "n <=> 52": [5],
    "NOT (n <=> NULL)": [0, 1, 2, 3, 5, 6, 7, 8, 9],
    "n = 41": [],
    "n < 60 AND id >= 40": [5],
    "n IN (41, NULL)": [],
    "flag": [7, 8, 9],
    "NOT flag": [0, 1, 2, 3, 4, 5, 6],
    "flag = false AND id > 62": [6],
    "nan = double('NaN')": [3],
    "nan > 85": [3, 8, 9],
    "nan < 25": [0, 1, 2],
    "isnan(nan)": ALL,
    "x <= 2.5": [0, 1],
    "x = 2.501": [],
    "d = 12.5": [2],
    "d > 47": [9],
    "day >= DATE '2020-04-01'": [9],
    "year(day) = 2020 AND day < '2020-01-05'": [0],
    "at < TIMESTAMP '1970-01-01 09:30:00'": [0],
    "at BETWEEN '1970-01-02 01:00:00' AND '1970-01-02 03:00:00'": [2],
    "local = TIMESTAMP_NTZ '1970-01-31 00:00:00'": [3],
    "bytes = X'07'": [0],
    "bytes > X'5A'": [9],
    "other > id": [5, 6, 7, 8, 9],
    "id > other": [0, 1, 2, 3, 4],
    "other = id": [],
    "other <=> id": [],
    "other_big >= id": [5, 6, 7, 8, 9],
    "n = id": [0, 1, 2, 3, 5, 6, 7, 8, 9],
    "tiny < id": ALL,
    "CAST(id AS BIGINT) = 42": [4],
    "CAST(id AS DOUBLE) < 9.5": [0],
    "CAST(id AS DECIMAL(12, 1)) >= 89.5": [9],
    "CAST(tiny AS INT) IN (1, 2)": [0],
    "CAST(big AS DOUBLE) > 94.5": [9],
    "CAST(big AS FLOAT) > 94.5": [9],
    "CAST(x AS DOUBLE) = 10.25": [4],
    "id > 89.5": [9],
    "big = 42.0": [4],
    "tiny = 1000": [],
    "tiny < 1000L": ALL,
    "id = '42'": [4],
    "CAST(day AS TIMESTAMP_NTZ) = TIMESTAMP_NTZ '2020-01-05 00:00:00'": [0],
    "reverse(s) = '500k'": ALL,
    "reverse(s) = '500k' AND id < 10": [0],
    "reverse(s) = '500k' OR id < 10": ALL,
    "NOT (reverse(s) = '500k' OR id >= 10)": [0],
    "coalesce(id < 10, false)": ALL,
    "true": ALL,
    "long = concat(repeat('p', 40), '042')": ALL,
    "long < 'p'": [],
    "long > 'q'": [],
}


@pytest.fixture(scope="module")
def asked(spark, t) -> dict[str, tuple[bool, list[str]]]:
    """For each form, whether its result is right, and the files that were read for it."""
    frame = spark.read.parquet(str(t)).withColumnRenamed("id", "rid").selectExpr("*", "rid AS id")
    found: dict[str, tuple[bool, list[str]]] = {}
    for start in range(0, len(FORMS), 25):
        conditions = list(FORMS)[start : start + 25]
        frames = [(number, frame) for number in range(len(conditions))]
        with switched_off(spark):
            expected = answers(union(frames, conditions))
        with sidestep.enable(spark) as state:
            query = union(frames, conditions)
            right = answers(query)
            assert state.last_problem == ""
        read = paths_by_branch(query)
        for number, condition in enumerate(conditions):
            same = [kept for kept in (right - expected) + (expected - right) if kept[0] == number] == []
            found[condition] = same, sorted(Path(path).stem for path in read.get(number, ()))
    return found


@pytest.mark.parametrize("condition", FORMS)
def test_the_files_read_for_a_condition(asked, condition):
    same, read = asked[condition]
    assert same
    assert read == names(FORMS[condition])


@pytest.mark.parametrize("condition", ["false", "id > 5 AND id < 5 AND NULL", "CAST(NULL AS BOOLEAN)"])
def test_what_spark_folds_away_reads_nothing(spark, enabled, t, condition):
    assert files_read(spark.sql(f"SELECT * FROM parquet.`{t}` WHERE {condition}")) == []


def test_the_data_frame_api_is_covered_too(spark, enabled, t):
    frame = spark.read.parquet(str(t))
    df = frame.where((frame.id + 0 > 5) & frame.id.between(15, 24)).select("s")
    assert [row.s for row in df.orderBy("s").collect()] == [f"k{number:03d}" for number in range(15, 25)]
    assert files_read(df) == [names([1, 2])]


def test_a_renamed_or_cast_column_is_the_column(spark, enabled, t):
    df = spark.sql(f"SELECT * FROM (SELECT id AS a, s AS b FROM parquet.`{t}`) WHERE a < 5 AND b > 'k'")
    assert files_read(df) == [names([0])]
    df = spark.sql(f"SELECT * FROM (SELECT CAST(id AS BIGINT) AS a FROM parquet.`{t}` LIMIT 1000) WHERE a < 5")
    assert files_read(df) == [names(ALL)], "no filter passes a limit"


def test_a_filter_above_an_aggregate_is_pushed_only_if_on_the_grouping(spark, enabled, t):
    grouped = f"SELECT flag, id, count(*) AS many FROM parquet.`{t}` GROUP BY flag, id"
    assert files_read(spark.sql(f"SELECT * FROM ({grouped}) WHERE id < 5")) == [names([0])]
    assert files_read(spark.sql(f"SELECT * FROM ({grouped}) WHERE many < 5")) == [names(ALL)]


def test_count_reads_as_little_as_it_can(spark, enabled, t):
    df = spark.sql(f"SELECT count(*) FROM parquet.`{t}` WHERE id BETWEEN 42 AND 43")
    assert df.collect()[0][0] == 2
    assert files_read(df) == [names([4])]


def test_each_branch_of_a_union_is_pruned_on_its_own(spark, enabled, t):
    df = spark.sql(f"SELECT id FROM parquet.`{t}` WHERE id < 5 UNION ALL SELECT id FROM parquet.`{t}` WHERE id > 85")
    assert df.count() == 5 + 14
    assert files_read(df) == [names([0]), names([8, 9])]


def test_a_filter_over_a_union_reaches_both_branches(spark, enabled, t):
    both = f"SELECT id FROM parquet.`{t}` UNION ALL SELECT id + 0 FROM parquet.`{t}` WHERE id > 85"
    df = spark.sql(f"SELECT * FROM ({both}) WHERE id < 88")
    assert df.count() == 88 + 2
    assert files_read(df) == [names([0, 1, 2, 3, 4, 5, 6, 7, 8]), names([8])]


def test_file_metadata_columns_stay_right(spark, enabled, t):
    df = spark.sql(f"SELECT _metadata.file_name AS name, id FROM parquet.`{t}` WHERE id IN (7, 93)")
    assert sorted(tuple(row) for row in df.collect()) == [("f0.parquet", 7), ("f9.parquet", 93)]
    assert files_read(df) == [names([0, 9])]


def test_part_of_a_table_is_covered_by_the_index_of_the_whole(spark, enabled, t):
    df = spark.read.parquet(str(t / "f1.parquet"), str(t / "f2.parquet")).where("id < 15")
    assert df.count() == 5
    assert files_read(df) == [names([1])]


# ---- where skipping would change the result, or is not possible


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM {t} TABLESAMPLE (50 PERCENT) REPEATABLE (1) WHERE id < 5",
        "SELECT id, monotonically_increasing_id() AS m FROM {t} WHERE id < 5",
        "SELECT id FROM {t} WHERE id < 5 AND rand(3) < 0.5",
        "SELECT id, rand(3) AS r FROM {t} WHERE id < 5",
        "SELECT id, spark_partition_id() AS p FROM {t} WHERE id < 5",
        "SELECT id, input_file_name() AS f FROM {t} WHERE id < 5",
    ],
)
def test_what_depends_on_the_files_read_is_left_alone_or_the_same(spark, enabled, t, query):
    text = query.format(t=f"parquet.`{t}`")
    with switched_off(spark):
        off = spark.sql(text)
        expected = rows_of(off)
    df = spark.sql(text)
    assert rows_of(df) == expected
    assert files_read(df) == files_read(off) == [names(ALL)]


def test_a_sample_in_a_data_frame_is_left_alone(spark, enabled, t):
    frame = spark.read.parquet(str(t))
    with switched_off(spark):
        expected = rows_of(frame.sample(fraction=0.3, seed=7).where("id < 50"))
    df = frame.sample(fraction=0.3, seed=7).where("id < 50")
    assert rows_of(df) == expected
    assert files_read(df) == [names(ALL)]


def test_a_cached_data_frame_is_left_alone_and_named(spark, enabled, t):
    frame = spark.read.parquet(str(t)).where("id < 50").cache()
    try:
        assert frame.count() == 50
        df = frame.where("id < 5")
        assert df.count() == 5
        assert any("cached in memory" in (scan.reason or "") for scan in sidestep.explain(df).scans)
    finally:
        frame.unpersist(blocking=True)


def test_a_stream_is_left_alone(spark, enabled, t, tmp_path):
    schema = spark.read.parquet(str(t)).schema
    stream = spark.readStream.schema(schema).parquet(str(t)).where("id < 5")
    query = stream.writeStream.format("memory").queryName("streamed").option("checkpointLocation", str(tmp_path))
    before = enabled.rule.timesWorked()
    running = query.trigger(availableNow=True).start()
    assert running.awaitTermination(60)
    assert running.exception() is None
    assert enabled.rule.timesWorked() == before
    assert spark.table("streamed").count() == 5
    spark.catalog.dropTempView("streamed")


def test_data_source_v2_is_not_covered_and_explain_says_so(spark, enabled, t):
    before = spark.conf.get("spark.sql.sources.useV1SourceList")
    spark.conf.set("spark.sql.sources.useV1SourceList", "csv")
    try:
        df = spark.read.parquet(str(t)).where("id < 5")
        assert df.count() == 5
        (scan,) = sidestep.explain(df).scans
        assert "V2" in (scan.reason or "")
    finally:
        spark.conf.set("spark.sql.sources.useV1SourceList", before)


def test_other_formats_are_left_alone_and_named(spark, enabled, tmp_path):
    spark.range(10).write.orc(str(tmp_path / "o"))
    df = spark.read.orc(str(tmp_path / "o")).where("id < 5")
    assert df.count() == 5
    (scan,) = sidestep.explain(df).scans
    assert "not Parquet" in (scan.reason or "")
