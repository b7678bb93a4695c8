"""Texts as expressions: what a stranger's may say, and that the user's own have one answer."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import functions as f

import sidestep
from sidestep.errors import SidestepError, SidestepWarning
from sidestep.predicate import LONG, STRING, Opaque, column, compare
from sidestep.predicate.nodes import Match, MatchKind
from sidestep.spark.change.rewrite import delete, update
from sidestep.spark.expressions import check_stored, objection, settle
from sidestep.spark.organize.featurize import check_features
from sidestep.spark.table.append import append
from sidestep.spark.table.load import load
from sidestep.spark.table.optimize import optimize
from sidestep.store import locate, open_index
from sidestep.store.sidecars.layout import LAYOUTS
from sidestep.workload.features.feature_set import Feature, FeatureSet
from tests.spark.tables import changed_settings

pytestmark = pytest.mark.spark
SCHEMA = (
    "k string, n bigint, x double, d date, t timestamp, a array<int>, m map<string,int>, s struct<u:int,w:string>, "
    "`a b` int, j string"
)

ALLOWED = """
k
n % 10
-n + 3 * x / 2
`a b` & 3 | 1 ^ 2
s.u
s.u + a[0]
m['x']
date_trunc('MONTH', t)
trunc(d, 'MONTH')
year(d) * 100 + month(d)
extract(YEAR FROM d)
d + INTERVAL 1 DAY
DATE '2020-01-01'
t > TIMESTAMP '2020-01-01 00:00:00'
CASE WHEN n > 3 THEN 'many' WHEN n IS NULL THEN NULL ELSE 'few' END
CASE n WHEN 1 THEN 2 END
coalesce(k, 'none') || '!'
upper(trim(BOTH ' ' FROM k))
substring(k FROM 2 FOR 3)
overlay(k PLACING 'x' FROM 1)
position('a' IN k)
k LIKE 'a%' AND k NOT LIKE '%b' OR NOT (k RLIKE 'c')
k LIKE ANY ('a', 'b')
n BETWEEN 1 AND 2
n NOT IN (1, 2, 3)
n IS NOT DISTINCT FROM 3
x IS NULL
CAST(n AS string)
n::int
try_cast(k AS int)
transform(a, e -> e + n)
exists(a, e -> e = 1)
aggregate(a, 0, (acc, e) -> acc + e)
struct(n, k).n
struct(n + 1, k).k
named_struct('q', n).q
get_json_object(j, '$.a')
xxhash64(n, k) % 16
if(n > 0, 1, 2)
system.builtin.upper(k)
timestampadd(DAY, 1, t)
timestampdiff(DAY, t, t)
unix_timestamp(t)
floor(x / 10)
k COLLATE UTF8_LCASE = 'a'
concat_ws('-', k, n)
"""

HOSTILE = {
    "concat(k, (SELECT max(v) FROM secret))": "a subquery",
    "(SELECT max(v) FROM secret)": "a subquery",
    "k IN (SELECT v FROM secret)": "a subquery",
    "NOT EXISTS (SELECT 1 FROM secret)": "a subquery",
    "CASE WHEN n = 1 THEN (SELECT 1) END": "a subquery",
    "transform(a, e -> (SELECT max(n) FROM numbers))": "a subquery",
    "concat(k, v)": "names v",
    "session_secret": "names session_secret",
    "concat(k, session_secret)": "names session_secret",
    "transform(a, e -> session_secret)": "names session_secret",
    "concat(transform(a, session_secret -> 'x')[0], transform(a, e -> session_secret)[0])": "names session_secret",
    "system.session.session_secret": "names system.session.session_secret",
    "_metadata.file_path": "names _metadata",
    "secret.v": "names secret.v",
    "spy(k)": "calls spy",
    "system.session.spy(k)": "calls system.session.spy",
    "concat(k, scala_like(k))": "calls scala_like",
    "leak(k)": "calls leak",
    "unknown_function(k)": "calls unknown_function",
    "default.f(k)": "calls default.f",
    "lcase(k)": "function of its own",
    "java_method('java.lang.System', 'getenv', 'HOME')": "calls java_method",
    "reflect('java.lang.Runtime', 'getRuntime')": "calls reflect",
    "try_reflect('java.lang.System', 'exit', 1)": "calls try_reflect",
    "input_file_name()": "calls input_file_name",
    "spark_partition_id()": "calls spark_partition_id",
    "monotonically_increasing_id()": "calls monotonically_increasing_id",
    "version()": "calls version",
    "user()": "calls user",
    "current_user()": "calls current_user",
    "current_user": "names current_user",
    "session_user": "names session_user",
    "current_catalog()": "calls current_catalog",
    "current_database()": "calls current_database",
    "current_timezone()": "calls current_timezone",
    "raise_error(k)": "calls raise_error",
    "assert_true(n > 3)": "calls assert_true",
    "aes_encrypt(k, '0000111122223333')": "calls aes_encrypt",
    "rand()": "may differ each time",
    "randn(3)": "may differ each time",
    "uuid()": "may differ each time",
    "shuffle(a)[0]": "may differ each time",
    "current_date()": "depends on the time",
    "current_date": "depends on the time",
    "d < current_timestamp": "depends on the time",
    "now()": "depends on the time",
    "curdate()": "depends on the time",
    "localtimestamp()": "depends on the time",
    "unix_timestamp()": "depends on the time",
    "DATE 'today'": "depends on the time",
    "timestamp 'now'": "depends on the time",
    "TIMESTAMP '\\u006eow'": "depends on the time",
    "d < CAST('today' AS date)": "depends on the time",
    "t < 'now'": "depends on the time",
    "to_date('tomorrow')": "depends on the time",
    "count(*)": "calls count",
    "max(n)": "calls max",
    "sum(n) OVER ()": "a window",
    "row_number() OVER (ORDER BY n)": "a window",
    "explode(a)": "calls explode",
    "IDENTIFIER('secret' || '.v')": "an IDENTIFIER clause",
    "IDENTIFIER('spy')(k)": "an IDENTIFIER clause",
    ":p": "a parameter",
    "?": "a parameter",
    "*": "a star",
    "struct(*)": "a star",
    "k AS leaked": "an alias",
    "from_avro(CAST(k AS binary), '{}')": "calls from_avro",
    "from_protobuf(CAST(k AS binary), 'M', '/etc/passwd')": "calls from_protobuf",
    "xpath_string(k, 'a')": "calls xpath_string",
    "from_xml(k, 'a int')": "calls from_xml",
    "k; DROP TABLE secret": "cannot be parsed",
    "k FROM secret": "cannot be parsed",
    "EXECUTE IMMEDIATE 'SELECT 1'": "cannot be parsed",
    "": "cannot be parsed",
    "window(t, '1 day')": "more than one row",
    "session_window(t, '1 day')": "more than one row",
}
"""Texts that a layout must not have, and what of each is named."""


@pytest.fixture(scope="module")
def rows(spark):
    """Rows to read, in a session with things that are the user's own."""
    session = spark.newSession()
    session.createDataFrame([("hunter2",)], "v string").createOrReplaceTempView("secret")
    session.createDataFrame([(1,)], "n int").createOrReplaceTempView("numbers")
    session.sql("DECLARE OR REPLACE VARIABLE session_secret STRING DEFAULT 'hunter2'")
    session.udf.register("spy", lambda k: f"{k} was seen")
    session.udf.register("lcase", lambda k: f"{k} was seen")
    session.sql("CREATE TEMPORARY FUNCTION leak(k STRING) RETURNS STRING RETURN (SELECT max(v) FROM secret)")
    return session.createDataFrame([], SCHEMA)


