"""Someone else's query: it reads the tables it is given, or it is refused before anything of it is evaluated."""

from __future__ import annotations

import pytest

import sidestep
from tests.spark.tables import write_file

ALLOWED = [
    "SELECT count(*) FROM t",
    "SELECT k, rank() OVER w FROM t WINDOW w AS (ORDER BY k)",
    "WITH a AS (SELECT * FROM t) SELECT * FROM a JOIN T b USING (k) WHERE a.k IN (SELECT max(k) FROM t)",
    "SELECT * FROM (VALUES (1, 'x')) AS v(a, b) UNION ALL SELECT 2, 'y'",
    "SELECT * FROM t LATERAL VIEW explode(array(1, 2)) e AS x ORDER BY 1 LIMIT 3",
    "SELECT * FROM range(3)",
    "SELECT base64('a'), date_trunc('MONTH', DATE '2024-01-31'), CASE WHEN true THEN 1 END",
    "SELECT k FROM t GROUP BY k HAVING count(*) > 0",
    "SELECT * FROM t PIVOT (count(s) FOR k IN (1, 2))",
    "SELECT 1 EXCEPT SELECT 2",
    "SELECT /*+ BROADCAST(b) */ a.k FROM t a JOIN t b ON a.k = b.k",
]
REFUSED = [
    "DROP TABLE t",
    "DROP VIEW t",
    "DELETE FROM t",
    "UPDATE t SET k = 1",
    "MERGE INTO t USING t AS s ON t.k = s.k WHEN MATCHED THEN DELETE",
    "INSERT INTO t SELECT * FROM t",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT 1",
    "CREATE TABLE x AS SELECT 1",
    "CREATE TEMP VIEW x AS SELECT 1",
    "CREATE TEMPORARY FUNCTION f AS 'a.B'",
    "SET a = b",
    "RESET",
    "USE default",
    "CACHE TABLE t",
    "REFRESH TABLE t",
    "ANALYZE TABLE t COMPUTE STATISTICS",
    "ADD JAR '/tmp/x.jar'",
    "LIST JARS",
    "SHOW TABLES",
    "DESCRIBE t",
    "EXPLAIN SELECT 1",
    "BEGIN SELECT 1; END",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "SELECT * FROM IDENTIFIER('other')",
    "SELECT * FROM IDENTIFIER('parquet.`/etc`')",
    "SELECT * FROM IDENTIFIER('o' || 'ther')",
    "SELECT TRANSFORM(k) USING 'cat' FROM t",
    "SELECT * FROM parquet.`/etc`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM spark_catalog.default.t",
    "SELECT * FROM global_temp.t",
    "SELECT * FROM hidden",
    "SELECT * FROM hidden JOIN (WITH hidden AS (SELECT 1) SELECT * FROM hidden)",
    "SELECT k FROM t WHERE k IN (SELECT k FROM hidden)",
    "SELECT reflect('java.lang.System', 'getProperty', 'user.home')",
    "SELECT java_method('java.lang.System', 'getProperty', 'user.home')",
    "WITH a AS (VALUES (reflect('java.lang.System', 'getProperty', 'user.home'))) SELECT * FROM a",
    "SELECT rank() OVER w FROM t WINDOW w AS (ORDER BY reflect('java.lang.System', 'getProperty', 'user.home'))",
    "SELECT (SELECT reflect('java.lang.System', 'getProperty', 'user.home'))",
    "SELECT xpath_string('<a/>', 'a')",
    "SELECT spark_catalog.default.f(1)",
    "SELECT mine(k) FROM t",
    "SELECT * FROM no_such_function(1)",
]


@pytest.fixture(scope="module")
def path(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("query")
    write_file(root / "t" / "part.parquet", {"k": [1, 2, 3], "s": ["a", "b", "c"]})
    return str(root / "t")


@pytest.fixture
def session(spark, path):
    made = spark.newSession()
    made.read.parquet(path).createOrReplaceTempView("hidden")
    made.udf.register("mine", lambda k: k)
    return made


@pytest.mark.parametrize("statement", ALLOWED)
def test_queries_are_run(session, path, statement):
    mine = sidestep.query(session, statement, tables={"t": path}).collect()
    assert sorted(map(str, mine)) == sorted(map(str, session.sql(statement).collect()))


@pytest.mark.parametrize("statement", REFUSED)
def test_anything_else_is_refused(session, path, statement):
    with pytest.raises(sidestep.SidestepError):
        sidestep.query(session, statement, tables={"t": path})


def test_a_schema_is_no_table_to_read(session, path):
    schema = session.read.parquet(path).schema
    with pytest.raises(sidestep.SidestepError, match="needs the path"):
        sidestep.query(session, "SELECT * FROM t", tables={"t": schema})


def test_a_query_of_too_many_parts(session):
    with pytest.raises(sidestep.SidestepError, match="too many"):
        sidestep.query(session, f"SELECT 1 IN ({', '.join(['1'] * 21_000)})")
