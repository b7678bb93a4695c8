"""Types and encodings where what a file stores is not what Spark reads: calendars, padding, collations, timestamps."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import sidestep
from tests.spark.branches import answers, paths_by_branch, union
from tests.spark.tables import rows_of, set_age, settings, switched_off, write_file


def check(spark, frame, conditions) -> None:
    """Each query gives the same with skipping on as off."""
    for condition in conditions:
        with switched_off(spark):
            expected = rows_of(frame().where(condition).selectExpr("rid"))
        df = frame().where(condition).selectExpr("rid")
        assert rows_of(df) == expected, condition


def check_many(spark, root, conditions) -> int:
    """As ``check``, all conditions in one query; returns how many of them skipped a file."""
    frame = spark.read.parquet(str(root))
    frames = [(number, frame) for number in range(len(conditions))]
    with switched_off(spark):
        expected = answers(union(frames, conditions))
    query = union(frames, conditions)
    found = answers(query)
    assert found == expected, [conditions[n] for n, _ in (found - expected) + (expected - found)]
    files = len(list(root.rglob("*.parquet")))
    return sum(len(paths) < files for paths in paths_by_branch(query).values())


def age(root) -> None:
    for path in root.rglob("*.parquet"):
        set_age(path, 10)


@pytest.mark.parametrize(
    ("mode", "stored", "footers"),
    [
        ("LEGACY", "INT96", True),
        ("LEGACY", "INT96", False),
        ("LEGACY", "TIMESTAMP_MICROS", True),
        ("LEGACY", "TIMESTAMP_MICROS", False),
        ("CORRECTED", "INT96", False),
        ("CORRECTED", "TIMESTAMP_MILLIS", True),
    ],
)
def test_days_and_instants_before_1582_in_either_calendar(spark, enabled, tmp_path, mode, stored, footers):
    root = tmp_path / "t"
    zone = "America/Los_Angeles"
    with settings(
        spark,
        spark__sql__parquet__datetimeRebaseModeInWrite=mode,
        spark__sql__parquet__int96RebaseModeInWrite=mode,
        spark__sql__parquet__outputTimestampType=stored,
        spark__sql__session__timeZone=zone,
    ):
        rows = spark.range(0, 8, 1, 4).selectExpr(
            "id AS rid",
            "date_add(DATE '0900-03-01', cast(id * 91310 as int)) AS day",
            "timestamp_seconds(-33740000000 + id * 7889184000) AS at",
        )
        rows.write.parquet(str(root))
        age(root)
        days = [row.day for row in rows.orderBy("rid").selectExpr("CAST(day AS STRING) AS day").collect()]
        instants = [row.at for row in rows.orderBy("rid").selectExpr("CAST(at AS STRING) AS at").collect()]
        sidestep.index(spark, str(root), footers=footers)
        conditions = [f"day {op} DATE '{day}'" for day in days for op in ("=", "<=", ">")]
        conditions += [f"at {op} TIMESTAMP '{at}'" for at in instants for op in ("=", "<=")]
        skipped = check_many(spark, root, conditions)
        assert skipped > 0 or mode == "LEGACY"


def test_intervals_and_times(spark, enabled, tmp_path):
    root = tmp_path / "t"
    spark.range(0, 40, 1, 4).selectExpr(
        "id AS rid",
        "make_ym_interval(cast(id as int), cast(id % 12 as int)) AS ym",
        "make_dt_interval(cast(id as int), 3, 4, 5.5) AS dt",
    ).write.parquet(str(root))
    age(root)
    sidestep.index(spark, str(root))
    conditions = ["ym < INTERVAL '5-0' YEAR TO MONTH", "dt > INTERVAL '38 00:00:00' DAY TO SECOND", "dt IS NULL"]
    conditions += ["ym = INTERVAL '12' YEAR", "dt <= INTERVAL '2' DAY", "ym > INTERVAL '400' MONTH"]
    assert check_many(spark, root, conditions) == len(conditions)


def test_unsigned_and_narrow_integers_of_other_writers(spark, enabled, tmp_path):
    root = tmp_path / "t"
    for file, start in enumerate((0, 100, 200)):
        values = range(start, start + 10)
        write_file(
            root / f"f{file}.parquet",
            {
                "rid": range(start, start + 10),
                "u8": pa.array(values, pa.uint8()),
                "u16": pa.array([v * 300 for v in values], pa.uint16()),
                "u32": pa.array([v * 20_000_000 for v in values], pa.uint32()),
                "u64": pa.array([v * 2**56 for v in values], pa.uint64()),
                "ms": pa.array([v * 86_400_000 for v in values], pa.timestamp("ms", "UTC")),
                "day64": pa.array([v * 86_400_000 for v in values], pa.timestamp("ms")),
            },
        )
    sidestep.index(spark, str(root))
    conditions = ["u8 > 150", "u16 > 50000", "u32 > 3000000000", "u64 > 13000000000000000000", "u8 < 0", "u64 = 0"]
    conditions += ["u32 < 0", "u16 BETWEEN 30000 AND 30300", "ms > TIMESTAMP '1970-07-01'", "day64 IS NULL"]
    check_many(spark, root, conditions)


@pytest.mark.parametrize("footers", [True, False])
def test_old_timestamps_of_other_writers(spark, enabled, tmp_path, footers):
    root = tmp_path / "t"
    for file, year in enumerate((1, 1500, 1969, 2020)):
        moments = [datetime.datetime(year, 12, 31, 23, 59, 59, 999_999), datetime.datetime(year, 1, 1)]
        data = {"rid": [2 * file, 2 * file + 1], "at": pa.array(moments, pa.timestamp("us", "UTC"))}
        if year < 1678:
            write_file(root / f"f{file}.parquet", data)
        else:
            write_file(root / f"f{file}.parquet", data, use_deprecated_int96_timestamps=True)
    sidestep.index(spark, str(root), footers=footers)
    conditions = [
        f"at {op} TIMESTAMP '{at}'"
        for at in ("1969-12-31 23:59:59.999999", "2020-01-01", "1500-01-01", "0001-12-31 23:59:59.999999")
        for op in ("=", "<", ">=")
    ]
    check_many(spark, root, conditions)


def test_a_filter_on_a_field_of_a_struct_is_not_about_a_column_of_that_name(spark, enabled, tmp_path):
    root = tmp_path / "t"
    for file in range(3):
        ids = range(10 * file, 10 * file + 10)
        structs = [{"id": 100 - i} for i in ids]
        write_file(root / f"f{file}.parquet", {"rid": ids, "id": list(ids), "s": structs, "s.id": list(ids)})
    sidestep.index(spark, str(root))
    conditions = [
        "s.id > 95",
        "s.id < 75",
        "`s.id` < 5",
        "s.id = id",
        "s IS NULL",
        "s.id IS NULL",
        "id < 5 AND s.id < 5",
    ]
    check_many(spark, root, conditions)


def test_collations_and_padding_are_not_the_order_of_bytes(spark, enabled, tmp_path):
    root = tmp_path / "t"
    for file, words in enumerate((["a", "B"], ["C", "d"], ["É", "zz "], ["A", "b  "])):
        write_file(root / f"f{file}.parquet", {"rid": [2 * file, 2 * file + 1], "s": words, "c": words})
    sidestep.index(spark, str(root))
    plain = "rid BIGINT, s STRING, c STRING"
    for schema in (plain, "rid BIGINT, s STRING COLLATE UTF8_LCASE, c STRING COLLATE UNICODE_CI"):

        def frame(schema=schema):
            return spark.read.schema(schema).parquet(str(root))

        conditions = [
            "s = 'b'",
            "c = 'A'",
            "s > 'c'",
            "c < 'B'",
            "s LIKE 'a%'",
            "startswith(c, 'Z')",
            "s IN ('A', 'D')",
        ]
        conditions += ["s COLLATE UTF8_LCASE = 'A'", "lower(s) = 'a'", "c = s"]
        conditions += ["s COLLATE UTF8_BINARY_RTRIM = 'zz'"] if spark.version >= "4.1" else []
        conditions += ["s COLLATE UNICODE_CI_AI = 'e'", "s COLLATE UNICODE < 'b'"]
        check(spark, frame, [c for c in conditions if schema == plain or c != "c = s"])


def test_char_and_varchar_compare_as_spark_pads_them(spark, enabled):
    spark.sql("DROP TABLE IF EXISTS padded")
    try:
        spark.sql("CREATE TABLE padded (rid INT, c CHAR(5), v VARCHAR(5)) USING parquet")
        for rid, word in enumerate(("a", "b ", "abcde", "")):
            spark.sql(f"INSERT INTO padded VALUES ({rid}, '{word}', '{word}')")
        sidestep.index(spark, "padded")
        conditions = [
            "c = 'a'",
            "c = 'a    '",
            "v = 'a'",
            "v = 'b '",
            "v = 'b'",
            "c = 'b'",
            "c < 'a'",
            "c IN ('', 'b')",
        ]
        conditions += ["c LIKE 'a%'", "v > 'a'", "c = v", "length(c) = 5", "c = ''", "v = ''"]
        check(spark, lambda: spark.table("padded"), conditions)
    finally:
        spark.sql("DROP TABLE IF EXISTS padded")