@pytest.mark.parametrize("text", ALLOWED.strip().splitlines())
def test_expressions_over_the_tables_own_columns_are_allowed(rows, text):
    if text.startswith("system.") and rows.sparkSession.version < "4.2":
        pytest.skip("this version of Spark has no such name for its functions")
    check_stored(rows, text, "by=")


@pytest.mark.parametrize("text", HOSTILE)
def test_anything_else_is_refused_by_name(rows, text):
    with pytest.raises(SidestepError, match=r"^The layout L .*refused") as problem:
        check_stored(rows, text, "The layout L has units by ")
    assert HOSTILE[text] in str(problem.value)


@pytest.mark.parametrize("order", ["first", "second", "last"])
def test_a_function_of_the_session_cannot_stand_in_for_a_built_in_one(rows, order):
    setting = {"spark.sql.functionResolution.sessionOrder": order}
    with changed_settings(rows.sparkSession, setting), pytest.raises(SidestepError, match="of its own"):
        check_stored(rows, "lcase(k)", "by=")


def test_a_column_may_be_called_like_a_function_of_time(spark):
    named = spark.createDataFrame([], "current_date int, `now` int")
    assert check_stored(named, "current_date + now", "by=").typeName() == "integer"


def test_python_functions_are_for_features_alone(rows):
    session = rows.sparkSession
    assert objection(session, "spy(k) = 'x'", rows.columns, python_functions=True) is None
    assert objection(session, "spy(k) = 'x'", rows.columns) == "it calls spy, which is no built-in function"
    for text in ("leak(k) = 'x'", "lcase(k) = 'x'", "k = (SELECT max(v) FROM secret)"):
        assert objection(session, text, rows.columns, python_functions=True) is not None


