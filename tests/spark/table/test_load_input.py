"""What a load is given: features that no longer hold, logs of other tables, names and types that cannot stay."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import sidestep
from sidestep.errors import SidestepError, TableNotFound, UnsupportedTable
from sidestep.predicate import (
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    Opaque,
    column,
    compare,
    decimal_type,
    one_of,
)
from sidestep.spark.organize.featurize import (
    MOST_TOGETHER,
    CheckedFeatures,
    check_features,
    feature_sql,
    with_words,
)
from sidestep.spark.table.load import load
from sidestep.workload import Feature, FeatureSet
from tests.spark.tables import rows_of, settings

A = column("a", INTEGER)


def folder_of(path: Path, table: pa.Table) -> str:
    path.mkdir()
    pq.write_table(table, path / "part-0.parquet")
    return str(path)


@pytest.fixture
def source(tmp_path: Path) -> str:
    return folder_of(tmp_path / "numbers", pa.table({"a": pa.array(range(100), pa.int32()), "s": ["x", "y"] * 50}))


def features(*predicates: object) -> FeatureSet:
    return FeatureSet("numbers", tuple(Feature((predicate,)) for predicate in predicates))  # type: ignore[arg-type]


# ---- features


def test_a_feature_of_a_dropped_column_is_left_out_with_a_warning(spark, source, tmp_path):
    wished = features(compare(A, "<", 10), compare(column("gone", INTEGER), "<", 10))
    with pytest.warns(sidestep.SidestepWarning, match="gone < 10 is left out: it names gone, which is no column"):
        report = load(spark, source, str(tmp_path / "out"), features=wished, min_size=10)
    assert report.features == ("a < 10",)
    assert [str(one.feature) for one in report.left_out] == ["gone < 10"]
    assert report.spec.features == features(compare(A, "<", 10)).id, "the stored set is the one that was used"


def test_with_no_feature_left_the_table_is_still_laid_out(spark, source, tmp_path):
    with pytest.warns(sidestep.SidestepWarning, match="is left out"):
        report = load(
            spark,
            source,
            str(tmp_path / "out"),
            features=_gone(),
            order=["a"],
            min_size=10,
        )
    assert (report.features, report.blocks, report.spec.features) == ((), 10, None)


def _gone() -> FeatureSet:
    return features(compare(column("gone", INTEGER), "<", 10))


@pytest.mark.parametrize(
    "predicate",
    [
        Opaque("no_such_function(a)", (A,), "someone's code"),
        Opaque("(a % 3) = 0", (A,), "another time zone"),
        Opaque("(a % 3) = 0", (A,), None),
        Opaque("rand() < 0.5", (), "x", deterministic=False),
        compare(column("a", STRING), "=", "1"),
    ],
)
def test_what_means_something_else_here_is_left_out(spark, source, predicate):
    schema = spark.read.parquet(source).schema
    found = check_features(spark, features(predicate), schema, warn=False)
    assert (len(found.features), len(found.left_out)) == (0, 1)


def test_a_feature_that_reads_back_as_itself_is_used(spark, source, tmp_path):
    """Found by the session itself, an opaque feature has this session's identity; in another time zone it has not."""
    log = tmp_path / "log.sql"
    # Of a doubled quote Spark 4.0 makes two texts in a row.
    quoted = """SELECT 1 FROM numbers WHERE s LIKE "%'%";\n"""
    log.write_text("SELECT 1 FROM numbers WHERE a % 3 = 0;\n" * 3 + quoted * 3)
    found = sidestep.analyze(spark, str(log), tables={"numbers": source}).features()
    schema = spark.read.parquet(source).schema
    assert len(check_features(spark, found, schema).features) == 2
    with settings(spark, spark__sql__session__timeZone="Asia/Tokyo"):
        assert len(check_features(spark, found, schema, warn=False).features) == 1


def test_constants_keep_their_type_and_every_value_of_a_list(spark):
    schema = spark.createDataFrame(
        [], "i int, f float, d double, s string, n decimal(9,2), t timestamp, z timestamp_ntz, y date, k binary"
    ).schema
    table = {
        "f": compare(column("f", FLOAT), "<", 0.1),
        "d": compare(column("d", DOUBLE), ">=", float("nan")),
        "s": one_of(column("s", STRING), ["it's", 'back\\slash "quoted"', "%_", "\n", "日本", *map(str, range(30))]),
        "n": compare(column("n", decimal_type(9, 2)), "=", Decimal("1.50")),
        "t": compare(column("t", TIMESTAMP), "<", 1_600_000_000_123_456),
        "i": one_of(column("i", INTEGER), list(range(-20, 20, 3))),
    }
    wished = features(*table.values())
    found = check_features(spark, wished, schema)
    assert found.features == wished
    assert "…" not in feature_sql(table["s"])


def test_a_feature_that_raises_is_false_there(spark):
    rows = spark.createDataFrame([(1, "5"), (0, "x"), (None, None)], "a int, s string")
    predicates = [Opaque("10 / a > 5", (A,), "?"), Opaque("CAST(s AS int) = 5", (column("s", STRING),), "?")]
    checked = CheckedFeatures(features(*predicates), tuple(map(feature_sql, predicates)))
    order = [str(feature) for feature in checked.features.features]
    assert len(order) == 2
    words = {row["a"]: row["_sidestep_v0"] for row in with_words(rows, checked).collect()}
    assert words == {1: 0b11, 0: 0, None: 0}


def test_more_features_than_a_word_holds(spark, source):
    wished = features(*(compare(A, "=", number) for number in range(70)))
    schema = spark.read.parquet(source).schema
    rows = with_words(spark.read.parquet(source), check_features(spark, wished, schema)).collect()
    for row in rows:
        word, bit = divmod(row["a"], 64)
        mine = [row["_sidestep_v0"], row["_sidestep_v1"]]
        expected = [0, 0]
        if row["a"] < 70:
            expected[word] = (1 << bit) if bit < 63 else -(1 << 63)
        assert mine == expected


@pytest.mark.parametrize("count", [10, 70, 1_100])
def test_many_features_are_not_compiled_into_one_method(spark, source, count):
    """Java would interpret it, and of still more Spark would say at length that it cannot be compiled."""
    rows = spark.read.parquet(source)
    predicates = [compare(A, "=", number) for number in range(count)]
    checked = CheckedFeatures(features(*predicates), tuple(map(feature_sql, predicates)))
    found = with_words(rows, checked).select(*checked.words)
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert ("*(1) Project" in plan) == (count <= MOST_TOGETHER)
    bits = sum(bin(word & (2**64 - 1)).count("1") for row in found.collect() for word in row)
    assert bits == min(count, rows.count())


def test_a_function_of_pythons_among_many_features(spark, source):
    spark.udf.register("is_seven", lambda a: a == 7, "boolean")
    predicates = [Opaque("is_seven(a)", (A,), "?"), *(compare(A, "=", number) for number in range(60))]
    checked = CheckedFeatures(features(*predicates), tuple(map(feature_sql, predicates)))
    position = [str(feature) for feature in checked.features.features].index("is_seven(a)")
    found = {row["a"]: row["_sidestep_v0"] for row in with_words(spark.read.parquet(source), checked).collect()}
    assert [a for a, word in found.items() if word >> position & 1] == [7]


# ---- logs, places and wishes


def test_a_log_gives_features_and_order(spark, tmp_path):
    days = pa.array([datetime.date(2020, 1, 1) + datetime.timedelta(n % 30) for n in range(300)])
    table = pa.table({"a": pa.array([n % 7 for n in range(300)], pa.int32()), "day": days})
    path = folder_of(tmp_path / "visits", table)
    log = tmp_path / "log.sql"
    log.write_text("SELECT * FROM visits WHERE a = 3 AND day > DATE '2020-01-05';\n" * 5)
    report = load(spark, path, str(tmp_path / "out"), log=str(log), min_size=20, num_features=3, family="features")
    assert report.features == ("a = 3",)
    assert report.spec.order == ("day",)
    assert report.spec.demands_of == report.spec.features


def test_a_log_that_joins_other_tables_is_understood_by_their_paths(spark, source, tmp_path):
    """Normalized tables by path: what joins them is understood once they are named; of the rest, reasons are told."""
    kinds = folder_of(tmp_path / "kinds", pa.table({"s": ["x", "y"], "name": ["even", "odd"]}))
    joined = "SELECT count(*) FROM numbers n JOIN kinds k ON n.s = k.s WHERE n.a < 20 AND k.name = 'odd'"
    log = [joined] * 6 + ["SELECT 1 FROM numbers WHERE a < 30"] * 2 + ["SELECT 1 FROM numbers, nope", "SELEC 1"]
    named = load(spark, source, str(tmp_path / "named"), log=log, tables={"kinds": kinds}, min_size=10)
    assert named.notes[0].startswith("2 statements of the log could not be used: 1, ")
    assert "unknown table `nope` (tables={'nope': PATH}, or -t nope=PATH)" in named.notes[0]
    assert "not parsable" in named.notes[0]
    unnamed = load(spark, source, str(tmp_path / "unnamed"), log=log, min_size=10)
    assert "8 statements of the log could not be used: 6, unknown table `kinds`" in unnamed.notes[0]
    advice = sidestep.advise(spark, log, source, tables={"kinds": kinds}, min_size=10)
    assert (advice.queries, advice.notes) == (8, named.notes[:1])
    assert "2 statements of the log could not be used" in str(advice).replace("\n", " ")
    with pytest.raises(SidestepError, match=r"says nothing of numbers.*1 statement of the log could not be used"):
        sidestep.advise(spark, [joined], source)


def test_a_log_of_another_table_is_refused(spark, source, tmp_path):
    log = tmp_path / "log.sql"
    log.write_text("SELECT id FROM range(5);\nSELECT * FROM nowhere WHERE a = 1;\n")
    with pytest.raises(SidestepError, match="says nothing of numbers: it reads no table"):
        load(spark, source, str(tmp_path / "out"), log=str(log))