# ---- a table whose folder a stranger wrote


@pytest.fixture
def table(spark, tmp_path):
    root = str(tmp_path / "t")
    write_deltalake(root, pa.table({"k": ["a", "b"] * 50, "n": range(100)}))
    load(spark, root, min_size=10, by="k")
    append(spark, root, spark.createDataFrame([("c", i) for i in range(100, 200)], "k string, n bigint"))
    return root


def forge(root: str, **changes: object) -> str:
    """Write a layout as a stranger would, newer than all others."""
    folder = locate(root).child("_sidestep")
    (newest,) = list(LAYOUTS.objects(folder).items())[-1:]
    name = f"_layout-00000099-{'0' * 32}.json"
    Path(root, "_sidestep", name).write_text(json.dumps({**newest[1], **changes}))
    return name


@pytest.mark.parametrize(
    "by", ["concat(k, (SELECT max(v) FROM secret))", "spy(k)", "concat(k, session_secret)", "current_date()"]
)
def test_a_strangers_layout_reads_nothing_of_the_users(spark, table, by):
    name = forge(table, by=by)
    before = DeltaTable(table).version()
    spark.createDataFrame([("hunter2",)], "v string").createOrReplaceTempView("secret")
    spark.udf.register("spy", lambda k: f"{k} hunter2")
    spark.sql("DECLARE OR REPLACE VARIABLE session_secret STRING DEFAULT 'hunter2'")
    try:
        for job in (lambda: optimize(spark, table, all=True), lambda: load(spark, table, min_size=10)):
            with pytest.raises(SidestepError, match="refused") as problem:
                job()
            assert name in str(problem.value)
            assert by in str(problem.value)
        assert DeltaTable(table).version() == before
        assert not any("hunter2" in (unit or "") for unit in open_index(table).units)
        optimize(spark, table, all=True, by="n % 3")  # the user's own words replace the stranger's
        assert DeltaTable(table).version() > before
        assert sidestep.read(spark, table).count() == 200
    finally:
        spark.catalog.dropTempView("secret")
        spark.sql("DROP TEMPORARY VARIABLE session_secret")


def test_a_strangers_buckets_and_order_are_refused_too(spark, table):
    features = FeatureSet("t", (Feature((compare(column("n", LONG), "<", 50),), weight=3),))
    load(spark, table, features=features, min_size=10, by="k")
    folder = locate(table).child("_sidestep")
    spec = list(LAYOUTS.objects(folder).values())[-1]
    demand = {"features": [0], "ranges": [], "weight": 1.0}
    forge(table, **{**spec, "buckets": ["(SELECT 1)"], "demands": [demand], "demands_of": features.id})
    with pytest.raises(SidestepError, match=r"has a bucket .*a subquery"):
        load(spark, table, min_size=10)
    forge(table, **{**spec, "order": ["nope"]})
    append(spark, table, spark.createDataFrame([("c", 1)], "k string, n bigint"))
    with pytest.raises(SidestepError, match="orders rows by nope"):
        optimize(spark, table, all=True)


@pytest.mark.parametrize(
    "changes", [{"by": 5}, {"by": ["k"]}, {"order": "abc"}, {"buckets": [1]}, {"buckets": "k"}, {"surplus": 1}]
)
def test_a_layout_of_other_types_is_passed_over(spark, table, changes):
    forge(table, **changes)
    with pytest.warns(SidestepWarning, match="left out"):
        assert optimize(spark, table, all=True).rows >= 0


@pytest.mark.parametrize(
    "predicate",
    [
        Opaque("k = (SELECT max(v) FROM secret)", (column("k", STRING),), "0" * 64),
        Opaque("k = 'a') OR EXISTS (SELECT 1 FROM secret WHERE (1 = 1", (column("k", STRING),), "0" * 64),
        Opaque("java_method('java.lang.System', 'getenv', k) = 'x'", (column("k", STRING),), "0" * 64),
        Opaque("spy(k) = 'x'", (column("k", STRING),), "0" * 64),
        Match(MatchKind.LIKE, column("k", STRING), "a", "'"),
    ],
    ids=["subquery", "unbalanced", "reflection", "another function", "escape"],
)
def test_a_strangers_features_are_left_out(spark, predicate):
    spark.udf.register("spy", lambda k: f"{k} hunter2")
    spark.createDataFrame([("hunter2",)], "v string").createOrReplaceTempView("secret")
    schema = spark.createDataFrame([], "k string").schema
    try:
        with pytest.warns(SidestepWarning, match="left out"):
            checked = check_features(spark, FeatureSet("t", (Feature((predicate,)),)), schema)
    finally:
        spark.catalog.dropTempView("secret")
    assert len(checked.features) == 0