def test_a_folder_needs_a_target(spark, source):
    with pytest.raises(SidestepError, match=r"not a Delta table.*target="):
        load(spark, source)


def test_a_target_must_be_free(spark, source, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")
    with pytest.raises(SidestepError, match="There is something at"):
        load(spark, source, str(tmp_path / "out"))


def test_no_table_there(spark, tmp_path):
    with pytest.raises(TableNotFound):
        load(spark, str(tmp_path / "nothing"), str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"by": "no_such_column"}, "is not an expression over this table's columns"),
        ({"by": "a +"}, "is not an expression over this table's columns"),
        ({"by": "rand()"}, "may differ each time"),
        ({"by": "array(a)"}, "is a array|is an array"),
        ({"order": ["b"]}, "no column b to order by"),
        ({"min_size": 0}, "min_size is 0"),
        ({"file_bytes": -5}, "file_bytes is -5"),
        ({"features": "/nowhere/features.json"}, "could not be read"),
    ],
)
def test_wishes_that_cannot_be_met(spark, source, tmp_path, wish, message):
    with pytest.raises(SidestepError, match=message):
        load(spark, source, str(tmp_path / "out"), **wish)
    assert not (tmp_path / "out").exists()


def test_features_or_a_log_but_not_both(spark, source):
    with pytest.raises(SidestepError, match="not both"):
        load(spark, source, "x", features=_gone(), log="log.sql")


# ---- columns


@pytest.mark.parametrize("name", ["_sidestep_v0", "_Sidestep_"])
def test_names_that_sidestep_needs_are_refused(spark, tmp_path, name):
    path = folder_of(tmp_path / "t", pa.table({name: pa.array([1], pa.int32())}))
    with pytest.raises(UnsupportedTable, match=f"has a column {name}, a name that sidestep needs"):
        load(spark, path, str(tmp_path / "out"))


def test_other_odd_names_survive(spark, tmp_path):
    table = pa.table({"_v0": [1, 2], "a.b": [3, 4], "a b": [5, 6], "`q`": [7, 8], "ß日": [9, 10], "rows": [11, 12]})
    path = folder_of(tmp_path / "t", table)
    wished = FeatureSet("t", (Feature((compare(column("a.b", LONG), "=", 3),)),))
    report = load(spark, path, str(tmp_path / "out"), features=wished, by="`a b`", min_size=1, order=["`q`"])
    assert (report.units, len(report.features)) == (2, 1)
    assert rows_of(sidestep.read(spark, str(tmp_path / "out"))) == rows_of(spark.read.parquet(path))


def test_intervals_are_refused(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.sql("SELECT INTERVAL '3' MONTH AS i, 1 AS a").write.parquet(path)
    with pytest.raises(UnsupportedTable, match=r"Column i of .* is of type interval"):
        load(spark, path, str(tmp_path / "out"))


def test_every_type_that_delta_has_survives(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.sql(
        """SELECT id, CAST(id AS tinyint) AS b, CAST(id AS smallint) AS h, CAST(id AS float) / 3 AS f,
        IF(id = 2, double('NaN'), -0.0D) AS d, CAST(id AS decimal(9,2)) AS n, CAST(id AS decimal(38,10)) AS w,
        IF(id = 1, NULL, concat('s', id)) AS s, CAST(concat('k', id) AS binary) AS k, 
        DATE '1500-01-01' + CAST(id AS int) AS y,
        TIMESTAMP '1800-01-01 00:00:00.123456' + make_interval(0, 0, 0, id) AS t,
        TIMESTAMP_NTZ '0900-01-01 00:00:00.123456' AS z, id = 3 AS o,
        array(id, NULL) AS l, map(concat('m', id), struct(id AS u, array(1.5BD) AS v)) AS m,
        named_struct('p', named_struct('q', CAST(NULL AS string))) AS r FROM range(20)"""
    ).write.parquet(path)
    report = load(spark, path, str(tmp_path / "out"), by="id % 3", min_size=2, order=["t", "r"])
    found, expected = sidestep.read(spark, str(tmp_path / "out")), spark.read.parquet(path)
    assert report.units == 3
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert rows_of(found) == rows_of(expected)
    again = load(spark, str(tmp_path / "out"))
    assert again.version == 1
    assert rows_of(sidestep.read(spark, str(tmp_path / "out"))) == rows_of(expected)


def test_null_is_a_unit_too_and_nullability_stays(spark, tmp_path):
    path = str(tmp_path / "t")
    fields = [pa.field("a", pa.int32(), nullable=False), pa.field("u", pa.float64())]
    nan = float("nan")
    values = [pa.array(range(6), pa.int32()), pa.array([None, 0.0, -0.0, nan, nan, None])]
    write_deltalake(path, pa.Table.from_arrays(values, schema=pa.schema(fields)))
    with pytest.warns(sidestep.SidestepWarning, match="fewer than one block"):
        report = load(spark, path, by="u")
    assert (report.rows, report.units) == (6, 3)
    found = sidestep.read(spark, path)
    assert [field.nullable for field in found.schema] == [False, True]
    assert sorted(row["a"] for row in found.collect()) == list(range(6))