# ---- one answer


def test_functions_of_time_become_one_moment(spark):
    schema = spark.createDataFrame([], "d date, t timestamp").schema
    texts = [
        "d < current_date() - 30 AND t < current_timestamp",
        "now()",
        "localtimestamp()",
        "CURRENT_TIMESTAMP()",
        "unix_timestamp()",
        "'é😀' || current_date",
        "curdate()",
        "d > DATE '2020-01-01'",
    ]
    settled = settle(spark, texts, schema)
    assert not any("current" in text.lower() or "now()" in text for text in settled)
    assert settled[-1] == texts[-1]
    values = spark.range(1).select(*(f.expr(text) for text in settled[1:7])).collect()[0]
    now = datetime.datetime.now(datetime.UTC)
    assert values[0] == values[2]
    assert abs(values[3] - now.timestamp()) < 600
    assert values[4] == f"é😀{values[5]}"
    types = [spark.range(1).select(f.expr(text)).schema[0].dataType.simpleString() for text in settled[1:7]]
    assert types == ["timestamp", "timestamp_ntz", "timestamp", "bigint", "string", "date"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("d < DATE 'today'", "write current_date"),
        ("d < CAST('today' AS date)", "write current_date"),
        ("d < to_date('yesterday')", "write current_date"),
        ("rand() > 0.5", "one time and false the next"),
        ("roll(n) > 0", "one time and false the next"),
    ],
)
def test_a_condition_with_more_than_one_answer_is_refused(spark, tmp_path, where, said):
    root = str(tmp_path / "t")
    write_deltalake(root, pa.table({"n": range(10), "d": [datetime.date(2020, 1, 1)] * 10}))
    spark.range(3).withColumnRenamed("id", "n").createOrReplaceTempView("other")
    spark.udf.register("roll", f.udf(lambda n: n, "bigint").asNondeterministic())
    for job in (
        lambda: delete(spark, root, where),
        lambda: update(spark, root, {"n": "1"}, where),
        lambda: optimize(spark, root, where=where),
    ):
        with pytest.raises(SidestepError, match=said):
            job()
    assert DeltaTable(root).version() == 0


@pytest.mark.parametrize("where", ["n = (SELECT max(n) FROM other)", "n IN (SELECT n FROM other)", "EXISTS (SELECT 1)"])
def test_what_optimize_takes_has_no_subquery(spark, tmp_path, where):
    root = str(tmp_path / "t")
    write_deltalake(root, pa.table({"n": range(10)}))
    with pytest.raises(SidestepError, match=r"has a subquery.*Run it first"):
        optimize(spark, root, where=where)


@pytest.mark.parametrize("value", ["CAST(rand() AS bigint)", "unix_date(DATE 'now')"])
def test_a_value_with_more_than_one_answer_is_refused(spark, tmp_path, value):
    root = str(tmp_path / "t")
    write_deltalake(root, pa.table({"n": range(10)}))
    with pytest.raises(SidestepError):
        update(spark, root, {"n": value}, "n = 1")
    assert DeltaTable(root).version() == 0


def test_rows_are_deleted_and_stamped_by_one_moment(spark, tmp_path):
    root = str(tmp_path / "t")
    today = datetime.datetime.now(datetime.UTC).date()
    days = [today - datetime.timedelta(i) for i in range(0, 100, 10)]
    stamps = pa.array([None] * 10, pa.timestamp("us", "UTC"))
    write_deltalake(root, pa.table({"n": range(10), "d": days, "t": stamps, "u": stamps}))
    assert delete(spark, root, "d < current_date() - 45").rows == 5
    report = update(spark, root, {"t": "current_timestamp()", "u": "now()"}, "d <= current_date AND n >= 2")
    assert report.rows == 3
    found = {row["n"]: (row["t"], row["u"]) for row in DeltaTable(root).to_pyarrow_table().to_pylist()}
    assert sorted(found) == [0, 1, 2, 3, 4]
    moments = {moment for n in (2, 3, 4) for moment in found[n]}
    assert len(moments) == 1
    assert found[0] == (None, None)
